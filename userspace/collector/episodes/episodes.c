// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "episodes/episodes.h"
#include "episodes/snapshot.h"
#include "base/proc.h"
#include "episodes/timeline.h"
#include "recording/recording_rows.h"

/* Shown before and after a wait. */
#define AROUND_NS 200000ull
/* A record is written within microseconds of its time, unless a virtual CPU stands still. */
#define SETTLE_NS 1000000ull
/* Of what is no wait: so much before it. */
#define SNAPSHOT_NS 20000000ull
/* In an interval: heard of and not looked at yet; kept with their records; in progress. */
#define PENDING 64
#define KEPT    16
#define OPEN    64
/* In a recording: some 60 bytes each. */
#define MOST_RECORDS 500000
#define TASK_CACHE   256

enum episode_state { ENDED, IN_PROGRESS, SNAPSHOT };

struct episode {
	struct long_wait wait; /* without its frames */
	enum episode_state state;
	bool fired;
	bool collected;
	const char *interrupts;
	const char *interrupts_from;
	struct timeline timeline;
};

/* Episodes of one sort, the longest kept. */
struct shelf {
	struct episode *episodes;
	size_t count;
	size_t room;
};

struct cached_task {
	__s64 id;
	__u32 tid;
	char comm[17];
};

struct episodes {
	const struct maps *maps;
	struct recording *recording;
	const struct holders *holders;
	struct stacks stacks;
	const struct lock_names *names;
	__u64 threshold_ns;
	struct shelf pending;
	struct shelf kept;
	struct shelf open;
	/* Waits in progress whose begin has been looked at. */
	struct {
		__u32 tid;
		__u64 begin_ns;
	} seen[OPEN];
	size_t seen_next;
	__u64 records;
	struct cached_task tasks[TASK_CACHE];
	struct episode_losses losses;
};

static int shelf_open(struct shelf *shelf, size_t room)
{
	shelf->episodes = calloc(room, sizeof(*shelf->episodes));
	shelf->room = room;
	return shelf->episodes ? 0 : -ENOMEM;
}

static void shelf_clear(struct shelf *shelf)
{
	for (size_t i = 0; i < shelf->count; i++)
		timeline_free(&shelf->episodes[i].timeline);
	shelf->count = 0;
}

static bool ranks_below(const struct episode *one, const struct episode *other)
{
	if (one->fired != other->fired)
		return other->fired;
	return one->wait.wait_ns < other->wait.wait_ns;
}

/* The place for an episode, instead of the shortest if there is none left; NULL: it is the shortest. */
static struct episode *shelf_place(struct shelf *shelf, const struct episode *wanted, __u64 *dropped)
{
	struct episode *least = shelf->episodes;

	if (shelf->count < shelf->room)
		return &shelf->episodes[shelf->count++];
	++*dropped;
	for (size_t i = 1; i < shelf->count; i++)
		if (ranks_below(&shelf->episodes[i], least))
			least = &shelf->episodes[i];
	if (!ranks_below(least, wanted))
		return NULL;
	timeline_free(&least->timeline);
	return least;
}

int episodes_open(struct episodes **out, const struct maps *maps, struct recording *recording,
		  const struct holders *holders, const struct stacks *stacks, const struct lock_names *names,
		  __u64 threshold_ns)
{
	struct episodes *episodes = calloc(1, sizeof(*episodes));
	int err;

	if (!episodes)
		return -ENOMEM;
	episodes->maps = maps;
	episodes->recording = recording;
	episodes->holders = holders;
	episodes->stacks = *stacks;
	episodes->names = names;
	episodes->threshold_ns = threshold_ns;
	err = shelf_open(&episodes->pending, PENDING);
	err = err ?: shelf_open(&episodes->kept, KEPT);
	err = err ?: shelf_open(&episodes->open, OPEN);
	if (err)
		episodes_close(episodes);
	else
		*out = episodes;
	return err;
}

void episodes_close(struct episodes *episodes)
{
	struct shelf *shelves[] = {&episodes->pending, &episodes->kept, &episodes->open};

	if (!episodes)
		return;
	for (size_t i = 0; i < sizeof(shelves) / sizeof(shelves[0]); i++) {
		shelf_clear(shelves[i]);
		free(shelves[i]->episodes);
	}
	free(episodes);
}

const struct episode_losses *episodes_losses(const struct episodes *episodes)
{
	return &episodes->losses;
}

static void infer_interrupts(const struct episodes *episodes, const struct long_wait *wait, struct episode *episode)
{
	const char *functions[STACK_FRAMES];
	struct symbol symbol;
	int count = 0;

	for (int i = 0; i < wait->frame_count && i < STACK_FRAMES; i++)
		if (!symbols_lookup(episodes->stacks.symbols, wait->frames[i], &symbol))
			functions[count++] = symbol.name;
	episode->interrupts = interrupts_inferred(wait->kind, functions, count, &episode->interrupts_from);
}

