#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What is truly gained when a cause is taken away: beside `lockline report --what-if`, and `lockline experiment`.

As root: `make lab-what-if`.  Each program has a switch that takes its cause away.  The truth is from long runs in
both states, in pairs whose order is drawn by lot, with an interval of its own: it is measured, and not exact either.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "userspace")]

from incidents.cases import GROUP, favour, limited, running  # noqa: E402
from lockline.analysis.selection import Selection  # noqa: E402
from lockline.analysis.whatif import Bound, what_if  # noqa: E402
from lockline.base.paired_test import PairedTest, paired_test  # noqa: E402
from lockline.experiment.judge import FEWEST_PAIRS  # noqa: E402
from lockline.experiment.progress import opened  # noqa: E402
from lockline.experiment.spec import parse_spec  # noqa: E402
from lockline.recording.reader import open_recording  # noqa: E402
from lockline.render.whatif import bound_words  # noqa: E402
from lockline.rules.report import make_report  # noqa: E402

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "userspace")}
MOST_TRIES = 5
BOUND_SECONDS = 3
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
    """long: work without the cause : with it, of the long runs.  ratios: the experiments', with their intervals.

    bound: the most that is gained without the lock that is waited for most, as a ratio; said: in words.
    """

    case: Case
    long: PairedTest
    bound: float | None
    said: str
    ratios: tuple[tuple[float, float, float], ...]

    @property
    def truth(self) -> float:
        """What the long runs measure."""
        return math.inf if self.long.ratio is None else self.long.ratio

    @property
    def held(self) -> int:
        """Experiments whose interval has what the long runs measure, as if that were exact."""
        return sum(low <= self.truth <= high for _, low, high in self.ratios)

    @property
    def agree(self) -> int:
        """Experiments that differ from the long runs by no more than both intervals allow, which are independent."""
        return sum(_agree(one, (self.truth, self.long.low, self.long.high)) for one in self.ratios)


