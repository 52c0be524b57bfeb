# SPDX-License-Identifier: GPL-2.0-or-later
"""What the programs of real waits execute, where spinlocks are native and the kernel allows fentry.

The emulator counts it (coherence/executed.c).  How many instructions they are scripts/bench-guest tells; here is what
has to hold of every build: one clock read for each end of a wait, and no locked operation of one that spins.
"""

from collections.abc import Callable

import pytest
from boots import TOP, Boot, Section
from guest import Guest
from matrix import CPU, NATIVE, chosen, kernel_of

from executed import Cost, Program, Symbols, cost_of, functions_of, read_phases

SPINNING, NEW_LOCKS, WRITERS = range(1, 4)
THREADS = 4
LOADS = {
    SPINNING: f"lock_load futex {THREADS}",
    NEW_LOCKS: f"lock_load new-locks {THREADS}",
    WRITERS: f"lock_load directory {THREADS}",
}
WRITER = "rwsem_write_enter"
# Counts are exact, so that few runs have a mean; an emulator on a busy host makes some 80 waits in a load's 5 s.
ENOUGH = 30

# Waits are long in an emulator: none is to be kept for its length alone.  The first ones have stacks taken.
COMMAND = """
cat /proc/kallsyms > symbols
lockline-collect record -a --threshold 1h -o run.lockline > /dev/null 2> messages &
tool=$!
until grep -q recording messages || ! kill -0 $tool; do sleep 0.1; done
""" + "\n".join(
    f"""
timeout 3 {words}
counted {phase} timeout 5 {words}
grep bpf_ /proc/kallsyms > symbols.{phase}"""
    for phase, words in LOADS.items()
)
COMMAND += "\nkill -INT $tool && wait $tool"


def section(kernel: str) -> Section:
    """A guest with four CPUs, so that some of them queue."""
    where = Boot(
        kernel,
        cpus=4,
        cpu=CPU[NATIVE],
        append="tsc=reliable nokaslr idle=halt",
        plugin=TOP / "build" / "vm" / "executed.so",
        plugin_options="out={out}/counted",
        label="counted",
    )
    return Section(where, "executed", COMMAND)


@pytest.fixture(scope="module", params=chosen(section("trixie"), section("sid")), ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """A guest whose instructions were counted."""
    return results(request.param)


def cost(guest: Guest, phase: int) -> Cost:
    """What lockline took in a phase."""
    own = [line for line in guest.text("symbols").splitlines() if not line.endswith("]")]
    symbols = Symbols([*own, *guest.text(f"symbols.{phase}").splitlines()])
    return cost_of(functions_of(read_phases(guest.directory / "counted")[phase], symbols))


def program(found: Cost, name: str) -> Program:
    """One that ran often enough for its means."""
    (one,) = [one for one in found.programs if one.name == name]
    assert one.runs >= ENOUGH, one
    return one


def test_a_spinning_wait_reads_the_clock_at_either_end(guest: Guest) -> None:
    found = cost(guest, SPINNING)
    enter, leave = program(found, "spin_enter"), program(found, "spin_leave")
    assert 0.9 < enter.clocks <= 1
    assert 0.9 < leave.clocks <= 1
    assert enter.locked + leave.locked < 0.1


def test_a_tracepoint_inside_leaves_before_the_clock(guest: Guest) -> None:
    found = cost(guest, SPINNING)
    inside = program(found, "contention_begin")
    assert inside.clocks < 0.5
    assert program(found, "contention_end").clocks < 0.5


@pytest.mark.parametrize("phase", [NEW_LOCKS, WRITERS])
def test_a_sleeping_wait_reads_the_clock_at_either_end(guest: Guest, phase: int) -> None:
    """Whatever way it takes: the long one, of a lock that nobody waited for before; two probes, of writers."""
    found = cost(guest, phase)
    begin, end = program(found, "contention_begin"), program(found, "contention_end")
    begins = [one for one in found.programs if one.name.startswith(("contention_begin", "begin_", WRITER))]
    ends = [one for one in found.programs if one.name.startswith(("contention_end", "end_", "rwsem_write_leave"))]
    # A writer that wins an rwsem by spinning passes no tracepoint.
    writers, spins = (sum(one.runs for one in found.programs if one.name == name) for name in (WRITER, "spin_enter"))
    assert sum(one.runs * one.clocks for one in begins) <= 1.1 * max(begin.runs, writers) + spins + ENOUGH / 10
    assert sum(one.runs * one.clocks for one in ends) <= 1.1 * max(end.runs, writers) + spins + ENOUGH / 10


def test_a_writer_that_spins_for_an_rwsem_has_no_locked_operation(guest: Guest) -> None:
    """Two programs around the slow path alone: the common way, as of other sleeping waits."""
    found = cost(guest, WRITERS)
    enter, leave = program(found, "rwsem_write_enter"), program(found, "rwsem_write_leave")
    # A thread that is new claims a slot, and may lose it once: of some 30 waits that is a part.
    assert (enter.locked + leave.locked) * enter.runs < 0.2 * enter.runs + 2 * THREADS
    long_way = [one for one in found.programs if one.name in {"begin_sleeping", "end_sleeping"}]
    assert sum(one.runs for one in long_way) < enter.runs
