# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that wait on CPUs: from code and samples to a verdict."""

import struct
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockline.base.text import Style
from lockline.cli.why import redacted
from lockline.investigation import probes
from lockline.investigation.choice import judge, next_steps
from lockline.investigation.model import Investigation, Target
from lockline.investigation.running import worth_telling
from lockline.investigation.sleeps import Naps
from lockline.investigation.spins import (
    Place,
    Sample,
    Spins,
    Wanted,
    part_got,
    spins_of,
    with_yields,
    yields_of,
)
from lockline.investigation.wait_loops import Kind, is_after_call, kind_at, word_at
from lockline.render import why_screen
from lockline.render.documents import why as document
from why_cases import FUTEX_QUIET, MACHINE, NOBODY_SLEEPS, known_of, observation

NOP = b"\x90"
# glibc's pthread_spin_lock: lock decl (%rdi); jne 1f; xor %eax,%eax; ret; 1: pause; cmpl $0,(%rdi); jg; jmp 1b.
SPIN_LOCK = bytes.fromhex("f0ff0f 7504 31c0 c3 90 f390 833f00 7ff0 ebf7")
# mov %eax,%ebx; xchg %bl,own(%rip); test %bl,%bl; jne: what gcc makes of atomic_flag_test_and_set() in a loop.
SWAP = bytes.fromhex("89c3 861d7a530700 84db 75f4")
# xor %eax,%eax; lock cmpxchg %edx,(%rdi); jne: a lock that is taken by compare and exchange.
COMPARE = bytes.fromhex("31c0 f00fb117 75f8")
# The same of Go: xor %eax,%eax; lea once(%rip),%rcx; mov $1,%edx; lock cmpxchg %rdx,(%rcx); sete %cl; test %cl,%cl; je.
GO = bytes.fromhex("31c0 488d0dc9d90e00 ba01000000 f0480fb111 0f94c1 84c9 74e6")
# mov (%rdi),%rcx; lea 1(%rcx),%rdx; mov %rcx,%rax; lock cmpxchg %rdx,(%rdi); jne: a counter that is read each time.
RELOAD = bytes.fromhex("488b0f 488d5101 4889c8 f0480fb117 75ef")
# The same, of a stack: the next element is put in the place of the first one.
POP = bytes.fromhex("488b07 4885c0 740d 488b10 f0480fb117 75f0")
# xor %eax,%eax; lock cmpxchg %edx,(%rdi); lock incl (%rsi); jne: it counts how often it tried.
COUNTS = bytes.fromhex("31c0 f00fb117 f0ff06 9090909090909090909090909090 75e7")
# xor %eax,%eax; lock cmpxchg %edx,(%rdi); lea 4(%rdi),%rdi; jne: it looks for a free place in a table.
SCAN = bytes.fromhex("31c0 f00fb117 488d7f04 75f4")
# mov %rcx,%rdi; xor %eax,%eax; lea 8(%rdi),%rcx; lock cmpxchg %edx,(%rdi); jne: the same by way of another register.
SCAN_TWO = bytes.fromhex("4889cf 31c0 488d4f08 f00fb117 75f1")
# mov %ebx,%eax; lea 1(%rax),%edx; lock cmpxchg %edx,(%rdi); mov %eax,%ebx; jne: a counter; CMPXCHG reads it each time.
FOUND = bytes.fromhex("89d8 8d5001 f00fb117 89c3 75f3")
# xor %eax,%eax; lock cmpxchg %edx,(%rdi); mov %edx,%eax; lock cmpxchg %esi,(%rdi); jmp: it takes and gives back.
TAKE_AND_GIVE = bytes.fromhex("31c0 f00fb117 89d0 f00fb137 ebf2")
# lea 1(%rax),%edx; lock cmpxchg %edx,(%rdi); jne: a counter.
UPDATE = bytes.fromhex("8d5001 f00fb117 75f7")
# mov $24,%eax; syscall; cmp $-4095,%rax.
YIELD = bytes.fromhex("b818000000 0f05 483d01f0ffff")
# lock addl $1,0x1234(%rip); sub $1,%edx; jne.
COUNTER = bytes.fromhex("f083053412000001 83ea01 75f3")
# mov 0x100(%rip),%eax; test %eax,%eax; jne: a loop that only reads.
READ = bytes.fromhex("8b0500010000 85c0 75f6")
# cmpb $0,(%r12); je: the same of one instruction.
COMPARES = bytes.fromhex("41803c2400 74f9")
# mov (%rax),%rax; test %rax,%rax; jne: it walks a list, and waits for nobody.
WALK = bytes.fromhex("488b00 4885c0 75f8")
# movzbl (%rdi),%eax; add $1,%rdi; test %al,%al; jne: a loop that works.
WORK = bytes.fromhex("0fb607 4883c701 84c0 75f5")


