// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "futex/futex_bucket.h"
#include "kernel/kernel_btf.h"
#include "names/lock_types.h"
#include "lockline.skel.h"
#include "cli/message.h"
#include "base/values.h"
#include "watch/watch.h"
#include "watch/watch_decoding.h"
#include "watch/watch_machine.h"
#include "watch/watch_takers.h"
#include "watch/watch_target.h"
#include "watch/watch_windows.h"
#include "watch/watch_write.h"
#include "recording/recording_rows.h"

#define MEMORY_MOST (64ull << 20)
#define USERS       64
#define ROW_NS      100000000ull /* of windows that lie next to each other one row is written */
#define RANKED      64
#define OWN_LOOK    2
/* So many show a loop, which a watchpoint keeps from its end: it takes the reservation away (arm64). */
#define EXCLUSIVE_LOADS 1000

struct watch {
	struct watch_base base;
	struct watch_finder finder;
	struct user_symbols *users;
	struct watch_windows *windows;
	struct watch_decoding *decoding;
	struct memory_budget budget;
	struct watch_line lines[WATCH_LINES];
	__u32 line_count;
	int slots;
	struct watch_cost cost;
	__u64 begin_ns;
	__u32 own_tgid;
	bool told; /* that nothing is waited for yet */
	bool told_cpus;
};

int watch_resize(struct lockline_bpf *bpf, __u32 cpus, bool wanted)
{
	int err = bpf_program__set_autoload(bpf->progs.watch_hit, wanted);

	err = err ?: bpf_program__set_autoload(bpf->progs.watch_write, wanted);
	err = err ?: bpf_program__set_autoload(bpf->progs.watch_find_task, wanted);
	err = err ?: bpf_map__set_max_entries(bpf->maps.watch_records, wanted ? cpus * WATCH_RING : 1);
	return err ?: bpf_map__set_max_entries(bpf->maps.watch_states, wanted ? cpus : 1);
}

static int tell_refusal(const struct watched *watched, int err)
{
	char takers[512];

	switch (err) {
	case -ENOSPC:
	case -EBUSY:
		watch_takers(takers, sizeof(takers));
		message("%s: no debug register is left for a watchpoint%s%s", watched->target,
			*takers ? "; held perhaps by " : "", takers);
		break;
	case -EINVAL:
		message("%s: the kernel allows no watchpoint there: its own entry code uses that memory",
			watched->target);
		break;
	case -EACCES:
	case -EPERM:
		message("%s: watchpoints are refused: %s; root or CAP_PERFMON and CAP_SYS_ADMIN are needed",
			watched->target, strerror(-err));
		break;
	case -EOPNOTSUPP:
	case -ENODEV:
	case -ENOENT:
		message("%s: this machine has no watchpoints: %s", watched->target, strerror(-err));
		break;
	default:
		message("%s: a watchpoint is refused: %s", watched->target, strerror(-err));
	}
	return err;
}

static int tell_untyped(void)
{
	message("--access watchpoint: two watchpoints at one place do not separate reads from writes on this machine, "
		"or fewer than two registers are free; leave it out");
	return -EOPNOTSUPP;
}

/* The mask of the eighths of its line that are of interest and may be watched. */
static int choose_places(struct watch *watch, const struct watched *watched, __u32 *places)
{
	__u64 first = watched->address & ~(CACHE_LINE - 1ull);
	__u32 wanted = watch->base.options->watch_places ?: 0xff, refused = 0;
	const char *why = "";

	if (!watched->tgid)
		refused = watch_forbidden(&watch->finder, first, &why);
	if (refused >> (watched->address - first) / WATCH_SLOT_BYTES & 1) {
		message("%s: must not be watched: %s", watched->target, why);
		return -EINVAL;
	}
	*places = wanted & ~refused;
	if (*places != wanted)
		message("%s: a part of its line is left out: %s", watched->target, why);
	if (*places)
		return 0;
	message("%s: no part of its line can be watched", watched->target);
	return -EINVAL;
}

