# SPDX-License-Identifier: GPL-2.0-or-later
"""Who held: kernel locks that one known task holds for a known time, while others wait for them."""

import json
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from boots import Section
from guest import Guest
from matrix import NATIVE, STATISTICS_ON, TEST_AND_SET, boot, chosen, selected
from rank_one import locks_of, report_and_screen

from lockline.base import histogram
from lockline.render.findings import worded

SPINLOCK, MUTEX, RWSEM_WRITE, RTMUTEX, RWLOCK_RT_WRITE = 0, 3, 6, 7, 9
# Longer than a busy machine keeps a virtual CPU from running, most of the time.
HOLD_US = 20_000
COUNT = 60
MUTEX_ROUNDS = 20

# name: mode of held_lock, by a holder and one waiter
RUNS = {"bucket": "futex-bucket", "inode": "inode-rwsem"}
# The first again: an emulated waiter may be late for its wait in most of a run.
AGAIN = ("bucket", "bucket2", "bucket3")


@dataclass(frozen=True)
class HolderCase:
    """A kernel, and where it says who held."""

    kernel: str
    spinlocks: str = NATIVE
    spin_source: str = "fentry"  # "": it has inlined its unlocks
    sleeping_source: str = "fentry"

    def __str__(self) -> str:
        return f"{self.kernel}-{self.spinlocks}"

    @property
    def arm64(self) -> bool:
        """Whether it is not of x86-64."""
        return self.kernel.endswith("arm64")

    @property
    def realtime(self) -> bool:
        """Whether the bucket's lock is an rt-mutex, and the inode's rwsem one of rt-mutexes."""
        return "-rt" in self.kernel

    @property
    def sections(self) -> tuple[Section]:
        """The recordings and the truth of all runs."""
        commands = [record(name, mode, HOLD_US, COUNT, 1) for name, mode in RUNS.items()]
        commands += [record(name, RUNS["bucket"], HOLD_US, COUNT, 1) for name in AGAIN[1:]]
        if not self.arm64:
            # A program of this machine's own: it holds a pipe's mutex over a fault that it serves itself.
            commands.append(
                "lockline-collect record -a --holders -I 100ms -o mutex.lockline --"
                f" uffd_mutex {MUTEX_ROUNDS} {HOLD_US} > mutex.json || exit"
            )
        where = boot(self.kernel, self.spinlocks, turns=not self.arm64)
        return (Section(where, "holders", "\n".join([STATISTICS_ON, *commands])),)


CASES = (
    HolderCase("trixie"),
    HolderCase("trixie", TEST_AND_SET),
    HolderCase("bookworm"),
    HolderCase("bookworm-rt"),
    HolderCase("bookworm-arm64", spin_source="", sleeping_source="owner field"),
    HolderCase("bookworm-rt-arm64", spin_source="kprobe", sleeping_source="owner field"),
    HolderCase("trixie-arm64", spin_source=""),
    HolderCase("sid", sleeping_source="tp_btf contended_release"),
)


def record(name: str, mode: str, hold_us: int, count: int, waiters: int) -> str:
    """The command that leaves NAME.lockline, and NAME.json with the truth."""
    return (
        f"lockline-collect record -a --holds -I 100ms -o {name}.lockline --"
        f" held_lock {mode} --hold-us {hold_us} --count {count} --waiters {waiters} > {name}.json || exit"
    )


@pytest.fixture(scope="module", params=[case for case in CASES if selected(case.kernel)], ids=str)
def case(request: pytest.FixtureRequest) -> HolderCase:
    """A kernel."""
    found: HolderCase = request.param
    return found


@pytest.fixture(scope="module")
def guest(case: HolderCase, results: Callable[[Section], Guest]) -> Guest:
    """The recordings and the truth of all runs."""
    return results(case.sections[0])


