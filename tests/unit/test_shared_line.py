# SPDX-License-Identifier: GPL-2.0-or-later
"""The rule about a lock's cache line: lines of known truth, and lines that explain nothing."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from c2c.kernel_types import types
from c2c.memory_recording import MemoryBuilder
from lockline.analysis.findings import Finding, Impact
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.base.text import Style
from lockline.c2c.live import LiveReport, make_live_report
from lockline.recording.reader import open_recording
from lockline.render import text as report_text
from lockline.render.documents import report as report_json
from lockline.rules import find_in_lines, shared_line
from lockline.rules import report as command
from lockline.rules.report import make_report
from recording_generator import BEGIN, SECOND, RecordingBuilder
from schemas import validator_of
from told import Told, told
from watched_lines import MS, US, Event, Stretch, Target, add_watch, alone, futex_bucket, in_windows, look

LINE = 0xFFFF_8880_0000_1000
TARGET = Target("futex_hash_bucket.lock", LINE, "kernel", 0, "", 1, 4, "futex_hash_bucket", 0, "slab")
PAIRS = [(0, 1, 90.0, 70.0, 0, 10000), (1, 0, 94.0, 71.0, 0, 10000)]


@cache
def bucket() -> tuple[Event, ...]:
    """What happens to a bucket's line in a second; not made where these tests are only collected."""
    return tuple(futex_bucket(9_000))


