# SPDX-License-Identifier: GPL-2.0-or-later
"""Live loads with a known cause: the first finding of a plain recording names it, on kernels with and without RT.

Nothing but `record -a` is used: what a tired engineer types first.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from boots import Section
from guest import Guest
from matrix import boot, selected
from rank_one import locks_of, report_and_screen

SECONDS = 4


@dataclass(frozen=True)
class Load:
    """A load (of stress-ng where the guest has it), and what its first finding is."""

    command: str
    rules: tuple[str, ...]
    locks: tuple[str, ...]  # parts of a name among the finding's locks; (): any
    words: tuple[str, ...]  # of the first screen


LOADS = {
    "tracer": Load(
        "lock_load ptrace 4",
        ("tracing", "inactive-wait"),
        (),
        ("trac", "do stop lock_load ("),
    ),
    "directory": Load("lock_load directory 4", (), ("i_rwsem",), ("lock_load", "do spread files over several")),
    "append": Load("cause_load append 4", (), ("i_rwsem",), ("cause_load", "one file per writer")),
    "inotify": Load("cause_load inotify 4", (), ("fsnotify_group.mark_mutex",), ("cause_load",)),
}
# Before 7.x a tracer makes few tasks wait unless the kernel has PREEMPT_RT.
TRACED = ("tracer", "stress")
STRESS = Load(
    "stress-ng --ptrace 4 --quiet --timeout 0",
    ("tracing", "inactive-wait"),
    (),
    ("trac", "do stop stress-ng-ptrac ("),
)


@dataclass(frozen=True)
class ScreenCase:
    """A kernel."""

    kernel: str

    def __str__(self) -> str:
        return self.kernel

    @property
    def loads(self) -> dict[str, Load]:
        """By name.  On arm64 those that were tried there."""
        if self.kernel.endswith("arm64"):
            return {name: LOADS[name] for name in ("tracer", "directory")}
        traced = self.kernel.endswith("-rt") or self.kernel == "sid"
        return {name: load for name, load in (LOADS | {"stress": STRESS}).items() if traced or name not in TRACED}

    @property
    def sections(self) -> tuple[Section]:
        """A recording of each load."""
        script = "\n".join(
            f"lockline-collect record -a -q -o {name}.lockline --"
            f" sh -c 'timeout {SECONDS} {load.command}; true' || exit"
            for name, load in self.loads.items()
        )
        return (Section(boot(self.kernel, turns=self.kernel == "bookworm-rt"), "screen", script),)


CASES = tuple(map(ScreenCase, ("bookworm-rt", "trixie-rt", "bookworm", "trixie", "sid", "trixie-arm64")))


@pytest.fixture(scope="module", params=[case for case in CASES if selected(case.kernel)], ids=str)
def case(request: pytest.FixtureRequest) -> ScreenCase:
    """A kernel."""
    found: ScreenCase = request.param
    return found


@pytest.fixture(scope="module")
def guest(case: ScreenCase, results: Callable[[Section], Guest]) -> Guest:
    """The recordings of all loads."""
    return results(case.sections[0])


@pytest.mark.parametrize("name", [*LOADS, "stress"])
def test_rank_one_is_the_cause(case: ScreenCase, guest: Guest, name: str) -> None:
    if name not in case.loads:
        pytest.skip("this kernel has few waits of that load, or no such program")
    load = case.loads[name]
    report, lines = report_and_screen(guest.directory / f"{name}.lockline")
    text = " ".join(" ".join(lines).split())
    print("\n".join(lines))
    assert report.findings, lines
    first = report.findings[0]
    assert not load.rules or first.rule in load.rules, lines
    assert not load.locks or any(part in lock for part in load.locks for lock in locks_of(first)), lines
    for word in load.words:
        assert word in text, lines
