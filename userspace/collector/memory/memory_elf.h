/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of code and variables in the files that processes mapped. */
#ifndef LOCKLINE_MEMORY_ELF_H
#define LOCKLINE_MEMORY_ELF_H

#include <stddef.h>

#include "memory/memory_symbols.h"

/* An object of user space, opened once for all of its names. */
struct memory_elf;

/* NULL: there is no file, or it is not this one. */
struct memory_elf *memory_elf_open(const struct memory_symbols *symbols, const struct memory_object *object);
void memory_elf_close(struct memory_elf *elf);
/* unit: an offset in the file.  name lives until the next call; line is "" if not known.  -ENOENT: no symbol. */
int memory_elf_code(struct memory_elf *elf, __u64 unit, const char **name, __u64 *offset, char *line, size_t size);
int memory_elf_variable(struct memory_elf *elf, __u64 unit, const char **name, __u64 *offset);

#endif /* LOCKLINE_MEMORY_ELF_H */
