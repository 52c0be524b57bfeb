// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/patience.h"
#include "base/proc.h"
#include "base/small_file.h"
#include "naming/python_stacks.h"

/* What was read of a thread or of code is believed for so long, and is read again after less. */
#define KEPT_NS  10000000000ull
#define FRESH_NS 50000000ull
/* A thread's id as its process sees it. */
#define ID_KEPT_NS 1000000000ull
/*
 * A process of which reading takes longer by the clock pauses: its memory may not answer.  So may a reader that gets no
 * CPU: the first pause is so many times as long, and each one that follows at once has twice as much, up to the most.
 */
#define LONG_NS     100000000ull
#define FIRST_PAUSE 4
#define LONG_PAUSE  64
/* So many callers tell where the evaluation loop has its pointer. */
#define CALLERS 8

bool python_interpreter(const char *path, __u32 *minor, bool *library)
{
	const char *name = strrchr(path, '/');
	char *end;

	if (!name)
		return false;
	name++;
	*library = !strncmp(name, "lib", 3);
	name += *library ? 3 : 0;
	if (strncmp(name, "python3.", strlen("python3.")))
		return false;
	name += strlen("python3.");
	*minor = strtoul(name, &end, 10);
	return end != name;
}

static bool sleeps_there(const struct python_asked *asked)
{
	char path[PROC_PATH], line[256];
	__u64 sp, pc;

	proc_path(path, sizeof(path), asked->tgid, "task/%u/syscall", asked->tid);
	return !first_line(path, line, sizeof(line)) && proc_call_place(line, &sp, &pc) && sp == asked->sp;
}

/* Whether a stack has a pointer into the innermost function's code there: the evaluation loop keeps one of each call. */
static bool has_code(const struct python_functions *functions, const __u8 *stack, __u32 size, __u32 place)
{
	__u64 word;

	if (place + sizeof(word) > size)
		return false;
	memcpy(&word, stack + place, sizeof(word));
	return word - functions->codes[0] < functions->size;
}

/* Where that is; false: nowhere. */
static bool find_code(struct python_functions *functions, const __u8 *stack, __u32 size)
{
	for (functions->place = 0; functions->place < size; functions->place += sizeof(__u64))
		if (has_code(functions, stack, size, functions->place))
			return true;
	return false;
}

static bool are_of(const struct python_functions *functions, const struct python_asked *asked, __u64 now)
{
	return functions->count && functions->sp == asked->sp && now - functions->ns < KEPT_NS;
}

/* In place of the same ones, or of the oldest. */
static void keep(struct python_thread *thread, const struct python_functions *functions)
{
	struct python_functions *oldest = thread->functions;

	for (int i = 0; i < PYTHON_FUNCTIONS; i++) {
		struct python_functions *place = &thread->functions[i];

		if (place->count == functions->count && place->sp == functions->sp &&
		    !memcmp(place->codes, functions->codes, sizeof(place->codes))) {
			*place = *functions;
			return;
		}
		if (place->ns < oldest->ns)
			oldest = place;
	}
	*oldest = *functions;
}

static void meet(struct python_thread *thread, const struct python_asked *asked, __u64 now)
{
	const bool known = thread->number == asked->interpreter->number && thread->tid == asked->tid;
	__u32 native;

	if (known && now - thread->native_ns < ID_KEPT_NS)
		return;
	native = proc_own_id(asked->tgid, asked->tid);
	if (!known || thread->native != native)
		*thread = (struct python_thread){.number = asked->interpreter->number, .tid = asked->tid};
	thread->native = native;
	thread->native_ns = now;
}

static struct python_place *place_of(struct python_stacks *stacks, const struct python_asked *asked,
				     const __u64 *frames, int count)
{
	__u64 callers = asked->interpreter->number;
	struct python_place *place;

	for (int i = 0; i < count && i < CALLERS; i++)
		callers = (callers ^ frames[i]) * 0x9e3779b97f4a7c15ull;
	place = &stacks->places[callers >> 32 & (PYTHON_PLACES - 1)];
	if (place->callers != callers)
		*place = (struct python_place){.callers = callers};
	return place;
}

static void name_code(const struct python_asked *asked, const struct cpython_frame *frame)
{
	const struct naming_place place = {.distance = frame->code};

	user_symbol_cache_put(asked->names, asked->interpreter->number, &place, frame->name, 0);
}

static void look(const struct python_asked *asked, struct python_thread *thread, struct python_place *at)
{
	static struct cpython_frames found;
	static __u8 stack[NAMING_STACK_BYTES];
	struct python_functions functions = {.sp = asked->sp};
	struct cpython_thread of = {.minor = asked->minor, .tid = thread->native};
	ssize_t size;

	if (!sleeps_there(asked) ||
	    naming_client_python(asked->client, asked->object, asked->tgid, asked->interpreter, &of, &found))
		return;
	size = patience_read(asked->tgid, asked->sp, stack, sizeof(stack));
	if (size <= 0 || !found.count || !sleeps_there(asked))
		return;
	functions.ns = now_ns();
	functions.count = found.count;
	functions.size = found.list[0].size;
	for (__u32 i = 0; i < found.count; i++)
		functions.codes[i] = found.list[i].code;
	if (!find_code(&functions, stack, size))
		return;
	for (__u32 i = 0; i < found.count; i++)
		name_code(asked, &found.list[i]);
	at->known = true;
	at->place = functions.place;
	keep(thread, &functions);
}

/*
 * The functions that a stack is of: the innermost one by its pointer, its callers as they were last.  Where that one
 * was called by several ones, they end before these.  NULL: they are not known.
 */
