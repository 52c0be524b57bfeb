# SPDX-License-Identifier: GPL-2.0-or-later
"""A report whose figures are known, the layouts to print it in, and what tests ask of its import."""

from collections.abc import Sequence

from c2c.report_text import Line, Offset, Report, Style
from lockline.c2c.store import Access, Memory
from lockline.c2c.text_import import memory_tables
from lockline.c2c.text_parse import parse

KERNEL = 0xFFFFFFFF81000000
BUCKET = 0xFFFF888104A3B7C0

REPORT = Report(
    lines=(
        Line(
            BUCKET,
            (
                Offset(
                    *(0x0, KERNEL + 0x1F0, 21, 90),
                    loads=130,
                    cycles=(700, 310, 25),
                    cpus=(0, 1, 2, 3, 9),
                    symbol="table_pending",
                    object="[kernel.kallsyms]",
                    source="table.c:41",
                ),
                Offset(
                    *(0x4, KERNEL + 0x2E4, 8, 33, 41, 5),
                    loads=60,
                    cycles=(650, 295, 30),
                    cpus=(4, 8, 9, 10),
                    symbol="native_queued_spin_lock_slowpath",
                    object="[kernel.kallsyms]",
                    source="qspinlock.c:474",
                ),
                Offset(
                    *(0x10, KERNEL + 0x310, 0, 0, 17, 2, 3),
                    symbol="table_insert",
                    object="[kernel.kallsyms]",
                    source="table.c:77",
                    cpus=(4, 12),
                    comm="fill thread",
                ),
            ),
            fill_buffer=37,
            node="0-1",
        ),
        Line(
            0x7F3A51C02040,
            (
                Offset(0x18, 0x401136, 0, 12, loads=40, cycles=(0, 88, 9), tid=1002),
                Offset(
                    *(0x20, 0x40119A, 0, 0, 30, 1),
                    symbol="std::map<int, Shard, std::less<int> >::operator[]",
                    object="libshards.so.2",
                    source="shards.hpp:310",
                    tid=1003,
                ),
            ),
            node="N/A",
        ),
    )
)

HITM_STYLES = [
    Style("4.10", pid=True),
    Style("5.4", pid=True),
    Style("5.4", pid=True, tid=True, node_info=2),
    Style("5.11"),
    Style("5.11", node_info=1),
    Style("5.17", source=False),
    Style("6.1"),
    Style("6.1", node_info=2, pid=True, tid=True),
    Style("6.1", tid=True, code=False),
    Style("6.1", browser=True),
]
PEER_STYLES = [Style("6.1", peer=True), Style("6.1", peer=True, node_info=1)]
VENDOR_STYLES = [Style("5.4", vendor="llc", tid=True), Style("5.4", vendor="all", pid=True)]
STYLES = HITM_STYLES + PEER_STYLES + VENDOR_STYLES


def tables(text: str, report: int | None = None) -> Memory:
    """The memory tables of a text."""
    return memory_tables(parse(text, report), "text")


def of_line(memory: Memory, address: int) -> list[Access]:
    """The accesses of the lines that have an address."""
    numbers = {line.id for line in memory.lines if line.address == address}
    return [access for access in memory.accesses if access.line in numbers]


def total(accesses: Sequence[Access], name: str) -> int | None:
    """The sum of a count where the report has it, or None."""
    values = [getattr(access, name) for access in accesses if getattr(access, name) is not None]
    return sum(values) if values else None