static int add_line(struct watch *watch, const struct watched *watched, __u64 now_ns)
{
	struct watch_line *line = &watch->lines[watch->line_count];
	struct watch_place place = {.address = watched->address & ~(CACHE_LINE - 1ull), .tgid = watched->tgid};
	int err;

	if (watch->line_count == WATCH_LINES)
		return -ENOSPC;
	err = choose_places(watch, watched, &place.places);
	if (err)
		return err;
	/* Once others are watched no register is free to try with. */
	if (!watch->line_count) {
		err = watch_windows_try(watch->windows, place.address);
		if (err < 0)
			return tell_refusal(watched, err);
		if (err < 2 && watch->base.options->watch_access_from == ACCESS_FROM_WATCHPOINT)
			return tell_untyped();
		watch->slots = err;
	}
	*line = (struct watch_line){.watched = *watched, .id = WATCH_IDS + watch->line_count, .begin_ns = now_ns};
	watch_sums_open(&line->sums, &watch->budget);
	if (!watched->tgid)
		watch_freed_open(&line->freed, watch->base.names, watched->address, watched->type, watched->is_lock);
	if (watched->tid)
		watch_target_task(&watch->finder, watched->tid, &line->task);
	if (watched->tid || watched->tgid)
		process_stat_read(watched->tid ?: watched->tgid, &line->owner);
	err = watch_windows_add(watch->windows, &place);
	if (err < 0)
		return err;
	if (watch->base.options->watch_access_from == ACCESS_FROM_WATCHPOINT)
		watch_windows_type(watch->windows, err, 1);
	watch->line_count++;
	return 0;
}

/*
 * arm64 before 6.6 and stable series without d11a69873d9a: a program behind a
 * watchpoint keeps the kernel from stepping over the instruction.
 */
static int check_machine(struct watch *watch, bool kernel_target)
{
	const char *refusal = watch_machine_refusal(kernel_target, !watch->base.options->watch_share);
	const struct lockline_bpf *bpf = watch->base.probes->bpf;
	const struct watch_programs programs = {
		.hit = bpf_program__fd(bpf->progs.watch_hit),
		.write = bpf_program__fd(bpf->progs.watch_write),
	};
	int err;

	if (refusal) {
		message("watchpoints would hang what uses locks: %s", refusal);
		return -EOPNOTSUPP;
	}
	err = watch_hit_cost(&programs, &watch->cost);
	if (err == -EDEADLK)
		message("a watchpoint with a BPF program makes tasks of this kernel hang (arm64 before 6.6, "
			"without d11a69873d9a): nothing can be watched");
	else if (err == -ETIMEDOUT)
		message("the process that tries a watchpoint got no CPU: this machine is too busy to watch anything");
	else if (err == -ENOSPC || err == -EBUSY)
		tell_refusal(&(struct watched){.target = "watch"}, err);
	else if (err)
		message("watchpoints cannot be used here: %s", strerror(-err));
	else if (!watch->cost.write_ns && watch->base.options->watch_access_from == ACCESS_FROM_WATCHPOINT)
		err = tell_untyped();
	return err;
}

static void add_program(struct probes *probes, const char *name, const struct bpf_program *program)
{
	probes->programs[probes->program_count++] = (struct own_program){
		.name = name,
		.signal = signal_name(SIGNAL_WATCHPOINTS),
		.fd = bpf_program__fd(program),
	};
}

int watch_open(struct watch **out, const struct watch_base *base)
{
	const struct options *options = base->options;
	struct watch *watch = calloc(1, sizeof(*watch));
	struct watched watched;
	int err;

	if (!watch)
		return -ENOMEM;
	watch->base = *base;
	watch->budget.limit = MEMORY_MOST;
	watch->own_tgid = getpid();
	err = user_symbols_open(&watch->users, USERS);
	watch->finder = (struct watch_finder){.names = base->names,
					      .symbols = base->symbols,
					      .users = watch->users,
					      .bpf = base->probes->bpf,
					      .recording = options->watch_input};
	if (!err)
		err = watch_decoding_open(&watch->decoding, base->names, base->symbols, watch->users, base->recording,
					  &watch->budget);
	if (!err)
		err = watch_windows_open(&watch->windows, base->probes->bpf, base->cpus, &options->cpus);
	if (err)
		message("cannot prepare watchpoints: %s", strerror(-err));
	if (!err && options->watch_target)
		err = watch_target_find(&watch->finder, options->watch_target, &watched);
	err = err ?: check_machine(watch, !options->watch_target || !watched.tgid);
	if (!err && options->watch_target)
		err = add_line(watch, &watched, 0);
	/* A program's data has none of the kernel's types. */
	if (!options->watch_target || !watched.tgid)
		err = err ?: kernel_btf_put(base->recording);
	if (err) {
		watch_close(watch);
		return err;
	}
	add_program(base->probes, "watch_hit", base->probes->bpf->progs.watch_hit);
	add_program(base->probes, "watch_write", base->probes->bpf->progs.watch_write);
	*out = watch;
	return 0;
}

