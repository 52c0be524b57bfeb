/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The few of the kernel's types that programs are fitted to. */
#ifndef LOCKLINE_CORE_TYPES_H
#define LOCKLINE_CORE_TYPES_H

struct btf;
struct types;

/*
 * Writes BTF to fd: the kernel's types that have the names of the programs' types, with all that they hold.  libbpf
 * (btf_custom_path) then fits the programs as by the kernel's own BTF: there it compares 100,000 names for each type.
 * 0 or a negative errno.
 */
int core_types_write(const struct types *kernel, const struct btf *programs, int fd);

#endif /* LOCKLINE_CORE_TYPES_H */
