# SPDX-License-Identifier: GPL-2.0-or-later
"""Filters: two workloads wait, one is asked for, and that one alone is in the recording."""

import os
import secrets
import subprocess
from pathlib import Path

import pytest

from cgroups import cgroup, cgroup_mounts
from support import Collector, Recording, Workload, wait_for

ROUNDS = 5
GO = f"go {ROUNDS} 2000"


def processes(result: Recording) -> set[int]:
    """The processes whose waits are in a recording, sampled or outlying."""
    return {row[0] for row in result.rows("SELECT DISTINCT tgid FROM waiter")}


def mutex_waits(result: Recording) -> int:
    """Waits for mutexes in which the waiter slept."""
    return sum(row.waits for row in result.locks("mutex"))


def test_process(live: Path, recording: Path) -> None:
    with (
        Workload(live, "uffd_mutex") as wanted,
        Workload(live, "uffd_mutex") as other,
        Collector(live, recording, "-p", str(wanted.pid)),
    ):
        wanted.do(GO)
        other.do(GO)
    with Recording(recording) as result:
        assert mutex_waits(result) == ROUNDS
        assert processes(result) == {wanted.pid}
        assert result.loss("filtered") >= ROUNDS
        assert result.begins() == result.begins_accounted()


def test_process_and_the_children_that_it_has(live: Path, recording: Path) -> None:
    """The workload is a child of this process, forked before the recording."""
    with Workload(live, "uffd_mutex") as workload, Collector(live, recording, "-p", str(os.getpid())):
        workload.do(GO)
    with Recording(recording) as result:
        assert mutex_waits(result) == ROUNDS
        assert workload.pid in processes(result)


def test_process_and_what_it_forks(live: Path, recording: Path) -> None:
    """The waiters are children that are forked while the recording runs."""
    with (
        Workload(live, "killed_waiter") as wanted,
        Workload(live, "killed_waiter") as other,
        Collector(live, recording, "-p", str(wanted.pid)),
    ):
        children = {waiter["tid"] for waiter in wanted.do(GO)["waiters"]}
        other.do(GO)
    with Recording(recording) as result:
        assert mutex_waits(result) == ROUNDS
        assert children <= processes(result) <= children | {wanted.pid}


def test_thread(live: Path, recording: Path, tmp_path: Path) -> None:
    with Workload(live, "uffd_mutex") as workload:
        with Collector(live, recording, "-t", str(workload.ready["waiter"])):
            workload.do(GO)
        second = tmp_path / "second.lockline"
        with Collector(live, second, "-t", str(workload.ready["holder"])):
            workload.do(GO)
        with Recording(recording) as result:
            assert mutex_waits(result) == ROUNDS
            assert {row[0] for row in result.rows("SELECT tid FROM waiter")} == {workload.ready["waiter"]}
    with Recording(second) as result:
        assert mutex_waits(result) == 0
        assert result.loss("filtered") >= ROUNDS


def test_cpu(live: Path, recording: Path, two_cpus: None) -> None:
    with (
        Workload(live, "uffd_mutex", "-c", "0") as wanted,
        Workload(live, "uffd_mutex", "-c", "1") as other,
        Collector(live, recording, "-C", "0"),
    ):
        wanted.do(GO)
        other.do(GO)
    with Recording(recording) as result:
        threads = {row[0] for row in result.rows("SELECT tid FROM waiter")}
        assert wanted.ready["waiter"] in threads
        assert other.ready["waiter"] not in threads
        assert {row[0] for row in result.rows("SELECT begin_cpu FROM outlier")} == {0}
        assert result.begins() == result.begins_accounted()


def test_kinds(live: Path, recording: Path) -> None:
    with (
        Workload(live, "uffd_mutex") as other,
        Workload(live, "uffd_rwsem", "/dev/shm") as wanted,
        Collector(live, recording, "-a", "--kinds", "rwsem"),
    ):
        other.do(GO)
        wanted.do(GO)
    with Recording(recording) as result:
        assert {row.kind for row in result.locks() if row.waits} <= {"rwsem:R", "rwsem:W"}
        assert wanted.pid in processes(result)
        assert other.pid not in processes(result)
        assert result.begins() == result.begins_accounted()


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("below", [False, True], ids=["in it", "below it"])
def test_cgroup(live: Path, recording: Path, version: str, below: bool) -> None:
    mounts = cgroup_mounts()
    if version not in mounts:
        pytest.skip(f"no cgroup {version} hierarchy is mounted")
    with cgroup(mounts[version]) as directory:
        with Workload(live, "uffd_mutex") as wanted, Workload(live, "uffd_mutex") as other:
            home = directory / "below" if below else directory
            (home / "cgroup.procs").write_text(str(wanted.pid))
            with Collector(live, recording, "-G", str(directory)):
                wanted.do(GO)
                other.do(GO)
        with Recording(recording) as result:
            assert mutex_waits(result) == ROUNDS
            assert processes(result) == {wanted.pid}
            paths = {row[0] for row in result.rows("SELECT path FROM cgroup WHERE id IN (SELECT cgroup FROM waiter)")}
            assert any(path.endswith(home.name) for path in paths), paths


