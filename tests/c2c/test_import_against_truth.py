# SPDX-License-Identifier: GPL-2.0-or-later
"""What lockline imports from generated perf.data files is what they were made to hold, and so what perf c2c counts."""

from collections import Counter
from pathlib import Path

import pytest

from c2c import imported, patterns, perf_output, sharing_patterns
from c2c import perfdata_format as perfdata
from c2c.description import LINE, Counts, Description, LineKey, Truth
from c2c.imported import COUNTS, Imported, ImportedLine, Numbers
from c2c.lock_recording import write_lock_recording
from c2c.perfdata_generator import DESCRIPTIONS
from c2c.scale_pattern import scale
from c2c.test_against_perf import VARIANTS, bucket_truth, vary

# Sums that are not in memory_count: perf prints them from others.
STATS = (
    *("nr_entries", "locks", "store", "st_uncache", "st_noadrs", "st_l1hit", "st_l1miss", "st_na"),
    *("load", "ld_excl", "ld_shared", "ld_uncache", "ld_io", "ld_miss", "ld_noadrs", "ld_fbhit", "ld_l1hit"),
    *("ld_l2hit", "ld_llchit", "lcl_hitm", "rmt_hitm", "tot_hitm", "lcl_peer", "rmt_peer", "tot_peer", "rmt_hit"),
    *("lcl_dram", "rmt_dram", "blk_data", "blk_addr", "nomap", "noparse"),
)


# Each of perf's counts is part of one column.
COLUMN_OF = {name: column for column, names in COUNTS.items() for name in names}
LOADS = ("load", "lcl_peer", "rmt_peer")


def expected(counts: Counts) -> Counter[str]:
    """The columns of memory_access that these counts make, without those of nothing."""
    found: Counter[str] = Counter()
    for name, count in counts.stats.items():
        if count and name in COLUMN_OF:
            found[COLUMN_OF[name]] += count
    for group, (total, number) in counts.weights.items():
        if group in LOADS:
            found["load_weight"] += total
            found["load_weights"] += number
        else:
            found["local_hitm_weight" if group == "lcl_hitm" else "remote_hitm_weight"] += total
    return +found


# By the identity of counts: those of one truth are compared with the imports of many variants.
KNOWN: dict[int, tuple[Counts, Counter[str], int]] = {}


def known(counts: Counts) -> tuple[Counter[str], int]:
    """The columns, and the CPUs as bits, of counts that do not change any more."""
    key = id(counts)
    if key not in KNOWN:
        KNOWN[key] = counts, expected(counts), sum(1 << cpu for cpu in counts.cpus)
    return KNOWN[key][1:]


def differences(numbers: Numbers, counts: Counts) -> dict[str, tuple[int, int]]:
    """Columns in which an import is not the truth: (import, truth)."""
    wanted, cpus = known(counts)
    found = {}
    if numbers.counts != wanted:
        names = numbers.counts.keys() | wanted.keys()
        found = {name: (numbers.counts[name], wanted[name]) for name in names if numbers.counts[name] != wanted[name]}
    if numbers.cpu_bits != cpus:
        found["cpus"] = len(numbers.cpus), len(counts.cpus)
    return found


def owner(line: ImportedLine, truth: Truth) -> LineKey:
    """The line of the truth that an imported line is."""
    candidates = truth.keys_at.get(line.address, [])
    wrong = {key: differences(line.total, truth.lines[key]) for key in candidates}
    for key in candidates:
        if not wrong[key]:
            return key
    raise AssertionError(f"{line.address:#x} ({line.space}): (import, truth) differ: {wrong}")


def check(found: Imported, truth: Truth) -> None:
    """Totals, lines, offsets and instructions are those of the truth."""
    wanted = {name: truth.total[name] for name in STATS}
    assert {name: found.counts[name] for name in STATS} == wanted
    # Accesses without an address are in the totals; whether they are a line is not compared.
    lines = [line for line in found.lines if line.address]
    owners = [owner(line, truth) for line in lines]
    assert Counter(owners) == Counter(key for key in truth.lines if truth.first[key])
    for line, key in zip(lines, owners, strict=True):
        offsets, code = truth.offsets_of[key], truth.code_of[key]
        wrong = {offset: differences(line.offsets.get(offset, Numbers()), counts) for offset, counts in offsets.items()}
        assert not any(wrong.values()), (hex(line.address), wrong)
        assert line.offsets.keys() == offsets.keys()
        wrong_code = {at: differences(line.instructions.get(at, Numbers()), counts) for at, counts in code.items()}
        assert not any(wrong_code.values()), (hex(line.address), wrong_code)
        assert line.instructions.keys() == code.keys()
        if key.user:
            assert line.space == "user"
        elif truth.first[key] >= 1 << 63:
            assert line.space == "kernel"
        else:
            assert line.space != "user"


