// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * a64_accesses: each kind of access that A64 has, to known bytes of one cache line, by functions of known names.
 *
 * "all COUNT": COUNT times each instruction below, one after the other; "exclusive COUNT": COUNT additions by a
 * load-exclusive and a store-exclusive, each tried until it succeeds; "kernel COUNT": the kernel writes to the line
 * COUNT times.  It tells what each function does to the line when it is ready; after each round the sum of the additions so far.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

/* The line, and as much before it as an access can begin there. */
struct a64_lines {
	char before[64];
	__u64 words[8];
};

struct a64_lines a64_lines __attribute__((aligned(128)));

#define R 1 /* reads */
#define W 2 /* writes */
#define L 4 /* atomic, or exclusive */

/* NAME, what it does, at which byte of the line it is seen, and where its base register points to: "%0". */
#define ACCESSES(DO)                                                                                          \
	DO(load_word, R, 4, 4, "ldr w9, [%0]")                                                                \
	DO(load_byte, R, 17, 16, "ldrb w9, [%0, #1]")                                                         \
	DO(load_signed_half, R, 26, 24, "ldrsh x9, [%0, #2]")                                                 \
	DO(load_pair, R, 16, 16, "ldp x9, x10, [%0]")                                                         \
	DO(load_pair_from_before, R, 0, -8, "ldp x9, x10, [%0]")                                              \
	DO(load_vectors_from_before, R, 0, -16, "ldp q0, q1, [%0]")                                           \
	DO(load_then_move_on, R, 8, 8, "ldr x9, [%0], #8")                                                    \
	DO(load_by_index, R, 24, 0, "mov w9, #3\n\tldr x10, [%0, w9, sxtw #3]")                               \
	DO(load_over_its_base, R, 12, 8, "mov x9, %0\n\tldr w9, [x9, #4]")                                    \
	DO(load_acquire, R, 8, 8, "ldar x9, [%0]")                                                            \
	DO(load_acquire_rcpc, R, 20, 20, "ldapr w9, [%0]")                                                    \
	DO(load_exclusive, R | L, 8, 8, "ldxr x9, [%0]\n\tclrex")                                             \
	DO(store_double, W, 8, 8, "str xzr, [%0]")                                                            \
	DO(store_half, W, 26, 24, "strh wzr, [%0, #2]")                                                       \
	DO(store_after_move, W, 16, 24, "str xzr, [%0, #-8]!")                                                \
	DO(store_pair, W, 0, 0, "stp xzr, xzr, [%0]")                                                         \
	DO(store_vectors, W, 0, 0, "movi v0.2d, #0\n\tstp q0, q0, [%0]")                                      \
	DO(store_release, W, 5, 5, "stlrb wzr, [%0]")                                                         \
	DO(add, R | W | L, 8, 8, "mov x9, #0\n\tldadd x9, x10, [%0]")                                         \
	DO(add_unread, R | W | L, 12, 12, "mov w9, #0\n\tstadd w9, [%0]")                                     \
	DO(set_bits, R | W | L, 16, 16, "mov w9, #0\n\tldsetal w9, w10, [%0]")                                \
	DO(swap, R | W | L, 19, 19, "swpab wzr, w9, [%0]")                                                    \
	DO(compare_and_swap, R | W | L, 24, 24, "mov x9, #0\n\tcasal x9, xzr, [%0]")                          \
	DO(compare_and_swap_pair, R | W | L, 16, 16, "mov x2, #0\n\tmov x3, #0\n\tcasp x2, x3, x2, x3, [%0]") \
	DO(zero_line, W, 0, 0, "dc zva, %0")

#define DEFINE(name, what, seen, base, text)                                   \
	static void __attribute__((noinline)) a64_##name(void)                 \
	{                                                                      \
		void *place = (char *)a64_lines.words + (base);                \
                                                                               \
		asm volatile(".arch armv8.4-a\n\t" text                        \
			     : "+r"(place)                                     \
			     :                                                 \
			     : "x2", "x3", "x9", "x10", "v0", "v1", "memory"); \
	}

ACCESSES(DEFINE)

static const struct access {
	const char *name;
	int what;
	int seen;
	void (*run)(void);
} accesses[] = {
#define LIST(name, what, seen, base, text) {"a64_" #name, what, seen, a64_##name},
	ACCESSES(LIST)};

static __u64 __attribute__((noinline)) a64_add_exclusively(void)
{
	__u64 value, failed;

	asm volatile("1: ldaxr %0, [%2]\n\t"
		     "add %0, %0, #1\n\t"
		     "stlxr %w1, %0, [%2]\n\t"
		     "cbnz %w1, 1b"
		     : "=&r"(value), "=&r"(failed)
		     : "r"(&a64_lines.words[1])
		     : "memory");
	return value;
}

static __u64 zeroed_bytes(void)
{
	__u64 size;

	asm("mrs %0, dczid_el0" : "=r"(size));
	return 4ull << (size & 15);
}

static void tell_accesses(void)
{
	const char *separator = "";

	printf("{\"event\": \"ready\", \"pid\": %d, \"line\": %lu, \"zeroed_bytes\": %llu, \"accesses\": [", getpid(),
	       (unsigned long)a64_lines.words, zeroed_bytes());
	for (size_t i = 0; i < sizeof(accesses) / sizeof(*accesses); i++) {
		printf("%s{\"function\": \"%s\", \"offset\": %d, \"reads\": %d, \"writes\": %d, \"locked\": %d}",
		       separator, accesses[i].name, accesses[i].seen, !!(accesses[i].what & R),
		       !!(accesses[i].what & W), !!(accesses[i].what & L));
		separator = ", ";
	}
	printf("]}\n");
	fflush(stdout);
}

static void run_all(__u64 count)
{
	/* Who records has a turn in between, also where CPUs take turns. */
	const struct timespec pause = {.tv_nsec = 5000000};

	for (size_t i = 0; i < sizeof(accesses) / sizeof(*accesses); i++) {
		if (accesses[i].run == a64_zero_line && zeroed_bytes() != 64)
			continue;
		for (__u64 round = 0; round < count; round++)
			accesses[i].run();
		nanosleep(&pause, NULL);
	}
}

int main(void)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct command command;
	__u64 sum = 0;

	if (zero < 0)
		die("no /dev/zero");
	commands_open();
	tell_accesses();
	while (next_command(&command)) {
		if (!strcmp(command.word, "all"))
			run_all(command.count);
		for (__u64 i = 0; !strcmp(command.word, "exclusive") && i < command.count; i++)
			sum = a64_add_exclusively();
		for (__u64 i = 0; !strcmp(command.word, "kernel") && i < command.count; i++)
			if (read(zero, &a64_lines.words[2], 8) != 8)
				die("cannot read /dev/zero");
		printf("{\"event\": \"done\", \"sum\": %llu}\n", sum);
		fflush(stdout);
	}
	return 0;
}
