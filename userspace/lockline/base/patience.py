# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads of another process's memory, or of its list of mappings, that need not end.

A page may be of a file system that the process itself serves, or behind a userfaultfd; whoever waits for it cannot
always be killed.  Such reads are made by a process of their own, lockline-collect, which is left alone when it takes
too long (userspace/collector/base/patience.c).
"""

import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lockline.base.collector import spawn
from lockline.base.errors import LocklineError

if TYPE_CHECKING:
    import subprocess

# A page that is on a disk comes within this; the kernel takes long over very many mappings.
MEMORY_SECONDS = 0.2
MAPS_SECONDS = 2.0
# A reader that could run but gets no CPU waits for no memory: it has this much longer.
STARVED_SECONDS = 4.0
_LOOK_SECONDS = 0.02
# So many readers may be left alone; after that nothing more is read.
MOST_LEFT = 64
_ARGUMENT = "--read-for-collector"
# struct request and its answer, of patience.c: what, process, address, size; what is behind that is for opens.
_REQUEST = struct.Struct("=IIQI36x")
_MEMORY, _MAPS, _HOLDER = 0, 1, 6
_RESULT = struct.Struct("=q")
MOST_MAPS_BYTES = 16 << 20
_MOST_BYTES = MOST_MAPS_BYTES + (64 << 10)
# A mutex of glibc, and what comes with a look at its owner.
MUTEX_BYTES = 12
_MOST_HOLDER_BYTES = 4096


# Readers that did not answer, and whom they read: of all that there ever were in this process.
_left: "list[tuple[subprocess.Popen[bytes], int]]" = []


def _forget_ended() -> None:
    _left[:] = [(process, tgid) for process, tgid in _left if process.poll() is None]


def left_alone() -> int:
    """Readers of this process that have not ended: what they were to read is not known."""
    _forget_ended()
    return len(_left)


class Reader:
    """Reads of processes, for as long as the block lasts."""

    def __init__(self) -> None:
        # Whether what was asked for last did not come in time.
        self.late = False
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.wait()
        self._socket = self._process = None

    def memory(self, tgid: int, begin: int, size: int) -> bytes:
        """So many bytes from there on, or fewer; none if they cannot be read, or do not come."""
        if not 0 <= begin < 1 << 63 or not 0 < size < 1 << 20:
            return b""
        return self._ask(_MEMORY, tgid, begin, size, MEMORY_SECONDS)

    def holder(self, tgid: int, mutex: int) -> tuple[bytes, bytes, tuple[str, ...]] | None:
        """A mutex of glibc, the same a moment later, and what its owner did between the two; None: it cannot be read.

        That is stat, wchan, syscall and schedstat of /proc/TGID/task/OWNER; '' for what is not there.
        """
        if not 0 <= mutex < 1 << 63:
            return None
        answer = self._ask(_HOLDER, tgid, mutex, _MOST_HOLDER_BYTES, MEMORY_SECONDS)
        texts = answer[2 * MUTEX_BYTES :].decode("utf-8", "replace").split("\0")
        if len(texts) != 5:
            return None
        return answer[:MUTEX_BYTES], answer[MUTEX_BYTES : 2 * MUTEX_BYTES], tuple(texts[:4])

    def maps(self, tgid: int, most: int = MOST_MAPS_BYTES) -> str:
        """/proc/TGID/maps, so many bytes of it or a little more; '' if it cannot be read, or does not come."""
        return self._ask(_MAPS, tgid, 0, most, MAPS_SECONDS).decode("utf-8", "replace")

    def _ask(self, what: int, tgid: int, begin: int, size: int, seconds: float) -> bytes:
        if _left:
            _forget_ended()
        self.late = len(_left) >= MOST_LEFT or any(of == tgid for _, of in _left)
        if self.late:
            return b""
        try:
            answers = self._start()
        except (OSError, LocklineError):
            return b""
        deadline = time.monotonic() + seconds
        try:
            answers.sendall(_REQUEST.pack(what, tgid, begin, size))
            (result,) = _RESULT.unpack(self._receive(answers, _RESULT.size, deadline))
            if result > (_MOST_BYTES if what == _MAPS else size):
                raise OSError("not an answer")
            return self._receive(answers, result, deadline) if result > 0 else b""
        except (OSError, struct.error):
            self._leave_alone(tgid)
            return b""

    def _receive(self, answers: socket.socket, size: int, deadline: float) -> bytes:
        """So many bytes.  Raises OSError if they do not come."""
        parts = []
        while size:
            left = deadline - time.monotonic()
            last = left < -STARVED_SECONDS or (left <= 0 and not self._could_run())
            answers.settimeout(max(left, _LOOK_SECONDS))
            try:
                part = answers.recv(min(size, 1 << 20))
            except TimeoutError:
                if last:
                    raise
                continue
            if not part:
                raise ConnectionResetError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _could_run(self) -> bool:
        """Whether the reader runs, or waits for a CPU."""
        try:
            status = Path(f"/proc/{self._process.pid}/stat").read_text() if self._process else ""
        except OSError:
            return False
        return status.rpartition(")")[2].split()[:1] == ["R"]

    def _start(self) -> socket.socket:
        if self._socket is None:
            import subprocess

            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    self._process = spawn(
                        [_ARGUMENT],
                        stdin=theirs.fileno(),
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        # Ctrl-C is ours: a read that is in work ends first.
                        start_new_session=True,
                    )
                except LocklineError:
                    ours.close()
                    raise
            self._socket = ours
        return self._socket

    def _leave_alone(self, tgid: int) -> None:
        """Not waited for: where it waits no signal reaches it."""
        self.late = True
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            _left.append((self._process, tgid))
        self._socket = self._process = None
