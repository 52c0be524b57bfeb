# SPDX-License-Identifier: GPL-2.0-or-later
"""A small process that puts everything back if lockline is killed, or stands still with a change on."""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress

from lockline.base.errors import LocklineError

_ON, _OFF, _DONE = b"1", b"0", b"q"
_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGTTOU,
    signal.SIGPIPE,
)


class Guard:
    """The guard of one change.  undo: puts it back; limit_s: for how long it may be on, at most."""

    def __init__(self, undo: Callable[[], None], limit_s: float) -> None:
        reading, self._pipe = os.pipe()
        # A signal that comes before the guard ignores it waits until it does.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self.pid = os.fork()
            if not self.pid:
                # Whatever happens, the guard never becomes a second lockline.
                try:
                    os.close(self._pipe)
                    _be_guard(reading, undo, limit_s)
                finally:
                    os._exit(1)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(reading)

    def _tell(self, word: bytes) -> None:
        with suppress(OSError):
            os.write(self._pipe, word)

    def alive(self) -> bool:
        """Whether the guard is there; nothing is changed without one."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == 0
        except ChildProcessError:
            return False

    def on(self) -> None:
        """A change begins.  Raises LocklineError if the guard is gone."""
        if not self.alive():
            raise LocklineError("the process that puts everything back was killed")
        self._tell(_ON)

    def off(self) -> None:
        """The change has been put back."""
        self._tell(_OFF)

    def end(self, all_back: bool) -> None:
        """No more changes.  all_back: nothing is left for the guard to do."""
        if all_back:
            self._tell(_DONE)
        os.close(self._pipe)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _be_guard(pipe: int, undo: Callable[[], None], limit_s: float) -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.setsid()
    # Whoever reads lockline's output need not wait for the guard.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    changed = False
    while True:
        ready, _, _ = select.select([pipe], [], [], limit_s if changed else None)
        if not ready:
            # lockline stands still: by Ctrl-Z, a debugger, or for want of a CPU.
            _undone(undo)
            changed = False
            continue
        words = os.read(pipe, 64)
        if _DONE in words:
            os._exit(0)
        if not words:
            _undone(undo)
            os._exit(0)
        changed = words[-1:] == _ON


def _undone(undo: Callable[[], None]) -> None:
    try:
        undo()
    except LocklineError as error:
        with suppress(OSError):
            os.write(2, f"lockline: experiment: could not put everything back: {error}\n".encode())
