-- lockline recording, schema 1.  SPDX-License-Identifier: GPL-2.0-or-later
--
-- The one contract between the collector, which writes it, and the analysis,
-- which reads it.  Times are CLOCK_MONOTONIC nanoseconds unless a name says
-- otherwise.  A histogram is a blob of 6-byte entries (uint16 bucket, uint32
-- count, little-endian), buckets as in histogram_bucket() of bpf/lockline.h;
-- entries of one bucket add up.  See docs/recording.md.

PRAGMA application_id = 0x6c6f636b; -- "lock"
PRAGMA user_version = 1;

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
CREATE UNIQUE INDEX lock_address ON lock (address);

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

CREATE TABLE cgroup (
	id INTEGER PRIMARY KEY,       -- kernfs id
	path TEXT NOT NULL            -- '' if it was gone before it could be looked up
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