def in_code(code: bytes, at: int, pad: bytes = NOP * 64) -> Kind | None:
    """Of a thread that is about to run the instruction at this place."""
    return kind_at(pad + code + pad, len(pad) + at, "x86_64")


@pytest.mark.parametrize(
    ("code", "at", "kind"),
    [
        (SPIN_LOCK, 9, "spin"),
        (SPIN_LOCK, 11, "spin"),
        (SPIN_LOCK, 14, "spin"),
        (SWAP, 8, "swap"),
        (SWAP, 10, "swap"),
        (SWAP, 12, None),
        (COMPARE, 6, "swap"),
        (GO, 19, "swap"),
        (GO, 22, "swap"),
        (GO, 26, None),
        (RELOAD, 15, "atomic"),
        (POP, 16, "atomic"),
        (COUNTS, 6, "atomic"),
        (UPDATE, 7, "atomic"),
        (SCAN, 6, "atomic"),
        (SCAN_TWO, 13, "atomic"),
        (FOUND, 9, "atomic"),
        (TAKE_AND_GIVE, 6, "atomic"),
        (TAKE_AND_GIVE, 12, "atomic"),
        (YIELD, 7, "yield"),
        (YIELD, 5, None),
        (COUNTER, 8, "atomic"),
        (COUNTER, 0, "atomic"),
        (COUNTER, 11, None),
        (READ, 6, "read"),
        (READ, 8, "read"),
        (READ, 10, None),
        (COMPARES, 5, "read"),
        (WALK, 3, None),
        (WALK, 6, None),
        (WORK, 3, None),
        (WORK, 9, None),
    ],
)
def test_code_of_x86(code: bytes, at: int, kind: Kind | None) -> None:
    assert in_code(code, at) == kind
    # At the begin of what can be read, and at its end.
    assert kind_at(code, at, "x86_64") == kind
    assert kind_at(code, at, "riscv64") is None


def arm(*words: int) -> bytes:
    """Instructions."""
    return struct.pack(f"<{len(words)}I", *words)


@pytest.mark.parametrize(
    ("code", "at", "kind"),
    [
        # yield; ldr w0,[x1]; cbnz w0, -8.
        (arm(0xD503203F, 0xB9400020, 0x35FFFFC0), 4, "spin"),
        # wfe; ldaxr w0,[x1]; cbnz w0, -8.
        (arm(0xD503205F, 0x885FFC20, 0x35FFFFC0), 4, "spin"),
        # ldr w0,[x1]; isb; tbnz w0,#0, -8.
        (arm(0xB9400020, 0xD5033FDF, 0x3707FFC0), 0, "spin"),
        # mov x8,#124; svc #0; then the next one.
        (arm(0xD2800F88, 0xD4000001, 0xD65F03C0), 8, "yield"),
        # ldadd w0,w1,[x2]; b -4: a counter.
        (arm(0xB8200041, 0x17FFFFFF), 4, "atomic"),
        # ldr w0,[x1]; cbnz w0, -4: it only reads.  ldr x1,[x1]; cbnz x1, -4: it walks a list.
        (arm(0xB9400020, 0x35FFFFE0), 4, "read"),
        (arm(0xF9400021, 0xB5FFFFE1), 4, None),
        # ldarb w0,[x1]; cmp w0,#1; b.eq -8.
        (arm(0x08DFFC20, 0x7100041F, 0x54FFFFC0), 4, "read"),
        # ldrb w0,[x1],#1; cbnz w0, -4.
        (arm(0x38401420, 0x35FFFFE0), 4, None),
    ],
)
def test_code_of_arm64(code: bytes, at: int, kind: Kind | None) -> None:
    pad = arm(*[0xD503201F] * 16)
    assert kind_at(pad + code + pad, len(pad) + at, "aarch64") == kind
    assert kind_at(code, at, "aarch64") == kind


