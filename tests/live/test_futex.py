# SPDX-License-Identifier: GPL-2.0-or-later
"""Futexes, and turns of tracers: held against workloads whose waits are known, and an independent count."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lockline.analysis.selection import Selection
from lockline.analysis.user_space.futex import read_futexes
from lockline.analysis.user_space.futex_waits import CONDITION, LOCK, NONE, POLL, SEMAPHORE, FutexWaits
from lockline.analysis.user_space.user_evidence import RWLOCK
from lockline.cli.why_counters import descendants_of
from lockline.recording.reader import open_recording
from lockline.rules import find_all
from lockline.rules.report import make_report
from support import DEADLINE_S, TOP, Collector, Recording, Workload, planted, running, wait_for
from told import Told, told

ROUNDS = 20
HOLD_US = 5000


def futexes(path: Path, tgid: int | None = None) -> list[FutexWaits]:
    """The analysis of a recording's futexes; of one process, if it is named."""
    with open_recording(path) as recording:
        found = read_futexes(recording, recording.locks())
    assert found is not None
    return [futex for futex in found.futexes if tgid is None or futex.futex.tgid == tgid]


def collecting(live: Path, recording: Path, pid: int | None) -> Collector:
    """A recording of futexes, a process's or the machine's, with intervals of half a second."""
    who = ("-a",) if pid is None else ("-p", str(pid))
    return Collector(live, recording, "--futex", *who, "-I", "0.5")


def findings(path: Path, rule: str) -> list[Told]:
    """What a rule finds in a recording."""
    with open_recording(path) as opened:
        return [told(found) for found in find_all(make_report(opened, Selection(), 0)) if found.rule == rule]


def finding(path: Path, rule: str) -> Told:
    """The one thing that it finds."""
    (found,) = findings(path, rule)
    return found


def by_name(path: Path, name: str) -> FutexWaits:
    """The one futex with a symbol of that name."""
    found = [futex for futex in futexes(path) if futex.futex.name == name]
    assert len(found) == 1, [futex.futex for futex in futexes(path)]
    return found[0]


def awake(futex: FutexWaits) -> int:
    """Calls that were stopped or woken before they slept: they are no waits."""
    return futex.total.calls - futex.total.slept


def test_waits_for_a_mutex_that_is_held_for_a_known_time(live: Path, recording: Path) -> None:
    with Workload(live, "futex_mutex") as workload, Collector(live, recording, "--futex", "-p", str(workload.pid)):
        truth = workload.do(f"lock {ROUNDS} {HOLD_US}")
    mutex = by_name(recording, "held_mutex")
    assert mutex.figures.waits == ROUNDS
    assert ROUNDS * HOLD_US * 1000 <= mutex.figures.wait_ns <= truth["waited_ns"]
    assert sum(mutex.figures.histogram) == sum(mutex.latency.histogram) == ROUNDS
    assert 0 < mutex.latency.wait_ns < mutex.figures.wait_ns
    assert mutex.nature == LOCK
    assert mutex.ops[0] == "WAIT"
    owners = {task.tid for task in mutex.tasks if task.role == "owner"}
    waiters = {task.tid for task in mutex.tasks if task.role == "waiter"}
    wakers = {task.tid for task in mutex.tasks if task.role == "waker"}
    # The main thread's id is the process's.
    assert owners == {workload.pid}
    assert workload.pid in wakers
    assert len(waiters) == 1
    assert workload.pid not in waiters
    symbols = {frame.symbol for stack in mutex.stacks if stack.role == "waker" for frame in stack.frames}
    assert "main" in symbols, symbols
    # The C library has no frame pointers.
    symbols = {frame.symbol for stack in mutex.stacks if stack.role == "waiter" for frame in stack.frames}
    assert "wait_for_mutex" in symbols, symbols
    assert not [futex for futex in futexes(recording) if futex.futex.tgid not in (0, workload.pid)]


def test_locks_of_lockline_itself_are_no_cause(live: Path, recording: Path, tmp_path: Path) -> None:
    """It has more processes than the one that records: those that read for `why` have its name, too."""
    program = tmp_path / "lockline-collect"
    shutil.copy(TOP / "build" / "workloads" / "incidents", program)
    with (
        planted((str(program), "long-section", "4"), tmp_path) as load,
        collecting(live, recording, load.pid),
        Recording(recording) as result,
    ):
        wait_for(lambda: (result.number("SELECT max(slept) FROM futex_total") or 0) > 20, "waits")
    mutex = by_name(recording, "table_mutex")
    assert mutex.nature == CONDITION
    assert mutex.why == "lockline's own threads"
    assert not findings(recording, "user-lock")


