// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cpython/cpython_frames.h"

/* A forged list may be endless. */
#define MOST_INTERPRETERS 8
#define MOST_THREADS      1024
#define MOST_STEPS        64 /* of frames, those of C among them */
#define KEPT_NS           10000000000ull
/* How far a call may be behind the begin of its code. */
#define MOST_CODE (64u << 10)
/* Of objects in memory. */
#define ALIGNMENT 16
/* Where struct pthread has the thread's id for the kernel: glibc's, musl's. */
#ifdef __aarch64__
#define GLIBC_TID 208
#define MUSL_TID  32
#else
#define GLIBC_TID 720
#define MUSL_TID  48
#endif

/* Where structures have what, in bytes (Include/internal/pycore_runtime.h, _interp.h, _frame.h of each version). */
struct layout {
	__u16 interpreters;              /* _PyRuntimeState: the first one */
	__u16 threads, next_interpreter; /* PyInterpreterState: the first thread */
	__u16 next_thread, thread;       /* PyThreadState; thread: pthread_self() */
	__u16 native;                    /* its id for the kernel; 0: struct pthread has it */
	__u16 cframe;                    /* what has the frame; 0: itself */
	__u16 frame;                     /* of the Python function */
	__u16 code, back, owner;         /* of a frame; owner 0: there are no frames of C */
	__u16 type;                      /* PyObject */
	__u16 file, name;                /* PyCodeObject; name: with the class before it, from 3.11 on */
	__u16 instructions;              /* likewise: at its end; 0: elsewhere */
	__u16 length, state, text;       /* PyASCIIObject; text: behind it */
	__u16 states;                    /* bits of the state of a text that can be read */
};

static const struct layout layouts[] = {
	[8 ... 10] = {.interpreters = 32,
		      .threads = 8,
		      .next_thread = 8,
		      .thread = 176,
		      .frame = 24,
		      .code = 32,
		      .back = 24,
		      .type = 8,
		      .file = 104,
		      .name = 112,
		      .length = 16,
		      .state = 32,
		      .text = 48},
	[11] = {.interpreters = 40,
		.threads = 16,
		.next_thread = 8,
		.thread = 152,
		.native = 160,
		.cframe = 56,
		.frame = 8,
		.code = 32,
		.back = 48,
		.owner = 69,
		.type = 8,
		.file = 112,
		.name = 128,
		.instructions = 184,
		.length = 16,
		.state = 32,
		.text = 48},
	[12] = {.interpreters = 40,
		.threads = 72,
		.next_thread = 8,
		.thread = 136,
		.native = 144,
		.cframe = 56,
		.frame = 0,
		.code = 0,
		.back = 8,
		.owner = 70,
		.type = 8,
		.file = 112,
		.name = 128,
		.instructions = 192,
		.length = 16,
		.state = 32,
		.text = 40},
};

/* From this on a frame is of C, and no function: FRAME_OWNED_BY_CSTACK of 3.12, _INTERPRETER and _CSTACK of 3.14. */
#define OWNED_BY_C 3
/* struct PyASCIIObject.state: compact and ascii, how the text is stored; behind a byte in a build without the GIL. */
#define STATE_OF_GIL (1u << 5 | 1u << 6)
#define STATE_FREE   (1u << 11 | 1u << 12)
/* In the lowest bits of a pointer to a code object, from 3.14 on: who counts the reference. */
#define TAGS 3ull

/*
 * struct _Py_DebugOffsets, at the beginning of _PyRuntime: in each version what has been added to its parts has moved
 * the others (Include/internal/pycore_runtime.h of 3.13, pycore_debug_offsets.h of 3.14).
 */
#define DEBUG_WORDS 88
struct debug_offsets {
	char cookie[8];
	__u64 version;
	__u64 words[DEBUG_WORDS]; /* the first: whether it is a build without the GIL */
};
#define TOLD 16
static const __u16 told[][TOLD] = {
	[13] = {40, 72, 64, 168, 200, 184, 240, 232, 264, 360, 280, 296, 344, 552, 544, 560},
	[14] = {40, 72, 64, 192, 224, 208, 264, 256, 288, 408, 320, 336, 384, 632, 624, 640},
};

