# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of a benchmark from a file: what its lines say, and which way is better.  Rules: docs/diff.md."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lockline.base.errors import LocklineError

# A log of this size holds more runs than anybody makes.
MAX_BYTES = 16 << 20
MAX_LINES = 500_000
MAX_SAMPLES = 100_000
MAX_LINE = 4096

# Squares of what is below can be added up.
MAX_NUMBER = 1e100

_NUMBER = (
    r"[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.[0-9]+(?:[eE][-+]?[0-9]+)?"
)
# Not the rest of 0x10.
_UNIT = r"(?!x[0-9A-Fa-f])[A-Za-zµμ%][A-Za-z0-9µμ%/._*-]*(?: per [A-Za-z]+)?"


class Form(NamedTuple):
    """A line that a known benchmark prints; the group is the sample."""

    name: str
    pattern: re.Pattern[str]
    unit: str


# In this order, the first that a line of the file matches is taken for the whole file: what several tools print
# comes last.  tools/perf/bench/*.c of Linux 6.1 to 7.2; hackbench and dbench of their own releases.
FORMS = (
    Form("perf bench futex, epoll", re.compile(rf"Averaged ({_NUMBER}) operations/sec "), "ops/sec"),
    Form("perf bench futex wake, each run", re.compile(rf"\[Run \d+\]: Wokeup .* in ({_NUMBER}) ms"), "ms"),
    Form("perf bench futex wake", re.compile(rf"^Wokeup .* in ({_NUMBER}) ms"), "ms"),
    Form("perf bench futex requeue, each run", re.compile(rf"\[Run \d+\]: Requeued .* in ({_NUMBER}) ms"), "ms"),
    Form("perf bench futex requeue", re.compile(rf"^Requeued .* in ({_NUMBER}) ms"), "ms"),
    Form(
        "perf bench futex wake-parallel, each run",
        re.compile(rf"\[Run \d+\]: Avg per-thread latency .* in ({_NUMBER}) ms"),
        "ms",
    ),
    Form("perf bench futex wake-parallel", re.compile(rf"^Avg per-thread latency .* in ({_NUMBER}) ms"), "ms"),
    Form("perf bench, rate", re.compile(rf"^\s+({_NUMBER}) ops/sec\s*$"), "ops/sec"),
    Form("tbench, dbench", re.compile(rf"^Throughput ({_NUMBER}) MB/sec "), "MB/sec"),
    Form("perf bench, time", re.compile(rf"^\s*Total time: ({_NUMBER}) \[sec\]"), "sec"),
    Form("hackbench", re.compile(rf"^Time: ({_NUMBER})\s*$"), "sec"),
)

_PLAIN = re.compile(rf"(?:^|[\s=])({_NUMBER})\s*(?:({_UNIT})|\[({_UNIT})\]|\(({_UNIT})\))?$")
_NOT_FINITE = re.compile(r"(?:^|[\s:=])[-+]?(?:nan|inf|infinity)\b", re.IGNORECASE)

