# SPDX-License-Identifier: GPL-2.0-or-later
"""Drives workloads and the collector, and reads recordings, for the live tests.

Every wait here is for a condition, with one generous deadline.
"""

import json
import os
import queue
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from schemas import validator_of

TOP = Path(__file__).resolve().parents[2]

DEADLINE_S = 120.0
ATTACHED = "lockline: recording"

# Begins that became no wait of their own; the others of the table `loss` are notes.
BEGINS_WITHOUT_WAIT = ("filtered", "repeated", "orphaned", "too_deep", "no_slot", "open")

HISTOGRAM_ENTRY = struct.Struct("<HI")

Value = TypeVar("Value")


# Seconds between two looks: a long wait is looked at less often, for a look takes milliseconds of a CPU, and many
# states that are waited for last a tenth of a second.
SOON, SELDOM = 0.02, 0.06
SELDOM_AFTER = 20  # looks


def wait_for(condition: Callable[[], Value], what: str) -> Value:
    """Poll until condition() is true; its value.  Fails with `what` after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    looks = 0
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        looks += 1
        time.sleep(SOON if looks < SELDOM_AFTER else SELDOM)
    raise AssertionError(f"within {DEADLINE_S:.0f} s: no {what}")


started: list[subprocess.Popen[str]] = []


def end_all_started() -> None:
    """Kill what a failed test left running."""
    while started:
        process = started.pop()
        if process.poll() is None:
            process.kill()
            process.wait(DEADLINE_S)


class Lines:
    """The lines of a stream, read by a thread so that a wait for one can have a deadline."""

    def __init__(self, stream: Any) -> None:
        self.seen: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def next(self, what: str) -> str:
        """The next line; fails if there is none."""
        try:
            line = self._queue.get(timeout=DEADLINE_S)
        except queue.Empty:
            raise AssertionError(f"within {DEADLINE_S:.0f} s: no {what}; seen: {self.seen}") from None
        assert line is not None, f"the output ended before {what}; seen: {self.seen}"
        self.seen.append(line)
        return line

    def rest(self) -> list[str]:
        """All lines, once the stream has ended."""
        self._thread.join(DEADLINE_S)
        while not self._queue.empty():
            line = self._queue.get()
            if line is not None:
                self.seen.append(line)
        return self.seen


# A load that wants all CPUs leaves them to who looks at it: the looking ends sooner, and with it the load.
LOAD_NICE = 10


class Workload:
    """A program of tests/workloads that has said that it is ready."""

    def __init__(self, build: Path, name: str, *arguments: str | Path, nice: int = 0) -> None:
        self.process = subprocess.Popen(
            [build / "workloads" / name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.nice(nice) and None,
        )
        started.append(self.process)
        self._output = Lines(self.process.stdout)
        self._errors = Lines(self.process.stderr)
        try:
            self.ready: dict[str, Any] = self._event(f"ready from {name}")
        except AssertionError as error:
            self.process.kill()
            raise AssertionError(f"{error}; stderr: {self._errors.rest()}") from None

    @property
    def pid(self) -> int:
        """The workload's process id."""
        return self.process.pid

    def _event(self, what: str) -> dict[str, Any]:
        line = self._output.next(what)
        try:
            event: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            raise AssertionError(f"the workload gave up: {self._errors.rest()}") from None
        return event

    def do(self, command: str) -> dict[str, Any]:
        """Send one command; what the workload says truly happened."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._event(command)

    def end(self) -> list[str]:
        """End of input; all that was printed."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self._output.rest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Collector:
    """A collector that has attached; SIGINT by stop(), as Ctrl-C would."""

    def __init__(
        self, build: Path, output: Path, *arguments: str, prefix: tuple[str, ...] = (), command: str = "record"
    ) -> None:
        self.output = output
        self.process = subprocess.Popen(
            [*prefix, build / "bin" / "lockline-collect", command, "-o", output, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(self.process)
        self._errors = Lines(self.process.stderr)

    def attached(self) -> Self:
        """Wait for the line that says so."""
        while not self._errors.next("word of the collector that it records").startswith(ATTACHED):
            continue
        return self

    def says(self, word: str) -> str:
        """The next line of stderr with that word, once it is there."""
        while word not in (line := self._errors.next(f"a line of the collector with {word!r}")):
            continue
        return line

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send the signal; the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """The exit status, when the collector has ended."""
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def errors(self) -> list[str]:
        """All lines of stderr of a collector that has ended."""
        return self._errors.rest()

    def __enter__(self) -> Self:
        return self.attached()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            status = self.stop()
            assert status == 0, f"exit status {status}: {self.errors()}"


@dataclass(frozen=True)
class Row:
    """One row of lock_total."""

    name: str
    source: str
    kind: str
    waits: int
    wait_ns: int
    max_ns: int
    failed: int
    histogram: dict[int, int]


def bucket(ns: int) -> int:
    """As histogram_bucket() of bpf/lockline.h."""
    if ns < 64:
        return 0
    if ns >= 1 << 36:
        return 121
    octave = ns.bit_length() - 1
    return 1 + 4 * (octave - 6) + (ns >> (octave - 2) & 3)


def decode(blob: bytes) -> dict[int, int]:
    """A histogram: count by bucket."""
    counts: Counter[int] = Counter()
    for index, count in HISTOGRAM_ENTRY.iter_unpack(blob):
        counts[index] += count
    return dict(counts)


class Recording:
    """A recording, by plain SQL: the tests of the collector do not rest on the analysis."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self._database.execute(query, values).fetchall()

    def number(self, query: str, *values: object) -> int:
        """A single integer; 0 for NULL and for no row."""
        row = self._database.execute(query, values).fetchone()
        return int(row[0] or 0) if row else 0

    def locks(self, *kinds: str) -> list[Row]:
        """The totals by lock, most waits first; of these kinds alone if any are named."""
        rows = self.rows(
            "SELECT lock.name, lock.source, kind.name, waits, wait_ns, max_ns, failed, histogram"
            " FROM lock_total JOIN lock ON lock.id = lock_total.lock JOIN kind ON kind.id = lock_total.kind"
            " ORDER BY waits DESC"
        )
        return [
            Row(row[0], row[1], row[2], row[3], row[4], row[5], row[6], decode(row[7]))
            for row in rows
            if not kinds or row[2] in kinds
        ]

    def waits(self) -> int:
        """All waits of the run."""
        return self.number("SELECT sum(waits) FROM lock_total")

    def loss(self, name: str) -> int:
        """A row of the table loss."""
        rows = self.rows("SELECT count FROM loss WHERE name = ?", name)
        assert rows, f"the recording does not count {name}"
        return int(rows[0][0])

    def begins(self) -> int:
        """All begins that the programs saw."""
        return self.number("SELECT sum(begins) FROM begin_count")

    def begins_accounted(self) -> int:
        """Waits, open waits, and begins that became none, with the reason counted."""
        return self.waits() + sum(self.loss(name) for name in BEGINS_WITHOUT_WAIT)

    def misses(self, program: str) -> int:
        """Events that the kernel kept from a program because it was running."""
        return self.number("SELECT sum(recursion_misses) FROM program WHERE name = ?", program)

    def integrity(self) -> str:
        """'ok', or what is wrong with the file."""
        return str(self._database.execute("PRAGMA integrity_check").fetchone()[0])

    def close(self) -> None:
        """Lets go of the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Seconds in which a load that does not run all the time runs once.
TURN_S = 0.1


def keep_to_share(group: int, share: float, over: threading.Event) -> None:
    """Stops all of a process group, and lets it go on for that share of the time, until it is over."""
    with suppress(ProcessLookupError):
        while not over.wait(TURN_S * share):
            os.killpg(group, signal.SIGSTOP)
            over.wait(TURN_S * (1 - share))
            os.killpg(group, signal.SIGCONT)


@contextmanager
def running(
    *command: str | Path,
    cwd: Path | None = None,
    nice: int = LOAD_NICE,
    end: signal.Signals = signal.SIGTERM,
    share: float = 1,
) -> Iterator[subprocess.Popen[bytes]]:
    """A load in a process group of its own, ended with all that it started; share: of the time that it runs."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=cwd,
        process_group=0,
        preexec_fn=lambda: os.nice(nice) and None,
    )
    over = threading.Event()
    keeper = threading.Thread(target=keep_to_share, args=(process.pid, share, over), daemon=True)
    if share < 1:
        keeper.start()
    try:
        yield process
    finally:
        over.set()
        if share < 1:
            keeper.join()
        try:
            os.killpg(process.pid, end)
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE_S)
        except ProcessLookupError:
            process.wait(DEADLINE_S)


def planted(
    command: tuple[str, ...], directory: Path, nice: int = LOAD_NICE
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """One of build/workloads, or another program, that may be stopped or frozen: killed at its end.

    Unlike those of the laboratory (incidents/cases.py) it has no session of its own, which the kernel would give as
    many CPUs as all tests together.
    """
    path = TOP / "build" / "workloads" / command[0]
    program = path if path.exists() else command[0]
    return running(program, *command[1:], cwd=directory, nice=nice, end=signal.SIGKILL)


def bpf_objects(kind: str) -> set[int]:
    """Ids of all BPF objects of a kind ('prog', 'map' or 'link') in the kernel."""
    bpftool = "/usr/sbin/bpftool" if Path("/usr/sbin/bpftool").exists() else "bpftool"

    def show() -> "subprocess.CompletedProcess[str] | None":
        # bpftool gives up when somebody's object goes away while it lists them.
        done = subprocess.run([bpftool, "-j", kind, "show"], capture_output=True, text=True, check=False)
        return done if done.returncode == 0 else None

    return {entry["id"] for entry in json.loads(wait_for(show, f"list of {kind}s from bpftool").stdout or "[]")}


def bpf_links(process: int) -> int:
    """How many links of BPF programs this process has open."""
    count = 0
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            count += str(descriptor.readlink()) == "anon_inode:bpf_link"
    return count


def why(directory: Path, *arguments: str) -> dict[str, Any]:
    """What `lockline why` says, as JSON; it leaves nothing behind."""
    scratch = directory / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "lockline", "why", "--format", "json", "--max-overhead", "50%", *arguments],
        env={**os.environ, "PYTHONPATH": str(TOP / "userspace"), "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(scratch.iterdir()) == []
    story: dict[str, Any] = json.loads(done.stdout)
    validator_of("why").validate(story)
    return story
