# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines, clocks and lockline's own probes as steps of an investigation: chosen by what came before."""

from dataclasses import replace
from typing import Any

import pytest

from lockline.analysis.findings import Machine
from lockline.analysis.perturbation import MAKES, NO_DIFFERENCE
from lockline.investigation import probes
from lockline.investigation.choice import judge, next_steps, proven
from lockline.investigation.hypotheses import hypotheses
from lockline.investigation.model import ClockRead, Investigation, LineSeen, Observation, Unseen
from lockline.investigation.spins import Sample, Spin, Spins, spins_of
from lockline.investigation.wait_loops import word_at
from test_why_spins import COMPARES, COUNTER, PLACES, READ, SPIN_LOCK, SWAP, arm
from why_cases import FUTEX_QUIET, busy, finding, known_of, lock, observation, state_of

ADDRESS = 0x7F0000000040
HOT = Spin("atomic", "count", "/srv/server", "", "server", 100, 1.5, 0.9, 4, False, ADDRESS, "requests", 4)
FUTEX = replace(FUTEX_QUIET, spins=None)
NO_PMU = Unseen("memory samples (HITM)", "no such event source", "which lines move")


def counting(spin: Spin = HOT, *more: Observation, unseen: tuple[Unseen, ...] = (NO_PMU,)) -> Investigation:
    """Quiet kernel and programs, and threads in atomic instructions."""
    spins = Spins(samples=2000, cpus=2.0, spins=(spin,))
    totals = observation("totals", spins=None, unseen=unseen)
    return known_of(totals, FUTEX, observation("sleeps"), observation("spins", spins=spins), *more)


def line(cpu: float = 0.4, acting: bool = True, **changes: Any) -> Observation:
    """What watching the line saw."""
    made = LineSeen(
        address=ADDRESS // 64 * 64,
        moves=cpu * 1e7,
        cpu=cpu,
        at_least=False,
        move_ns=100.0,
        part=0.0,
        acting=acting,
        verdict="true sharing",
        sure="high",
    )
    return observation("watch", spins=None, lines=(replace(made, **changes),))


def options_of(known: Investigation) -> dict[str, tuple[str, ...]]:
    """What could be looked at next, and how."""
    return {choice.probe: choice.options for choice in next_steps(known)}


def test_a_hot_counter_is_watched() -> None:
    known = counting()
    assert options_of(known)[probes.WATCH][-1] == f"user:100:{ADDRESS:#x}"
    assert probes.HITM not in options_of(known)
    # Where the PMU tells, it is asked.
    assert probes.HITM in options_of(counting(unseen=()))


def test_threads_with_counters_of_their_own_are_no_suspects() -> None:
    assert probes.WATCH not in options_of(counting(replace(HOT, sharing=1)))
    assert probes.WATCH not in options_of(counting(replace(HOT, word=0)))


def test_a_line_that_moves_is_the_cause() -> None:
    verdict = judge(counting(HOT, line()), "nothing left to try")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("shared-line", "high")
    assert verdict.cause.remedies[0].action == "why-line-less"


def test_a_line_that_hardly_moves_is_none() -> None:
    known = counting(HOT, line(0.001, acting=False))
    assert state_of(known, "shared-line") == "ruled out"
    assert judge(known, "nothing left to try").kind == "nothing"
    # Nor one of which nothing was seen.
    assert state_of(counting(HOT, observation("watch", spins=None)), "shared-line") == "ruled out"


def test_samples_have_no_rate() -> None:
    (watched,) = line().lines
    sampled = observation("hitm", spins=None, lines=(replace(watched, moves=None, cpu=None, part=0.6),))
    verdict = judge(counting(HOT, sampled, unseen=()), "nothing left to try")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("shared-line", "medium")


