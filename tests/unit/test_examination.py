# SPDX-License-Identifier: GPL-2.0-or-later
"""The examination: of recordings whose cause is known, the first screen names cause, culprit and remedy."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from examined import CASES, NEAR_MISSES, Case, Scene, little_beside, other_side
from lockline.analysis.episode_model import Doing, Episode, EpisodeHolder, Party
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.analysis.series import read_slices
from lockline.base.text import Style, width
from lockline.recording.reader import open_recording
from lockline.render import screen
from lockline.rules import find_all
from lockline.rules.report import make_report
from recording_generator import BEGIN

MS = 1_000_000


def report_of(case: Case, path: Path) -> Report:
    scene = Scene(path, case.cpus, **case.meta)
    case.make(scene)
    scene.builder.finish()
    with open_recording(path) as recording:
        report = make_report(recording, Selection(), 5)
        return replace(report, slices=read_slices(recording, report))


UNICODE = Style(unicode=True)


def screen_of(report: Report, style: Style = UNICODE) -> list[str]:
    """The first screen at 80 columns, which is never longer or wider."""
    lines = screen.render(report, report.slices, style, 80).splitlines()
    assert len(lines) <= 24
    assert max(map(width, lines)) <= 80
    return lines


def words_of(lines: list[str]) -> str:
    """The screen as one line, as a reader takes it."""
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("name", CASES)
def test_cause_culprit_and_remedy(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    report = report_of(case, tmp_path / "recording.data")
    lines = screen_of(report)
    text = words_of(lines)
    assert [word for word in case.words if word not in text] == [], "\n".join(lines)
    assert report.findings[0].rule == case.rule
    assert lines[2].startswith("ANSWER  ")
    assert screen_of(report, Style())


def test_a_part_of_a_recording_says_that_sleepers_are_not_known(tmp_path: Path) -> None:
    """What threads slept in was looked at for the whole recording: of a part (--from, --last) it is not known."""
    case = NEAR_MISSES["quiet machine"]
    report_of(case, tmp_path / "recording.data")
    with open_recording(tmp_path / "recording.data") as recording:
        report = make_report(recording, Selection(from_ns=-2 * 1000 * MS), 5)
        text = words_of(screen_of(replace(report, slices=read_slices(recording, report))))
    assert "Not looked at: locks of programs, locks on files, semaphores" in text


@pytest.mark.parametrize("fill", [little_beside, other_side])
def test_no_second_cause_is_made_up(fill: Callable[[Scene], None], tmp_path: Path) -> None:
    report = report_of(Case(fill, "convoy", ()), tmp_path / "recording.data")
    assert [found.rule for found in report.findings] == ["convoy"]
    assert " 2 medium" not in "\n".join(screen_of(report))


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_silent(name: str, tmp_path: Path) -> None:
    case = NEAR_MISSES[name]
    report = report_of(case, tmp_path / "recording.data")
    lines = screen_of(report)
    text = words_of(lines)
    assert [word for word in case.words if word not in text] == [], "\n".join(lines)
    assert " 1 high" not in "\n".join(lines)
    assert " 1 medium" not in "\n".join(lines)
    assert " 1 low" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("doing", "rule", "words"),
    [
        (
            Doing(running_ns=8 * MS, throttled_ns=32 * MS),
            "holder-throttled",
            ("A limit of CPU time stops batch (20) while it holds inode.i_rwsem", "raise the CPU limit"),
        ),
        (
            Doing(running_ns=8 * MS, preempted_ns=32 * MS),
            "priority-inversion",
            (
                "control (10), a real-time task, waits for inode.i_rwsem while its holder batch (20) does not run",
                "a lock that gives its holder the waiter's priority",
            ),
        ),
        (Doing(running_ns=36 * MS, throttled_ns=4 * MS), "", ()),
    ],
    ids=["throttled holder", "priority inversion", "a holder that runs"],
)
def test_episodes(doing: Doing, rule: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """A real-time task waits 40 ms for what a batch job holds: it was throttled, preempted, or it simply worked."""
    scene = Scene(tmp_path / "recording.data")
    scene.builder.lock(1, "inode.i_rwsem", "", "slab")
    scene.outlier(1, 6, 40 * MS, "control", ("rwsem_down_write_slowpath", "down_write", "ext4_file_write_iter"))
    scene.builder.waits(1, 1, 1, 6, [40 * MS])
    scene.builder.finish()
    with open_recording(tmp_path / "recording.data") as recording:
        report = make_report(recording, Selection(), 5)
    waiting = Episode(
        state="ended",
        waiter=Party(10, "control"),
        tgid=10,
        cpu=1,
        begin_cpu=1,
        policy=1,
        priority=10,
        lock="inode.i_rwsem",
        instance="",
        kind="rwsem:W",
        offset_ns=0,
        begin_ns=BEGIN,
        duration_ns=40 * MS,
        interrupts="on",
        interrupts_from="",
        stack=(),
        doing=Doing(),
        holders=(EpisodeHolder(Party(20, "batch"), "release", 40 * MS, 1, doing, "", ()),),
        handoff_ns=0,
        bypass=0,
        loops=(),
        relief=None,
        chain=(),
        complete=True,
        left_out=0,
        events=(),
    )
    report = replace(report, episodes=(waiting,))
    report = replace(report, findings=find_all(report))
    text = words_of(screen_of(report))
    assert [finding.rule for finding in report.findings] == ([rule] if rule else [])
    assert [word for word in words if word not in text] == [], text
