# SPDX-License-Identifier: GPL-2.0-or-later
"""What samples of running threads say of causes: those that wait on a CPU, which no other probe sees."""

from lockline.analysis.findings import Confidence, Fact, Function, Measure, Process, Remedy, Text, fact, part, remedy
from lockline.investigation import probes
from lockline.investigation.model import Evidence, Hypothesis, Investigation
from lockline.investigation.spins import ENOUGH_CPUS, Spin, Spins

# Threads that may wait so, as long as nobody has looked.
_EXPECTED = 0.2
# Of the CPU time of who spins: from here on it is what they do, and it is not in passing.
_NOT_IN_PASSING = 0.1
# The same, of atomic instructions.
_HOT = 0.3
# Samples from which on they say something.
_ENOUGH_SAMPLES = 50
# Calls of sched_yield() a second from which on threads wait so.
_ENOUGH_YIELDS_PER_S = 50.0


def spins_seen(known: Investigation) -> tuple[int, Spins] | None:
    """The last step that sampled running threads."""
    found = [(step.number, seen.spins) for step, seen in known.observations if seen.spins is not None]
    return found[-1] if found else None


def worth_telling(spins: Spins) -> tuple[Spin, ...]:
    """Who waits on CPUs more than in passing."""
    # On a machine that is short of CPUs all that threads do there is less: what they want counts.
    enough = ENOUGH_CPUS * spins.got
    spinning = [one for one in spins.spins if one.kind != "atomic"]
    return tuple(
        one
        for one in spinning
        if (one.switches >= _ENOUGH_YIELDS_PER_S and one.cpus >= ENOUGH_CPUS)
        or (
            not one.switches and spins.samples >= _ENOUGH_SAMPLES and one.cpus >= enough and one.part >= _NOT_IN_PASSING
        )
    )


def too_few(spins: Spins) -> bool:
    """Whether threads that want CPUs got too little of them for the samples to say anything."""
    return spins.samples < _ENOUGH_SAMPLES and spins.wanted >= ENOUGH_CPUS


def hot_atomics(known: Investigation) -> tuple[Spin, ...]:
    """Functions in which several threads spend much of their time in atomic instructions.

    That is no proof of a contended line: such an instruction takes 20 cycles on a line that nobody else wants.
    """
    seen = spins_seen(known)
    if seen is None or seen[1].samples < _ENOUGH_SAMPLES:
        return ()
    atomic = [one for one in seen[1].spins if one.kind == "atomic"]
    hot = (one for one in atomic if one.cpus >= ENOUGH_CPUS and one.part >= _HOT and one.threads > 1)
    # Who changes words on lines of their own fights with nobody.
    return tuple(one for one in hot if not one.word or one.sharing > 1)


def spinning(known: Investigation) -> float:
    """Threads that wait on CPUs on average, in their own code; 0 if nobody looked."""
    seen = spins_seen(known)
    if seen is None:
        return sum(one.waiters for one in _that_yield(known))
    return sum(one.cpus for one in worth_telling(seen[1]))


def _sure(one: Spin) -> Confidence:
    """A lock by its name is one; a thread alone, or one that does nothing else, may as well poll for work."""
    if one.is_lock:
        return "high"
    return "medium" if one.several and one.kind != "swap" else "low"


def _remedies(one: Spin) -> tuple[Remedy, ...]:
    process = Process(one.comm, one.tgid)
    # Where no function has a name, perf shows the instructions.
    look = remedy("why-perf-spin", process=process)
    return remedy("why-spin-less"), look


def on_cpu_fact(one: Spin) -> Fact:
    """Who waits on CPUs, or may wait for a cache line there, and where."""
    process = Process(one.comm, one.tgid)
    function = Function(one.function) if one.function else None
    caller = Function(one.caller) if one.caller else None
    if one.kind == "yield":
        return fact("why-yields", process=process, caller=caller)
    if one.kind == "atomic":
        return fact("why-atomics", process=process, function=function, part=part(one.part, "their CPU time"))
    word = Text(one.name) if one.name else None
    return fact("why-spins", process=process, function=function, caller=caller, word=word)


