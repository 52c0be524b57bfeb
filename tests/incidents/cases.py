# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs with a planted cause, and what `lockline why` must say of each."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockline.cli.why_counters import descendants_of, short_text

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
# Where limits of CPU time are set: cgroup v1's controller, or v2.
_V1 = Path("/sys/fs/cgroup/cpu")
_V2 = Path("/sys/fs/cgroup")
# Several laboratories may run at once.
GROUP = f"lockline-incidents-{os.getpid()}"
# Of the sessions of the programs and of lockline: against those of what else the machine does.
_AUTOGROUP_NICE = -15
# From this part of the time on, in which tasks wait for a CPU, the machine is too small for its loads.
PRESSURE = 0.8
_NO_LOCK = ("nothing",)
_KERNEL = ("convoy", "hot-lock", "long-hold", "long-waits", "writer-starved", "readers-starved", "unfair")
_USER = ("user-lock",)
_NEIGHBOUR = ("held-by-others",)
# What the neighbours of these do, with as many threads; read-maps of the program's own.
NEIGHBOURS = {"files-seldom": ("one-directory", 4), "map-seldom": ("read-maps", 1), "map-rolled-up": ("read-rollup", 1)}
_SLEEPS = ("holder-sleeps", "held-over-sleep")
# Two CPUs hardly meet there, but when the host of this machine takes one away.
_LITTLE = (*_KERNEL, "busy-lock", "holder-preempted", *_NO_LOCK)
# Without glibc's debug files no variable of it has a name; its functions have.
_ALLOCATES = ("malloc()", "free()")
_NO_CPU = ("holder-no-cpu", "priority-inversion", "holder-preempted")


@dataclass(frozen=True)
class Case:
    """command: of build/workloads.  causes: any of these is right.  names: one of these is in the title, if any are.

    around: what else goes on.  told: one of these stands beside the answer, or in its advice, if any are.
    """

    name: str
    command: tuple[str, ...]
    causes: tuple[str, ...]
    names: tuple[str, ...] = ()
    around: str = ""
    told: tuple[str, ...] = ()


_INCIDENT = "incidents"


def _of(
    name: str, causes: tuple[str, ...], *names: str, threads: int = 6, around: str = "", told: tuple[str, ...] = ()
) -> Case:
    shown = f"{name}, {around}" if around else name
    return Case(shown, (_INCIDENT, name, str(threads)), causes, names, around, told)


PYTHON_LOAD = """
import threading
def compute():
    while True:
        sum(range(1000))
for _ in range(6):
    threading.Thread(target=compute).start()
"""

# One thread at a time writes records, and a slow reader keeps the pipe full.
PYTHON_WRITES = """
import os, threading, time
lock = threading.Lock()
output, into = os.pipe()
def read():
    while os.read(output, 4096):
        time.sleep(0.002)
def log():
    while True:
        with lock:
            os.write(into, b"x" * 1000)
threading.Thread(target=read).start()
for _ in range(6):
    threading.Thread(target=log).start()
"""

# SQLite asks again for the lock of its database until a time is over, and never waits for it.
_WRITE = """
import os, sqlite3, threading, time
first = sqlite3.connect("orders.db", isolation_level=None)
first.execute("create table orders (number integer, word text)")
first.close()
def write(slow):
    database = sqlite3.connect("orders.db", timeout=60, isolation_level=None)
    while True:
        database.execute("begin immediate")
        database.execute("insert into orders values (1, 'a word')")
        time.sleep(0.08 if slow else 0)
        database.execute("commit")
        time.sleep(0.001)
"""
SQLITE_WRITERS = f"""{_WRITE}
slow = os.fork() == 0
for _ in range(0 if slow else 3):
    if os.fork() == 0:
        break
write(slow)
"""
# Connections in one process: SQLite knows itself that another one writes, and the kernel refuses nothing.
SQLITE_THREADS = f"""{_WRITE}
for number in range(5):
    threading.Thread(target=write, args=(number == 0,)).start()
"""

