# SPDX-License-Identifier: GPL-2.0-or-later
"""Findings as values: what the report's JSON has beside the sentences."""

from dataclasses import replace
from pathlib import Path

import pytest

from lockline.analysis.findings import Fact, Finding, Impact, Lock, Task, fact
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.recording.reader import open_recording
from lockline.render.documents.report import document
from lockline.rules.impact import with_impact
from lockline.rules.report import make_report
from recording_generator import RecordingBuilder
from schemas import validator_of

SPINLOCK, MUTEX = 0, 3
MS = 1_000_000


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """One second, of which four CPUs wait 1.1 s in sum for a spinlock, and 0.1 s for a mutex."""
    builder = RecordingBuilder(tmp_path / "made.lockline", seconds=1, cpus=4)
    builder.lock(1, "at ffff888000000000")
    builder.lock(2, "a_mutex")
    for cpu in range(4):
        builder.waits(1, cpu, 1, SPINLOCK, [MS] * 275)
        builder.waits(1, cpu, 2, MUTEX, [MS] * 25)
    builder.finish()
    with open_recording(builder.path) as recording:
        return make_report(recording, Selection(), 20)


def about(lock: Lock, wait_ns: int, rule: str = "convoy") -> Finding:
    """A finding of a lock."""
    claim: Fact = fact("convoy", lock=lock)
    return Finding(rule, lock, "high", claim, (), (), Impact(wait_ns))


def test_values_stand_beside_the_sentences(report: Report) -> None:
    value = document(report)
    validator_of("report").validate(value)
    (found,) = value["findings"]
    assert found["rule"] == "convoy"
    assert found["subject"] == {
        "kind": "lock",
        "name": "at [address]",
        "wait_kind": "spinlock",
        "instance": None,
    }
    assert found["claim"] == {"what": "convoy", "values": {"lock": found["subject"]}}
    assert len(found["facts"]) == len(found["evidence"])
    assert len(found["remedies"]) == len(found["next"])
    queue = found["facts"][0]
    assert queue["what"] == "queue"
    waiters = queue["values"]["waiters"]
    assert (waiters["value"], waiters["unit"], waiters["of"]) == (pytest.approx(1.1), "tasks", "on average")
    assert found["impact"]["part"] == pytest.approx(11 / 12)
    assert found["impact"]["cpus"] == pytest.approx(1.1)
    assert document(report, addresses=True)["findings"][0]["subject"]["name"] == "at ffff888000000000"


def test_several_subjects_are_a_list(report: Report) -> None:
    (found,) = report.findings
    owners = fact("owners-seen", owners=(Task("a", 1), Task("", None)))
    value = document(replace(report, findings=(replace(found, evidence=(owners,)),)))
    validator_of("report").validate(value)
    assert value["findings"][0]["facts"][0]["values"]["owners"] == [
        {"kind": "task", "comm": "a", "tid": 1, "container": None},
        {"kind": "task", "comm": None, "tid": None, "container": None},
    ]


def test_impact(report: Report) -> None:
    """What spins costs CPUs; what sleeps does not; a program's lock is no part of the kernel's."""
    spinning = with_impact(report, about(Lock("x", "spinlock"), 600 * MS)).impact
    assert (spinning.part, spinning.waiters, spinning.cpus) == pytest.approx((0.5, 0.6, 0.6))
    sleeping = with_impact(report, about(Lock("a_mutex"), 120 * MS)).impact
    assert (sleeping.part, sleeping.waiters) == pytest.approx((0.1, 0.12))
    assert sleeping.cpus is None
    users = with_impact(report, about(Lock("x", "spinlock"), 300 * MS, "user-lock")).impact
    assert (users.part, users.waiters, users.cpus) == (None, pytest.approx(0.3), None)
    assert with_impact(report, about(Lock("x", "spinlock"), 9_000 * MS)).impact.part == 1.0
