# SPDX-License-Identifier: GPL-2.0-or-later
"""What investigations cost, step by step, beside the fixed recordings that would have shown the same."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from incidents.cases import BUILD, Case, Result, favour, run_case, running
from lockline.analysis.selection import Selection
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report

# Who does not know what to look for records all of these.
FIXED = ((), ("--futex",), ("--episodes", "--holders"), ("--ptrace", "--episodes"))
SECONDS = 10


@dataclass(frozen=True)
class Price:
    """CPU time of lockline, and how long somebody waited for it, s."""

    cpu_s: float
    seconds: float


def steps_table(results: Sequence[Result]) -> str:
    """Of each probe: in how many investigations it was a step, how long it took, and what it cost, in the middle."""
    made: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    refused: defaultdict[str, int] = defaultdict(int)
    for one in results:
        for step in one.story["steps"]:
            if step["outcome"] in ("done", "over budget"):
                made[step["probe"]].append(step)
            else:
                refused[step["probe"]] += 1
    lines = [
        "| step | made | not started | records, s | foretold, ms | cost, ms | most, ms | to start, ms |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for probe, steps in sorted(made.items(), key=lambda item: -len(item[1])):
        costs = [(step["probe_ns"] + step["collector_ns"]) / 1e6 for step in steps]
        seconds, price, start = (
            statistics.median(step[name] for step in steps) for name in ("seconds", "price_ns", "start_ns")
        )
        lines.append(
            f"| `{probe}` | {len(steps)} | {refused[probe]} | {seconds:.1f} | {price / 1e6:.0f} |"
            f" {statistics.median(costs):.0f} | {max(costs):.0f} | {start / 1e6:.0f} |"
        )
    budgets = [one.story["budget"] for one in results]
    paid, start = (statistics.median(one[name] / 1e6 for one in budgets) for name in ("paid_ns", "start_ns"))
    seconds = statistics.median(one.seconds for one in results)
    steps_of_one = statistics.median(len(one.probes) for one in results)
    lines.append(
        f"\nAn investigation has {steps_of_one:.0f} steps, takes {seconds:.0f} s, costs {paid:.0f} ms, and"
        f" {start:.0f} ms to start its collectors (medians of {len(results)})."
    )
    return "\n".join(lines)


def _recorded(pid: int, options: Sequence[str], directory: Path) -> Price:
    """A recording of a process with these options, as `lockline record` makes it."""
    file = directory / "fixed.lockline"
    collector = BUILD / "bin" / "lockline-collect"
    began = time.monotonic()
    subprocess.run(
        [collector, "record", "-q", "-o", file, "-d", str(SECONDS), "-p", str(pid), *options],
        check=True,
        capture_output=True,
        start_new_session=True,
        preexec_fn=lambda: favour("self"),
    )
    seconds = time.monotonic() - began
    with open_recording(file) as recording:
        cost = make_report(recording, Selection(), 1).cost
    return Price(((cost.estimated_ns or 0) + cost.value("collector_cpu_ns")) / 1e9, seconds)


def fixed_prices(case: Case) -> list[Price]:
    """What each of the fixed recordings costs beside the load of a case that has nothing around it."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lockline-incidents-", dir="/var/tmp")))
        process = stack.enter_context(running(case.command, directory))
        return [_recorded(process.pid, options, directory) for options in FIXED]


def costs_table(cases: Sequence[Case]) -> str:
    """An investigation of each case beside the fixed recordings: the collectors' whole CPU time, with their starts."""
    names = ["plain", *("`" + " ".join(options) + "`" for options in FIXED[1:])]
    lines = [
        f"| incident | `why`: steps, s, CPU s | {' | '.join(names)} | all four, s | CPU s |",
        "| --- |" + " --- |" * (len(names) + 3),
    ]
    for case in cases:
        prices = fixed_prices(case)
        result = run_case(case)
        budget = result.story["budget"]
        cpu_s = (budget["paid_ns"] + budget["start_ns"]) / 1e9
        single = " | ".join(f"{price.cpu_s:.2f}" for price in prices)
        lines.append(
            f"| {case.name} | {len(result.probes)}, {result.seconds:.0f}, {cpu_s:.2f} | {single} |"
            f" {sum(price.seconds for price in prices):.0f} | {sum(price.cpu_s for price in prices):.2f} |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)
