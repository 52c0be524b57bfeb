# SPDX-License-Identifier: GPL-2.0-or-later
"""A contended load, a recording of it and a report, leaving nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.base.collector import NAME, end_with_us, ended_by_signals, find_collector, finish
from lockline.base.errors import LocklineError
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report, with_lines

PIPE_ENDS = 4
STOP_SECONDS = 5


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
def contended_load(seconds: int, directory: Path) -> Iterator[str]:
    """Run a load that contends for kernel locks; gives what it is.

    stress-ng's futex stressor where it is installed; else several processes that write single bytes into
    one pipe, and several that read them.
    """
    processes: list[subprocess.Popen[bytes]] = []
    workers = min(4, max(2, os.cpu_count() or 1))
    stress = shutil.which("stress-ng")
    try:
        if stress is not None:
            command = [stress, "--futex", str(workers), "--timeout", str(seconds), "--quiet"]
            processes.append(_start(command, subprocess.DEVNULL, subprocess.DEVNULL, directory))
            yield f"stress-ng --futex {workers}"
        else:
            reading, writing = os.pipe()
            try:
                for _ in range(PIPE_ENDS):
                    processes += [
                        _start(["dd", "if=/dev/zero", "bs=1"], subprocess.DEVNULL, writing, directory),
                        _start(["dd", "of=/dev/null", "bs=1"], reading, subprocess.DEVNULL, directory),
                    ]
            finally:
                os.close(reading)
                os.close(writing)
            yield f"{PIPE_ENDS} writers and {PIPE_ENDS} readers of single bytes on one pipe"
    finally:
        _stop(processes)


def run_demo(seconds: int, selection: Selection, outlier_limit: int) -> Report:
    """Record a load for so many seconds and analyse it; progress on stderr.

    Raises LocklineError without root, without the collector, or if it fails.
    """
    if os.geteuid() != 0:
        raise LocklineError("demo: recording needs root; run it with sudo")
    collector = find_collector()
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lockline-demo-")))
        recording = directory / "demo.lockline"
        load = stack.enter_context(contended_load(seconds + 10, directory))
        print(f"lockline: load: {load}; recording for {seconds} s", file=sys.stderr)
        command = [collector, "record", "-a", "-q", *end_with_us(), "-d", str(seconds), "-o", str(recording)]
        try:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        except OSError as error:
            raise LocklineError(f"{collector} cannot be run: {error.strerror}") from error
        stack.callback(finish, process)
        code = process.wait()
        if code:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise LocklineError(f"demo: {NAME} record failed, {how}")
        with open_recording(recording) as opened:
            report = with_lines(make_report(opened, selection, outlier_limit), opened)
        # The file is gone when this is read.
        return replace(report, path=f"the demo, {load}")
