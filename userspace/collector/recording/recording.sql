-- The schema of a recording.  SPDX-License-Identifier: GPL-2.0-or-later
--
-- The one contract between the collector, which writes it, and the analysis,
-- which reads it.  Times are CLOCK_MONOTONIC nanoseconds unless a name says
-- otherwise.  A histogram is a blob of 6-byte entries (uint16 bucket, uint32
-- count, little-endian), buckets as in histogram_bucket() of bpf/lockline.h;
-- entries of one bucket add up.  See docs/recording.md.

PRAGMA application_id = 0x6c6f636b; -- "lock"
PRAGMA user_version = 12;

-- Host, kernel, options, begin and end: one row per fact, names in docs/recording.md.
CREATE TABLE meta (
	name TEXT PRIMARY KEY,
	value
) WITHOUT ROWID;

-- The plan: one row per signal, with what stands in for it or what is lost.
CREATE TABLE probe (
	signal TEXT PRIMARY KEY,
	state TEXT NOT NULL,    -- on | off | unavailable | blind
	source TEXT NOT NULL,   -- tp_btf, symbol table, ..., or ''
	reason TEXT NOT NULL,   -- why this state
	lost TEXT NOT NULL      -- what the report cannot tell for want of it, or ''
) WITHOUT ROWID;

-- Own cost in the kernel.  Run times are sampled in windows: measured_* cover
-- those alone, runs the whole recording.
CREATE TABLE program (
	name TEXT PRIMARY KEY,
	signal TEXT NOT NULL,
	runs INTEGER,                 -- NULL: not known
	measured_runs INTEGER NOT NULL,
	measured_ns INTEGER NOT NULL,
	recursion_misses INTEGER NOT NULL
) WITHOUT ROWID;

-- Own cost of the collector: cpu_ns, peak_rss_bytes, map_bytes, ...
CREATE TABLE cost (
	name TEXT PRIMARY KEY,
	value INTEGER NOT NULL,
	unit TEXT NOT NULL
) WITHOUT ROWID;

-- What was seen and did not become a wait, or lost its name or its stack.
CREATE TABLE loss (
	name TEXT PRIMARY KEY,
	count INTEGER NOT NULL,
	meaning TEXT NOT NULL,
	severity TEXT NOT NULL        -- info: accounted for; loss: figures lack it
) WITHOUT ROWID;

