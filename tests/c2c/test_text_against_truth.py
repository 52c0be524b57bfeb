# SPDX-License-Identifier: GPL-2.0-or-later
"""What lockline reads out of the real perf's text is what the file that perf reported on was made to hold."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from c2c import perf_output
from c2c.description import Counts, Description, LineKey, Truth
from c2c.perfdata_generator import DESCRIPTIONS
from c2c.test_against_perf import as_this_perf_counts
from lockline.c2c.store import Access, Memory
from lockline.c2c.text_import import memory_tables, parse

# Columns that the text has for each line; peers where the report was of peers, else HITM alone.
OF_LINE = {
    "local_hitm": "lcl_hitm",
    "remote_hitm": "rmt_hitm",
    "fill_buffer": "ld_fbhit",
    "l1_hit": "ld_l1hit",
    "l2_hit": "ld_l2hit",
    "llc_hit": "ld_llchit",
    "remote_hit": "rmt_hit",
    "local_dram": "lcl_dram",
    "remote_dram": "rmt_dram",
    "store_l1_hit": "st_l1hit",
    "store_l1_miss": "st_l1miss",
    "store_unknown": "st_na",
}
# And for each of its rows.
OF_ROW = ("local_hitm", "remote_hitm", "store_l1_hit", "store_l1_miss", "store_unknown")
PEERS = {"local_peer": "lcl_peer", "remote_peer": "rmt_peer"}

OPTIONS = {
    "plain": (),
    "nodes": ("-N",),
    "CPUs of nodes": ("-NN",),
    "threads": ("-c", "tid,pid,iaddr,dso"),
    "processes": ("-c", "pid,iaddr"),
    "local": ("-d", "lcl"),
    "remote": ("-d", "rmt"),
    "peers": ("-d", "peer"),
}


def summed(accesses: Sequence[Access], names: Sequence[str]) -> dict[str, int]:
    """Sums of columns; what the text does not tell is nothing."""
    return {name: sum(getattr(access, name) or 0 for access in accesses) for name in names}


def columns_of(peers: bool) -> dict[str, str]:
    """The columns that a report of this kind has."""
    if not peers:
        return OF_LINE
    return {name: stat for name, stat in (OF_LINE | PEERS).items() if name != "peer"}


def wanted(counts: Counts, columns: dict[str, str]) -> dict[str, int]:
    """The same of the truth."""
    return {name: counts[stat] for name, stat in columns.items()}


def key_of(tables: Memory, line: int, address: int, truth: Truth, columns: dict[str, str]) -> LineKey:
    """The line of the truth with this address and these numbers."""
    found = summed([access for access in tables.accesses if access.line == line], tuple(columns))
    candidates = truth.keys_at.get(address, [])
    for key in candidates:
        if wanted(truth.lines[key], columns) == found:
            return key
    raise AssertionError(
        f"{address:#x}: text {found}, truth {[wanted(truth.lines[key], columns) for key in candidates]}"
    )


def check(tables: Memory, truth: Truth, column: Sequence[str], peers: bool) -> None:
    """All lines of perf's table with their counts, and their rows by offset and instruction; column: of the report."""
    shown = [key for key, counts in truth.lines.items() if any(counts[name] for name in column)]
    columns = columns_of(peers)
    keys = [key_of(tables, line.id, line.address, truth, columns) for line in tables.lines]
    assert Counter(keys) == Counter(shown)
    codes = {code.id: code for code in tables.codes}
    for line, key in zip(tables.lines, keys, strict=True):
        rows: dict[tuple[int, int], list[Access]] = {}
        for access in tables.accesses:
            if access.line == line.id and access.offset >= 0 and access.code in codes:
                rows.setdefault((access.offset, codes[access.code].address), []).append(access)
        names = [name for name in OF_ROW if not (peers and "hitm" in name)]
        names += PEERS if peers else ()
        for (offset, ip), accesses in rows.items():
            counts = truth.instructions[key, offset, ip]
            expected = {name: counts[columns[name]] for name in names}
            assert summed(accesses, names) == expected, (hex(line.address), offset, hex(ip))
        for (offset, ip), counts in truth.code_of[key].items():
            if counts["store"] or any(counts[name] for name in column):
                assert (offset, ip) in rows, (hex(line.address), offset, hex(ip))


def text_of(description: Description, directory: Path, options: Sequence[str]) -> str:
    """perf's report of the file."""
    return perf_output.run_report(description.write(directory / "perf.data"), options)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("name", ["futex-bucket", "user-sharing", "peer-snoops", "lock-word"])
def test_the_text_of_perf_is_read_as_perf_meant_it(name: str, options: Sequence[str], tmp_path: Path) -> None:
    description = as_this_perf_counts(DESCRIPTIONS[name]())
    peers = "peer" in options or (name == "peer-snoops" and "-d" not in options)
    truth = description.truth()
    text = text_of(description, tmp_path, options)
    column = {"lcl": ("lcl_hitm",), "rmt": ("rmt_hitm",)}.get(options[-1] if options else "", ("lcl_hitm", "rmt_hitm"))
    if peers:
        column = ("lcl_peer", "rmt_peer")
    if not any(truth.total[name] for name in column):
        # perf prints empty tables then.
        assert not [line for line in text.splitlines() if line.startswith("      0  0x")]
        return
    check(memory_tables(parse(text), "text"), truth, column, peers)


@pytest.mark.parametrize("name", sorted(DESCRIPTIONS))
def test_the_counters_of_the_text_are_read(name: str, tmp_path: Path) -> None:
    description = as_this_perf_counts(DESCRIPTIONS[name]())
    truth = description.truth()
    parsed = parse(text_of(description, tmp_path, []))
    figures = {figure.name: figure.value for figure in memory_tables(parsed, "text").counts}
    for stat in ("nr_entries", "locks", "load", "store", "lcl_hitm", "rmt_hitm", "lcl_peer", "rmt_peer", "noparse"):
        assert figures[stat] == truth.total[stat], stat
