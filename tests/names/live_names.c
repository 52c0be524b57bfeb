// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Names locks whose addresses it finds by walking the kernel's objects from its
 * own task, and prints one line for each: what it is, and what it was called.
 * The walk reads memory by member offsets alone, as a debugger would; of the
 * code under test it shares the reader and the types, not the naming.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lockline.skel.h"
#include "names/lock_names.h"
#include "names/lock_types.h"

struct live {
	struct lock_names *names;
	struct symbols *symbols;
	struct types *types;
	__u64 task;
};

static __u64 read_word(const struct live *live, __u64 address)
{
	__u64 value = 0;

	if (resolver_read(&live->names->resolver, address, &value, sizeof(value)))
		fprintf(stderr, "cannot read kernel memory at 0x%llx\n", address);
	return value;
}

static __u64 member(const struct live *live, __u64 object, const char *type, const char *name)
{
	__u32 offset = 0, ignored, id = types_struct(live->names->types, type);

	if (!id || !types_member(live->names->types, id, name, &offset, &ignored)) {
		fprintf(stderr, "this kernel has no %s.%s\n", type, name);
		return 0;
	}
	return object + offset;
}

static __u64 follow(const struct live *live, __u64 object, const char *type, const char *name)
{
	__u64 address = member(live, object, type, name);

	return address ? read_word(live, address) : 0;
}

static __u64 function(const struct live *live, const char *name)
{
	__u64 address = 0;

	symbols_address(live->symbols, name, &address);
	return address ? address + 8 : 0;
}

static void show(const struct live *live, const char *what, struct lock_hint hint)
{
	struct timespec begin, end;
	struct lock_name name;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	lock_names_resolve(live->names, &hint, &name);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%s\t%s\t%s\t%s\t%ld\n", what, name.name, name.instance, name_source_names[name.source],
	       (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec);
}

static void show_lock(const struct live *live, const char *what, __u64 address, enum lock_kind kind)
{
	show(live, what, (struct lock_hint){.address = address, .kind = kind});
}

static void show_from(const struct live *live, const char *what, __u64 address, enum lock_kind kind, const char *site)
{
	__u64 frames[] = {function(live, "__traceiter_contention_begin"), function(live, "mutex_lock"),
			  function(live, site)};

	show(live, what, (struct lock_hint){.address = address, .kind = kind, .frames = frames, .frame_count = 3});
}

/* current_task lay in struct pcpu_hot from 6.2 to 6.14. */
static bool find_current(const struct types *types, __u32 *offset)
{
	__u32 hot, ignored;

	if (types_percpu_offset(types, "current_task", offset))
		return true;
	if (!types_percpu_offset(types, "pcpu_hot", &hot) ||
	    !types_member(types, types_struct(types, "pcpu_hot"), "current_task", offset, &ignored))
		return false;
	*offset += hot;
	return true;
}

/* This thread runs on the CPU: the CPU's copy of current_task must be its task. */
static int show_run_queues(struct live *live)
{
	__u32 current, queue;
	cpu_set_t set;

	if (!find_current(live->names->types, &current) ||
	    !types_percpu_offset(live->names->types, "runqueues", &queue)) {
		fprintf(stderr, "no current_task among the per-CPU variables\n");
		return -ENOENT;
	}
	for (unsigned int cpu = 0; cpu < live->names->percpu.cpus; cpu++) {
		__u64 base = live->names->percpu.bases[cpu];
		char what[32];
		__s32 pid = 0;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			continue;
		live->task = read_word(live, base + current);
		resolver_read(&live->names->resolver, member(live, live->task, "task_struct", "pid"), &pid,
			      sizeof(pid));
		if (pid != getpid()) {
			fprintf(stderr, "CPU %u: current_task has pid %d, not %d\n", cpu, pid, getpid());
			return -EINVAL;
		}
		snprintf(what, sizeof(what), "run queue %u", cpu);
		show_lock(live, what, member(live, base + queue, "rq", "__lock"), KIND_SPINLOCK);
	}
	return 0;
}

static __u64 file_of(const struct live *live, int fd)
{
	__u64 files = follow(live, live->task, "task_struct", "files");
	__u64 table = follow(live, files, "files_struct", "fdt");

	return read_word(live, follow(live, table, "fdtable", "fd") + fd * sizeof(__u64));
}

static void show_owned(const struct live *live, const char *what, enum lock_owner owner, const char *type,
		       const char *name, __u32 inner, enum lock_kind kind)
{
	__u32 offset = member(live, 0, type, name) + inner;

	show(live, what,
	     (struct lock_hint){.kind = kind,
				.owner = owner,
				.owner_offset = offset,
				.owner_id = owner == OWNER_TASK ? gettid() : getpid()});
}

static void show_task(const struct live *live)
{
	__u64 mm = follow(live, live->task, "task_struct", "mm");
	__u32 wait_lock = member(live, 0, "rw_semaphore", "wait_lock");

	show_lock(live, "task pi_lock", member(live, live->task, "task_struct", "pi_lock"), KIND_SPINLOCK);
	show_lock(live, "mm mmap_lock", member(live, mm, "mm_struct", "mmap_lock"), KIND_RWSEM_READ);
	show_lock(live, "mm mmap_lock inner", member(live, mm, "mm_struct", "mmap_lock") + wait_lock, KIND_SPINLOCK);
	show_owned(live, "owner mmap_lock", OWNER_MM, "mm_struct", "mmap_lock", 0, KIND_RWSEM_WRITE);
	show_owned(live, "owner mmap_lock inner", OWNER_MM, "mm_struct", "mmap_lock", wait_lock, KIND_SPINLOCK);
	show_owned(live, "owner pi_lock", OWNER_TASK, "task_struct", "pi_lock", 0, KIND_SPINLOCK);
	show_owned(live, "owner siglock", OWNER_SIGHAND, "sighand_struct", "siglock", 0, KIND_SPINLOCK);
	show_owned(live, "owner cred_guard_mutex", OWNER_SIGNAL, "signal_struct", "cred_guard_mutex", 0, KIND_MUTEX);
	show_owned(live, "owner file_lock", OWNER_FILES, "files_struct", "file_lock", 0, KIND_SPINLOCK);
}

