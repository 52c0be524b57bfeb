# SPDX-License-Identifier: GPL-2.0-or-later
"""Sampled stacks of locks reach the program's own functions, in each language that is here (Java: test_java.py).

Of Python and Ruby they reach the interpreter that runs them: test_python_functions.py has Python's own functions.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from languages.laboratory import LANGUAGES, REACH, Language, Reach, reach
from lockline.recording.reader import open_recording
from programs import go_environment
from support import Collector, wait_for

SAMPLES = 100
PART = 0.9
# Of the laboratory's programs.
LANGUAGES_HERE = [one for one in LANGUAGES if one.name in ("C", "C++", "Rust", "Python")]
REACH_HERE = [one for one in REACH if not one.name.startswith("Java")]


def sampled(path: Path) -> Callable[[], bool]:
    """Whether there are enough stacks of those who wait."""

    def enough() -> bool:
        with open_recording(path) as recording:
            ((samples,),) = recording.raw("SELECT COALESCE(SUM(samples), 0) FROM futex_sample WHERE role = 'waiter'")
            return int(samples) >= SAMPLES

    return enough


@pytest.mark.parametrize("one", [*LANGUAGES_HERE, *REACH_HERE], ids=lambda one: one.name)
def test_stacks_reach_the_program(live: Path, recording: Path, tmp_path: Path, one: Language | Reach) -> None:
    build, run = ([part.format(tmp_path) for part in command] for command in (one.build, one.run))
    options = one.options if isinstance(one, Reach) else ()
    mode = one.modes[0] if isinstance(one, Reach) else one.contended[0]
    try:
        if build:
            subprocess.run(build, env=go_environment(), check=True, timeout=300)
        program = subprocess.Popen([*run, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError as missing:
        pytest.skip(f"{missing.filename} is not installed: scripts/setup languages")
    with program:
        assert program.stdout is not None
        while program.stdout.readline() != "ready\n":
            assert program.poll() is None
        with Collector(live, recording, "--futex", "-I", "0.2", *options, "-p", str(program.pid)):
            wait_for(sampled(recording), f"{SAMPLES} samples")
        program.communicate("\n")
    every, part = reach(recording, one.own)
    print(f"{one.name}: {part:.0%} of {every} stacks reach {', '.join(one.own)}")
    assert part >= PART, f"{part:.0%} of {every}"
