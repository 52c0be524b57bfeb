/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Global locks of a kernel without KALLSYMS_ALL, by the code of functions that
 * take them: rtnl_lock() and rtnl_trylock() both load the address of rtnl_mutex.
 */
#ifndef LOCKLINE_CODE_LOCKS_H
#define LOCKLINE_CODE_LOCKS_H

#include <stddef.h>
#include <linux/types.h>

struct resolver;
struct symbols;

#define CODE_LOCKS 16
/* Read from a function's begin. */
#define CODE_BYTES 160

struct code_locks {
	struct {
		__u64 address;
		const char *name;
	} lock[CODE_LOCKS];
	int count;
};

/* Never fails: what the code does not say without doubt is left out.  Data of the image lies in begin .. end. */
void code_locks_open(struct code_locks *locks, const struct resolver *resolver, const struct symbols *symbols,
		     __u64 begin, __u64 end);
/* NULL: not known. */
const char *code_locks_find(const struct code_locks *locks, __u64 address);
/* Names that such locks can get, found or not. */
void code_locks_each_name(void (*visit)(const char *name, void *data), void *data);
/*
 * Addresses in begin .. end that code loads into the register of a call's first
 * argument, at most max; returns their number.  address: of the code.
 */
int code_arguments_x86(const __u8 *code, size_t size, __u64 address, __u64 begin, __u64 end, __u64 *out, int max);
int code_arguments_arm64(const __u8 *code, size_t size, __u64 address, __u64 begin, __u64 end, __u64 *out, int max);

#endif /* LOCKLINE_CODE_LOCKS_H */
