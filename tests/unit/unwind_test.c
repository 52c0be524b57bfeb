// SPDX-License-Identifier: GPL-2.0-or-later
/* A stack of our own, unwound from a copy of it: every return address is one that the compiler told. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "naming/unwind.h"
#include "naming/user_unwind.h"
#include "tap.h"

#if defined(__x86_64__)
#define FRAME_POINTER 6
#define STACK_POINTER 7
#else
#define FRAME_POINTER 29
#define STACK_POINTER 31
#endif

#define COPIED 8192
#define FRAMES 24

static struct {
	__u64 pc;
	__u64 registers[UNWIND_REGISTERS];
	__u8 bytes[COPIED];
	__u64 returns[3]; /* of inner, middle, outer */
} copy;

/* Between the frames lie the sanitizer's own bytes. */
__attribute__((noinline, no_sanitize("address"))) static void copy_stack(const volatile __u8 *from)
{
	for (int i = 0; i < COPIED; i++)
		copy.bytes[i] = from[i];
}

static void copy_registers(const ucontext_t *here)
{
#if defined(__x86_64__)
	static const int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
				    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

	for (unsigned int i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		copy.registers[i] = here->uc_mcontext.gregs[order[i]];
	copy.pc = here->uc_mcontext.gregs[REG_RIP];
#else
	memcpy(copy.registers, here->uc_mcontext.regs, 31 * sizeof(__u64));
	copy.registers[31] = here->uc_mcontext.sp;
	copy.pc = here->uc_mcontext.pc;
#endif
}

__attribute__((noinline)) static int inner(int depth)
{
	ucontext_t here;

	copy.returns[0] = (__u64)__builtin_return_address(0);
	getcontext(&here);
	copy_registers(&here);
	copy_stack((void *)copy.registers[STACK_POINTER]);
	return depth + 1;
}

__attribute__((noinline)) static int middle(int depth)
{
	volatile char place[256] = {depth};

	copy.returns[1] = (__u64)__builtin_return_address(0);
	return inner(place[0]) + place[1];
}

__attribute__((noinline)) static int outer(int depth)
{
	volatile char place[depth + 100];

	place[depth] = depth;
	copy.returns[2] = (__u64)__builtin_return_address(0);
	return middle(place[depth]) + 1;
}

static void our_own_stack(void)
{
	struct user_unwind *users = user_unwind_open();
	__u64 frames[FRAMES];
	int count = user_unwind(users, getpid(), copy.pc, copy.registers, copy.bytes, COPIED, frames, FRAMES);

	CHECK(count >= 4, "%d frames", count);
	CHECK(frames[0] == copy.pc, "the leaf");
	for (int i = 0; i < 3; i++)
		CHECK(frames[i + 1] == copy.returns[i], "caller %d: %llx, not %llx", i, frames[i + 1], copy.returns[i]);
	CHECK(user_unwind(users, getpid(), copy.pc, copy.registers, copy.bytes, COPIED, frames, 2) == 2, "no more");
	user_unwind_close(users);
}

static void a_copy_that_ends_early(void)
{
	struct user_unwind *users = user_unwind_open();
	__u64 frames[FRAMES];
	int count = user_unwind(users, getpid(), copy.pc, copy.registers, copy.bytes, 0, frames, FRAMES);

	CHECK(count == 1, "%d frames of nothing", count);
	count = user_unwind(users, getpid(), 8, copy.registers, copy.bytes, COPIED, frames, FRAMES);
	CHECK(count == 0, "%d frames from where no code is", count);
	/* PID_MAX_LIMIT is 2^22: there is no such process. */
	count = user_unwind(users, 4194305, copy.pc, copy.registers, copy.bytes, COPIED, frames, FRAMES);
	CHECK(count == 0, "%d frames of nobody", count);
	user_unwind_close(users);
}

static void a_stack_of_any_bytes(void)
{
	static const __u8 fill[] = {0x00, 0xff, 0x55};
	struct user_unwind *users = user_unwind_open();
	__u8 bytes[COPIED];
	__u64 frames[FRAMES];

	for (unsigned int i = 0; i < sizeof(fill); i++) {
		int count;

		memset(bytes, fill[i], sizeof(bytes));
		count = user_unwind(users, getpid(), copy.pc, copy.registers, bytes, COPIED, frames, FRAMES);
		CHECK(count == 1, "%d frames", count);
	}
	/* A stack whose every word is its own address: a chain of frame pointers that does not move. */
	for (unsigned int i = 0; i < COPIED / 8; i++)
		memcpy(bytes + 8 * i, &copy.registers[STACK_POINTER], 8);
	CHECK(user_unwind(users, getpid(), copy.pc, copy.registers, bytes, COPIED, frames, FRAMES) <= FRAMES, "ends");
	user_unwind_close(users);
}

static void files_that_say_nothing(void)
{
	struct unwind_object *object = NULL;

	CHECK(unwind_object_open(&object, open("/proc/self/cmdline", O_RDONLY)) == -ENOENT, "no object");
	CHECK(unwind_object_open(&object, open("/dev/null", O_RDONLY)) == -ENOENT, "nothing");
	CHECK(!object, "and none is left");
}

/* A process can cut a file short that it runs from, while its frames are looked up. */
static void a_file_that_is_cut_short(void)
{
	char path[] = "/tmp/unwind_test.XXXXXX", bytes[65536];
	int from = open("/proc/self/exe", O_RDONLY), to = mkstemp(path);
	struct unwind_object *object = NULL;
	struct unwind_stack none = {};
	struct unwind_state state;
	bool called = false;
	ssize_t count;

	while ((count = read(from, bytes, sizeof(bytes))) > 0)
		CHECK(write(to, bytes, count) == count, "a copy");
	CHECK(!unwind_object_open(&object, open(path, O_RDONLY)), "its frames can be looked up");
	CHECK(!ftruncate(to, 0), "cut");
	unwind_begin(&state, copy.pc, copy.registers);
	for (int i = 0; i < 2; i++)
		CHECK(unwind_step(object, 4096, &state, &none, &called) < 0, "no frame, and no end of the program");
	unwind_object_close(object);
	close(from);
	close(to);
	unlink(path);
}

static void frame_pointers(void)
{
	__u64 stack[8] = {0, 0, 0x1030, 0x5555, 0, 0, 0, 0x6666}, registers[UNWIND_REGISTERS] = {};
	struct unwind_stack bytes = {.address = 0x1000, .bytes = (const __u8 *)stack, .size = sizeof(stack)};
	struct unwind_state state;
	bool called = false;

	registers[FRAME_POINTER] = 0x1010;
	registers[STACK_POINTER] = 0x1000;
	unwind_begin(&state, 0x4444, registers);
	CHECK(!unwind_step_frame_pointer(&state, &bytes, &called), "a step");
	CHECK(state.pc == 0x5555 && called && unwind_stack_pointer(&state) == 0x1020, "%llx", state.pc);
	CHECK(!unwind_step_frame_pointer(&state, &bytes, &called) && state.pc == 0x6666, "the next");
	CHECK(unwind_step_frame_pointer(&state, &bytes, &called) < 0, "and no further: 0 is below the stack");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(our_own_stack),          TEST(a_copy_that_ends_early),   TEST(a_stack_of_any_bytes),
		TEST(files_that_say_nothing), TEST(a_file_that_is_cut_short), TEST(frame_pointers),
	};

	/* Below this lies as much as is copied, however small the environment is. */
	volatile char room[2 * COPIED] = {1};

	outer(room[0]);
	return RUN_TESTS(tests);
}