@dataclass(frozen=True)
class Run:
    """What one run of held_lock did, and what was recorded of it."""

    guest: Guest
    name: str

    @property
    def truth(self) -> dict[str, Any]:
        """The workload's last word."""
        lines = [json.loads(line) for line in self.guest.text(f"{self.name}.json").splitlines()]
        assert lines[-1]["event"] == "holds"
        found: dict[str, Any] = lines[-1]
        return found

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the recording."""
        with closing(sqlite3.connect(self.guest.directory / f"{self.name}.lockline")) as connection:
            return connection.execute(sql).fetchall()

    def lock(self) -> tuple[int, int]:
        """The lock, and the kind of wait, that was waited for most."""
        lock, kind = self.query("SELECT lock, kind FROM lock_total ORDER BY wait_ns DESC LIMIT 1")[0]
        return lock, kind

    def holders(self) -> list[tuple[int, int, int, int]]:
        """(tid, releases, waits, caused_ns) of those who held that lock, who caused most first."""
        lock, kind = self.lock()
        return self.query(
            "SELECT ifnull(tid, 0), releases, waits, caused_ns FROM holder_total LEFT JOIN waiter ON id = holder"
            f" WHERE lock = {lock} AND kind = {kind} ORDER BY caused_ns DESC"
        )

    def fairness(self) -> dict[str, int]:
        """How that lock was handed on."""
        lock, kind = self.lock()
        names = [
            "waits",
            "releases",
            "retakes",
            "overtaken",
            "bypasses",
            "max_bypasses",
            "handoffs",
            "handoff_ns",
            "holds",
            "hold_ns",
        ]
        rows = self.query(f"SELECT {', '.join(names)} FROM fairness WHERE lock = {lock} AND kind = {kind}")
        return dict(zip(names, rows[0], strict=True))


def seen(case: HolderCase, name: str) -> bool:
    """Whether this kernel tells who releases the lock of that run."""
    return name == "inode" or case.realtime or bool(case.spin_source)


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, case: HolderCase, guest: Guest) -> Run:
    """One of the runs."""
    if not seen(case, request.param):
        pytest.skip("this kernel has inlined its unlocks: who held a spinlock is not seen")
    return Run(guest, request.param)


@pytest.fixture
def bucket(case: HolderCase, guest: Guest) -> Run:
    """The run with a spinlock, which PREEMPT_RT makes an rt-mutex."""
    if not seen(case, "bucket"):
        pytest.skip("this kernel has inlined its unlocks: who held a spinlock is not seen")
    return Run(guest, "bucket")


def counts(blob: bytes) -> dict[int, int]:
    """A stored histogram: bucket to count."""
    found: dict[int, int] = {}
    for bucket, count in struct.iter_unpack("<HI", blob):
        found[bucket] = found.get(bucket, 0) + count
    return found


def test_sources(case: HolderCase, guest: Guest) -> None:
    rows = Run(guest, "bucket").query("SELECT signal, state, source FROM probe WHERE signal LIKE '%holder%'")
    assert {signal: (state, source) for signal, state, source in rows} == {
        "spinlock holders": ("on" if case.spin_source else "unavailable", case.spin_source),
        "sleeping lock holders": ("on", case.sleeping_source),
    }


# Part of the name of the lock that each run holds, on every kernel of the matrix.
PLANTED = {"bucket": "futex_hash_bucket.lock", "inode": "i_rwsem", "mutex": "pipe"}


@pytest.mark.parametrize("name", PLANTED)
def test_rank_one_is_the_lock_that_is_held(case: HolderCase, guest: Guest, name: str) -> None:
    """The first finding is about the planted lock; where releases are seen it names who holds it."""
    if name == "mutex" and case.arm64:
        pytest.skip("the program that holds a pipe's mutex is this machine's own")
    report, lines = report_and_screen(guest.directory / f"{name}.lockline")
    assert report.findings, lines
    first = report.findings[0]
    text = " ".join(" ".join(lines).split())
    # A lock in an object of kmalloc has no name of its own; the heading then has the function that holds it.
    assert any(PLANTED[name] in words for words in (*locks_of(first), worded(first).title)), (first, lines)
    assert "do " in text
    if name != "mutex" and seen(case, name):
        assert "held_lock" in text, lines


def test_kind(case: HolderCase, run: Run) -> None:
    spinning = run.name != "inode"
    expected = (
        ({RTMUTEX} if spinning else {RTMUTEX, RWLOCK_RT_WRITE})
        if case.realtime
        else {SPINLOCK if spinning else RWSEM_WRITE}
    )
    assert run.lock()[1] in expected, run.query("SELECT name, kind, waits FROM lock_total JOIN lock ON id = lock")


def test_the_holder_is_the_one_that_held(run: Run) -> None:
    # A virtual CPU that stands still for long may make a waiter the one that caused most.
    tid, _, waits, _ = max(run.holders(), key=lambda holder: holder[2])
    assert tid == run.truth["holder"], run.holders()
    # On a loaded machine many a waiter comes too late for a hold.
    assert waits >= COUNT // 10, (waits, run.holders())


def waits_of_others(run: Run) -> int:
    """Waits for the lock by others than the first waiter, in ns; short ones of its own are among them.

    Futexes of one hash share a bucket: the thread that is woken may wait for its lock too, and any program of the
    guest.
    """
    lock, kind = run.lock()
    of_lock = f"lock = {lock} AND kind = {kind}"
    [[all_ns]] = run.query(f"SELECT wait_ns FROM lock_total WHERE {of_lock}")
    [[its_ns]] = run.query(
        "SELECT ifnull(sum(wait_ns), 0) FROM outlier JOIN waiter ON waiter.id = outlier.waiter"
        f" WHERE {of_lock} AND tid = {run.truth['waiters'][0]}"
    )
    return int(all_ns - its_ns)


def test_what_it_caused_is_no_more_than_the_waiter_waited(run: Run) -> None:
    """By the waiter's own measure: from its word, one instruction before the system call, to its return."""
    truth = run.truth
    caused = sum(caused for tid, _, _, caused in run.holders() if tid == truth["holder"])
    waited = sum(waited for _, waited in truth["waits"][0])
    assert 0 < caused <= waited + waits_of_others(run), (caused, waited, waits_of_others(run))


