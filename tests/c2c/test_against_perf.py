# SPDX-License-Identifier: GPL-2.0-or-later
"""What perf c2c counts in generated files is what they were made to hold."""

import re
import subprocess
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from c2c import patterns, perf_output
from c2c import perfdata_format as perfdata
from c2c import perfdata_sample as fields
from c2c.access_kinds import INTEL
from c2c.description import Counts, Description, LineKey, Truth
from c2c.perf_output import Line, Report
from c2c.perfdata_generator import DESCRIPTIONS

LLC_MISSES = ("lcl_dram", "rmt_dram", "rmt_hit", "rmt_hitm")
TRACE = {
    "Total records": ("nr_entries",),
    "Locked Load/Store Operations": ("locks",),
    "Load Operations": ("load",),
    "Loads - uncacheable": ("ld_uncache",),
    "Loads - IO": ("ld_io",),
    "Loads - Miss": ("ld_miss",),
    "Loads - no mapping": ("ld_noadrs",),
    "Load Fill Buffer Hit": ("ld_fbhit",),
    "Load L1D hit": ("ld_l1hit",),
    "Load L2D hit": ("ld_l2hit",),
    "Load LLC hit": ("ld_llchit", "lcl_hitm"),
    "Load Local HITM": ("lcl_hitm",),
    "Load Remote HITM": ("rmt_hitm",),
    "Load Remote HIT": ("rmt_hit",),
    "Load Local DRAM": ("lcl_dram",),
    "Load Remote DRAM": ("rmt_dram",),
    "Load MESI State Exclusive": ("ld_excl",),
    "Load MESI State Shared": ("ld_shared",),
    "Load LLC Misses": LLC_MISSES,
    "Load access blocked by data": ("blk_data",),
    "Load access blocked by address": ("blk_addr",),
    "Load HIT Local Peer": ("lcl_peer",),
    "Load HIT Remote Peer": ("rmt_peer",),
    "Store Operations": ("store",),
    "Store - uncacheable": ("st_uncache",),
    "Store - no mapping": ("st_noadrs",),
    "Store L1D Hit": ("st_l1hit",),
    "Store L1D Miss": ("st_l1miss",),
    "Store No available memory level": ("st_na",),
    "No Page Map Rejects": ("nomap",),
    "Unable to parse data source": ("noparse",),
}
SHARED = {
    "Load HITs on shared lines": ("load",),
    "Fill Buffer Hits on shared lines": ("ld_fbhit",),
    "L1D hits on shared lines": ("ld_l1hit",),
    "L2D hits on shared lines": ("ld_l2hit",),
    "LLC hits on shared lines": ("ld_llchit", "lcl_hitm"),
    "Load hits on peer cache or nodes": ("lcl_peer", "rmt_peer"),
    "Locked Access on shared lines": ("locks",),
    "Blocked Access on shared lines": ("blk_data", "blk_addr"),
    "Store HITs on shared lines": ("store",),
    "Store L1D hits on shared lines": ("st_l1hit",),
    "Store No available memory level": ("st_na",),
    "Total Merged records": ("lcl_hitm", "rmt_hitm", "store"),
}
# Numbers of pages are not compared: perf counts how often the address changed.
COMPARED = tuple(name for name in perf_output.LINE_COLUMNS if name not in ("node", "pages", "share", "total"))


def snoops(counts: Counts, peers: bool) -> dict[str, int]:
    """The columns whose meaning depends on the report's kind."""
    names = ("lcl_peer", "rmt_peer") if peers else ("lcl_hitm", "rmt_hitm")
    return {"local": counts[names[0]], "remote": counts[names[1]]}


def summed(counts: Counts) -> dict[str, int]:
    """The columns of records and loads: sums of what perf decoded, so that a load may be in them twice, or not at all.

    total_records() and total_loads() of tools/perf/builtin-c2c.c, Linux 6.1.
    """
    hits = ("ld_fbhit", "ld_l1hit", "ld_l2hit", "ld_llchit", "lcl_hitm")
    loads = sum(counts[name] for name in (*LLC_MISSES, *hits))
    stores = sum(counts[name] for name in ("st_l1hit", "st_l1miss", "st_na"))
    return {"load": loads, "nr_entries": loads + stores}


