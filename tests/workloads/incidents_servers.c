// SPDX-License-Identifier: GPL-2.0-or-later
/* Planted causes as servers have them: pages that come late, slow readers, journals, streams, and many at one socket. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "incidents.h"
#include "workload.h"

#define PAGE 4096

pthread_mutex_t cache_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t jobs_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t outer_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t inner_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t idle_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t pi_mutex;
pthread_cond_t jobs_filled = PTHREAD_COND_INITIALIZER;
pthread_rwlock_t routes_lock = PTHREAD_RWLOCK_INITIALIZER;
sem_t guard;
static struct {
	pthread_mutex_t first, second;
} * across;
static FILE *stream;
static char *cached;
static int faults, records, listening, events;
static long jobs;

/* A page of a cache that comes from elsewhere in 5 ms. */
static void *bring_pages(void *argument)
{
	static char content[PAGE] __attribute__((aligned(PAGE)));
	struct uffd_msg message;

	for (;;) {
		must(read(faults, &message, sizeof(message)) == sizeof(message), "userfaultfd");
		sleep_us(5000);
		struct uffdio_copy copy = {.dst = (unsigned long)cached, .src = (unsigned long)content, .len = PAGE};
		must(!ioctl(faults, UFFDIO_COPY, &copy), "UFFDIO_COPY");
	}
	return NULL;
}

static void prepare_cache(long threads)
{
	struct uffdio_api api = {.api = UFFD_API};
	pthread_t thread;

	cached = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	must(cached != MAP_FAILED && faults >= 0 && !ioctl(faults, UFFDIO_API, &api), "userfaultfd");
	struct uffdio_register range = {
		.range = {.start = (unsigned long)cached, .len = PAGE},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	must(!ioctl(faults, UFFDIO_REGISTER, &range), "UFFDIO_REGISTER");
	must(!pthread_create(&thread, NULL, bring_pages, NULL), "thread");
}

static void fault_in_section(long thread)
{
	pthread_mutex_lock(&cache_mutex);
	must(!*(volatile char *)cached, "page");
	must(!madvise(cached, PAGE, MADV_DONTNEED), "madvise");
	pthread_mutex_unlock(&cache_mutex);
	spin_us(20);
}

/* One reads for long, and sleeps meanwhile; the others write. */
static void read_slowly(long thread)
{
	if (!thread) {
		pthread_rwlock_rdlock(&routes_lock);
		sleep_us(8000);
		pthread_rwlock_unlock(&routes_lock);
		sleep_us(100);
		return;
	}
	pthread_rwlock_wrlock(&routes_lock);
	spin_us(5);
	pthread_rwlock_unlock(&routes_lock);
	sleep_us(200);
}

/* Consumers do their work with the queue's mutex held. */
static void consume_in_section(long thread)
{
	pthread_mutex_lock(&jobs_mutex);
	if (!thread) {
		jobs += 4;
		pthread_cond_broadcast(&jobs_filled);
		pthread_mutex_unlock(&jobs_mutex);
		sleep_us(200);
		return;
	}
	while (!jobs)
		pthread_cond_wait(&jobs_filled, &jobs_mutex);
	jobs--;
	spin_us(400);
	pthread_mutex_unlock(&jobs_mutex);
	spin_us(50);
}

/* A semaphore of one place, used as a lock. */
static void prepare_guard(long threads)
{
	sem_init(&guard, 0, 1);
}

static void compute_in_semaphore(long thread)
{
	sem_wait(&guard);
	spin_us(400);
	sem_post(&guard);
	spin_us(20);
}

/* Processes lock a record of a file; one has the record next to it locked, too, for long. */
static void lock_records_once(long thread)
{
	struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = thread ? 8 : 64};

	if (!records)
		records = open("accounts.db", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(records >= 0 && !fcntl(records, F_SETLKW, &range), "F_SETLKW");
	sleep_us(thread ? 300 : 30000);
	range.l_type = F_UNLCK;
	must(!fcntl(records, F_SETLKW, &range), "F_UNLCK");
	sleep_us(500);
}

static void lock_records(long thread)
{
	as_process(thread, lock_records_once);
}

/* Of two mutexes of several processes one has both: it waits for the second with the first one held. */
static void prepare_chain(long threads)
{
	pthread_mutexattr_t attributes;

	across = mmap(NULL, sizeof(*across), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(across != MAP_FAILED, "mmap");
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&across->first, &attributes);
	pthread_mutex_init(&across->second, &attributes);
}

static void chain_once(long thread)
{
	if (thread)
		pthread_mutex_lock(&across->first);
	if (thread < 2)
		pthread_mutex_lock(&across->second);
	if (!thread)
		sleep_us(6000);
	if (thread < 2)
		pthread_mutex_unlock(&across->second);
	if (thread)
		pthread_mutex_unlock(&across->first);
	sleep_us(thread ? 20 : 200);
}

static void chain_of_processes(long thread)
{
	as_process(thread, chain_once);
}

/* A journal, each entry of which is on the disk before the next one. */
static void prepare_journal(long threads)
{
	records = open("entries.journal", O_CREAT | O_RDWR | O_DSYNC | O_APPEND | O_CLOEXEC, 0600);
	must(records >= 0 && !unlink("entries.journal"), "entries.journal");
}

static void write_journal(long thread)
{
	static const char entry[512];

	pthread_mutex_lock(&cache_mutex);
	must(write(records, entry, sizeof(entry)) == sizeof(entry), "write");
	pthread_mutex_unlock(&cache_mutex);
	spin_us(20);
}

/* Lines of several parts in one stream of the C library. */
static void prepare_stream(long threads)
{
	stream = fopen("/dev/null", "w");
	must(stream != NULL, "/dev/null");
}

static void print_lines(long thread)
{
	flockfile(stream);
	for (int i = 0; i < 500; i++)
		fprintf(stream, "%ld: %d %f\n", thread, i, i / 3.0);
	funlockfile(stream);
	spin_us(20);
}

/* One file is made longer and shorter by all. */
static void prepare_file(long threads)
{
	records = open("shared.data", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(records >= 0 && !unlink("shared.data"), "shared.data");
}

static void grow_and_shrink(long thread)
{
	static const char block[65536];

	must(pwrite(records, block, sizeof(block), 0) > 0 && !ftruncate(records, 0), "shared.data");
}

/* A mutex that inherits priorities, whose holder sleeps. */
static void prepare_inheriting(long threads)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&pi_mutex, &attributes);
}