int episodes_on_wait(struct episodes *episodes, const struct long_wait *wait, bool fired)
{
	struct episode episode = {.wait = *wait, .state = wait->outlier ? ENDED : IN_PROGRESS, .fired = fired}, *place;

	if (!wait->outlier && wait->wait_ns < episodes->threshold_ns && !fired)
		return 0;
	infer_interrupts(episodes, wait, &episode);
	episode.wait.frames = NULL;
	place = shelf_place(wait->outlier ? &episodes->pending : &episodes->open, &episode, &episodes->losses.not_kept);
	if (place)
		*place = episode;
	return 0;
}

int episodes_snapshot(struct episodes *episodes, __u64 now_ns)
{
	struct episode episode = {
		.wait = {.begin_ns = now_ns - SNAPSHOT_NS, .wait_ns = SNAPSHOT_NS, .kind = KIND_UNKNOWN, .policy = -1},
		.state = SNAPSHOT,
		.fired = true,
		.interrupts = "unknown",
		.interrupts_from = "not a wait",
	};
	struct episode *place = shelf_place(&episodes->pending, &episode, &episodes->losses.not_kept);

	if (place)
		*place = episode;
	return 0;
}

void episodes_forget(struct episodes *episodes, __u64 before_ns)
{
	struct shelf *pending = &episodes->pending;
	size_t left = 0;

	for (size_t i = 0; i < pending->count; i++)
		if (pending->episodes[i].wait.begin_ns + pending->episodes[i].wait.wait_ns >= before_ns)
			pending->episodes[left++] = pending->episodes[i];
	pending->count = left;
	shelf_clear(&episodes->open);
}

static int collect(const struct episodes *episodes, struct episode *episode, __u32 holder)
{
	const struct long_wait *wait = &episode->wait;
	const struct timeline_window window = {
		.from_ns = wait->begin_ns > AROUND_NS ? wait->begin_ns - AROUND_NS : 0,
		.to_ns = wait->begin_ns + wait->wait_ns + AROUND_NS,
		.lock = wait->lock_address,
		.tid = wait->tid,
		.holder = holder,
		.cpu = wait->cpu,
		.begin_cpu = wait->begin_cpu,
	};

	if (episode->collected)
		return 0;
	episode->collected = true;
	return timeline_read(&episode->timeline, episodes->maps, episodes->holders, &window);
}

int episodes_collect(struct episodes *episodes, __u64 now_ns, bool all)
{
	struct shelf *pending = &episodes->pending;
	size_t left = 0;
	int err = 0;

	for (size_t i = 0; i < pending->count; i++) {
		struct episode *episode = &pending->episodes[i], *place;
		__u64 end = episode->wait.begin_ns + episode->wait.wait_ns;

		if (err || (!all && end + AROUND_NS + SETTLE_NS > now_ns)) {
			pending->episodes[left++] = *episode;
			continue;
		}
		place = shelf_place(&episodes->kept, episode, &episodes->losses.not_kept);
		if (!place)
			continue;
		*place = *episode;
		err = collect(episodes, place, 0);
	}
	pending->count = left;
	return err;
}

static __s64 find_task(struct episodes *episodes, __u32 tid, const char *comm)
{
	__u32 leader = 0;
	__s64 id;
	int err;

	id = *comm ? recording_find_task_of_name(episodes->recording, tid, comm)
		   : recording_find_task_by_tid(episodes->recording, tid);
	if (id)
		return id;
	if (tid)
		task_leader(tid, &leader);
	err = recording_put(episodes->recording, waiter, .tid = tid, .tgid = leader, .comm = comm, .cgroup = 0);
	return err ?: recording_find_task_of_name(episodes->recording, tid, comm);
}

/* Row among the tasks of the recording; the idle task, tid 0, is one for each CPU. */
static __s64 task_id(struct episodes *episodes, __u32 tid, const char *comm)
{
	struct cached_task *cached =
		&episodes->tasks[(tid ^ (tid ? 0 : comm[strlen(comm) ? strlen(comm) - 1 : 0])) % TASK_CACHE];

	if (!tid && !*comm)
		return 0;
	if (cached->id && cached->tid == tid && !strcmp(cached->comm, comm))
		return cached->id;
	cached->tid = tid;
	snprintf(cached->comm, sizeof(cached->comm), "%s", comm);
	cached->id = find_task(episodes, tid, comm);
	return cached->id < 0 ? 0 : cached->id;
}