def test_container(live: Path, recording: Path) -> None:
    mounts = cgroup_mounts()
    if not mounts:
        pytest.skip("no cgroup hierarchy is mounted")
    identity = secrets.token_hex(32)
    with cgroup(next(iter(mounts.values())), f"docker-{identity}.scope") as directory:
        with Workload(live, "uffd_mutex") as wanted, Workload(live, "uffd_mutex") as other:
            (directory / f"docker-{identity}.scope" / "cgroup.procs").write_text(str(wanted.pid))
            with Collector(live, recording, "--container", identity[:12]):
                wanted.do(GO)
                other.do(GO)
        with Recording(recording) as result:
            assert mutex_waits(result) == ROUNDS
            assert processes(result) == {wanted.pid}
            query = "SELECT runtime, container FROM container WHERE cgroup IN (SELECT cgroup FROM waiter)"
            assert set(result.rows(query)) == {("docker", identity)}


@pytest.mark.parametrize(
    "options, word",
    [
        (["--container", "no such container"], "--container no such container: no cgroup of that name"),
        (["--pod", "nowhere/nothing"], "--pod nowhere/nothing: no cgroup of that name; does the pod run on this node?"),
    ],
)
def test_a_container_that_is_not_there(live: Path, recording: Path, options: list[str], word: str) -> None:
    command = [live / "bin" / "lockline-collect", "record", "-o", recording, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert word in done.stderr
    assert done.stderr.count("\n") == 1
    assert not recording.exists()


@pytest.mark.parametrize("wrapped", [False, True], ids=["itself", "its child"])
def test_command(live: Path, recording: Path, wrapped: bool) -> None:
    program = str(live / "workloads" / "uffd_mutex")
    command = ["sh", "-c", f"{program} {ROUNDS} 2000; true"] if wrapped else [program, str(ROUNDS), "2000"]
    with Workload(live, "uffd_mutex") as other, Collector(live, recording, "--", *command) as collector:
        other.do(GO)
        assert collector.wait() == 0, collector.errors()
    with Recording(recording) as result:
        assert mutex_waits(result) == ROUNDS
        assert other.pid not in processes(result)
        assert result.begins() == result.begins_accounted()


def named(recording: Path, name: str) -> list[int]:
    """The addresses of a lock of that name, as far as the recording has it."""
    if not recording.exists():
        return []
    with Recording(recording) as result:
        return [row[0] for row in result.rows("SELECT address FROM lock WHERE name = ?", name)]


def address(of: int) -> str:
    """As -L takes it: SQLite has signed numbers alone."""
    return f"0x{of % (1 << 64):x}"


PIPE = "pipe_inode_info.mutex"


def test_one_lock_of_two_by_its_address(live: Path, recording: Path, tmp_path: Path) -> None:
    """The count with the filter is the one without: each wait of that lock, and no other."""
    with Workload(live, "uffd_mutex") as wanted, Workload(live, "uffd_rwsem", "/dev/shm") as other:
        both = f"{wanted.pid},{other.pid}"
        with Collector(live, recording, "-p", both):
            wanted.do(GO)
            other.do(GO)
        (lock,) = named(recording, PIPE)
        second = tmp_path / "second.lockline"
        with Collector(live, second, "-p", both, "-L", address(lock)):
            wanted.do(GO)
            other.do(GO)
    with Recording(recording) as unfiltered, Recording(second) as result:
        assert [row.waits for row in unfiltered.locks("mutex") if row.name == PIPE] == [ROUNDS]
        assert [(row.name, row.kind, row.waits) for row in result.locks() if row.waits] == [(PIPE, "mutex", ROUNDS)]
        assert result.rows("SELECT DISTINCT address FROM lock WHERE address") == [(lock,)]
        assert result.loss("unnamed") == 0
        assert result.begins() == result.begins_accounted()
        assert result.rows("SELECT value FROM meta WHERE name = 'wait_filter'") == [(f"-L {address(lock)}",)]


def test_one_lock_of_two_by_its_name(live: Path, recording: Path) -> None:
    """Waits before the lock has its name are counted apart; all later ones are recorded."""
    with (
        Workload(live, "uffd_mutex") as wanted,
        Workload(live, "uffd_rwsem", "/dev/shm") as other,
        Collector(live, recording, "-p", f"{wanted.pid},{other.pid}", "-L", PIPE),
    ):
        wanted.do("go 1 2000")
        wait_for(lambda: named(recording, PIPE), "name of the pipe's lock")
        wanted.do(GO)
        other.do(GO)
    with Recording(recording) as result:
        assert [(row.name, row.waits) for row in result.locks() if row.waits] == [(PIPE, ROUNDS)]
        assert result.loss("unnamed") >= 1
        assert result.begins() == result.begins_accounted()


def test_one_caller_of_two(live: Path, recording: Path) -> None:
    with (
        Workload(live, "uffd_mutex") as other,
        Workload(live, "uffd_rwsem", "/dev/shm") as wanted,
        Collector(live, recording, "-p", f"{wanted.pid},{other.pid}", "--kinds", "mutex,rwsem", "-S", "*pipe_write"),
    ):
        other.do(GO)
        wanted.do(GO)
    with Recording(recording) as result:
        assert {row.name for row in result.locks() if row.waits} == {PIPE}
        assert mutex_waits(result) == ROUNDS
        assert result.loss("filtered") >= ROUNDS
        assert result.begins() == result.begins_accounted()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-L", "mm_struct.mmap_lok"), "did you mean mmap_lock?"),
        (("-L", "inodes.i_rwsem"), "did you mean inode?"),
        (("-L", "no_such_lock_anywhere"), "-L no_such_lock_anywhere: "),
        (("-S", "ksys_wrte"), "did you mean ksys_write?"),
    ],
)
def test_wrong_names(live: Path, recording: Path, options: tuple[str, str], said: str) -> None:
    done = subprocess.run(
        [live / "bin" / "lockline-collect", "record", "-o", recording, "-d", "1", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert said in done.stderr
    assert not recording.exists()
