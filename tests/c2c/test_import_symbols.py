# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of code and variables in imported files: from the right kernel and the right files, or none at all."""

import os
import re
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from c2c import imported, patterns, sharing_patterns
from c2c.access_kinds import INTEL
from c2c.description import Builder, Description, Thread, intel_events
from c2c.imported import COLLECTOR, Imported
from c2c.perfdata_format import File, Machine, Mapping
from c2c.symbol_images import Image

SCHEMA = Path(__file__).resolve().parents[2] / "userspace" / "collector" / "recording" / "recording.sql"


def run(path: Path, output: Path, options: Sequence[str], cache: Path) -> subprocess.CompletedProcess[str]:
    """An import whose build-id cache is a directory of the test's own."""
    environment = {**os.environ, "PERF_BUILDID_DIR": str(cache)}
    command = [str(COLLECTOR), "import", str(path), "-o", str(output), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def import_with(path: Path, options: Sequence[str], cache: Path | None = None) -> Imported:
    """An import that has to work."""
    output = path.with_suffix(".lockline")
    done = run(path, output, options, cache or path.parent / "no-cache")
    assert done.returncode == 0, done.stderr
    return imported.read(output)


def name_at(image: Image, address: int, data: bool) -> str:
    """The symbol of an image at an address, or ''."""
    for symbol in image.symbols:
        if symbol.data == data and symbol.address <= address < symbol.address + symbol.size:
            return symbol.name
    return ""


def moved(text: str, by: int) -> str:
    """kallsyms with all addresses moved."""
    lines = []
    for line in text.splitlines():
        address, rest = line.split(" ", 1)
        lines.append(f"{int(address, 16) + by:016x} {rest}\n")
    return "".join(lines)


@pytest.fixture
def lock_word(tmp_path: Path) -> Path:
    """A file whose accesses are the kernel's, to a static variable."""
    return sharing_patterns.lock_word().write(tmp_path / "perf.data")


def check_kernel_names(found: Imported) -> None:
    """All code and the variable have the names of the image."""
    image = patterns.kernel()
    assert found.symbols == {address: name_at(image, address, False) for address in found.symbols}
    assert "native_queued_spin_lock_slowpath" in found.symbols.values()
    line = image.symbol("inode_hash_lock").address // 64 * 64
    (symbol,) = (found_line.symbol for found_line in found.lines if found_line.address == line)
    assert symbol in ("inode_hash_lock", "")  # variables are named only by a table that has enough of them


@pytest.mark.parametrize("by", [0, -0x1C00_0000, 0x200_0000])
@pytest.mark.parametrize("option", ["--kallsyms", "--system-map"])
def test_a_given_table_is_moved_to_where_the_kernel_was(lock_word: Path, option: str, by: int) -> None:
    table = lock_word.with_name("table")
    table.write_text(moved(patterns.kernel().kallsyms(), by))
    check_kernel_names(import_with(lock_word, [option, str(table)]))


def test_a_table_with_many_variables_names_static_lines(lock_word: Path) -> None:
    table = lock_word.with_name("table")
    image = patterns.kernel()
    more = "".join(f"{image.data[1] + 0x100000 + 16 * number:016x} d other_{number}\n" for number in range(1000))
    table.write_text(image.kallsyms() + more)
    found = import_with(lock_word, ["--kallsyms", str(table)])
    line = image.symbol("inode_hash_lock").address // 64 * 64
    assert [found_line.symbol for found_line in found.lines if found_line.address == line] == ["inode_hash_lock"]


def test_without_a_source_nothing_is_named(lock_word: Path) -> None:
    found = import_with(lock_word, [])
    assert set(found.symbols.values()) == {""}
    assert str(found.meta["kernel_symbols"]).startswith("none: the file is of another kernel")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda text: moved(text, 0x123), "is of another kernel"),
        (lambda text: "\n".join("0" * 16 + line[16:] for line in text.splitlines()), "all addresses are 0"),
    ],
)
def test_a_table_of_something_else_is_refused(lock_word: Path, change: object, expected: str) -> None:
    table = lock_word.with_name("table")
    assert callable(change)
    table.write_text(change(patterns.kernel().kallsyms()))
    output = lock_word.with_name("out.lockline")
    done = run(lock_word, output, ["--kallsyms", str(table)], lock_word.parent / "no-cache")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert expected in line
    assert not list(lock_word.parent.glob("out.lockline*"))


def test_a_missing_table_is_told_in_one_line(lock_word: Path) -> None:
    done = run(lock_word, lock_word.with_name("out"), ["--system-map", "/none/such"], lock_word.parent)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["lockline: cannot read --system-map /none/such: No such file or directory"]