def test_charges_and_hand_offs_are_the_wait(run: Run) -> None:
    losses = dict(run.query("SELECT name, count FROM loss WHERE name LIKE 'turns%' OR name LIKE 'holders_w%'"))
    assert set(losses.values()) == {0}, losses
    lock, kind = run.lock()
    waits, wait_ns = run.query(f"SELECT waits, wait_ns FROM lock_total WHERE lock = {lock} AND kind = {kind}")[0]
    fairness = run.fairness()
    assert fairness["waits"] == waits
    assert sum(caused for _, _, _, caused in run.holders()) + fairness["handoff_ns"] == wait_ns


def mode_of_waits(run: Run) -> int:
    """The fullest bucket of the waits for the lock that was held."""
    lock, kind = run.lock()
    [[blob]] = run.query(f"SELECT histogram FROM lock_total WHERE lock = {lock} AND kind = {kind}")
    found = counts(blob)
    return max(found, key=lambda bucket: found[bucket])


def true_mode(run: Run, index: int) -> int:
    """The fullest bucket of what the workload measured: 0: each hold, 1: what was left of it when its waiter went."""
    found = Counter(histogram.bucket(hold[index]) for hold in run.truth["holds"])
    return max(found, key=lambda bucket: found[bucket])


def test_mode_of_the_waits(case: HolderCase, guest: Guest) -> None:
    """One waiter: it waits for the hold time, less its way into the kernel; one that sleeps, and its wake-up."""
    runs = [Run(guest, name) for name in AGAIN]
    modes = [(true_mode(run, 1), mode_of_waits(run)) for run in runs]
    slack = 8 if case.realtime else 2
    assert any(expected - 2 <= mode <= expected + slack for expected, mode in modes), modes


def test_where_it_was_released(case: HolderCase, bucket: Run) -> None:
    if case.sleeping_source == "owner field" and case.realtime:
        pytest.skip("by the owner field alone: no release is seen")
    run = bucket
    lock, kind = run.lock()
    stacks = run.query(
        "SELECT frames FROM release_stack JOIN stack ON stack.id = stack JOIN waiter ON waiter.id = holder"
        f" WHERE lock = {lock} AND kind = {kind} AND tid = {run.truth['holder']} ORDER BY caused_ns DESC"
    )
    assert stacks
    addresses = struct.unpack(f"<{len(stacks[0][0]) // 8}q", stacks[0][0])
    symbols = {symbol for (symbol,) in run.query(f"SELECT symbol FROM frame WHERE tgid = 0 AND address IN {addresses}")}
    assert "futex_wake" in symbols, symbols


def order_of_service(spinlocks: str) -> Section:
    """One that holds, and two that wait."""
    script = f"{STATISTICS_ON}\n{record('two', 'futex-bucket', 300, 150, 2)}"
    return Section(boot("trixie", spinlocks, 3, turns=True), "order-of-service", script)


