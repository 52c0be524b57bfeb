# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings that several tests read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from example_recording import make_example
from hostile_recording import make_hostile
from lockline.analysis.model import Report
from recording_generator import Shape, generate
from rule_cases import SPINLOCK, US, Made


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recording with something of everything."""
    return make_example(tmp_path_factory.mktemp("example") / "example.lockline")


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of 8 CPUs, 60 locks and 10 s with plausible figures."""
    shape = Shape(cpus=8, locks=60, seconds=10, cells=150, seed=7, tasks=40, outliers=5)
    return generate(tmp_path_factory.mktemp("generated") / "generated.lockline", shape)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording whose names are made to do harm."""
    return make_hostile(tmp_path_factory.mktemp("hostile") / "hostile.lockline")


@pytest.fixture(params=["example", "generated", "hostile"])
def recording(request: pytest.FixtureRequest) -> Path:
    """Each of the recordings above."""
    found: Path = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Made]:
    """Makes an empty recording with these facts."""
    return lambda **meta: Made(tmp_path / "made.lockline", **meta)


@pytest.fixture
def quiet(made: Callable[..., Made]) -> Report:
    """A report in which no rule finds anything."""
    recording = made()
    recording.lock(1, "tasklist_lock")
    recording.waits(1, SPINLOCK, US, 3)
    return recording.report()
