// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * slow_path_counter: entries of the locks' slow paths since it was
 * attached, by fentry, else by kprobe; "read" prints them, and so does the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "slow_path_counter.h"
#include "slow_path_counter.skel.h"
#include "bpf_misses.h"
#include "workload.h"

static int no_messages(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

static bool has_function(const struct btf *btf, const char *name)
{
	return btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;
}

static struct bpf_link *links[FUNCTIONS];

static void detach(void)
{
	for (int i = 0; i < FUNCTIONS; i++) {
		bpf_link__destroy(links[i]);
		links[i] = NULL;
	}
}

/* NULL if the kernel does not take it: errno says why. */
static struct slow_path_counter_bpf *try(const struct btf *btf, const char *spin, bool kprobe)
{
	struct slow_path_counter_bpf *skeleton = slow_path_counter_bpf__open();
	struct bpf_program *programs[FUNCTIONS] = {};
	const char *const functions[FUNCTIONS] = {
		[SPIN] = spin,
		[PARAVIRT_SPIN] = "__pv_queued_spin_lock_slowpath",
		[READ] = "queued_read_lock_slowpath",
		[RWSEM_WRITE] = "rwsem_down_write_slowpath",
		[PERCPU_WRITE] = "percpu_down_write",
	};

	if (!skeleton)
		die("cannot open the BPF object: %s", strerror(errno));
	programs[SPIN] = kprobe ? skeleton->progs.spin_by_kprobe : skeleton->progs.spin;
	programs[RWSEM_WRITE] = kprobe ? skeleton->progs.rwsem_write_by_kprobe : skeleton->progs.rwsem_write;
	programs[PERCPU_WRITE] = kprobe ? skeleton->progs.percpu_write_by_kprobe : skeleton->progs.percpu_write;
	programs[PARAVIRT_SPIN] = kprobe ? NULL : skeleton->progs.paravirt_spin;
	programs[READ] = kprobe ? NULL : skeleton->progs.read;
	for (int i = 0; i < FUNCTIONS; i++) {
		if (!has_function(btf, functions[i]))
			programs[i] = NULL;
		if (!programs[i])
			continue;
		bpf_program__set_autoload(programs[i], true);
		if (!kprobe)
			bpf_program__set_attach_target(programs[i], 0, functions[i]);
	}
	if (slow_path_counter_bpf__load(skeleton))
		goto out;
	for (int i = 0; i < FUNCTIONS; i++) {
		if (!programs[i])
			continue;
		links[i] = kprobe ? bpf_program__attach_kprobe(programs[i], false, functions[i])
				  : bpf_program__attach(programs[i]);
		if (!links[i])
			goto out;
	}
	return skeleton;
out:
	detach();
	slow_path_counter_bpf__destroy(skeleton);
	return NULL;
}

static __u64 entries(const struct slow_path_counter_bpf *skeleton, __u32 function)
{
	int cpu, cpus = libbpf_num_possible_cpus();
	__u64 *values = calloc(cpus, sizeof(*values));
	__u64 sum = 0;

	if (!values || bpf_map_lookup_elem(bpf_map__fd(skeleton->maps.entries), &function, values))
		die("cannot read the counters: %s", strerror(errno));
	for (cpu = 0; cpu < cpus; cpu++)
		sum += values[cpu];
	free(values);
	return sum;
}

static void print_counts(const struct slow_path_counter_bpf *skeleton)
{
	printf("{\"event\": \"counts\", \"spin\": %llu, \"paravirt_spin\": %llu, \"read\": %llu, \"rwsem_write\": "
	       "%llu, "
	       "\"percpu_write\": %llu, \"misses\": %llu}\n",
	       entries(skeleton, SPIN), entries(skeleton, PARAVIRT_SPIN), entries(skeleton, READ),
	       entries(skeleton, RWSEM_WRITE), entries(skeleton, PERCPU_WRITE), object_misses(skeleton->obj));
}

int main(void)
{
	struct slow_path_counter_bpf *skeleton;
	struct btf *btf = btf__load_vmlinux_btf();
	const char *function, *source = "fentry";
	struct command command;

	if (!btf)
		die("the kernel has no BTF");
	function = has_function(btf, "native_queued_spin_lock_slowpath") ? "native_queued_spin_lock_slowpath"
									 : "queued_spin_lock_slowpath";
	libbpf_set_print(no_messages);
	skeleton = try(btf, function, false);
	if (!skeleton) {
		source = "kprobe";
		skeleton = try(btf, function, true);
	}
	if (!skeleton)
		die("cannot attach to %s(), neither by fentry nor by kprobe: %s", function, strerror(errno));
	commands_open();
	printf("{\"event\": \"ready\", \"pid\": %d, \"function\": \"%s\", \"source\": \"%s\"}\n", getpid(), function,
	       source);
	while (next_command(&command))
		print_counts(skeleton);
	detach();
	print_counts(skeleton);
	slow_path_counter_bpf__destroy(skeleton);
	btf__free(btf);
	return 0;
}
