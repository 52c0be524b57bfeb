// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * held_lock MODE [--hold-us N] [--count N] [--waiters N] [--by-interrupt]: kernel locks that are held for a known
 * time, without a kernel module.
 *
 * A BPF program stops one task, the holder, in a kernel function that is called with the
 * lock held, until all waiters have said (from user space, one instruction before
 * the system call) that they go for it, and for the hold time after that.  So a
 * waiter waits for the hold time, less its way into the kernel.
 *
 * Mode futex-retake takes and drops a futex bucket's lock RETAKES times in one system call, holding it for the hold
 * time each time, and RETAKES - 1 times more for next to nothing: the truth of who overtakes a waiter, and how
 * often.  With --by-interrupt an interrupt of the holder's CPU to itself ends each hold: what relieves the waiter.
 *
 * As JSON: {"event": "ready", ...} with the threads, and at the end {"event": "holds", ...}
 * with [held_ns, after_going_ns] of each hold and, of each waiter, [going_ns, waited_ns]:
 * from its word to the end of the hold (of a round's first), and to its return from the system call; "log" has [begin, end,
 * interrupt] of each hold and "rounds" the [end of the system call] of each round, CLOCK_MONOTONIC.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/futex.h>

#include "held_lock.h"
#include "held_lock.skel.h"
#include "workload.h"

#define MOST_WAITERS 8
#define CGROUP_PROCS "/sys/fs/cgroup/cgroup.procs"
#define TRIES        1000

struct waiter {
	pthread_t thread;
	__u32 tid;
	int cpu, file;
	struct turn {
		__u64 going_ns, back_ns;
	} * turns;
};

#define RETAKES 16

static struct held_lock_bpf *skeleton;
static volatile bool ending;
static unsigned long count = 100;
static int file = -1, word;
static bool by_interrupt;

static void write_byte(int to)
{
	if (pwrite(to, "x", 1, 0) != 1)
		die("cannot write: %s", strerror(errno));
}

/* A file of the current directory, which must be in memory: its inode's rwsem. */
static int open_file(void)
{
	char name[64];
	int opened;

	snprintf(name, sizeof(name), "held_lock.%d", getpid());
	opened = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (opened < 0)
		die("%s: %s", name, strerror(errno));
	return opened;
}

static void open_inode(struct waiter *waiter)
{
	waiter->file = open_file();
}

static void hold_inode(void)
{
	write_byte(file);
}

static void wait_for_inode(struct waiter *waiter)
{
	write_byte(waiter->file);
}

/* The holder wakes it; a bucket without waiters is not even locked by who wakes. */
static pthread_t sleeping_thread;
static __u32 sleeper;

static void *sleep_in_bucket(void *argument)
{
	pin_to_cpu(0);
	__atomic_store_n(&sleeper, gettid(), __ATOMIC_RELEASE);
	while (!ending)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	return NULL;
}

static void start_sleeper(void)
{
	if (pthread_create(&sleeping_thread, NULL, sleep_in_bucket, NULL))
		die("cannot make a thread");
	while (!__atomic_load_n(&sleeper, __ATOMIC_ACQUIRE))
		;
}

static void stop_sleeper(void)
{
	__atomic_store_n(&word, 2, __ATOMIC_RELEASE);
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	pthread_join(sleeping_thread, NULL);
}

static void hold_bucket(void)
{
	wait_until_blocked(getpid(), sleeper, SYS_futex);
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* A wait for a value that the word does not have takes the bucket's lock and returns. */
static void wait_for_bucket(struct waiter *waiter)
{
	if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0) != -1 || errno != EAGAIN)
		die("futex: %s", strerror(errno));
}

/* futex_waitv() takes the bucket's lock for each of its futexes; the value of the last is another, so that it takes them back. */
struct waitv {
	__u64 value, address;
	__u32 flags, reserved;
};