int watch_begin(struct watch *watch, __u64 now_ns)
{
	int err;

	if (!watch)
		return 0;
	watch->begin_ns = now_ns;
	err = watch_write_source(watch->base.recording, watch->slots ?: WATCH_SLOTS);
	for (__u32 i = 0; !err && i < watch->line_count; i++) {
		watch->lines[i].begin_ns = now_ns;
		err = watch_write_line(watch->base.recording, &watch->lines[i]);
	}
	if (!err) {
		err = watch_windows_begin(watch->windows, watch->base.options->watch_share, &watch->cost);
		if (err)
			message("cannot start the thread that watches: %s", strerror(-err));
	}
	return err;
}

/* The task or process that the target belongs to; an id alone may be another's by now. */
static int owner_changed(const struct watch *watch, const struct watch_line *line)
{
	const struct futex_shared private = {};
	const struct watched *watched = &line->watched;
	struct process_stat now;
	__u64 bucket;
	bool own;

	if (!line->owner.start_time)
		return -1;
	if (process_stat_read(watched->tid ?: watched->tgid, &now) || now.start_time != line->owner.start_time)
		return 1;
	/* Of a zombie the task_struct stays, its memory does not; what the task or process points to may be another. */
	if (now.ended && (watched->tgid || watched->futex))
		return 1;
	if (watched->tgid)
		return -1;
	if (watched->object == line->task)
		return 0;
	/* A process's own hash is another one when it is resized. */
	if (watched->futex &&
	    !futex_bucket_find(watch->base.names, line->task, watched->futex, &private, &bucket, &own))
		return bucket == watched->object ? 0 : 1;
	return -1;
}

/* Whether the object is still the one that it was: -1 if that cannot be told; why not. */
static int is_changed(const struct watch *watch, const struct watch_line *line, const char **why)
{
	int changed = -1;

	*why = line->watched.tgid ? "the process has ended" : "the object is gone or another one now";
	if (line->watched.tid || line->watched.tgid)
		changed = owner_changed(watch, line);
	if (changed >= 0 || line->watched.tgid)
		return changed;
	*why = watch_freed_by_reading(&line->freed, watch->base.names);
	return *why ? 1 : -1;
}

/* What is there is not what was asked for: the watch ends. */
static void lose_object(struct watch *watch, struct watch_line *line, const char *why)
{
	line->gone = line->over = true;
	snprintf(line->ended, sizeof(line->ended), "%s%s", why,
		 line->freed.stays_of_type ? " (of its type still)" : "");
	watch_windows_drop(watch->windows, line->id - WATCH_IDS);
}

static int compare_records(const void *a, const void *b)
{
	const struct watch_record *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->cpu != y->cpu ? (x->cpu < y->cpu ? -1 : 1) : x->sequence < y->sequence ? -1 : 1;
}

/* 1: a transfer; OWN_LOOK: nothing to be told; 0, or a negative errno. */
static int add_record(struct watch *watch, struct watch_line *line, const struct watch_record *record)
{
	struct watch_hit hit = {
		.ns = record->ns,
		.lock = record->lock,
		.cpu = record->cpu,
		.kind = record->kind,
		.flags = record->flags,
	};
	enum watch_access_from from = watch->base.options->watch_access_from;
	struct watch_access access;
	struct watch_kind kind;
	enum watch_decoded told;
	const char *why;
	int err = watch_decoding_find(watch->decoding, record, WATCH_SLOT_BYTES, &access, &kind, &hit.code);

	/* We read the object ourselves. */
	if (!err && access.toucher == TOUCHER_LOOKS && record->tgid == watch->own_tgid)
		return OWN_LOOK;
	err = err ?: watch_decoding_thread(watch->decoding, record, &hit.thread);
	if (err) {
		line->sums.refused += err == -ENOSPC;
		return err == -ENOSPC ? 0 : err;
	}
	hit.offset = access.offset;
	line->exclusive_loads += record->flags & WATCH_USER && access.access == (ACCESS_READ | ACCESS_LOCKED);
	told = watch_tell(from, access.access, record->flags, &kind, WATCH_WRITE_HITS_BOTH, &hit.access);
	why = line->gone ? NULL : watch_freed_by_access(&line->freed, &access, hit.access);
	if (why)
		lose_object(watch, line, why);
	err = watch_decoded_add(&line->told, &watch->budget, hit.code, told, access.access, record->flags,
				WATCH_WRITE_HITS_BOTH);
	return err ?: watch_sums_add(&line->sums, &hit);
}

