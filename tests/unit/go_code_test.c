// SPDX-License-Identifier: GPL-2.0-or-later
/* Where a call in a Go function returns to. */
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

int main(void)
{
	static const struct test tests[] = {
		TEST(call_of_the_target),
		TEST(no_call_of_it),
	};

	return RUN_TESTS(tests);
}