_TIME = re.compile(
    r"(?:[nmuµμ]?s|[nmuµμ]secs?|secs?|seconds?|min|minutes?|h|hours?|cycles?)(?:/(?!s$|sec$|second$|min$).*)?", re.ASCII
)
_RATE = re.compile(
    r".*(?:/|\bper[ _])(?:s|sec|second|min|minute|h|hour)|i?ops|[tqr]ps|(?:k|m|g)?bps|mflops|gflops|.?hz", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Samples:
    """A side's samples; unit: '' if the file does not tell; taken: by which rule, in words."""

    path: str
    values: tuple[float, ...]
    unit: str
    taken: str


@dataclass(frozen=True, slots=True)
class Direction:
    """Which way is better, and why that is thought."""

    higher_is_better: bool
    reason: str
    guessed: bool


def direction(unit: str, told: bool | None = None) -> Direction:
    """Which way is better for a unit; told: what the user said, None for nothing."""
    if told is not None:
        return Direction(told, f"--{'higher' if told else 'lower'}-is-better", False)
    if _RATE.fullmatch(unit):
        return Direction(True, f"{unit} is a rate", False)
    if _TIME.fullmatch(unit):
        return Direction(False, f"{unit} is a time", False)
    why = f"the unit {unit} does not say" if unit else "there is no unit"
    return Direction(True, f"guessed: {why}; --lower-is-better says otherwise", True)


def _number(text: str) -> float:
    """Raises ValueError for what is not a finite number."""
    value = float(text.replace(",", "")) if re.fullmatch(_NUMBER, text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"'{text}' is not a finite number")
    if abs(value) > MAX_NUMBER:
        raise ValueError(f"'{text}' is not a measured number")
    return value


def _shown(line: str) -> str:
    return line if len(line) <= 60 else line[:57] + "..."


def _by_pattern(lines: Sequence[str], pattern: re.Pattern[str]) -> tuple[list[float], str]:
    values = []
    for number, line in enumerate(lines, 1):
        match = pattern.search(line)
        if match is None or match[1] is None:
            continue
        try:
            values.append(_number(match[1].strip()))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return values, ""


def _by_form(lines: Sequence[str], form: Form) -> list[float]:
    return _by_pattern(lines, form.pattern)[0]


def _plain(lines: Sequence[str]) -> tuple[list[float], str]:
    """The number that ends each line, with or without a unit."""
    values: list[float] = []
    unit: str | None = None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _PLAIN.search(text)
        if match is None or _NOT_FINITE.search(text):
            what = "no finite number" if _NOT_FINITE.search(text) else "no number at the end of"
            raise ValueError(f"line {number}: {what} '{_shown(text)}'; --pattern REGEX tells where the samples are")
        found = match[2] or match[3] or match[4] or ""
        if unit is not None and found != unit:
            raise ValueError(f"line {number}: the unit is '{found}' and was '{unit}' before; use one")
        unit = found
        try:
            values.append(_number(match[1]))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return values, unit or ""


def parse(path: str, lines: Sequence[str], pattern: re.Pattern[str] | None = None) -> Samples:
    """The samples in the lines of a file.  Raises LocklineError, with the line's number where there is one."""
    try:
        if pattern is not None:
            values, unit = _by_pattern(lines, pattern)
            if not values:
                raise ValueError("no line matches --pattern")
            taken = "--pattern"
        else:
            form = next((form for form in FORMS if any(map(form.pattern.search, lines))), None)
            values, unit = (_by_form(lines, form), form.unit) if form else _plain(lines)
            taken = f"lines of {form.name}" if form else "the number that ends each line"
            if not values:
                raise ValueError("no samples in it; one number on each line, or the output of benchmark runs")
        if len(values) > MAX_SAMPLES:
            raise ValueError(f"more than {MAX_SAMPLES:,} samples")
    except ValueError as error:
        raise LocklineError(f"{path}: {error}") from error
    return Samples(path, tuple(values), unit, taken)


def _checked(path: str, lines: Iterable[bytes]) -> list[str]:
    texts = []
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            raise LocklineError(f"{path}: line {number} is longer than {MAX_LINE} bytes: not the log of a benchmark")
        if b"\0" in line:
            raise LocklineError(f"{path}: line {number} is not text: the file is neither a recording nor samples")
        texts.append(line.decode("utf-8", "replace").rstrip("\r\n"))
    return texts


def read_samples(path: str, pattern: re.Pattern[str] | None = None) -> Samples:
    """Read a side's samples.  Raises LocklineError if the file cannot be read or holds none."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise LocklineError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MAX_BYTES:
        raise LocklineError(f"{path}: larger than {MAX_BYTES >> 20} MiB: not the log of a benchmark")
    if data.count(b"\n") + data.count(b"\r") > MAX_LINES:
        raise LocklineError(f"{path}: more than {MAX_LINES:,} lines: not the log of a benchmark")
    return parse(path, _checked(path, data.splitlines(keepends=True)), pattern)