static void sleep_in_inheriting(long thread)
{
	pthread_mutex_lock(&pi_mutex);
	sleep_us(3000);
	pthread_mutex_unlock(&pi_mutex);
	spin_us(20);
}

/* All wait for the outer one, whose holder waits for the inner one: of a thread that computes with it. */
static void compute_in_inner(long thread)
{
	if (!thread) {
		pthread_mutex_lock(&inner_mutex);
		spin_us(2000);
		pthread_mutex_unlock(&inner_mutex);
		spin_us(10);
		return;
	}
	pthread_mutex_lock(&outer_mutex);
	pthread_mutex_lock(&inner_mutex);
	spin_us(5);
	pthread_mutex_unlock(&inner_mutex);
	pthread_mutex_unlock(&outer_mutex);
	spin_us(20);
}

/* Who has the mutex runs only where nobody else wants to (SCHED_IDLE), and threads of the program want all CPUs. */
static void compute_when_idle(long thread)
{
	const struct sched_param none = {.sched_priority = 0};
	static _Thread_local bool placed;

	if (!placed) {
		placed = true;
		must(thread || !sched_setscheduler(0, SCHED_IDLE, &none), "sched_setscheduler");
	}
	if (thread > 2) {
		spin_us(1000);
		return;
	}
	pthread_mutex_lock(&idle_mutex);
	spin_us(thread ? 5 : 1000);
	pthread_mutex_unlock(&idle_mutex);
	sleep_us(thread ? 500 : 20);
}

/* Many threads accept at one socket; thread 0 asks seldom. */
static void prepare_listening(long threads)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(listening >= 0 && !bind(listening, (void *)&address, sizeof(address)) && !listen(listening, 64), "listen");
}

static void accept_one(long thread)
{
	struct sockaddr_in address;
	socklen_t length = sizeof(address);
	int one;

	if (!thread) {
		one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		must(!getsockname(listening, (void *)&address, &length), "getsockname");
		must(one >= 0 && !connect(one, (void *)&address, length) && !close(one), "connect");
		sleep_us(2000);
		return;
	}
	one = accept(listening, NULL, NULL);
	must(one >= 0 && !close(one), "accept");
}

/* All threads poll one descriptor; what comes wakes all of them, and one gets it. */
static void prepare_events(long threads)
{
	events = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	must(events >= 0, "eventfd");
}

static void poll_one(long thread)
{
	struct pollfd one = {.fd = events, .events = POLLIN};
	uint64_t number = 1;

	if (!thread) {
		must(write(events, &number, sizeof(number)) == sizeof(number), "write");
		sleep_us(500);
		return;
	}
	must(poll(&one, 1, -1) == 1, "poll");
	if (read(events, &number, sizeof(number)) > 0)
		spin_us(50);
}

const struct incident server_incidents[] = {
	{"fault-in-section", fault_in_section, prepare_cache},
	{"slow-reader", read_slowly, NULL},
	{"consumer-section", consume_in_section, NULL},
	{"semaphore-section", compute_in_semaphore, prepare_guard},
	{"records", lock_records, NULL},
	{"chain-across", chain_of_processes, prepare_chain},
	{"journal", write_journal, prepare_journal},
	{"print-lines", print_lines, prepare_stream},
	{"grow-and-shrink", grow_and_shrink, prepare_file},
	{"inheriting-sleep", sleep_in_inheriting, prepare_inheriting},
	{"inner-section", compute_in_inner, NULL},
	{"idle-class", compute_when_idle, NULL},
	{"accept-one", accept_one, prepare_listening},
	{"poll-herd", poll_one, prepare_events},
	{NULL, NULL, NULL},
};