def spinning_lock(wait_ns: int = 2_000, address: int | None = -0x7F000000) -> Observation:
    """A spinlock of the kernel with many short waits."""
    hot = lock(0.5, name="files_struct.file_lock", kind="spinlock", spinning=True, address=address, max_ns=40_000)
    hot = replace(hot, waits=hot.wait_ns // wait_ns)
    return observation("totals", kernel_waiters=0.5, waits=hot.waits, locks=(hot,), unseen=(NO_PMU,))


def test_the_line_of_a_lock_with_short_waits_is_watched() -> None:
    known = known_of(spinning_lock(), FUTEX_QUIET)
    assert options_of(known)[probes.WATCH][-1] == f"{(1 << 64) - 0x7F000000:#x}"
    for other in (spinning_lock(wait_ns=200_000), spinning_lock(address=None)):
        assert probes.WATCH not in options_of(known_of(other, FUTEX_QUIET))


def with_clock(*more: Observation) -> Investigation:
    """A machine whose clock is one device."""
    found = finding("shared-clocksource", Machine("hpet"), 0.0, "high")
    return known_of(observation("totals", clocksource="hpet", findings=(found,)), *more)


def test_a_shared_clock_is_no_cause_until_it_is_read() -> None:
    known = with_clock()
    assert proven(known, hypotheses(known)) is None
    assert probes.CLOCK in options_of(known)
    read = observation(
        "clock",
        clocksource="hpet",
        clock=ClockRead(500_000, 0.3, 600_000_000),
        findings=(finding("shared-clocksource", Machine("hpet"), 0.3, "high"),),
    )
    known = with_clock(FUTEX_QUIET, read)
    first = proven(known, hypotheses(known))
    assert first is not None
    assert first.cause == "shared-clocksource"
    idle = replace(read, clock=ClockRead(2_000, 0.001, 2_000_000))
    assert state_of(with_clock(FUTEX_QUIET, idle), "shared-clocksource") == "ruled out"
    # Reads that were counted alone take a microsecond each, or more.
    counted = replace(read, clock=ClockRead(1_000_000, None, 0))
    assert state_of(with_clock(FUTEX_QUIET, counted), "shared-clocksource") == "likely"


@pytest.mark.parametrize(("verdict", "state"), [(NO_DIFFERENCE, "ruled out"), (MAKES, "likely"), ("", "open")])
def test_waits_that_come_with_more_probes_are_checked(verdict: str, state: str) -> None:
    steps = [observation("totals", kernel_waiters=0.1, waits=100), busy("episodes", waiters=2.0), FUTEX_QUIET]
    checked = observation("self-check", perturbation=verdict)
    known = known_of(*steps, *([checked] if verdict else []))
    assert state_of(known, "perturbation") == state
    assert (probes.SELF_CHECK in options_of(known)) == (not verdict)
    # Fewer than six pairs of slices tell nothing.
    late = replace(known, plan=replace(known.plan, seconds=8.0))
    assert probes.SELF_CHECK not in options_of(late)
    same = known_of(busy("totals"), busy("episodes"), FUTEX_QUIET)
    assert not any(one.cause == "perturbation" for one in hypotheses(same))


NONE = (0,) * 17


def registers(**values: int) -> tuple[int, ...]:
    """perf's registers of x86-64."""
    order = ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", *(f"r{number}" for number in range(8, 16)))
    return tuple(values.get(name, 0) for name in order)


@pytest.mark.parametrize(
    ("code", "at", "given", "word"),
    [
        # lock addl $1,0x1234(%rip): from the next instruction on, whether it is at it or behind it.
        (COUNTER, 0, NONE, 0x400000 + 8 + 0x1234),
        (COUNTER, 8, NONE, 0x400000 + 0x1234),
        # What a loop that only reads looks at.
        (READ, 8, NONE, 0x400000 - 2 + 0x100),
        (COMPARES, 5, registers(r12=0x9000), 0x9000),
        # The loop of pthread_spin_lock().
        (SPIN_LOCK, 11, registers(di=0xA000), 0xA000),
        # lock addq $1,(%rdi); at its begin.
        (bytes.fromhex("f048830701"), 0, registers(di=0x7000), 0x7000),
        # lock xadd %rax,0x10(%r12): a register that needs a byte behind it.
        (bytes.fromhex("f0490fc1442410"), 0, registers(r12=0x8000), 0x8010),
        # lock incl -8(%rbx,%rcx,4).
        (bytes.fromhex("f0ff448bf8"), 0, registers(bx=0x1000, cx=3), 0x1004),
        # lock decl 0x2000(,%rdx,8): no base.
        (bytes.fromhex("f0ff0cd500200000"), 0, registers(dx=2), 0x2010),
    ],
)
def test_what_an_atomic_instruction_changes(code: bytes, at: int, given: tuple[int, ...], word: int) -> None:
    pad = b"\x90" * 64
    assert word_at(pad + code + pad, len(pad) + at, "x86_64", 0x400000, given) == word


def test_what_a_loop_of_exchanges_changes() -> None:
    pad = b"\x90" * 64
    # xchg %bl,0x7537a(%rip) ends at 8.
    assert word_at(pad + SWAP + pad, 72, "x86_64", 0x400008, NONE) == 0x400008 + 0x7537A
    assert word_at(pad, 32, "x86_64", 0x400000, NONE) == 0


def test_what_an_atomic_instruction_of_arm64_changes() -> None:
    code = arm(0xB8200041, 0x17FFFFFF)
    given = tuple(range(0x100, 0x100 + 33))
    assert word_at(code, 0, "aarch64", 0x400000, given) == 0x102
    assert word_at(code, 4, "aarch64", 0x400004, given) == 0x102


def test_threads_that_had_one_cpu_among_them_did_not_meet() -> None:
    """That a line does not move then says nothing of a machine with CPUs for them."""
    alone = Spins(samples=900, cpus=0.9, spins=(replace(HOT, cpus=0.9),))
    known = known_of(
        observation("totals", spins=None, unseen=(NO_PMU,)),
        FUTEX,
        observation("sleeps"),
        observation("spins", spins=alone),
        line(0.0, acting=False),
    )
    assert state_of(known, "shared-line") == "not testable"
    assert judge(known, "nothing left to try").sure == "medium"
    assert state_of(counting(HOT, line(0.0, acting=False)), "shared-line") == "ruled out"


def test_threads_that_share_a_line() -> None:
    samples = [Sample(7, tid, 0x1000, 0, (), ADDRESS + 8 * (tid % 2)) for tid in (1, 2, 3, 4) for _ in range(50)]
    samples += [Sample(7, 5, 0x1000, 0, (), ADDRESS + 4096)]

    def place(_: int, address: int) -> Any:
        from lockline.investigation.spins import Place

        return Place(PLACES.get(address, "requests" if address >= ADDRESS else ""), "/srv/server")

    (one,) = spins_of(samples, {(7, 0x1000): "atomic"}, place, lambda _: "server", 0.001).spins
    assert (one.word, one.name, one.sharing) in ((0, "", 0), (ADDRESS, "requests", 4), (ADDRESS + 8, "requests", 4))
