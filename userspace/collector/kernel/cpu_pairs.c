// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "kernel/cpu_pairs.h"
#include "cli/message.h"

#define CPU_ROOT  "/sys/devices/system/cpu"
#define MOST_CPUS 8192

/* Rounds of one block: two readings of the clock, about 60 ns, stand for 512 transfers. */
#define BLOCK_ROUNDS 256
#define MOST_BLOCKS  2048
/* Less than this tells no median. */
#define LEAST_BLOCKS   16
#define LEAST_READINGS 1000
/* A CPU that is not there for so long is looked after with the clock. */
#define PATIENT_SPINS 4096

/* Of few pairs: longer makes nothing surer. */
#define MOST_SHARE_NS 500000000ull
/* Of all pairs, where others keep the CPUs busy. */
#define LIMIT_NS 12000000000ull

#define END (~0u)

/* The line that goes to and fro, and beside it in the same line what the sender read. */
struct line {
	_Alignas(64) atomic_uint holding;
	__u64 clock;
	__u64 counter;
};

struct run {
	/* 128: pairs of lines are fetched together. */
	_Alignas(128) struct line transfer;
	_Alignas(128) struct line readings;
	_Alignas(128) __u64 share_ns;
	__u64 deadline_ns;
	struct cpu_pair *pair;
	double *lengths; /* MOST_BLOCKS */
	__u64 ticks;     /* of the counter, in tick_ns */
	__u64 tick_ns;
};

/* Not before what the program did before it. */
#if defined(__x86_64__)
const char *const cpu_counter_name = "TSC";

static __u64 read_counter(void)
{
	__builtin_ia32_lfence();
	return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
const char *const cpu_counter_name = "CNTVCT_EL0";

static __u64 read_counter(void)
{
	__u64 value;

	asm volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(value)::"memory");
	return value;
}
#else
const char *const cpu_counter_name = "";

static __u64 read_counter(void)
{
	return 0;
}
#endif

void warp_judge(struct warp *warp, __u64 before, __u64 after)
{
	warp->readings++;
	if (after < before && before - after > warp->worst)
		warp->worst = before - after;
}

