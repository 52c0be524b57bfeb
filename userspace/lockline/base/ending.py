# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals that end a process end it by way of its clean-up."""

# Without typing: see cli/c2c_start.py.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import FrameType
else:
    # Numbers without names, as the kernel takes them.
    import _signal as signal


class _EndedBySignals:
    """Inside, SIGTERM and SIGHUP raise SystemExit; in a thread that is not the main one nothing changes."""

    def __enter__(self) -> None:
        def leave(number: int, frame: "FrameType | None") -> None:
            raise SystemExit(128 + number)

        try:
            self._before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
        except ValueError:
            # Python handles signals in its main thread alone.
            self._before = {}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def ended_by_signals() -> _EndedBySignals:
    """Turn SIGTERM and SIGHUP into an exit that passes the clean-up."""
    return _EndedBySignals()
