// SPDX-License-Identifier: GPL-2.0
/*
 * A value is handed from the entry of a function to its exit, by a place of the CPU's: the programs of a wait do so.
 * And a program at the exit alone, which hands nothing on.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define CPUS 64
#define LINE 8

__u64 places[CPUS * LINE];
__u64 runs;

SEC("?fentry/__task_pid_nr_ns")
int pair_entry(void *context)
{
	places[(bpf_get_smp_processor_id() & (CPUS - 1)) * LINE] = 1;
	return 0;
}

SEC("?fexit/__task_pid_nr_ns")
int pair_exit(void *context)
{
	runs += places[(bpf_get_smp_processor_id() & (CPUS - 1)) * LINE];
	return 0;
}

SEC("?fexit/__task_pid_nr_ns")
int exit_alone(void *context)
{
	runs++;
	return 0;
}

char LICENSE[] SEC("license")
= "GPL";
