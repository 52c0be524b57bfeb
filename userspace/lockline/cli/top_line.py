# SPDX-License-Identifier: GPL-2.0-or-later
"""The key w of `lockline top`: a watch of a lock's cache line for some seconds, beside the recording."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lockline.base.collector import NAME, end_with_us, finish, spawn
from lockline.base.errors import LocklineError
from lockline.base.text import Style
from lockline.top.state import Key

SECONDS = 5


class LineWatch:
    """One watch; number: which press of the key began it.

    Raises LocklineError if the collector cannot be run.
    """

    def __init__(self, directory: Path, recording: Path, lock: Key, number: int) -> None:
        self.lock, self.number = lock, number
        self._path = directory / f"line-{number}.lockline"
        self._errors = directory / f"line-{number}.messages"
        self._lines: Sequence[str] | None = None
        # The recording says where the lock is.
        command = ["watch", "-q", *end_with_us(), "-i", str(recording), f"lock:{lock[0]}"]
        command += ["-d", str(SECONDS), "-o", str(self._path)]
        with self._errors.open("wb") as errors:
            self._process = spawn(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )

    def end(self) -> None:
        """Stop it, and forget what it wrote."""
        finish(self._process)
        self._path.unlink(missing_ok=True)
        self._errors.unlink(missing_ok=True)

    def lines(self, style: Style, columns: int) -> Sequence[str]:
        """What is known by now: that it goes on, the first screen of `lockline watch`, or why there is none."""
        if self._lines is None and self._process.poll() is not None:
            self._lines = self._read(style, columns)
            self.end()
        return self._lines or (f"watching the cache line of {self.lock[0]} for {SECONDS} s ...",)

    def _read(self, style: Style, columns: int) -> Sequence[str]:
        if self._process.returncode:
            said = self._errors.read_text(encoding="utf-8", errors="replace").splitlines()
            return [line.removeprefix("lockline: ") for line in said if line] or [f"{NAME} watch failed"]
        from lockline.c2c.live import live_report
        from lockline.cli.watch import TEXT_LINES
        from lockline.recording.reader import open_recording
        from lockline.render.lines_screen import render_watch

        try:
            with open_recording(self._path) as recording:
                report = live_report(recording, TEXT_LINES)
            report = replace(report, c2c=replace(report.c2c, path=f"lock:{self.lock[0]}"))
            return render_watch(report, style, columns, kept=False).split("\n")
        except LocklineError as error:
            return [str(error)]
