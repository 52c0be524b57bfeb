#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What is truly gained when a cause is taken away: beside `lockline report --what-if`, and `lockline experiment`.

As root: `make lab-what-if`.  Each program has a switch that takes its cause away.  The truth is from long runs in both
states, one after the other.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "userspace")]

from incidents.cases import GROUP, favour, limited, running  # noqa: E402
from lockline.analysis.selection import Selection  # noqa: E402
from lockline.analysis.whatif import Bound, what_if  # noqa: E402
from lockline.experiment.progress import opened  # noqa: E402
from lockline.experiment.spec import parse_spec  # noqa: E402
from lockline.recording.reader import open_recording  # noqa: E402
from lockline.render.whatif import bound_words  # noqa: E402
from lockline.rules.report import make_report  # noqa: E402

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "userspace")}
LOCKLINE = (sys.executable, "-m", "lockline")


@dataclass(frozen=True)
class Case:
    """A program of tests/workloads/switched.c.

    limit: it runs with a tenth of a CPU, and the switch ends that.  tracer: strace traces it, and the switch ends that;
    to stop a tracer by a signal would stop what it traces.  beyond: what the switch does more than to end
    waiting; the bound does not hold that.
    """

    name: str
    program: str
    threads: int
    limit: bool = False
    tracer: bool = False
    beyond: str = ""


CASES = (
    Case("work moved out of a section", "section", 6),
    Case("a lock split", "split", 6),
    Case("a hash collision gone", "collision", 6),
    Case("a line padded", "line", 3, beyond="the work is faster too"),
    Case("sleep moved out of a section", "asleep", 4),
    Case("holder no longer throttled", "nothing", 4, limit=True, beyond="there is more CPU too"),
    Case("the tracer gone", "asleep", 4, tracer=True, beyond="the work is faster too"),
    Case("the top waiter's lock gone, which makes it worse", "gate", 6),
    Case("a switch that does nothing", "nothing", 4),
)


@dataclass(frozen=True)
class Result:
    """truth: work without the cause : with it.  held: of the experiments, those whose interval has the truth."""

    case: Case
    truth: float
    bounds: tuple[Bound, ...]
    ratios: tuple[tuple[float, float, float], ...]

    @property
    def held(self) -> int:
        """Experiments whose interval has the truth."""
        return sum(low <= self.truth <= high for _, low, high in self.ratios)

    @property
    def bound(self) -> float | None:
        """The most that is gained without the lock that is waited for most, as a ratio."""
        gain = self.bounds[0].gain if self.bounds else None
        return None if gain is None else 1 + gain


@contextmanager
def started(case: Case, directory: Path) -> Iterator[tuple[int, str, str]]:
    """The program, and the commands that turn its switch."""
    with ExitStack() as stack:
        put = stack.enter_context(limited()) if case.limit else None
        load = stack.enter_context(running(("switched", case.program, str(case.threads)), directory))
        if case.tracer:
            tracer = directory / "tracer"
            end = f"read tracer < {tracer} && kill $tracer"
            # A tracer that has ended may stay in the table of processes for a while.
            end += f"; while grep -q 'TracerPid:.[1-9]' /proc/{load.pid}/status; do sleep 0.01; done"
            # An experiment may put it back twice.
            begin = f"grep -q 'TracerPid:.[1-9]' /proc/{load.pid}/status && exit"
            begin += f"; strace -f -qq -o /dev/null -p {load.pid} & echo $! > {tracer}"
            stack.callback(shell, end)
            shell(begin)
            yield load.pid, end, begin
            return
        if put is None:
            yield load.pid, f"kill -USR1 {load.pid}", f"kill -USR2 {load.pid}"
            return
        put(load.pid)
        tops = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
        group = next(top for top in tops if (top / "cpu.stat").exists() or top == tops[-1]) / GROUP
        v1, v2 = group / "cpu.cfs_quota_us", group / "cpu.max"
        if v1.exists():
            yield load.pid, f"echo -1 > {v1}", f"echo 10000 > {v1}"
        else:
            yield load.pid, f"echo max > {v2}", f"echo 10000 100000 > {v2}"