CASES: tuple[Case, ...] = (
    _of("long-section", _USER, "table_mutex"),
    _of("short-sections", _USER, "table_mutex"),
    _of("sleep-in-section", _SLEEPS, "table_mutex"),
    _of("write-in-section", _SLEEPS, "table_mutex"),
    _of("log-in-section", _SLEEPS, "log_mutex"),
    _of("herd", ("thundering-herd", *_USER), "work_mutex"),
    _of("read-mostly", (*_USER, "unclear-wait"), "config_lock"),
    _of("deadlock", ("deadlock",), threads=2),
    _of("leak", ("lock-not-released",), "table_mutex"),
    _of("mmap-storm", _KERNEL, "mmap_lock"),
    _of("one-arena", _USER, "arena", *_ALLOCATES),
    _of("pipe", (*_KERNEL, "busy-lock"), "pipe_inode_info", "pipe"),
    _of("one-file", (*_SLEEPS, *_KERNEL), "inode", "i_rwsem"),
    _of("one-file-synced", (*_SLEEPS, *_KERNEL), "inode", "i_rwsem"),
    _of("one-directory", _KERNEL, "inode", "i_rwsem"),
    _of("compute", _NO_LOCK),
    _of("idle", _NO_LOCK),
    _of("pool", _NO_LOCK),
    _of("striped", _NO_LOCK),
    _of("own-files", _NO_LOCK),
    _of("lock-chain", _SLEEPS, "second_mutex"),
    _of("slow-writer", (*_SLEEPS, *_USER), "config_lock"),
    _of("barrier", ("barrier-imbalance",)),
    _of("file-lock", ("file-lock",), "incident.lock"),
    _of("semaphore", ("semaphore",)),
    _of("stopped", ("lock-not-released",), told=("kill -CONT",)),
    _of("spinlock", ("user-spin",), "pthread_spin_lock"),
    _of("own-spinlock", ("user-spin",), "own_spin_lock"),
    _of("yield-lock", ("user-spin",), "sched_yield"),
    _of("poll-lock", _NO_LOCK),
    # Six threads on lines of their own add 16 to 50 % more: measured beside other work, two CPUs.
    _of("counter", ("shared-line",), "counted"),
    _of("long-section", ("holder-throttled",), "table_mutex", around="with a CPU limit"),
    _of("long-section", ("holder-no-cpu",), "table_mutex", around="beside hogs of CPUs"),
    _of("mmap-storm", _KERNEL, "mmap_lock", around="beside hogs of CPUs"),
    _of("compute", _NO_LOCK, around="with a CPU limit"),
    _of("files-seldom", _NEIGHBOUR, around="beside a neighbour", threads=4),
    _of("map-seldom", _NEIGHBOUR, around="beside a neighbour", threads=4),
    _of("deadlock-of-three", ("deadlock",), threads=3),
    _of("deadlock-of-processes", ("deadlock",), threads=2),
    _of("orphaned", ("lock-not-released",)),
    _of("leaked-sysv", ("semaphore",)),
    _of("leaked-semaphore", ("unclear-wait", *_NO_LOCK)),
    _of("starved-writer", (*_SLEEPS, *_USER), "config_lock"),
    _of("starved-readers", _USER, "config_lock"),
    _of("collisions", _USER, "stripes"),
    _of("counter-beside", (*_USER, "shared-line"), "beside"),
    _of("stream-log", (*_SLEEPS, *_USER)),
    _of("slow-producer", _NO_LOCK),
    _of("low-priority", _NO_CPU, "table_mutex"),
    _of("beside-real-time", _NO_CPU, "table_mutex"),
    _of("tested-spinlock", ("user-spin",), "tested_spin_lock"),
    _of("inheriting", (*_USER, *_KERNEL), "table_mutex", "rt_mutex"),
    _of("once", ("lock-not-released",), "once"),
    _of("map-under-mutex", ("behind-lock", *_KERNEL, *_USER), "mmap_lock", "table_mutex"),
    _of("mounts", _KERNEL),
    _of("groups", _KERNEL, "cgroup_mutex", "i_rwsem", told=("director", "group")),
    _of("kernfs-readers", (*_KERNEL, *_NO_LOCK)),
    _of("netns", _KERNEL),
    _of("proc-scan", (*_KERNEL, *_NO_LOCK)),
    _of("inotify", _KERNEL),
    _of("perf-events", (*_KERNEL, "busy-lock")),
    _of("tracepoints", _KERNEL, "event_mutex", "perf_trace"),
    _of("rcu-callers", _NO_LOCK, told=("RCU",)),
    _of("renames", _KERNEL, "rename", "i_rwsem"),
    _of("file-table", _LITTLE),
    _of("signals", _LITTLE),
    _of("segments", _LITTLE),
    _of("one-epoll", _KERNEL, "mtx"),
    _of("slow-stream", (*_KERNEL, *_NO_LOCK), told=("buffer is full", "reader")),
    _of("full-pipe", _NO_LOCK, told=("pipe is full",)),
    _of("asked-lock", ("file-lock",), "asked.db"),
    _of("stand-by", _NO_LOCK, told=("leader.lock",)),
    Case("writes to SQLite", ("python3", "-c", SQLITE_WRITERS), ("file-lock",), ("orders.db",)),
    Case("threads of SQLite", ("python3", "-c", SQLITE_THREADS), ("nothing", "file-lock"), (), told=("orders.db",)),
    _of("stopped-range", ("file-lock",), "range.lock", told=("kill -CONT",)),
    _of("open-file-lock", ("file-lock",), "range.lock"),
    _of("fork-large", _KERNEL, "mmap_lock"),
    _of("disk", _NO_LOCK, told=("disk",)),
    _of("reclaim", ("short-of-memory", *_NO_LOCK), around="with little memory"),
    _of("vfork", _NO_LOCK),
    _of("long-section", ("holder-no-cpu",), "table_mutex", around="beside a busy group"),
    _of("files-seldom", ("stopped",), "strace", around="under strace"),
    _of("sleep-in-section", ("stopped",), "frozen", around="frozen", told=("thaw",)),
    _of("pool-synced", _SLEEPS, "pool_mutex"),
    _of("map-rolled-up", _NEIGHBOUR, around="beside a neighbour", threads=4),
    _of("files-seldom", (*_NEIGHBOUR, *_LITTLE), around="beside a limited neighbour", threads=4),
    _of("rotation", ("file-lock",), "incident.log", threads=5),
    _of("one-arena", _USER, "arena", threads=200, around="200 threads"),
    _of("inversion", _NO_CPU, "device_mutex", threads=3),
    _of("sequence", ("user-spin", *_NO_LOCK), threads=4),
    _of("dead-thread", ("lock-not-released",)),
    _of("robust-sleep", _SLEEPS, "robust_mutex"),
    _of("adaptive", _USER, "adaptive_mutex"),
    _of("timed-lock", _SLEEPS, "recursive_mutex"),
    _of("call-in-section", _SLEEPS, "session_mutex"),
    _of("child-in-section", _SLEEPS, "session_mutex"),
    _of("stuck-log", ("lock-not-released", *_SLEEPS), "session_mutex"),
    _of("traced-holder", ("stopped", "lock-not-released"), threads=5),
    _of("limited-holder", ("holder-throttled",), threads=5, around="with a CPU limit for its holder"),
    _of("page-chain", ("behind-lock", "holder-sleeps"), "i_rwsem"),
    _of("full-queue", _NO_LOCK, told=("message queue",)),
    _of("counted-connections", ("small-pool",), "connections"),
    _of("connections", ("small-pool",), "queue_filled"),
    _of("busy-worker", _NO_LOCK),
    _of("stop-the-world", _NO_LOCK, told=("signal",)),
    _of("unwind-lock", _USER),
    _of("time-zone", _USER),
    _of("ticket-lock", ("user-spin",), "take_ticket", threads=4),
    _of("one-cpu", _NO_LOCK),
    _of("protect-storm", _KERNEL, "mmap_lock", threads=4),
    _of("fault-in-section", _SLEEPS, "cache_mutex"),
    _of("slow-reader", (*_SLEEPS, *_USER), "routes_lock"),
    _of("consumer-section", _USER, "jobs_mutex"),
    _of("semaphore-section", _USER, "guard"),
    _of("records", ("file-lock",), "accounts.db"),
    _of("chain-across", _SLEEPS, "nanosleep"),
    _of("journal", _SLEEPS, "cache_mutex"),
    _of("print-lines", _USER),
    _of("grow-and-shrink", _KERNEL, "i_rwsem", "inode"),
    _of("inheriting-sleep", (*_SLEEPS, *_KERNEL), "pi_mutex", "rt_mutex"),
    _of("inner-section", _USER, "inner_mutex"),
    _of("idle-class", _NO_CPU, "idle_mutex"),
    _of("accept-one", _NO_LOCK),
    _of("poll-herd", _LITTLE),
    _of("compute", _NO_LOCK, around="beside hogs of CPUs"),
    _of("sleep-in-section", _SLEEPS, "table_mutex", around="with a CPU limit"),
    _of("own-maps", _KERNEL, "mmap_lock"),
    _of("terminal", (*_KERNEL, "holder-sleeps"), "tty", "atomic_write"),
    _of("pinned-worker", _NO_CPU, "pinned_mutex"),
    _of("trimmed", _USER, "arena", *_ALLOCATES),
    _of("rotated-log", _SLEEPS, "rotate_mutex"),
    _of("timed-waits", _NO_LOCK, threads=40),
    _of("sorts", _NO_LOCK, threads=12),
    _of("plugins", _USER, "_rtld", "load_lock"),
    _of("attributes", _KERNEL, "i_rwsem", "inode"),
    _of("tokens", _NO_LOCK, told=("pipe",)),
    Case("writes in Python", ("python3", "-c", PYTHON_WRITES), (*_SLEEPS, *_USER)),
    Case("a program in Python", ("python3", "-c", PYTHON_LOAD), ("gil-bound",), ("interpreter lock",)),
    Case("ptrace", ("lock_load", "ptrace", "4"), ("inactive-wait", "tracing", "stopped"), ("lock_load",)),
    Case("forks", ("lock_load", "fork", "6"), (*_KERNEL, *_USER)),
)