def line_numbers(counts: Counts, peers: bool) -> tuple[int, ...]:
    """A line's numbers as the table has them."""
    extra = snoops(counts, peers) | summed(counts)
    return tuple(extra[name] if name in extra else counts[name] for name in COMPARED)


def shared_totals(truth: Truth) -> tuple[int, Counter[str]]:
    """How many lines have HITM or peer snoops, and the sums of their counts."""
    found = [c for c in truth.lines.values() if c["lcl_hitm"] + c["rmt_hitm"] + c["lcl_peer"] + c["rmt_peer"]]
    total: Counter[str] = Counter()
    for counts in found:
        total.update(counts.stats)
    return len(found), total


def owner(line: Line, truth: Truth, peers: bool) -> LineKey:
    """The line that perf's row is of; an address can be that of several."""
    numbers = tuple(line.counts[name] for name in COMPARED)
    candidates = truth.keys_at.get(line.address, [])
    for key in candidates:
        if line_numbers(truth.lines[key], peers) == numbers:
            return key
    expected = [dict(zip(COMPARED, line_numbers(truth.lines[key], peers), strict=True)) for key in candidates]
    raise AssertionError(f"{line.address:#x}: perf has {line.counts}, the file holds {expected}")


def check_rows(line: Line, key: LineKey, truth: Truth, peers: bool) -> None:
    """Each row of the Pareto has what the file holds, and no row with stores or HITM is missing."""
    for row in line.rows:
        counts = truth.instructions[key, row.offset, row.ip]
        extra = snoops(counts, peers)
        expected = {name: extra[name] if name in extra else counts[name] for name in perf_output.SHARES}
        assert row.counts == expected, (hex(line.address), row)
        assert (row.records, row.cpus) == (summed(counts)["nr_entries"], len(counts.cpus)), (hex(line.address), row)
        groups = ("rmt_peer", "lcl_peer", "load") if peers else ("rmt_hitm", "lcl_hitm", "load")
        means = tuple(round(total / number) for total, number in (counts.weights.get(g, (0, 1)) for g in groups))
        assert row.means == means, (hex(line.address), row)
    total = "tot_peer" if peers else "tot_hitm"
    shown = {(row.offset, row.ip) for row in line.rows}
    wanted = {at for at, counts in truth.code_of[key].items() if counts["store"] or counts[total]}
    assert shown == wanted, hex(line.address)


def check_report(report: Report, truth: Truth) -> None:
    """All of perf's numbers are those of the description."""
    for name, parts in TRACE.items():
        assert report.trace[name] == sum(truth.total[part] for part in parts), name
    lines, sums = shared_totals(truth)
    assert report.shared["Total Shared Cache Lines"] == lines
    for name, parts in SHARED.items():
        assert report.shared[name] == sum(sums[part] for part in parts), name
    owners = [owner(line, truth, report.peers) for line in report.lines]
    assert Counter(owners) == Counter(truth.lines.keys())
    for line, key in zip(report.lines, owners, strict=True):
        check_rows(line, key, truth, report.peers)


def as_this_perf_counts(description: Description) -> Description:
    """Before 6.17 (fa9b3578ed62 "perf mem: Count L2 HITM for c2c statistic") such a load is a hit in L2 and no more."""
    if perf_output.version() >= (6, 17):
        return description
    newer = INTEL["L2, modified by another"]
    older = replace(newer, counts=("load", "ld_l2hit"))
    accesses = [replace(a, kind=older) if a.kind == newer else a for a in description.accesses]
    return replace(description, accesses=accesses)


@pytest.fixture(params=sorted(DESCRIPTIONS))
def description(request: pytest.FixtureRequest) -> Description:
    """Each of them."""
    return DESCRIPTIONS[request.param]()


def test_perf_counts_what_the_file_holds(description: Description, tmp_path: Path) -> None:
    path = description.write(tmp_path / "perf.data")
    options = ["--show-all"]
    if description.kernel:
        options += ["-k", str(description.kernel.write_elf(tmp_path / "vmlinux", description.shift))]
    report = perf_output.parse(perf_output.run_report(path, options))
    check_report(report, as_this_perf_counts(description).truth())