static const struct python_functions *find_functions(const struct python_thread *thread,
						     const struct python_asked *asked, __u64 now, __u32 *count)
{
	const struct python_functions *found = NULL;

	for (int i = 0; i < PYTHON_FUNCTIONS; i++) {
		const struct python_functions *functions = &thread->functions[i];

		if (are_of(functions, asked, now) && (!found || functions->ns > found->ns) &&
		    has_code(functions, asked->stack, asked->size, functions->place))
			found = functions;
	}
	*count = found ? found->count : 0;
	for (int i = 0; found && i < PYTHON_FUNCTIONS; i++) {
		const struct python_functions *functions = &thread->functions[i];
		__u32 same = 0;

		if (!are_of(functions, asked, now) || functions->codes[0] != found->codes[0])
			continue;
		while (same < *count && same < functions->count && functions->codes[same] == found->codes[same])
			same++;
		*count = same;
	}
	return found;
}

static void note_time(struct python_stacks *stacks, const struct python_asked *asked, __u64 begun)
{
	const __u64 now = now_ns(), took = now - begun;

	struct python_pause *pause = &stacks->pauses[asked->interpreter->number % PYTHON_PAUSES];

	if (took > LONG_NS) {
		const bool again = pause->number == asked->interpreter->number && pause->times;
		const __u32 times = !again ? FIRST_PAUSE : pause->times < LONG_PAUSE ? 2 * pause->times : LONG_PAUSE;

		*pause = (struct python_pause){asked->interpreter->number, now + times * took, times};
	} else if (pause->number == asked->interpreter->number) {
		pause->times = 0;
	}
}

static bool pauses(const struct python_stacks *stacks, const struct python_asked *asked, __u64 now)
{
	const struct python_pause *pause = &stacks->pauses[asked->interpreter->number % PYTHON_PAUSES];

	return pause->number == asked->interpreter->number && now < pause->next_ns;
}

/* The code that a word points into, of what the threads of its interpreter were in lately; 0: into none of it. */
static __u64 code_of_threads(const struct python_stacks *stacks, __u64 number, __u64 word, __u64 now)
{
	for (int i = 0; i < PYTHON_THREADS; i++) {
		const struct python_thread *thread = &stacks->threads[i];

		for (int j = 0; thread->number == number && j < PYTHON_FUNCTIONS; j++) {
			const struct python_functions *functions = &thread->functions[j];

			if (functions->count && now - functions->ns < KEPT_NS &&
			    word - functions->codes[0] < functions->size)
				return functions->codes[0];
		}
	}
	return 0;
}

static struct python_word *place_of_word(struct python_stacks *stacks, __u64 word)
{
	return &stacks->words[(word * 0x9e3779b97f4a7c15ull) >> 32 & (PYTHON_WORDS - 1)];
}

/* The word that points into the innermost function's code, as nobody has seen the thread there; 0: nobody knows where. */
static __u64 innermost_word(const struct python_asked *asked, const struct python_place *at)
{
	__u64 word = 0;

	if (at->known && at->place + sizeof(word) <= asked->size)
		memcpy(&word, asked->stack + at->place, sizeof(word));
	return word;
}

/* Its code, as far as that is known without a look; true: it is, and 0 if it points into none. */
static bool find_known(struct python_stacks *stacks, const struct python_asked *asked, __u64 word, __u64 now,
		       __u64 *code)
{
	const struct python_word *place = place_of_word(stacks, word);

	*code = 0;
	if (!word)
		return true;
	if (place->word == word && place->number == asked->interpreter->number &&
	    now - place->ns < (place->code ? KEPT_NS : FRESH_NS)) {
		*code = place->code;
		return true;
	}
	*code = code_of_threads(stacks, asked->interpreter->number, word, now);
	return *code;
}

static __u64 read_innermost(struct python_stacks *stacks, const struct python_asked *asked, __u64 word, __u64 now)
{
	static struct cpython_frames found;
	const struct cpython_thread of = {.minor = asked->minor, .word = word};
	struct python_word *place = place_of_word(stacks, word);

	*place = (struct python_word){.number = asked->interpreter->number, .word = word, .ns = now};
	if (!naming_client_python(asked->client, asked->object, asked->tgid, asked->interpreter, &of, &found) &&
	    found.count) {
		place->code = found.list[0].code;
		name_code(asked, &found.list[0]);
	}
	stacks->words_read++;
	note_time(stacks, asked, now);
	return place->code;
}

int python_stacks_add(struct python_stacks *stacks, const struct python_asked *asked, __u64 *frames, int count)
{
	struct python_thread *thread = &stacks->threads[asked->tid % PYTHON_THREADS];
	struct python_place *at = place_of(stacks, asked, frames, count);
	const struct python_functions *functions;
	const __u64 now = now_ns();
	__u64 innermost, word;
	bool may_look;
	__u32 known;

	meet(thread, asked, now);
	functions = find_functions(thread, asked, now, &known);
	word = functions ? 0 : innermost_word(asked, at);
	may_look = asked->may_look && !pauses(stacks, asked, now);
	/* One function costs less to read than all that a thread is in. */
	if (!find_known(stacks, asked, word, now, &innermost) && asked->may_read_word && !pauses(stacks, asked, now)) {
		innermost = read_innermost(stacks, asked, word, now);
		may_look &= !innermost;
	}
	if (may_look && (!functions || now - functions->ns >= FRESH_NS)) {
		look(asked, thread, at);
		stacks->looks++;
		note_time(stacks, asked, now);
		functions = find_functions(thread, asked, now_ns(), &known);
	}
	if (count > NAMING_FRAMES - CPYTHON_FRAMES)
		count = NAMING_FRAMES - CPYTHON_FRAMES;
	if (functions)
		memcpy(frames + count, functions->codes, known * sizeof(*frames));
	else if (innermost)
		frames[count++] = innermost;
	return count + (functions ? (int)known : 0);
}