def test_what_the_holder_of_a_mutex_does(live: Path, recording: Path) -> None:
    """It sleeps for as long as it has the mutex: at each look it is in that call."""
    with Workload(live, "futex_mutex") as workload, Collector(live, recording, "--futex", "-p", str(workload.pid)):
        workload.do("lock 60 50000")
    mutex = by_name(recording, "held_mutex")
    asleep = [look for look in mutex.holders if (look.state, look.call) == ("S", "clock_nanosleep")]
    # One at every 50 ms that it is waited for; a machine that is busy takes fewer.
    assert sum(look.looks for look in asleep) >= 20, mutex.holders
    # Between two naps it runs, or on a machine that is busy wants a CPU.
    others = [look for look in mutex.holders if look not in asleep]
    assert {look.state for look in others} <= {"R"}, mutex.holders
    assert 3 * sum(look.looks for look in others) <= sum(look.looks for look in asleep), mutex.holders
    # Where it sleeps is read after its state: at a look or two it is awake by then.
    assert all("nanosleep" in look.function for look in asleep if look.function), mutex.holders
    assert sum(look.looks for look in asleep if not look.function) <= 3, mutex.holders
    found = finding(recording, "held-over-sleep")
    assert found.title == (
        f"The holder of held_mutex sleeps with it held, in clock_nanosleep(): other threads of "
        f"futex_mutex ({workload.pid}) wait for it"
    )


def test_a_wait_that_began_before_the_recording(live: Path, recording: Path) -> None:
    """As of a process that hangs when lockline is called: who waits since when at least, and who holds the lock."""
    with Workload(live, "futex_mutex") as workload:
        workload.do("hold 1 1000")
        with collecting(live, recording, workload.pid):
            with Recording(recording) as result:
                wait_for(lambda: result.number("SELECT max(owners) FROM futex_total"), "owner of a mutex that is held")
                assert result.loss("futex_met") >= 1
            mutex = by_name(recording, "held_mutex")
            assert mutex.nature == LOCK
            assert mutex.total.open_waits == 1
            assert mutex.total.calls == 0
            # Who waits comes with the stack, which is unwound aside.
            assert {task.tid for task in mutex.tasks if task.role == "owner"} == {workload.pid}
            assert {task.role for task in mutex.tasks} <= {"owner", "waiter"}
            workload.do("release 1 0")
    mutex = by_name(recording, "held_mutex")
    assert mutex.figures.waits == 1
    assert mutex.total.open_waits == 0
    assert {task.tid for task in mutex.tasks if task.role == "waker"} == {workload.pid}


def test_a_lock_that_is_not_released(live: Path, recording: Path) -> None:
    """Somebody holds it, and lives: the finding says who, and what they do."""
    with Workload(live, "futex_mutex") as workload:
        workload.do("hold 1 1000")
        with collecting(live, recording, workload.pid), Recording(recording) as result:
            wait_for(lambda: result.number("SELECT max(owned_ns) FROM futex_owned_wait"), "owner at two looks")
        workload.do("release 1 0")
    found = finding(recording, "lock-not-released")
    assert found.title == f"futex_mutex ({workload.pid}) does not release held_mutex, with 1 waiting"
    # It waits for the next command.
    assert any(line.startswith("at the end it sleeps") for line in found.evidence), found.evidence
    assert not findings(recording, "deadlock")


@pytest.mark.parametrize("of", ["the process", "the machine"])
def test_a_deadlock(live: Path, recording: Path, of: str) -> None:
    """Two threads, each with the other's mutex: begun before the recording or in it, it is the same."""
    with Workload(live, "futex_mutex") as workload:
        workload.do("deadlock 1 0")
        pid = workload.pid if of == "the process" else None
        with collecting(live, recording, pid), Recording(recording) as result:
            owned = f"SELECT count(*) FROM futex_owned_wait WHERE tgid = {workload.pid}"
            wait_for(lambda: result.number(owned) == 2, "both waits")
    found = finding(recording, "deadlock")
    assert found.title == f"2 threads of futex_mutex ({workload.pid}) wait for each other, in a circle: a deadlock"
    assert found.confidence == "high"
    assert {line.split(" for ")[-1].split(",")[0] for line in found.evidence} == {"first_mutex", "second_mutex"}
    assert not findings(recording, "lock-not-released")