static void hold_and_retake(void)
{
	struct waitv futexes[RETAKES];

	for (int i = 0; i < RETAKES; i++)
		futexes[i] = (struct waitv){.value = i == RETAKES - 1,
					    .address = (unsigned long)&word,
					    .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG};
	if (syscall(SYS_futex_waitv, futexes, RETAKES, 0, NULL, 0) != -1 || errno != EAGAIN)
		die("futex_waitv: %s", strerror(errno));
}

/* A fork reads cgroup_threadgroup_rwsem; who moves a process writes it.  vfork(): no page of the waiters is to fault. */
static void hold_threadgroup(void)
{
	pid_t child = vfork();

	if (child < 0)
		die("vfork: %s", strerror(errno));
	if (!child)
		_exit(0);
	if (waitpid(child, NULL, 0) != child)
		die("waitpid: %s", strerror(errno));
}

static void open_cgroup(struct waiter *waiter)
{
	waiter->file = open(CGROUP_PROCS, O_WRONLY | O_CLOEXEC);
	if (waiter->file < 0)
		die(CGROUP_PROCS ": %s", strerror(errno));
}

static void wait_for_threadgroup(struct waiter *waiter)
{
	char pid[16];
	int length = snprintf(pid, sizeof(pid), "%d", getpid());

	if (write(waiter->file, pid, length) != length)
		die("cannot write to " CGROUP_PROCS ": %s", strerror(errno));
}

/* A bucket of a BPF hash map: a raw spinlock, since 6.15 a resilient one, whose first waiter is as unseen as others'. */
static int map;
static const __u32 map_key;

static void make_map(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);

	map = bpf_map_create(BPF_MAP_TYPE_HASH, "held_lock", sizeof(map_key), sizeof(__u32), 64, &options);
	if (map < 0)
		die("cannot make a BPF map: %s", strerror(errno));
}

static void hold_map(void)
{
	__u32 value = 0;

	if (bpf_map_update_elem(map, &map_key, &value, BPF_ANY))
		die("cannot write to a BPF map: %s", strerror(errno));
}

static void wait_for_map(struct waiter *waiter)
{
	bpf_map_delete_elem(map, &map_key);
}

static const struct mode {
	const char *name;
	const char *function; /* but for the last of another file of the kernel than its caller, so never inlined */
	void (*set_up)(void);
	void (*open)(struct waiter *waiter);
	void (*hold)(void);
	void (*wait)(struct waiter *waiter);
	void (*end)(void);
	__u32 holds; /* of a round; 0: one */
} modes[] = {
	{"futex-bucket", "wake_q_add_safe", start_sleeper, NULL, hold_bucket, wait_for_bucket, stop_sleeper, 0},
	{"inode-rwsem", "file_update_time", NULL, open_inode, hold_inode, wait_for_inode, NULL, 0},
	{"percpu-rwsem", "sched_cgroup_fork", NULL, open_cgroup, hold_threadgroup, wait_for_threadgroup, NULL, 0},
	{"bpf-bucket", "alloc_htab_elem", make_map, NULL, hold_map, wait_for_map, NULL, 0},
	{"futex-retake", "futex_get_value_locked", NULL, NULL, hold_and_retake, wait_for_bucket, NULL, RETAKES},
};

static const struct mode *mode;
static __u64 *round_ends;
static __u32 holds_of_round = 1;

/* An emulator that lets CPUs take turns gives the next one its turn here. */
static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

