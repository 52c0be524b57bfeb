# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws frames on a terminal by curses, and names its keys."""

import curses
import select
import sys
from collections.abc import Sequence
from contextlib import suppress

from lockline.top import state
from lockline.top.frame import Line

_KEYS = {
    curses.KEY_UP: state.UP,
    curses.KEY_DOWN: state.DOWN,
    curses.KEY_LEFT: state.LEFT,
    curses.KEY_RIGHT: state.RIGHT,
    curses.KEY_PPAGE: state.PAGE_UP,
    curses.KEY_NPAGE: state.PAGE_DOWN,
    curses.KEY_HOME: state.HOME,
    curses.KEY_END: state.END,
    curses.KEY_ENTER: state.ENTER,
    curses.KEY_BACKSPACE: state.BACKSPACE,
    10: state.ENTER,
    13: state.ENTER,
    27: state.ESCAPE,
    127: state.BACKSPACE,
    8: state.BACKSPACE,
}
# Ctrl-L: all is drawn again, after something else wrote to the terminal.
_REDRAW = "\x0c"


class Screen:
    """A curses window."""

    def __init__(self, window: "curses.window") -> None:
        self._window = window
        # Terminals that cannot hide the cursor say so by an error.
        with suppress(curses.error):
            curses.curs_set(0)
        self._looks = {"": 0, "title": curses.A_BOLD, "selected": curses.A_REVERSE, "faint": curses.A_DIM}
        window.keypad(True)

    def is_gone(self) -> bool:
        """Whether nobody can see the terminal any more: it hung up, and no signal came of it."""
        poll = select.poll()
        poll.register(sys.stdin.fileno(), 0)
        return bool(poll.poll(0))

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        rows, columns = self._window.getmaxyx()
        return columns, rows

    def key(self, wait_ms: int) -> str | None:
        """The next key, by its name, "" for one without a meaning; None after wait_ms without one."""
        self._window.timeout(wait_ms)
        try:
            code = self._window.get_wch()
        except curses.error:
            return None
        if code == _REDRAW:
            self._window.clearok(True)
            return ""
        if isinstance(code, str):
            return _KEYS.get(ord(code), code)
        return _KEYS.get(code, "")

    def draw(self, lines: Sequence[Line]) -> None:
        """Show a frame."""
        columns, rows = self.size()
        self._window.erase()
        for row, line in enumerate(lines[:rows]):
            # The last cell of the last row cannot be written without scrolling.
            text = line.text[: columns - 1] if row == rows - 1 else line.text[:columns]
            with suppress(curses.error):
                self._window.addstr(row, 0, text, self._looks[line.look])
        self._window.refresh()
