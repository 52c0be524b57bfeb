// SPDX-License-Identifier: GPL-2.0-or-later
/* bpf_left: one line for each BPF program and link that the kernel still has, for guests without bpftool. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/bpf.h>

#include "workload.h"

static void list(const char *what, int command)
{
	union bpf_attr attr = {};

	while (!syscall(SYS_bpf, command, &attr, sizeof(attr))) {
		printf("%s %u\n", what, attr.next_id);
		attr.start_id = attr.next_id;
	}
	if (errno != ENOENT)
		die("bpf: %s", strerror(errno));
}

int main(void)
{
	list("program", BPF_PROG_GET_NEXT_ID);
	list("link", BPF_LINK_GET_NEXT_ID);
	return 0;
}
