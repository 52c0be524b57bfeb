# SPDX-License-Identifier: GPL-2.0-or-later
"""lockline top: what is shown follows from keys and a report; one run on a terminal of 80x24."""

import os
import pty
import select
import shutil
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examined import MUTEX, Scene
from hostile_recording import FORBIDDEN, make_hostile
from lockline.base.numbers import duration
from lockline.base.text import Style, width
from lockline.cli import main as cli
from lockline.top import source
from lockline.top.frame import Shown, frame
from lockline.top.source import Follower, read_file
from lockline.top.state import SORTS, State, press, shown_locks

TOP = Path(__file__).resolve().parents[2]
PLAIN, UNICODE = Style(), Style(unicode=True)
# A start and an answer, on a machine that does much else.
SECONDS = 60

KEYS = (
    "up", "down", "left", "right", "ppage", "npage", "home", "end", "enter", "escape", "backspace",
    *"sSrRkK/pfhqaw", "é",
)  # fmt: skip


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    from example_recording import make_example

    return Shown(*read_file(make_example(tmp_path_factory.mktemp("top") / "example"), None))


def keys(shown: Shown, *pressed: str, steps: int = 0) -> State:
    state = State()
    for key in pressed:
        state = press(state, key, shown.report.locks, steps)
    return state


def text(shown: Shown, state: State, columns: int = 80, rows: int = 24, style: Style = UNICODE) -> list[str]:
    return [line.text for line in frame(shown, state, style, columns, rows)]


def test_the_first_frame_has_the_figures_of_the_report(shown: Shown) -> None:
    lines = text(shown, State())
    assert lines[0].startswith("lockline top  lab1, 4 CPUs, 0.0 to 4.0 s (all)")
    assert lines[1].startswith("54 waits/s, spinning takes 7.80% of a CPU")
    assert lines[5].split()[:3] == ["tasklist_lock", "rwlock:W", "21"]
    # 312 ms in 4 s.
    assert "78.0 ms/s" in lines[5]
    assert lines[5].endswith("40.0 ms ")
    assert [line.split()[0] for line in lines[5:10]] == [
        "tasklist_lock",
        "pipe_inod..nfo.mutex",
        "runqueues.__lock",
        "mm_struct.mmap_lock",
        "a_functio..es_a_lock",
    ]
    assert lines[-4].startswith("tasklist_lock (rwlock:W), waits by length")
    assert duration(2_621_440) in lines[-2]


def test_a_recording_of_programs_says_who_waits_in_them(tmp_path: Path) -> None:
    """Threads that wait for locks of programs do not sleep for the kernel's."""
    path = tmp_path / "futexes"
    scene = Scene(path)
    scene.waits(1, MUTEX, 1000, 40)
    # 6 s of waiting in 4 s.
    scene.futex(1, "server", "table", (60_000_000,) * 100, ops=1 << 6)
    scene.builder.finish()
    for step in (None, 0):
        shown = Shown(*read_file(path, step))
        for state in (State(step=step), State(step=step, view="lock"), State(step=step, view="help")):
            lines = text(shown, state)
            assert lines[1].startswith("kernel: 40 waits/s, ")
            assert lines[2] == "programs: 1.50 threads wait, most for table of server (70)"
        assert "f programs" in text(shown, State())[-1]
    follower = Follower(path)
    report = follower.next()
    assert report is not None
    assert text(Shown(follower.details(report, State())[0]), State())[2] == lines[2]
    follower.close()


def test_each_interval_adds_up_to_the_whole(generated: Path) -> None:
    whole, _, steps = read_file(generated, None)
    assert steps == 10
    parts = [read_file(generated, step)[0].totals for step in range(steps)]
    assert sum(part.wait_ns for part in parts) == whole.totals.wait_ns
    assert sum(part.waits for part in parts) == whole.totals.waits


@pytest.fixture
def written(generated: Path, tmp_path: Path) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """A recording that somebody is writing, and the writer."""
    path = tmp_path / "written"
    shutil.copyfile(generated, path)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    yield path, writer
    writer.close()


