// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "base/small_file.h"
#include "futex/futex_holders.h"
#include "futex/futex_names.h"
#include "futex/futex_waiting.h"
#include "recording/recording_rows.h"
#include "syscall_names.h"

/* So many looks at a mutex are made at each turn, then at every fourth, and those count for the turns between. */
#define ENOUGH_LOOKS 100
#define SELDOM       4
/* The value of a mutex of the C library that is locked, with waiters. */
#define LOCKED_WITH_WAITERS 2
/* Below it lies the code of 32-bit programs, whose calls have other numbers. */
#define CODE_OF_32_BITS (1ull << 32)

void futex_holders_meet(struct futex_holders *holders, const struct held_mutex *mutex)
{
	struct held_mutex *oldest = holders->mutexes;

	for (int i = 0; i < HELD_MUTEXES; i++) {
		struct held_mutex *known = &holders->mutexes[i];

		if (known->futex == mutex->futex) {
			const __u32 looks = known->looks;

			*known = *mutex;
			known->looks = looks;
			return;
		}
		if (known->seen_ns < oldest->seen_ns)
			oldest = known;
	}
	*oldest = *mutex;
}

void futex_holders_forget(struct futex_holders *holders, __s64 futex)
{
	for (int i = 0; i < HELD_MUTEXES; i++)
		if (holders->mutexes[i].futex == futex)
			holders->mutexes[i] = (struct held_mutex){};
}

/* Who has it now, while others wait for it; 0: nobody. */
static __u32 holder_of(const struct held_mutex *mutex)
{
	struct futex_words words = {0};
	__u32 owner;

	if (!futex_words(mutex->tgid, mutex->address, &words))
		return 0;
	if (mutex->pi)
		owner = words.word & FUTEX_WAITERS ? words.word & FUTEX_TID_MASK : 0;
	else
		owner = words.word == LOCKED_WITH_WAITERS ? words.owner : 0;
	return owner ? futex_thread(mutex->tgid, owner, mutex->address, mutex->shared) : 0;
}

const char *futex_holder_call(const char *line)
{
	const char *code = strrchr(line, ' ');
	char *end;
	long number = strtol(line, &end, 10);

	if (end == line || !code || strtoull(code, NULL, 16) < CODE_OF_32_BITS)
		return "";
	if (number == -1)
		return "page fault";
	if (number < 0 || number >= (long)(sizeof(syscall_names) / sizeof(*syscall_names)) || !syscall_names[number])
		return "";
	return syscall_names[number];
}

static int look(struct recording *recording, const struct held_mutex *mutex, __u32 weight)
{
	__u32 holder = holder_of(mutex);
	char state[2] = {holder ? task_state(holder) : 0};
	char line[256] = "", function[64] = "";
	const char *call = "";
	__u64 behind = 0;

	if (!*state)
		return 0;
	if (*state != 'R') {
		/* Of a thread too, whichever process it belongs to. */
		if (!proc_line(holder, "syscall", line, sizeof(line))) {
			call = futex_holder_call(line);
			behind = futex_waited_for(line);
		}
		proc_line(holder, "wchan", function, sizeof(function));
		/* It ran, or woke up, meanwhile. */
		if (!isdigit((unsigned char)*line) && *line != '-')
			return 0;
	}
	if (holder_of(mutex) != holder)
		return 0;
	return recording_put(recording, futex_holder, .futex = mutex->futex, .state = state, .call = call,
			     .function = strcmp(function, "0") ? function : "", .behind = behind, .looks = weight);
}

int futex_holders_look(struct futex_holders *holders, struct recording *recording, __u64 now_ns)
{
	int err = 0;

	holders->turn++;
	for (int i = 0; !err && i < HELD_MUTEXES; i++) {
		struct held_mutex *mutex = &holders->mutexes[i];
		/* A look has another process read the mutex's words, twice: many tell no more than some. */
		const __u32 weight = mutex->looks < ENOUGH_LOOKS ? 1 : SELDOM;

		if (!mutex->futex || now_ns - mutex->seen_ns >= HELD_FOR_NS || holders->turn % weight)
			continue;
		mutex->looks++;
		err = look(recording, mutex, weight);
	}
	return err;
}
