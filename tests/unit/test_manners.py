# SPDX-License-Identifier: GPL-2.0-or-later
"""What commands do on a terminal: width, characters, colours and the pager, each under a pseudo-terminal."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockline.base.text import Style, width
from lockline.top.frame import Shown, frame
from lockline.top.source import read_file
from lockline.top.state import State, press
from terminals import Tmux, on_a_terminal, tmux_windows


@pytest.mark.parametrize("columns", [60, 80, 132])
@pytest.mark.parametrize("section", ["--all", "--locks", "--findings"])
def test_sections_are_as_wide_as_the_terminal(section: str, columns: int, example: Path) -> None:
    text = on_a_terminal(["report", str(example), section], columns, 500)
    assert max(map(width, text.splitlines())) <= columns


def test_a_terminal_in_the_c_locale_gets_ascii(example: Path) -> None:
    for section in ("--all", "--cpus", "--time"):
        assert on_a_terminal(["report", str(example), section], 80, 500).isascii() == (section == "--time")
        # Python itself changes the locale when it starts.
        start = section == "--all"
        assert on_a_terminal(["report", str(example), section], 80, 500, start, LC_ALL="C").isascii()
        posix = {"LC_ALL": "", "LANG": "POSIX"}
        assert on_a_terminal(["report", str(example), section], 80, 500, start, **posix).isascii()


@pytest.mark.parametrize(
    ("options", "environment", "wanted"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"NO_COLOR": ""}, True),
        ([], {"TERM": "dumb"}, False),
        (["--color=never"], {}, False),
        (["--color=always"], {"NO_COLOR": "1", "TERM": "dumb"}, True),
    ],
)
def test_colours(options: list[str], environment: dict[str, str], wanted: bool, example: Path) -> None:
    start = not options and not environment
    text = on_a_terminal(["report", str(example), *options], 80, 60, start, **environment)
    assert ("\x1b[1mANSWER\x1b[0m" in text) == wanted


@pytest.fixture
def pagers(tmp_path: Path) -> Path:
    """Programs that say who they are, and with which LESS."""
    for name in ("first", "second", "less"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $LESS $1"\nwc -l\n')
        program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "less FRX"),
        ({"LESS": "S"}, "less S"),
        ({"PAGER": "second -x"}, "second FRX -x"),
        ({"PAGER": "second", "LOCKLINE_PAGER": "first"}, "first FRX"),
        ({"PAGER": "cat"}, ""),
        ({"PAGER": ""}, ""),
        ({"PAGER": "no-such-pager"}, ""),
        ({"TERM": "dumb"}, ""),
    ],
)
def test_a_pager_as_gits(environment: dict[str, str], said: str, example: Path, pagers: Path) -> None:
    path = f"{pagers}:{os.environ['PATH']}"
    long = on_a_terminal(["report", str(example), "--all"], 80, 24, not environment, PATH=path, **environment)
    assert long.startswith(said or "lockline   report of")
    # What fits the terminal needs none.
    assert on_a_terminal(["report", str(example), "--all"], 80, 500, PATH=path, **environment).startswith("lockline ")


@pytest.fixture
def windows(tmp_path: Path) -> Iterator[list[Tmux]]:
    """The windows that a test opens; each server is ended."""
    with tmux_windows() as opened:
        yield opened


def test_the_keys_of_the_pager(example: Path, tmp_path: Path, windows: list[Tmux]) -> None:
    """Those that docs/troubleshooting.md names, in less; q ends it, with the exit code of the report."""
    if not shutil.which("less"):
        pytest.skip("needs less")
    arguments = [str(example), "--all"]
    lines = [line.rstrip() for line in on_a_terminal(["report", *arguments], PAGER="cat").splitlines()]
    first, second = lines[:23], lines[23:46]
    last = next(line for line in reversed(lines) if line)
    windows.append(Tmux(tmp_path, arguments, 80, 24, command="report", TERM="xterm", LC_ALL="C.UTF-8"))
    (window,) = windows
    window.until_it_begins(first)
    window.tmux("send-keys", "Space")
    window.until_it_begins(second)
    window.tmux("send-keys", "b")
    window.until_it_begins(first)
    # It stands on the second page alone.
    found = next(line for line in second if line and line not in first)
    window.tmux("send-keys", "-l", f"/{re.escape(found[:30])}")
    window.tmux("send-keys", "Enter")
    window.until_it_begins([found])
    window.tmux("send-keys", "g")
    window.until_it_begins(first)
    assert last not in "\n".join(window.screen())
    window.tmux("send-keys", "q")
    window.until_it_ends(0)


@pytest.mark.parametrize("term", ["screen", "xterm", "tmux-256color"])
def test_top_uses_the_terminal_and_follows_its_size(
    term: str, example: Path, tmp_path: Path, windows: list[Tmux]
) -> None:
    windows.append(Tmux(tmp_path, [str(example)], 200, 60, TERM=term, LC_ALL="C.UTF-8"))
    (window,) = windows
    wide = window.until("tasklist_lock", "help")
    assert max(map(width, wide)) > 100
    for columns, rows in ((80, 24), (50, 12), (160, 40)):
        window.tmux("resize-window", "-x", str(columns), "-y", str(rows))
        window.tmux("send-keys", "C-l")
        lines = window.until("lockline top", "tasklist_lock", "longest" if columns >= 80 else "LOCK")
        # tmux ends the text with a line end.
        assert len(lines) <= rows + 1
        assert max(map(width, lines)) <= columns
        assert sum("lockline top" in line for line in lines) == 1


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60)])
def test_the_screen_of_top_is_the_models(
    columns: int, rows: int, example: Path, tmp_path: Path, windows: list[Tmux]
) -> None:
    """After each key, and after the window got another size; q ends it."""
    shown = Shown(*read_file(example, None))
    windows.append(Tmux(tmp_path, [str(example)], columns, rows, TERM="screen", LC_ALL="C.UTF-8"))
    (window,) = windows
    window.until("tasklist_lock")
    state = State(step=0)
    sizes = {"h": (columns - 13, rows - 3), "up": (columns, rows)}
    for key in ("a", "down", "s", "r", "enter", "h", "h", "escape", "up"):
        state = press(state, key, shown.report.locks, shown.steps)
        if key in sizes:
            columns, rows = sizes[key]
            window.tmux("resize-window", "-x", str(columns), "-y", str(rows))
        window.tmux("send-keys", {"escape": "Escape", "enter": "Enter", "up": "Up", "down": "Down"}.get(key, key))
        lines = [line.text for line in frame(shown, state, Style(unicode=True), columns, rows)]
        # The last cell of all stays empty.
        lines[-1] = lines[-1][: columns - 1]
        window.until_it_is([line.rstrip() for line in lines])
    window.tmux("send-keys", "q")
    window.until_it_ends(0)


def test_top_says_why_it_cannot_be_shown_on_a_dumb_terminal(example: Path, tmp_path: Path, windows: list[Tmux]) -> None:
    windows.append(Tmux(tmp_path, [str(example)], 120, 24, TERM="dumb"))
    windows[0].until("lockline: top: this terminal cannot move its cursor (TERM=dumb); --batch prints without one")
    windows[0].until_it_ends(1)


def test_top_in_the_c_locale_is_ascii(example: Path, tmp_path: Path, windows: list[Tmux]) -> None:
    windows.append(Tmux(tmp_path, [str(example)], 100, 30, TERM="screen", LC_ALL="", LANG="C"))
    assert "\n".join(windows[0].until("tasklist_lock")).isascii()
