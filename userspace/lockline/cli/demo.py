# SPDX-License-Identifier: GPL-2.0-or-later
"""A load whose cause is certain, a recording of it and a report that must name that cause; nothing is left behind."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from lockline.analysis.answer import NEGLIGIBLE_SHARE, make_answer
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.analysis.series import read_slices
from lockline.base.collector import NAME, end_with_us, finish, spawn
from lockline.base.ending import ended_by_signals
from lockline.base.errors import LocklineError
from lockline.cli import demo_load, terminal
from lockline.cli import report as reports
from lockline.cli.common import positive
from lockline.cli.temporary import temporary
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report, with_lines

# What the load makes threads wait for, on every kernel.
LOCK = "mm_struct.mmap_lock"
WHAT = "threads of one process map memory, touch it and unmap it: they wait for its mmap_lock"
STOP_SECONDS = 5


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    demo = commands.add_parser("demo", help="record a contended load and show the report (as root)")
    demo.add_argument("-d", "--duration", type=positive, default=8, metavar="SECONDS", help="default: 8")
    demo.add_argument("--why", action="store_true", help="find the cause in steps, as `lockline why -p` does")
    reports.add_options(demo)


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """What is printed, and the exit code.  Raises LocklineError."""
    if arguments.why:
        return _run_why(arguments)
    report, pid = run_demo(arguments.duration, reports.selection_of(arguments), reports.outlier_limit(arguments))
    named, told = verdict(report, pid)
    print(f"lockline: {told}", file=sys.stderr)
    if arguments.format == "json":
        return reports.render(report, arguments), 0 if named else 1
    from lockline.render import screen

    # Its recording is gone: no command can show more of it.
    text = screen.render(report, report.slices, terminal.style(arguments.addresses), terminal.columns(), kept=False)
    return terminal.painted(text, arguments.color), 0 if named else 1


def _run_why(arguments: argparse.Namespace) -> tuple[str, int]:
    """`lockline why -p` of the load: what is printed, and the exit code."""
    from lockline.cli import why

    _needs_root()
    parser = argparse.ArgumentParser()
    why.add_parser(parser.add_subparsers())
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        directory = stack.enter_context(temporary("demo"))
        pid = stack.enter_context(contended_load(directory))
        print(f"lockline: the load: {WHAT}", file=sys.stderr)
        command = ["why", "-p", str(pid), "--format", arguments.format, "--color", arguments.color]
        asked = parser.parse_args(command)
        story, _ = why.find(asked, why.target_of(asked, None), directory)
        text = why.shown(story, asked)
        named = any(LOCK in told for told in (story.verdict.title, *story.verdict.proof))
    told = (
        "`why` blames mmap_lock: load and answer agree"
        if named
        else f"load and answer do not agree: `why` names something else, but the load does this: {WHAT}"
    )
    print(f"lockline: {told}", file=sys.stderr)
    return text, 0 if named else 1


def _needs_root() -> None:
    if os.geteuid() != 0:
        raise LocklineError("demo: recording needs root; run it with sudo")


def _start(command: list[str], stdin: int, stdout: int, directory: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, cwd=directory, start_new_session=True
    )


def _stop(processes: "list[subprocess.Popen[bytes]]") -> None:
    """End process groups that _start() made, and wait for them."""
    # A load that is asked to end can remove what it made; what is left of it after that is killed.
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        # An exited leader may have left children in its group.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def contended_load(directory: Path) -> Iterator[int]:
    """Run demo_load.py until the block ends; gives its process."""
    processes = [
        _start([sys.executable, str(Path(demo_load.__file__))], subprocess.DEVNULL, subprocess.DEVNULL, directory)
    ]
    try:
        yield processes[0].pid
    finally:
        _stop(processes)


def load_waiting(report: Report, pid: int) -> float:
    """Threads of the load that wait for its mmap_lock on average, by samples; 0 if hardly anybody waits."""
    heavy = NEGLIGIBLE_SHARE * report.window.duration_ns
    if not any(lock.name.startswith(LOCK) and lock.figures.wait_ns >= heavy for lock in report.locks):
        return 0.0
    of_load = sum(task.lock_ns for task in report.tasks if task.tgid == pid and task.lock.startswith(LOCK))
    return report.window.share(of_load) or 0.0


def named_first(report: Report) -> str:
    """What the answer names first."""
    answer = make_answer(report)
    if answer.kind == "other locks":
        return "locks on files, or semaphores"
    if answer.kind == "user space":
        return "locks of programs"
    return answer.locks[0].name if answer.locks and answer.kind != "negligible" else "no lock"


def verdict(report: Report, pid: int) -> tuple[bool, str]:
    """Whether the report has found what the load does, and a sentence that says so."""
    waiting, first = load_waiting(report, pid), named_first(report)
    if not waiting:
        return False, f"load and report do not agree: the report names {first}, but the load does this: {WHAT}"
    if first.startswith(LOCK):
        return True, "the report blames mmap_lock: load and report agree"
    return True, (
        f"load and report agree: the load keeps {max(waiting, 0.01):.2f} threads waiting for its mmap_lock on average."
        f" The report names {first} first, because other programs of this machine wait more for that"
    )


def run_demo(seconds: int, selection: Selection, outlier_limit: int) -> tuple[Report, int]:
    """Record the load for so many seconds and analyse it, with its series; and its process.  Progress on stderr.

    Raises LocklineError without root, without the collector, or if it fails.
    """
    _needs_root()
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        directory = stack.enter_context(temporary("demo"))
        recording = directory / "demo.lockline"
        pid = stack.enter_context(contended_load(directory))
        print(f"lockline: the load: {WHAT}; recording for {seconds} s", file=sys.stderr)
        command = ["record", "-a", "-q", *end_with_us(), "-d", str(seconds), "-o", str(recording)]
        process = spawn(command, stdout=subprocess.DEVNULL)
        stack.callback(finish, process)
        code = process.wait()
        if code:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise LocklineError(f"demo: {NAME} record failed, {how}")
        with open_recording(recording) as opened:
            report = with_lines(make_report(opened, selection, outlier_limit), opened)
            return replace(report, slices=read_slices(opened, report)), pid
