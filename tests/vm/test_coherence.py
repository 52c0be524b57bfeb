# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines of a real kernel, each access followed by the emulator: perf c2c and lockline count what it counted."""

import json
import re
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from boots import TOP, Boot, Section
from coherence_samples import describe, hottest, kernel_image, program_mappings, without_spinning
from coherence_truth import (
    CLEAN_ELSEWHERE,
    LINE,
    MODIFIED_ELSEWHERE,
    NOWHERE,
    OWN,
    USER_END,
    Row,
    Sums,
    Truth,
    read_truth,
    sums_by,
)
from guest import Guest
from matrix import CPU, NATIVE, chosen
from watched_line import BUCKET_MEMBERS, FIND_BUCKET, START_LOAD, show_watched

from c2c import imported, perf_output
from c2c.imported import Numbers
from c2c.perfdata_format import Machine
from c2c.symbol_images import Image

KERNEL = "trixie"
TURNS, ROUNDS = 1000, 2000
WATCHED_TURNS, WATCHED_ROUNDS = 200, 100
MEMBERS, MEMBER, TWO_LINES, FUTEX, WATCHED_MEMBERS = range(1, 6)
SECOND_MEMBER = 32
MOST_SAMPLES, MOST_OWN_LOADS = 300_000, 20_000
ROWS = 1 << 22
# dbf408b6678a ("plugins: optimize cpu_index code generation"): plugins get the CPU for which code was translated.
FIRST_TO_MIX_UP_CPUS = 10
# Share of accesses that watching may miss: while the collector that reads the results is preempted in the kernel,
# no BPF program runs on its CPU.
MOST_MISSED = 0.1

LOAD = f"""
{START_LOAD}
cat /proc/$load/maps > maps
echo members {TURNS} {MEMBERS} >&3; answer
echo member {TURNS} {MEMBER} >&3; answer
echo lines {TURNS} {TWO_LINES} >&3; answer
"""
# With the waits for the bucket's lock, so that lockline names it.  It names this lock by a stack, and takes two
# of each CPU until the collector comes to read them: followed, that is often after the load.  So each wait takes one.
MULTI_COMMAND = f"""
cat /proc/kallsyms > kallsyms
cp /sys/kernel/btf/vmlinux btf
uname -r > release
{LOAD}
lockline-collect record -a -q --sample 1 -o run.lockline -- \\
    sh -c 'echo futex {ROUNDS} {FUTEX} >&3; read -r answer <&4; echo "$answer" >> told' || exit
exec 3>&-
wait
"""
# Watched all the time, too: the line of two members, and then the bucket's, of which a kprobe tells the address.
SINGLE_COMMAND = f"""
cp /sys/kernel/btf/vmlinux btf
{LOAD}
lockline-collect watch --full -q -o members.lockline user:$load:members_line --offsets 0-7,32-39 -- \\
    sh -c 'echo members {WATCHED_TURNS} {WATCHED_MEMBERS} >&3; read -r answer <&4; echo "$answer" >> told' || exit
{FIND_BUCKET}
lockline-collect watch --full -q -o futex.lockline $bucket --offsets 0-23 -- \\
    sh -c 'echo futex {WATCHED_ROUNDS} {FUTEX} >&3; read -r answer <&4; echo "$answer" >> told' || exit
exec 3>&-
wait
"""


@dataclass(frozen=True)
class Followed:
    """A guest that was followed: its files, and the truth of its lines."""

    guest: Guest
    truth: Truth

    def told(self, phase: int) -> Any:
        """What the load said of one of its phases."""
        (found,) = [
            entry for entry in map(json.loads, self.guest.text("told").splitlines()) if entry.get("phase") == phase
        ]
        return found


def section(threads: str, script: str) -> Section:
    """A guest whose lines are followed; threads: single, multi."""
    where = Boot(
        KERNEL,
        cpu=CPU[NATIVE],
        # Huge pages take a row for each of their lines as they are cleared, and one can move what is followed.
        append="tsc=reliable transparent_hugepage=never",
        threads=threads,
        plugin=TOP / "build" / "vm" / "coherence.so",
        # The emulator places the memory that it shares for results (scripts/vm) before the guest's own.
        plugin_options=f"out={{out}}/truth,rows={ROWS},memory=2048",
        label=f"followed-{threads}",
    )
    return Section(where, "coherence", script)


