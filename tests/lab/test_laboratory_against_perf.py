# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of the laboratory as the installed perf c2c reads them, and as lockline does: every number that perf prints.

LOCKLINE_PERF names another perf than the one in PATH.
"""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from c2c import imported, perf_output
from c2c.description import Counts
from c2c.imported import COUNTS, Imported, ImportedLine, Numbers
from c2c.measure import LOCKLINE
from c2c.perf_output import Line, Report
from c2c.test_against_perf import COMPARED, SHARED, TRACE, line_numbers, snoops, summed
from lab import texts
from lab.cases import make_world

# Of both sets; with all families of PMUs, and with programs in the kernel and outside.
SEEDS = range(640_000, 640_012)
# A mean is printed without its fraction.
HALF = 0.5001


def stats(numbers: Numbers) -> Counts:
    """An import's sums under perf's names; what perf derives from others is derived."""
    found = Counter({COUNTS[column][0]: count for column, count in numbers.counts.items() if column in COUNTS})
    found["tot_hitm"] = found["lcl_hitm"] + found["rmt_hitm"]
    found["tot_peer"] = found["lcl_peer"] + found["rmt_peer"]
    return Counts(found)


def check_totals(report: Report, found: Imported) -> None:
    """The tables of all records, and of the lines that show a transfer."""
    for name, parts in TRACE.items():
        assert report.trace[name] == sum(found.counts[part] for part in parts), name
    shared = [counts for line in found.lines if (counts := stats(line.total))["tot_hitm"] + counts["tot_peer"]]
    assert report.shared["Total Shared Cache Lines"] == len(shared)
    for name, parts in SHARED.items():
        # Blocked by data or by address is one column of a recording.
        parts = tuple(part for part in parts if part != "blk_addr")
        assert report.shared[name] == sum(counts[part] for counts in shared for part in parts), name


def check_line(line: Line, found: ImportedLine, symbols: dict[int, str], peers: bool) -> None:
    """A line's numbers, and those of its rows: by offset and instruction, with the function's name."""
    wanted = dict(zip(COMPARED, line_numbers(stats(found.total), peers), strict=True))
    assert {name: line.counts[name] for name in COMPARED} == wanted, hex(line.address)
    total = "tot_peer" if peers else "tot_hitm"
    rows = {}
    for row in line.rows:
        numbers = found.instructions[row.offset, row.ip]
        counts = stats(numbers)
        extra = snoops(counts, peers)
        expected = {name: extra[name] if name in extra else counts[name] for name in perf_output.SHARES}
        assert row.counts == expected, (hex(line.address), row)
        assert (row.records, row.cpus) == (summed(counts)["nr_entries"], len(numbers.cpus)), (hex(line.address), row)
        if row.symbol and symbols.get(row.ip):
            assert row.symbol == symbols[row.ip], (hex(line.address), row)
        rows[row.offset, row.ip] = counts
    every = {at: stats(numbers) for at, numbers in found.instructions.items()}
    assert rows.keys() == {at for at, counts in every.items() if counts["store"] or counts[total]}, hex(line.address)
    check_cycles(line, found, peers)


def check_cycles(line: Line, found: ImportedLine, peers: bool) -> None:
    """The mean cycles of a row's loads.  perf's mean grows sample by sample, so that half a cycle goes either way."""
    if peers:
        return
    for row in line.rows:
        numbers = found.instructions[row.offset, row.ip].counts
        sums = numbers["remote_hitm_weight"], numbers["local_hitm_weight"], numbers["load_weight"]
        loads = numbers["remote_hitm"], numbers["local_hitm"], numbers["load_weights"]
        for mean, weight, count in zip(row.means, sums, loads, strict=True):
            assert abs(mean - (weight / count if count else 0)) < HALF, (hex(line.address), row)


def by_offset(line: Line) -> dict[int, tuple[int, int]]:
    """Transfers and stores of each offset, from perf's rows."""
    found: dict[int, tuple[int, int]] = {}
    for row in line.rows:
        paid, stored = found.get(row.offset, (0, 0))
        counts = row.counts
        stores = counts["st_l1hit"] + counts["st_l1miss"] + counts["st_na"]
        found[row.offset] = paid + counts["local"] + counts["remote"], stored + stores
    return found


def document(path: Path, symbols: Path | None) -> dict[str, Any]:
    options = ["--kallsyms", str(symbols)] if symbols else []
    command = [str(LOCKLINE), "c2c", "report", str(path), "--format", "json", "--addresses", "--top", "1000", *options]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def check_document(report: Report, shown: dict[str, Any]) -> None:
    """What `lockline c2c report` prints of the lines that perf lists: by line, by offset, and by function."""
    lines = {int(line["address"], 16): line for line in shown["lines"]}
    kind = "peer" if report.peers else "hitm"
    paying = [line for line in report.lines if line.counts["local"] + line.counts["remote"]]
    assert {line.address for line in paying} <= lines.keys()
    assert shown["totals"]["transfers"] == sum(line.counts["local"] + line.counts["remote"] for line in paying)
    for line in paying:
        own = lines[line.address]
        assert (own[kind]["local"], own[kind]["remote"]) == (line.counts["local"], line.counts["remote"])
        assert own["stores"] == line.counts["store"]
        offsets = {one["offset"]: (one[kind]["total"], one["stores"]) for one in own["offsets"]}
        assert {at: counts for at, counts in offsets.items() if any(counts)} == by_offset(line), hex(line.address)
        of_perf: Counter[tuple[int, str]] = Counter()
        of_ours: Counter[tuple[int, str]] = Counter()
        for row in line.rows:
            of_perf[row.offset, row.symbol] += row.counts["local"] + row.counts["remote"]
        for one in own["offsets"]:
            assert not one["accesses_left_out"]
            for access in one["accesses"]:
                of_ours[one["offset"], access["symbol"] or ""] += access[kind]
        # Of a program whose file is not here perf prints its instructions' addresses as names.
        if any(symbol for _, symbol in of_ours):
            assert +of_perf == +of_ours, hex(line.address)


@pytest.mark.parametrize("seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.laboratory) for seed in SEEDS[1:])])
def test_perf_and_lockline_agree_in_every_number(seed: int, tmp_path: Path) -> None:
    world = make_world(seed, seed % 2 == 1)
    path = tmp_path / "perf.data"
    symbols = texts.perf_data(world.samples, world.program, world.machine, world.pmu, path)
    kernel = texts.description_of(world.samples, world.program, world.machine, world.pmu).kernel
    options = ["--show-all", *(["-k", str(kernel.write_elf(tmp_path / "vmlinux", 0))] if kernel else [])]
    if world.pmu.family == "spe":
        options += ["-d", "peer"]
    report = perf_output.parse(perf_output.run_report(path, options))
    done = imported.run(path, tmp_path / "out", ["--kallsyms", str(symbols)] if symbols else [])
    assert done.returncode == 0, done.stderr
    found = imported.read(tmp_path / "out")
    check_totals(report, found)
    lines = {line.address: line for line in found.lines}
    assert len(lines) == len(found.lines)
    assert {line.address for line in report.lines} == lines.keys()
    for line in report.lines:
        check_line(line, lines[line.address], found.symbols, report.peers)
    check_document(report, document(path, symbols))


@pytest.mark.laboratory
def test_the_seeds_have_every_family_and_both_spaces() -> None:
    worlds = [make_world(seed, seed % 2 == 1) for seed in SEEDS]
    assert {world.pmu.family for world in worlds} == {"intel", "ibs", "spe"}
    assert {world.program.kernel for world in worlds} == {True, False}
