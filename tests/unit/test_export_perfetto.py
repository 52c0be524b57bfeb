# SPDX-License-Identifier: GPL-2.0-or-later
"""lockline export --format perfetto, read with Perfetto's own protobufs: slices, arrows, counters, names."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile_recording import FORBIDDEN
from hostile_recording import NAMES as HOSTILE
from lockline.base.text import Style, clean
from lockline.export import perfetto
from lockline.export.trace import Slice, Trace
from lockline.recording.reader import open_recording
from perfetto_reader import MONOTONIC, REALTIME, Perfetto, read
from test_export import by_lock, export, report_of

SECOND = 1_000_000_000


def spans(tracks: list[Any], begin_ns: int, category: str) -> list[tuple[int, int, str]]:
    """Begin and end after begin_ns, and name, in order of time."""
    return sorted(
        (one[0] - begin_ns, one[1] - begin_ns, one[2]) for track in tracks for one in track.slices if one[3] == category
    )


def test_waits_holdings_and_the_arrow_between(example: Path, tmp_path: Path) -> None:
    found = read(export(example, tmp_path, "perfetto"))
    begin = report_of(example).window.begin_ns
    waiter, holder = found.of_thread(1001, 1001), found.of_thread(1004, 1004)
    assert waiter[0].path == ("strace", "strace")
    assert (2 * SECOND, 2_040_000_000, "waits for tasklist_lock") in spans(waiter, begin, "wait")
    held = spans(holder, begin, "hold")
    assert held == [
        (2 * SECOND, 2_020_000_000, "holds tasklist_lock"),
        (2_020_000_000, 2_039_050_000, "holds tasklist_lock"),
    ]
    [flow] = found.flows.values()
    assert set(found.flows) == found.ended
    [(source, name, begin_ns), (target, arrival, end_ns)] = flow
    assert found.tracks[source] in holder
    assert (name, begin_ns - begin) == ("holds tasklist_lock", 2_020_000_000)
    # Perfetto draws it from the end of that holding, the release, to the point where the waiter has the lock.
    assert found.tracks[target] is waiter[0]
    assert (arrival, end_ns - begin) == ("gets tasklist_lock", 2_040_000_000)


def test_a_wait_says_what_the_recording_knows(example: Path, tmp_path: Path) -> None:
    found = read(export(example, tmp_path, "perfetto"))
    [said] = [one[4] for one in found.of_thread(1001, 1001)[0].slices if one[1] - one[0] == 40_000_000]
    assert (said["lock"], said["kind"]) == ("tasklist_lock", "rwlock:W")
    # As in Perfetto's own stacks of debug annotations: the innermost function is the first.
    assert said["stack"][0] == "queued_write_lock_slowpath"
    assert said["stack"][-1] == "do_syscall_64"
    cpus = [track for track in found.tracks.values() if track.path[0] == "CPUs"]
    [(cpu, again)] = [(track, one) for track in cpus for one in track.slices if one[1] - one[0] == 40_000_000]
    assert again[4]["task"] == "strace (1001)"
    assert cpu.path[1] == f"CPU {cpu.rank}" == f"CPU {said['cpu']}"


def test_long_waits_are_those_of_the_report(recording: Path, tmp_path: Path) -> None:
    """Each once by thread and once by CPU, with its length."""
    found = read(export(recording, tmp_path, "perfetto"))
    with open_recording(recording) as opened:
        waits = opened.outliers(-1, None)[0]
    episodes = len(report_of(recording).episodes)
    for below_cpus in (False, True):
        lengths = Counter(
            one[1] - one[0]
            for track in found.tracks.values()
            if (track.path[0] == "CPUs") == below_cpus
            for one in track.slices
            if one[3] == "wait" and not one[2].startswith("gets ")
        )
        assert lengths.total() <= len(waits) + episodes
        assert not Counter(wait.wait_ns for wait in waits) - lengths


def test_counters_add_up_to_the_waiting(example: Path, generated: Path, tmp_path: Path) -> None:
    for path in (example, generated):
        found = read(export(path, tmp_path, "perfetto"))
        shown = {track.path[1]: track for track in found.tracks.values() if track.path[0] == "locks" and track.counts}
        assert len(shown) == min(20, len(by_lock(report_of(path))))
        for name, total in by_lock(report_of(path)).most_common(len(shown)):
            track = shown[f"waiting for {name}"]
            assert track.unit == "threads"
            points = sorted(track.counts)
            area = sum((after[0] - at[0]) * at[1] for at, after in itertools.pairwise(points))
            assert area == pytest.approx(total, rel=1e-6)
            assert points[-1][1] == 0


def test_the_wall_clock_is_told(example: Path, tmp_path: Path) -> None:
    found, window = read(export(example, tmp_path, "perfetto")), report_of(example).window
    since = window.begin_ns - window.recording_begin_ns
    assert found.clocks[MONOTONIC] == window.begin_ns
    assert found.clocks.get(REALTIME) == (None if window.begin_unix_ns is None else window.begin_unix_ns + since)


def test_hostile_names_come_back_harmless_and_whole(hostile: Path, tmp_path: Path) -> None:
    found = read(export(hostile, tmp_path, "perfetto"))
    for text in found.texts:
        assert text.isprintable()
        assert not any(bad in text for bad in FORBIDDEN)
    shown = "\n".join(found.texts)
    assert all(clean(name, Style(unicode=True)) in shown for name in HOSTILE)


TIMES = st.integers(0, 40)
SLICES = st.lists(
    st.builds(
        lambda category, begin, length, tid, cpu, number: Slice(
            category, begin, length, 7, tid, cpu, "lock", {"number": number}, (), 0, 0
        ),
        st.sampled_from(["wait", "hold"]),
        TIMES,
        TIMES,
        st.integers(-1, 2),
        st.integers(0, 2),
        st.integers(-(1 << 40), 1 << 40),
    ),
    max_size=30,
)


@given(SLICES)
def test_slices_that_cross_keep_their_ends(tmp_path_factory: pytest.TempPathFactory, slices: list[Slice]) -> None:
    """Perfetto ends the slice that was begun last on a track: crossing ones need tracks of their own."""
    slices.sort(key=lambda one: (one.begin_ns, -one.length_ns))
    trace = Trace(0, None, "host", {(7, one.tid): f"task {one.tid}" for one in slices}, slices, ())
    path = tmp_path_factory.getbasetemp() / "crossing"
    path.write_bytes(perfetto.encode(trace))
    found: Perfetto = read(path)
    for below_cpus in (False, True):
        seen = Counter(
            (one[0], one[1], one[3], one[4]["number"])
            for track in found.tracks.values()
            if (track.path[0] == "CPUs") == below_cpus
            for one in track.slices
        )
        assert seen == Counter((one.begin_ns, one.end_ns, one.category, one.arguments["number"]) for one in slices)
