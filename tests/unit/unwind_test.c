// SPDX-License-Identifier: GPL-2.0-or-later
/* A stack of our own, unwound from a copy of it: every return address is one that the compiler told. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "helper/naming_objects.h"
#include "naming/unwind_memo.h"
#include "naming/user_unwind.h"
#include "tap.h"

#if defined(__x86_64__)
#define FRAME_POINTER 6
#define STACK_POINTER 7
#else
#define FRAME_POINTER 29
#define STACK_POINTER 31
#endif

#define COPIED NAMING_STACK_BYTES
#define FRAMES NAMING_FRAMES

static struct user_stack copy;
static __u64 returns[3]; /* of inner, middle, outer */

/* The helper's part, here: place 0 is not used. */
static __u64 objects;
static int asked; /* how often it was asked for frames */
static struct stat opened[NAMING_OBJECTS];

__u64 naming_client_object(struct naming_client *client, int fd, const struct stat *status)
{
	struct naming_answer answer;

	for (__u64 i = 1; i <= objects; i++)
		if (opened[i].st_dev == status->st_dev && opened[i].st_ino == status->st_ino) {
			close(fd);
			return i;
		}
	if (naming_object_open(++objects, fd, &answer))
		return objects--, 0;
	opened[objects] = *status;
	return objects;
}

bool naming_client_has(const struct naming_client *client, __u64 object)
{
	return object && object <= objects;
}

int naming_client_unwind(struct naming_client *client, __u64 object, const struct naming_stack *stack,
			 struct naming_frames *frames)
{
	asked++;
	return naming_object_unwind(object, stack, frames);
}

/* No JVM runs here. */
int naming_client_hotspot(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_runtime *jvm,
			  const struct naming_stack *stack, struct naming_frames *frames)
{
	return -ENOENT;
}

int naming_client_monitors(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_runtime *jvm,
			   __u32 cursor, struct hotspot_monitors *monitors)
{
	return -ENOENT;
}

void naming_client_counts(const struct naming_client *client, struct naming_counts *out)
{
	*out = (struct naming_counts){};
}

int naming_client_python(struct naming_client *client, __u64 object, __u32 tgid,
			 const struct naming_runtime *interpreter, const struct cpython_thread *thread,
			 struct cpython_frames *frames)
{
	return -ENOENT;
}

int naming_client_hotspot_name(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_runtime *jvm,
			       __u64 address, char *name, size_t size, __u64 *offset)
{
	return -ENOENT;
}

static int mappings_read;
FILE *__real_patience_open_maps(__u32 tgid);

FILE *__wrap_patience_open_maps(__u32 tgid)
{
	mappings_read++;
	return __real_patience_open_maps(tgid);
}

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

	returns[0] = (__u64)__builtin_return_address(0);
	getcontext(&here);
	copy_registers(&here);
	copy_stack((void *)copy.registers[STACK_POINTER]);
	return depth + 1;
}

__attribute__((noinline)) static int middle(int depth)
{
	volatile char place[256] = {depth};

	returns[1] = (__u64)__builtin_return_address(0);
	return inner(place[0]) + place[1];
}

__attribute__((noinline)) static int outer(int depth)
{
	volatile char place[depth + 100];

	place[depth] = depth;
	returns[2] = (__u64)__builtin_return_address(0);
	return middle(place[depth]) + 1;
}

static int unwound(const struct user_stack *stack, __u64 *frames)
{
	struct user_unwind *users = user_unwind_open(NULL);
	int count = user_unwind(users, stack, frames);

	user_unwind_close(users);
	return count;
}

static void our_own_stack(void)
{
	__u64 frames[FRAMES];
	int count = unwound(&copy, frames);

	CHECK(count >= 4, "%d frames", count);
	CHECK(frames[0] == copy.pc, "the leaf");
	for (int i = 0; i < 3; i++)
		CHECK(frames[i + 1] == returns[i], "caller %d: %llx, not %llx", i, frames[i + 1], returns[i]);
}

static void no_more_than_asked_for(void)
{
	struct naming_stack stack = {.start = 1, .end = -1, .most = 1000};
	struct naming_frames frames;

	unwind_begin(&stack.state, copy.pc, copy.registers);
	stack.size = -1;
	CHECK(!naming_object_unwind(0, &stack, &frames) && frames.count <= FRAMES, "%u frames", frames.count);
	stack.most = 0;
	CHECK(!naming_object_unwind(0, &stack, &frames) && !frames.count && !frames.end, "none asked for");
	stack.most = 2;
	stack.leaf = 1;
	CHECK(naming_object_unwind(0, &stack, &frames) == -ENOENT, "nothing is open there");
}

static void a_copy_that_ends_early(void)
{
	struct user_stack stack = copy;
	__u64 frames[FRAMES];
	int count;

	stack.size = 0;
	count = unwound(&stack, frames);
	CHECK(count == 1, "%d frames of nothing", count);
	stack = copy;
	stack.pc = 8;
	count = unwound(&stack, frames);
	CHECK(count == 0, "%d frames from where no code is", count);
	/* PID_MAX_LIMIT is 2^22: there is no such process. */
	stack = copy;
	stack.tgid = 4194305;
	count = unwound(&stack, frames);
	CHECK(count == 0, "%d frames of nobody", count);
}

