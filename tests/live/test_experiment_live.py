# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline experiment` on this kernel: known effects, every counter, and everything put back whatever happens."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from incidents.cases import running
from lockline.base.errors import LocklineError
from lockline.experiment.changes import CGROUPS
from lockline.experiment.processes import is_stopped, threads_of
from lockline.experiment.progress import opened
from lockline.experiment.spec import parse_spec
from schemas import validator_of
from support import TOP, started, wait_for

pytestmark = pytest.mark.usefixtures("build")

# Loads and lockline get their CPUs whatever else this machine does: each runs for a few seconds.
NICE = ("nice", "-n", "-15")
SYSCTL = "vm.compaction_proactiveness"


@pytest.fixture(autouse=True)
def root() -> None:
    """Skips without root."""
    if os.geteuid() != 0:
        pytest.skip("needs root to stop processes of others")


def lockline(*arguments: str) -> "subprocess.Popen[str]":
    """An experiment, started."""
    process = subprocess.Popen(
        [*NICE, sys.executable, "-m", "lockline", "experiment", *arguments],
        env={**os.environ, "PYTHONPATH": str(TOP / "userspace")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started.append(process)
    return process


def result(*arguments: str) -> dict[str, Any]:
    """What an experiment says."""
    out, err = (process := lockline("--format", "json", *arguments)).communicate()
    assert process.returncode == 0, err
    document: dict[str, Any] = json.loads(out)
    validator_of("experiment").validate(document)
    return document


@contextmanager
def switched(name: str, threads: int, directory: Path) -> Iterator[int]:
    """A program with a switch."""
    with running(("switched", name, str(threads)), directory) as load:
        # At once: its threads take its priority.
        subprocess.run(["renice", "-n", "-15", "-g", str(load.pid)], check=True, stdout=subprocess.DEVNULL)
        wait_for(lambda: len(threads_of(load.pid)) > threads, "threads")
        for tid in threads_of(load.pid):
            os.setpriority(os.PRIO_PROCESS, tid, -15)
        yield load.pid


def switch(pid: int) -> tuple[str, ...]:
    """The options of an experiment with the program's own switch."""
    return ("--on", f"kill -USR1 {pid}", "--off", f"kill -USR2 {pid}", "--progress", f"memory:{pid}:rounds")


@pytest.mark.alone
def test_a_cause_that_is_taken_away(tmp_path: Path) -> None:
    """Four threads that sleep with a mutex held, one after the other; without it, all at once."""
    with switched("asleep", 4, tmp_path) as load:
        said = result(*switch(load), "-d", "3", "--slice", "0.15")
    answer = said["answer"]
    assert answer["verdict"] == "more"
    assert answer["low"] > 1.5
    assert answer["low"] <= 4.5
    assert answer["high"] >= 3.0
    assert said["changed_s"] < said["seconds"]
    assert said["own_cpu_s"] > 0


@pytest.mark.alone
def test_a_change_that_does_nothing(tmp_path: Path) -> None:
    with switched("asleep", 4, tmp_path) as load:
        change = ("--on", "true", "--off", "true")
        said = result(*change, "--progress", f"memory:{load}:rounds:8", "-d", "3", "--slice", "0.1")
    answer = said["answer"]
    assert answer["low"] < 1.1
    assert answer["high"] > 0.9


@pytest.mark.alone
@pytest.mark.usefixtures("two_cpus")
def test_less_waiting_that_makes_it_worse(tmp_path: Path) -> None:
    """The mutex that is waited for most kept all but one from a lock that suffers from company."""
    with switched("gate", 6, tmp_path) as load:
        said = result(*switch(load), "-d", "4", "--slice", "0.15")
    assert said["answer"]["verdict"] == "less"
    assert said["answer"]["high"] < 0.8


# Of one queue each of two readers gets half, whatever else the CPUs do.
WRITER = """
import os, time
queue = os.open("queue", os.O_RDWR)
while True:
    os.write(queue, b"x")
    time.sleep(0.001)
"""
READER = """
import os, sys
queue = os.open("queue", os.O_RDWR)
counter = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
done = 0
while os.read(queue, 1):
    done += 1
    os.pwrite(counter, b"%d" % done, 0)
"""


@contextmanager
def victim_and_neighbour(directory: Path) -> Iterator[tuple[Path, int]]:
    """Two processes that want the same work; gives the victim's counter, and the other one."""
    os.mkfifo(directory / "queue")
    counter, other = directory / "counter", directory / "other"
    with (
        running((sys.executable, "-c", WRITER), directory),
        running((sys.executable, "-c", READER, str(counter)), directory),
        running((sys.executable, "-c", READER, str(other)), directory) as neighbour,
    ):
        wait_for(lambda: all(file.exists() and file.read_text() for file in (counter, other)), "counters")
        yield counter, neighbour.pid


@pytest.mark.alone
def test_a_neighbour_that_is_stopped(tmp_path: Path) -> None:
    with victim_and_neighbour(tmp_path) as (counter, neighbour):
        said = result("--stop", str(neighbour), "--progress", f"file:{counter}", "-d", "4", "--slice", "0.15")
        assert not is_stopped(neighbour)
    assert said["change"] == {"kind": "stop", "words": said["change"]["words"], "processes": [neighbour]}
    assert said["answer"]["verdict"] == "more"
    assert said["answer"]["low"] <= 2.2
    assert said["answer"]["high"] >= 1.8


@contextmanager
def control_group(pid: int) -> Iterator[tuple[str, Path]]:
    """A new control group with that process, and its file of the freezer."""
    name = f"lockline-experiment-{os.getpid()}"
    tops = [CGROUPS, CGROUPS / "unified", CGROUPS / "freezer"]
    top = next((top for top in tops if top == tops[2] or (top / "cgroup.procs").exists()), CGROUPS)
    group = top / name
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(pid))
        yield name, next(file for file in (group / "cgroup.freeze", group / "freezer.state") if file.exists())
    finally:
        with suppress(OSError):
            (top / "cgroup.procs").write_text(str(pid))
        with suppress(OSError):
            group.rmdir()


@pytest.mark.alone
def test_a_control_group_that_is_frozen(tmp_path: Path) -> None:
    with victim_and_neighbour(tmp_path) as (counter, neighbour), control_group(neighbour) as (name, file):
        said = result("--stop-cgroup", name, "--progress", f"file:{counter}", "-d", "4", "--slice", "0.15")
        assert file.read_text().strip() in ("0", "THAWED")
    assert said["answer"]["low"] > 1.2
    assert said["change"]["processes"] == [neighbour]


# Counters


@pytest.mark.parametrize(
    "spec",
    [
        "memory:{pid}:rounds",
        "memory:{pid}:rounds+0:8",
        "tracepoint:raw_syscalls:sys_enter/{pid}",
        "tracepoint:sched:sched_switch",
        "uprobe:{program}:locked/{pid}",
        "uprobe:{program}:locked",
        "command:cat /proc/uptime",
        "file:/proc/stat:ctxt",
    ],
)
def test_a_counter_grows_with_the_work(spec: str, tmp_path: Path) -> None:
    program = TOP / "build" / "workloads" / "switched"
    with (
        switched("nothing", 2, tmp_path) as load,
        opened(parse_spec(spec.format(pid=load, program=program))) as counter,
    ):
        first = counter.read()
        wait_for(lambda: counter.grown(first, counter.read()) > 0, f"growth of {spec}")


def test_reads_and_writes_grow(tmp_path: Path) -> None:
    with running(("incidents", "pipe", "4"), tmp_path) as load, opened(parse_spec(f"io:{load.pid}")) as counter:
        first = counter.read()
        wait_for(lambda: counter.read() > first, "growth")


def test_a_counter_of_one_byte(tmp_path: Path) -> None:
    """The same counter at another size."""
    with (
        switched("asleep", 2, tmp_path) as load,
        opened(parse_spec(f"memory:{load}:rounds")) as counter,
        opened(parse_spec(f"memory:{load}:rounds:1")) as small,
    ):
        wait_for(lambda: counter.read() > 3, "rounds")
        os.kill(load, signal.SIGSTOP)
        wait_for(lambda: is_stopped(load), "stop")
        assert small.modulus == 256
        # Its threads stop one by one.
        wait_for(lambda: small.read() == counter.read() % 256, "the same number")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("memory:{pid}:no_such_symbol", "has no symbol no_such_symbol"),
        ("memory:{pid}:stripes", "say how large the counter is"),
        ("memory:{pid}:0x10:8", "has no memory at 0x10"),
        ("tracepoint:sched:no_such_event", "this kernel has no tracepoint sched:no_such_event"),
        ("uprobe:/proc/self/exe:no_such_function", "has no function no_such_function"),
        ("uprobe:/etc/passwd:main", "is not a 64-bit ELF file"),
        ("file:/no/such/file", "cannot be read"),
        ("io:4194304", "does not exist"),
    ],
)
def test_a_counter_that_is_not_there(spec: str, told: str, tmp_path: Path) -> None:
    with (
        switched("asleep", 2, tmp_path) as load,
        pytest.raises(LocklineError, match=told),
        opened(parse_spec(spec.format(pid=load))) as counter,
    ):
        counter.read()


