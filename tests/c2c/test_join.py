# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines and locks: by address within one boot, by name and by code otherwise."""

import sqlite3
import struct
from pathlib import Path
from typing import Any

import pytest

from c2c.kernel_types import types
from c2c.memory_recording import MemoryBuilder
from lockline.c2c.join import locks_by_code, locks_by_name, read_locks, same_boot
from lockline.c2c.model import C2cReport
from lockline.c2c.report import make_c2c_report
from lockline.recording.reader import open_recording
from recording_generator import BEGIN, SECOND, RecordingBuilder

LINE = 0xFFFF88A0C0D4A3C0
TEXT = 0xFFFFFFFF9D000000
SPINLOCK = 0
BOOT = {"hostname": "lab2", "kernel_release": "6.12.0-lab", "architecture": "x86_64"}
TIMES = {"begin_ns": BEGIN, "end_ns": BEGIN + SECOND}
SLOW_PATH = "native_queued_spin_lock_slowpath"


def signed(address: int) -> int:
    return address - (1 << 64) if address >> 63 else address


def lines(path: Path, shift: int = 0, **meta: str | int) -> Path:
    builder = MemoryBuilder(meta={**BOOT, **TIMES, **meta})
    line = builder.line(LINE)
    for function, inside, offset, counts in (
        (SLOW_PATH, 0x50, 4, {"loads": 90, "local_hitm": 70}),
        ("futex_wake", 0x20, 0, {"loads": 60, "local_hitm": 50}),
        ("futex_wake", 0x90, 0x10, {"loads": 30, "local_hitm": 20}),
        ("plist_add", 0x30, 8, {"stores": 40}),
    ):
        address = TEXT + shift + {SLOW_PATH: 0x1000, "futex_wake": 0x2000, "plist_add": 0x3000}[function] + inside
        code = builder.code(function, inside, address=address)
        builder.add(line, offset, code, 0, range(16), **counts)
    return builder.write(path)


def waits(path: Path, lock: int = LINE + 4, name: str = "futex_hash_bucket.lock", **meta: Any) -> Path:
    builder = RecordingBuilder(path, meta={**BOOT, **meta})
    builder.insert("lock", [(1, signed(lock), name, "", "slab"), (2, signed(LINE + 0x8000), "other.lock", "", "slab")])
    builder.waits(1, 0, 1, SPINLOCK, [5_000] * 30)
    builder.waits(1, 0, 2, SPINLOCK, [9_000] * 50)
    builder.insert("waiter", [(1, 10, 10, "worker", 1)])
    frames = {
        1: ((SLOW_PATH, 0x1000, 0x5A), ("_raw_spin_lock", 0x4000, 0x2C), ("futex_wake", 0x2000, 0x5A)),
        2: ((SLOW_PATH, 0x1000, 0x5A), ("something_else", 0x5000, 0x40)),
    }
    for stack, functions in frames.items():
        addresses = [TEXT + base + offset for _, base, offset in functions]
        builder.insert("stack", [(stack, 0, struct.pack(f"<{len(addresses)}Q", *addresses))])
        for (symbol, _, offset), address in zip(functions, addresses, strict=True):
            builder.connection.execute(
                "INSERT OR IGNORE INTO frame VALUES (0, ?, ?, ?, '')", (signed(address), symbol, offset)
            )
        builder.insert("sample_total", [(1, stack, SPINLOCK, stack, 0, 3, 30, 150_000)])
    return builder.finish()


def joined(
    tmp_path: Path, line_meta: dict[str, str | int] | None = None, shift: int = 0, **wait_options: Any
) -> C2cReport:
    line_file = lines(tmp_path / "lines.lockline", shift, **(line_meta or {}))
    wait_file = waits(tmp_path / "waits.lockline", **wait_options)
    with open_recording(line_file) as recording, open_recording(wait_file) as locks:
        return make_c2c_report(recording, 10, lambda *names: types(), locks)


def test_by_address_where_the_kernels_functions_lie_at_the_same_addresses(tmp_path: Path) -> None:
    report = joined(tmp_path)
    (line,) = report.lines
    (lock,) = line.locks
    assert (lock.name, lock.offset, lock.waits, lock.wait_ns, lock.join) == (
        "futex_hash_bucket.lock",
        4,
        30,
        150_000,
        "address",
    )
    assert (line.placement.source, line.placement.base) == ("lock", 0)
    assert [offset.member for offset in line.offsets] == ["waiters", "lock", "chain.next", "chain.prev"]
    assert any("joined by address" in note for note in report.notes)


def test_who_reads_before_the_lock_is_taken_is_told_from_the_holder(tmp_path: Path) -> None:
    (line,) = joined(tmp_path).lines
    roles = {part.member: dict(part.roles) for part in line.parts}
    assert roles == {
        "lock": {"waiter": (SLOW_PATH,)},
        "waiters": {"lockless reader": ("futex_wake",)},
        "chain": {"holder": ("futex_wake", "plist_add")},
    }