/* What only a kernel with KALLSYMS_ALL tells. */
static void show_variables(const struct live *live)
{
	__u64 address;

	if (!symbols_have_data(live->symbols))
		return;
	if (!symbols_address(live->symbols, "tasklist_lock", &address))
		show_lock(live, "variable", address, KIND_RWLOCK_READ);
	if (!symbols_address(live->symbols, "node_data", &address))
		show_lock(live, "zone lock",
			  member(live, member(live, read_word(live, address), "pglist_data", "node_zones"), "zone",
				 "lock"),
			  KIND_SPINLOCK);
	if (!symbols_address(live->symbols, "root_mem_cgroup", &address)) {
		address = read_word(live, member(live, read_word(live, address), "mem_cgroup", "nodeinfo"));
		address = member(live, address, "mem_cgroup_per_node", "lruvec");
		show_from(live, "pages of a cgroup", member(live, address, "lruvec", "lru_lock"), KIND_SPINLOCK,
			  "folio_lruvec_lock_irqsave");
	}
}

static int show_files(const struct live *live)
{
	int pipe_fds[2] = {-1, -1}, sockets[2] = {-1, -1}, epoll = epoll_create1(0), directory = open("/", O_RDONLY);
	struct epoll_event event = {};
	int event_fd = eventfd(0, 0), memory = memfd_create("memory", 0);
	__u64 file, pipe_object, inode, sock, epoll_object, super;

	if (epoll < 0 || directory < 0 || event_fd < 0 || memory < 0 || pipe(pipe_fds) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return -errno;
	epoll_ctl(epoll, EPOLL_CTL_ADD, pipe_fds[0], &event);
	inode = follow(live, file_of(live, pipe_fds[0]), "file", "f_inode");
	pipe_object = follow(live, inode, "inode", "i_pipe");
	show_from(live, "pipe mutex", member(live, pipe_object, "pipe_inode_info", "mutex"), KIND_MUTEX,
		  function(live, "anon_pipe_write") ? "anon_pipe_write" : "pipe_write");
	show_from(live, "pipe rd_wait", member(live, pipe_object, "pipe_inode_info", "rd_wait"), KIND_SPINLOCK,
		  function(live, "anon_pipe_read") ? "anon_pipe_read" : "pipe_read");
	show_from(live, "pipe rd_wait, polled", member(live, pipe_object, "pipe_inode_info", "rd_wait"), KIND_SPINLOCK,
		  "poll_freewait");
	show_from(live, "eventfd, polled",
		  member(live, follow(live, file_of(live, event_fd), "file", "private_data"), "eventfd_ctx", "wqh"),
		  KIND_SPINLOCK, "poll_freewait");
	show_from(live, "pipe mutex, strange caller", member(live, pipe_object, "pipe_inode_info", "mutex"), KIND_MUTEX,
		  "vfs_read");

	file = file_of(live, directory);
	inode = follow(live, file, "file", "f_inode");
	show_lock(live, "directory inode", member(live, inode, "inode", "i_rwsem"), KIND_RWSEM_READ);
	super = follow(live, follow(live, file_of(live, memory), "file", "f_inode"), "inode", "i_sb");
	show_from(live, "inodes of a file system", member(live, super, "super_block", "s_inode_list_lock"),
		  KIND_SPINLOCK, "evict");
	show_from(live, "tmpfs",
		  member(live, follow(live, super, "super_block", "s_fs_info"), "shmem_sb_info", "stat_lock"),
		  KIND_SPINLOCK, "shmem_mknod");
	show_lock(live, "dentry lock",
		  member(live, read_word(live, member(live, file, "file", "f_path") + 8), "dentry", "d_lockref"),
		  KIND_SPINLOCK);

	epoll_object = follow(live, file_of(live, epoll), "file", "private_data");
	show_from(live, "epoll mutex", member(live, epoll_object, "eventpoll", "mtx"), KIND_MUTEX, "do_epoll_ctl");

	sock = follow(live, follow(live, file_of(live, sockets[0]), "file", "private_data"), "socket", "sk");
	show_lock(live, "unix socket", member(live, sock, "unix_sock", "lock"), KIND_SPINLOCK);
	return 0;
}

int main(void)
{
	struct live live = {};
	struct lockline_bpf *bpf = lockline_bpf__open();
	struct bpf_program *program;
	int err;

	if (!bpf)
		return 1;
	bpf_object__for_each_program(program, bpf->obj)
		bpf_program__set_autoload(program, !strncmp(bpf_program__name(program), "resolve_", 8));
	err = lockline_bpf__load(bpf);
	if (!err)
		err = symbols_open(&live.symbols);
	if (!err)
		err = types_open(&live.types);
	if (!err)
		err = lock_names_open(&live.names, live.symbols, live.types, bpf);
	if (!err)
		err = show_run_queues(&live);
	if (!err) {
		show_task(&live);
		show_variables(&live);
		err = show_files(&live);
	}
	lock_names_close(live.names);
	types_close(live.types);
	symbols_close(live.symbols);
	lockline_bpf__destroy(bpf);
	return err ? 1 : 0;
}