def test_the_build_id_cache_of_perf_has_the_kernel(lock_word: Path) -> None:
    image = patterns.kernel()
    text = image.build_id.hex()
    place = lock_word.parent / "cache" / ".build-id" / text[:2] / text[2:]
    place.mkdir(parents=True)
    (place / "kallsyms").write_text(image.kallsyms())
    found = import_with(lock_word, [], lock_word.parent / "cache")
    check_kernel_names(found)
    assert found.meta["kernel_symbols"] == "perf's build-id cache"


def make_recording(path: Path, image: Image, facts: dict[str, str]) -> Path:
    """A recording that knows the frames of one function."""
    function = image.symbol("native_queued_spin_lock_slowpath")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA.read_text())
        connection.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
        for offset in (0x30, 0x80):
            connection.execute(
                "INSERT INTO frame VALUES (0, ?, ?, ?, '')",
                (function.address + offset - (1 << 64), function.name, offset),
            )
        connection.commit()
    return path


FACTS = {"hostname": "lab3", "kernel_release": "6.12.0-lab"}


def test_a_recording_of_the_same_boot_names_what_it_has_seen(lock_word: Path) -> None:
    image = patterns.kernel()
    facts = {**FACTS, "kernel_text_address": hex(image.text[0])}
    recording = make_recording(lock_word.with_name("waits"), image, facts)
    found = import_with(lock_word, ["--recording", str(recording)])
    slow_path = image.symbol("native_queued_spin_lock_slowpath")
    expected = {
        address: slow_path.name if slow_path.address <= address <= slow_path.address + 0x80 else ""
        for address in found.symbols
    }
    assert found.symbols == expected
    assert slow_path.name in expected.values()


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({**FACTS, "hostname": "other"}, "it is of another machine"),
        ({**FACTS, "kernel_release": "6.1.0"}, "it is of another kernel"),
        ({**FACTS, "kernel_text_address": "0xffffffff81000000"}, "it is of another boot"),
        (FACTS, "the kernel's address is not known for both"),
    ],
)
def test_a_recording_of_something_else_is_refused(lock_word: Path, facts: dict[str, str], why: str) -> None:
    recording = make_recording(lock_word.with_name("waits"), patterns.kernel(), facts)
    done = run(lock_word, lock_word.with_name("out"), ["--recording", str(recording)], lock_word.parent)
    assert done.returncode == 1
    assert why in done.stderr


SOURCE = """
char start_of_data = 1;
long counters[8] __attribute__((aligned(64))) = {1, 2};
long totals[8192] __attribute__((aligned(64)));
__attribute__((noinline)) void add_a(void) { counters[0]++; totals[4096]++; }
__attribute__((noinline)) void add_b(void) { counters[1]++; totals[4097]++; }
int main(void) { add_a(); add_b(); return 0; }
"""
BASE = 0x5555_0000_0000
PID = 4242
PAGE = 0x1000