static void a_stack_of_any_bytes(void)
{
	static const __u8 fill[] = {0x00, 0xff, 0x55};
	struct user_stack stack = copy;
	__u64 frames[FRAMES];

	for (unsigned int i = 0; i < sizeof(fill); i++) {
		int count;

		memset(stack.bytes, fill[i], COPIED);
		count = unwound(&stack, frames);
		CHECK(count == 1, "%d frames", count);
	}
	/* A stack whose every word is its own address: a chain of frame pointers that does not move. */
	for (unsigned int i = 0; i < COPIED / 8; i++)
		memcpy(stack.bytes + 8 * i, &copy.registers[STACK_POINTER], 8);
	CHECK(unwound(&stack, frames) <= FRAMES, "ends");
}

/* A thread waits in the same place again: the helper is not asked for it, and whatever differs is unwound anew. */
static void a_stack_that_is_known(void)
{
	struct user_unwind *users = user_unwind_open(NULL);
	struct user_stack stack = copy;
	__u64 frames[FRAMES], again[FRAMES], place;
	int count = user_unwind(users, &stack, frames), before = asked;

	CHECK(count >= 4 && before, "%d frames", count);
	/* What lies between the return addresses is data. */
	stack.registers[FRAME_POINTER ^ 1] ^= 8;
	CHECK(user_unwind(users, &stack, again) == count && !memcmp(frames, again, count * sizeof(*frames)),
	      "the same");
	CHECK(asked == before, "asked %d times more", asked - before);
	stack.tgid = getppid();
	user_unwind(users, &stack, again);
	stack = copy;
	stack.pc++;
	user_unwind(users, &stack, again);
	CHECK(asked > before, "another leaf");
	before = asked;
	stack = copy;
	for (place = 0; memcmp(stack.bytes + place, &frames[1], sizeof(*frames)); place += 8)
		;
	memset(stack.bytes + place, 0, 8);
	count = user_unwind(users, &stack, again);
	CHECK(count == 1 && asked > before, "%d frames of a stack that is broken behind the first", count);
	user_unwind_close(users);
}

static __u64 place_of(const struct user_stack *stack, __u64 word)
{
	__u64 place = 0;

	while (memcmp(stack->bytes + place, &word, sizeof(word)))
		place += 8;
	return place;
}

/* Of a stack that could not be read as a whole nothing is kept: whole ones begin in the same way. */
static void a_stack_that_is_read_in_part(void)
{
	struct user_unwind *users = user_unwind_open(NULL);
	struct user_stack stack = copy;
	const __u64 place = place_of(&copy, returns[0]);
	__u64 frames[FRAMES];
	int count;

	stack.size = place + 8;
	count = user_unwind(users, &stack, frames);
	CHECK(count == 2, "%d frames of a copy that ends early", count);
	count = user_unwind(users, &copy, frames);
	CHECK(count >= 4, "%d frames of the whole copy", count);
	user_unwind_close(users);

	users = user_unwind_open(NULL);
	stack = copy;
	stack.bare = true;
	/* The caller's frame pointer. */
	memset(stack.bytes + place - 8, 0, 8);
	count = user_unwind(users, &stack, frames);
	CHECK(count == 2, "%d frames without registers", count);
	count = user_unwind(users, &copy, frames);
	CHECK(count >= 4, "%d frames with registers", count);
	user_unwind_close(users);
}

/* A fork of ours, which waits until the pipe is closed; code: with code that is no file's. */
static pid_t forked(const int pipe_fds[2], bool code)
{
	char byte;
	pid_t pid = fork();

	if (pid)
		return pid;
	close(pipe_fds[1]);
	if (code && mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		_exit(1);
	if (write(pipe_fds[0], "", 1) != 1)
		_exit(1);
	(void)!read(pipe_fds[0], &byte, 1);
	_exit(0);
}

static int asked_for_fork(struct user_unwind *users, bool code, int *count)
{
	struct user_stack stack = copy;
	__u64 frames[FRAMES];
	int ends[2], before = asked;
	char byte;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "a pair");
	stack.tgid = forked(ends, code);
	close(ends[0]);
	CHECK(read(ends[1], &byte, 1) == 1, "the fork is there");
	*count = user_unwind(users, &stack, frames);
	close(ends[1]);
	waitpid(stack.tgid, NULL, 0);
	return asked - before;
}

/* Processes of one program wait in the same places: what is known of one holds for all, if nothing else is there. */
static void a_stack_of_a_fork_is_known(void)
{
	struct user_unwind *users = user_unwind_open(NULL);
	__u64 frames[FRAMES];
	int count = user_unwind(users, &copy, frames), of_fork, again;

	again = asked_for_fork(users, false, &of_fork);
	CHECK(!again && of_fork == count, "asked %d times for %d frames of %d", again, of_fork, count);
	again = asked_for_fork(users, true, &of_fork);
	CHECK(again && of_fork == count, "with other code: asked %d times for %d frames", again, of_fork);
	user_unwind_close(users);
}