def test_what_follows_a_recording_reads_each_interval_once(written: tuple[Path, sqlite3.Connection]) -> None:
    path, writer = written
    follower = Follower(path)
    report, last = follower.next(), read_file(path, -1)[0]
    assert report is not None
    assert (report.window.begin_ns, report.window.end_ns) == (last.window.begin_ns, last.window.end_ns)
    assert report.totals == last.totals
    assert report.kinds == last.kinds
    figures = [(lock.name, lock.kind, lock.figures, lock.instances) for lock in report.locks]
    assert figures == [(lock.name, lock.kind, lock.figures, lock.instances) for lock in last.locks]
    assert follower.next() is None
    # One more interval, with one row of the one before.
    [(number, end)] = writer.execute("SELECT id, end_ns FROM interval ORDER BY id DESC LIMIT 1").fetchall()
    writer.execute("BEGIN")
    writer.execute("INSERT INTO interval VALUES (?, ?, ?)", (number + 1, end, end + 10**9))
    columns = "cpu, lock, kind, waits, wait_ns, max_ns, failed, histogram"
    writer.execute(
        f"INSERT INTO wait_interval SELECT interval + 1, {columns} FROM wait_interval WHERE interval = ? LIMIT 1",
        (number,),
    )
    assert follower.next() is None
    writer.execute("COMMIT")
    newer = follower.next()
    assert newer is not None
    assert (newer.window.begin_ns, newer.window.end_ns) == (end, end + 10**9)
    assert [lock.figures.wait_ns for lock in newer.locks] == [newer.totals.wait_ns]
    # Between two reads nothing holds the writer's log back, and after the last one it can end.
    assert writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    follower.close()
    assert writer.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)


def test_details_of_the_selected_lock_are_those_of_the_report(written: tuple[Path, sqlite3.Connection]) -> None:
    path, _ = written
    follower = Follower(path)
    report, (last, holders, _) = follower.next(), read_file(path, -1)
    assert report is not None
    stacks = 0
    for wanted in last.locks[:5]:
        state = State(view="lock", selected=(wanted.name, wanted.kind))
        found, held = follower.details(report, state)
        [lock] = [one for one in found.locks if (one.name, one.kind) == state.selected]
        assert lock.stacks == wanted.stacks
        stacks += len(lock.stacks)
        assert found.tasks == last.tasks
        expected = next(one.holders for one in holders if (one.name, one.kind) == state.selected)
        assert [one.holders for one in held] == [expected]
    assert stacks
    assert follower.details(report, State())[0] is report
    follower.close()