static int end_row(struct watch *watch, struct watch_line *line)
{
	int err = 0;

	if (line->row.end_ns)
		err = watch_write_window(watch->base.recording, line);
	line->row.end_ns = 0;
	return err;
}

static int add_window(struct watch *watch, struct watch_window *window)
{
	struct watch_line *line = &watch->lines[window->line];
	struct watch_window_row *row = &line->row;
	__u64 transfers = 0;
	int err = 0;

	qsort(window->records, window->record_count, sizeof(window->records[0]), compare_records);
	if (!window->goes_on) {
		watch_sums_begin(&line->sums);
		err = end_row(watch, line);
	}
	for (__u64 i = 0; !err && i < window->record_count; i++) {
		int found = add_record(watch, line, &window->records[i]);

		err = found < 0 ? found : 0;
		transfers += found == 1;
		window->hits -= found == OWN_LOOK;
	}
	if (err)
		return err;
	if (!row->end_ns)
		*row = (struct watch_window_row){.begin_ns = window->begin_ns, .places = window->places, .changed = -1};
	if (line->gone)
		row->changed = 1;
	row->end_ns = window->end_ns;
	row->hits += window->hits;
	row->lost += window->lost;
	row->transfers += transfers;
	row->cut |= window->cut;
	line->windows += !window->goes_on;
	if (window->typed) {
		line->told.typed_windows += !window->goes_on;
		line->told.typed_hits += window->hits;
	}
	line->watched_ns += window->end_ns - window->begin_ns;
	line->hits += window->hits;
	line->lost += window->lost;
	line->transfers += transfers;
	line->end_ns = window->end_ns;
	return 0;
}

static void look_at_object(struct watch *watch, struct watch_line *line)
{
	const char *why;

	if (!line->row.end_ns || line->gone)
		return;
	line->row.changed = is_changed(watch, line, &why);
	if (line->row.changed == 1)
		lose_object(watch, line, why);
}

/* Without --full such a loop ends between two windows. */
static void look_at_exclusives(struct watch *watch, struct watch_line *line)
{
	if (watch->base.options->watch_share || line->over || line->exclusive_loads < EXCLUSIVE_LOADS)
		return;
	line->over = true;
	snprintf(line->ended, sizeof(line->ended),
		 "its load-exclusive instructions do not succeed while they are watched: leave --full out");
	watch_windows_drop(watch->windows, line->id - WATCH_IDS);
}

/* More windows with two watchpoints at each place, or fewer: where instructions were met that are not known. */
static void choose_typed(struct watch *watch, __u32 number)
{
	const struct options *options = watch->base.options;
	bool whole = watch_windows_typed_are_whole(watch->windows, number);
	__u32 every = watch_typed_every(&watch->lines[number].told);

	if (options->watch_access_from != ACCESS_FROM_EITHER || !watch->cost.write_ns)
		return;
	/* Without a limit of cost each byte is watched always: none is left out for this. */
	if (every && whole)
		every = 1;
	else if (!options->watch_share)
		every = 0;
	watch_windows_type(watch->windows, number, every);
}

static const char *error_text(int err)
{
	return !err ? "" : err == -ENOSPC || err == -EBUSY ? "the debug registers were taken" : strerror(-err);
}