@dataclass(frozen=True)
class Program:
    """A program as gcc makes it, and what it looks like when it runs at BASE."""

    path: Path
    build_id: bytes
    symbols: dict[str, int]
    mappings: list[Mapping]

    def file(self, directory: Path, build_id: bytes, identity: tuple[int, tuple[int, int]] = (99, (8, 1))) -> Path:
        """A perf.data file of its accesses to a variable with and one without a place in the file."""
        mappings = [
            replace(found, build_id=build_id, inode=identity[0], device=identity[1])
            if found.name.startswith("/")
            else found
            for found in self.mappings
        ]
        machine = Machine(cpus=2, hostname=socket.gethostname())
        builder = Builder(machine, range(2), [Thread(PID, PID + cpu, "program") for cpu in range(2)])
        for function, offset in (("add_a", 0), ("add_b", 8)):
            for variable, more in (("counters", 0), ("totals", 4096 * 8)):
                address = BASE + self.symbols[variable] + more + offset
                builder.add(address, INTEL["local HITM"], BASE + self.symbols[function] + 4, 10, user=True)
        file = File(machine, intel_events(machine.cpus), mappings=mappings)
        return Description("program", file, builder.accesses).write(directory / "perf.data")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program, and the mappings that its segments make."""
    path = tmp_path_factory.mktemp("program") / "program"
    source = path.with_suffix(".c")
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O1", "-pie", "-fPIE", "-Wl,--build-id", "-o", path, source], check=True)
    listed = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    symbols = {words[2]: int(words[0], 16) for words in map(str.split, listed.splitlines()) if len(words) == 3}
    headers = subprocess.run(["readelf", "-lnW", path], check=True, capture_output=True, text=True).stdout
    mappings = []
    for words in map(str.split, headers.splitlines()):
        if not words or words[0] != "LOAD":
            continue
        offset, address, _, in_file, in_memory = (int(word, 16) for word in words[1:6])
        begin, end = address // PAGE * PAGE, (address + in_file + PAGE - 1) // PAGE * PAGE
        mappings.append(
            Mapping(PID, BASE + begin, end - begin, offset // PAGE * PAGE, str(path), data="E" not in words)
        )
        rest = (address + in_memory + PAGE - 1) // PAGE * PAGE
        if rest > end:
            mappings.append(Mapping(PID, BASE + end, rest - end, BASE + end, "//anon", protection=3, data=True))
    found = re.search(r"Build ID: ([0-9a-f]+)", headers)
    assert found
    return Program(path, bytes.fromhex(found[1]), symbols, mappings)


def user_names(found: Imported) -> tuple[set[str], set[str]]:
    """Names of user code, and of user lines."""
    return set(found.symbols.values()) - {""}, {line.symbol for line in found.lines} - {""}


NAMED = ({"add_a", "add_b"}, {"counters", "totals"})
NOTHING: tuple[set[str], set[str]] = (set(), set())


def test_user_code_and_variables_are_named_by_the_file_itself(program: Program, tmp_path: Path) -> None:
    path = program.file(tmp_path, program.build_id)
    assert user_names(import_with(path, [])) == NAMED
    with closing(sqlite3.connect(path.with_suffix(".lockline"))) as connection:
        lines = {line for (line,) in connection.execute("SELECT line FROM memory_code WHERE symbol = 'add_a'")}
        offsets = dict(connection.execute("SELECT symbol, symbol_offset FROM memory_line"))
    number = 1 + SOURCE[: SOURCE.index("void add_a")].count("\n")
    assert lines == {f"{program.path.with_suffix('.c')}:{number}"}
    assert offsets == {"counters": 0, "totals": 4096 * 8}
    import_with(path, ["--no-source"])
    with closing(sqlite3.connect(path.with_suffix(".lockline"))) as connection:
        assert connection.execute("SELECT DISTINCT line FROM memory_code").fetchall() == [("",)]


def test_another_file_of_that_name_names_nothing(program: Program, tmp_path: Path) -> None:
    path = program.file(tmp_path, patterns.build_id("another"))
    assert user_names(import_with(path, [])) == NOTHING


def test_without_a_build_id_the_file_must_be_the_same_and_older(program: Program, tmp_path: Path) -> None:
    status = program.path.stat()
    device = os.major(status.st_dev), os.minor(status.st_dev)
    path = program.file(tmp_path, b"", (status.st_ino, device))
    os.utime(path, ns=(0, status.st_ctime_ns + 1_000_000_000))
    assert user_names(import_with(path, [])) == NAMED
    os.utime(path, ns=(0, status.st_ctime_ns - 1_000_000_000))
    assert user_names(import_with(path, [])) == NOTHING
    path = program.file(tmp_path, b"", (status.st_ino + 1, device))
    os.utime(path, ns=(0, status.st_ctime_ns + 1_000_000_000))
    assert user_names(import_with(path, [])) == NOTHING


def test_files_are_found_below_another_root(program: Program, tmp_path: Path) -> None:
    root = tmp_path / "root"
    path = program.file(tmp_path, program.build_id)
    assert user_names(import_with(path, ["--symfs", str(root)])) == NOTHING
    (root / program.path.parent.relative_to("/")).mkdir(parents=True)
    shutil.copy(program.path, root / program.path.relative_to("/"))
    assert user_names(import_with(path, ["--symfs", str(root)])) == NAMED


def test_the_build_id_cache_of_perf_has_programs(program: Program, tmp_path: Path) -> None:
    text = program.build_id.hex()
    place = tmp_path / "cache" / ".build-id" / text[:2] / text[2:]
    place.mkdir(parents=True)
    shutil.copy(program.path, place / "elf")
    path = program.file(tmp_path, program.build_id)
    assert user_names(import_with(path, ["--symfs", "/none"], tmp_path / "cache")) == NAMED


def test_a_pipe_is_never_opened(program: Program, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / program.path.parent.relative_to("/")).mkdir(parents=True)
    os.mkfifo(root / program.path.relative_to("/"))
    path = program.file(tmp_path, program.build_id)
    assert user_names(import_with(path, ["--symfs", str(root)])) == NOTHING
