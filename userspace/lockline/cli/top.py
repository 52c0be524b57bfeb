# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline top`: lock waits as they happen, or of a recording, interval by interval."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockline.base.collector import NAME, end_with_us, finish, spawn
from lockline.base.ending import ended_by_signals
from lockline.base.errors import LocklineError
from lockline.base.text import Style
from lockline.base.values import replace
from lockline.cli import terminal
from lockline.cli.common import add_wait_filter, positive, wait_filter
from lockline.cli.temporary import temporary
from lockline.cli.top_line import LineWatch
from lockline.recording.reader import open_recording
from lockline.top.frame import Shown, frame
from lockline.top.source import Follower, read_file, steps
from lockline.top.state import State, press

if TYPE_CHECKING:
    from lockline.top.screen import Screen

# A live recording is begun anew after this time, so that it stays small.
KEPT_SECONDS = 600
# How often a live recording is looked at that is late, and keys of a pause.
_LOOK_MS = 100
# What a collector may need to load its programs.
_START_SECONDS = 60
# Of locks of programs: with the least that a recording takes, the first seconds show what they are.
_STACKS_A_SECOND = 60
# The lines of a frame that nobody looks at on a terminal.
_BATCH_ROWS = 40


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    top = commands.add_parser(
        "top",
        help="the locks with most waiting, live (as root) or from a recording",
    )
    top.add_argument("file", nargs="?", metavar="FILE", help="show this recording instead of this machine")
    shown = top.add_mutually_exclusive_group()
    shown.add_argument("--once", action="store_true", help="print one interval (with FILE: all of it), then stop")
    shown.add_argument("--batch", action="store_true", help="print intervals one after the other, for scripts")
    top.add_argument("-n", "--count", type=positive, metavar="N", help="with --batch: stop after N intervals")
    top.add_argument("-i", "--input", metavar="FILE", help="the same, as in perf")
    top.add_argument("-I", "--interval", type=positive, default=1, metavar="SECONDS", help="default: 1")
    top.add_argument("-p", "--pid", metavar="PID,...", help="only these processes, and what they fork")
    add_wait_filter(top)
    top.add_argument("--holders", action="store_true", help="also who held the locks; costs more")
    top.add_argument("--futex", action="store_true", help="also locks of programs; costs more")
    top.add_argument("-o", "--output", metavar="FILE", help="keep the live recording as FILE")


