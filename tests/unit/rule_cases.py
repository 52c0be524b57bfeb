# SPDX-License-Identifier: GPL-2.0-or-later
"""Made recordings that rules judge."""

from pathlib import Path
from typing import Any

from lockline.analysis.findings import Finding
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.recording.reader import open_recording
from lockline.rules import find_all
from lockline.rules.report import make_report
from recording_generator import BEGIN, RecordingBuilder
from told import Told, told

SPINLOCK, RWLOCK_W, MUTEX, RWSEM_R, RWSEM_W = 0, 2, 3, 5, 6
MS = 1_000_000
US = 1_000


class Made:
    """A recording of one second on four CPUs, filled by a test."""

    def __init__(self, path: Path, **meta: object) -> None:
        self.path = path
        self.builder = RecordingBuilder(path, seconds=1, cpus=4, meta=meta)
        self.rows: dict[str, list[tuple[Any, ...]]] = {}

    def lock(self, lock: int, name: str, source: str = "symbol") -> int:
        return self.builder.lock(lock, name, "", source)

    def waits(self, lock: int, kind: int, length_ns: int, count: int, cpu: int = 0) -> None:
        self.builder.waits(1, cpu, lock, kind, [length_ns] * count)

    def add(self, table: str, *row: object) -> None:
        self.rows.setdefault(table, []).append(row)

    def sample(self, lock: int, kind: int, stack: int, waits: int, wait_ns: int) -> None:
        self.add("sample_total", 1, lock, kind, stack, 0, 1, waits, wait_ns)

    def outlier(self, lock: int, kind: int, wait_ns: int, stack: int, cpu: int = 1) -> None:
        number = len(self.rows.get("outlier", [])) + 1
        self.add("outlier", number, 1, BEGIN, wait_ns, cpu, cpu, 1, lock, kind, 0, stack, 0)

    def held(
        self, lock: int, kind: int, task: int, releases: int, caused_ns: int, most_ns: int, stack: int = 0
    ) -> None:
        self.add("holder_total", lock, kind, task, releases, releases, caused_ns, most_ns)
        if stack:
            self.add("release_stack", lock, kind, task, stack, 5, releases, caused_ns)

    def fairness(self, lock: int, kind: int, waits: int, **figures: int) -> None:
        names = ("releases", "retakes", "overtaken", "bypasses", "max_bypasses")
        names += ("handoffs", "handoff_ns", "max_handoff_ns", "holds", "hold_ns")
        values = [figures.get(name, 0) for name in names]
        self.add("fairness", lock, kind, waits, *values, figures.get("max_hold_ns", 0), b"")

    def findings(self) -> tuple[Finding, ...]:
        return find_all(self.report())

    def report(self) -> Report:
        self.builder.waiter(1, "waiter")
        self.builder.waiter(2, "holder")
        self.builder.insert("waiter", [(3, 0, 0, "[readers]", 0)])
        for table, rows in self.rows.items():
            self.builder.insert(table, rows)
        self.builder.finish()
        with open_recording(self.path) as recording:
            return make_report(recording, Selection(), 20)


def rules_of(findings: tuple[Finding, ...]) -> list[str]:
    """Names of the rules that found something."""
    return [finding.rule for finding in findings]


def one(findings: tuple[Finding, ...], rule: str) -> Told:
    """The only finding of a rule."""
    (found,) = [told(finding) for finding in findings if finding.rule == rule]
    assert found.evidence
    assert found.next
    return found