@given(st.binary(max_size=160), st.integers(-8, 200), st.sampled_from(["x86_64", "aarch64", ""]))
def test_no_code_breaks_the_reader(code: bytes, at: int, machine: str) -> None:
    assert kind_at(code, at, machine) in (None, "spin", "swap", "read", "yield", "atomic")
    is_after_call(code, machine)
    for registers in ((1,) * 17, (1,) * 33, ()):
        assert word_at(code, at, machine, 0x400000, registers) >= 0


@pytest.mark.parametrize("call", ["e8 01020304", "ff15 01020304", "ffd0", "41ffd3"])
def test_where_a_function_returns_to(call: str) -> None:
    code = bytes.fromhex(call)
    assert is_after_call(bytes(8 - len(code)) + code, "x86_64")
    assert not is_after_call(bytes(8), "x86_64")
    # bl, blr x3.
    assert is_after_call(arm(0, 0x94000010), "aarch64")
    assert is_after_call(arm(0, 0xD63F0060), "aarch64")
    assert not is_after_call(arm(0, 0xD503201F), "aarch64")
    assert not is_after_call(b"", "aarch64")


LOOP, ELSEWHERE, CALLER = 0x1000, 0x2000, 0x3000
PLACES = {LOOP: "pthread_spin_lock", ELSEWHERE: "work", CALLER: "take_table"}


def sampled(threads: Sequence[int], spinning: int, working: int, name: str = "", kind: Kind = "spin") -> Spins:
    """Threads of process 7, each with so many samples; one sample is a thousandth of a CPU."""
    samples = [Sample(7, tid, LOOP, CALLER) for tid in threads for _ in range(spinning)]
    samples += [Sample(7, tid, ELSEWHERE, 0) for tid in threads for _ in range(working)]

    def place(_: int, address: int) -> Place:
        return Place(name if name and address == LOOP else PLACES.get(address, ""), "/srv/server")

    return spins_of(samples, {(7, LOOP): kind}, place, lambda _: "server", 0.001)


def after(spins: Spins | None) -> Investigation:
    """A quiet kernel, quiet programs, and these samples."""
    return known_of(
        observation("totals", spins=None), replace(FUTEX_QUIET, spins=None), observation("spins", spins=spins)
    )


def test_a_spinlock_is_the_cause() -> None:
    spins = sampled((8, 9), 300, 100)
    assert (spins.samples, spins.cpus) == (800, pytest.approx(0.8))
    (spin,) = spins.spins
    assert (spin.function, spin.caller, spin.threads, spin.several) == ("pthread_spin_lock", "take_table", 2, True)
    assert (spin.cpus, spin.part) == (pytest.approx(0.6), 0.75)
    verdict = judge(after(spins), "nothing left to try")
    assert verdict.cause is not None
    assert (verdict.kind, verdict.sure, verdict.cause.cause) == ("cause", "high", "user-spin")
    story = document.make(after(spins), verdict, MACHINE)
    assert "spin in pthread_spin_lock(), called from take_table()" in story.verdict.title
    assert (story.on_cpu[0].kind, story.on_cpu[0].process) == ("spin", "server (7)")
    text = why_screen.render(story, Style(unicode=False, addresses=False), 80, None)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert len(text.splitlines()) <= 24


