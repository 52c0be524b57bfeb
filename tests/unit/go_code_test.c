// SPDX-License-Identifier: GPL-2.0-or-later
/* Where a call in a Go function returns to, and how long its check of the stack is. */
#include <errno.h>

#include "futex/go_code.h"
#include "naming/user_symbols.h"
#include "tap.h"

#define FROM 0x47a980ull

/* Not asked here. */
int user_symbols_address(struct user_symbols *users, __u32 tgid, const char *name, __u64 *address)
{
	return -ENOENT;
}

#if defined(__x86_64__)
/* As go build makes them: another call, then the one, and a third behind it. */
static const __u8 code[] = {0x55, 0xe8, 0x10, 0x20, 0x00, 0x00, 0x90, 0xe8, 0x14, 0x0f,
			    0xfe, 0xff, 0xc3, 0xe8, 0x0e, 0x0f, 0xfe, 0xff, 0xc3};
#define TARGET  0x45b8a0ull
#define ENDS_AT 12
#else
/* nop, bl +0x40, bl -0x20, ret */
static const __u8 code[] = {0x1f, 0x20, 0x03, 0xd5, 0x10, 0x00, 0x00, 0x94,
			    0xf8, 0xff, 0xff, 0x97, 0xc0, 0x03, 0x5f, 0xd6};
#define TARGET  (FROM + 8 - 0x20)
#define ENDS_AT 12
#endif

static void call_of_the_target(void)
{
	long end = go_call_end(code, sizeof(code), FROM, TARGET);

	CHECK(end == ENDS_AT, "%ld", end);
}

static void no_call_of_it(void)
{
	struct go_place place;

	CHECK(go_call_end(code, sizeof(code), FROM, TARGET + 4) == -ENOENT, "another target");
	CHECK(go_call_end(code, ENDS_AT - 1, FROM, TARGET) == -ENOENT, "a call that is cut off");
	CHECK(go_call_end(code, 0, FROM, TARGET) == -ENOENT, "nothing");
	CHECK(go_place_find(NULL, 1, "f", GO_CODE_BYTES, &place) == -ENOENT, "no such function");
}

#if defined(__x86_64__)
/* runtime.readyWithTime of Go 1.26, runtime.selectgo of Go 1.19, and one that is so large that it is not known. */
static const __u8 small[] = {0x49, 0x3b, 0x66, 0x10, 0x76, 0x7b, 0x55};
static const __u8 large[] = {0x4c, 0x8d, 0xa4, 0x24, 0x48, 0xff, 0xff, 0xff, 0x4d, 0x3b,
			     0x66, 0x10, 0x0f, 0x86, 0xe1, 0x14, 0x00, 0x00, 0x48};
static const __u8 other[] = {0x49, 0x89, 0xe4, 0x49, 0x81, 0xec, 0x00, 0x10, 0x00, 0x00, 0x0f, 0x82, 0x00, 0x00, 0x00};
#define SMALL 6
#define LARGE 18
#else
static const __u8 small[] = {0x90, 0x0b, 0x40, 0xf9, 0xff, 0x63, 0x30, 0xeb,
			     0x49, 0x03, 0x00, 0x54, 0xfe, 0x0f, 0x1d, 0xf8};
static const __u8 large[] = {0x90, 0x0b, 0x40, 0xf9, 0xf1, 0x43, 0x02, 0xd1, 0x3f, 0x02,
			     0x10, 0xeb, 0xe9, 0x92, 0x00, 0x54, 0xf4, 0x43, 0x04, 0xd1};
static const __u8 other[] = {0x90, 0x0b, 0x40, 0xf9, 0xff, 0x63, 0x30, 0xeb, 0xfe, 0x0f, 0x1d, 0xf8};
#define SMALL 12
#define LARGE 16
#endif

static void behind_the_check(void)
{
	CHECK(go_stack_check_bytes(small, sizeof(small)) == SMALL, "a small function");
	CHECK(go_stack_check_bytes(large, sizeof(large)) == LARGE, "a large function");
	CHECK(go_stack_check_bytes(other, sizeof(other)) == 0, "another begin");
	CHECK(go_stack_check_bytes(code, sizeof(code)) == 0, "no check");
	for (size_t bytes = 0; bytes < SMALL; bytes++)
		CHECK(go_stack_check_bytes(small, bytes) == 0, "cut off at %zu", bytes);
	for (size_t bytes = 0; bytes < LARGE; bytes++)
		CHECK(go_stack_check_bytes(large, bytes) == 0, "cut off at %zu", bytes);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(call_of_the_target),
		TEST(no_call_of_it),
		TEST(behind_the_check),
	};

	return RUN_TESTS(tests);
}
