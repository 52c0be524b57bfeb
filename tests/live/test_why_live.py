# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline why` on this kernel: planted causes are found, the recording has the story, and nothing is left."""

import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from cgroups import cgroup, cgroup_mounts
from lockline.cli import main as cli
from lockline.cli.why_counters import descendants_of, text_of, threads_of
from lockline.cli.why_sleeps import look_at_sleeps
from lockline.cli.why_spins import look_at_spins
from lockline.cli.why_still import stopped_now
from lockline.investigation.model import Target
from lockline.investigation.running import worth_telling
from lockline.investigation.stops import Standing
from support import planted, wait_for, why

pytestmark = pytest.mark.usefixtures("live")


def wait_for_children(pid: int, number: int) -> tuple[int, ...]:
    """The children of a process, when there are so many."""
    return wait_for(lambda: found if len(found := descendants_of((pid,), 100)) >= number else (), "children")


@pytest.mark.alone
def test_a_program_that_sleeps_with_its_mutex_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Waits of 2 ms are the sleep's, whatever else the machine does: threads of the program hardly run."""
    kept = tmp_path / "kept.data"
    with planted(("incidents", "sleep-in-section", "4"), tmp_path) as load:
        story = why(tmp_path, "-p", str(load.pid), "-d", "10", "-o", str(kept))
    verdict = story["verdict"]
    assert verdict["kind"] == "cause"
    assert "table_mutex" in verdict["title"]
    assert "incidents" in verdict["culprit"]
    probes = [step["probe"] for step in story["steps"]]
    assert probes[0] == "totals"
    assert "futex" in probes
    assert all(step["probe_ns"] + step["collector_ns"] > 0 for step in story["steps"] if step["outcome"] == "done")
    assert kept.stat().st_mode & 0o777 == 0o600
    capsys.readouterr()
    # The story is in the recording, and is the same.
    assert cli.main(["report", str(kept), "--why", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == story
    assert cli.main(["report", str(kept)]) == 0
    assert "\nWHY " in capsys.readouterr().out


@pytest.mark.alone
@pytest.mark.parametrize(
    ("incident", "keeps", "action"),
    [
        ("stopped", "a signal has stopped it", "kill -CONT"),
        ("beside-real-time", "runs before it, at a real-time priority", "taskset"),
    ],
)
def test_what_keeps_the_holder(incident: str, keeps: str, action: str, tmp_path: Path) -> None:
    with planted(("incidents", incident, "4"), tmp_path) as load:
        verdict = why(tmp_path, "-p", str(load.pid), "-d", "10")["verdict"]
    assert keeps in verdict["title"]
    assert action in verdict["remedies"][0]


_DEADLOCK = """
import threading, time
first, second = threading.Lock(), threading.Lock()
def transfer(one, other):
    with one:
        time.sleep(0.3)
        with other:
            pass
def ask():
    time.sleep(0.6)
    with first:
        pass
for work, locks in ((transfer, (first, second)), (transfer, (second, first)), (ask, ()), (ask, ())):
    threading.Thread(target=work, args=locks).start()
print("started", flush=True)
"""


@pytest.mark.alone
def test_a_deadlock_of_locks_that_name_no_owner(tmp_path: Path) -> None:
    """Two threads of Python wait for each other, and two more for one of them: three stand at one lock."""
    with planted((sys.executable, "-c", _DEADLOCK), tmp_path) as program:
        wait_for(lambda: len(threads_of(program.pid, 9)) == 5, "threads")
        wait_for(
            lambda: any(
                one.kind == "python" and one.threads == 3
                for one in look_at_sleeps(Target(("-p", str(program.pid)), "", (program.pid,)), 1).standing
            ),
            "threads that stand still",
        )
        verdict = why(tmp_path, "-p", str(program.pid), "-d", "10")["verdict"]
    assert (verdict["kind"], verdict["confidence"]) == ("cause", "medium")
    assert "3 threads of python" in verdict["title"]
    assert "py-spy dump" in verdict["remedies"][0]


@pytest.mark.alone
def test_a_control_group_is_asked_about(tmp_path: Path) -> None:
    """What runs in it is looked at, in the recordings and in /proc."""
    mounts = cgroup_mounts()
    if not mounts:
        pytest.skip("no cgroup hierarchy is mounted")
    with (
        cgroup(next(iter(mounts.values()))) as directory,
        planted(("incidents", "sleep-in-section", "4"), tmp_path) as load,
    ):
        (directory / "cgroup.procs").write_text(str(load.pid))
        story = why(tmp_path, "-G", str(directory), "-d", "10")
    verdict = story["verdict"]
    assert verdict["kind"] == "cause"
    assert "table_mutex" in verdict["title"]
    assert "incidents" in verdict["culprit"]
    assert str(directory) in story["target"]


def test_a_lock_that_is_asked_for_and_not_waited_for(tmp_path: Path) -> None:
    """The kernel counts how often it is refused; /proc/locks tells who has it."""
    with planted(("incidents", "asked-lock", "4"), tmp_path) as load:
        wait_for_children(load.pid, 4)
        target = Target(("-p", str(load.pid)), "this program", tgids=(load.pid,))
        (lock,) = wait_for(lambda: look_at_sleeps(target, 1.0).blocked, "refusals")
    assert (lock.kind, lock.name) == ("file-lock", str(tmp_path / "asked.db"))
    assert lock.refused > 1
    assert lock.holder_comm == "incidents"


def test_a_chain_of_locks_ends_at_the_sleep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who has the first mutex waits for the second one, whose holder sleeps: most waiting comes to that sleep."""
    kept = tmp_path / "kept.data"
    tries = itertools.count()

    def found() -> list[str]:
        # On a busy machine few looks meet the holders.
        directory = tmp_path / str(next(tries))
        directory.mkdir()
        story = why(directory, "-p", str(load.pid), "-d", "10", "-o", str(kept))
        first = story["wait_graph"]["ends"][0]
        return list(first["path"]) if first["kind"] == "sleep" else []

    with planted(("incidents", "lock-chain", "5"), tmp_path) as load:
        path = wait_for(found, "way to the sleep")
    locks = [name for name in path if name.endswith("_mutex") and not name.startswith("the holder")]
    assert locks == ["first_mutex", "second_mutex"]
    assert "nanosleep" in path[-1]
    capsys.readouterr()
    assert cli.main(["report", str(kept), "--blame"]) == 0
    assert "first_mutex <- the holder of first_mutex" in " ".join(capsys.readouterr().out.split())


def test_a_chain_goes_on_through_a_lock_of_the_kernel(tmp_path: Path) -> None:
    """Who has the mutex waits for a file's lock, whose holder waits for a page: all of that is one chain."""
    tries = itertools.count()

    def found() -> dict[str, Any]:
        # On a busy machine few looks meet the holders.
        directory = tmp_path / str(next(tries))
        directory.mkdir()
        story = why(directory, "-p", str(load.pid), "-d", "10")
        path = " ".join(story["wait_graph"]["ends"][0]["path"]) if story["wait_graph"]["ends"] else ""
        return story if "session_mutex" in path and "i_rwsem" in path else {}

    with planted(("incidents", "page-chain", "5"), tmp_path) as load:
        story = wait_for(found, "way through the file's lock")
    path = story["wait_graph"]["ends"][0]["path"]
    assert path[:2] == ["session_mutex", "the holder of session_mutex"]
    assert "i_rwsem" in path[2]
    assert story["verdict"]["cause"] in ("behind-lock", "held-over-sleep", "holder-sleeps")
    assert story["verdict"]["cause"] != "behind-lock" or "i_rwsem" in story["verdict"]["title"]


@pytest.mark.parametrize(("name", "kind"), [("file-lock", "file-lock"), ("semaphore", "semaphore")])
def test_locks_of_files_and_semaphores(name: str, kind: str, tmp_path: Path) -> None:
    """One of five processes has it for most of the time, and the four others wait."""
    with planted(("incidents", name, "5"), tmp_path) as load:
        # One more removes the set of semaphores at the end.
        children = wait_for_children(load.pid, 5 + (name == "semaphore"))
        seen = look_at_sleeps(Target(("-p", str(load.pid)), ""), 2)
    assert seen.all_of_them
    assert len(seen.blocked) == 1, seen
    (lock,) = seen.blocked
    assert lock.kind == kind
    assert lock.waiters > 2
    assert lock.known > 0
    assert lock.holder in children
    assert 2 * lock.holder_looks > lock.known
    assert (str(tmp_path / "incident.lock") if kind == "file-lock" else "semaphore 0 of set ") in lock.name


@pytest.mark.alone
@pytest.mark.parametrize(
    ("name", "kind", "function", "caller"),
    [
        ("spinlock", "spin", "pthread_spin_lock", "spin_lock"),
        ("own-spinlock", "swap", "own_spin_lock", ""),
        ("tested-spinlock", "read", "tested_spin_lock", ""),
        ("yield-lock", "yield", "sched_yield", "yield_lock"),
        ("counter", "atomic", "count", ""),
    ],
)
def test_threads_that_wait_on_cpus(name: str, kind: str, function: str, caller: str, tmp_path: Path) -> None:
    """The threads of each do little else; on a busy machine they have less of the CPUs, and fewer samples."""
    with planted(("incidents", name, "4"), tmp_path, nice=0) as load:
        seen, every = look_at_spins(Target(("-p", str(load.pid)), ""), 2)
    assert every >= seen.samples > 50
    most = seen.spins[0]
    assert (most.kind, most.tgid, most.comm) == (kind, load.pid, "incidents")
    assert function in most.function
    assert most.caller == caller
    assert most.threads > 1 or kind == "yield"
    # What they look at, by its name, where the registers tell; all of them use it.
    words = {"counter": "counted", "spinlock": "table_spin", "tested-spinlock": "tested_spin"}
    if name in words:
        assert most.name == words[name]
        assert most.word
        assert most.sharing > 1
    # Of who yields most of the waiting is without a CPU: their switches tell that.
    assert most.part > 0
    assert 0 < most.cpus <= (most.threads if most.switches else seen.cpus)


@pytest.mark.alone
def test_threads_that_yield_are_found_on_a_machine_that_is_short_of_cpus(tmp_path: Path) -> None:
    """Beside sixteen that compute they hardly run, and few samples of running threads meet them."""
    with (
        planted(("incidents", "compute", "16"), tmp_path, nice=0),
        planted(("incidents", "yield-lock", "4"), tmp_path, nice=0) as load,
    ):

        def told_by_switches() -> bool:
            # One look may meet nothing but the exchange before the yield, or none of the switches.
            told = worth_telling(look_at_spins(Target(("-p", str(load.pid)), ""), 1)[0])
            yields = [(one.kind, one.tgid, one.caller) for one in told if one.switches > 0]
            return yields == [("yield", load.pid, "yield_lock")] and len(told) == 1

        wait_for(told_by_switches, "look that tells yields, by switches, and nothing else")


@pytest.mark.alone
@pytest.mark.parametrize("name", ["compute", "long-section", "idle"])
def test_threads_that_work_or_sleep_do_not_wait_on_cpus(name: str, tmp_path: Path) -> None:
    with planted(("incidents", name, "4"), tmp_path) as load:
        seen, _ = look_at_spins(Target(("-p", str(load.pid)), ""), 1)
    assert not worth_telling(seen)


@pytest.mark.alone
def test_threads_that_poll_for_a_lock_are_counted(tmp_path: Path) -> None:
    with planted(("incidents", "poll-lock", "3"), tmp_path) as load:
        # On a busy machine a thread is ready to run, and seldom seen asleep.
        (naps,) = wait_for(lambda: look_at_sleeps(Target(("-p", str(load.pid)), ""), 1).naps, "naps")
    assert (naps.tgid, naps.comm) == (load.pid, "incidents")
    assert naps.rate > 0


def test_a_lock_that_is_left_to_who_started_its_taker(tmp_path: Path) -> None:
    """`flock 9` in a shell script takes the lock and ends: the script has it, by the file that is open there."""
    script = "exec 9>job.lock; flock 9; while :; do sleep 1; done"
    with planted(("sh", "-c", script), tmp_path) as first:
        wait_for(lambda: "sleep" in _children_of(first.pid), "holder")
        with planted(("sh", "-c", script), tmp_path) as second:
            wait_for(lambda: "flock" in _children_of(second.pid), "waiter")
            seen = look_at_sleeps(Target(("-p", str(second.pid)), ""), 1)
    (lock,) = seen.blocked
    assert (lock.name, lock.holder) == (str(tmp_path / "job.lock"), first.pid)


def _children_of(pid: int) -> set[str]:
    """What the processes that it has forked are called."""
    return {text_of(Path(f"/proc/{child}/comm")).strip() for child in descendants_of((pid,), 10)}


def standing_of(load_pid: int, threads: int) -> Standing:
    """The one futex that so many threads of a process stand still at, when all of them do."""

    def look() -> Standing | None:
        found = look_at_sleeps(Target(("-p", str(load_pid)), ""), 1).standing
        return found[0] if len(found) == 1 and found[0].threads == threads else None

    return wait_for(look, "threads that stand still")


def test_a_mutex_whose_owner_has_ended(tmp_path: Path) -> None:
    """One of four processes took the mutex in their shared memory, and ended."""
    with planted(("incidents", "orphaned", "4"), tmp_path) as load:
        wait_for_children(load.pid, 4)
        found = standing_of(load.pid, 3)
        assert (found.kind, found.gone, found.function) == ("mutex", True, "orphaned_once")
        assert text_of(Path(f"/proc/{found.owner}/stat")).rpartition(")")[2].split()[:1] in ([], ["Z"])
        story = why(tmp_path, "-p", str(load.pid), "-d", "8")
    assert (story["verdict"]["cause"], story["verdict"]["confidence"]) == ("lock-not-released", "high")
    assert str(found.owner) in story["verdict"]["title"]


def test_who_runs_an_initialiser_that_does_not_end(tmp_path: Path) -> None:
    with planted(("incidents", "once", "4"), tmp_path) as load:
        found = standing_of(load.pid, 3)
    assert found.kind == "once"
    assert found.owner not in (0, load.pid)
    assert "nanosleep" in found.owner_in


def test_a_semaphore_that_was_not_given_back_is_no_proof(tmp_path: Path) -> None:
    with planted(("incidents", "leaked-semaphore", "4"), tmp_path) as load:
        found = standing_of(load.pid, 3)
    assert (found.kind, found.function) == ("semaphore", "leak_semaphore")


def test_threads_at_a_condition_variable_stand_for_nothing(tmp_path: Path) -> None:
    with planted(("incidents", "pool", "4"), tmp_path) as load:
        assert look_at_sleeps(Target(("-p", str(load.pid)), ""), 1).standing == ()


@pytest.mark.alone
def test_a_process_that_is_stopped(tmp_path: Path) -> None:
    """The first step tells, and the last one: it runs again."""
    with planted(("incidents", "compute", "2"), tmp_path) as load:
        assert stopped_now((load.pid,)) == ()
        os.kill(load.pid, signal.SIGSTOP)
        wait_for(lambda: stopped_now((load.pid,)), "stop")
        story = why(tmp_path, "-p", str(load.pid), "-d", "8")
        os.kill(load.pid, signal.SIGCONT)
        wait_for(lambda: not stopped_now((load.pid,)), "continue")
    assert (story["verdict"]["cause"], story["verdict"]["confidence"]) == ("stopped", "high")
    assert f"kill -CONT {load.pid}" in story["verdict"]["remedies"][0]
    assert [step["probe"] for step in story["steps"]] == ["totals"]


def test_a_lock_of_an_open_file_names_who_has_it(tmp_path: Path) -> None:
    """F_OFD_SETLKW: /proc/locks names no process, so who has the file open with a lock does."""
    with planted(("incidents", "open-file-lock", "4"), tmp_path) as load:
        children = wait_for_children(load.pid, 4)
        seen = wait_for(
            lambda: [one for one in look_at_sleeps(Target(("-p", str(load.pid)), ""), 1).blocked if one.holder],
            "a holder",
        )
    assert seen[0].kind == "file-lock"
    assert seen[0].holder in children


def test_a_lock_of_a_file_is_the_cause(tmp_path: Path) -> None:
    """Of the process that is named, and of those that it has forked before."""
    with planted(("incidents", "file-lock", "5"), tmp_path) as load:
        wait_for_children(load.pid, 5)
        story = why(tmp_path, "-p", str(load.pid), "-d", "8")
    assert (story["verdict"]["kind"], story["verdict"]["cause"]) == ("cause", "file-lock")
    assert "incidents" in story["verdict"]["culprit"]
    assert "and its 5 children" in story["target"]


def test_threads_that_wait_for_each_other_for_ever(tmp_path: Path) -> None:
    with planted(("incidents", "deadlock", "2"), tmp_path) as load:
        story = why(tmp_path, "-p", str(load.pid), "-d", "10")
    assert (story["verdict"]["cause"], story["verdict"]["confidence"]) == ("deadlock", "high")
    assert story["verdict"]["ended"] == "proven"


@pytest.mark.alone
def test_a_program_without_locks_is_not_blamed_surely(tmp_path: Path) -> None:
    """An idle process: what is said is that nothing holds it back."""
    with planted(("incidents", "idle", "2"), tmp_path) as load:
        story = why(tmp_path, "-p", str(load.pid), "-d", "8")
    assert story["verdict"]["kind"] == "nothing"
    assert {"totals", "futex"} <= {step["probe"] for step in story["steps"]}


def test_threads_that_wait_for_tokens_in_a_pipe(tmp_path: Path) -> None:
    """They write to it as well; who reads what another process writes waits for input."""

    def told(*command: str) -> list[str]:
        with planted(command, tmp_path) as load:
            target = Target(("-p", str(load.pid)), "")
            wait_for(lambda: any("pipe_read" in text_of(path) for path in tasks(load.pid)), "a thread in pipe_read")
            return [one.what for one in look_at_sleeps(target, 1).others]

    def tasks(pid: int) -> list[Path]:
        return [
            path / "wchan" for one in (pid, *descendants_of((pid,), 9)) for path in Path(f"/proc/{one}/task").glob("*")
        ]

    assert any("token" in what for what in told("incidents", "tokens", "6"))
    assert not told("sh", "-c", "(sleep 60 | cat) & sleep 60 | cat")
