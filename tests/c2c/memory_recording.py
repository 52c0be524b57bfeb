# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of memory accesses without a perf.data file: from a description, or written down line by line."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from c2c.description import Description
from c2c.symbol_images import Image
from lockline.c2c import store
from lockline.recording import memory_rows as rows

# Columns of memory_access by perf's names of what is counted.
COLUMNS = {
    "load": "loads",
    "store": "stores",
    "locks": "locked",
    "lcl_hitm": "local_hitm",
    "rmt_hitm": "remote_hitm",
    "lcl_peer": "local_peer",
    "rmt_peer": "remote_peer",
    "ld_fbhit": "fill_buffer",
    "ld_l1hit": "l1_hit",
    "ld_l2hit": "l2_hit",
    "ld_llchit": "llc_hit",
    "rmt_hit": "remote_hit",
    "lcl_dram": "local_dram",
    "rmt_dram": "remote_dram",
    "st_l1hit": "store_l1_hit",
    "st_l1miss": "store_l1_miss",
    "st_na": "store_unknown",
    "noparse": "no_parse",
    "nomap": "no_map",
}


@dataclass
class MemoryBuilder:
    """Collects rows of the memory tables; every access counts from zero, as a perf.data file's do."""

    kind: str = "perf.data"
    event: str = "cpu/mem-loads,ldlat=30/P"
    meta: Mapping[str, str | int] = field(default_factory=dict)
    lines: dict[tuple[int, str, int], rows.MemoryLine] = field(default_factory=dict)
    codes: dict[tuple[str, int, str], store.Code] = field(default_factory=dict)
    threads: dict[tuple[int, int], store.Thread] = field(default_factory=dict)
    accesses: dict[tuple[int, int, int, int], store.Access] = field(default_factory=dict)
    cpus: dict[tuple[int, int, int, int], set[int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)

    def line(
        self, address: int, space: str = "kernel", pid: int = 0, symbol: str = "", offset: int = 0, program: str = ""
    ) -> int:
        """The line of this address; gives its id."""
        key = (address & -64, space, pid)
        if key not in self.lines:
            number = len(self.lines) + 1
            self.lines[key] = rows.MemoryLine(number, 1, key[0], 64, space, pid, program, symbol, offset, "0", 1)
        return self.lines[key].id

    def code(self, symbol: str, offset: int = 0, space: str = "kernel", address: int = 0, program: str = "") -> int:
        """The instruction at an offset of a function; gives its id."""
        key = (symbol, offset, space)
        if key not in self.codes:
            number = len(self.codes) + 1
            place = address or 0xFFFFFFFF81000000 + number * 0x100
            self.codes[key] = store.Code(number, place, space, symbol, offset, program, "")
        return self.codes[key].id

    def thread(self, tid: int, pid: int = 0, comm: str = "worker") -> int:
        """A thread; gives its id."""
        key = (pid or tid, tid)
        if key not in self.threads:
            self.threads[key] = store.Thread(len(self.threads) + 1, *key, comm)
        return self.threads[key].id

    def add(self, line: int, offset: int, code: int, thread: int = 0, cpus: Iterable[int] = (), **counts: int) -> None:
        """Add accesses; counts by column.  What is not given counts zero; records are loads and stores."""
        key = (line, offset, code, thread)
        row = self.accesses.get(key)
        if row is None:
            row = self.accesses[key] = store.Access(*key, **dict.fromkeys(store.SUMMED, 0))
        counts.setdefault("records", counts.get("loads", 0) + counts.get("stores", 0))
        for name, number in counts.items():
            setattr(row, name, getattr(row, name) + number)
        self.cpus.setdefault(key, set()).update(cpus)

    def write(self, path: Path, problems: Sequence[tuple[int, str]] = ()) -> Path:
        """Write the recording; gives its path."""
        for key, row in self.accesses.items():
            row.cpus = tuple((cpu, cpu) for cpu in sorted(self.cpus[key]))
            row.cpu_count = len(self.cpus[key])
        totals = {
            "nr_entries": sum(row.records or 0 for row in self.accesses.values()),
            "load": sum(row.loads or 0 for row in self.accesses.values()),
            "store": sum(row.stores or 0 for row in self.accesses.values()),
            "noparse": 0,
            **self.totals,
        }
        store.write_recording(
            path,
            store.Memory(
                sources=[rows.MemorySource(1, self.kind, "perf.data", self.event)],
                counts=[rows.MemoryCount(1, name, count) for name, count in totals.items()],
                lines=list(self.lines.values()),
                threads=list(self.threads.values()),
                codes=list(self.codes.values()),
                accesses=list(self.accesses.values()),
                problems=[store.Problem(1, *problem) for problem in problems],
                meta=self.meta,
            ),
        )
        return path


def _function(kernel: Image | None, ip: int) -> tuple[str, int]:
    for symbol in kernel.symbols if kernel else ():
        if symbol.address <= ip < symbol.address + symbol.size:
            return symbol.name, ip - symbol.address
    return "", 0


def write_memory_recording(description: Description, path: Path) -> Path:
    """A recording of the description's accesses, as an import of its perf.data file would hold them."""
    machine = description.file.machine
    samples = list(description.samples())
    builder = MemoryBuilder(
        event="\n".join(event.name for event in description.file.events),
        meta={
            "hostname": machine.hostname,
            "kernel_release": machine.release,
            "architecture": machine.architecture,
            "cpus_online": machine.cpus,
            "begin_ns": min(sample.time for sample in samples),
            "end_ns": max(sample.time for sample in samples),
        },
    )
    for access in description.accesses:
        if not access.address:
            continue
        space = "user" if access.user else "kernel"
        symbol, inside = _function(description.kernel, access.address & -64)
        line = builder.line(access.address, space, access.thread.pid if access.user else 0, symbol, inside)
        name, offset = _function(description.kernel, access.ip)
        counts = {COLUMNS[count]: 1 for count in access.kind.counts if count in COLUMNS}
        builder.add(
            line,
            access.address % 64,
            builder.code(name, offset, space, access.ip),
            builder.thread(access.thread.tid, access.thread.pid, access.thread.comm),
            [access.cpu],
            records=1,
            **counts,
        )
    builder.totals = {
        "nr_entries": len(description.accesses),
        "noparse": sum("noparse" in access.kind.counts for access in description.accesses),
        "load": sum("load" in access.kind.counts for access in description.accesses),
        "store": sum(access.kind.store for access in description.accesses),
    }
    return builder.write(path)
