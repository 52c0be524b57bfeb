# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs of Go and Java that wait in many places at once, and count each place's waits: record --futex has the same.

By lock and by function.  Their run times' own tools stand beside it in the table (pytest -s, or a failure); what
differs there by definition is in docs/futex.md.
"""

import subprocess
from collections.abc import Container
from pathlib import Path

import pytest

from jvms import jvms
from lockline.analysis.user_space.futex_waits import CONDITION, LOCK, UNCLEAR
from programs import go_environment
from test_go import GO
from truths import Found, Truth, found_in, record, table

LANGUAGES = Path(__file__).resolve().parents[1] / "languages"
# Of the program's own sums.  What a place waits is its clock's way to the lock and back, too: that is no wait.
NEAR = 0.1
# Below this part of all waiting that way is not small any more.
SMALL = 0.01
JVMS = jvms()
# Each thread of Java waits at a word of its own, and each word needs a few samples of its own: so many have them.
JAVA_STACKS = "300"
# Of a lock, with as many samples as usual: the CPUs may be busy with other tests, and some words have few.
USUAL = 0.25
# The same threads wait at both, in turns: how many of their samples each has is chance.
BY_CHANCE = ("Truth.warmFirst", "Truth.warmSecond")


def check_locks(truth: Truth, found: Found, near: float) -> None:
    """Each lock is near the program's own sum, as a part of it, and the heaviest is the same."""
    shown = table(truth, found)
    print(f"\n{shown}")
    every = sum(place.ns for place in truth.places)
    locks = truth.locks()
    for lock, own in locks.items():
        if own >= SMALL * every:
            assert abs(found.of(truth.of(lock)) - own) <= near * own, f"{lock}\n{shown}"
    assert max(locks, key=lambda lock: found.of(truth.of(lock))) == max(locks, key=lambda lock: locks[lock]), shown


def check_places(truth: Truth, found: Found, by_chance: Container[str] = ()) -> None:
    """Each place is near, and the heaviest is the same."""
    shown = table(truth, found)
    every = sum(place.ns for place in truth.places)
    for place in truth.places:
        if place.ns >= SMALL * every and place.function not in by_chance:
            assert abs(found.places.get(place.function, 0) - place.ns) <= NEAR * place.ns, f"{place.function}\n{shown}"
    heaviest = max(truth.places, key=lambda place: place.ns)
    assert max(found.places, key=lambda function: found.places[function]) == heaviest.function, shown


def test_places_of_go(live: Path, recording: Path, tmp_path: Path) -> None:
    """Mutexes from several functions, a sync.RWMutex, a channel, groups, a condition: who waits, where."""
    program = tmp_path / "truth"
    subprocess.run([GO, "build", "-o", program, LANGUAGES / "truth.go"], env=go_environment(), check=True, timeout=300)
    truth = record(live, recording, [program], "--go")
    found = found_in(recording, truth)
    check_locks(truth, found, NEAR)
    check_places(truth, found)
    natures = {lock: max(rows, key=lambda row: row.figures.wait_ns).nature for lock, rows in found.rows.items()}
    assert natures["hot"] == natures["warm"] == natures["shared"] == LOCK
    assert natures["jobs"] in (LOCK, UNCLEAR)
    assert natures["group"] == natures["cond"] == CONDITION


@pytest.mark.parametrize("version", list(JVMS) or [pytest.param(0, marks=pytest.mark.skip(reason="no JVM"))])
def test_places_of_java(live: Path, recording: Path, tmp_path: Path, version: int) -> None:
    """Monitors that are entered and waited on, and four kinds of java.util.concurrent: who waits, where."""
    compilers = [java.with_name("javac") for java in JVMS.values() if java.with_name("javac").exists()]
    if not compilers:
        pytest.skip("no Java compiler is installed: scripts/setup test")
    source = LANGUAGES / "Truth.java"
    subprocess.run([compilers[0], "--release", "17", "-d", tmp_path, source], check=True, timeout=300)
    command = [JVMS[version], "-cp", tmp_path, "Truth"]
    usual = len(JVMS) > 1 and version == min(JVMS)
    truth = record(live, recording, command, *([] if usual else ["--futex-stacks", JAVA_STACKS]))
    found = found_in(recording, truth)
    if usual:
        check_locks(truth, found, USUAL)
    else:
        check_locks(truth, found, NEAR)
        check_places(truth, found, BY_CHANCE)
    natures = {lock: max(rows, key=lambda row: row.figures.wait_ns).nature for lock, rows in found.rows.items()}
    assert natures["hot"] == natures["shared"] == natures["full"] == LOCK
    assert natures["bell"] == CONDITION