def shell(command: str) -> None:
    """Turn the switch."""
    subprocess.run(["sh", "-c", command], check=True)


def speed(spec: str, seconds: float) -> float:
    """Rounds in a second, from now on, after a quarter of that time."""
    with opened(parse_spec(spec)) as counter:
        time.sleep(seconds / 4)
        before, begin = counter.read(), time.monotonic()
        time.sleep(seconds)
        return counter.grown(before, counter.read()) / (time.monotonic() - begin)


def bounds_of(pid: int, directory: Path, seconds: int) -> tuple[Bound, ...]:
    """What `lockline report --what-if` has, of a recording of the process."""
    file = directory / "whatif.lockline"
    command = [*LOCKLINE, "record", "--futex", "-q", "-p", str(pid), "-d", str(seconds), "-o", str(file)]
    subprocess.run(command, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    with open_recording(file) as recording:
        return what_if(make_report(recording, Selection(), 10))


def measure(case: Case, runs: int, seconds: int) -> Result:
    """One program: the bound, and the truth of so many runs in both states, with an experiment after each."""
    with tempfile.TemporaryDirectory(prefix="lockline-whatif-", dir="/var/tmp") as name:
        directory = Path(name)
        with started(case, directory) as (pid, on, off):
            spec = f"memory:{pid}:rounds"
            bounds = bounds_of(pid, directory, seconds)
            without, with_cause = 0.0, 0.0
            ratios = []
            # In turn with the experiments: what else the machine does falls on both.
            for _ in range(runs):
                with_cause += speed(spec, seconds)
                shell(on)
                without += speed(spec, seconds)
                shell(off)
                arguments = ["--on", on, "--off", off, "--progress", spec, "-q", "--format", "json"]
                command = [*LOCKLINE, "experiment", *arguments, "-d", str(seconds), "--slice", "0.1"]
                done = subprocess.run(command, env=ENVIRONMENT, check=False, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"{case.name}: {done.stderr.strip()}")
                answer = json.loads(done.stdout)["answer"]
                high = math.inf if answer["high"] is None else answer["high"]
                ratios.append((answer["ratio"] or math.inf, answer["low"] or 0.0, high))
    return Result(case, without / with_cause, bounds, tuple(ratios))


def table(results: list[Result]) -> str:
    """The results in Markdown."""
    lines = [
        "| what is taken away | measured | bound | within | the bound's words | experiments that hold it |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in results:
        bound = "cannot be told" if one.bound is None else f"{one.bound:.2f}"
        within = "-" if one.bound is None else "yes" if one.truth <= one.bound else f"no: {one.case.beyond or '?'}"
        said = bound_words(one.bounds[0]) if one.bounds else "no lock is waited for enough"
        lines.append(
            f"| {one.case.name} | {one.truth:.2f} | {bound} | {within} | {said} | {one.held} of {len(one.ratios)} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="What is truly gained when a cause is taken away.")
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help="of switched; default: all")
    parser.add_argument("--runs", type=int, default=20, help="long runs in both states, and experiments (default: 20)")
    parser.add_argument("--seconds", type=int, default=4, help="of each run (default: 4)")
    arguments = parser.parse_args()
    favour("self")
    results = []
    for case in CASES:
        if arguments.names and not {case.program, case.name} & set(arguments.names):
            continue
        result = measure(case, arguments.runs, arguments.seconds)
        told = [f"{ratio:.2f} ({low:.2f} to {high:.2f})" for ratio, low, high in result.ratios]
        print(f"{case.name}: {result.truth:.2f}, bound {result.bound}; {', '.join(told)}", file=sys.stderr, flush=True)
        results.append(result)
    print(table(results))
    outside = [one for one in results if one.bound is not None and one.truth > one.bound and not one.case.beyond]
    held, runs = sum(one.held for one in results), sum(len(one.ratios) for one in results)
    print(
        f"\n{held} of {runs} experiments hold the measured ratio; {len(outside)} gains by less"
        " waiting alone are above their bound."
    )
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