VARIANTS: dict[str, dict[str, object]] = {
    "big-endian": {"big_endian": True},
    "big-endian, compressed": {"big_endian": True, "compressed": perfdata.COMPRESSED},
    "compressed": {"compressed": perfdata.COMPRESSED},
    "id in its old place": {"fields": fields.C2C_FIELDS & ~fields.IDENTIFIER | fields.ID},
    "weight as a struct": {"fields": fields.C2C_FIELDS & ~fields.WEIGHT | fields.WEIGHT_STRUCT},
    "weight as a struct, big-endian": {
        "fields": fields.C2C_FIELDS & ~fields.WEIGHT | fields.WEIGHT_STRUCT,
        "big_endian": True,
    },
    "call chains": {"fields": fields.C2C_FIELDS | fields.CALLCHAIN},
    "call chains, big-endian": {"fields": fields.C2C_FIELDS | fields.CALLCHAIN, "big_endian": True},
    "no period, stream ids": {"fields": fields.C2C_FIELDS & ~fields.PERIOD | fields.STREAM_ID},
    "all that a sample can hold": {"fields": sum(fields.ALL_FIELDS)},
    "all that a sample can hold, big-endian": {"fields": sum(fields.ALL_FIELDS), "big_endian": True},
    "no physical addresses": {"fields": fields.C2C_FIELDS & ~fields.PHYS_ADDR},
    "small rounds, lost records": {"round_samples": 7, "lost": 33},
    "clock of its own": {"clock": -1},
}


def vary(description: Description, changes: dict[str, object]) -> Description:
    """The same accesses in a file of another kind."""
    changed = description.changed(**changes)
    if changed.file.fields & fields.CALLCHAIN:
        chained = [replace(a, callchain=(-128 & (1 << 64) - 1, a.ip)) for a in changed.accesses]
        changed = replace(changed, accesses=chained)
    return changed


@cache
def bucket_truth() -> Truth:
    """In a file of any kind."""
    return patterns.futex_bucket().truth()


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_perf_counts_the_same_in_every_variant(name: str, tmp_path: Path) -> None:
    variant = vary(patterns.futex_bucket(), VARIANTS[name])
    path = variant.write(tmp_path / "perf.data")
    options = ["--show-all", "--no-call-graph"]
    check_report(perf_output.parse(perf_output.run_report(path, options)), bucket_truth())


def test_perf_counts_the_same_in_compressed_records_of_the_second_version(tmp_path: Path) -> None:
    if perf_output.version() < (6, 16):
        pytest.skip("this perf is older than 6.16 and does not know PERF_RECORD_COMPRESSED2")
    description = patterns.futex_bucket().changed(compressed=perfdata.COMPRESSED2)
    path = description.write(tmp_path / "perf.data")
    check_report(perf_output.parse(perf_output.run_report(path, ["--show-all"])), bucket_truth())


@pytest.mark.parametrize("compressed", [0, perfdata.COMPRESSED])
def test_perf_reads_the_samples_of_a_pipe(compressed: int, tmp_path: Path) -> None:
    # perf c2c refuses the format of a pipe; perf script reads it, in the machine's own byte order.
    description = patterns.futex_bucket().changed(pipe=True, compressed=compressed)
    path = description.write(tmp_path / "perf.data")
    command = ["perf", "script", "-i", str(path), "-F", "tid,cpu,addr,ip,data_src,weight"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    pattern = r"(\d+) +\[(\d+)\] +([0-9a-f]+) +([0-9a-f]+) \|.*? (\d+) +([0-9a-f]+)"
    found = [re.match(" *" + pattern, line) for line in done.stdout.splitlines()]
    rows = [(int(m[1]), int(m[2]), int(m[3], 16), int(m[4], 16), int(m[5]), int(m[6], 16)) for m in found if m]
    wanted = [(s.tid, s.cpu, s.address, s.data_src, s.weight, s.ip) for s in description.samples()]
    assert rows == wanted
