# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs `perf c2c report` and reads its tables, with nothing in common with lockline's own import of such text."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Another one than the installed perf, for a run by hand.
PERF = os.environ.get("LOCKLINE_PERF", "perf")
# The columns of "Shared Data Cache Line Table" after the address, by the names of struct c2c_stats.
LINE_COLUMNS = (
    "node",
    "pages",
    "share",
    "total",
    "local",
    "remote",
    "nr_entries",
    "load",
    "store",
    "st_l1hit",
    "st_l1miss",
    "st_na",
    "ld_fbhit",
    "ld_l1hit",
    "ld_l2hit",
    "ld_llchit",
    "lcl_hitm",
    "rmt_hit",
    "rmt_hitm",
    "lcl_dram",
    "rmt_dram",
)
# The same of the Pareto's rows; percentages are of the line's own count.
SHARES = ("remote", "local", "st_l1hit", "st_l1miss", "st_na")


class PerfError(Exception):
    """perf could not, or printed nothing."""


@dataclass(frozen=True)
class Row:
    """One row of the Pareto: an instruction at an offset of a line.  means: cycles of remote, local and other loads."""

    offset: int
    ip: int
    counts: dict[str, int]
    means: tuple[int, int, int]
    records: int
    cpus: int
    symbol: str


@dataclass(frozen=True)
class Line:
    """One line of the table, with its rows; local and remote are HITM or peer snoops, as the report shows."""

    address: int
    counts: dict[str, int]
    node: str
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """The tables of one report: counters by their printed names, lines in their order."""

    trace: dict[str, int]
    shared: dict[str, int]
    lines: list[Line]
    peers: bool


def version() -> tuple[int, int]:
    """Version of the perf that is installed; PerfError without one."""
    try:
        done = subprocess.run([PERF, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PerfError("perf cannot be run") from error
    found = re.search(r"(\d+)\.(\d+)", done.stdout)
    if not found:
        raise PerfError(f"no version in {done.stdout!r}")
    return int(found[1]), int(found[2])


def run_report(path: Path, options: Sequence[str] = ()) -> str:
    """The text of `perf c2c report --stdio`; without --no-source perf 6.1 dies where a program's file is missing."""
    command = [PERF, "c2c", "report", "-i", str(path), "--stdio", "--no-source", "--full-symbols", *options]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode or not done.stdout.strip():
        raise PerfError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def _counters(text: str) -> dict[str, int]:
    return {name.strip(): int(value) for name, value in re.findall(r"^  (\S.*?) +: +(\d+)$", text, re.MULTILINE)}


def _line(words: Sequence[str]) -> Line:
    values = dict(zip(LINE_COLUMNS, words[2:], strict=True))
    node = values.pop("node")
    del values["share"]
    return Line(int(words[1], 16), {name: int(value) for name, value in values.items()}, node)


def _row(text: str, line: Line) -> Row:
    words = text.split()
    counts = {}
    for name, word in zip(SHARES, words[:5], strict=True):
        exact = float(word.rstrip("%")) * line.counts[name] / 100
        # Printed with two digits: exact for lines of up to some thousand.
        counts[name] = round(exact)
    means = int(words[9]), int(words[10]), int(words[11])
    symbol = re.search(r"\[(?:k|\.)\] (\S+)", text)
    return Row(
        int(words[5], 16),
        int(words[8], 16),
        counts,
        means,
        int(words[12]),
        int(words[13]),
        symbol[1] if symbol else "",
    )


def parse(text: str) -> Report:
    """The report's tables; PerfError where they are not as expected."""
    parts = re.split(r"^=+\n +(.*?) *\n=+\n", text, flags=re.MULTILINE)
    tables = dict(zip(parts[1::2], parts[2::2], strict=True))
    try:
        trace = _counters(tables["Trace Event Information"])
        shared = _counters(tables["Global Shared Cache Line Event Information"])
        table = tables["Shared Data Cache Line Table"]
        pareto = tables["Shared Cache Line Distribution Pareto"]
    except KeyError as error:
        raise PerfError(f"no table {error}") from error
    lines = [_line(row.split()) for row in table.splitlines() if row.strip() and not row.startswith("#")]
    current: Line | None = None
    for row in pareto.splitlines():
        if not row.strip() or row.startswith("#") or set(row.strip()) == {"-"}:
            continue
        if "%" not in row:
            words = row.split()
            current = lines[int(words[0])]
            if current.address != int(words[-1], 16):
                raise PerfError(f"the Pareto has {words[-1]} as number {words[0]}")
        elif current is None:
            raise PerfError(f"a row of no line: {row}")
        else:
            current.rows.append(_row(row, current))
    return Report(trace, shared, lines, "Peer" in table)