-- Begins by the kind in the event's flags, before any filter.
CREATE TABLE begin_count (
	kind INTEGER PRIMARY KEY,
	begins INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE kind (
	id INTEGER PRIMARY KEY,
	name TEXT NOT NULL            -- spinlock, rwlock:R, ...: perf's words
);

CREATE TABLE lock (
	id INTEGER PRIMARY KEY,
	address INTEGER NOT NULL,     -- signed; 0: the row of all locks without a row
	name TEXT NOT NULL,           -- identity across boots: symbol or type.member
	instance TEXT NOT NULL,       -- "CPU 3", "tid 812", or ''
	source TEXT NOT NULL          -- symbol | per-CPU symbol | owner object | slab | call site | unknown
);
-- A lock that was forgotten and met again has two rows; so has an address that another lock took.
CREATE INDEX lock_address ON lock (address);

CREATE TABLE interval (
	id INTEGER PRIMARY KEY,
	begin_ns INTEGER NOT NULL,
	end_ns INTEGER NOT NULL
);

-- Whole run, by lock; by CPU; by both.  Rewritten at each interval.
CREATE TABLE lock_total (
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	waits INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	failed INTEGER NOT NULL,      -- waits that ended without the lock
	worst_cpu INTEGER NOT NULL,   -- the CPU that waited longest in sum, and how long
	worst_cpu_ns INTEGER NOT NULL,
	histogram BLOB NOT NULL,
	PRIMARY KEY (lock, kind)
) WITHOUT ROWID;

CREATE TABLE cpu_total (
	cpu INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	waits INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	failed INTEGER NOT NULL,
	histogram BLOB NOT NULL,
	PRIMARY KEY (cpu, kind)
) WITHOUT ROWID;

CREATE TABLE cell_total (
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	cpu INTEGER NOT NULL,
	waits INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	failed INTEGER NOT NULL,
	histogram BLOB NOT NULL,
	PRIMARY KEY (lock, kind, cpu)
) WITHOUT ROWID;

-- What each interval added.  max_ns is exact if the interval set a new maximum
-- of its cell, else the lower bound of its highest bucket.
CREATE TABLE wait_interval (
	interval INTEGER NOT NULL,
	cpu INTEGER NOT NULL,
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	waits INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	failed INTEGER NOT NULL,
	histogram BLOB NOT NULL,
	PRIMARY KEY (interval, cpu, lock, kind)
) WITHOUT ROWID;

-- What threads sleep in, at some moments (meta: sleep_looks).  seen: threads, summed over the moments, of
-- sleep_threads_looked_at.
CREATE TABLE sleeper (
	tgid INTEGER NOT NULL,        -- 0: of processes that have no row of their own
	comm TEXT NOT NULL,           -- what the process was called
	function TEXT NOT NULL,       -- of the kernel, of /proc/PID/wchan; '': on a CPU, or waits for one
	seen INTEGER NOT NULL,
	PRIMARY KEY (tgid, function)
) WITHOUT ROWID;

-- Processes that wait for a lock on a file, of /proc/locks, which is read where a sleeper may wait for one.
CREATE TABLE file_lock_wait (
	file TEXT NOT NULL,           -- path, or MAJOR:MINOR:INODE
	waiter INTEGER NOT NULL,      -- process
	waiter_comm TEXT NOT NULL,
	holder INTEGER NOT NULL,      -- process; 0: not known
	holder_comm TEXT NOT NULL,
	seen INTEGER NOT NULL,        -- at so many moments
	PRIMARY KEY (file, waiter, holder)
) WITHOUT ROWID;

CREATE TABLE cgroup (
	id INTEGER PRIMARY KEY,       -- kernfs id
	path TEXT NOT NULL            -- '' if it was gone before it could be looked up
);

-- What runs in a cgroup, as its path and the files of container runtimes tell; '' where they tell nothing.
CREATE TABLE container (
	cgroup INTEGER PRIMARY KEY,
	runtime TEXT NOT NULL,        -- docker, containerd, cri-o, podman, lxc, machine
	container TEXT NOT NULL,      -- its id
	name TEXT NOT NULL,
	image TEXT NOT NULL,
	pod TEXT NOT NULL,
	namespace TEXT NOT NULL,
	pod_uid TEXT NOT NULL,
	unit TEXT NOT NULL,           -- systemd's
	slice TEXT NOT NULL,
	source TEXT NOT NULL          -- the files that gave names
);

CREATE TABLE waiter (
	id INTEGER PRIMARY KEY,
	tid INTEGER NOT NULL,
	tgid INTEGER NOT NULL,
	comm TEXT NOT NULL,
	cgroup INTEGER NOT NULL,
	UNIQUE (tid, tgid, comm, cgroup)
);

-- Frames as return addresses, leaf first, 8 bytes little-endian each.
-- tgid 0: a kernel stack.
CREATE TABLE stack (
	id INTEGER PRIMARY KEY,
	tgid INTEGER NOT NULL,
	frames BLOB NOT NULL,
	UNIQUE (tgid, frames)
);

CREATE TABLE frame (
	tgid INTEGER NOT NULL,        -- 0: kernel
	address INTEGER NOT NULL,
	symbol TEXT NOT NULL,         -- '' if unknown
	offset INTEGER NOT NULL,
	module TEXT NOT NULL,         -- '' for the kernel image; path of a user object
	PRIMARY KEY (tgid, address)
) WITHOUT ROWID;

-- Sampled waits, weighted: each sample stands for the waits of its lock and CPU
-- since the sample before it, so that weights add up to the totals but for the
-- waits since the last sample.  Whole run, and by interval.
CREATE TABLE sample_total (
	waiter INTEGER NOT NULL,
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	stack INTEGER NOT NULL,       -- 0: none
	user_stack INTEGER NOT NULL,  -- 0: none
	samples INTEGER NOT NULL,
	waits INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	PRIMARY KEY (waiter, lock, kind, stack, user_stack)
) WITHOUT ROWID;

CREATE TABLE sample_interval (
	interval INTEGER NOT NULL,
	waiter INTEGER NOT NULL,
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	stack INTEGER NOT NULL,
	user_stack INTEGER NOT NULL,
	samples INTEGER NOT NULL,
	waits INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	PRIMARY KEY (interval, waiter, lock, kind, stack, user_stack)
) WITHOUT ROWID;

-- Waits over the threshold, one by one; the longest of each interval are kept.
CREATE TABLE outlier (
	id INTEGER PRIMARY KEY,
	interval INTEGER NOT NULL,
	begin_ns INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	cpu INTEGER NOT NULL,         -- where it ended
	begin_cpu INTEGER NOT NULL,
	waiter INTEGER NOT NULL,
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	result INTEGER NOT NULL,      -- 0, or a negative errno: ended without the lock
	stack INTEGER NOT NULL,
	user_stack INTEGER NOT NULL
);
CREATE INDEX outlier_interval ON outlier (interval, wait_ns);

-- Waits in progress when the last interval ended.
CREATE TABLE open_wait (
	tid INTEGER NOT NULL,
	tgid INTEGER NOT NULL,
	comm TEXT NOT NULL,
	cpu INTEGER NOT NULL,
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	begin_ns INTEGER NOT NULL,
	age_ns INTEGER NOT NULL
);

-- Long waits with what went on around them (record --episodes, --flight): the
-- longest of each interval, those in progress, and what ended a flight.
CREATE TABLE episode (
	id INTEGER PRIMARY KEY,
	outlier INTEGER NOT NULL,     -- 0: not one of them
	state TEXT NOT NULL,          -- ended | in progress: when the recording ended | was in progress: when it
	                              -- was looked at, and how it ended was not kept | moment: no wait, a signal or marker
	tid INTEGER NOT NULL,         -- of the waiter
	waiter INTEGER NOT NULL,
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	begin_ns INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,     -- of a wait in progress its age
	begin_cpu INTEGER NOT NULL,
	cpu INTEGER NOT NULL,         -- where it ended
	policy INTEGER NOT NULL,      -- SCHED_*; -1: not known
	priority INTEGER NOT NULL,    -- task_struct.prio: below 100 real time, below 0 deadline
	interrupts TEXT NOT NULL,     -- on | off | unknown, at the waiter while it waited
	interrupts_from TEXT NOT NULL, -- how that is known: always inferred, from this
	stack INTEGER NOT NULL,
	from_ns INTEGER NOT NULL,     -- the rows of timeline that belong to it
	to_ns INTEGER NOT NULL,
	cpus BLOB NOT NULL,           -- whose records those are: little-endian bit set
	complete INTEGER NOT NULL,    -- 1: no record of that time was overwritten or torn
	left_out INTEGER NOT NULL,    -- records in the middle that were too many
	holder INTEGER NOT NULL,      -- of a wait in progress, when it was looked at; 0: not known
	holder_state TEXT NOT NULL,   -- as in /proc/PID/stat: R, S, D, T, t, ...; or ''
	holder_stack INTEGER NOT NULL,
	holder_from TEXT NOT NULL,    -- how holder and stack are known, or ''
	UNIQUE (tid, begin_ns)
);

-- What the CPUs did around the episodes, and the last switch or wake-up of a
-- holder before it, whenever that was.
CREATE TABLE timeline (
	time_ns INTEGER NOT NULL,
	cpu INTEGER NOT NULL,
	type TEXT NOT NULL,           -- interrupt | vector | ipi | ipi sent | softirq | switch | waking | wakeup
	                              -- | wait task | release | acquired
	sequence INTEGER NOT NULL,    -- order in which this CPU wrote it
	length_ns INTEGER NOT NULL,   -- of an interrupt, of turns up to the last one, of the acquirer's wait; 0: not known
	task INTEGER NOT NULL,        -- who was running, as in waiter; of a switch: before it
	other INTEGER NOT NULL,       -- who runs now, is woken, is to stop; 0: nobody
	lock INTEGER NOT NULL,        -- of release and acquired; 0: none
	value INTEGER NOT NULL,       -- number of the interrupt or softirq; CPU sent to or woken on; state of who stops
	                              -- running (0: preempted); turns of wait_task_inactive(); -1: CPUs of name
	name TEXT NOT NULL,           -- of the interrupt; CPUs sent to, if several ('0-3,7'); of a switch or wake-up
	                              -- 'throttled': the task before, or woken, may not run; or ''
	stack INTEGER NOT NULL,       -- of release; 0: none
	PRIMARY KEY (time_ns, cpu, type, sequence)
) WITHOUT ROWID;

-- Contended releases (record --holders): who let go of a lock that others waited
-- for.  caused_ns: the waiting that its holds made, from the later of a wait's
-- begin and the release before, to this release, summed over the waits.
-- Holder: as in waiter; 0: not known.
CREATE TABLE holder_total (
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	holder INTEGER NOT NULL,
	releases INTEGER NOT NULL,
	waits INTEGER NOT NULL,       -- that it kept waiting, in part or in whole
	caused_ns INTEGER NOT NULL,
	max_caused_ns INTEGER NOT NULL, -- of one wait
	PRIMARY KEY (lock, kind, holder)
) WITHOUT ROWID;

-- Where the lock was released, from sampled stacks: releases are what the
-- samples stand for.
CREATE TABLE release_stack (
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	holder INTEGER NOT NULL,
	stack INTEGER NOT NULL,
	samples INTEGER NOT NULL,
	releases INTEGER NOT NULL,
	caused_ns INTEGER NOT NULL,
	PRIMARY KEY (lock, kind, holder, stack)
) WITHOUT ROWID;

-- Per lock: contended releases, hand-offs, waits overtaken.  overtaken: waits
-- during which others took the lock that had begun to wait later, or not at
-- all; bypasses: how many such takings in sum, and the most of one wait; told
-- of spinlocks, mutexes and rtmutexes.  A hand-off lasts from the last release
-- before a wait's end to that end.  hold_histogram: of --holds, else empty.
CREATE TABLE fairness (
	lock INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	waits INTEGER NOT NULL,       -- judged
	releases INTEGER NOT NULL,    -- of the lock, whatever the kind
	retakes INTEGER NOT NULL,     -- the same task had it again, ahead of all that waited
	overtaken INTEGER NOT NULL,
	bypasses INTEGER NOT NULL,
	max_bypasses INTEGER NOT NULL,
	handoffs INTEGER NOT NULL,
	handoff_ns INTEGER NOT NULL,
	max_handoff_ns INTEGER NOT NULL,
	holds INTEGER NOT NULL,
	hold_ns INTEGER NOT NULL,
	max_hold_ns INTEGER NOT NULL,
	hold_histogram BLOB NOT NULL,
	PRIMARY KEY (lock, kind)
) WITHOUT ROWID;

-- Futexes (record --futex): what waits in user space's locks, condition
-- variables and semaphores.  Processes that share one by a file have one row.
CREATE TABLE futex (
	id INTEGER PRIMARY KEY,       -- 1: all those without a row of their own
	tgid INTEGER NOT NULL,        -- of a process that uses it
	comm TEXT NOT NULL,           -- what that process is called
	address INTEGER NOT NULL,
	shared INTEGER NOT NULL,      -- 1: processes may share it
	name TEXT NOT NULL,           -- symbol that holds it, symbol+0xoffset, or ''
	object TEXT NOT NULL          -- of its mapping: path, [heap], [anon], or ''
);

-- Whole run.  wait_ns, max_ns, timed_out_ns and the histograms are of the calls
-- that slept: woken, and then given a CPU.  See docs/futex.md.
CREATE TABLE futex_total (
	futex INTEGER PRIMARY KEY,
	ops INTEGER NOT NULL,         -- bits by enum futex_op of bpf/futex.h
	calls INTEGER NOT NULL,       -- to wait
	slept INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	timed_out INTEGER NOT NULL,   -- calls that ended by their timeout
	timed_out_ns INTEGER NOT NULL,
	again INTEGER NOT NULL,       -- the word had changed: no wait
	interrupted INTEGER NOT NULL,
	failed INTEGER NOT NULL,
	timed INTEGER NOT NULL,       -- calls with a timeout
	value_2 INTEGER NOT NULL,     -- calls that expected the value 2
	wakes INTEGER NOT NULL,       -- calls to wake, or to requeue
	wakes_empty INTEGER NOT NULL, -- that found nobody
	tasks_woken INTEGER NOT NULL,
	latency_ns INTEGER NOT NULL,  -- from the wake-up to the CPU, over the calls that slept
	max_latency_ns INTEGER NOT NULL,
	waiters INTEGER NOT NULL,     -- threads that slept, of 128 hashes at most
	wakers INTEGER NOT NULL,      -- threads that woke others, likewise
	both INTEGER NOT NULL,        -- hashes in both
	owner_samples INTEGER NOT NULL, -- samples of waits whose word was looked at for an owner
	owners INTEGER NOT NULL,      -- in which another live thread of the process was that owner
	threads INTEGER NOT NULL,     -- that waited for the word to change from a live thread's id
	open_waits INTEGER NOT NULL,  -- in progress for over 1 ms when the last interval ended
	oldest_ns INTEGER NOT NULL,   -- age of the oldest of them
	open_ns INTEGER NOT NULL,     -- sum of their ages
	histogram BLOB NOT NULL,
	latency_histogram BLOB NOT NULL
);

-- Sampled waits and wakes.  role: waiter, waker, or owner when a wait began.
-- waits: what the samples stand for; of a waker: tasks woken in the samples.
CREATE TABLE futex_sample (
	futex INTEGER NOT NULL,
	role TEXT NOT NULL,
	task INTEGER NOT NULL,        -- as in waiter
	stack INTEGER NOT NULL,       -- in user space; 0: none
	samples INTEGER NOT NULL,
	waits INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	PRIMARY KEY (futex, role, task, stack)
) WITHOUT ROWID;

-- Futexes that are semaphores (sem_t of glibc), and how many of the calls found one without a token.
CREATE TABLE futex_semaphore (
	futex INTEGER PRIMARY KEY,
	calls INTEGER NOT NULL
);

-- Waits of over a second in progress when the last interval ended, for locks whose owner is known.
CREATE TABLE futex_owned_wait (
	futex INTEGER NOT NULL,
	tid INTEGER NOT NULL,         -- of the waiter
	tgid INTEGER NOT NULL,
	comm TEXT NOT NULL,
	age_ns INTEGER NOT NULL,      -- since it began, or since the recording did
	timed INTEGER NOT NULL,       -- 1: the wait has a timeout
	owner INTEGER NOT NULL,       -- tid; the waiter itself, if it waits for a lock that it holds
	owned_ns INTEGER NOT NULL,    -- how long that was seen, at each look; 0: at one
	owner_comm TEXT NOT NULL,
	owner_state TEXT NOT NULL,    -- of /proc/PID/stat: R, S, D, T...; ''
	owner_in TEXT NOT NULL,       -- kernel function that it sleeps in, of /proc/PID/wchan; ''
	PRIMARY KEY (tid)
) WITHOUT ROWID;

-- Looks at who held a mutex of the C library while others waited for it: the looks
-- are to each other as the time that its holders spend so.
CREATE TABLE futex_holder (
	futex INTEGER NOT NULL,
	state TEXT NOT NULL,          -- of /proc/PID/stat: R, S, D, T...
	call TEXT NOT NULL,           -- system call that it sleeps in, 'page fault', or '' if not known
	function TEXT NOT NULL,       -- kernel function that it sleeps in, of /proc/PID/wchan; ''
	behind INTEGER NOT NULL,      -- address of the futex that it waits for itself, in its own process; 0: none
	looks INTEGER NOT NULL,
	PRIMARY KEY (futex, state, call, function, behind)
) WITHOUT ROWID;

-- Looks at the threads of a JVM: the looks are to each other as the time that its threads wait for monitors.
CREATE TABLE java_look (
	tgid INTEGER NOT NULL,
	looks INTEGER NOT NULL,       -- at it, with threads that waited or without
	untold REAL NOT NULL,         -- threads that waited for monitors without a row, summed over the looks
	PRIMARY KEY (tgid)
) WITHOUT ROWID;

-- Monitors that threads waited for at those looks.
CREATE TABLE java_monitor (
	tgid INTEGER NOT NULL,
	address INTEGER NOT NULL,     -- of HotSpot's ObjectMonitor: the object moves
	class TEXT NOT NULL,          -- of the object; '': it could not be read
	looks INTEGER NOT NULL,       -- in which somebody waited for it
	waiting REAL NOT NULL,        -- threads that did, summed over the looks
	PRIMARY KEY (tgid, address, class)
) WITHOUT ROWID;

-- Who waited for it or owned it meanwhile.
CREATE TABLE java_monitor_thread (
	tgid INTEGER NOT NULL,
	address INTEGER NOT NULL,
	role TEXT NOT NULL,           -- waiter or owner
	tid INTEGER NOT NULL,         -- as that process sees it; 0: not known
	name TEXT NOT NULL,           -- of an owner, in Java; ''
	looks INTEGER NOT NULL,
	PRIMARY KEY (tgid, address, role, tid, name)
) WITHOUT ROWID;

-- Waits for the lock of the kernel's hash bucket, by the futex whose call led there.
CREATE TABLE futex_bucket (
	lock INTEGER NOT NULL,
	futex INTEGER NOT NULL,
	waits INTEGER NOT NULL,
	wait_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	PRIMARY KEY (lock, futex)
) WITHOUT ROWID;

-- Reads of the clock device that all CPUs share (record --clocksource), by CPU.
-- meta.clock_reads_timed 0: they were counted alone.
CREATE TABLE clock_total (
	cpu INTEGER PRIMARY KEY,
	reads INTEGER NOT NULL,
	read_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	histogram BLOB NOT NULL
);

-- Who reads it, from sampled stacks: reads and their time are what the samples stand for.
CREATE TABLE clock_sample (
	task INTEGER NOT NULL,        -- as in waiter
	stack INTEGER NOT NULL,
	samples INTEGER NOT NULL,
	reads INTEGER NOT NULL,
	read_ns INTEGER NOT NULL,
	PRIMARY KEY (task, stack)
) WITHOUT ROWID;

-- Calls of wait_task_inactive() (record --ptrace): a tracer that waits until its
-- tracee is off its CPU.  turns of its loop are counted always; calls, max_turns,
-- failed and the times only where the function can be probed.
CREATE TABLE inactive_wait (
	tid INTEGER NOT NULL,         -- of the caller; 0 with target 0: the pairs without a row
	tgid INTEGER NOT NULL,
	comm TEXT NOT NULL,
	target_tid INTEGER NOT NULL,
	target_tgid INTEGER NOT NULL,
	target_comm TEXT NOT NULL,
	calls INTEGER NOT NULL,
	turns INTEGER NOT NULL,
	max_turns INTEGER NOT NULL,   -- of one call
	traced INTEGER NOT NULL,      -- turns at which the target was traced
	failed INTEGER NOT NULL,      -- calls that found the target in another state
	wait_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	PRIMARY KEY (tid, target_tid)
) WITHOUT ROWID;

-- turns: calls by their turns, in buckets: 0: none, n: from 2^(n-1) on.
CREATE TABLE inactive_cpu (
	cpu INTEGER PRIMARY KEY,
	histogram BLOB NOT NULL,
	turns BLOB NOT NULL
);

-- Calls of ptrace_attach() (record --ptrace), those that failed too (loss.attach_failed).
CREATE TABLE ptrace_attach (
	tid INTEGER NOT NULL,         -- of the tracer; 0 with target 0: the pairs without a row
	tgid INTEGER NOT NULL,
	comm TEXT NOT NULL,
	target_tid INTEGER NOT NULL,
	target_tgid INTEGER NOT NULL,
	target_comm TEXT NOT NULL,
	attaches INTEGER NOT NULL,
	attach_ns INTEGER NOT NULL,
	max_ns INTEGER NOT NULL,
	PRIMARY KEY (tid, target_tid)
) WITHOUT ROWID;

CREATE TABLE ptrace_attach_cpu (
	cpu INTEGER PRIMARY KEY,
	histogram BLOB NOT NULL
);

-- Memory accesses: samples of the PMU, of a perf.data file, of the text of a
-- perf c2c report, or hits of a watchpoint; all in the same tables.
CREATE TABLE memory_source (
	id INTEGER PRIMARY KEY,
	kind TEXT NOT NULL,           -- perf.data | c2c text | PMU | watchpoint
	name TEXT NOT NULL,           -- of the file, or the PMU
	event TEXT NOT NULL           -- 'cpu/mem-loads,ldlat=30/P', ...
);

-- The whole source's figures: names of struct c2c_stats of tools/perf/util/mem-events.h
-- (nr_entries, locks, store, st_l1hit, ..., noparse), and records that could not be read.
CREATE TABLE memory_count (
	source INTEGER NOT NULL,
	name TEXT NOT NULL,
	count INTEGER NOT NULL,
	PRIMARY KEY (source, name)
) WITHOUT ROWID;

-- One cache line as perf c2c tells lines apart: by address, and in user space by
-- the mapping or the process as well.
CREATE TABLE memory_line (
	id INTEGER PRIMARY KEY,
	source INTEGER NOT NULL,
	address INTEGER NOT NULL,     -- signed, of its first byte
	size INTEGER NOT NULL,        -- 64, or 128 of --double-cl
	space TEXT NOT NULL,          -- kernel | user | other
	pid INTEGER NOT NULL,         -- 0: kernel, or a mapping that processes share
	object TEXT NOT NULL,         -- of the data's mapping: path, [heap], //anon, [kernel.kallsyms], or ''
	symbol TEXT NOT NULL,         -- static data symbol that covers its first byte, or ''
	symbol_offset INTEGER NOT NULL,
	nodes TEXT NOT NULL,          -- of its pages, '0,1', or ''
	pages INTEGER NOT NULL        -- physical pages seen; 0: not known
);

CREATE TABLE memory_thread (
	id INTEGER PRIMARY KEY,       -- 0 is none: not known
	pid INTEGER NOT NULL,
	tid INTEGER NOT NULL,
	comm TEXT NOT NULL
);

CREATE TABLE memory_code (
	id INTEGER PRIMARY KEY,
	address INTEGER NOT NULL,     -- signed; of the instruction
	space TEXT NOT NULL,
	symbol TEXT NOT NULL,         -- '' if unknown
	offset INTEGER NOT NULL,
	object TEXT NOT NULL,
	line TEXT NOT NULL            -- file:line, or ''
);

-- Accesses by line, offset, instruction and thread.  The counts are those of
-- c2c_decode_stats() of tools/perf/util/mem-events.c; NULL: the source does not tell.
-- cpus: little-endian bit set; NULL with cpu_count where only their number is known.
-- Of a row of several threads, whose thread is 0: thread_set, a little-endian bit set of their ids, and thread_records,
-- the records of each by its id, all in 8 bits or all in 32, little-endian.  Where an id is above 4095, and before
-- schema 12, threads has them: id and records of each, 32 bits each, little-endian.
CREATE TABLE memory_access (
	line INTEGER NOT NULL,
	offset INTEGER NOT NULL,      -- in the line, bytes; -1: somewhere in it, where the source does not tell
	code INTEGER NOT NULL,        -- 0: not known
	thread INTEGER NOT NULL,
	records INTEGER,
	loads INTEGER,
	stores INTEGER,
	locked INTEGER,
	local_hitm INTEGER,
	remote_hitm INTEGER,
	local_peer INTEGER,
	remote_peer INTEGER,
	fill_buffer INTEGER,
	l1_hit INTEGER,
	l2_hit INTEGER,
	llc_hit INTEGER,
	remote_hit INTEGER,
	local_dram INTEGER,
	remote_dram INTEGER,
	store_l1_hit INTEGER,
	store_l1_miss INTEGER,
	store_unknown INTEGER,        -- no memory level in the sample
	blocked INTEGER,              -- by data or by address
	no_map INTEGER,
	no_parse INTEGER,
	remote_hitm_weight INTEGER,   -- sums of the samples' weights, cycles
	local_hitm_weight INTEGER,
	load_weight INTEGER,          -- of the loads that are no HITM
	load_weights INTEGER,         -- how many those are
	in_wait INTEGER,              -- records taken while the thread waited for a lock
	cpus BLOB,
	cpu_count INTEGER,
	nodes TEXT NOT NULL,          -- of the CPUs, as the text source has them, or ''
	threads BLOB,
	thread_set BLOB,
	thread_records BLOB,
	PRIMARY KEY (line, offset, code, thread)
) WITHOUT ROWID;

-- Accesses seen live, as memory_access has them: with interrupts off, and while
-- which lock was waited for on that CPU (spinning) or by that task (sleeping).
CREATE TABLE memory_interrupts (
	line INTEGER NOT NULL,
	offset INTEGER NOT NULL,
	code INTEGER NOT NULL,
	thread INTEGER NOT NULL,
	records INTEGER NOT NULL,     -- of which the state is known
	off INTEGER NOT NULL,         -- of these, with interrupts off
	PRIMARY KEY (line, offset, code, thread)
) WITHOUT ROWID;

CREATE TABLE memory_wait (
	line INTEGER NOT NULL,
	lock INTEGER NOT NULL,        -- that was waited for
	kind INTEGER NOT NULL,
	records INTEGER NOT NULL,
	transfers INTEGER NOT NULL,   -- of these: HITM, peer snoops; of a watchpoint, transfers
	PRIMARY KEY (line, lock, kind)
) WITHOUT ROWID;

-- A line under watchpoints (lockline watch); its accesses are in memory_access,
-- records, loads, stores and locked as they were seen, not scaled.
CREATE TABLE watch (
	line INTEGER PRIMARY KEY,     -- as in memory_line
	target TEXT NOT NULL,         -- as it was asked for, or of --auto the lock's name
	lock INTEGER NOT NULL,        -- the lock that the target is; 0: none
	lock_offset INTEGER NOT NULL, -- of the target in the line
	type TEXT NOT NULL,           -- structure that holds the target, or ''
	type_offset INTEGER NOT NULL, -- of the line's first byte in it; may be negative
	type_from TEXT NOT NULL,      -- how that is known: symbol | owner object | slab | call site | user symbol | futex hash | ''
	-- how reads and writes were told apart: instruction | watchpoint | instruction and watchpoint
	access_from TEXT NOT NULL,
	budget REAL NOT NULL,         -- share of CPU time that it was allowed; 0: unlimited (full rate)
	begin_ns INTEGER NOT NULL,
	end_ns INTEGER NOT NULL,
	hit_ns INTEGER NOT NULL,      -- cost of a hit, measured; 0: not known
	ended TEXT NOT NULL           -- why it ended before its time, or ''
);

-- By whom a line's accesses were told to read or write.  In typed windows each place has two watchpoints, one of them
-- for writes alone: it tells whether the access wrote.  On x86 a write hits both, as one hit.
CREATE TABLE watch_told (
	line INTEGER PRIMARY KEY,
	instruction INTEGER NOT NULL, -- accesses of which the disassembler knows
	watchpoint INTEGER NOT NULL,  -- told by the watchpoints that they hit
	remembered INTEGER NOT NULL,  -- by those that other accesses of the same instruction hit
	untold INTEGER NOT NULL,      -- neither reads nor writes
	compared INTEGER NOT NULL,    -- told by the disassembler and by watchpoints
	disagreed INTEGER NOT NULL,   -- of these; they count as the watchpoints told
	typed_windows INTEGER NOT NULL,
	typed_hits INTEGER NOT NULL,  -- of the line's hits, those in typed windows
	typed_hit_ns INTEGER NOT NULL -- cost of a write in a typed window, measured; 0: this machine's watchpoints tell none
);

-- In typed windows, what the disassembler says of an instruction beside what the watchpoints said.
CREATE TABLE watch_comparison (
	line INTEGER NOT NULL,
	code INTEGER NOT NULL,        -- as in memory_code
	decoded INTEGER NOT NULL,     -- 1: reads, 2: writes, 4: with a lock prefix; 0: not known
	only_read INTEGER NOT NULL,   -- accesses that wrote nothing, by the watchpoints
	wrote INTEGER NOT NULL,
	PRIMARY KEY (line, code, decoded)
) WITHOUT ROWID;

-- One stretch of time with watchpoints set.
CREATE TABLE watch_window (
	line INTEGER NOT NULL,
	begin_ns INTEGER NOT NULL,
	length_ns INTEGER NOT NULL,
	offsets INTEGER NOT NULL,     -- bit set of the line's bytes that were watched, signed
	hits INTEGER NOT NULL,        -- in the kernel
	lost INTEGER NOT NULL,        -- of these, without a record
	transfers INTEGER NOT NULL,
	cut INTEGER NOT NULL,         -- 1: ended early, by its limit of hits
	-- 1: the object there was another one, or none, at its end; 0: the same (the task lives); -1: not known, as of a
	-- slab's object that nothing shows to be freed, or of memory of a process that lives
	changed INTEGER NOT NULL,
	PRIMARY KEY (line, begin_ns)
) WITHOUT ROWID;

-- One CPU touched the watched bytes after another had written in them, with no
-- access by others in between.
CREATE TABLE watch_transfer (
	line INTEGER NOT NULL,
	from_cpu INTEGER NOT NULL,    -- the writer
	from_offset INTEGER NOT NULL,
	from_code INTEGER NOT NULL,   -- as in memory_code
	cpu INTEGER NOT NULL,
	offset INTEGER NOT NULL,
	code INTEGER NOT NULL,
	write INTEGER NOT NULL,       -- 1: the access that followed wrote too
	transfers INTEGER NOT NULL,
	PRIMARY KEY (line, from_cpu, from_offset, from_code, cpu, offset, code, write)
) WITHOUT ROWID;

-- The hardware's limits, measured (lockline doctor --deep): for each pair of CPUs
-- the time that a cache line takes from one to the other and the distance of
-- their counters.
CREATE TABLE cpu_pair (
	first INTEGER NOT NULL,
	second INTEGER NOT NULL,
	transfer_ns REAL NOT NULL,    -- one way, median
	least_transfer_ns REAL NOT NULL,
	warp_ns INTEGER NOT NULL,     -- how far a clock read on one was behind one read before it on the other; 0: never
	rounds INTEGER NOT NULL,
	PRIMARY KEY (first, second)
) WITHOUT ROWID;

-- Slices of record --self-check, with and without the deeper probes, in pairs of one of each in random order.
-- The time between two slices, in which probes come and go, is in none.  Of plain `record` the deeper probes
-- are those of the waits themselves: waits and wait_ns are then 0 and wait_histogram is empty.
CREATE TABLE self_check (
	slice INTEGER PRIMARY KEY,    -- from 0
	pair INTEGER NOT NULL,
	begin_ns INTEGER NOT NULL,
	end_ns INTEGER NOT NULL,
	deeper INTEGER NOT NULL,      -- 1: with them
	waits INTEGER NOT NULL,       -- for locks, that ended in it
	wait_ns INTEGER NOT NULL,
	wait_histogram BLOB NOT NULL,
	wakeups INTEGER NOT NULL,     -- of the observer's threads, one on each CPU
	max_late_ns INTEGER NOT NULL, -- how late the worst of them came
	wakeup_histogram BLOB NOT NULL, -- how late they came
	switches INTEGER NOT NULL     -- of the whole machine (/proc/stat); -1: not known
);

-- What could not be read, and why: a line number of a text, an offset in a file.
CREATE TABLE memory_problem (
	source INTEGER NOT NULL,
	place INTEGER NOT NULL,
	problem TEXT NOT NULL
);

-- Types needed to name members: raw BTF, compressed with zlib.  name: vmlinux, or a module's.
CREATE TABLE btf (
	name TEXT PRIMARY KEY,
	bytes INTEGER NOT NULL,       -- before compression
	data BLOB NOT NULL
) WITHOUT ROWID;

-- The story of the investigation that made this recording (lockline why): one row, JSON as docs/why-schema.json has it.
CREATE TABLE investigation (
	id INTEGER PRIMARY KEY,
	document TEXT NOT NULL
);