def test_the_whole_recording_is_read_seldom(
    written: tuple[Path, sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes longer the longer the recording is: only so often that it is a small part of a CPU."""
    clock, reads = {"now": 100.0, "used": 0.0}, []

    def read(name: str) -> Callable[..., Any]:
        def one(*_: object) -> tuple[str, int]:
            clock["used"] += 0.1
            reads.append(name)
            return name, len(reads)

        return one

    monkeypatch.setattr(source.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(source.time, "process_time", lambda: clock["used"])
    monkeypatch.setattr(source, "read_futexes", read("futexes"))
    monkeypatch.setattr(source, "with_holders", read("holders"))
    path, writer = written
    writer.execute("INSERT INTO holder_total VALUES (1, 0, 1, 1, 1, 1, 1)")
    follower = Follower(path)
    report = follower.next()
    assert report is not None
    reads.clear()
    first, second = (State(view="lock", selected=(lock.name, lock.kind)) for lock in report.locks[:2])
    for state, seconds, expected in (
        (State(view="futexes"), 0, ["futexes"]),
        (State(view="futexes"), 29, ["futexes"]),
        (State(view="futexes"), 2, ["futexes"] * 2),
        # Another view is read at once.
        (first, 0, ["futexes"] * 2 + ["holders"]),
        (first, 20, ["futexes"] * 2 + ["holders"]),
        (second, 0, ["futexes"] * 2 + ["holders"] * 2),
    ):
        clock["now"] += seconds
        found, held = follower.details(report, state)
        assert reads == expected
        assert (found.futexes if state.view == "futexes" else held) == (expected[-1], len(expected))
    follower.close()


def test_a_recording_that_has_no_tables_yet_is_waited_for(tmp_path: Path, generated: Path) -> None:
    path = tmp_path / "begun"
    follower = Follower(path)
    assert follower.next() is None
    path.touch()
    assert follower.next() is None
    shutil.copyfile(generated, path)
    assert follower.next() is not None
    follower.close()


@given(
    st.lists(st.sampled_from(KEYS), max_size=25),
    st.integers(1, 220),
    st.integers(1, 70),
    st.booleans(),
    st.sampled_from([0, 4]),
)
def test_every_frame_fits_the_terminal(
    shown: Shown, pressed: list[str], columns: int, rows: int, unicode: bool, steps: int
) -> None:
    state = keys(replace(shown, steps=steps), *pressed, steps=steps)
    lines = text(replace(shown, steps=steps, cost=0.004), state, columns, rows, Style(unicode=unicode))
    assert len(lines) <= rows
    assert all(width(line) <= columns for line in lines)
    assert unicode or all(line.isascii() for line in lines)
    assert all(line.isprintable() for line in lines)
    if columns >= 40 and rows >= 12:
        assert len(lines) == rows


def test_sorting_and_reversing(shown: Shown) -> None:
    locks = shown.report.locks
    orders = [[lock.name for lock in shown_locks(locks, keys(shown, *"s" * presses))] for presses in range(len(SORTS))]
    assert orders[0][0] == "tasklist_lock"
    assert orders[1][0] == "tasklist_lock"
    assert orders[-1] == sorted(orders[-1])
    assert keys(shown, *"s" * len(SORTS)).sort == SORTS[0]
    assert [lock.name for lock in shown_locks(locks, keys(shown, "r"))] == orders[0][::-1]


def test_filters(shown: Shown) -> None:
    state = keys(shown, "/", *"PIPE", "enter")
    assert not state.typing
    assert [lock.name for lock in shown_locks(shown.report.locks, state)] == ["pipe_inode_info.mutex"]
    assert "names with 'PIPE'" in text(shown, state)[3]
    assert keys(shown, "/", *"xyz", "backspace", "enter").pattern == "xy"
    # A letter that is typed is no command, and Escape gives all locks back.
    assert keys(shown, "/", "q").quit is False
    assert keys(shown, "/", "q", "escape").pattern == ""
    kinds = []
    state = State()
    for _ in range(6):
        state = press(state, "K", shown.report.locks)
        kinds.append(state.kind)
    assert kinds == ["mutex", "rwlock", "rwsem", "spinlock", "", "mutex"]


def test_the_selection_stays_on_its_lock(shown: Shown) -> None:
    state = keys(shown, "down", "down")
    assert state.selected == ("runqueues.__lock", "spinlock")
    lines = frame(shown, press(state, "r", shown.report.locks), UNICODE, 80, 24)
    [selected] = [line.text for line in lines if line.look == "selected"]
    assert selected.startswith("runqueues.__lock")
    assert keys(shown, *["down"] * 50).selected == keys(shown, "end").selected
    assert keys(shown, *["up"] * 5).selected == ("tasklist_lock", "rwlock:W")


def test_a_lock_shows_who_waits_from_where_and_who_holds(shown: Shown) -> None:
    lines = "\n".join(text(shown, keys(shown, "enter"), rows=60))
    assert "tasklist_lock (rwlock:W)" in lines
    assert "strace (1001) /system.slice/database.service" in lines
    assert "queued_write_lock_slowpath" in lines
    assert "reaper (1004) in" in lines
    assert text(shown, keys(shown, "enter", "escape")) == text(shown, State(selected=("tasklist_lock", "rwlock:W")))
    # A lock that nobody waits for in this interval.
    gone = replace(State(view="lock"), selected=("gone", "mutex"))
    assert "no wait for it in this time" in text(shown, gone)


def test_who_waits_most_for_a_lock_comes_first(tmp_path: Path) -> None:
    """Also where another one waited longer, for this lock and others together."""
    scene = Scene(tmp_path / "two")
    scene.builder.lock(2, "other")
    for lock, who, ns in ((1, "less", 400), (2, "less", 300), (1, "more", 500)):
        scene.waits(lock, MUTEX, ns * 1000, 4, who, ("here",))
    scene.builder.finish()
    shown = Shown(*read_file(tmp_path / "two", None))
    key = next((lock.name, lock.kind) for lock in shown.report.locks if lock.name != "other")
    lines = text(shown, State(view="lock", selected=key))
    at = lines.index("WHO WAITS (most for this lock)")
    assert [line.split()[2] for line in lines[at + 1 : at + 3]] == ["more", "less"]


def test_time_keys_are_of_recordings_alone(shown: Shown) -> None:
    assert keys(shown, "right").step is None
    assert [keys(shown, *pressed, steps=4).step for pressed in (["right"], ["right"] * 9, ["end"], ["a", "left"])] == [
        0,
        3,
        3,
        0,
    ]
    assert keys(shown, "right", "a", steps=4).step is None
    assert keys(shown, "right", steps=4).paused
    assert keys(shown, "k").keep
    assert not keys(shown, "k", steps=4).keep


def test_w_watches_the_line_of_the_selected_lock(shown: Shown) -> None:
    state = keys(shown, "down", "w")
    assert (state.view, state.selected, state.watches) == ("line", ("pipe_inode_info.mutex", "mutex"), 1)
    assert keys(shown, "down", "enter", "w").selected == state.selected
    # Once more; and of a recording there is no line to watch.
    assert keys(shown, "down", "w", "w").watches == 2
    assert keys(shown, "w", "escape").view == "locks"
    assert keys(shown, "w", steps=4).view == "locks"
    assert "ANSWER  it moves" in text(replace(shown, line=("ANSWER  it moves", "")), state)


def test_help_names_every_key(shown: Shown) -> None:
    lines = "\n".join(text(shown, keys(shown, "h"), rows=40))
    for key in ("Enter", "s", "r", "K", "/", "w", "f", "p", "k", "a", "q"):
        assert f" {key}  " in lines
    assert keys(shown, "h", "h").view == "locks"
    assert "lockline top --futex" in "\n".join(text(shown, keys(shown, "f")))


def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    hostile = Shown(*read_file(make_hostile(tmp_path / "hostile"), None))
    for pressed in ([], ["enter"], ["down", "down", "enter"]):
        for line in text(hostile, keys(hostile, *pressed), 200, 60):
            assert line.isprintable()
            assert not any(bad in line for bad in FORBIDDEN)


def test_once_and_batch_print(generated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["top", str(generated), "--once"]) == 0
    once = capsys.readouterr().out
    assert once.count("lockline top") == 1
    assert "(all)" in once
    assert cli.main(["top", "-i", str(generated), "--batch", "-n", "3"]) == 0
    batch = capsys.readouterr().out
    assert [f"({step} of 10)" in batch for step in (1, 2, 3, 4)] == [True, True, True, False]
    assert "\x1b" not in batch


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["EXAMPLE"], "needs a terminal"),
        (["EXAMPLE", "-n", "2"], "-n needs --batch"),
        (["-i", "2", "--once"], "-i no longer sets the interval: use -I"),
        (["EXAMPLE", "-i", "x"], "name one recording"),
        (["EXAMPLE", "--once", "--holders"], "--holders works only live"),
        (["/nonexistent", "--once"], "no such file"),
    ],
    ids=" ".join,
)
def test_one_clear_line(
    arguments: list[str], words: str, example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert cli.main(["top", *(str(example) if word == "EXAMPLE" else word for word in arguments)]) == 1
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1


class Terminal:
    """A program on a terminal of 80x24; read() collects what it writes."""

    def __init__(self, arguments: list[str], **environment: str) -> None:
        self.master, other = pty.openpty()
        self.resize(80, 24)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lockline", *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            cwd=TOP / "userspace",
            env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment},
            start_new_session=True,
        )
        os.close(other)
        self.seen = b""

    def resize(self, columns: int, rows: int) -> None:
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: bytes) -> None:
        """Reads until this text came since the last call."""
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen[-2000:]
            if select.select([self.master], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    raise AssertionError(self.seen[-2000:]) from None
        self.seen = self.seen[self.seen.index(text) + len(text) :]

    def send(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def end(self) -> int:
        """The exit code; what is written meanwhile is read, or the program could not end."""
        deadline = time.monotonic() + SECONDS
        # To the end: what it wrote last may still be there when it is gone.
        while time.monotonic() < deadline:
            try:
                if not select.select([self.master], [], [], 0.2)[0]:
                    continue
                self.seen += os.read(self.master, 65536)
            except OSError:
                break
        return self.process.wait(SECONDS)


@pytest.fixture
def terminal(example: Path) -> Iterator[Terminal]:
    opened = Terminal(["top", str(example)])
    yield opened
    if opened.process.poll() is None:
        opened.process.kill()
        opened.process.wait()
    os.close(opened.master)


def test_on_a_terminal(terminal: Terminal) -> None:
    terminal.until(b"tasklist_lock")
    # Ctrl-L draws all of it, not only what changed.
    terminal.send(b"a\x0c")
    terminal.until(b"(all)")
    terminal.send(b"\r\x0c")
    terminal.until(b"WHO WAITS")
    terminal.send(b"h\x0c")
    terminal.until(b"quit; Escape goes back")
    terminal.send(b"hq")
    assert terminal.end() == 0
    # The terminal is as it was: out of the alternate screen.
    assert b"\x1b[?1049l" in terminal.seen


def test_a_terminal_that_cannot_move_its_cursor(example: Path) -> None:
    opened = Terminal(["top", str(example)], TERM="no-such-terminal")
    try:
        opened.until(b"this terminal cannot show it")
        assert opened.end() == 1
    finally:
        os.close(opened.master)
