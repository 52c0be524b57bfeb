// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Goroutines that wait for a sync.Mutex, sync.RWMutex, sync.WaitGroup or sync.Cond, or at a channel (record
 * --futex --go): where Go's runtime parks one, where another makes it ready, and where it goes on, has a uprobe in each
 * process of -p, and in COMMAND.  What they see is in the rows and rings of the futexes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/proc_mapping.h"
#include "bpf/futex.h"
#include "cli/message.h"
#include "futex/go_code.h"
#include "futex/go_subsystem.h"
#include "lockline.skel.h"
#include "naming/user_symbols.h"
#include "probes/maps.h"
#include "probes/probes.h"
#include "recording/recording_rows.h"

/* The share of the CPUs' time that traps may take, percent: beyond it the uprobes are taken away. */
#define MOST_SHARE 10
/* How long one takes is measured: the least of so many times so many. */
#define TRAP_ROUNDS 5
#define TRAP_CALLS  40
/* Processes whose programs are looked at. */
#define MOST_PROCESSES 16
/* In one of them: both ends of each wait, and the wake-ups. */
#define MOST_SITES 40
/* Calls of gopark() in chansend() and chanrecv(): for a nil channel, where it waits for ever, and for any other. */
#define CHANNEL_PARKS 2
/* Calls of gopark() in selectgo() and notifyListWait(). */
#define ONE_PARK 1
/* Calls of selectgo() in a library's function that waits for one of its pool. */
#define POOL_CALLS 2
#define GOPARK     "runtime.gopark"
#define MOST_LINKS (MOST_PROCESSES * MOST_SITES)
/* Before the recording, to tell how many traps there are now. */
#define LOOK_US 100000

/* Those that are taken away first, as there may be many of them; the locks last. */
enum group { RECEIVES, SELECTS, SENDS, LOCKS, GROUPS };

static const struct {
	const char *loss;
	const char *told;
	const char *meaning;
} groups[GROUPS] = {
	[RECEIVES] = {"go_receives_stopped", "goroutines that receive are",
		      "goroutines that receive were no longer followed: too many traps"},
	[SELECTS] = {"go_selects_stopped", "goroutines in a select are",
		     "goroutines in a select were no longer followed: too many traps"},
	[SENDS] = {"go_sends_stopped", "goroutines that send are",
		   "goroutines that send were no longer followed: too many traps"},
	[LOCKS] = {"go_stopped", "goroutines are", "goroutines were no longer followed: there were too many traps"},
};

struct links {
	struct bpf_link *list[MOST_LINKS];
	int count;
};

struct go_probes {
	struct lockline_bpf *bpf;
	struct recording *recording;
	struct mapped_array states;
	struct links list[GROUPS];
	__u32 cpus;
	long online;
	double trap_ns;
	__u32 most_share; /* percent */
	__u64 own_traps;  /* while that was measured */
	__u64 looked_ns, looked_traps;
	__u64 followed;     /* processes */
	bool ended[GROUPS]; /* too many traps */
};

static void add_bytes(struct sizing *s)
{
	s->futex_bytes += GO_SLOTS * sizeof(struct go_slot) + (__u64)s->cpus * GO_SITES * sizeof(struct go_site);
}

static const struct size_part sizes = {.add = add_bytes};

static bool sized(const struct options *options, const struct plan *plan)
{
	return options->go;
}

static int configure(struct lockline_bpf *bpf, const struct ground *ground)
{
	const bool wanted = ground->plan->futex && ground->options->go;
	struct bpf_program *const programs[] = {
		bpf->progs.go_lock_enter,   bpf->progs.go_write_enter, bpf->progs.go_read_enter,
		bpf->progs.go_group_enter,  bpf->progs.go_cond_enter,  bpf->progs.go_send_enter,
		bpf->progs.go_select_enter, bpf->progs.go_select_park, bpf->progs.go_receive_enter,
		bpf->progs.go_hand_over,    bpf->progs.go_leave,       bpf->progs.go_ready,
		bpf->progs.go_pool_enter};
	int err = bpf_map__set_max_entries(bpf->maps.go_slots, wanted ? GO_SLOTS : 1);

	err = err ?: bpf_map__set_max_entries(bpf->maps.go_sites, wanted ? ground->sizing->cpus * GO_SITES : 1);
	for (size_t i = 0; !err && i < sizeof(programs) / sizeof(programs[0]); i++)
		err = bpf_program__set_autoload(programs[i], wanted);
	return err;
}