@pytest.mark.parametrize(
    "section",
    chosen(*map(order_of_service, (NATIVE, TEST_AND_SET))),
    ids=lambda section: section.boot.label,
)
def test_order_of_service(results: Callable[[Section], Guest], section: Section) -> None:
    """A queued spinlock is first come, first served; a test-and-set one is not."""
    guest = results(section)
    fairness = Run(guest, "two").fairness()
    if section.boot.label == TEST_AND_SET:
        assert fairness["overtaken"] > 0, fairness
        assert fairness["max_bypasses"] >= 1
    else:
        assert fairness["overtaken"] <= fairness["waits"] // 50, fairness


SLEEPING_UNLOCKS = {"mutex_unlocks", "rwsem_write_unlock", "rwsem_read_unlock", "rt_spin_unlocks"}


def test_unlocks_are_probed_only_where_the_kernel_does_not_tell(case: HolderCase, guest: Guest) -> None:
    """Since 7.2 the kernel passes contended_release itself: no other unlock of a sleeping lock pays for a probe."""
    programs = {name for (name,) in Run(guest, "bucket").query("SELECT name FROM program")}
    assert ("contended_release" in programs) == (case.sleeping_source == "tp_btf contended_release"), programs
    assert bool(programs & SLEEPING_UNLOCKS) == (case.sleeping_source == "fentry"), programs


def test_the_holder_of_a_mutex_whose_waiter_sleeps(case: HolderCase, guest: Guest) -> None:
    """Here every release is contended, and passes contended_release, or mutex_unlock() with the waiters' flag set."""
    if case.arm64:
        pytest.skip("its program is of this machine's architecture")
    run = Run(guest, "mutex")
    ready, waits = (json.loads(line) for line in guest.text("mutex.json").splitlines())
    tid, releases, charged, caused = run.holders()[0]
    assert run.lock()[1] == (RTMUTEX if case.realtime else MUTEX)
    assert tid == ready["holder"], run.holders()
    assert charged == MUTEX_ROUNDS
    # On the RT kernels before 7.2 the pipe's mutex is released by a function that inlines the unlock.
    assert releases >= MUTEX_ROUNDS or case.realtime, run.holders()
    assert sum(low for low, _ in waits["waits"]) * 0.9 <= caused <= sum(high for _, high in waits["waits"])


def test_raw_spinlocks_by_kprobe(case: HolderCase, guest: Guest) -> None:
    if case.spin_source != "kprobe":
        pytest.skip("this kernel has fentry, or no unlock to probe")
    releases = sum(
        Run(guest, name).query(f"SELECT ifnull(sum(releases), 0) FROM fairness WHERE kind = {SPINLOCK}")[0][0]
        for name in RUNS
    )
    assert releases > 0


def long_holds(run: Run) -> dict[int, int]:
    """Holds of at least half the time: the waiter's own ones are short."""
    lock, kind = run.lock()
    [[blob]] = run.query(f"SELECT hold_histogram FROM fairness WHERE lock = {lock} AND kind = {kind}")
    found = counts(blob)
    assert sum(found.values()) == run.fairness()["holds"]
    return {bucket: count for bucket, count in found.items() if bucket >= histogram.bucket(HOLD_US * 1000 // 2)}


def test_holds(case: HolderCase, guest: Guest) -> None:
    run = Run(guest, "bucket")
    state = dict(run.query("SELECT signal, state FROM probe WHERE signal = 'spinlock hold times'"))
    if case.spin_source != "fentry" or case.realtime:
        assert run.fairness()["holds"] == 0
        assert case.realtime or state["spinlock hold times"] == "unavailable"
        return
    # A hold lasts as long as it says, or until its waiter has come.
    runs = [Run(guest, name) for name in AGAIN]
    holds = [long_holds(run) for run in runs]
    assert sum(sum(long.values()) for long in holds) >= COUNT // 2, holds
    modes = [
        (true_mode(run, 0), max(long, key=lambda bucket: long[bucket]))
        for run, long in zip(runs, holds, strict=True)
        if long
    ]
    assert any(expected - 1 <= mode <= expected + 1 for expected, mode in modes), modes


def test_kernel_has_no_complaint(guest: Guest) -> None:
    text = guest.text("dmesg")
    assert "WARNING:" not in text
    assert "BUG:" not in text.replace("BUG: soft lockup", "")