def test_a_counter_that_stands_still_is_refused(tmp_path: Path) -> None:
    with running(("incidents", "idle", "1"), tmp_path) as load, running(("switched", "asleep", "1"), tmp_path) as hog:
        process = lockline("--stop", str(hog.pid), "--progress", f"io:{load.pid}")
        _, err = process.communicate()
        assert process.returncode == 1
        assert "did not move in 1 s" in err
        assert not is_stopped(hog.pid)


# Everything is put back


@contextmanager
def stopping(directory: Path, *more: str) -> Iterator[tuple["subprocess.Popen[str]", int, int]]:
    """lockline in a slice with a process stopped; gives that process and the load."""
    with (
        running(("switched", "asleep", "1"), directory) as hog,
        running(("switched", "asleep", "1"), directory) as load,
    ):
        wait_for(lambda: len(threads_of(load.pid)) > 1, "threads")
        progress = ("--progress", f"memory:{load.pid}:rounds")
        process = lockline("--stop", str(hog.pid), *progress, "--slice", "2", "-d", "600", *more)
        wait_for(lambda: is_stopped(hog.pid) or process.poll() is not None, "slice")
        assert process.poll() is None, process.communicate()
        yield process, hog.pid, load.pid


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_process_goes_on_after_lockline_was_ended(number: signal.Signals, tmp_path: Path) -> None:
    with stopping(tmp_path) as (process, hog, _):
        process.send_signal(number)
        wait_for(lambda: not is_stopped(hog), "going on")
        out, err = process.communicate()
        # Of one pair nothing can be told.
        expected = {signal.SIGINT: 0, signal.SIGKILL: -9}
        assert process.returncode == expected.get(number, 128 + number), err
        assert ("6 are needed" in " ".join(out.split())) == (number == signal.SIGINT)
        assert not is_stopped(hog)