static __u64 counted(const struct go_probes *go, int counter)
{
	const struct futex_state *states = go->states.data;
	__u64 sum = 0;

	for (__u32 cpu = 0; cpu < go->cpus; cpu++)
		sum += counter < 0 ? __atomic_load_n(&states[cpu].traps, __ATOMIC_RELAXED)
				   : __atomic_load_n(&states[cpu].counters[counter], __ATOMIC_RELAXED);
	return sum;
}

static void detach(struct links *links)
{
	while (links->count)
		bpf_link__destroy(links->list[--links->count]);
}

static int attach_at(struct links *links, struct bpf_program *program, __u32 tgid, __u64 file_offset)
{
	struct bpf_link *link;
	char path[PROC_PATH];

	proc_path(path, sizeof(path), tgid, "exe");
	link = bpf_program__attach_uprobe(program, false, tgid, path, file_offset);
	if (!link)
		return -errno;
	links->list[links->count++] = link;
	return 0;
}

/* What is to be attached to one process. */
struct sites {
	struct {
		enum group group;
		struct bpf_program *program;
		__u64 file_offset;
	} at[MOST_SITES];
	enum group group; /* of those to come */
	int count;
};

static void add_site(struct sites *sites, struct bpf_program *program, __u64 file_offset)
{
	sites->at[sites->count].group = sites->group;
	sites->at[sites->count].program = program;
	sites->at[sites->count++].file_offset = file_offset;
}

/* At the begin of a function. */
static void add_begin(struct sites *sites, struct bpf_program *program, const struct go_place *place)
{
	add_site(sites, program, place->file_offset + go_stack_check_bytes(place->code, place->code_bytes));
}

/* The end of a wait before its begin: a wait whose end is not seen would keep its place. */
static int find_wait(struct sites *sites, const struct go_probes *go, struct user_symbols *users, __u32 tgid,
		     const char *function, struct bpf_program *enter, __u64 target)
{
	struct go_place place;
	int err = go_place_find(users, tgid, function, GO_SYNC_BYTES, &place);
	long end = err ?: go_call_end(place.code, place.code_bytes, place.address, target);

	if (end < 0)
		return end;
	add_site(sites, go->bpf->progs.go_leave, place.file_offset + end);
	add_begin(sites, enter, &place);
	return 0;
}

/* The calls of gopark(), or another function that waits, in a function, at most so many of them. */
static int find_parks(struct sites *sites, const struct go_probes *go, const struct go_place *place, __u64 waits,
		      struct bpf_program *enter, int most)
{
	size_t from = 0;
	int count = 0;

	while (count < most) {
		long end = go_call_end(place->code + from, place->code_bytes - from, place->address + from, waits);

		if (end < 0)
			break;
		from += end;
		add_site(sites, go->bpf->progs.go_leave, place->file_offset + from);
		add_site(sites, enter, place->file_offset + from - GO_CALL_BYTES);
		count++;
	}
	return count;
}

/* -ENOENT is no error: a program may lack any of these. */
static int find_parks_of(struct sites *sites, const struct go_probes *go, struct user_symbols *users, __u32 tgid,
			 const char *function, const char *callee, struct bpf_program *enter, int most)
{
	struct go_place place;
	__u64 waits;
	int err = user_symbols_address(users, tgid, callee, &waits);

	err = err ?: go_place_find(users, tgid, function, GO_CODE_BYTES, &place);
	if (!err)
		find_parks(sites, go, &place, waits, enter, most);
	return err == -ENOENT ? 0 : err;
}

