# SPDX-License-Identifier: GPL-2.0-or-later
"""Time and peak memory of a command, and of perf c2c beside lockline on the same file."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from c2c.imported import COLLECTOR

LOCKLINE = COLLECTOR.with_name("lockline")


@dataclass(frozen=True)
class Cost:
    """Of one run: elapsed and CPU seconds, largest resident memory of its largest process in bytes."""

    seconds: float
    cpu_seconds: float
    memory: int


class CommandError(Exception):
    """A measured command did not end with 0."""


def cost_of(command: Sequence[str]) -> Cost:
    """Run it with its output thrown away; CommandError unless it ends with 0."""
    runner = Path(__file__).with_name("run_measured.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(runner), *command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CommandError(f"{' '.join(command)}: status {done.returncode} {done.stderr}")
    return Cost(**json.loads(done.stdout))


def reports(path: Path) -> Mapping[str, Sequence[str]]:
    """perf's report, and lockline's as text and as JSON, from the file."""
    lockline = (sys.executable, "-S", str(LOCKLINE), "c2c", "report", str(path))
    return {
        "perf c2c report": ("perf", "c2c", "report", "-i", str(path), "--stdio", "--no-source"),
        "lockline, text": lockline,
        "lockline, JSON": (*lockline, "--format", "json"),
    }


def commands(path: Path, output: Path) -> Mapping[str, Sequence[str]]:
    """What is compared: perf's report, lockline's import alone, and its report from the file."""
    return {
        "perf c2c report": ("perf", "c2c", "report", "-i", str(path), "--stdio", "--no-source"),
        "lockline import": (str(COLLECTOR), "import", str(path), "-o", str(output)),
        # Without what a machine's site-packages make Python load at its start.
        "lockline c2c report": (sys.executable, "-S", str(LOCKLINE), "c2c", "report", str(path)),
    }


def best(runs: Sequence[Cost]) -> Cost:
    """The least of each figure: what disturbs a run only adds to it."""
    return Cost(min(run.seconds for run in runs), min(run.cpu_seconds for run in runs), min(run.memory for run in runs))


def compare(
    wanted: Mapping[str, Sequence[str]], rounds: int = 3, fewer: Mapping[str, int] | None = None
) -> dict[str, Cost]:
    """The best of some runs of each, in turn, so that all see the same machine; fewer: runs of a slow command."""
    runs: dict[str, list[Cost]] = {name: [] for name in wanted}
    for number in range(rounds):
        for name, command in wanted.items():
            if number < (fewer or {}).get(name, rounds):
                runs[name].append(cost_of(command))
    return {name: best(found) for name, found in runs.items()}