def test_a_deadlock_that_begins_in_the_recording(live: Path, recording: Path) -> None:
    with (
        Workload(live, "futex_mutex") as workload,
        collecting(live, recording, workload.pid),
        Recording(recording) as result,
    ):
        workload.do("deadlock 1 0")
        wait_for(lambda: result.number("SELECT count(*) FROM futex_owned_wait") == 2, "both waits")
    assert finding(recording, "deadlock").confidence == "high"


def test_waits_that_end_leave_no_finding(live: Path, recording: Path) -> None:
    with Workload(live, "futex_mutex") as workload:
        workload.do("hold 1 1000")
        with collecting(live, recording, workload.pid), Recording(recording) as result:
            wait_for(lambda: result.number("SELECT count(*) FROM futex_owned_wait"), "a wait with its owner")
            workload.do("release 1 0")
            wait_for(lambda: not result.number("SELECT count(*) FROM futex_owned_wait"), "the end of the wait")
    assert not findings(recording, "lock-not-released")


def test_a_mutex_that_inherits_priority(live: Path, recording: Path) -> None:
    with Workload(live, "futex_mutex") as workload, Collector(live, recording, "--futex", "-p", str(workload.pid)):
        truth = workload.do(f"pi {ROUNDS} {HOLD_US}")
    mutex = by_name(recording, "pi_mutex")
    assert mutex.nature == LOCK
    with Recording(recording) as result:
        # Whether a call was missed or did not sleep, and whether programs missed events.
        lost = result.rows("SELECT name, count FROM loss WHERE count")
        misses = result.rows("SELECT name, recursion_misses FROM program WHERE recursion_misses")
    assert mutex.figures.waits == ROUNDS, (mutex.total, lost, misses)
    assert ROUNDS * HOLD_US * 1000 <= mutex.figures.wait_ns <= truth["waited_ns"]
    assert {"LOCK_PI2", "UNLOCK_PI"} <= set(mutex.ops) or {"LOCK_PI", "UNLOCK_PI"} <= set(mutex.ops)
    assert {task.tid for task in mutex.tasks if task.role == "owner"} == {workload.pid}


@pytest.mark.parametrize(
    ("command", "word", "waits", "wakes"),
    [
        ("waitv", "second_word", "futex_waitv", "futex_wake"),
        ("wait2", "second_word", "futex_wait", "futex_wake"),
        ("requeue", "first_word", "WAIT", "CMP_REQUEUE"),
    ],
)
def test_other_operations(live: Path, recording: Path, command: str, word: str, waits: str, wakes: str) -> None:
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if command != "requeue" and release < (6, 7):
        pytest.skip("futex_wait() and futex_wake() came with 6.7")
    with Workload(live, "futex_mutex") as workload, Collector(live, recording, "--futex", "-p", str(workload.pid)):
        workload.do(f"{command} {ROUNDS} {HOLD_US}")
    futex = by_name(recording, word)
    assert futex.figures.waits + awake(futex) == ROUNDS
    assert futex.figures.wait_ns >= futex.figures.waits * HOLD_US * 1000
    assert {waits, wakes} <= set(futex.ops), futex.ops
    assert futex.nature == CONDITION


def test_a_wait_that_goes_on_after_a_signal(live: Path, recording: Path) -> None:
    """Stopped and continued: the kernel ends the call, and restart_syscall() waits on for the same word."""
    with Workload(live, "futex_mutex") as workload, Collector(live, recording, "--futex", "-p", str(workload.pid)):
        workload.do(f"restart {ROUNDS} {HOLD_US}")
    futex = by_name(recording, "second_word")
    assert futex.figures.waits + awake(futex) == 2 * ROUNDS
    assert futex.figures.wait_ns >= futex.figures.waits * HOLD_US * 1000
    assert futex.total.interrupted == ROUNDS
    assert futex.total.tasks_woken == ROUNDS
    with Recording(recording) as result:
        assert result.loss("futex_restarted") == ROUNDS
        assert result.loss("futex_orphaned") == 0