@dataclass(slots=True)
class _Live:
    """A collector and its recording; read: CPU time and clock when an interval was last read, None before the first."""

    process: "subprocess.Popen[bytes]"
    path: Path
    read: tuple[float, float] | None = None


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process and of this one."""
    own = os.times()
    seconds = own.user + own.system
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        pass
    return seconds


def _start(directory: Path, number: int, arguments: argparse.Namespace, messages: int) -> _Live:
    path = directory / f"top-{number}.lockline"
    command = ["record", "-q", *end_with_us(), "-I", str(arguments.interval), "-o", str(path)]
    command += ["-d", str(KEPT_SECONDS)]
    command += ["-p", arguments.pid] if arguments.pid else ["-a"]
    command += wait_filter(arguments)
    command += [f"--{name}" for name in ("holders", "futex") if getattr(arguments, name)]
    command += ["--futex-stacks", str(_STACKS_A_SECOND)] if arguments.futex else []
    # What it has to say would tear the screen: it is shown at the end.
    process = spawn(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=messages, start_new_session=True
    )
    return _Live(process, path)


def _last_message(messages: int) -> str:
    text = os.pread(messages, os.fstat(messages).st_size, 0).decode("utf-8", "replace")
    lines = [line.removeprefix("lockline: ") for line in text.splitlines() if line]
    return lines[-1] if lines else ""


class _Recorder:
    """Runs the collector, anew when its time is over, and reads what it writes."""

    def __init__(self, directory: Path, arguments: argparse.Namespace, style: Style, messages: int) -> None:
        self._directory = directory
        self._arguments = arguments
        self._style = style
        self._watched: LineWatch | None = None
        self._number = 0
        self._messages = messages
        self._live = _start(directory, 0, arguments, self._messages)
        self._follower = Follower(self._live.path)
        self._due = 0.0

    @property
    def path(self) -> Path:
        """The recording that is being written."""
        return self._live.path

    def stop(self) -> None:
        """End the collector; its recording is whole then."""
        self._follower.close()
        if self._watched is not None:
            self._watched.end()
        finish(self._live.process)

    def wait_ms(self) -> int:
        """How long until the next interval should be there."""
        return max(_LOOK_MS, round((self._due - time.monotonic()) * 1000))

    def due(self) -> bool:
        """Whether the next interval should be there."""
        return time.monotonic() >= self._due

    def next(self, state: State) -> Shown | None:
        """The newest interval; None where there is no newer one.  Raises LocklineError if the collector failed."""
        code = self._live.process.poll()
        if code:
            raise LocklineError(_last_message(self._messages) or f"top: {NAME} record failed, exit code {code}")
        report = self._follower.next()
        if report is not None:
            self._due = time.monotonic() + self._arguments.interval
            return self.detailed(Shown(report, cost=self._cost()), state)
        if code == 0:
            if self._arguments.pid:
                raise LocklineError("top: the processes are gone")
            self._follower.close()
            self._live.path.unlink(missing_ok=True)
            self._number += 1
            self._live = _start(self._directory, self._number, self._arguments, self._messages)
            self._follower = Follower(self._live.path)
        return None

    def detailed(self, shown: Shown, state: State) -> Shown:
        """The same interval, with what the view shows beside the locks."""
        report, holders = self._follower.details(shown.report, state)
        return replace(shown, report=report, holders=holders, line=self._line(state))

    def _line(self, state: State) -> Sequence[str]:
        """What is known of the line that was asked for last; a watch begins where there is none."""
        if state.view != "line" or state.selected is None:
            return ()
        if self._watched is None or (self._watched.lock, self._watched.number) != (state.selected, state.watches):
            if self._watched is not None:
                self._watched.end()
            self._watched = LineWatch(self._directory, self._live.path, state.selected, state.watches)
        return self._watched.lines(self._style, terminal.columns())

    def _cost(self) -> float | None:
        """Of a CPU, since the interval before; of the first one it would be the cost of the start."""
        before = self._live.read
        self._live.read = now = _cpu_seconds(self._live.process.pid), time.monotonic()
        return None if before is None else (now[0] - before[0]) / max(0.001, now[1] - before[1])


@contextmanager
def _recorder(arguments: argparse.Namespace, style: Style) -> Iterator[_Recorder]:
    if os.geteuid() != 0:
        raise LocklineError("top: recording needs root; run it with sudo, or name a recording: lockline top FILE")
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        directory = stack.enter_context(temporary("top"))
        # In memory: on a full disk it says that the disk is full.
        messages = os.memfd_create("messages", os.MFD_CLOEXEC)
        stack.callback(os.close, messages)
        recorder = _Recorder(directory, arguments, style, messages)
        stack.callback(recorder.stop)
        yield recorder


def _keep(recorder: _Recorder, output: str | None) -> None:
    recorder.stop()
    target = Path(output or time.strftime("lockline-top-%Y%m%d-%H%M%S.data"))
    if target.exists():
        raise LocklineError(f"{target}: exists already; the recording of top is not kept")
    shutil.move(recorder.path, target)
    target.chmod(0o600)
    print(f"lockline: kept as {target}", file=sys.stderr)


def _printed(shown: Shown, state: State, style: Style) -> str:
    lines = frame(shown, state, style, terminal.columns(), _BATCH_ROWS)
    # Without the keys.
    texts = "\n".join(line.text.rstrip() for line in lines[:-1]).strip("\n")
    return re.sub(r"\n{3,}", "\n\n", texts) + "\n\n"


def _first(recorder: _Recorder) -> Shown:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        shown = recorder.next(State())
        if shown is not None:
            return shown
        time.sleep(_LOOK_MS / 1000)
    raise LocklineError(f"top: {NAME} wrote no interval within {_START_SECONDS} s")


def _emit(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _batch_live(arguments: argparse.Namespace, style: Style) -> None:
    most = 1 if arguments.once else arguments.count
    with _recorder(arguments, style) as recorder:
        shown: Shown | None = _first(recorder)
        printed = 0
        while most is None or printed < most:
            if shown is not None:
                _emit(_printed(shown, State(), style))
                printed += 1
            else:
                time.sleep(recorder.wait_ms() / 1000)
            shown = recorder.next(State()) if most is None or printed < most else None
        if arguments.output:
            _keep(recorder, arguments.output)


def _batch_file(path: Path, arguments: argparse.Namespace, style: Style) -> None:
    if arguments.once:
        report, holders, number = read_file(path, None)
        _emit(_printed(Shown(report, holders, number), State(), style))
        return
    with open_recording(path) as recording:
        number = len(steps(recording))
    for step in range(min(number, arguments.count or number)):
        report, holders, _ = read_file(path, step)
        _emit(_printed(Shown(report, holders, number), State(step=step), style))


def _watch_file(screen: "Screen", path: Path, style: Style, interval_ms: int) -> None:
    """Keys of time move through the recording; it plays unless it is paused."""
    state = State(step=0)
    drawn = state.step
    shown = Shown(*read_file(path, drawn))
    while not (state.quit or screen.is_gone()):
        if drawn != state.step:
            drawn = state.step
            shown = Shown(*read_file(path, drawn))
        screen.draw(frame(shown, state, style, *screen.size()))
        key = screen.key(interval_ms if not state.paused else 60_000)
        if key is not None:
            state = press(state, key, shown.report.locks, shown.steps)
        elif not state.paused and state.step is not None:
            last = shown.steps - 1
            state = replace(state, step=min(last, state.step + 1), paused=state.step >= last)


def _watch_live(screen: "Screen", recorder: _Recorder, style: Style, state: State, shown: Shown) -> State:
    changed = True
    while not (state.quit or screen.is_gone()):
        if changed:
            screen.draw(frame(shown, state, style, *screen.size()))
        key = screen.key(recorder.wait_ms())
        changed = key is not None
        if key is not None:
            before, state = state, press(state, key, shown.report.locks)
            if (state.view, state.selected, state.watches) != (before.view, before.selected, before.watches):
                shown = recorder.detailed(shown, state)
        if not state.paused and recorder.due() and (newer := recorder.next(state)) is not None:
            shown, changed = newer, True
    return state


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """Show it; gives nothing to print, and the exit code.  Raises LocklineError."""
    style = terminal.style()
    if arguments.input is not None:
        # Until the next version: what -i was before.
        if arguments.input.isdecimal() and not Path(arguments.input).exists():
            raise LocklineError("-i no longer sets the interval: use -I. As in perf, -i names an input file")
        if arguments.file is not None:
            raise LocklineError("name one recording, by -i or without")
        arguments.file = arguments.input
    if arguments.count is not None and not arguments.batch:
        raise LocklineError("-n needs --batch")
    live_only = [name for name in ("pid", "holders", "futex", "output") if getattr(arguments, name)]
    if arguments.file is not None and live_only:
        raise LocklineError(f"--{live_only[0]} works only live, not with a recording")
    if arguments.once or arguments.batch:
        if arguments.file is not None:
            _batch_file(Path(arguments.file), arguments, style)
        else:
            _batch_live(arguments, style)
        return "", 0
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LocklineError("top: needs a terminal; --once and --batch print without one")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise LocklineError("top: this terminal cannot move its cursor (TERM=dumb); --batch prints without one")
    return _on_terminal(arguments, style)


def _on_terminal(arguments: argparse.Namespace, style: Style) -> tuple[str, int]:
    import curses

    from lockline.top.screen import Screen

    os.environ.setdefault("ESCDELAY", "25")
    path = None if arguments.file is None else Path(arguments.file)
    try:
        if path is not None:
            read_file(path, 0)
            curses.wrapper(lambda window: _watch_file(Screen(window), path, style, arguments.interval * 1000))
            return "", 0
        with _recorder(arguments, style) as recorder:
            begun = State(keep=bool(arguments.output))
            print("lockline: starting to record ...", file=sys.stderr)
            # What can fail fails before the screen is taken.
            first = _first(recorder)
            state = curses.wrapper(lambda window: _watch_live(Screen(window), recorder, style, begun, first))
            if state.keep:
                _keep(recorder, arguments.output)
    except curses.error as error:
        raise LocklineError(f"top: this terminal cannot show it ({error}); --batch prints without one") from error
    return "", 0
