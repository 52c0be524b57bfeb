// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/ring.h"
#include "bpf/lock_filter.h"
#include "filter/lock_filter.h"
#include "filter/verdicts.h"
#include "lockline.skel.h"
#include "names/lock_names.h"
#include "probes/maps.h"
#include "waits/locks.h"

#define AGE_NS 60000000000ull

struct verdicts {
	const struct lock_filter *filter;
	struct lock_names *names;
	struct locks *locks;
	struct mapped_array words;
	struct mapped_array questions;
	struct mapped_array states;
	__u32 cpus;
	__u64 *positions; /* read so far, per CPU */
	struct ring_losses losses;
	__u64 losses_aged;
	__u64 aged_ns;
};

int verdicts_open(struct verdicts **out, struct lockline_bpf *bpf, const struct ground *ground)
{
	struct verdicts *verdicts = *out = calloc(1, sizeof(*verdicts));
	int err;

	if (!verdicts)
		return -ENOMEM;
	verdicts->filter = ground->lock_filter;
	verdicts->names = ground->names;
	verdicts->locks = ground->locks;
	verdicts->cpus = ground->sizing->cpus;
	verdicts->aged_ns = now_ns();
	verdicts->positions = calloc(verdicts->cpus, sizeof(*verdicts->positions));
	err = verdicts->positions ? 0 : -ENOMEM;
	err = err ?: maps_map(&verdicts->words, bpf->maps.lock_verdicts);
	err = err ?: maps_map(&verdicts->questions, bpf->maps.lock_questions);
	err = err ?: maps_map(&verdicts->states, bpf->maps.question_states);
	/* The first waits may ask at once. */
	return err ?: verdicts_answer(verdicts);
}

void verdicts_close(struct verdicts *verdicts)
{
	maps_unmap(&verdicts->words);
	maps_unmap(&verdicts->questions);
	maps_unmap(&verdicts->states);
	free(verdicts->positions);
	free(verdicts);
}

/* The word of a lock that was asked for; NULL: it was forgotten meanwhile. */
static __u64 *word_of(const struct verdicts *verdicts, __u64 lock)
{
	for (__u32 probe = 0; probe < VERDICT_PROBES; probe++) {
		__u64 *word = (__u64 *)verdicts->words.data + verdict_slot(lock, probe);

		if (__atomic_load_n(word, __ATOMIC_RELAXED) == verdict_word(lock, VERDICT_ASKED))
			return word;
	}
	return NULL;
}

/* A wanted lock is met by the same stack that it was named by, so that its name stays the one that was asked for. */
static int answer(struct verdicts *verdicts, const struct lock_question *question)
{
	const struct lock_hint hint = {
		.address = question->lock,
		.kind = question->kind,
		.owner = question->row.owner,
		.owner_offset = question->row.owner_offset,
		.owner_id = question->row.owner_id,
		.frames = question->kernel,
		.frame_count = question->kernel_frames,
	};
	__u64 *word = word_of(verdicts, question->lock);
	struct lock_name name;
	bool wanted;
	int err = 0;

	if (!word)
		return 0;
	lock_names_resolve(verdicts->names, &hint, &name);
	wanted = lock_filter_names(verdicts->filter, name.name);
	if (wanted)
		locks_meet(verdicts->locks, &hint, &err);
	__atomic_store_n(word, verdict_word(question->lock, wanted ? VERDICT_WANTED : VERDICT_UNWANTED),
			 __ATOMIC_RELAXED);
	return err;
}

int verdicts_answer(struct verdicts *verdicts)
{
	struct question_state *states = verdicts->states.data;
	int err = 0;

	for (__u32 cpu = 0; !err && cpu < verdicts->cpus; cpu++) {
		const struct ring ring = {
			.records = (struct lock_question *)verdicts->questions.data + (size_t)cpu * QUESTIONS,
			.written = &states[cpu].asked,
			.count = QUESTIONS,
			.bytes = sizeof(struct lock_question),
			.sequence = offsetof(struct lock_question, sequence),
		};
		struct lock_question question;
		struct ring_pass pass;

		ring_begin(&pass, &ring, verdicts->positions[cpu], &verdicts->losses);
		while (!err && ring_next(&pass, &question, &verdicts->losses))
			err = answer(verdicts, &question);
		verdicts->positions[cpu] = pass.position;
		__atomic_store_n(&states[cpu].tokens, QUESTION_TOKENS, __ATOMIC_RELAXED);
	}
	return err;
}

void verdicts_age(struct verdicts *verdicts)
{
	__u64 *words = verdicts->words.data, lost = verdicts->losses.overwritten + verdicts->losses.torn;
	bool old = now_ns() - verdicts->aged_ns >= AGE_NS, unanswered = lost != verdicts->losses_aged;
	__u32 used = 0;

	for (__u32 i = 0; i < VERDICT_SLOTS; i++)
		used += words[i] != 0;
	if (!old && !unanswered && used < VERDICT_SLOTS / 2)
		return;
	for (__u32 i = 0; i < VERDICT_SLOTS; i++) {
		enum verdict verdict = words[i] & 0xff;

		if (verdict == VERDICT_UNWANTED || (verdict == VERDICT_ASKED && unanswered))
			__atomic_store_n(&words[i], 0, __ATOMIC_RELAXED);
	}
	verdicts->losses_aged = lost;
	if (old)
		verdicts->aged_ns = now_ns();
}