/*
 * One side of channels: where goroutines wait for it, and where the other side hands over to one that waits.  Who takes
 * a value from one that waits tells a semaphore from receivers that are too slow; who gives one tells those who share a
 * pool from those who wait for work.
 */
static int find_channels(struct sites *sites, const struct go_probes *go, struct user_symbols *users, __u32 tgid,
			 const char *parks, struct bpf_program *enter, const char *hands_over)
{
	struct go_place place;
	int err = go_place_find(users, tgid, hands_over, GO_SYNC_BYTES, &place);

	err = err ?: find_parks_of(sites, go, users, tgid, parks, GOPARK, enter, CHANNEL_PARKS);
	if (!err)
		add_begin(sites, go->bpf->progs.go_hand_over, &place);
	return err == -ENOENT ? 0 : err;
}

/* What a select waits for is known where it begins, whether it waits where it parks. */
static int find_selects(struct sites *sites, const struct go_probes *go, struct user_symbols *users, __u32 tgid)
{
	struct go_place place;
	__u64 gopark;
	int err = user_symbols_address(users, tgid, GOPARK, &gopark);

	sites->group = SELECTS;
	err = err ?: go_place_find(users, tgid, "runtime.selectgo", GO_CODE_BYTES, &place);
	if (!err && find_parks(sites, go, &place, gopark, go->bpf->progs.go_select_park, ONE_PARK))
		add_begin(sites, go->bpf->progs.go_select_enter, &place);
	return err == -ENOENT ? 0 : err;
}

static int find_locks(struct sites *sites, const struct go_probes *go, struct user_symbols *users, __u32 tgid)
{
	const struct {
		const char *function;
		struct bpf_program *enter;
	} waits[] = {
		{"internal/sync.runtime_SemacquireMutex", go->bpf->progs.go_lock_enter}, /* since 1.24 */
		{"sync.runtime_SemacquireMutex", go->bpf->progs.go_lock_enter},
		{"sync.runtime_SemacquireRWMutex", go->bpf->progs.go_write_enter},
		{"sync.runtime_SemacquireRWMutexR", go->bpf->progs.go_read_enter},
		{"sync.runtime_SemacquireWaitGroup", go->bpf->progs.go_group_enter}, /* since 1.23 */
		{"sync.runtime_Semacquire", go->bpf->progs.go_group_enter},
	};
	/* For a connection of a sql.DB; for places of a semaphore, as pools of other libraries do (pgx). */
	static const char *const pools[] = {"database/sql.(*DB).conn",
					    "golang.org/x/sync/semaphore.(*Weighted).Acquire"};
	struct go_place place;
	__u64 target;
	int err = user_symbols_address(users, tgid, "runtime.semacquire1", &target);

	sites->group = LOCKS;
	for (size_t i = 0; !err && i < sizeof(waits) / sizeof(waits[0]); i++) {
		err = find_wait(sites, go, users, tgid, waits[i].function, waits[i].enter, target);
		if (err == -ENOENT)
			err = 0;
	}
	err = err
		      ?: find_parks_of(sites, go, users, tgid, "sync.runtime_notifyListWait", GOPARK,
				       go->bpf->progs.go_cond_enter, ONE_PARK);
	for (size_t i = 0; !err && i < sizeof(pools) / sizeof(pools[0]); i++)
		err = find_parks_of(sites, go, users, tgid, pools[i], "runtime.selectgo", go->bpf->progs.go_pool_enter,
				    POOL_CALLS);
	if (err || !sites->count)
		return err;
	err = go_place_find(users, tgid, "runtime.readyWithTime", GO_SYNC_BYTES, &place);
	if (!err)
		add_begin(sites, go->bpf->progs.go_ready, &place);
	return err == -ENOENT ? 0 : err;
}