def _hypothesis(number: int, spins: Spins, one: Spin) -> Hypothesis:
    process = Process(one.comm, one.tgid)
    if one.switches:
        first = fact(
            "why-yield-switches",
            rate=Measure(one.switches, "per second"),
            threads=Measure(one.threads, "threads"),
            part=part(one.part, "all their switches"),
            waiting=Measure(one.cpus, "threads"),
        )
    else:
        first = fact(
            "why-spin-samples",
            samples=Measure(spins.samples, "samples"),
            cpus=Measure(one.cpus, "CPUs"),
            threads=Measure(one.threads, "threads"),
            part=part(one.part, "their CPU time"),
        )
    evidence = [first]
    if one.is_lock:
        evidence.append(fact("why-spin-lock", function=Function(one.function)))
    elif one.kind == "spin":
        evidence.append(fact("why-spin-pause"))
    elif one.kind == "swap":
        evidence.append(fact("why-spin-swap"))
    elif one.kind == "read":
        evidence.append(fact("why-spin-read"))
    else:
        evidence.append(fact("why-spin-yield"))
    return Hypothesis(
        cause="user-spin",
        subject=process,
        state="likely",
        waiters=one.cpus,
        claim=on_cpu_fact(one),
        evidence=tuple(Evidence(told, True, number) for told in evidence),
        remedies=_remedies(one),
        sure=_sure(one),
    )


def _that_yield(known: Investigation) -> list[Hypothesis]:
    """Threads of the chosen processes that a recording of their futexes saw in sched_yield(): no sample was needed."""
    if not known.target.tgids:
        return []
    # The last such look counts.
    seen = [(step.number, one.hidden) for step, one in known.observations if one.user_waiters is not None][-1:]
    found = []
    # Many calls that hardly wait are sampled, or not told.
    spins = ((number, one) for number, hidden in seen for one in hidden if one.kind == "spin")
    for number, one in (pair for pair in spins if pair[1].threads >= ENOUGH_CPUS):
        process = Process(one.comm, one.tgid)
        told = fact("why-yields-counted", threads=Measure(one.threads, "threads"))
        found.append(
            Hypothesis(
                cause="user-spin",
                subject=process,
                state="likely",
                waiters=one.threads,
                claim=fact("why-yields", process=process, caller=Function(one.function) if one.function else None),
                evidence=(Evidence(told, True, number), Evidence(fact("why-spin-yield"), True, number)),
                remedies=(remedy("why-spin-less"), remedy("why-perf-spin", process=process)),
                sure="medium",
            )
        )
    return found


def of_spins(known: Investigation) -> list[Hypothesis]:
    """Whether threads wait on CPUs, in their own code."""
    claim = fact("why-spinning")
    seen = spins_seen(known)
    if seen is None:
        counted = _that_yield(known)
        failed = [step for step in known.steps if step.probe == probes.SPINS and step.outcome == "failed"]
        if failed or not known.target.has_threads:
            evidence = Evidence(fact("why-not-sampled"), False, 0)
            return [*counted, Hypothesis("user-spin", None, "not testable", 0.0, claim, (evidence,))]
        return [*counted, Hypothesis("user-spin", None, "open", _EXPECTED, claim, tests=(probes.SPINS,))]
    number, spins = seen
    told = worth_telling(spins)
    if told:
        return [_hypothesis(number, spins, one) for one in told]
    samples, cpus = Measure(spins.samples, "samples"), Measure(spins.cpus, "CPUs")
    if too_few(spins):
        few = fact("why-few-samples", samples=samples, got=part(spins.got, "the time in which they wanted a CPU"))
        return [Hypothesis("user-spin", None, "not testable", 0.0, claim, (Evidence(few, False, number),))]
    against = fact("why-no-spins", samples=samples, cpus=cpus)
    return [Hypothesis("user-spin", None, "ruled out", 0.0, claim, (Evidence(against, False, number),))]