static void *run_waiter(void *argument)
{
	struct waiter *waiter = argument;
	__u64 seen = 0, now;

	pin_to_cpu(waiter->cpu);
	if (mode->open)
		mode->open(waiter);
	__atomic_store_n(&waiter->tid, gettid(), __ATOMIC_RELEASE);
	while (!ending) {
		now = __atomic_load_n(&skeleton->bss->rounds, __ATOMIC_ACQUIRE);
		if (now == seen) {
			relax();
			continue;
		}
		waiter->turns[now - 1].going_ns = now_ns();
		__atomic_fetch_add(&skeleton->bss->going, 1, __ATOMIC_RELEASE);
		mode->wait(waiter);
		waiter->turns[now - 1].back_ns = now_ns();
		seen = now;
		__atomic_fetch_add(&skeleton->bss->back, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static int no_messages(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

/* "fentry" or "kprobe" */
static const char *attach(void)
{
	struct bpf_link *link;

	libbpf_set_print(no_messages);
	for (int kprobe = 0; kprobe < 2; kprobe++) {
		struct bpf_program *program;

		skeleton = held_lock_bpf__open();
		if (!skeleton)
			die("cannot open the BPF object: %s", strerror(errno));
		program = kprobe ? skeleton->progs.keep_by_kprobe : skeleton->progs.keep_by_fentry;
		bpf_program__set_autoload(program, true);
		bpf_program__set_autoload(skeleton->progs.note_interrupt, by_interrupt);
		if (!kprobe)
			bpf_program__set_attach_target(program, 0, mode->function);
		if (!held_lock_bpf__load(skeleton)) {
			link = kprobe ? bpf_program__attach_kprobe(program, false, mode->function)
				      : bpf_program__attach(program);
			if (link && by_interrupt && !bpf_program__attach(skeleton->progs.note_interrupt))
				die("cannot attach to irq_work_entry: %s", strerror(errno));
			if (link)
				return kprobe ? "kprobe" : "fentry";
		}
		if (kprobe)
			die("cannot attach to %s(), neither by fentry nor by kprobe: %s", mode->function,
			    strerror(errno));
		held_lock_bpf__destroy(skeleton);
	}
	return NULL;
}

/* Some tries: the sleeper may not have been in its bucket. */
static void hold_once(__u32 waiters)
{
	__u64 before = skeleton->bss->holding;

	skeleton->bss->going = 0;
	skeleton->bss->back = 0;
	for (int i = 0; skeleton->bss->holding == before; i++) {
		if (i == TRIES)
			die("%s() was not called with the lock held", mode->function);
		__atomic_store_n(&skeleton->bss->armed, holds_of_round, __ATOMIC_RELEASE);
		mode->hold();
	}
	round_ends[skeleton->bss->rounds - 1] = now_ns();
	while (__atomic_load_n(&skeleton->bss->back, __ATOMIC_ACQUIRE) < waiters)
		relax();
}

static void print_pairs(const char *name, unsigned long pairs, void (*pair)(unsigned long i, const void *of),
			const void *of)
{
	printf("%s[", name);
	for (unsigned long i = 0; i < pairs; i++) {
		printf("%s[", i ? ", " : "");
		pair(i, of);
		printf("]");
	}
	printf("]");
}

static void print_hold(unsigned long i, const void *of)
{
	const struct hold *hold = &skeleton->bss->holds[i];

	printf("%llu, %llu", hold->end_ns - hold->begin_ns, hold->all_going_ns ? hold->end_ns - hold->all_going_ns : 0);
}

static void print_turn(unsigned long i, const void *of)
{
	const struct turn *turn = &((const struct waiter *)of)->turns[i];
	__u64 end_ns = skeleton->bss->holds[i * holds_of_round].end_ns;

	printf("%llu, %llu", end_ns > turn->going_ns ? end_ns - turn->going_ns : 0, turn->back_ns - turn->going_ns);
}

static void print_log(unsigned long i, const void *of)
{
	const struct hold *hold = &skeleton->bss->holds[i];

	printf("%llu, %llu, %llu", hold->begin_ns, hold->end_ns, hold->interrupted_ns);
}

static void print_round(unsigned long i, const void *of)
{
	printf("%llu", round_ends[i]);
}

static void print_threads(const char *event, const struct waiter *waiters, __u32 number)
{
	printf("{\"event\": \"%s\", \"mode\": \"%s\", \"function\": \"%s\", \"pid\": %d, \"holder\": %d, \"waiters\": "
	       "[",
	       event, mode->name, mode->function, getpid(), gettid());
	for (__u32 i = 0; i < number; i++)
		printf("%s%u", i ? ", " : "", waiters[i].tid);
	printf("]");
}

static unsigned long number(const char *text, unsigned long least, unsigned long most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || value < least || value > most)
		die("%s: a number from %lu to %lu is wanted", text, least, most);
	return value;
}

static void usage(void)
{
	fprintf(stderr, "usage: held_lock MODE [--hold-us N] [--count N] [--waiters N] [--by-interrupt]; modes:");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		fprintf(stderr, " %s", modes[i].name);
	fputc('\n', stderr);
	exit(1);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"hold-us", required_argument, NULL, 'h'},
		{"count", required_argument, NULL, 'c'},
		{"waiters", required_argument, NULL, 'w'},
		{"by-interrupt", no_argument, NULL, 'i'},
		{},
	};
	struct waiter waiters[MOST_WAITERS] = {};
	unsigned long hold_us = 50;
	__u32 waiting = 1;
	const char *source;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'h')
			hold_us = number(optarg, 1, 100000);
		else if (option == 'c')
			count = number(optarg, 1, MOST_HOLDS);
		else if (option == 'w')
			waiting = number(optarg, 1, MOST_WAITERS);
		else if (option == 'i')
			by_interrupt = true;
		else
			usage();
	}
	for (size_t i = 0; optind + 1 == argc && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[optind], modes[i].name))
			mode = &modes[i];
	if (!mode)
		usage();
	if (mode->holds)
		holds_of_round = mode->holds;
	round_ends = calloc(count, sizeof(*round_ends));
	if (!round_ends || count * holds_of_round > MOST_HOLDS)
		die("at most %d holds of this mode", MOST_HOLDS / holds_of_round);
	if (get_nprocs() <= (int)waiting)
		die("needs %u CPUs: one for the holder and one for each waiter", waiting + 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	source = attach();
	pin_to_cpu(0);
	if (mode->open == open_inode)
		file = open_file();
	if (mode->set_up)
		mode->set_up();
	for (__u32 i = 0; i < waiting; i++) {
		waiters[i].cpu = i + 1;
		waiters[i].turns = calloc(count, sizeof(*waiters[i].turns));
		if (!waiters[i].turns || pthread_create(&waiters[i].thread, NULL, run_waiter, &waiters[i]))
			die("cannot make a thread");
		while (!__atomic_load_n(&waiters[i].tid, __ATOMIC_ACQUIRE))
			;
	}
	skeleton->bss->waiters = waiting;
	skeleton->bss->hold_ns = hold_us * NSEC_PER_USEC;
	skeleton->data->holds_of_round = holds_of_round;
	skeleton->bss->by_interrupt = by_interrupt;
	skeleton->bss->holder = gettid();
	print_threads("ready", waiters, waiting);
	printf(", \"source\": \"%s\"}\n", source);
	for (unsigned long i = 0; i < count; i++)
		hold_once(waiting);
	ending = true;
	for (__u32 i = 0; i < waiting; i++)
		pthread_join(waiters[i].thread, NULL);
	if (mode->end)
		mode->end();
	print_threads("holds", waiters, waiting);
	print_pairs(", \"holds\": ", count * holds_of_round, print_hold, NULL);
	print_pairs(", \"log\": ", count * holds_of_round, print_log, NULL);
	print_pairs(", \"rounds\": ", count, print_round, NULL);
	printf(", \"waits\": [");
	for (__u32 i = 0; i < waiting; i++)
		print_pairs(i ? ", " : "", count, print_turn, &waiters[i]);
	printf("]}\n");
	held_lock_bpf__destroy(skeleton);
	return 0;
}