static int by_length(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void transfer_judge(struct cpu_pair *pair, double *lengths, size_t count)
{
	if (!count)
		return;
	qsort(lengths, count, sizeof(*lengths), by_length);
	pair->least_transfer_ns = lengths[0];
	pair->transfer_ns = (lengths[(count - 1) / 2] + lengths[count / 2]) / 2;
}

/* False: the other one has ended, or it did not come. */
static bool wait_for(struct line *line, __u32 holding, __u64 deadline_ns)
{
	for (__u32 spins = 1;; spins++) {
		__u32 value = atomic_load_explicit(&line->holding, memory_order_acquire);

		if (value == holding)
			return true;
		if (value == END)
			return false;
		if (!(spins % PATIENT_SPINS) && now_ns() >= deadline_ns)
			return false;
	}
}

static void pass(struct line *line, __u32 holding)
{
	atomic_store_explicit(&line->holding, holding, memory_order_release);
}

static void send_readings(struct line *line, __u32 holding)
{
	line->counter = read_counter();
	line->clock = now_ns();
	pass(line, holding);
}

static void judge_readings(const struct line *line, struct warp *counter, struct warp *clock)
{
	/* Either is sent before the other is read here. */
	warp_judge(counter, line->counter, read_counter());
	warp_judge(clock, line->clock, now_ns());
}

/* Odd turns are the first CPU's, even ones the second's. */
static void *second_side(void *argument)
{
	struct run *run = argument;
	struct cpu_pair *pair = run->pair;

	for (__u32 holding = 1; wait_for(&run->transfer, holding, run->deadline_ns); holding += 2)
		pass(&run->transfer, holding + 1);
	for (__u32 holding = 1; wait_for(&run->readings, holding, run->deadline_ns); holding += 2) {
		judge_readings(&run->readings, &pair->counter[1], &pair->clock[1]);
		send_readings(&run->readings, holding + 1);
	}
	return NULL;
}

static void time_transfers(struct run *run)
{
	__u64 end_ns = now_ns() + run->share_ns / 2, begin_ns, now = 0;
	__u32 holding = 1, blocks = 0;

	/* The first round waits for the other thread to begin. */
	pass(&run->transfer, holding);
	while (wait_for(&run->transfer, holding + 1, run->deadline_ns)) {
		bool came = true;

		holding += 2;
		begin_ns = now_ns();
		for (int i = 0; i < BLOCK_ROUNDS && came; i++, holding += 2) {
			pass(&run->transfer, holding);
			came = wait_for(&run->transfer, holding + 1, run->deadline_ns);
		}
		now = now_ns();
		if (!came)
			break;
		run->lengths[blocks++] = (double)(now - begin_ns) / (2 * BLOCK_ROUNDS);
		if (blocks == MOST_BLOCKS || (blocks >= LEAST_BLOCKS && now >= end_ns))
			break;
		pass(&run->transfer, holding);
	}
	pass(&run->transfer, END);
	run->pair->rounds = blocks * BLOCK_ROUNDS;
	transfer_judge(run->pair, run->lengths, blocks);
}

static void compare_clocks(struct run *run)
{
	struct cpu_pair *pair = run->pair;
	__u64 begin_ns = now_ns(), begin = read_counter(), end_ns = begin_ns + run->share_ns / 2;
	__u32 holding = 1;

	send_readings(&run->readings, holding);
	while (wait_for(&run->readings, holding + 1, run->deadline_ns)) {
		judge_readings(&run->readings, &pair->counter[0], &pair->clock[0]);
		if (pair->clock[0].readings >= LEAST_READINGS && now_ns() >= end_ns)
			break;
		holding += 2;
		send_readings(&run->readings, holding);
	}
	pass(&run->readings, END);
	run->ticks = read_counter() - begin;
	run->tick_ns = now_ns() - begin_ns;
}

static void *first_side(void *argument)
{
	time_transfers(argument);
	compare_clocks(argument);
	return NULL;
}

static int start(pthread_t *thread, void *(*side)(void *), struct run *run, __u32 cpu)
{
	size_t size = CPU_ALLOC_SIZE(cpu + 1);
	cpu_set_t *set = CPU_ALLOC(cpu + 1);
	pthread_attr_t attributes;
	int err;

	if (!set)
		return -ENOMEM;
	CPU_ZERO_S(size, set);
	CPU_SET_S(cpu, size, set);
	pthread_attr_init(&attributes);
	err = pthread_attr_setaffinity_np(&attributes, size, set);
	err = err ?: pthread_create(thread, &attributes, side, run);
	pthread_attr_destroy(&attributes);
	CPU_FREE(set);
	return -err;
}

static int measure_pair(struct run *run)
{
	pthread_t first, second;
	int err = start(&second, second_side, run, run->pair->cpus.second);

	if (err)
		return err;
	err = start(&first, first_side, run, run->pair->cpus.first);
	if (err) {
		pass(&run->transfer, END);
		pass(&run->readings, END);
	} else {
		pthread_join(first, NULL);
	}
	pthread_join(second, NULL);
	return err;
}

/* The CPUs of this thread's mask, which the kernel keeps within its cpuset and those online. */
static int read_places(struct cpu_place **out, size_t *count)
{
	size_t size = CPU_ALLOC_SIZE(MOST_CPUS);
	cpu_set_t *set = CPU_ALLOC(MOST_CPUS);
	struct cpu_place *places = NULL;
	int err = 0;

	*count = 0;
	if (!set)
		return -ENOMEM;
	CPU_ZERO_S(size, set);
	if (sched_getaffinity(0, size, set))
		err = -errno;
	else
		places = calloc(CPU_COUNT_S(size, set) + 1, sizeof(*places));
	for (__u32 cpu = 0; places && cpu < MOST_CPUS; cpu++)
		if (CPU_ISSET_S(cpu, size, set))
			cpu_place_read(&places[(*count)++], cpu, CPU_ROOT);
	CPU_FREE(set);
	*out = places;
	return err ?: places ? 0 : -ENOMEM;
}

static int measure_chosen(struct cpu_pairs *pairs, __u64 time_ns)
{
	struct run *run = aligned_alloc(128, (sizeof(*run) + 127) / 128 * 128);
	double *lengths = malloc(MOST_BLOCKS * sizeof(*lengths));
	__u64 deadline_ns = now_ns() + LIMIT_NS, ticks = 0, tick_ns = 0;
	int err = run && lengths ? 0 : -ENOMEM;

	for (__u32 i = 0; !err && i < pairs->chosen; i++) {
		__u64 now = now_ns(), left = pairs->chosen - i;

		if (now >= deadline_ns)
			break;
		memset(run, 0, sizeof(*run));
		run->pair = &pairs->pairs[i];
		run->lengths = lengths;
		run->share_ns = time_ns / pairs->chosen < MOST_SHARE_NS ? time_ns / pairs->chosen : MOST_SHARE_NS;
		/* A pair that is kept waiting leaves as much to each of the others. */
		run->deadline_ns = now + (deadline_ns - now) / left;
		err = measure_pair(run);
		/* The CPU went offline, or another mask was set. */
		if (err == -EINVAL)
			err = 0;
		pairs->measured += run->pair->rounds > 0;
		ticks += run->ticks;
		tick_ns += run->tick_ns;
	}
	pairs->counter_hz = ticks && tick_ns ? ticks * 1e9 / tick_ns : 0;
	free(run);
	free(lengths);
	return err;
}

static int measure(struct cpu_pairs *pairs, __u64 time_ns)
{
	struct cpu_choice chosen[MOST_PAIRS];
	struct cpu_place *places = NULL;
	size_t count;
	int err = read_places(&places, &count);

	if (err)
		return err;
	pairs->cpus = count;
	pairs->possible = count * (count - 1) / 2;
	pairs->chosen = cpu_pairs_choose(chosen, MOST_PAIRS, places, count);
	for (__u32 i = 0; i < pairs->chosen; i++)
		pairs->pairs[i].cpus = chosen[i];
	free(places);
	return pairs->chosen ? measure_chosen(pairs, time_ns) : 0;
}

int cpu_pairs_open(struct cpu_pairs **out, __u64 time_ns)
{
	struct cpu_pairs *pairs = calloc(1, sizeof(*pairs));
	int err = pairs ? measure(pairs, time_ns) : -ENOMEM;

	if (err) {
		message("cannot measure between CPUs: %s; leave --deep out", strerror(-err));
		free(pairs);
		pairs = NULL;
	}
	*out = pairs;
	return err;
}

void cpu_pairs_close(struct cpu_pairs *pairs)
{
	free(pairs);
}