static int read_debug_offsets(struct target_memory *memory, __u64 runtime, __u32 minor, struct layout *out)
{
	struct debug_offsets offsets;
	__u16 found[TOLD];
	int err = target_read(memory, runtime, &offsets, sizeof(offsets));

	if (err)
		return err;
	if (memcmp(offsets.cookie, "xdebugpy", sizeof(offsets.cookie)) || offsets.version >> 16 != (0x0300 | minor))
		return -ENODATA;
	for (int i = 0; i < TOLD; i++) {
		const __u64 offset = offsets.words[(told[minor][i] - offsetof(struct debug_offsets, words)) / 8];

		if (offset > UINT16_MAX)
			return -ENODATA;
		found[i] = offset;
	}
	*out = (struct layout){.interpreters = found[0],
			       .threads = found[1],
			       .next_interpreter = found[2],
			       .next_thread = found[3],
			       .native = found[4],
			       .frame = found[5],
			       .code = found[6],
			       .back = found[7],
			       .owner = found[8],
			       .type = found[9],
			       .file = found[10],
			       .name = found[11],
			       .instructions = found[12],
			       .length = found[13],
			       .state = found[14],
			       .text = found[15],
			       .states = minor > 13 && offsets.words[0] ? STATE_FREE : STATE_OF_GIL};
	return 0;
}

static int find_layout(struct target_memory *memory, __u64 runtime, __u32 minor, struct layout *out)
{
	if (minor < CPYTHON_OLDEST || minor > CPYTHON_NEWEST)
		return -ENODATA;
	if (minor >= CPYTHON_TELLS)
		return read_debug_offsets(memory, runtime, minor, out);
	*out = layouts[minor];
	out->states = STATE_OF_GIL;
	return 0;
}

/* Text of ASCII characters alone; of what does not fit the end, which of a path tells most. */
static int read_text(struct target_memory *memory, const struct layout *layout, __u64 object, char *out, size_t size)
{
	__u64 length, state, left = 0;
	int err = target_number(memory, object + layout->state, 4, &state);

	err = err ?: target_word(memory, object + layout->length, &length);
	if (err)
		return err;
	if ((state & layout->states) != layout->states || !length || length > UINT16_MAX)
		return -EINVAL;
	if (length > size - 1) {
		left = length - (size - 1);
		length = size - 1;
	}
	err = target_read(memory, object + layout->text + left, out, length);
	out[length] = 0;
	for (__u64 i = 0; !err && i < length; i++)
		if (out[i] < ' ' || out[i] > '~')
			err = -EINVAL;
	return err;
}

/* As CPython names it in a map of perf: py::Class.function:/the/file.py (Python/perf_trampoline.c). */
static int read_code(struct target_memory *memory, const struct layout *layout, __u64 code_type, __u64 code,
		     struct cpython_frame *out)
{
	char name[CPYTHON_NAME / 2], file[CPYTHON_NAME / 2 - sizeof("py:::")];
	__u64 type, of_name, of_file, units = 0;
	int err = target_word(memory, code + layout->type, &type);

	if (!err && type != code_type)
		return -EINVAL;
	err = err ?: target_word(memory, code + layout->name, &of_name);
	err = err ?: target_word(memory, code + layout->file, &of_file);
	err = err ?: read_text(memory, layout, of_name, name, sizeof(name));
	err = err ?: read_text(memory, layout, of_file, file, sizeof(file));
	/* PyVarObject.ob_size is behind the type: units of two bytes. */
	if (!err && layout->instructions)
		err = target_word(memory, code + layout->type + 8, &units);
	if (!err && units > UINT32_MAX)
		err = -EINVAL;
	out->size = layout->instructions ? layout->instructions + 2 * units : 1;
	if (!err)
		snprintf(out->name, sizeof(out->name), "py::%s:%s", name, file);
	return err;
}

static int add_frame(struct target_memory *memory, struct cpython_known *known, __u64 now_ns,
		     const struct cpython_interpreter *interpreter, const struct layout *layout, __u64 code,
		     struct cpython_frames *out)
{
	typeof(known->codes[0]) *place = &known->codes[(code >> 4 ^ code >> 12) % CPYTHON_KNOWN_CODES];
	int err;

	if (!code)
		return -EFAULT;
	if (place->frame.code != code || place->number != interpreter->number || now_ns - place->ns >= KEPT_NS) {
		place->frame.code = 0;
		err = read_code(memory, layout, interpreter->code_type, code, &place->frame);
		if (err)
			return err;
		place->frame.code = code;
		place->number = interpreter->number;
		place->ns = now_ns;
	}
	out->list[out->count++] = place->frame;
	return 0;
}

/* Whether a PyThreadState is that thread's. */
static bool is_state_of(struct target_memory *memory, const struct layout *layout, __u64 state, __u32 tid)
{
	__u64 id, glibc, musl;

	if (layout->native)
		return !target_word(memory, state + layout->native, &id) && id == tid;
	return !target_word(memory, state + layout->thread, &id) &&
	       ((!target_number(memory, id + GLIBC_TID, 4, &glibc) && glibc == tid) ||
		(!target_number(memory, id + MUSL_TID, 4, &musl) && musl == tid));
}