@dataclass(frozen=True)
class Made:
    """A second in which a bucket's line was watched; waits: for its lock, on both CPUs together."""

    path: Path
    waits: int = 4_000
    wait_ns: int = 10 * US
    windows: Sequence[Stretch] = tuple(in_windows(SECOND, 5 * MS, 10 * MS))
    events: Sequence[Event] = field(default_factory=bucket)
    pairs: Sequence[tuple[Any, ...]] = tuple(PAIRS)
    meta: dict[str, object] | None = None

    def report(self, **selection: Any) -> Report:
        builder = RecordingBuilder(self.path, 1, 4, self.meta)
        builder.lock(1, "futex_hash_bucket.lock", "", "slab")
        builder.connection.execute("UPDATE lock SET address = ? WHERE id = 1", (LINE + 4 - (1 << 64),))
        for cpu in (0, 1):
            builder.waits(1, cpu, 1, 0, [self.wait_ns] * (self.waits // 2))
        builder.insert("cpu_pair", self.pairs)
        add_watch(builder, look(self.events, self.windows), TARGET)
        builder.finish()
        with open_recording(self.path) as recording:
            return command.with_lines(make_report(recording, Selection(**selection), 5), recording)


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members by the types that the tests know."""
    known = types()

    def with_types(recording: Any, top: int, btf: str | None = None) -> LiveReport:
        return make_live_report(recording, top, lambda *names: known)

    monkeypatch.setattr("lockline.c2c.live.live_report", with_types)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Made]:
    """A recording with these figures."""
    return lambda **figures: Made(**{"path": tmp_path / "made.lockline", **figures})


def of_lines(report: Report) -> list[Finding]:
    """The findings of the rule."""
    return [finding for finding in report.findings if finding.rule == "shared-line"]


def one(report: Report) -> Told:
    """The only one."""
    (found,) = of_lines(report)
    return told(found)


def sure(report: Report) -> Report:
    """With a verdict on its line that nobody doubts: how sure a verdict is, is not this rule's."""
    assert report.lines is not None
    (line,) = report.lines.lines
    judgement = replace(line.report.judgement, confidence="high", doubts=())
    return with_line(report, replace(line, report=replace(line.report, judgement=judgement)))


def test_a_lock_that_shares_its_line(made: Callable[..., Made]) -> None:
    report = sure(made().report())
    found = one(report)
    assert found.confidence == "high"
    assert found.title.startswith("futex_hash_bucket.lock shares its cache line with ")
    assert all(name in found.title for name in ("chain", "waiters"))
    evidence = "\n".join(found.evidence)
    assert "4,000 waits for futex_hash_bucket.lock (spinlock) on this line, 40.0 ms: 4.00% of the window" in evidence
    assert "at 92 ns each, as measured between these CPUs" in evidence
    assert "lock pays " in evidence
    assert "while waiting for it" in evidence
    assert "doubt: " not in evidence
    assert found.next[0].startswith("Move chain to its own cache line")
    assert "padding does not change that" in found.next[1]
    # What the moves take: a part of the waiting, as the evidence has it.
    (line,) = report.lines.lines if report.lines else ()
    assert line.transfers is not None
    assert found.wait_ns == pytest.approx(line.transfers.per_second * 92, rel=0.001)
    assert 0.05 < found.wait_ns / (40 * MS) < 0.5


@pytest.mark.parametrize(
    ("figures", "why"),
    [
        ({"waits": 18, "wait_ns": 2 * MS}, "too few waits"),
        ({"waits": 4_000, "wait_ns": 2 * US}, "under a percent of the window"),
        ({"waits": 100, "wait_ns": 5 * MS}, "held for long: the moves are next to nothing of it"),
        ({"events": alone(4, 9_000, 100 * US)}, "one CPU alone uses it"),
        ({"events": ()}, "nobody touches it"),
        ({"events": futex_bucket(10)}, "ten rounds of the lock and no more"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_line_that_explains_nothing(made: Callable[..., Made], figures: dict[str, Any], why: str) -> None:
    assert of_lines(made(**figures).report()) == []


def test_waiters_alone(made: Callable[..., Made]) -> None:
    found = one(made(wait_ns=3 * US, events=[event for event in bucket() if event.offset == 4]).report())
    assert found.title == (
        "The cache line of futex_hash_bucket.lock moves between its waiters: the lock's own word, and no layout helps"
    )
    assert "padding changes nothing" in found.next[0]


def test_waiters_that_wait_together_count_together(made: Callable[..., Made], tmp_path: Path) -> None:
    """Five on average: what keeps the holder keeps all of them."""
    far = [(0, 1, 5000.0, 4000.0, 0, 10000)]
    alone_ns = one(made(wait_ns=250 * US, pairs=far).report()).wait_ns
    many = one(made(path=tmp_path / "many.lockline", wait_ns=1250 * US, pairs=far).report())
    assert many.wait_ns == pytest.approx(5 * alone_ns, rel=0.001)


def test_what_keeps_it_from_being_surer(made: Callable[..., Made]) -> None:
    """A guess of the time that a move takes; a glance of a few windows."""
    report = sure(made(pairs=()).report())
    found = one(report)
    # At 1 us each the moves are most of it, and so they are at half of that.
    assert "at 1.00 us each, which is much" in "\n".join(found.evidence)
    assert found.confidence == "high"
    assert report.lines is not None
    (line,) = report.lines.lines
    assert line.transfers is not None
    seldom = replace(line, transfers=replace(line.transfers, per_second=3000.0))
    found = one(with_line(report, seldom))
    assert "doubt: how long a line takes between these CPUs was not measured (lockline record --deep)" in (
        found.evidence
    )
    assert found.confidence == "medium"
    unsure = replace(line, transfers=replace(line.transfers, error=line.transfers.per_second))
    assert one(with_line(report, unsure)).confidence == "medium"
    lock = replace(line.report.locks[0], join="code")
    inferred = replace(line, report=replace(line.report, locks=(lock,)))
    assert "by name or by code" in "\n".join(one(with_line(report, inferred)).evidence)


def test_a_few_windows(made: Callable[..., Made]) -> None:
    found = one(made(windows=tuple(Stretch(60 * MS * i, 2 * MS) for i in range(16))).report())
    assert "doubt: 16 windows may have missed what happens in bursts" in found.evidence
    assert found.confidence != "high"


def with_line(report: Report, line: Any) -> Report:
    """The report, as if that had been its line."""
    assert report.lines is not None
    changed = replace(report, lines=replace(report.lines, lines=(line,)), findings=())
    return replace(changed, findings=find_in_lines(changed))


def test_it_ranks_among_others(made: Callable[..., Made]) -> None:
    """By impact times confidence, with the other findings."""
    report = made().report()
    (line,) = report.findings
    assert line.rule == "shared-line"
    bucket = replace(line, rule="futex-bucket", confidence="high", impact=Impact(10 * line.impact.wait_ns))
    unsure = replace(bucket, rule="convoy", confidence="medium", impact=Impact(10 * SECOND))
    minor = replace(bucket, rule="unfair", impact=Impact(1))
    ranked = find_in_lines(replace(report, findings=(minor, unsure, bucket)))
    assert [finding.rule for finding in ranked] == ["convoy", "futex-bucket", "shared-line", "unfair"]


def test_text_and_json(made: Callable[..., Made]) -> None:
    report = sure(made().report())
    value = report_json.document(report)
    validator_of("report").validate(value)
    (found,) = [finding for finding in value["findings"] if finding["rule"] == "shared-line"]
    assert found["confidence"] == "high"
    text = report_text.render(report, Style())
    assert "[shared-line, confidence high]" in " ".join(text.split())
    assert all(len(row) <= 120 for row in text.splitlines())
    assert "ffff" not in text


def test_a_part_of_the_waits_has_no_lines(made: Callable[..., Made]) -> None:
    report = made().report(cpus=(0,))
    assert report.lines is None
    assert of_lines(report) == []
    assert shared_line.find(report) == []


def test_sampled_lines(tmp_path: Path) -> None:
    """Of the PMU: no rate is known, so a line speaks that has a share of all transfers."""

    def recorded(name: str, elsewhere: int) -> Report:
        builder = MemoryBuilder(kind="PMU", event="cpu/mem-loads,ldlat=30/P", meta={"begin_ns": BEGIN})
        line = builder.line(LINE)
        lock = builder.code("native_queued_spin_lock_slowpath", 0x6A)
        chain = builder.code("plist_add", 0x51)
        builder.add(line, 4, lock, builder.thread(11), [0], loads=90, local_hitm=70, in_wait=85)
        builder.add(line, 8, chain, builder.thread(12), [1], loads=60, local_hitm=40)
        builder.add(line, 8, chain, builder.thread(12), [1], stores=50)
        other = builder.line(LINE + (1 << 20))
        builder.add(other, 0, chain, builder.thread(13), [1], loads=10_000, stores=10_000, local_hitm=elsewhere)
        path = builder.write(tmp_path / name)
        connection = sqlite3.connect(path)
        connection.execute("INSERT INTO meta VALUES ('end_ns', ?)", (BEGIN + SECOND,))
        connection.execute("INSERT INTO kind VALUES (0, 'spinlock')")
        connection.execute("INSERT INTO lock VALUES (3, ?, 'futex_hash_bucket.lock', '', 'slab')", (LINE + 4 - 2**64,))
        connection.execute("INSERT INTO lock_total VALUES (3, 0, 4000, 40000000, 90000, 0, 0, 20000000, x'')")
        connection.execute("INSERT INTO memory_wait VALUES (?, 3, 0, 85, 66)", (line,))
        connection.commit()
        connection.close()
        with open_recording(path) as recording:
            return command.with_lines(make_report(recording, Selection(), 5), recording)

    found = one(recorded("near.lockline", 0))
    assert "110 HITM" in "\n".join(found.evidence)
    assert "66 transfers among them" in "\n".join(found.evidence)
    assert found.wait_ns == 40_000_000
    assert of_lines(recorded("far.lockline", 9_000)) == []