def followed_guest(results: Callable[[Section], Guest], wanted: Section) -> Followed:
    """Skips where the emulator takes no plugin, or tells it the wrong CPU."""
    qemu = shutil.which("qemu-system-x86_64")
    if not qemu:
        pytest.skip("qemu-system-x86_64 is not installed: scripts/setup kernels")
    if "-plugin" not in subprocess.run([qemu, "-help"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("this qemu was built without plugins")
    version = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version (\d+)", version)
    assert found, version
    if wanted.boot.threads == "single" and int(found[1]) >= FIRST_TO_MIX_UP_CPUS:
        pytest.skip(f"qemu {found[1]} tells plugins the wrong CPU where CPUs take turns in one thread")
    guest = results(wanted)
    return Followed(guest, read_truth(guest.directory / "truth"))


MULTI, SINGLE = section("multi", MULTI_COMMAND), section("single", SINGLE_COMMAND)


def threads_of(wanted: Section) -> str:
    """For the names of tests."""
    return wanted.boot.threads


@pytest.fixture(scope="module", params=chosen(MULTI), ids=threads_of)
def multi(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Followed:
    """A thread for each CPU."""
    return followed_guest(results, request.param)


@pytest.fixture(scope="module", params=chosen(SINGLE), ids=threads_of)
def single(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Followed:
    """All CPUs in turn."""
    return followed_guest(results, request.param)


@pytest.fixture(scope="module", params=chosen(MULTI, SINGLE), ids=threads_of)
def followed(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Followed:
    """Either."""
    return followed_guest(results, request.param)


def test_no_access_is_lost(multi: Followed) -> None:
    assert {cpu.number for cpu in multi.truth.cpus} == {0, 1}
    for cpu in multi.truth.cpus:
        assert cpu.followed > 100_000
        assert (cpu.lost, cpu.outside, cpu.unplaced) == (0, 0, 0), cpu


@pytest.mark.parametrize("phase", [MEMBERS, MEMBER])
def test_strict_turns_on_a_line_are_counted_exactly(followed: Followed, phase: int) -> None:
    told = followed.told(phase)
    assert told["values"] == ([TURNS, TURNS] if phase == MEMBERS else [2 * TURNS, 2 * TURNS])
    line = told["members"][0] & -LINE
    rows = [row for row in followed.truth.of_phase(phase).rows if row.line == line]
    (whole,) = sums_by(rows, lambda row: row.line).values()
    # Each turn loads what the other has modified, and then takes the line from it; the first finds it nowhere.
    assert whole.loads == [0, 2 * TURNS - 1, 0, 1]
    assert whole.stores == [1, 0, 2 * TURNS - 1, 0]
    by_offset = sums_by(rows, lambda row: row.offset)
    if phase == MEMBER:
        assert by_offset.keys() == {0}
        return
    assert by_offset.keys() == {0, SECOND_MEMBER}
    assert {offset: sums.hitm for offset, sums in by_offset.items()} == {0: TURNS - 1, SECOND_MEMBER: TURNS}
    assert [by_offset[0].cpus, by_offset[SECOND_MEMBER].cpus] == [{0}, {1}]


def test_two_lines_share_nothing(followed: Followed) -> None:
    members = followed.told(TWO_LINES)["members"]
    rows = [row for row in followed.truth.of_phase(TWO_LINES).rows if row.address in members]
    by_line = sums_by(rows, lambda row: row.line)
    assert len(by_line) == 2
    for sums in by_line.values():
        assert (sums.loads, sums.stores) == ([TURNS - 1, 0, 0, 1], [TURNS, 0, 0, 0])


@dataclass(frozen=True)
class Samples:
    """A perf.data file of chosen lines, and the rows that it was made of."""

    path: Path
    rows: list[Row]
    lines: list[int]
    kernel: Image
    kallsyms: Path
    vmlinux: Path


def function_of(kernel: Image) -> Callable[[int], str]:
    """Names of kernel functions by address."""
    symbols = [symbol for symbol in kernel.symbols if not symbol.data]
    begins = [symbol.address for symbol in symbols]
    return lambda address: symbols[bisect_right(begins, address) - 1].name


def bucket_line(rows: Iterable[Row], kernel: Image) -> int:
    """The line of the futex bucket that is used most: an atomic instruction of this function counts its waiters."""
    function = function_of(kernel)
    found = [row for row in rows if row.atomics and function(row.instruction) == "futex_q_unlock"]
    by_line = sums_by(found, lambda row: row.line)
    return max(by_line, key=lambda line: by_line[line].records)


def write_samples(followed: Followed, directory: Path, user: bool) -> Samples:
    """Of the load's own lines, or of the kernel's hottest ones."""
    guest = followed.guest
    kernel = kernel_image(guest.text("kallsyms"))
    told = followed.told(MEMBERS if user else FUTEX)
    load = json.loads(guest.text("told").splitlines()[0])["pid"]
    program = TOP / "build" / "workloads" / "shared_lines"
    mappings = program_mappings(guest.text("maps"), load, program.name, str(program))
    if user:
        lines = sorted({member & -LINE for phase in (MEMBERS, MEMBER) for member in followed.told(phase)["members"]})
        lines += [member & -LINE for member in followed.told(TWO_LINES)["members"]]
        rows = [row for row in followed.truth.rows if row.line in lines and row.phase != FUTEX]
    else:
        rows = [row for row in followed.truth.of_phase(FUTEX).rows if row.address >= USER_END and not row.user]
        rows = without_spinning(rows, MOST_OWN_LOADS)
        lines = hottest(rows, bucket_line(rows, kernel), MOST_SAMPLES)
        rows = [row for row in rows if row.line in set(lines)]
    release = guest.text("release").strip()
    machine = Machine(cpus=2, hostname="(none)", release=release, perf_version=release, memory_bytes=1 << 30)
    description = describe(rows, lines, machine, kernel, load, mappings, begin=told["begin_ns"])
    return Samples(
        description.write(directory / "perf.data"),
        rows,
        lines,
        kernel,
        guest.directory / "kallsyms",
        kernel.write_elf(directory / "vmlinux", description.shift),
    )


@pytest.fixture(scope="module", params=["kernel", "user"])
def samples(request: pytest.FixtureRequest, multi: Followed, tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """The truth as a perf.data file."""
    return write_samples(multi, tmp_path_factory.mktemp(request.param), request.param == "user")


def of_line(rows: Iterable[Row], line: int) -> list[Row]:
    """The rows of a line."""
    return [row for row in rows if row.line == line]


def test_perf_counts_the_same(samples: Samples) -> None:
    options = ["--show-all", "-k", str(samples.vmlinux)]
    report = perf_output.parse(perf_output.run_report(samples.path, options))
    assert sorted(line.address for line in report.lines) == sorted(samples.lines)
    truth = sums_by(samples.rows, lambda row: row.line)
    for line in report.lines:
        sums = truth[line.address]
        counts = {
            "local": sums.hitm,
            "remote": 0,
            "nr_entries": sums.records,
            "load": sum(sums.loads),
            "store": sum(sums.stores),
            "ld_l1hit": sums.loads[OWN],
            "ld_llchit": sums.loads[CLEAN_ELSEWHERE],
            "lcl_dram": sums.loads[NOWHERE],
            "st_l1hit": sums.stores[OWN],
            "st_l1miss": sums.stores[MODIFIED_ELSEWHERE] + sums.stores[CLEAN_ELSEWHERE] + sums.stores[NOWHERE],
        }
        assert {name: line.counts[name] for name in counts} == counts, hex(line.address)
        code = sums_by(of_line(samples.rows, line.address), lambda row: (row.offset, row.instruction))
        shown = {(row.offset, row.ip): row for row in line.rows}
        assert shown.keys() == {at for at, part in code.items() if part.hitm or sum(part.stores)}
        for at, row in shown.items():
            part = code[at]
            assert (row.records, row.cpus) == (part.records, len(part.cpus)), (hex(line.address), at)
            # Of large counts the printed share has too few digits to give them back exactly.
            assert row.counts["local"] == pytest.approx(part.hitm, abs=1 + sums.hitm / 10_000)
            assert row.counts["st_l1hit"] == pytest.approx(part.stores[OWN], abs=1 + sum(sums.stores) / 10_000)
    hitm = [line.counts["local"] for line in report.lines if line.counts["local"]]
    assert hitm == sorted(hitm, reverse=True)


def counted(numbers: Numbers) -> tuple[int, int, int, int, int, int, set[int]]:
    """Of lockline's import: what can be compared with sums."""
    names = ("records", "loads", "stores", "local_hitm", "l1_hit", "store_l1_hit")
    found = [numbers.counts[name] for name in names]
    return found[0], found[1], found[2], found[3], found[4], found[5], numbers.cpus


def expected(sums: Sums) -> tuple[int, int, int, int, int, int, set[int]]:
    """The same of the truth."""
    loads, stores = sum(sums.loads), sum(sums.stores)
    return loads + stores, loads, stores, sums.hitm, sums.loads[OWN], sums.stores[OWN], sums.cpus


def test_lockline_counts_the_same(samples: Samples, tmp_path: Path) -> None:
    done = imported.run(samples.path, tmp_path / "lines.lockline", ["--kallsyms", str(samples.kallsyms)])
    assert done.returncode == 0, done.stderr
    found = imported.read(tmp_path / "lines.lockline")
    lines = {line.address: line for line in found.lines}
    assert lines.keys() == set(samples.lines)
    for address, line in lines.items():
        rows = of_line(samples.rows, address)
        by_offset = sums_by(rows, lambda row: row.offset)
        code = sums_by(rows, lambda row: (row.offset, row.instruction))
        (whole,) = sums_by(rows, lambda row: row.line).values()
        assert counted(line.total) == expected(whole), hex(address)
        assert {at: counted(part) for at, part in line.offsets.items()} == {
            at: expected(part) for at, part in by_offset.items()
        }
        assert {at: counted(part) for at, part in line.instructions.items()} == {
            at: expected(part) for at, part in code.items()
        }


def test_the_join_names_the_bucket_its_lock_and_its_members(multi: Followed, tmp_path: Path) -> None:
    samples = write_samples(multi, tmp_path, user=False)
    bucket = samples.lines[0]
    command = [TOP / "build/bin/lockline", "c2c", "report", samples.path, "--kallsyms", samples.kallsyms]
    command += ["--recording", multi.guest.recording, "--btf", multi.guest.directory / "btf"]
    command += ["--format", "json", "--addresses"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = {int(line["address"], 16): line for line in json.loads(done.stdout)["lines"]}
    line = lines[bucket]
    assert (line["type"], line["type_source"]) == ("futex_hash_bucket", "lock")
    (lock,) = line["locks"]
    assert (lock["name"], lock["join"], lock["offset"]) == ("futex_hash_bucket.lock", "address", 4)
    assert lock["waits"] > 0
    truth = sums_by(of_line(samples.rows, bucket), lambda row: row.offset)
    found = {offset["offset"]: offset for offset in line["offsets"]}
    assert {at: (part["hitm"]["total"], part["loads"], part["stores"]) for at, part in found.items()} == {
        at: (part.hitm, sum(part.loads), sum(part.stores)) for at, part in truth.items()
    }
    members = {at: str(part["member"]) for at, part in found.items()}
    assert {at: members[at] for at in BUCKET_MEMBERS} == BUCKET_MEMBERS
    # The slow path writes bytes of the lock's word, too.
    assert all(name.startswith("lock") for at, name in members.items() if at not in BUCKET_MEMBERS), members
    print(f"\n{line['hitm']['total']} HITM on the line of the bucket, verdict {line['verdict']}")


def watched_by_offset(line: Any) -> dict[int, tuple[int, int]]:
    """Accesses and transfers by offset; an instruction that reads and writes makes two accesses."""
    return {part["offset"]: (part["reads"] + part["writes"], part["transfers"]) for part in line["offsets"]}


def test_watched_turns_are_transfers(single: Followed) -> None:
    line = show_watched(single.guest.directory / "members.lockline", single.guest.directory / "btf")
    told = single.told(WATCHED_MEMBERS)
    rows = [row for row in single.truth.of_phase(WATCHED_MEMBERS).rows if row.address in told["members"]]
    (truth,) = sums_by(rows, lambda row: row.line).values()
    assert (truth.transfers, truth.records) == (2 * WATCHED_TURNS - 1, 4 * WATCHED_TURNS)
    watched = watched_by_offset(line)
    # The load also clears both members before, and after that reads what the other CPU has written last.
    missed = truth.records + 4 - sum(accesses for accesses, _ in watched.values())
    print(
        f"\n{missed} of {truth.records + 4} accesses missed, {line['transfers']} transfers, {truth.transfers} + 1 true"
    )
    assert 0 <= missed <= truth.records * MOST_MISSED
    assert abs(truth.transfers + 1 - line["transfers"]) <= 2 * missed


def test_a_watched_bucket(single: Followed) -> None:
    line = show_watched(single.guest.directory / "futex.lockline", single.guest.directory / "btf")
    bucket = int(line["line"]["address"], 16)
    rows = [row for row in single.truth.of_phase(FUTEX).rows if row.line == bucket]
    truth = sums_by(rows, lambda row: row.offset)
    watched = watched_by_offset(line)
    missed = 0
    for offset, sums in sorted(truth.items()):
        accesses, transfers = watched.get(offset, (0, 0))
        print(
            f"\noffset {offset}: {accesses} accesses of {sums.records}, {transfers} transfers of {sums.transfers}",
            end="",
        )
        assert 0 <= sums.records - accesses <= max(4, sums.records * MOST_MISSED), offset
        missed += sums.records - accesses
    # An access that was missed takes a transfer with it, or leaves it to the next access.  And the order is that of the
    # times taken in the exceptions: if the CPUs change places between an access and that, two swap their order.
    transfers = sum(sums.transfers for sums in truth.values())
    unsure = 2 * missed + max(10, transfers // 10)
    assert abs(transfers - line["transfers"]) <= unsure
    for offset, sums in truth.items():
        for other, others in truth.items():
            if sums.transfers - others.transfers > 2 * unsure:
                assert watched[offset][1] > watched.get(other, (0, 0))[1], (offset, other)
    assert line["line"]["type"] == "futex_hash_bucket"
    assert [(lock["name"], lock["offset"]) for lock in line["locks"]] == [("futex_hash_bucket.lock", 4)]
    assert {part["offset"]: part["member"] for part in line["offsets"]} == BUCKET_MEMBERS