@pytest.mark.parametrize(
    ("spins", "sure"),
    [
        # A loop that waits, of several threads that do other things too: for a lock, or a barrier.
        (sampled((8, 9), 300, 100, "acquire"), "medium"),
        # One that never does anything else may poll for work.
        (sampled((8,), 300, 0, "poll"), "low"),
        (sampled((8, 9), 300, 0, "poll"), "low"),
        (sampled((8, 9), 300, 100, "acquire", "swap"), "low"),
    ],
)
def test_other_loops_are_less_sure(spins: Spins, sure: str) -> None:
    verdict = judge(after(spins), "nothing left to try")
    assert verdict.cause is not None
    assert verdict.cause.cause == "user-spin"
    assert verdict.sure == sure


def test_what_spins_is_the_cause_whoever_is_idle_meanwhile() -> None:
    """Two spin, seven of a pool sleep at futexes, and no budget was left to record what for."""
    totals = observation("totals", spins=None, sleeps=replace(NOBODY_SLEEPS, at_futex=150))
    known = known_of(totals, observation("spins", spins=sampled((8, 9), 300, 100)))
    verdict = judge(replace(known, target=Target(("-p", "7"), "process 7", (7,))), "budget")
    assert verdict.cause is not None
    assert (verdict.kind, verdict.cause.cause) == ("cause", "user-spin")


@pytest.mark.parametrize(
    "spins",
    [
        # In passing, of few samples, and atomic instructions, which are no waiting.
        sampled((8, 9), 20, 400),
        sampled((8, 9), 20, 0),
        sampled((8, 9), 300, 100, "count", "atomic"),
    ],
)
def test_what_is_no_waiting_is_not_told_as_such(spins: Spins) -> None:
    verdict = judge(after(spins), "nothing left to try")
    assert (verdict.kind, verdict.sure) == ("nothing", "high")


def test_much_time_in_atomic_instructions_is_told_beside_the_answer() -> None:
    known = after(sampled((8, 9), 300, 100, "count", "atomic"))
    story = document.make(known, judge(known, "nothing left to try"), MACHINE)
    assert story.on_cpu[0].kind == "atomic"
    text = why_screen.render(story, Style(unicode=False, addresses=False), 80, None)
    assert "75.0% of their CPU time in atomic" in " ".join(text.split())


def test_nobody_is_sure_before_running_threads_were_sampled() -> None:
    known = known_of(observation("totals", spins=None), replace(FUTEX_QUIET, spins=None))
    assert [choice.probe for choice in next_steps(known)] == [probes.SPINS]
    verdict = judge(known, "time")
    assert (verdict.kind, verdict.sure) == ("nothing", "medium")


def test_a_machine_that_refuses_samples_is_told() -> None:
    known = known_of(observation("totals", spins=None), replace(FUTEX_QUIET, spins=None))
    failed = replace(known.steps[-1], number=3, probe="spins", outcome="failed", seen=None, message="no")
    known = replace(known, steps=(*known.steps, failed))
    assert next_steps(known) == ()
    assert judge(known, "nothing left to try").sure == "medium"


@pytest.mark.parametrize(("rate", "threads", "sure"), [(800.0, 5, "medium"), (10.0, 5, "high"), (800.0, 1, "high")])
def test_threads_that_may_poll_for_a_lock_leave_a_doubt(rate: float, threads: int, sure: str) -> None:
    sleeps = replace(NOBODY_SLEEPS, naps=(Naps("server", 7, threads, rate),))
    known = known_of(observation("totals", sleeps=None), replace(FUTEX_QUIET, sleeps=None))
    known = known_of(*(seen for _, seen in known.observations), observation("sleeps", sleeps=sleeps))
    verdict = judge(known, "nothing left to try")
    assert (verdict.kind, verdict.sure) == ("nothing", sure)