def test_calls_of_32_bit_programs(live: Path, recording: Path) -> None:
    with Workload(live, "futex_mutex") as workload, Collector(live, recording, "--futex", "-p", str(workload.pid)):
        try:
            truth = workload.do(f"calls32 {ROUNDS} {HOLD_US}")
        except AssertionError as error:
            if "no system calls of 32-bit programs" in str(error):
                pytest.skip("this kernel takes no system calls of 32-bit programs")
            raise
    assert truth["waits"] == ROUNDS
    (futex,) = [futex for futex in futexes(recording, workload.pid) if 0 < futex.futex.address < 1 << 32]
    assert futex.figures.waits + awake(futex) == ROUNDS
    assert futex.figures.wait_ns >= futex.figures.waits * HOLD_US * 1000
    assert futex.total.tasks_woken == ROUNDS
    assert {"WAIT", "WAKE"} == set(futex.ops)
    with Recording(recording) as result:
        assert result.loss("futex_compat") >= 2 * ROUNDS


def test_a_semaphore_that_another_thread_posts(live: Path, recording: Path) -> None:
    script = """
import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
semaphore = ctypes.create_string_buffer(32)
libc.sem_init(semaphore, 0, 0)
def work():
    for _ in range(20):
        libc.sem_wait(semaphore)
thread = threading.Thread(target=work)
sys.stdin.readline()
thread.start()
for _ in range(20):
    time.sleep(0.01)
    libc.sem_post(semaphore)
thread.join()
print(ctypes.addressof(semaphore))
"""
    with (
        subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as it,
        Collector(live, recording, "-p", str(it.pid), "--futex"),
    ):
        address = int(it.communicate("go\n", timeout=120)[0])
    (futex,) = [futex for futex in futexes(recording, it.pid) if futex.futex.address == address]
    assert futex.semaphore
    assert futex.nature == SEMAPHORE
    assert futex.total.tasks_woken > ROUNDS / 2


def test_a_writer_that_never_gets_its_lock(live: Path, recording: Path) -> None:
    """It waited before the recording, and waits on after it: its stack tells that this is no idle thread."""
    script = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
lock = ctypes.create_string_buffer(56)
libc.pthread_rwlock_init(lock, None)
libc.pthread_rwlock_rdlock(lock)
threading.Thread(target=lambda: libc.pthread_rwlock_wrlock(lock), daemon=True).start()
idle = threading.Condition()
threading.Thread(target=lambda: idle.acquire() and idle.wait(), daemon=True).start()
print(ctypes.addressof(lock), flush=True)
sys.stdin.readline()
"""
    with (
        subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as it,
    ):
        assert it.stdout is not None
        low = int(it.stdout.readline())
        with collecting(live, recording, it.pid), Recording(recording) as result:
            wait_for(lambda: result.number("SELECT count(*) FROM futex_sample"), "the stack of a wait in progress")
            oldest = "SELECT max(oldest_ns) FROM futex_total WHERE slept = 0"
            wait_for(lambda: (result.number(oldest) or 0) > 2_000_000_000, "a wait of two seconds in progress")
        it.communicate("\n", timeout=DEADLINE_S)
    (lock,) = [futex for futex in futexes(recording, it.pid) if low <= futex.futex.address < low + 56]
    assert (lock.nature, lock.make, lock.figures.waits) == (LOCK, RWLOCK, 0)
    found = finding(recording, "user-lock")
    assert found.title.startswith("Writers of ")
    assert "a read-write lock of their own program" in found.title
    assert any("readers overlap, or one keeps it" in line for line in found.evidence), found.evidence
    assert any("1 wait had not ended, the oldest after" in line for line in found.evidence), found.evidence
    assert [one.rule for one in findings(recording, "user-lock")] == ["user-lock"]


def test_processes_that_share_a_futex(live: Path, recording: Path) -> None:
    """A semaphore in memory that parent and child share: one row, though each has it at an address of its own."""
    script = """
import sys, time
from multiprocessing import get_context
context = get_context("fork")
go, done = context.Semaphore(0), context.Semaphore(0)
def work():
    for _ in range(20):
        go.acquire()
        done.release()
child = context.Process(target=work)
sys.stdin.readline()
child.start()
for _ in range(20):
    time.sleep(0.02)  # as long as it takes to look at both while they live
    go.release()
    done.acquire()
