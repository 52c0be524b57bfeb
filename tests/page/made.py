# SPDX-License-Identifier: GPL-2.0-or-later
"""The recordings that pages are made of, and where npm's packages are."""

from pathlib import Path

from example_recording import make_example
from hostile_recording import make_hostile
from recording_generator import Shape, generate
from test_lines import bucket_recording
from watched_lines import futex_bucket

TOP = Path(__file__).resolve().parents[2]
MODULES = TOP / "build" / "page-test" / "node_modules"
NAMES = ("example", "generated", "hostile", "watched", "huge")
# 256 CPUs, ten minutes, 2,000 locks.
HUGE = Shape(cells=1000)


def make_all(directory: Path) -> dict[str, Path]:
    """One of each kind."""
    small = Shape(cpus=8, locks=60, seconds=10, cells=150, seed=7, tasks=40, outliers=5)
    return {
        "example": make_example(directory / "example"),
        "generated": generate(directory / "generated", small),
        "hostile": make_hostile(directory / "hostile"),
        "watched": bucket_recording(directory / "watched", futex_bucket(2_000)),
        "huge": generate(directory / "huge", HUGE),
    }