def _remove_groups() -> None:
    """Those that the cases make who make groups: nobody is in them."""
    for top in (_V2 / "pids" / "lockline-groups", _V2 / "lockline-groups"):
        for group in (*top.glob("*/"), top):
            with suppress(OSError):
                group.rmdir()


@dataclass(frozen=True)
class Result:
    """What was said of a case; paid: of the budget.

    starved: the lock is right, and the holder is said to have no CPU, on a machine that was short of them.
    """

    case: Case
    cause: str
    title: str
    sure: str
    right: bool
    starved: bool
    steps: int
    seconds: float
    paid: float
    probes: tuple[str, ...]
    story: dict[str, Any]


@contextmanager
def _group(controller: str, settings: tuple[tuple[str, str], ...]) -> Iterator[Path]:
    """A control group of a hierarchy of v1 (of v2 if there is none), which is removed when it is empty."""
    top = _V2 / controller
    group = (top if top.is_dir() else _V2) / f"{GROUP}-{controller}"
    group.mkdir(exist_ok=True)
    try:
        for name, value in settings:
            if (group / name).exists():
                (group / name).write_text(value)
        yield group
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    deadline = time.monotonic() + 10
    while group.exists() and time.monotonic() < deadline:
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.05)


def _put(group: Path, pid: int) -> None:
    """Put a process, and what it has forked, into a group."""
    for one in (pid, *descendants_of((pid,), 100)):
        (group / "cgroup.procs").write_text(str(one))


