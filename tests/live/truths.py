# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that know what each of their places waits: beside it what lockline says, and their run times' own tools.

tests/languages/truth.go and Truth.java.
"""

import json
import subprocess
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockline.analysis.user_space.futex import of_all_waits, read_futexes
from lockline.analysis.user_space.futex_waits import FutexWaits
from lockline.recording import rows, user_rows
from lockline.recording.reader import open_recording
from support import Collector

SECONDS = 6


@dataclass(frozen=True)
class Place:
    """A function that waits for a lock: how often and how long, ns, by the program's clock."""

    lock: str
    function: str
    waits: int
    ns: int


@dataclass(frozen=True)
class Truth:
    """What a program says of itself; tools: by tool what it has for each function, ns."""

    places: tuple[Place, ...]
    tools: dict[str, dict[str, int]]

    def locks(self) -> dict[str, int]:
        """What all places of a lock waited, ns."""
        found: defaultdict[str, int] = defaultdict(int)
        for place in self.places:
            found[place.lock] += place.ns
        return dict(found)

    def of(self, lock: str) -> tuple[Place, ...]:
        """The places of one lock."""
        return tuple(place for place in self.places if place.lock == lock)


@dataclass(frozen=True)
class Found:
    """What a recording has of a program's places: waiting by function, ns, and the rows of each lock."""

    places: dict[str, int]
    rows: dict[str, list[FutexWaits]]

    def of(self, places: Iterable[Place]) -> int:
        """The waiting of these places together, ns."""
        return sum(self.places.get(place.function, 0) for place in places)


def record(live: Path, recording: Path, command: Sequence[str | Path], *options: str) -> Truth:
    """Records a program from its first wait to its last."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with Collector(live, recording, "--futex", *options, "-p", str(process.pid)):
            process.stdin.write("\n")
            process.stdin.flush()
            time.sleep(SECONDS)
            process.stdin.write("\n")
            process.stdin.flush()
            told = json.loads(process.stdout.readline())
        process.communicate("\n")
    places = tuple(Place(**place) for place in told.pop("places"))
    return Truth(places, told)


def found_in(path: Path, truth: Truth) -> Found:
    """What the recording has: each row's waiting goes to the program's functions as its samples do."""
    lock_of = {place.function: place.lock for place in truth.places}
    by_word: defaultdict[int, list[user_rows.FutexSample]] = defaultdict(list)
    with open_recording(path) as opened:
        for sample in opened.table(user_rows.FutexSample):
            by_word[sample.futex].append(sample)
        totals = {total.futex: total for total in opened.table(user_rows.FutexTotal)}
        stacks = opened.stacks(sorted({one.stack for word in by_word.values() for one in word if one.stack}))
        futexes = read_futexes(opened, opened.locks())
    assert futexes is not None
    functions = {stack: _place(frames, lock_of) for stack, frames in stacks.items()}
    places: defaultdict[str, int] = defaultdict(int)
    found: defaultdict[str, list[FutexWaits]] = defaultdict(list)
    # Threads that run goroutines sleep below these functions, too, for want of another one to run.
    of = "goroutines" if any(one.who == "goroutines" for one in futexes.futexes) else "threads"
    for one in (one for one in futexes.futexes if one.who == of):
        of_row: defaultdict[str, int] = defaultdict(int)
        for word in (one.futex.id, *one.words):
            for sample in of_all_waits(totals[word], by_word[word]):
                of_row[functions.get(sample.stack, "")] += sample.wait_ns if sample.role == "waiter" else 0
        every = sum(of_row.values())
        for function in of_row.keys() & lock_of.keys():
            places[function] += of_row[function] * one.figures.wait_ns // max(every, 1)
        heaviest = max(of_row, key=lambda function: of_row[function], default="")
        if heaviest:
            found[lock_of[heaviest]].append(one)
    return Found(dict(places), dict(found))


def _place(frames: Sequence[rows.Frame], places: Container[str]) -> str:
    """The place that a stack is of; '' if it is none, or sleeps there for a while."""
    if any("Thread.sleep" in frame.symbol for frame in frames):
        return ""
    return next((frame.symbol for frame in frames if frame.symbol in places), "")


def table(truth: Truth, found: Found) -> str:
    """The sums beside each other, ms, and how far from the program's own in parts of 100."""

    def cell(ns: int, own: int) -> str:
        return f"{ns / 1e6:10.1f} {100 * ns / own - 100 if own else 0:+7.1f}%"

    tools = sorted(truth.tools)
    lines = [f"{'':28} {'waits':>7} {'own ms':>10} {'lockline':>19}" + "".join(f" {tool:>19}" for tool in tools)]
    locks = truth.locks()
    for lock in sorted(locks, key=lambda lock: -locks[lock]):
        of = truth.of(lock)
        sums = [sum(truth.tools[tool].get(place.function, 0) for place in of) for tool in tools]
        of_lock = Place(lock, lock, sum(place.waits for place in of), locks[lock])
        figures = [(of_lock, found.of(of), sums)]
        if len(of) > 1:
            for place in sorted(of, key=lambda place: -place.ns):
                each = [truth.tools[tool].get(place.function, 0) for tool in tools]
                figures.append((place, found.places.get(place.function, 0), each))
        for place, ns, others in figures:
            name = place.function if place is of_lock else f"  {place.function}"
            cells = "".join(f" {cell(other, place.ns)}" for other in others)
            lines.append(f"{name:28} {place.waits:7,} {place.ns / 1e6:10.1f} {cell(ns, place.ns)}{cells}")
    return "\n".join(lines)