/* Who looks for one thread's passes others. */
static void know_state(struct target_memory *memory, struct cpython_known *known, const struct layout *layout,
		       __u64 number, __u64 state)
{
	__u64 tid;
	int err;

	if (layout->native) {
		err = target_word(memory, state + layout->native, &tid);
	} else {
		err = target_word(memory, state + layout->thread, &tid);
		err = err ?: target_number(memory, tid + GLIBC_TID, 4, &tid);
	}
	/* A guess, if the C library is another one: it is looked at again before it is used. */
	if (!err)
		known->threads[tid % CPYTHON_KNOWN_THREADS] =
			(typeof(known->threads[0])){.number = number, .state = state, .tid = tid};
}

static int find_state(struct target_memory *memory, struct cpython_known *known, const struct layout *layout,
		      const struct cpython_interpreter *of, __u32 tid, __u64 *out)
{
	__u64 interpreter;
	int left = MOST_THREADS, err = target_word(memory, of->runtime + layout->interpreters, &interpreter);

	for (int i = 0; !err && interpreter && i < MOST_INTERPRETERS && left; i++) {
		err = target_word(memory, interpreter + layout->threads, out);
		for (; !err && *out && left; left--) {
			if (is_state_of(memory, layout, *out, tid))
				return 0;
			know_state(memory, known, layout, of->number, *out);
			err = target_word(memory, *out + layout->next_thread, out);
		}
		err = err ?: target_word(memory, interpreter + layout->next_interpreter, &interpreter);
	}
	return err ?: -ENOENT;
}

/* The same of a thread that an earlier look has found, or passed. */
static int known_state(struct target_memory *memory, struct cpython_known *known, const struct layout *layout,
		       const struct cpython_interpreter *interpreter, __u32 tid, __u64 *out)
{
	typeof(known->threads[0]) *place = &known->threads[tid % CPYTHON_KNOWN_THREADS];
	int err;

	if (place->number == interpreter->number && place->tid == tid &&
	    is_state_of(memory, layout, place->state, tid)) {
		*out = place->state;
		return 0;
	}
	err = find_state(memory, known, layout, interpreter, tid, out);
	if (!err)
		*place = (typeof(*place)){.number = interpreter->number, .state = *out, .tid = tid};
	return err;
}

/* The code that a word points into, or, before 3.11, at. */
static int find_code(struct target_memory *memory, struct cpython_known *known, __u64 now_ns,
		     const struct cpython_interpreter *interpreter, const struct layout *layout, __u64 word,
		     struct cpython_frames *out)
{
	const __u64 most = layout->instructions ? MOST_CODE : 1;
	__u64 code = word & ~(__u64)(ALIGNMENT - 1), type;
	int err = 0;

	for (; !err && code && word - code < most; code -= ALIGNMENT) {
		err = target_word(memory, code + layout->type, &type);
		if (err || type != interpreter->code_type)
			continue;
		err = add_frame(memory, known, now_ns, interpreter, layout, code, out);
		if (!err && word - code < out->list[0].size)
			return 0;
		break;
	}
	out->count = 0;
	return err ?: -ENOENT;
}

int cpython_frames_read(struct target_memory *memory, struct cpython_known *known, __u64 now_ns,
			const struct cpython_interpreter *interpreter, const struct cpython_thread *thread,
			struct cpython_frames *out)
{
	struct layout layout;
	__u64 state, frame;
	int err = find_layout(memory, interpreter->runtime, thread->minor, &layout);

	out->count = 0;
	if (!err && thread->word)
		return find_code(memory, known, now_ns, interpreter, &layout, thread->word, out);
	err = err ?: known_state(memory, known, &layout, interpreter, thread->tid, &state);
	if (!err && layout.cframe)
		err = target_word(memory, state + layout.cframe, &state);
	err = err ?: target_word(memory, state + layout.frame, &frame);
	for (int i = 0; !err && frame && i < MOST_STEPS && out->count < CPYTHON_FRAMES; i++) {
		__u64 owner = 0, code;

		if (layout.owner)
			err = target_number(memory, frame + layout.owner, 1, &owner);
		err = err ?: target_word(memory, frame + layout.code, &code);
		if (!err && owner < OWNED_BY_C)
			err = add_frame(memory, known, now_ns, interpreter, &layout, code & ~TAGS, out);
		err = err ?: target_word(memory, frame + layout.back, &frame);
	}
	return out->count ? 0 : err ?: -ENOENT;
}
