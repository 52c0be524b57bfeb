# SPDX-License-Identifier: GPL-2.0-or-later
"""Members of a futex bucket on other kernels: their own BTF, and a lock that was waited for in a real guest.

Guests have no PMU with memory events, so the line's accesses are made up; where the lock lies, its name, the
functions' addresses and the types are the guest's.
"""

import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from boots import Section
from guest import Guest
from matrix import boot, chosen, kernel_of

from c2c.memory_recording import MemoryBuilder
from lockline.c2c.members import parse_types
from lockline.c2c.report import make_c2c_report
from lockline.recording.reader import open_recording
from lockline.render.documents.lines import document

TOP = Path(__file__).resolve().parent.parent.parent
COMMAND = """
cp /sys/kernel/btf/vmlinux btf
lockline-collect record -a -o run.lockline -- timeout 5 lock_load futex 4
"""
# Of the function that waits: the accesses before and after the place where it has the lock.
BEFORE, AFTER = -8, 8


KERNELS = ("bookworm", "trixie", "sid", "trixie-backports")
SECTIONS = chosen(*(Section(boot(kernel), "futex-waits", COMMAND) for kernel in KERNELS))


@pytest.fixture(scope="module", params=SECTIONS, ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """The guest's types, and a recording of waits for a bucket's lock."""
    return results(request.param)


def memory_of(guest: Guest, path: Path, same_boot: bool) -> tuple[Path, str]:
    """Accesses to the line of the bucket that was waited for most; gives the function that waited, too."""
    with closing(sqlite3.connect(guest.recording)) as connection:
        facts: dict[str, Any] = dict(connection.execute("SELECT name, value FROM meta"))
        ((address, lock),) = connection.execute(
            "SELECT address, lock.id FROM lock JOIN lock_total ON lock = lock.id"
            " WHERE name = 'futex_hash_bucket.lock' ORDER BY wait_ns DESC LIMIT 1"
        )
        frames = connection.execute(
            "SELECT DISTINCT symbol, offset, frame.address FROM frame WHERE tgid = 0 AND symbol LIKE '%futex_w%'"
        ).fetchall()
        starts = dict(connection.execute("SELECT symbol, frame.address - offset FROM frame WHERE tgid = 0"))
    assert lock
    function, taken, place = min(frames, key=lambda frame: (frame[0] != "futex_wake", frame[1]))
    kept = ("hostname", "kernel_release", "architecture", "boot_id", "kernel_text_address", "begin_ns", "end_ns")
    meta = {name: facts[name] for name in kept if name in facts}
    if not same_boot:
        meta["boot_id"] = "00000000-0000-0000-0000-000000000000"
    builder = MemoryBuilder(meta=meta)
    line = builder.line(address & ((1 << 64) - 1))
    inside = (address & 63) - 4
    for offset, symbol, at, ip, counts in (
        (4, "native_queued_spin_lock_slowpath", 0x40, 0, {"loads": 90, "local_hitm": 70}),
        (0, function, taken + BEFORE, place + BEFORE, {"loads": 60, "local_hitm": 50}),
        (8, function, taken + AFTER, place + AFTER, {"loads": 30, "stores": 30, "local_hitm": 20}),
        (16, "plist_del", 0x10, 0, {"stores": 30}),
    ):
        ip = ip or (starts[symbol] + at if symbol in starts else 0)
        code = builder.code(symbol, at, address=ip & ((1 << 64) - 1))
        builder.add(line, inside + offset, code, 0, range(4), **counts)
    return builder.write(path), function


@pytest.mark.parametrize("same_boot", [True, False], ids=["by address", "by code"])
def test_members_of_the_bucket(guest: Guest, tmp_path: Path, same_boot: bool) -> None:
    lines, function = memory_of(guest, tmp_path / "lines.lockline", same_boot)

    def read(*names: Any) -> Any:
        options = [
            f"--{option}={','.join(part)}"
            for option, part in zip(("function", "struct", "variable"), names, strict=True)
            if part
        ]
        collector = TOP / "build" / "bin" / "lockline-collect"
        command = [collector, "types", "--btf", guest.directory / "btf", *options]
        return parse_types(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    with open_recording(lines) as recording, open_recording(guest.recording) as waits:
        (line,) = document(make_c2c_report(recording, 10, read, waits))["lines"]
    assert line["type"] == "futex_hash_bucket"
    assert line["type_source"] == ("lock" if same_boot else "code")
    begin = line["offsets"][0]["offset"]
    assert {entry["offset"] - begin: entry["member"] for entry in line["offsets"]} == {
        0: "waiters",
        4: "lock",
        8: "chain.next",
        16: "chain.prev",
    }
    assert line["verdict"] == "false sharing"
    assert line["advice"]["members"] == ["chain"]
    assert line["advice"]["bytes_per_object"] == 56
    (lock,) = line["locks"]
    assert lock["name"] == "futex_hash_bucket.lock"
    assert (lock["join"] == "address") is same_boot
    assert lock["waits"] > 0
    if same_boot:
        roles = {part["member"]: part["roles"] for part in line["members"]}
        assert roles["waiters"] == {"lockless reader": [function]}
        assert function in roles["chain"]["holder"]
