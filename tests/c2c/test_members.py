# SPDX-License-Identifier: GPL-2.0-or-later
"""Offsets to members, names of locks to offsets, and objects inferred from the code; real BTF by the collector."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from c2c.kernel_types import types
from c2c.memory_recording import MemoryBuilder
from lockline.base.errors import LocklineError
from lockline.c2c.members import NO_TYPES, embedded, find_path, parse_types, place
from lockline.c2c.model import Line, LockOnLine
from lockline.c2c.placement import place_by_code, place_by_lock
from lockline.c2c.report import make_c2c_report
from lockline.c2c.tables import read_lines, read_tables
from lockline.c2c.types_reader import read_program
from lockline.recording.reader import open_recording
from programs import TOP, make

LINE = 0xFFFF88A0C0D4A3C0


def lock(name: str, offset: int) -> LockOnLine:
    return LockOnLine(name, "", ("spinlock",), offset, 1, 1, LINE + offset, "address", {})


def path_at(id_: str, offset: int) -> str | None:
    found = place(types(), id_, offset)
    return None if found is None else found.path


@pytest.mark.parametrize(
    ("offset", "path", "unit"),
    [
        (0, "waiters", "waiters"),
        (4, "lock", "lock"),
        (6, "lock", "lock"),  # the tail of a qspinlock
        (8, "chain.next", "chain"),
        (16, "chain.prev", "chain"),
        (24, "priv", "priv"),
    ],
)
def test_members_of_a_futex_bucket(offset: int, path: str, unit: str) -> None:
    found = place(types(), "bucket", offset)
    assert found is not None
    assert (found.path, found.unit) == (path, unit)


def test_padding_and_what_is_beyond_the_object_have_no_name() -> None:
    assert path_at("bucket", 32) is None
    assert path_at("bucket", 64) is None
    assert path_at("bucket", -4) is None
    assert place(types(private=False), "bucket", 24) is None


def test_arrays_bit_fields_and_flexible_arrays() -> None:
    assert path_at("node_data", 128 + 64) == "node_zones[1].lock"
    assert path_at("node_data", 8) == "node_zones[0].watermark[1]"
    assert path_at("node_data", 256) == "flags"
    assert path_at("node_data", 300) == "rest[4]"


def test_a_lock_keeps_what_is_inside_of_it_unless_it_sleeps() -> None:
    assert path_at("rwsem", 8) == "owner"
    found = place(types(), "rwsem", 8)
    assert found is not None
    assert found.unit == "owner"


def test_names_of_locks_lead_to_offsets() -> None:
    assert find_path(types(), "bucket", ["lock"]) == [("bucket", 4)]
    assert find_path(types(), "bucket", ["chain", "node_list"]) == [("bucket", 8)]
    # Which of the zones is not said: the object is the zone.
    assert find_path(types(), "node_data", ["node_zones", "lock"]) == [("zone", 64)]
    assert find_path(types(), "bucket", ["nothing"]) == []


def test_where_a_lock_lies_tells_where_its_object_begins() -> None:
    placement = place_by_lock(lock("futex_hash_bucket.lock", 4), types())
    assert placement is not None
    assert (placement.type, placement.base, placement.source, placement.sure) == ("futex_hash_bucket", 0, "lock", True)
    # The same lock at another offset of the line: an object that begins in the middle of it.
    placement = place_by_lock(lock("futex_hash_bucket.lock", 0x24), types())
    assert placement is not None
    assert placement.base == -0x20
    placement = place_by_lock(lock("runqueues.__lock", 0), types())
    assert placement is not None
    assert placement.type == "rq"
    assert place_by_lock(lock("tasklist_lock", 0), types()) is None
    assert place_by_lock(lock("no_such_type.lock", 0), types()) is None


def test_types_of_another_kernel_are_marked_and_infer_nothing() -> None:
    foreign = types(foreign="by types of 6.18, not of 6.12")
    placement = place_by_lock(lock("futex_hash_bucket.lock", 4), foreign)
    assert placement is not None
    assert not placement.sure
    assert any("not of 6.12" in evidence for evidence in placement.evidence)


def futex_line(tmp_path: Path, *functions: tuple[str, int, int]) -> Line:
    builder = MemoryBuilder()
    line = builder.line(LINE)
    for function, offset, hitm in functions:
        builder.add(line, offset, builder.code(function, offset), cpus=range(4), loads=hitm, local_hitm=hitm)
    with open_recording(builder.write(tmp_path / "line.lockline")) as recording:
        (found,) = read_lines(recording, read_tables(recording).lines)
    return found


def test_the_arguments_of_the_code_tell_the_object(tmp_path: Path) -> None:
    line = futex_line(
        tmp_path,
        ("native_queued_spin_lock_slowpath", 4, 70),
        ("futex_q_unlock", 0, 30),
        ("plist_add", 8, 20),
        ("plist_del", 16, 10),
    )
    placement = place_by_code(line, types())
    assert placement is not None
    assert (placement.type, placement.base, placement.source, placement.sure) == ("futex_hash_bucket", 0, "code", False)


def test_without_the_functions_that_have_it_a_hint_still_does(tmp_path: Path) -> None:
    line = futex_line(tmp_path, ("native_queued_spin_lock_slowpath", 4, 70), ("futex_wake", 0, 30))
    placement = place_by_code(line, types(leave_out=["futex_q_unlock", "futex_q_lock"]))
    assert placement is not None
    assert (placement.type, placement.base) == ("futex_hash_bucket", 0)


def test_a_lock_at_an_offset_where_the_object_has_none_is_another_object(tmp_path: Path) -> None:
    line = futex_line(tmp_path, ("native_queued_spin_lock_slowpath", 0x30, 70), ("futex_q_unlock", 0, 3))
    placement = place_by_code(line, types())
    # Of the bucket that the lock would be in, nothing lies at 0.
    assert placement is None or placement.base != 0


def test_functions_of_something_else_infer_nothing(tmp_path: Path) -> None:
    line = futex_line(tmp_path, ("copy_page", 0, 50), ("native_queued_spin_lock_slowpath", 4, 50))
    assert place_by_code(line, types()) is None


def test_positions_that_fit_alike_name_no_member(tmp_path: Path) -> None:
    placement = place_by_code(futex_line(tmp_path, ("__futex_unqueue", 0, 50)), types())
    assert placement is not None
    assert (placement.type, placement.base) == ("futex_q", None)
    assert any("positions" in evidence for evidence in placement.evidence)
    # An object of one line can lie in one way alone.
    placement = place_by_code(futex_line(tmp_path, ("page_counter_try_charge", 0, 50)), types())
    assert placement is not None
    assert (placement.type, placement.base) == ("page_counter", 0)


def test_embedded_structures_are_found_in_arrays() -> None:
    inside = embedded(types(), "node_data")
    assert sorted(inside["spin"]) == [64, 192]
    assert inside["node_data"] == [0]


@given(st.integers(-1000, 5000))
def test_every_offset_gives_a_member_that_covers_it_or_none(offset: int) -> None:
    for id_ in ("bucket", "node_data", "rq", "rwsem", "futex_q"):
        found = place(types(), id_, offset)
        if found is not None:
            assert found.offset <= offset
            assert offset < found.offset + found.size or found.path.startswith("rest")
            assert found.unit_offset <= found.offset


# A few leaves are as wrong as a hundred, whose making took 98 % of the time.
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=8
    )
)
def test_json_that_is_no_types_is_refused_in_one_line(value: object) -> None:
    for document in (value, {"schema": "lockline-types/1", "structs": value, "functions": value, "variables": value}):
        if document != value and value == {}:
            assert parse_types(json.dumps(document)).structs == {}
            continue
        with pytest.raises(LocklineError) as refused:
            parse_types(json.dumps(document))
        assert "is not" in str(refused.value)


def test_a_type_that_holds_itself_ends() -> None:
    loop: dict[str, object] = {
        "schema": "lockline-types/1",
        "functions": {},
        "variables": {},
        "structs": {
            "1": {
                "kind": "struct",
                "name": "loop",
                "size": 8,
                "members": [{"name": "again", "offset": 0, "size": 8, "type": "struct loop", "struct": "1"}],
            }
        },
    }
    endless = parse_types(json.dumps(loop))
    assert place(endless, "1", 0) is not None
    assert find_path(endless, "1", ["again"] * 100) == []
    assert embedded(endless, "1") == {"1": [0]}


@pytest.fixture(scope="module")
def collector() -> Path:
    make(TOP, "build/bin/lockline-collect")
    return TOP / "build" / "bin" / "lockline-collect"


def run_types(collector: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([collector, "types", *arguments], capture_output=True, text=True, check=False)


def test_the_running_kernels_btf(collector: Path) -> None:
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")
    done = run_types(
        collector,
        "--function=plist_add,no_such_function",
        "--struct=futex_hash_bucket,atomic_t",
        "--variable=runqueues",
    )
    assert done.returncode == 0, done.stderr
    kernel = parse_types(done.stdout)
    bucket = kernel.named("futex_hash_bucket")
    ((_, offset),) = find_path(kernel, bucket, ["lock"])
    found = place(kernel, bucket, offset)
    assert found is not None
    assert found.path == "lock"
    ((_, chain),) = find_path(kernel, bucket, ["chain"])
    names = [place(kernel, bucket, chain + 8 * index) for index in (0, 1)]
    assert [name.path for name in names if name] == ["chain.next", "chain.prev"]
    assert kernel.name(kernel.variables["runqueues"]) == "rq"
    assert kernel.name(kernel.functions["plist_add"].parameters[1]) == "plist_head"
    assert "no_such_function" not in kernel.functions


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "no BTF"), (b"\x9f\xeb\x01\x00" + bytes(64), "no BTF"), (b"\x7fELF" + bytes(60), "no BTF")],
)
def test_files_without_btf_are_refused(collector: Path, tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    done = run_types(collector, "--btf", str(file))
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_devices_are_not_read(collector: Path) -> None:
    done = run_types(collector, "--btf", "/dev/zero")
    assert done.returncode == 1
    assert "not a file" in done.stderr


def test_btf_cut_anywhere_is_read_or_refused(collector: Path, tmp_path: Path) -> None:
    source = Path("/sys/kernel/btf/vmlinux")
    if not source.exists():
        pytest.skip("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")
    whole = source.read_bytes()
    file = tmp_path / "btf"
    for part in range(1, 8):
        file.write_bytes(whole[: len(whole) * part // 8])
        done = run_types(collector, "--btf", str(file), "--struct=futex_hash_bucket")
        assert done.returncode == 1, part
        assert len(done.stderr.splitlines()) == 1
    # Its type section overwritten: whatever comes of it, it ends.
    for begin in range(24, 2000, 97):
        damaged = whole[:begin] + b"\xff" * 64 + whole[begin + 64 :]
        file.write_bytes(damaged)
        done = run_types(collector, "--btf", str(file), "--struct=list_head,task_struct", "--function=futex_wake")
        assert done.returncode in (0, 1), begin


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program with debug information."""
    binary = tmp_path_factory.mktemp("program") / "metrics"
    compiler = os.environ.get("CC", "gcc")
    source = Path(__file__).with_name("metrics.c")
    done = subprocess.run([compiler, "-g", "-o", binary, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(binary)


def user_line(builder: MemoryBuilder, program: str, address: int, symbol: str, offset: int = 0) -> int:
    line = builder.line(address, "user", 9, symbol, offset, program)
    for inside, function in ((0, "add_request"), (0x28, "add_request"), (0x30, "main")):
        code = builder.code(function, inside, "user", 0x401000 + inside, program)
        builder.add(line, inside, code, builder.thread(7 + inside), range(4), loads=50, stores=50, local_hitm=40)
    return line


def test_members_of_a_programs_variables(collector: Path, program: str, tmp_path: Path) -> None:
    builder = MemoryBuilder()
    user_line(builder, program, 0x404080, "metrics")
    user_line(builder, program, 0x404140, "shards", 64)
    user_line(builder, program, 0x1C32000, "")
    with open_recording(builder.write(tmp_path / "lines.lockline")) as recording:
        report = make_c2c_report(recording, 10, read_program=read_program)
    found = {line.line.address: line for line in report.lines}
    for address, source in ((0x404080, "symbol"), (0x404140, "symbol"), (0x1C32000, "code")):
        line = found[address]
        assert (line.placement.type, line.placement.base, line.placement.source) == ("metrics", 0, source)
        assert [offset.member for offset in line.offsets] == ["requests", "by_kind[1].errors", "enabled"]
        assert line.advice is not None
        assert line.advice.size_before == 64


def test_a_program_without_debug_information_has_no_members(collector: Path, program: str, tmp_path: Path) -> None:
    stripped = str(tmp_path / "stripped")
    subprocess.run(["strip", "-o", stripped, program], check=True)
    assert read_program(stripped, ["add_request"], [], ["metrics"]) == NO_TYPES
    assert read_program("/dev/zero", ["add_request"], [], []) == NO_TYPES
    done = run_types(collector, "--program", stripped)
    assert done.returncode == 1
    assert "no debug information" in done.stderr
