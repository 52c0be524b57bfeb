# SPDX-License-Identifier: GPL-2.0-or-later
"""A line on a terminal while a command works for more than a second: what it does, and for how long."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import threading

# Before the line appears, and between two of its steps.
SECONDS = 1.0


def _show(words: Callable[[], str], stream: TextIO, seconds: float, end: "threading.Event") -> None:
    begun, text = time.monotonic(), ""
    while not end.wait(seconds):
        text = f"lockline: {words()}, {time.monotonic() - begun:.0f} s"
        stream.write(f"\r{text}")
        stream.flush()
    # Without escape sequences: dumb terminals know none.
    stream.write("\r" + " " * len(text) + "\r" if text else "")
    stream.flush()


@contextmanager
def progress(words: str | Callable[[], str], stream: TextIO | None = None, seconds: float = SECONDS) -> Iterator[None]:
    """Tell on a terminal (standard error) what goes on meanwhile; nothing is written anywhere else.

    words: a function gives them each time; they must not become shorter.
    """
    shown = sys.stderr if stream is None else stream
    if not shown.isatty():
        yield
        return
    import threading

    told = (lambda: words) if isinstance(words, str) else words
    end = threading.Event()
    thread = threading.Thread(target=_show, args=(told, shown, seconds, end), daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