/* An exec: its code may be another's at the same addresses, which no mapping tells that was read before. */
static void another_program_of_a_process(void)
{
	struct user_unwind *users = user_unwind_open(NULL);
	struct user_stack stack = copy;
	__u64 frames[FRAMES];
	int read, before;

	stack.program = 1;
	CHECK(user_unwind(users, &stack, frames) >= 4, "all of it");
	read = mappings_read;
	before = asked;
	CHECK(user_unwind(users, &stack, frames) >= 4 && asked == before && mappings_read == read, "it is known");
	stack.program = 2;
	CHECK(user_unwind(users, &stack, frames) >= 4, "all of it");
	CHECK(mappings_read == read + 1, "its mappings are read: %d", mappings_read - read);
	stack.program = 0;
	stack.pc++;
	CHECK(user_unwind(users, &stack, frames) >= 4 && mappings_read == read + 1,
	      "one that is not known is the last");
	user_unwind_close(users);
}

/* Stacks that are new, each a second after the one before: where nothing moves, mappings are read less and less. */
static void mappings_that_stay(void)
{
	struct user_unwind *users = user_unwind_open(NULL);
	struct user_stack stack = copy;
	__u64 frames[FRAMES];
	int before;

	CHECK(user_unwind(users, &stack, frames) >= 4, "all of it");
	before = mappings_read;
	for (int i = 0; i < 2; i++) {
		usleep(1100000);
		stack.pc++;
		CHECK(user_unwind(users, &stack, frames) >= 4, "all of it");
	}
	CHECK(mappings_read - before == 1, "read %d times", mappings_read - before);
	user_unwind_close(users);
}

static void memos_are_bounded_and_age(void)
{
	static struct unwind_memos memos;
	__u64 bytes[4] = {}, frames[] = {0x1000, 0x2000}, found[FRAMES];
	struct memo_stack stack = {.tgid = 1, .size = sizeof(bytes), .pc = 0x1000, .bytes = (const __u8 *)bytes};

	bytes[3] = frames[1];
	unwind_memo_keep(&memos, &stack, 1 + UNWIND_MEMO_NS, frames, 1, 0);
	CHECK(!unwind_memo_find(&memos, &stack, 2, found), "one frame is nothing to know a stack by");
	unwind_memo_keep(&memos, &stack, 1 + UNWIND_MEMO_NS, frames, 2, 0);
	CHECK(unwind_memo_find(&memos, &stack, 2, found) == 2 && found[1] == frames[1], "known");
	CHECK(!unwind_memo_find(&memos, &stack, 2 + UNWIND_MEMO_NS, found), "too old");
	stack.size = 3 * 8 + 7;
	CHECK(!unwind_memo_find(&memos, &stack, 2, found), "the return address is not in this copy");
	stack.size = sizeof(bytes);
	for (stack.tgid = 2; stack.tgid < 2 + UNWIND_MEMOS; stack.tgid++)
		unwind_memo_keep(&memos, &stack, 1 + UNWIND_MEMO_NS, frames, 2, 0);
	CHECK(unwind_memo_find(&memos, &stack, 2, found) == 0, "never seen");
	stack.tgid = 1;
	CHECK(!unwind_memo_find(&memos, &stack, 2, found), "the oldest made room");
	stack.tgid = 2;
	CHECK(unwind_memo_find(&memos, &stack, 2, found) == 2, "the second is there");
}

static void a_method_in_another_has_no_place(void)
{
	static struct unwind_memos memos;
	__u64 bytes[4] = {}, frames[] = {0x1000, 0x7000, 0x2000}, found[FRAMES];
	struct memo_stack stack = {.tgid = 1, .size = sizeof(bytes), .pc = 0x1000, .bytes = (const __u8 *)bytes};

	bytes[2] = frames[2];
	unwind_memo_keep(&memos, &stack, 1 + UNWIND_MEMO_NS, frames, 3, 0);
	CHECK(!unwind_memo_find(&memos, &stack, 2, found), "0x7000 is not on the stack");
	unwind_memo_keep(&memos, &stack, 1 + UNWIND_MEMO_NS, frames, 3, 1 << 1);
	CHECK(unwind_memo_find(&memos, &stack, 2, found) == 3 && found[1] == frames[1], "known");
	bytes[2] = 0x3000;
	CHECK(!unwind_memo_find(&memos, &stack, 2, found), "another caller");
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
		TEST(our_own_stack),
		TEST(no_more_than_asked_for),
		TEST(a_copy_that_ends_early),
		TEST(a_stack_of_any_bytes),
		TEST(frame_pointers),
		TEST(a_stack_that_is_known),
		TEST(a_stack_that_is_read_in_part),
		TEST(a_stack_of_a_fork_is_known),
		TEST(another_program_of_a_process),
		TEST(mappings_that_stay),
		TEST(memos_are_bounded_and_age),
		TEST(a_method_in_another_has_no_place),
	};

	/* Below this lies as much as is copied, however small the environment is. */
	volatile char room[2 * COPIED] = {1};

	outer(room[0]);
	copy.tgid = getpid();
	copy.size = COPIED;
	return RUN_TESTS(tests);
}
