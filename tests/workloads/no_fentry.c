// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * no_fentry COMMAND...: runs a command where the kernel refuses fentry, as one does that is built without it.
 *
 * Whoever looks whether fentry is to be had attaches to bpf_fentry_test1(), which nothing calls; here it has as many
 * programs as a function can have (38) before the command begins.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "workload.h"

#define MOST_PROGRAMS 1000

static int no_messages(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

/* 0, or negative errno; the link lasts as long as this process, and what it becomes. */
static int attach_one(int target)
{
	struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY, .attach_btf_id = target);
	int program = bpf_prog_load(BPF_PROG_TYPE_TRACING, "nothing", "GPL", nothing,
				    sizeof(nothing) / sizeof(nothing[0]), &options);
	int link;

	if (program < 0)
		die("cannot load a program: %s", strerror(errno));
	link = bpf_link_create(program, 0, BPF_TRACE_FENTRY, NULL);
	if (link < 0)
		return -errno;
	/* Links and programs are closed on exec: the command is to inherit this one. */
	return dup(link) < 0 ? -errno : 0;
}

int main(int argc, char **argv)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int target = btf ? btf__find_by_name_kind(btf, "bpf_fentry_test1", BTF_KIND_FUNC) : -1, error = 0, count = 0;

	libbpf_set_print(no_messages);
	if (argc < 2)
		die("usage: no_fentry COMMAND...");
	if (target < 0)
		die("no bpf_fentry_test1() in BTF");
	while (!error && count < MOST_PROGRAMS) {
		error = attach_one(target);
		count += !error;
	}
	if (error != -E2BIG)
		die("%d programs, and then: %s", count, strerror(-error));
	fprintf(stderr, "no_fentry: %d programs are as many as a function can have\n", count);
	execvp(argv[1], argv + 1);
	die("%s: %s", argv[1], strerror(errno));
}