static int store_row(struct episodes *episodes, const struct episode *episode, const struct timeline_row *row)
{
	bool of_lock = row->type == TIMELINE_RELEASE || row->type == TIMELINE_ACQUIRED;
	bool has_other = row->type >= TIMELINE_SWITCH && row->type <= TIMELINE_WAIT_TASK;
	__s64 task = task_id(episodes, row->tid, row->comm);
	__s64 other = has_other ? task_id(episodes, row->other_tid, row->name) : 0;

	if (row->type == TIMELINE_ACQUIRED && row->other_tid)
		other = task_id(episodes, row->other_tid, "");
	return recording_put(episodes->recording, timeline, .time_ns = row->time_ns, .cpu = row->cpu,
			     .type = timeline_type_names[row->type], .sequence = row->sequence,
			     .length_ns = row->length_ns, .task = task, .other = other,
			     .lock = of_lock ? episode->wait.lock : (__s64)0, .value = (__s32)row->value,
			     .name = row->throttled ? "throttled"
				     : has_other    ? ""
						    : row->name,
			     .stack = row->stack);
}

static int store(struct episodes *episodes, struct episode *episode, const struct holder_now *holder)
{
	static const char *const states[] = {[ENDED] = "ended", [IN_PROGRESS] = "in progress", [SNAPSHOT] = "moment"};
	const struct long_wait *wait = &episode->wait;
	struct timeline *timeline = &episode->timeline;
	__s64 waiter = wait->waiter;
	int err = 0;

	if (!waiter && wait->tid)
		waiter = find_task(episodes, wait->tid, "");
	if (waiter < 0)
		return waiter;
	if (episodes->records + timeline->count > MOST_RECORDS) {
		episodes->losses.without_records++;
		timeline->left_out += timeline->count;
		timeline->count = 0;
	}
	episodes->records += timeline->count;
	for (size_t i = 0; !err && i < timeline->count; i++)
		err = store_row(episodes, episode, &timeline->rows[i]);
	return err
		       ?: recording_put(episodes->recording, episode, .outlier = wait->outlier,
					.state = states[episode->state], .tid = wait->tid, .waiter = waiter,
					.lock = wait->lock, .kind = wait->kind, .begin_ns = wait->begin_ns,
					.wait_ns = wait->wait_ns, .begin_cpu = wait->begin_cpu, .cpu = wait->cpu,
					.policy = wait->policy, .priority = wait->priority,
					.interrupts = episode->interrupts, .interrupts_from = episode->interrupts_from,
					.stack = wait->stack, .from_ns = wait->begin_ns - AROUND_NS,
					.to_ns = wait->begin_ns + wait->wait_ns + AROUND_NS,
					.cpus = {timeline->cpus, timeline->cpu_bytes},
					.complete = !episode->collected || timeline->complete,
					.left_out = timeline->left_out,
					.holder = holder->tid ? task_id(episodes, holder->tid, holder->comm) : (__s64)0,
					.holder_state = holder->state, .holder_stack = holder->stack,
					.holder_from = holder->from);
}

/* Whether the begin of this wait was looked at before; remembered from now on. */
static bool seen_before(struct episodes *episodes, const struct long_wait *wait)
{
	for (size_t i = 0; i < OPEN; i++)
		if (episodes->seen[i].tid == wait->tid && episodes->seen[i].begin_ns == wait->begin_ns)
			return true;
	episodes->seen[episodes->seen_next].tid = wait->tid;
	episodes->seen[episodes->seen_next].begin_ns = wait->begin_ns;
	episodes->seen_next = (episodes->seen_next + 1) % OPEN;
	return false;
}

static int store_open(struct episodes *episodes, struct episode *episode)
{
	struct long_wait *wait = &episode->wait;
	struct process_stat waiter;
	struct holder_now holder;
	__u32 taker = 0;
	int err;

	if (!process_stat_read(wait->tid, &waiter)) {
		wait->policy = waiter.policy;
		wait->priority = waiter.priority;
	}
	err = holder_now(episodes->names, &episodes->stacks, wait, &holder);
	if (!err && !holder.tid && !*holder.from && episodes->holders)
		taker = timeline_taker(episodes->maps, wait->lock_address, wait->begin_ns);
	if (taker && taker != wait->tid)
		err = holder_known(&episodes->stacks, taker, "got it after waiting, and has not released it since",
				   &holder);
	if (!err && !seen_before(episodes, wait))
		err = collect(episodes, episode, holder.tid);
	return err ?: store(episodes, episode, &holder);
}

int episodes_write(struct episodes *episodes, __u64 now_ns)
{
	const struct holder_now nobody = {.from = ""};
	int err = recording_age_episodes(episodes->recording);

	for (size_t i = 0; !err && i < episodes->open.count; i++)
		err = store_open(episodes, &episodes->open.episodes[i]);
	for (size_t i = 0; !err && i < episodes->kept.count; i++)
		err = store(episodes, &episodes->kept.episodes[i], &nobody);
	shelf_clear(&episodes->open);
	shelf_clear(&episodes->kept);
	return err;
}