def _named(comm: str, pid: int) -> int:
    """The process of that name which another one has forked, as soon as there is one.  Raises RuntimeError."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for child in descendants_of((pid,), 100):
            if short_text(f"/proc/{child}/comm") == comm:
                return child
        time.sleep(0.05)
    raise RuntimeError(f"no process {comm}")


def _surround(
    case: Case, stack: ExitStack, groups: ExitStack, process: "subprocess.Popen[bytes]", directory: Path
) -> None:
    """What else goes on around a program, for as long as the stack is open; groups: closed when nobody runs there."""
    if case.around == "beside hogs of CPUs":
        stack.enter_context(running((_INCIDENT, "compute", str(4 * (os.cpu_count() or 1))), directory))
    elif case.around == "beside a busy group":
        group = groups.enter_context(_group("cpu", (("cpu.shares", "262144"), ("cpu.weight", "10000"))))
        _put(group, stack.enter_context(running((_INCIDENT, "compute", "8"), directory)).pid)
    elif case.around == "with a CPU limit for its holder":
        put = groups.enter_context(limited())
        put(_named("holder", process.pid))
    elif case.around == "with little memory":
        group = groups.enter_context(
            _group("memory", (("memory.limit_in_bytes", str(96 << 20)), ("memory.max", str(96 << 20))))
        )
        _put(group, process.pid)
    elif case.around == "frozen":
        group = groups.enter_context(_group("freezer", ()))
        _put(group, process.pid)
        v1 = (group / "freezer.state").exists()
        freeze, frozen, thawed = ("freezer.state", "FROZEN", "THAWED") if v1 else ("cgroup.freeze", "1", "0")
        time.sleep(0.5)
        (group / freeze).write_text(frozen)
        stack.callback((group / freeze).write_text, thawed)
    elif case.around == "under strace":
        stack.enter_context(running(("strace", "-f", "-o", "/dev/null", "-p", str(process.pid)), directory))
        time.sleep(1)


def _group_file(name: str, v1: str, v2: str) -> Path:
    top = _V1 if (_V1 / "cpu.stat").exists() else _V2
    return top / GROUP / (v1 if top == _V1 else v2) if name else top / GROUP


@contextmanager
def limited() -> Iterator[Callable[[int], None]]:
    """A control group with a tenth of a CPU; gives what puts a process in it."""
    group = _group_file("", "", "")
    group.mkdir(exist_ok=True)
    try:
        if group.parent == _V1:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("10000")
        else:
            (group / "cpu.max").write_text("10000 100000")
        yield lambda pid: (group / "cgroup.procs").write_text(str(pid)) and None
    finally:
        _remove(group)


def favour(pid: int | str) -> None:
    """The session of that process gets CPUs before others, where the kernel groups tasks by session."""
    path = Path(f"/proc/{pid}/autogroup")
    if path.exists():
        path.write_text(str(_AUTOGROUP_NICE))


@contextmanager
def running(command: tuple[str, ...], directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A program in a process group of its own, killed with all that it started."""
    path = BUILD / "workloads" / command[0]
    # In a guest no python3 lies where programs are looked for.
    name = sys.executable if command[0] == "python3" else command[0]
    program = [str(path) if path.exists() else name, *command[1:]]
    process = subprocess.Popen(
        program,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=directory,
        start_new_session=True,
    )
    try:
        favour(process.pid)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_case(case: Case, options: tuple[str, ...] = (), whole_machine: bool = False) -> Result:
    """Run a case, and ask why."""
    with ExitStack() as groups, ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lockline-incidents-", dir="/var/tmp")))
        put = stack.enter_context(limited()) if case.around == "with a CPU limit" else None
        process = stack.enter_context(running(case.command, directory))
        if put is not None:
            put(process.pid)
        if case.command[1] in ("groups", "kernfs-readers"):
            groups.callback(_remove_groups)
        _surround(case, stack, groups, process, directory)
        neighbour = case.around in ("beside a neighbour", "beside a limited neighbour")
        if neighbour:
            what, threads = NEIGHBOURS[case.command[1]]
            command = (_INCIDENT, what, str(threads), str(process.pid))
            other = stack.enter_context(running(command, directory)).pid
        if case.around == "beside a limited neighbour":
            groups.enter_context(limited())(other)
        target = () if whole_machine else ("-p", str(process.pid))
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "lockline", "why", "--format", "json", *target, *options],
            env={**os.environ, "PYTHONPATH": str(ROOT / "userspace")},
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
            preexec_fn=lambda: favour("self"),
        )
        seconds = time.monotonic() - began
        if process.poll() is not None:
            raise RuntimeError(f"{case.name}: the load has ended")
    if done.returncode:
        raise RuntimeError(f"{case.name}: {done.stderr.strip()[-300:]}")
    story = json.loads(done.stdout)
    verdict = story["verdict"]
    cause = verdict["cause"] or verdict["kind"]
    if neighbour and verdict["cause"] not in (None, "busy-lock"):
        # Whose doing it is counts, whatever rule says so.
        cause = "held-by-others" if str(other) in (verdict["culprit"] or "") else "another's"
    # Beside other loads it is true of every holder that it wants a CPU.
    locked = "user-lock" in case.causes or not set(case.causes) & {"nothing", "gil-bound"}
    starved = cause == "holder-no-cpu" and _pressure(story) >= PRESSURE and locked
    named = not case.names or any(name in verdict["title"] for name in case.names)
    beside = [
        *verdict["remedies"],
        *(one["what"] for one in story["asleep"]),
        *(one["words"] for one in story["on_cpu"]),
        *(one["title"] for one in story["hypotheses"] if one["state"] == "not testable"),
    ]
    told = not case.told or any(words in one for words in case.told for one in beside)
    return Result(
        case=case,
        cause=cause,
        title=verdict["title"],
        sure=verdict["confidence"],
        right=cause in case.causes and named and told,
        starved=starved and named and cause not in case.causes,
        steps=len(story["steps"]),
        seconds=seconds,
        paid=story["budget"]["paid_ns"] / story["budget"]["allowed_ns"],
        probes=tuple(step["probe"] for step in story["steps"]),
        story=story,
    )


def _pressure(story: dict[str, Any]) -> float:
    """Part of the time in which some task waited for a CPU."""
    return float(next((one["part"] for one in story["stalled"] if one["resource"] == "cpu"), 0.0))


def _mark(one: Result) -> str:
    if one.right:
        return "yes"
    return "the lock; no CPU" if one.starved else "**no**"


def table(results: list[Result]) -> str:
    """The results in Markdown."""
    lines = [
        "| planted | answer | right | sure | steps | s | of the budget |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {one.case.name} | {one.cause}: {one.title} | {_mark(one)} | {one.sure} |"
        f" {', '.join(one.probes)} | {one.seconds:.0f} | {one.paid:.0%} |"
        for one in results
    ]
    return "\n".join(lines)