@pytest.mark.parametrize(
    ("meta", "shift", "why"),
    [
        ({"kernel_release": "6.12.1-lab"}, 0, "kernel_release differs"),
        ({"hostname": "lab3"}, 0, "hostname differs"),
        ({"boot_id": "11111111-0000-0000-0000-000000000000"}, 0, "boot_id differs"),
        ({}, 0x2000000, "other addresses"),
        ({"begin_ns": BEGIN + 500 * SECOND, "end_ns": BEGIN + 501 * SECOND}, 0, "different times"),
    ],
)
def test_another_boot_is_joined_by_code_and_never_by_address(
    tmp_path: Path, meta: dict[str, str | int], shift: int, why: str
) -> None:
    # The address is the same by chance, and the name is wrong there.
    report = joined(tmp_path, meta, shift)
    (line,) = report.lines
    assert any(why in note for note in report.notes)
    (lock,) = line.locks
    assert (lock.name, lock.join, lock.offset) == ("futex_hash_bucket.lock", "code", 4)
    assert (line.placement.source, line.placement.sure) == ("code", False)
    assert [offset.member for offset in line.offsets] == ["waiters", "lock", "chain.next", "chain.prev"]


def test_a_lock_on_the_next_line_is_not_on_this_one(tmp_path: Path) -> None:
    (line,) = joined(tmp_path, lock=LINE + 64).lines
    assert [lock.join for lock in line.locks] == ["code"]


def test_a_sleeping_lock_reaches_into_the_line_after_its_own(tmp_path: Path) -> None:
    path = tmp_path / "waits.lockline"
    builder = RecordingBuilder(path, meta=dict(BOOT))
    builder.insert(
        "lock", [(1, signed(LINE - 8), "mm_struct.mmap_lock", "", "slab"), (2, signed(LINE - 4), "a.spin", "", "")]
    )
    builder.waits(1, 0, 1, 6, [5_000])
    builder.waits(1, 0, 2, SPINLOCK, [5_000])
    line_file = lines(tmp_path / "lines.lockline", boot_id="00000000-0000-0000-0000-000000000000")
    with open_recording(line_file) as recording, open_recording(builder.finish()) as locks:
        (line,) = make_c2c_report(recording, 1, None, locks).lines
    # The spinlock ends where the line begins.
    assert [(lock.name, lock.offset) for lock in line.locks] == [("mm_struct.mmap_lock", -8)]


def test_locks_that_no_function_of_the_line_waits_for_are_not_joined(tmp_path: Path) -> None:
    with open_recording(waits(tmp_path / "waits.lockline")) as recording:
        locks = read_locks(recording, recording)
    assert [lock.name for lock in locks_by_code({"futex_wake", "x"}, locks)] == ["futex_hash_bucket.lock"]
    assert locks_by_code({"x", "y"}, locks) == []
    # Two locks that fit alike: none is named.
    assert locks_by_code({"futex_wake", "something_else"}, locks) == []
    (lock,) = locks_by_name(["other.lock", "no.lock"], locks)
    assert (lock.name, lock.waits, lock.join) == ("other.lock", 50, "name")


BASE: dict[str, str | int | float | None] = {**BOOT, **TIMES}


@pytest.mark.parametrize(
    ("ours", "theirs", "base", "expected"),
    [
        ({}, {}, None, False),
        ({}, {}, True, True),
        ({}, {}, False, False),
        ({"boot_id": "a"}, {"boot_id": "a"}, None, True),
        ({"boot_id": "a"}, {"boot_id": "b"}, True, False),
        ({"boot_id": "a"}, {}, None, False),
        ({"hostname": None}, {}, True, True),
        ({"end_ns": None}, {}, True, True),
    ],
)
def test_what_makes_one_boot(ours: dict[str, Any], theirs: dict[str, Any], base: bool | None, expected: bool) -> None:
    same, why = same_boot({**BASE, **ours}, {**BASE, **theirs}, base)
    assert same is expected
    assert why


def test_a_recording_with_both_is_joined_with_itself(tmp_path: Path) -> None:
    path = waits(tmp_path / "both.lockline")

    connection = sqlite3.connect(path)
    line_file = lines(tmp_path / "lines.lockline")
    connection.execute("ATTACH ? AS lines", (str(line_file),))
    for table in ("source", "count", "line", "thread", "code", "access"):
        connection.execute(f"INSERT INTO memory_{table} SELECT * FROM lines.memory_{table}")
    connection.commit()
    connection.close()
    with open_recording(path) as recording:
        (line,) = make_c2c_report(recording, 1, lambda *names: types()).lines
    assert [lock.join for lock in line.locks] == ["address"]