def left(tid: int, at: int, switches: int, samples: int = 10) -> list[Sample]:
    """A thread of process 7 that left its CPU so often at one place, as samples tell."""
    return [Sample(7, tid, at, CALLER, stands_for=switches // samples)] * samples


def yielding(samples: Sequence[Sample], waited: float) -> Spins:
    """Samples of switches, beside few samples of running threads: each thread waited for a CPU for so long."""
    wanted = {tid: Wanted(0.01, waited) for tid in (8, 9)}
    kinds: dict[tuple[int, int], Kind] = {(7, LOOP): "yield"}
    places = {**PLACES, LOOP: "__sched_yield"}
    found = yields_of(samples, kinds, lambda _, at: Place(places[at], "/srv/server"), lambda _: "server", wanted, 2.0)
    return with_yields(replace(sampled((8, 9), 0, 20), got=part_got(wanted.values())), found)


def test_threads_that_yield_are_found_by_their_switches() -> None:
    """They hardly run: the rest of the time they wait for a CPU again, which samples of running threads do not see."""
    spins = yielding([*left(8, LOOP, 900), *left(8, ELSEWHERE, 100), *left(9, LOOP, 1000)], 0.8)
    (spin,) = spins.spins
    assert (spin.kind, spin.caller, spin.threads, spin.several) == ("yield", "take_table", 2, True)
    assert (spin.switches, spin.part) == (950.0, 0.95)
    assert spin.cpus == pytest.approx(0.8 * 0.9 + 0.8)
    verdict = judge(after(spins), "nothing left to try")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("user-spin", "medium")
    story = document.make(after(spins), verdict, MACHINE)
    assert "call sched_yield() 950 times a second" in " ".join(story.verdict.proof)


@pytest.mark.parametrize(
    ("samples", "waited"),
    [
        # Whose switches are others' doing; who yields seldom; who gets a CPU again at once; few samples.
        ([*left(8, LOOP, 100), *left(8, ELSEWHERE, 900)], 0.8),
        (left(8, LOOP, 50), 0.8),
        (left(8, LOOP, 1000), 0.01),
        (left(8, LOOP, 1000, 4), 0.8),
    ],
)
def test_who_yields_in_passing_does_not_wait(samples: Sequence[Sample], waited: float) -> None:
    assert not worth_telling(yielding(samples, waited))


def test_a_process_that_yields_is_told_once() -> None:
    more = yielding(left(8, LOOP, 1000), 0.8)
    both = with_yields(replace(more, spins=sampled((8,), 100, 0, "", "yield").spins), more.spins)
    assert [one.switches for one in both.spins] == [500.0]
    # Where samples of running threads show more of it, these tell.
    less = with_yields(replace(more, spins=sampled((8,), 1000, 0, "", "yield").spins), more.spins)
    assert [one.switches for one in less.spins] == [0.0]


def test_nobody_is_sure_of_threads_that_got_no_cpu() -> None:
    """Their samples are too few to say that they do not spin; of threads that want no CPU few samples are enough."""
    starved = replace(sampled((8, 9), 0, 20), got=0.05)
    assert starved.wanted == pytest.approx(0.8)
    verdict = judge(after(starved), "nothing left to try")
    assert (verdict.kind, verdict.sure) == ("nothing", "medium")
    assert judge(after(replace(starved, got=1.0)), "nothing left to try").sure == "high"


def test_what_counts_as_spinning_follows_what_threads_got() -> None:
    few = sampled((8, 9), 20, 20)
    assert not worth_telling(few)
    assert worth_telling(replace(sampled((8, 9), 20, 40), got=0.1))


def test_a_page_without_names_has_none() -> None:
    known = after(sampled((8, 9), 300, 100))
    story = redacted(known, judge(known, "nothing left to try"), MACHINE)
    assert "server" not in document.as_json(story)
