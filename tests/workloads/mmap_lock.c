// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * mmap_lock: known waits for the mmap_lock of a process (rwsem, write side).  A
 * BPF iterator over the mappings of a child holds the lock as a reader; the child
 * calls mmap() meanwhile.  (A userfaultfd fault lets mmap_lock go before it waits.)
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "mmap_lock.skel.h"
#include "workload.h"

#define DEADLINE_NS (10 * NSEC_PER_SEC)

/* Shared with the child. */
struct call {
	__u64 entered_ns;
	__u64 returned_ns;
};

static volatile struct call *call;

/* Maps a page for one byte that the parent sends, unmaps it for the next. */
static void serve_calls(int go, int done)
{
	char byte;
	void *page;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(go, &byte, 1) == 1) {
		call->entered_ns = now_ns();
		page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		call->returned_ns = now_ns();
		/* Not before the iterator has ended: this takes the lock too. */
		if (page == MAP_FAILED || write(done, &byte, 1) != 1 || read(go, &byte, 1) != 1)
			_exit(1);
		if (munmap(page, 4096) || write(done, &byte, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

static void *run_iterator(void *argument)
{
	char buffer[64];

	/* It keeps its CPU while it holds the lock: away from us and the child. */
	pin_to_cpu(get_nprocs() - 1);
	while (read(*(int *)argument, buffer, sizeof(buffer)) > 0)
		continue;
	return NULL;
}

static void hold_once(struct mmap_lock_bpf *skeleton, pid_t child, int go, int done, __u64 hold_ns)
{
	union bpf_iter_link_info info = {.task.pid = child};
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info, .link_info_len = sizeof(info));
	__u64 seen_ns, released_ns, deadline = now_ns() + DEADLINE_NS;
	struct bpf_link *link;
	pthread_t thread;
	char byte = 0;
	int iterator;

	skeleton->bss->holding_ns = 0;
	skeleton->bss->release = 0;
	link = bpf_program__attach_iter(skeleton->progs.hold_mmap_lock, &options);
	if (!link)
		die("cannot make the iterator: %s", strerror(errno));
	iterator = bpf_iter_create(bpf_link__fd(link));
	if (iterator < 0 || pthread_create(&thread, NULL, run_iterator, &iterator))
		die("cannot run the iterator: %s", strerror(errno));
	while (!*(volatile __u64 *)&skeleton->bss->holding_ns)
		if (now_ns() > deadline)
			die("the iterator saw no mapping within 10 s");
	if (write(go, &byte, 1) != 1)
		die("the child is gone");
	wait_until_blocked(child, child, SYS_mmap);
	seen_ns = now_ns();
	wait_until_ns(seen_ns + hold_ns);
	released_ns = now_ns();
	*(volatile int *)&skeleton->bss->release = 1;
	pthread_join(thread, NULL);
	if (skeleton->bss->gave_up)
		die("the lock was held for too long");
	if (read(done, &byte, 1) != 1 || write(go, &byte, 1) != 1 || read(done, &byte, 1) != 1)
		die("the child is gone");
	printf("[%llu, %llu]", released_ns - seen_ns, call->returned_ns - call->entered_ns);
	close(iterator);
	bpf_link__destroy(link);
}

int main(void)
{
	struct mmap_lock_bpf *skeleton = mmap_lock_bpf__open_and_load();
	struct command command;
	int go[2], done[2];
	__u64 round;
	pid_t child;

	if (get_nprocs() < 2)
		die("needs two CPUs");
	pin_to_cpu(0);
	if (!skeleton)
		die("cannot load the iterator: %s", strerror(errno));
	call = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (call == MAP_FAILED || pipe(go) || pipe(done))
		die("out of memory");
	commands_open();
	child = fork();
	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child) {
		close(go[1]);
		serve_calls(go[0], done[1]);
	}
	wait_until_blocked(child, child, SYS_read);
	printf("{\"event\": \"ready\", \"pid\": %d, \"waiter\": %d}\n", getpid(), child);
	while (next_command(&command)) {
		printf("{\"event\": \"waits\", \"waits\": [");
		for (round = 0; round < command.count; round++) {
			if (round)
				printf(", ");
			hold_once(skeleton, child, go[1], done[0], command.microseconds * NSEC_PER_USEC);
		}
		printf("]}\n");
	}
	close(go[1]);
	waitpid(child, NULL, 0);
	mmap_lock_bpf__destroy(skeleton);
	return 0;
}
