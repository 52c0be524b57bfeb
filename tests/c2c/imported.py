# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs lockline's import of a perf.data file and reads its tables as they are, to compare them with."""

import sqlite3
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

COLLECTOR = Path(__file__).resolve().parents[2] / "build" / "bin" / "lockline-collect"

# Columns of memory_access, and what adds up to each under the names of struct c2c_stats.
COUNTS = {
    "records": ("nr_entries",),
    "loads": ("load",),
    "stores": ("store",),
    "locked": ("locks",),
    "local_hitm": ("lcl_hitm",),
    "remote_hitm": ("rmt_hitm",),
    "local_peer": ("lcl_peer",),
    "remote_peer": ("rmt_peer",),
    "fill_buffer": ("ld_fbhit",),
    "l1_hit": ("ld_l1hit",),
    "l2_hit": ("ld_l2hit",),
    "llc_hit": ("ld_llchit",),
    "remote_hit": ("rmt_hit",),
    "local_dram": ("lcl_dram",),
    "remote_dram": ("rmt_dram",),
    "store_l1_hit": ("st_l1hit",),
    "store_l1_miss": ("st_l1miss",),
    "store_unknown": ("st_na",),
    "blocked": ("blk_data", "blk_addr"),
    "no_map": ("nomap",),
    "no_parse": ("noparse",),
}
WEIGHTS = ("remote_hitm_weight", "local_hitm_weight", "load_weight", "load_weights")


COLUMNS = (*COUNTS, *WEIGHTS)


@dataclass
class Numbers:
    """Sums of rows of memory_access: counts and weights by column, without those of nothing; a bit for each CPU."""

    counts: Counter[str] = field(default_factory=Counter)
    cpu_bits: int = 0

    @property
    def cpus(self) -> set[int]:
        """The CPUs."""
        return {cpu for cpu in range(self.cpu_bits.bit_length()) if self.cpu_bits >> cpu & 1}


@dataclass(frozen=True)
class ImportedLine:
    """One memory_line with the sums of its accesses: of all, by offset, and by offset and instruction."""

    address: int
    space: str
    pid: int
    object: str
    symbol: str
    total: Numbers = field(default_factory=Numbers)
    offsets: dict[int, Numbers] = field(default_factory=dict)
    instructions: dict[tuple[int, int], Numbers] = field(default_factory=dict)


@dataclass(frozen=True)
class Imported:
    """What an import made of a file; symbols: of code, by address."""

    counts: Counter[str]
    lines: list[ImportedLine]
    symbols: dict[int, str]
    meta: dict[str, object]
    problems: list[str]
    sources: list[tuple[str, str]]


def run(path: Path, output: Path, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """`lockline-collect import PATH -o OUTPUT`."""
    command = [str(COLLECTOR), "import", str(path), "-o", str(output), *options]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def _unsigned(address: int) -> int:
    return address & (1 << 64) - 1


def read(path: Path) -> Imported:
    """The tables of memory accesses of a recording."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        # Names are bytes of the file, which need not be text.
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.row_factory = sqlite3.Row
        counts: Counter[str] = Counter()
        for row in connection.execute("SELECT name, count FROM memory_count"):
            counts[row["name"]] += row["count"]
        lines = {
            row["id"]: ImportedLine(_unsigned(row["address"]), row["space"], row["pid"], row["object"], row["symbol"])
            for row in connection.execute("SELECT * FROM memory_line")
        }
        code = {row["id"]: row for row in connection.execute("SELECT * FROM memory_code")}
        query = f"SELECT line, offset, code, cpus, {', '.join(COLUMNS)} FROM memory_access"
        for id_, offset, place, cpus, *values in map(tuple, connection.execute(query)):
            line = lines[id_]
            instruction = offset, _unsigned(code[place]["address"])
            # What the source does not tell is nothing.
            told = [(name, value) for name, value in zip(COLUMNS, values, strict=True) if value]
            bits = int.from_bytes(cpus or b"", "little")
            for numbers in (
                line.total,
                line.offsets.setdefault(offset, Numbers()),
                line.instructions.setdefault(instruction, Numbers()),
            ):
                numbers.cpu_bits |= bits
                for name, value in told:
                    numbers.counts[name] += value
        return Imported(
            counts,
            list(lines.values()),
            {_unsigned(row["address"]): row["symbol"] for row in code.values()},
            dict(connection.execute("SELECT name, value FROM meta").fetchall()),
            [row["problem"] for row in connection.execute("SELECT problem FROM memory_problem ORDER BY place")],
            [(row["kind"], row["event"]) for row in connection.execute("SELECT kind, event FROM memory_source")],
        )


def threads_of(*columns: bytes | None) -> list[tuple[int, int]]:
    """Threads and their records, as the columns threads, thread_set and thread_records have them."""
    listed, bits, records = (column or b"" for column in columns)
    if not bits:
        return list(struct.iter_unpack("<II", listed))
    assert not listed
    threads = [number for number in range(8 * len(bits)) if bits[number // 8] >> number % 8 & 1]
    wide = len(records) == 4 * len(threads)
    return list(zip(threads, struct.unpack(f"<{len(threads)}{'I' if wide else 'B'}", records), strict=True))