child.join()
"""
    with (
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, text=True) as parent,
        Collector(live, recording, "-p", str(parent.pid), "--futex"),
    ):
        parent.communicate("go\n", timeout=120)
    # The waits of the two are of one futex, which one of them woke and the other waited for.
    shared = [futex for futex in futexes(recording) if futex.futex.shared and futex.total.tasks_woken >= ROUNDS - 1]
    pairs = [{task.tgid for task in futex.tasks} for futex in shared]
    assert any(parent.pid in tgids and len(tgids) == 2 for tgids in pairs), pairs


def test_threads_that_contend(live: Path, recording: Path, two_cpus: None) -> None:
    with Workload(live, "futex_mutex") as workload, Collector(live, recording, "--futex", "-p", str(workload.pid)):
        workload.do("contend 60 500")
    mutex = by_name(recording, "contended_mutex")
    assert mutex.nature == LOCK
    assert mutex.figures.waits > 0
    owners = {task.tid for task in mutex.tasks if task.role == "owner"}
    assert owners <= {task.tid for task in mutex.tasks if task.role == "waker"} | owners
    assert workload.pid not in owners


def test_idle_workers_and_polls_are_no_contention(live: Path, recording: Path) -> None:
    with Workload(live, "futex_mutex") as workload, Collector(live, recording, "--futex", "-p", str(workload.pid)):
        workload.do("work 40 2000")
        workload.do(f"poll {ROUNDS} 3000")
    found = futexes(recording, workload.pid)
    workers = [futex for futex in found if futex.futex.name.startswith("work_condition")]
    assert sum(futex.figures.waits for futex in workers) >= ROUNDS
    assert {futex.nature for futex in workers} <= {CONDITION, NONE}
    (poll,) = [futex for futex in found if futex.futex.name.startswith("poll_condition") and futex.total.calls]
    assert poll.nature == POLL
    assert poll.total.timed_out == poll.total.timed == ROUNDS
    # On a busy machine a deadline may have passed before the call.
    assert 0 < poll.figures.waits <= ROUNDS
    assert poll.total.timed_out_ns == poll.figures.wait_ns


def test_a_call_that_finds_the_word_changed_is_no_wait(live: Path, recording: Path) -> None:
    with running(live / "workloads" / "lock_load", "futex", "2") as load:
        with Collector(live, recording, "--futex", "-p", str(load.pid)), Recording(recording) as result:
            wait_for(lambda: result.number("SELECT sum(again) FROM futex_total") > 1000, "calls that returned at once")
        (futex,) = futexes(recording, load.pid)
    assert futex.total.again == futex.total.calls
    assert futex.figures.waits == 0
    assert futex.nature == NONE


def test_bucket_locks_of_perf_bench(live: Path, recording: Path, two_cpus: None) -> None:
    """perf bench futex hash: calls that find the word changed, whose waits are for the kernel's bucket locks alone."""
    perf = shutil.which("perf")
    if not perf:
        pytest.skip("perf is not installed: scripts/setup test")
    benches: set[int] = set()

    def joined() -> int:
        command = [perf, "bench", "futex", "hash", "-t", "4", "-f", "64", "-r", "1", "-s"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bench:
            benches.add(bench.pid)
            if bench.wait():
                pytest.skip("this perf has no bench futex hash")
        return result.number("SELECT sum(waits) FROM futex_bucket")

    with Collector(live, recording, "-a", "--futex", "-I", "0.5"), Recording(recording) as result:
        wait_for(joined, "waits for a bucket's lock that are joined with a futex")
    with open_recording(recording) as opened:
        found = read_futexes(opened, opened.locks())
    assert found is not None
    of_bench = [futex for futex in found.futexes if futex.futex.tgid in benches]
    assert sum(futex.total.again for futex in of_bench) > 10_000
    assert LOCK not in {futex.nature for futex in of_bench if futex.total.again > 100}
    led_there = {futex.tgid for bucket in found.buckets for futex, _, _ in bucket.futexes}
    assert led_there & benches, found.buckets
    with Recording(recording) as result:
        assert result.number("SELECT sum(waits) FROM futex_bucket") <= result.loss("futex_bucket_waits")
        # An interrupt inside a futex call may wait for a lock that lies as those of buckets do.
        of_image = "SELECT count(*) FROM futex_bucket JOIN lock ON lock.id = lock WHERE source LIKE '%symbol'"
        assert not result.number(of_image)


def test_every_turn_of_a_tracer_is_counted(live: Path, recording: Path) -> None:
    if not shutil.which("stress-ng"):
        pytest.skip("stress-ng is not installed: scripts/setup test")
    with Workload(live, "function_counter", "none") as counter:
        before = counter.do("read")
        with Collector(live, recording, "-a", "--ptrace"):
            begin = counter.do("read")
            with running("stress-ng", "--ptrace", "2"), Recording(recording) as result:
                wait_for(lambda: result.number("SELECT sum(turns) FROM inactive_wait") > 1000, "turns")
            end = counter.do("read")
        after = counter.do("read")
    with Recording(recording) as result:
        turns = result.number("SELECT sum(turns) FROM inactive_wait")
        assert end["turns"] - begin["turns"] <= turns <= after["turns"] - before["turns"]
        pairs = result.rows("SELECT tid, target_tid, traced, turns FROM inactive_wait WHERE comm LIKE 'stress-ng%'")
    assert pairs
    for tid, target, traced, turned in pairs:
        assert tid != target
        assert traced <= turned


def test_a_clock_of_each_cpu_says_nothing_to_see(live: Path, recording: Path) -> None:
    source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    if source in ("hpet", "acpi_pm"):
        pytest.skip(f"the clocksource is {source}")
    with Collector(live, recording, "-a", "--clocksource", "-d", "0.3") as collector:
        assert collector.wait() == 0
    with Recording(recording) as result:
        ((state, reason),) = result.rows("SELECT state, reason FROM probe WHERE signal = 'reads of a shared clock'")
        assert state == "off"
        assert reason.startswith("nothing to see")
        assert not result.rows("SELECT * FROM clock_total")


def test_processes_that_live_for_a_moment(live: Path, recording: Path) -> None:
    """They are gone when their futexes are met: the programs keep their command."""
    pids = []
    with Collector(live, recording, "-a", "--futex"):
        for _ in range(30):
            with subprocess.Popen([live / "workloads" / "churn", "live"]) as process:
                assert process.wait(DEADLINE_S) == 0
            pids.append(process.pid)
    with Recording(recording) as result:
        commands = result.rows("SELECT tgid, comm FROM futex")
    assert {comm for tgid, comm in commands if tgid in pids} == {"churn"}


def test_a_lock_whose_holder_waits_for_another_one(live: Path, recording: Path, tmp_path: Path) -> None:
    """Four threads wait for the first mutex, and one at a time for the second: that one is to blame for all of it."""
    query = "SELECT sum(looks) FROM futex_holder JOIN futex ON id = futex WHERE name = 'first_mutex'"
    with (
        planted(("incidents", "lock-chain", "5"), tmp_path) as load,
        collecting(live, recording, load.pid),
        Recording(recording) as result,
    ):
        wait_for(lambda: (result.number(query) or 0) >= 40, "looks at the holder of a mutex")
    first, second = by_name(recording, "first_mutex"), by_name(recording, "second_mutex")
    assert first.behind is not None
    assert (first.behind[0].name, second.before[0][0].name) == ("second_mutex", "first_mutex")
    assert first.behind[1] > 0.7
    assert first.waited_ns > second.waited_ns
    assert first.to_blame_ns < second.to_blame_ns
    found = finding(recording, "held-over-sleep")
    assert found.title.startswith("The holder of second_mutex sleeps with it held")
    assert finding(recording, "user-lock").title == (
        "The holder of first_mutex waits for second_mutex: look at that one first"
    )


def test_a_mutex_of_several_processes_whose_holder_is_stopped(live: Path, recording: Path, tmp_path: Path) -> None:
    with planted(("incidents", "stopped", "5"), tmp_path) as load:
        children = wait_for(lambda: five if len(five := descendants_of((load.pid,), 9)) == 5 else (), "processes")

        def stopped() -> list[int]:
            return [pid for pid in children if "State:\tT" in Path(f"/proc/{pid}/status").read_text()]

        (holder,) = wait_for(stopped, "process that is stopped")
        pids = ",".join(map(str, children))
        with Collector(live, recording, "--futex", "-p", pids, "-I", "0.5"), Recording(recording) as result:
            wait_for(lambda: result.number("SELECT max(owned_ns) FROM futex_owned_wait"), "owner at two looks")
    found = finding(recording, "lock-not-released")
    assert found.title.startswith(f"incidents ({holder}) does not release a lock in shared memory")
    assert f"kill -CONT {holder}" in found.next[0]
