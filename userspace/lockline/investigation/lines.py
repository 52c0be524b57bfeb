# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether CPUs fight over a cache line: of a lock that many wait for shortly, or of what threads change atomically.

`lockline watch` counts the line's moves between CPUs; where the machine has a PMU that tells them, its samples do.
"""

from lockline.analysis.findings import Confidence, Fact, Function, Lock, Measure, Process, Text, fact, ns, part, remedy
from lockline.base.values import dataclass
from lockline.investigation import probes
from lockline.investigation.model import Evidence, Hypothesis, Investigation, LineSeen, WaitedLock
from lockline.investigation.observe import SHARED_LINE
from lockline.investigation.running import hot_atomics, spins_seen
from lockline.investigation.spins import LINE

# Waits so short are made by moving the line, as well as by what is done under the lock.
SHORT_NS = 20_000
# CPUs, or threads, that wait for it on average.
_ENOUGH = 0.1
# Of a watched line's moves, the CPU time from which on they are surely what the load waits for.
_SURELY = 0.1


@dataclass(frozen=True, slots=True)
class Suspect:
    """A line that CPUs may fight over.  name: of what lies there; target: in the words of `lockline watch`.

    address: of that.  waiters: CPUs that may wait for it.  process, function: whose threads change it, of the program's
    own lines.  step: that saw it.
    """

    name: str
    target: str
    address: int
    waiters: float
    step: int
    lock: Lock | None = None
    process: Process | None = None
    function: str = ""


def suspect(known: Investigation, lock: tuple[int, WaitedLock] | None) -> Suspect | None:
    """The line that is worth watching, if any is; lock: of the kernel, that stands out."""
    atomics = [one for one in hot_atomics(known) if one.word]
    seen = spins_seen(known)
    if atomics and seen is not None and atomics[0].cpus >= _ENOUGH:
        one = atomics[0]
        name = one.name or (f"what {one.function}() changes" if one.function else hex(one.word))
        process = Process(one.comm, one.tgid)
        target = f"user:{one.tgid}:{one.word:#x}"
        return Suspect(name, target, one.word, one.cpus, seen[0], None, process, one.function)
    if lock is None:
        return None
    number, of = lock
    if not of.spinning or of.address is None or of.waiters < _ENOUGH or of.wait_ns >= SHORT_NS * of.waits:
        return None
    address = of.address % (1 << 64)
    return Suspect(of.name, f"{address:#x}", address, of.waiters, number, Lock(of.name, of.kind))


# CPUs that threads need to meet at a line.
_MEET = 1.1


def _looked(known: Investigation, one: Suspect) -> tuple[int, LineSeen | None] | None:
    """The step that looked at the line, and what it saw; None: none did."""
    steps = [step for step, _ in known.observations if step.probe in (probes.WATCH, probes.HITM)]
    if not steps:
        return None
    for step, seen in known.observations:
        for line in seen.lines:
            if line.address == one.address // LINE * LINE:
                return step.number, line
    return steps[-1].number, None


def _amount(line: LineSeen) -> Fact:
    """How often the line moves, and what that costs."""
    if line.moves is None or line.cpu is None:
        return fact("why-line-samples", part=part(line.part, "all such loads"))
    moves = Measure(line.moves, "per second", bound="at least" if line.at_least else "")
    cost = part(line.cpu, "one CPU")
    if line.acting:
        return fact("why-line-moves", moves=moves, cpu=cost, each=ns(line.move_ns))
    return fact("why-line-still", moves=moves, cpu=cost)


def of_lines(known: Investigation, lock: tuple[int, WaitedLock] | None) -> list[Hypothesis]:
    """Whether CPUs fight over a line."""
    one = suspect(known, lock)
    if one is None or any(found.rule == SHARED_LINE for _, seen in known.observations for found in seen.findings):
        # Of a lock's line the rule says more.
        return []
    subject = one.lock or one.process
    looked = _looked(known, one)
    plain = fact("why-line-open", name=Text(one.name))
    if looked is None:
        tests = (probes.HITM, probes.WATCH)
        return [Hypothesis(SHARED_LINE, subject, "open", 0.5 * one.waiters, plain, tests=tests)]
    number, line = looked
    if line is None or not line.acting:
        against = fact("why-line-unseen") if line is None else _amount(line)
        ran = [seen.spins.cpus for _, seen in known.observations if seen.spins is not None]
        if one.process is not None and ran and ran[-1] < _MEET:
            # On a machine that is busy otherwise its threads run one after the other.
            few = Evidence(fact("why-line-alone", cpus=Measure(ran[-1], "CPUs")), False, number)
            return [
                Hypothesis(SHARED_LINE, subject, "not testable", 0.0, plain, (Evidence(against, False, number), few))
            ]
        return [Hypothesis(SHARED_LINE, subject, "ruled out", 0.0, plain, (Evidence(against, False, number),))]
    sure: Confidence = "high" if (line.cpu or 0.0) >= _SURELY and line.sure == "high" else "medium"
    told = [_amount(line)]
    if line.verdict:
        members = Text(", ".join(line.members)) if line.members else None
        told.append(fact("why-line-verdict", verdict=Text(line.verdict), members=members))
    advice = (remedy("why-line-layout", advice=Text(line.advice)),) if line.advice else (remedy("why-line-less"),)
    return [
        Hypothesis(
            cause=SHARED_LINE,
            subject=subject,
            state="likely",
            waiters=one.waiters if line.cpu is None else min(one.waiters, max(line.cpu, _SURELY * one.waiters)),
            claim=fact(
                "why-line",
                name=Text(one.name) if one.lock is None else one.lock,
                process=one.process,
                function=Function(one.function) if one.function and one.process else None,
            ),
            evidence=tuple(Evidence(fact_, True, number) for fact_ in told),
            remedies=(*advice, remedy("why-line-map", target=Text(one.target))),
            sure=sure,
        )
    ]


def fought_over(known: Investigation) -> float:
    """CPUs that wait for a line of a program's own, which is no lock of the kernel; 0 if none is known to."""
    return sum(one.waiters for one in of_lines(known, None) if one.supported)
