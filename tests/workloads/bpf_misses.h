/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs that the kernel skipped: a program that interrupts itself on its CPU, or one at a function that is preempted. */
#ifndef BPF_MISSES_H
#define BPF_MISSES_H

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "workload.h"

static inline __u64 program_misses(const struct bpf_program *program)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
		die("cannot read the program's figures: %s", strerror(errno));
	return info.recursion_misses;
}

/* Of all programs that were loaded. */
static inline __u64 object_misses(const struct bpf_object *object)
{
	struct bpf_program *program;
	__u64 sum = 0;

	bpf_object__for_each_program(program, object)
	{
		if (bpf_program__autoload(program))
			sum += program_misses(program);
	}
	return sum;
}

#endif /* BPF_MISSES_H */
