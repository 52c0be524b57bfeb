# SPDX-License-Identifier: GPL-2.0-or-later
"""The lock recording that goes with the generated S4 file is one that the report reads, of the same time."""

import json
from pathlib import Path

from c2c import patterns
from c2c.lock_recording import write_lock_recording
from lockline.analysis.selection import Selection
from lockline.recording.reader import open_recording
from lockline.render.documents.report import render
from lockline.rules.report import make_report


def test_the_waits_are_in_the_report(tmp_path: Path) -> None:
    description = patterns.futex_bucket()
    made = write_lock_recording(description, tmp_path / "waits.lockline")
    # All samples of the slow path on the lock's word: 38 + 10 HITM, 60 hits, 18 stores.
    assert made.waits[patterns.bucket_line() + 4] == 38 + 10 + 60 + 18
    assert made.in_wait[4] >= 126
    with open_recording(made.path) as recording:
        report = json.loads(render(make_report(recording, Selection(), 1000), True))
    (first, *_) = report["locks"]
    assert (first["name"], first["kind"], first["waits"]) == ("futex_hash_bucket.lock", "spinlock", 126 + 10)
    # Addresses and times are those of the perf.data file.
    assert description.kernel
    slow = description.kernel.symbol("native_queued_spin_lock_slowpath")
    spins: dict[int, list[int]] = {}
    for sample in description.samples():
        if sample.address == patterns.bucket_line() + 4:
            spins.setdefault(sample.tid, []).append(sample.time)
    assert len(report["outliers"]) == 126
    for wait in report["outliers"]:
        assert slow.address <= int(wait["stack"][0]["address"], 16) < slow.address + slow.size
        assert any(0 < time - wait["begin_ns"] < wait["wait_ns"] for time in spins[wait["tid"]])
