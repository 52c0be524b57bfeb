# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screens of watch, c2c report and diff: the verdict in three lines, 24 lines of 80 columns in all."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diff.two_sides import LOAD, MUTEX, SPINLOCK, make_recording, numbers
from lockline.base.text import Style, width
from lockline.c2c.live import LiveReport, make_live_report
from lockline.cli import main as cli
from lockline.recording.reader import open_recording
from lockline.render import lines_screen
from lockline.render.screen_fit import filled
from terminals import on_a_terminal
from watched_lines import MS, US, Target, in_windows, look, ping_pong, write_watch

SECOND = 1_000_000_000
TOP = Path(__file__).parent.parent.parent
PERF_TEXT = TOP / "tests" / "c2c" / "reader_and_writer.txt"


def watch_of(path: Path, hits: int, gap_ns: int, name: str = "shared") -> Path:
    """Two threads write two members of one line by turns, for a second, watched for a tenth of it."""
    target = Target(name, 0xFFFF_8880_0000_1000, "kernel", 0, "", 0, 0, "", 0, "symbol")
    return write_watch(path, look(ping_pong((0, 8), hits, gap_ns), in_windows(SECOND, MS, 10 * MS)), target)


def live(path: Path) -> LiveReport:
    with open_recording(path) as recording:
        return make_live_report(recording, 10)


def small(lines: list[str], columns: int = 80) -> None:
    assert len(lines) <= 24
    assert max(map(width, lines)) <= columns


@pytest.mark.parametrize(
    ("hits", "gap_ns", "answer"),
    [(90_000, 10 * US, "Worth acting on"), (10_000, 100 * US, "Not worth acting on"), (300, 3 * MS, "Not worth")],
)
def test_a_line_is_worth_acting_on_from_one_percent_of_a_cpu(
    tmp_path: Path, hits: int, gap_ns: int, answer: str
) -> None:
    """At 300 ns a move that is 33,333 moves a second; a few hundred are not worth a word."""
    report = live(watch_of(tmp_path / "watch.lockline", hits, gap_ns))
    lines = lines_screen.render_watch(report, Style(), 80).splitlines()
    small(lines)
    assert lines[2].startswith(f"ANSWER  {answer}")
    text = " ".join(" ".join(lines).split())
    assert "of one CPU at most (300 ns a move, not measured: 100 to 300). Worth acting on from 1% of one CPU." in text
    assert ("DO Move" in text) == (answer == "Worth acting on")
    assert ("DO leave it as it is" in text) == (answer != "Worth acting on")


def test_an_untouched_line_has_too_little_to_judge_or_is_left_alone(tmp_path: Path) -> None:
    report = live(watch_of(tmp_path / "watch.lockline", 0, MS))
    lines = lines_screen.render_watch(report, Style(), 80).splitlines()
    small(lines)
    assert "orth acting on: false" not in "\n".join(lines)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Commands whose first screen is looked at."""
    directory = tmp_path_factory.mktemp("screens")
    before = make_recording(directory / "before.data", LOAD, 1)
    after = make_recording(directory / "after.data", {**LOAD, "tasklist_lock": (SPINLOCK, 40, 90_000.0)}, 2)
    slow = numbers(directory / "slow.txt", [100, 101, 102, 99, 100, 101, 98, 100], "ops/sec")
    fast = numbers(directory / "fast.txt", [115, 116, 114, 117, 113, 115, 116, 115], "ops/sec")
    # A name of a user, with what a terminal would obey in it.
    watched = watch_of(directory / "watch.lockline", 20_000, 50 * US, "a\x1b[31m" + "very_long_name_" * 12)
    return {
        "report": ["report", "-i", str(before)],
        "watch": ["watch", "-i", str(watched)],
        "c2c of a text": ["c2c", "report", str(PERF_TEXT)],
        "c2c of a watch": ["c2c", "report", str(watched)],
        "diff, worse": ["diff", str(before), str(after)],
        "diff, better": ["diff", str(after), str(before)],
        "diff, same": ["diff", str(before), str(before)],
        "diff of samples": ["diff", str(slow), str(fast)],
    }


COMMANDS = [
    "watch",
    "c2c of a text",
    "c2c of a watch",
    "diff, worse",
    "diff, better",
    "diff, same",
    "diff of samples",
]


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_wider_than_the_terminal(
    name: str,
    columns: int,
    files: dict[str, list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    cli.main(files[name])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    lines = out.splitlines()
    assert max(map(width, lines)) <= columns
    if columns >= 80:
        assert len(lines) <= 24
        assert any(line.startswith("ANSWER") for line in lines[:3])


@pytest.mark.parametrize("name", COMMANDS)
def test_all_and_the_sections_show_the_rest(
    name: str, files: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main([*files[name], "--all"])
    everything = capsys.readouterr().out
    assert "ANSWER" not in everything
    assert "erdict" in everything
    sections = {"watch": ["map", "trust"], "c2c": ["lines", "maps", "trust"], "diff": ["waits", "lines", "watched"]}
    for section in sections[files[name][0]]:
        cli.main([*files[name], f"--{section}"])
        part = capsys.readouterr().out.rstrip("\n").splitlines()
        assert part
        assert part[0] in everything or part == ["Nothing is known to be missing."]


def test_diff_names_what_got_worse_and_whether_it_matters(
    files: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(files["diff, worse"]) == 2
    text = " ".join(capsys.readouterr().out.split())
    assert "ANSWER Worse, worth acting on (threshold: 1% of one thread's time): all lock waiting went" in text
    assert "Most of it: tasklist_lock (spinlock), from 0.00% CPU to 1.5" in text
    assert "lockline report -i" in text
    assert cli.main(files["diff, better"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "ANSWER Better, worth having" in text
    assert "Less waiting does not always mean more throughput" in text
    assert cli.main(files["diff, same"]) == 0
    assert "ANSWER No difference" in " ".join(capsys.readouterr().out.split())


def test_waiting_is_told_as_report_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spinning as CPUs and sleeping as threads, in the first screen and in all of it."""
    sleeping = {"a_lock": (MUTEX, 40, 10_000.0)}
    before = make_recording(tmp_path / "before", sleeping, 1)
    after = make_recording(tmp_path / "after", sleeping | {"b_lock": (SPINLOCK, 60, 50_000.0)}, 2)
    cli.main(["diff", str(before), str(after)])
    text = capsys.readouterr().out
    assert re.search(r"a_lock \(mutex\) +0\.0\d+ threads +0\.0\d+ threads", text), text
    assert re.search(r"b_lock \(spinlock\) +0\.00% CPU +\d\.\d\d% CPU", text), text
    sleeping["a_lock"] = (MUTEX, 400, 10e6)
    assert cli.main(["diff", str(before), str(make_recording(tmp_path / "third", sleeping, 3))]) == 2
    assert re.search(r"a_lock \(mutex\) +0\.0\d+ threads +\d\d\.\d threads +\+", capsys.readouterr().out)
    cli.main(["diff", str(before), str(after), "--all"])
    assert re.search(r"lock +kind +waits/s +after +threads +after", capsys.readouterr().out)