int watch_drain(struct watch *watch)
{
	struct watch_window *window, *next;
	int err = 0;

	if (!watch)
		return 0;
	window = watch_windows_take(watch->windows);
	for (; window; window = next) {
		next = window->next;
		if (!err)
			err = add_window(watch, window);
		free(window);
	}
	if (!watch->told_cpus && !watch->base.options->quiet && watch_windows_cpus_changed(watch->windows)) {
		watch->told_cpus = true;
		message("CPUs went online or offline: those that are online are watched from now on");
	}
	for (__u32 i = 0; !err && i < watch->line_count; i++) {
		struct watch_line *line = &watch->lines[i];

		look_at_object(watch, line);
		look_at_exclusives(watch, line);
		choose_typed(watch, i);
		if (line->row.end_ns - line->row.begin_ns > ROW_NS)
			err = end_row(watch, line);
		if (!line->over)
			snprintf(line->ended, sizeof(line->ended), "%s",
				 error_text(watch_windows_error(watch->windows, i)));
	}
	return err;
}

/* Locks of the kernel, as their waits were met: those that were waited for most, each line once. */
static int pick_lines(struct watch *watch, __u64 now_ns)
{
	__u32 wanted = watch->base.options->watch_auto;
	int err = 0;

	for (int rank = 0; !err && rank < RANKED && watch->line_count < wanted; rank++) {
		__s64 address = recording_hot_lock(watch->base.recording, rank);
		const struct known_lock *lock = address ? locks_find(watch->base.locks, address) : NULL;
		struct watched watched;
		bool known = false;
		char name[160];

		if (!address)
			break;
		for (__u32 i = 0; i < watch->line_count; i++)
			known |= (watch->lines[i].watched.address ^ (__u64)address) < CACHE_LINE;
		if (known || !lock)
			continue;
		err = recording_lock_title(watch->base.recording, lock->id, name, sizeof(name));
		if (err || watch_target_lock(&watch->finder, address, name, &watched))
			continue;
		if (add_line(watch, &watched, now_ns))
			continue;
		err = watch_write_line(watch->base.recording, &watch->lines[watch->line_count - 1]);
	}
	if (!err && !watch->line_count && !watch->told && !watch->base.options->quiet)
		message("nobody has waited for a lock yet: nothing to watch so far");
	watch->told = true;
	return err;
}

int watch_flush(struct watch *watch, __u64 now_ns)
{
	int err = watch_drain(watch);

	if (!watch)
		return 0;
	if (!err && !watch->base.options->watch_target)
		err = pick_lines(watch, now_ns);
	for (__u32 i = 0; !err && i < watch->line_count; i++) {
		struct watch_line *line = &watch->lines[i];

		err = end_row(watch, line);
		if (!line->watched.tgid && locks_find(watch->base.locks, line->watched.address))
			line->freed.is_lock = true;
		err = err
			      ?: watch_write_sums(watch->base.recording, line, watch->base.locks, watch->base.options,
						  &watch->cost);
	}
	err = err
		      ?: recording_put(watch->base.recording, cost, .name = "watch_thread_ns",
				       .value = watch_windows_own_ns(watch->windows), .unit = "ns");
	return err
		       ?: recording_put_number(watch->base.recording, "watch_other_hits",
					       watch_windows_others(watch->windows));
}

void watch_end(struct watch *watch)
{
	if (watch)
		watch_windows_end(watch->windows);
}

void watch_print(const struct watch *watch)
{
	for (__u32 i = 0; watch && i < watch->line_count; i++) {
		const struct watch_line *line = &watch->lines[i];
		double ms = line->watched_ns / 1e6;

		message("%s: watched for %.1f ms in %llu window%s: %llu hits (%.0f/ms), %llu transfers, %llu lost%s%s",
			line->watched.target, ms, line->windows, line->windows == 1 ? "" : "s", line->hits,
			ms > 0 ? line->hits / ms : 0, line->transfers, line->lost,
			*line->ended ? "; ended early: " : "", line->ended);
	}
	if (watch && !watch->line_count)
		message("nothing was watched: nobody waited for a lock");
}

void watch_close(struct watch *watch)
{
	if (!watch)
		return;
	watch_windows_close(watch->windows);
	watch_decoding_close(watch->decoding);
	for (__u32 i = 0; i < watch->line_count; i++) {
		watch_sums_close(&watch->lines[i].sums);
		watch_decoded_close(&watch->lines[i].told);
	}
	user_symbols_close(watch->users);
	free(watch);
}