/* -ENOENT: it is no Go program, or one without mutexes and channels. */
static int find_sites(struct sites *sites, const struct go_probes *go, struct user_symbols *users, __u32 tgid)
{
	int err = find_locks(sites, go, users, tgid);

	sites->group = SENDS;
	err = err
		      ?: find_channels(sites, go, users, tgid, "runtime.chansend", go->bpf->progs.go_send_enter,
				       "runtime.recv");
	err = err ?: find_selects(sites, go, users, tgid);
	sites->group = RECEIVES;
	err = err
		      ?: find_channels(sites, go, users, tgid, "runtime.chanrecv", go->bpf->progs.go_receive_enter,
				       "runtime.send");
	return err ?: sites->count ? 0 : -ENOENT;
}

/* All is found before anything is attached: the code is no longer the file's then. */
static int attach_process(struct go_probes *go, struct user_symbols *users, __u32 tgid)
{
	struct sites sites = {.count = 0};
	int err = find_sites(&sites, go, users, tgid);

	for (int i = 0; !err && i < sites.count; i++)
		err = attach_at(&go->list[sites.at[i].group], sites.at[i].program, tgid, sites.at[i].file_offset);
	return err;
}

static void tell_refused(__u32 tgid, int err)
{
	if (err == -ENOENT)
		message("--go: process %u is not a Go program with a sync.Mutex that lockline knows (Go 1.20 and "
			"later)",
			tgid);
	else if (err == -ESTALE)
		message("--go: the code of process %u is not that of its file; does another tool probe it?", tgid);
	else
		message("--go: process %u cannot be probed: %s", tgid, strerror(-err));
}

static __attribute__((noinline)) void trapped(void)
{
	__asm__ volatile("" ::: "memory");
}

/* A virtual machine can make it ten times as long: measured at a function of this program. */
static int measure_trap(struct go_probes *go)
{
	struct proc_mapping mapping;
	__u64 address = (unsigned long)trapped, least = UINT64_MAX;
	int err = proc_mapping_at(getpid(), address, &mapping);

	err = err
		      ?: attach_at(&go->list[LOCKS], go->bpf->progs.go_leave, getpid(),
				   mapping.offset + (address - mapping.start));
	if (err)
		return err;
	for (int i = 0; i < TRAP_ROUNDS; i++) {
		__u64 begin_ns = now_ns(), took;

		for (int j = 0; j < TRAP_CALLS; j++)
			trapped();
		took = now_ns() - begin_ns;
		least = took < least ? took : least;
	}
	detach(&go->list[LOCKS]);
	go->own_traps = counted(go, -1);
	go->trap_ns = (double)least / TRAP_CALLS;
	return 0;
}

static bool is_attached(const struct go_probes *go)
{
	for (int group = 0; group < GROUPS; group++)
		if (go->list[group].count)
			return true;
	return false;
}

static double share_of(const struct go_probes *go, __u64 traps, __u64 window_ns)
{
	return traps * go->trap_ns / ((double)window_ns * go->online);
}

static const char what_traps[] = "--go puts traps where a goroutine waits for a mutex, a wait group, a condition or at "
				 "a channel, where it is woken, and where it continues";

/* Nothing is recorded yet: it can be stopped then. */
static void tell_cost(struct go_probes *go)
{
	__u64 begin_ns = now_ns(), traps = counted(go, -1), took;

	usleep(LOOK_US);
	traps = counted(go, -1) - traps;
	took = now_ns() - begin_ns;
	message("%s: %.0f times a second now, %.1f us each: %.1f %% of the time of %ld CPUs; beyond %u %% it stops",
		what_traps, traps / (took / 1e9), go->trap_ns / 1e3, 100 * share_of(go, traps, took), go->online,
		go->most_share);
}

static int attach_to(struct go_probes *go, const __u32 *tgids, size_t count)
{
	struct user_symbols *users = NULL;
	int err = user_symbols_open(&users, MOST_PROCESSES);

	for (size_t i = 0; !err && i < count; i++) {
		int refused = i < MOST_PROCESSES ? attach_process(go, users, tgids[i]) : -ENOSPC;

		if (refused)
			tell_refused(tgids[i], refused);
		else
			go->followed++;
	}
	user_symbols_close(users);
	return err;
}

