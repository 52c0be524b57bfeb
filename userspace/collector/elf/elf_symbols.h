/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is at an offset of an ELF file: code, or a variable.  Reads the file: of others' files in the helper alone. */
#ifndef LOCKLINE_ELF_SYMBOLS_H
#define LOCKLINE_ELF_SYMBOLS_H

#include <stdbool.h>
#include <elfutils/libdwfl.h>
#include <linux/types.h>

/* The address of an offset; with_bss: of what can be written, also behind the file's part of a segment.  -ENOENT. */
int elf_symbols_address(Dwfl_Module *module, __u64 unit, bool with_bss, __u64 *out);
/* name lives as long as the module; -ENOENT: nothing of that kind is there. */
int elf_symbols_find(Dwfl_Module *module, __u64 address, bool variable, const char **name, __u64 *offset);

#endif /* LOCKLINE_ELF_SYMBOLS_H */