def test_a_process_goes_on_while_lockline_stands_still(tmp_path: Path) -> None:
    with stopping(tmp_path) as (process, hog, _):
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: not is_stopped(hog), "going on")
        process.send_signal(signal.SIGCONT)


def test_a_process_goes_on_after_the_load_has_ended(tmp_path: Path) -> None:
    with stopping(tmp_path) as (process, hog, load):
        os.kill(load, signal.SIGKILL)
        _, err = process.communicate()
        assert process.returncode == 1
        assert "the process whose work is counted has ended" in err
        assert not is_stopped(hog)


def test_a_culprit_that_ends(tmp_path: Path) -> None:
    with running(("switched", "asleep", "1"), tmp_path) as load, running(("switched", "asleep", "1"), tmp_path) as hog:
        wait_for(lambda: len(threads_of(load.pid)) > 1, "threads")
        process = lockline("--stop", str(hog.pid), "--progress", f"memory:{load.pid}:rounds", "--slice", "0.1")
        wait_for(lambda: is_stopped(hog.pid), "slice")
        os.kill(hog.pid, signal.SIGKILL)
        _, err = process.communicate()
        assert process.returncode == 1
        assert err.splitlines()[-1].endswith(f"process {hog.pid}, which was to be stopped, has ended")


def test_priorities_cpus_and_sysctls_are_put_back(tmp_path: Path) -> None:
    """After SIGKILL in a slice with the change."""
    sysctl = Path("/proc/sys") / SYSCTL.replace(".", "/")
    if not sysctl.exists():
        pytest.skip(f"this kernel has no {SYSCTL}")
    old = sysctl.read_text()
    other = "11" if old.strip() != "11" else "12"
    with running(("switched", "asleep", "2"), tmp_path) as load:
        wait_for(lambda: len(threads_of(load.pid)) > 2, "threads")
        cpus = os.sched_getaffinity(load.pid)
        tids = threads_of(load.pid)
        os.setpriority(os.PRIO_PROCESS, tids[-1], 3)

        def state() -> tuple[object, ...]:
            nice = [os.getpriority(os.PRIO_PROCESS, tid) for tid in tids]
            return nice, [os.sched_getaffinity(tid) for tid in tids], sysctl.read_text()

        before = state()
        for change in (
            ("--nice", f"{load.pid}=7"),
            ("--cpus", f"{load.pid}={min(cpus)}"),
            ("--set", f"{SYSCTL}={other}", "--change-sysctl"),
        ):
            if change[0] == "--cpus" and len(cpus) < 2:
                continue
            process = lockline(*change, "--progress", f"memory:{load.pid}:rounds", "--slice", "2", "-d", "600")
            wait_for(lambda: state() != before, f"slice with {change}")
            process.kill()
            wait_for(lambda: state() == before, "putting back")
            process.communicate()


def test_a_frozen_group_goes_on_after_lockline_was_killed(tmp_path: Path) -> None:
    with running(("switched", "asleep", "1"), tmp_path) as load, running(("switched", "asleep", "1"), tmp_path) as hog:
        wait_for(lambda: len(threads_of(load.pid)) > 1, "threads")
        with control_group(hog.pid) as (name, file):
            progress = ("--progress", f"memory:{load.pid}:rounds")
            process = lockline("--stop-cgroup", name, *progress, "--slice", "2", "-d", "600")
            wait_for(lambda: file.read_text().strip() in ("1", "FROZEN") or process.poll() is not None, "slice")
            assert process.poll() is None, process.communicate()
            process.kill()
            wait_for(lambda: file.read_text().strip() in ("0", "THAWED"), "going on")
            process.communicate()