def test_a_trifle_that_got_worse_is_not_worth_acting_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0.6 % of one thread's time: twice as much as before, and nothing to act on."""
    before = make_recording(tmp_path / "before", {"a_lock": (SPINLOCK, 40, 20_000.0)}, 1)
    after = make_recording(tmp_path / "after", {"a_lock": (SPINLOCK, 40, 36_000.0)}, 2)
    assert cli.main(["diff", str(before), str(after)]) == 2
    assert "Worse, but not worth acting on" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["report", "watch", "c2c of a text", "diff, worse"])
def test_a_terminal_gets_colours_and_a_dumb_one_does_not(name: str, files: dict[str, list[str]]) -> None:
    shown = on_a_terminal(files[name], PAGER="cat")
    assert "\x1b[1mANSWER\x1b[0m" in shown
    plain = on_a_terminal(files[name], TERM="dumb", LC_ALL="C")
    assert "\x1b" not in plain
    assert plain.isascii()
    small(plain.splitlines())


def test_a_pipe_gets_80_columns_without_colours(
    files: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in COMMANDS:
        cli.main(files[name])
        text = capsys.readouterr().out
        assert "\x1b" not in text
        small(text.splitlines())


@given(st.text("ab /", max_size=300), st.integers(40, 100), st.integers(1, 3))
def test_text_beside_a_label_fits(text: str, columns: int, most: int) -> None:
    """Whatever the words, no line is too long, and there are no more lines than asked for."""
    lines = filled("IF GONE  ", text, columns, most)
    assert len(lines) <= most
    assert all(len(line) <= columns for line in lines)


def test_a_long_word_is_cut_before_all_of_it_is_left_out() -> None:
    """As of a path."""
    (line,) = filled("", "Without waiting for a lock in /usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30: unknown", 70, 1)
    assert line == "Without waiting for a lock in /usr/lib/x86_64-l..stdc++.so.6.0.30: ..."
    # Behind one that is longer than a line, and parted.
    last = filled("", f"in {'x' * 80} at /usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30: unknown", 60, 2)[-1]
    assert last == f"{'x' * 23} at /usr/lib/x86_6..++.so.6.0.30: ..."
    # What of a word is shown already is not shown again.
    *_, first, last = filled("", f"{'x' * 80} in /srv/{'y' * 60}/z end", 40, 4)
    assert (first, last) == (f"in /srv/{'y' * 32}", f"{'y' * 28}/z end")
    # Of short words the rest is left out, as before.
    (line,) = filled("", "Without waiting for it the threads get nothing done that is worth it", 50, 1)
    assert line == "Without waiting for it the threads get nothing ..."