def _agree(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Whether two ratios differ by no more than the root of the sum of the squares of their intervals' halves.

    The halves are those that face each other.  Without a ratio nothing is said, so nothing differs.
    """
    lower, upper = sorted((one, other))
    if not (lower[0] > 0 and upper[0] < math.inf and lower[2] < math.inf and upper[1] > 0):
        return lower[2] >= upper[1]
    up, down = math.log(lower[2] / lower[0]), math.log(upper[0] / upper[1])
    return math.log(upper[0] / lower[0]) <= math.hypot(up, down)


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
            # Until it has attached, or ended: the next one would be a second tracer.
            begin += f"; until grep -q 'TracerPid:.[1-9]' /proc/{load.pid}/status; do"
            begin += " kill -0 $! 2> /dev/null || break; sleep 0.01; done"
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


def _experiment(case: Case, on: str, off: str, spec: str, seconds: int) -> tuple[float, float, float]:
    """What one says: the ratio, and its interval.  One that says nothing is made again: the machine was too busy."""
    arguments = ["--on", on, "--off", off, "--progress", spec, "-q", "--format", "json", "-d", str(seconds)]
    command = [*LOCKLINE, "experiment", *arguments]
    for _ in range(MOST_TRIES):
        done = subprocess.run(command, env=ENVIRONMENT, check=False, capture_output=True, text=True)
        if done.returncode:
            print(f"{case.name}: {done.stderr.strip()}", file=sys.stderr, flush=True)
            continue
        said = json.loads(done.stdout)
        answer = said["answer"]
        high = math.inf if answer["high"] is None else answer["high"]
        if answer["low"] or high < math.inf:
            return answer["ratio"] or math.inf, answer["low"] or 0.0, high
        print(f"{case.name}: an experiment says nothing: {said['title']}", file=sys.stderr, flush=True)
    raise RuntimeError(f"{case.name}: {MOST_TRIES} experiments say nothing")


def measure(case: Case, runs: int, seconds: int, experiments: int, each_s: int) -> Result:
    """One program: the bound, and the truth of so many pairs of long runs, with the experiments in between.

    each_s: of an experiment.
    """
    with tempfile.TemporaryDirectory(prefix="lockline-whatif-", dir="/var/tmp") as name:
        directory = Path(name)
        with started(case, directory) as (pid, on, off):
            spec = f"memory:{pid}:rounds"
            bounds = bounds_of(pid, directory, BOUND_SECONDS)
            pairs = []
            ratios: list[tuple[float, float, float]] = []
            # In turn with the experiments: what else the machine does falls on both.
            for run in range(runs):
                speeds = {}
                for state in random.sample((on, off), 2):
                    shell(state)
                    speeds[state] = speed(spec, seconds)
                shell(off)
                pairs.append((speeds[on], speeds[off]))
                if len(ratios) * runs <= run * experiments and len(ratios) < experiments:
                    ratios.append(_experiment(case, on, off, spec, each_s))
    gain = bounds[0].gain if bounds else None
    said = bound_words(bounds[0]) if bounds else "no lock is waited for enough"
    return Result(case, paired_test(pairs), None if gain is None else 1 + gain, said, tuple(ratios))


def _ratio_words(ratio: float, low: float, high: float) -> str:
    return f"{ratio:.3g} ({low:.3g} to {high:.3g})"


def of_text(line: str) -> Result:
    """A result that --keep has kept."""
    told = json.loads(line)
    case = next(one for one in CASES if one.name == told["case"]["name"])
    ratios = tuple((ratio, low, high) for ratio, low, high in told["ratios"])
    return Result(**{**told, "case": case, "long": PairedTest(**told["long"]), "ratios": ratios})


def table(results: list[Result]) -> str:
    """The results in Markdown."""
    lines = [
        "| what is taken away | long runs | experiments | hold it | agree | bound | within | the bound's words |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in results:
        bound = "cannot be told" if one.bound is None else f"{one.bound:.2f}"
        within = "-" if one.bound is None else "yes" if one.truth <= one.bound else f"no: {one.case.beyond or '?'}"
        lines.append(
            f"| {one.case.name} | {_ratio_words(one.truth, one.long.low, one.long.high)}"
            f" | {', '.join(_ratio_words(*ratio) for ratio in one.ratios)} | {one.held} of {len(one.ratios)}"
            f" | {one.agree} | {bound} | {within} | {one.said} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="What is truly gained when a cause is taken away.")
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help="of switched; default: all")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="add each result to a file, as JSON, a line each")
    parser.add_argument("--of", type=Path, metavar="FILE", help="run nothing: the table of what such a file has")
    parser.add_argument("--runs", type=int, default=24, help="long runs in both states (default: 24)")
    parser.add_argument("--experiments", type=int, default=3, help="of each program, no more than runs (default: 3)")
    parser.add_argument("--seconds", type=int, default=1, help="of each run (default: 1)")
    parser.add_argument("--each", type=int, default=10, help="seconds of each experiment (default: 10)")
    arguments = parser.parse_args()
    if arguments.runs < FEWEST_PAIRS:
        parser.error(f"--runs {arguments.runs}: the long runs have no interval with fewer than {FEWEST_PAIRS}")
    favour("self")
    results = [] if arguments.of is None else [of_text(line) for line in arguments.of.read_text().splitlines()]
    for case in CASES:
        if arguments.of is not None or (arguments.names and not {case.program, case.name} & set(arguments.names)):
            continue
        result = measure(case, arguments.runs, arguments.seconds, arguments.experiments, arguments.each)
        told = [_ratio_words(*one) for one in result.ratios]
        truth = _ratio_words(result.truth, result.long.low, result.long.high)
        print(f"{case.name}: {truth}, bound {result.bound}; {', '.join(told)}", file=sys.stderr, flush=True)
        results.append(result)
        if arguments.keep is not None:
            with arguments.keep.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")
    print(table(results))
    outside = [one for one in results if one.bound is not None and one.truth > one.bound and not one.case.beyond]
    held, runs = sum(one.held for one in results), sum(len(one.ratios) for one in results)
    agree = sum(one.agree for one in results)
    print(
        f"\n{held} of {runs} experiments hold the measured ratio; {agree} differ from the long runs by no more than"
        f" both intervals allow; {len(outside)} gains by less"
        " waiting alone are above their bound."
    )
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