def import_of(description: Description, directory: Path) -> Imported:
    """Write the file, import it."""
    path = description.write(directory / "perf.data")
    output = directory / "imported.lockline"
    done = imported.run(path, output)
    assert done.returncode == 0, done.stderr
    return imported.read(output)


@pytest.mark.parametrize("name", sorted(DESCRIPTIONS))
def test_lockline_counts_what_the_file_holds(name: str, tmp_path: Path) -> None:
    description = DESCRIPTIONS[name]()
    check(import_of(description, tmp_path), description.truth())


MORE_VARIANTS: dict[str, dict[str, object]] = {
    **VARIANTS,
    "pipe": {"pipe": True},
    "pipe, big-endian": {"pipe": True, "big_endian": True},
    "pipe, compressed": {"pipe": True, "compressed": perfdata.COMPRESSED},
    "compressed again": {"compressed": perfdata.COMPRESSED2},
    "pipe, compressed again": {"pipe": True, "compressed": perfdata.COMPRESSED2},
}


@pytest.mark.parametrize("name", sorted(MORE_VARIANTS))
def test_lockline_counts_the_same_in_every_variant(name: str, tmp_path: Path) -> None:
    check(import_of(vary(patterns.futex_bucket(), MORE_VARIANTS[name]), tmp_path), bucket_truth())


@pytest.mark.parametrize("pipe", [False, True])
def test_the_header_tells_the_machine(pipe: bool, tmp_path: Path) -> None:
    found = import_of(patterns.futex_bucket().changed(pipe=pipe), tmp_path)
    assert found.meta["hostname"] == "lab2"
    assert found.meta["kernel_release"] == "6.12.0-lab"
    assert found.meta["architecture"] == "x86_64"
    assert {event for _, events in found.sources for event in events.splitlines()} == {
        "cpu/mem-loads,ldlat=30/P",
        "cpu/mem-stores/P",
    }


def names_are_right(found: Imported, description: Description) -> None:
    """Kernel code is called as the description's kernel calls it."""
    assert description.kernel
    functions = [symbol for symbol in description.kernel.symbols if not symbol.data]
    kernel_code = {ip: name for ip, name in found.symbols.items() if ip >> 63}
    assert kernel_code
    for ip, name in kernel_code.items():
        (function,) = [symbol.name for symbol in functions if symbol.address <= ip < symbol.address + symbol.size]
        assert name == function, hex(ip)


@pytest.mark.parametrize("option", ["--kallsyms", "--system-map"])
def test_kernel_code_and_data_are_named(option: str, tmp_path: Path) -> None:
    description = sharing_patterns.true_sharing()
    assert description.kernel
    path = description.write(tmp_path / "perf.data")
    # The System.map has the addresses from before KASLR.
    shift = description.shift if option == "--system-map" else 0
    symbols = tmp_path / "symbols"
    symbols.write_text(description.kernel.kallsyms(shift), encoding="utf-8")
    done = imported.run(path, tmp_path / "out.lockline", [option, str(symbols)])
    assert done.returncode == 0, done.stderr
    found = imported.read(tmp_path / "out.lockline")
    names_are_right(found, description)
    assert [line.symbol for line in found.lines] == ["vm_committed_as"]


def test_a_recording_of_the_same_boot_names_kernel_code(tmp_path: Path) -> None:
    description = patterns.futex_bucket()
    path = description.write(tmp_path / "perf.data")
    waits = write_lock_recording(description, tmp_path / "waits.lockline")
    done = imported.run(path, tmp_path / "out.lockline", ["--recording", str(waits.path)])
    assert done.returncode == 0, done.stderr
    found = imported.read(tmp_path / "out.lockline")
    names = {name for name in found.symbols.values() if name}
    assert {"native_queued_spin_lock_slowpath", "futex_wake"} <= names


@pytest.mark.laboratory
def test_of_a_large_file_the_lines_that_perf_shows_are_kept(tmp_path: Path) -> None:
    description = scale(100_000)
    path = description.write(tmp_path / "perf.data")
    done = imported.run(path, tmp_path / "out.lockline")
    assert done.returncode == 0, done.stderr
    found = {line.address: line for line in imported.read(tmp_path / "out.lockline").lines}
    shown = perf_output.parse(perf_output.run_report(path)).lines
    truth = description.truth(lines={line.address for line in shown})
    # It is large: there was no room for all.
    assert len(found) < len({access.address & -LINE for access in description.accesses})
    assert len(shown) > 40
    for line in shown:
        assert not differences(found[line.address].total, truth.line(line.address)), hex(line.address)