static void close_go(void *state)
{
	struct go_probes *go = state;

	for (int group = 0; group < GROUPS; group++)
		detach(&go->list[group]);
	maps_unmap(&go->states);
	free(go);
}

static int open_go(struct ground *ground, void **state)
{
	const struct id_list *pids = &ground->options->pids;
	struct go_probes *go;
	int err;

	if (!ground->options->go || !ground->plan->futex)
		return 0;
	go = calloc(1, sizeof(*go));
	if (!go)
		return -ENOMEM;
	go->bpf = ground->probes->bpf;
	go->recording = ground->recording;
	go->cpus = ground->sizing->cpus;
	go->most_share = ground->options->go_traps ?: MOST_SHARE;
	go->online = sysconf(_SC_NPROCESSORS_ONLN);
	err = maps_map(&go->states, go->bpf->maps.futex_states);
	if (!err) {
		err = measure_trap(go);
		if (err)
			message("--go: the kernel refuses uprobes: %s", strerror(-err));
	}
	if (!err && pids->count)
		err = attach_to(go, pids->ids, pids->count);
	if (err) {
		close_go(go);
		return err;
	}
	if (is_attached(go) && !ground->options->quiet)
		tell_cost(go);
	go->looked_ns = now_ns();
	go->looked_traps = counted(go, -1);
	*state = go;
	return 0;
}

/* COMMAND's program, which has run nothing yet. */
static int follow_command(void *state, struct ground *ground)
{
	const __u32 tgid = ground->command;
	struct go_probes *go = state;
	int err = attach_to(go, &tgid, 1);

	if (!err && is_attached(go) && !ground->options->quiet)
		message("%s: %.1f us each; beyond %u %% of the time of %ld CPUs it stops", what_traps,
			go->trap_ns / 1e3, go->most_share, go->online);
	return err;
}

/* One group a second, until few enough are left. */
static void stop_most(struct go_probes *go, __u64 traps)
{
	int group = 0;

	while (group < LOCKS && !go->list[group].count)
		group++;
	message("--go: %llu traps in the last second take more than %u %% of the CPUs' time; %s no longer followed",
		traps, go->most_share, groups[group].told);
	detach(&go->list[group]);
	go->ended[group] = true;
}

static int bound(void *state, struct ground *ground)
{
	struct go_probes *go = state;
	__u64 now = now_ns(), traps;

	if (!is_attached(go) || now - go->looked_ns < 1000000000ull)
		return 0;
	traps = counted(go, -1);
	if (share_of(go, traps - go->looked_traps, now - go->looked_ns) > go->most_share / 100.0)
		stop_most(go, traps - go->looked_traps);
	go->looked_ns = now;
	go->looked_traps = traps;
	return 0;
}

static int flush(void *state, struct ground *ground)
{
	const struct go_probes *go = state;
	int err = recording_put(go->recording, loss, .name = "go_traps", .count = counted(go, -1) - go->own_traps,
				.meaning = "traps at the waits and wakes of goroutines (--go)", .severity = "info");

	err = err
		      ?: recording_put(go->recording, loss, .name = "go_followed", .count = go->followed,
				       .meaning = "processes whose goroutines are followed (--go)", .severity = "info");
	err = err
		      ?: recording_put(go->recording, loss, .name = "go_no_slot",
				       .count = counted(go, FUTEX_COUNT_GO_NO_SLOT),
				       .meaning = "waits of goroutines not recorded: too many were in progress",
				       .severity = "loss");
	for (int group = 0; !err && group < GROUPS; group++)
		err = recording_put(go->recording, loss, .name = groups[group].loss, .count = go->ended[group],
				    .meaning = groups[group].meaning, .severity = "loss");
	return err;
}

const struct subsystem go_subsystem = {
	.name = "go",
	.sizes = &sizes,
	.sized = sized,
	.configure = configure,
	.open = {[STAGE_ATTACHED] = open_go},
	.at = {[MOMENT_COMMAND] = follow_command, [MOMENT_DRAIN] = bound, [MOMENT_FLUSH] = flush},
	.close = close_go,
};
