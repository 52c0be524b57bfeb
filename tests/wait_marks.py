# SPDX-License-Identifier: GPL-2.0-or-later
"""How long each tool's programs at a lock's tracepoints take for one wait (tests/workloads/wait_marks.c)."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

WORKLOAD = Path(__file__).parent.parent / "build" / "workloads" / "wait_marks"


class MarksError(Exception):
    """The marks cannot be attached."""


@dataclass(frozen=True)
class Gap:
    """What lay between two marks, over many waits: ns, with one clock read of a mark in them."""

    half: str  # "begin" or "end"
    gap: int  # 1: between the first two marks
    waits: int
    mean_ns: float
    middle_ns: float  # mean of the half between the quartiles
    median_ns: int
    most_ns: int  # 99 % take no longer


class Marks:
    """The running workload.  What others attach between two calls of mark() is in the gap of the second."""

    def __init__(self) -> None:
        if not WORKLOAD.exists():
            raise MarksError(f"{WORKLOAD.name} is missing: run make workloads")
        self._process = subprocess.Popen([str(WORKLOAD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lines("ready")

    def __enter__(self) -> "Marks":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def _lines(self, last: str) -> list[dict[str, object]]:
        assert self._process.stdout is not None
        told: list[dict[str, object]] = []
        while line := self._process.stdout.readline():
            told.append(json.loads(line))
            if told[-1]["event"] == last:
                return told[:-1]
        raise MarksError("the marks cannot be attached")

    def _do(self, word: str) -> list[dict[str, object]]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._lines("done")

    def mark(self) -> None:
        """Attaches the next mark, behind all programs that are attached now."""
        self._do("mark")

    def empty(self) -> None:
        """Attaches a pair of programs that do nothing."""
        self._do("empty")

    def clock(self) -> None:
        """Attaches a pair that reads the clock."""
        self._do("clock")

    def least(self) -> None:
        """Attaches a pair that adds up how long each lock was waited for, and does no more."""
        self._do("least")

    def clear(self) -> None:
        """Forgets what was measured."""
        self._do("clear")

    def read(self) -> list[Gap]:
        """What was measured since."""
        return [Gap(**{name: value for name, value in told.items() if name != "event"}) for told in self._do("read")]  # type: ignore[arg-type]
