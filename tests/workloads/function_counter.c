// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * function_counter FUNCTION: its calls, and the turns of wait_task_inactive(),
 * since it was attached; "read" prints them, and so does the end.  The function
 * is counted by fentry, else by kprobe; "none" counts turns alone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "function_counter.skel.h"
#include "bpf_misses.h"
#include "workload.h"

static int no_messages(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

/* NULL if the kernel does not take it: errno says why. */
static struct function_counter_bpf *try(const char *function, bool kprobe, struct bpf_link **link)
{
	struct function_counter_bpf *skeleton = function_counter_bpf__open();
	struct bpf_program *program;

	if (!skeleton)
		die("cannot open the BPF object: %s", strerror(errno));
	program = kprobe ? skeleton->progs.call_by_kprobe : skeleton->progs.call;
	if (!function)
		program = NULL;
	if (program) {
		bpf_program__set_autoload(program, true);
		if (!kprobe)
			bpf_program__set_attach_target(program, 0, function);
	}
	if (!function_counter_bpf__load(skeleton)) {
		if (program)
			*link = kprobe ? bpf_program__attach_kprobe(program, false, function)
				       : bpf_program__attach(program);
		if ((!program || *link) && bpf_program__attach(skeleton->progs.turn))
			return skeleton;
	}
	function_counter_bpf__destroy(skeleton);
	return NULL;
}

static void print_counts(const struct function_counter_bpf *skeleton)
{
	printf("{\"event\": \"counts\", \"calls\": %llu, \"turns\": %llu, \"misses\": %llu, \"ns\": %llu}\n",
	       skeleton->bss->calls, skeleton->bss->turns, object_misses(skeleton->obj), now_ns());
}

int main(int argc, char **argv)
{
	const char *function = argc == 2 && strcmp(argv[1], "none") ? argv[1] : NULL, *source = "fentry";
	struct function_counter_bpf *skeleton;
	struct bpf_link *link = NULL;
	struct command command;

	if (argc != 2)
		die("usage: function_counter FUNCTION|none");
	libbpf_set_print(no_messages);
	skeleton = try(function, false, &link);
	if (!skeleton) {
		source = "kprobe";
		skeleton = try(function, true, &link);
	}
	if (!skeleton)
		die("cannot attach to %s(), neither by fentry nor by kprobe: %s", argv[1], strerror(errno));
	commands_open();
	printf("{\"event\": \"ready\", \"pid\": %d, \"source\": \"%s\"}\n", getpid(), source);
	while (next_command(&command))
		print_counts(skeleton);
	bpf_link__destroy(link);
	print_counts(skeleton);
	function_counter_bpf__destroy(skeleton);
	return 0;
}
