# SPDX-License-Identifier: GPL-2.0-or-later
"""The probes of an investigation: what each can tell, what it needs of the kernel, and its price."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lockline.investigation.model import Counters, Observation

# What one event costs with a probe on it, ns: docs/benchmarks.md, rounded up; of a system call, of a switch, of an
# interrupt.  A price is an estimate; what a step cost is measured.
SYSCALL_NS = 120
SWITCH_NS = 400
INTERRUPT_NS = 250
# System calls for each switch, where nobody counts them.
SYSCALLS_PER_SWITCH = 10
# Names of functions of programs are asked for behind the looks, or behind a recording: a program of ours loads their
# symbols.
NAMES_NS = 25_000_000
# For each byte of a process' list of mappings that comes on top: it is read here and by that program.  20,000 mappings
# are 1 MB, and take 50 to 75 ms.
MAPS_BYTE_NS = 60
# The list of an ordinary process is shorter, and is in NAMES_NS.
ORDINARY_MAPS_BYTES = 64 << 10
# To end a recording with locks of programs, names among it: 15 to 38 ms.
FUTEX_END_NS = 40_000_000
# Of a look at one thread in /proc, three files.
LOOK_NS = 30_000
LOOKS_PER_S = 20
THREADS_LOOKED_AT = 48
# Of a look at what one thread sleeps in, a file, and so many of them in a second.
SLEEP_LOOK_NS = 40_000
SLEEP_LOOKS = 1_500
# Fewer say nothing: 20 threads, three times.
LEAST_SLEEPS_NS = 60 * SLEEP_LOOK_NS
# Samples of where threads run, and of those that leave their CPUs, in all; what one costs: to take and to look at it.
# A CPU is sampled a thousand times a second at most.
SPIN_SAMPLES, SWITCH_SAMPLES = 4_000, 1_000
SPIN_SAMPLE_NS = 25_000
SPIN_SAMPLES_OF_CPU = 1_000
SPIN_INTERRUPT_NS = 2_000
# Traps at contended mutexes of a program in Go: a guess, and the collector stops at 10 % of the CPUs.
GO_TRAPS_PER_S = 2_000
GO_TRAP_NS = 20_000
# Unlocks for each contended one.
UNLOCKS_PER_WAIT = 20
UNLOCK_NS = 100

TOTALS, SLEEPS, SPINS, FUTEX, GO, THREADS, OWNERS, USERS = (
    "totals",
    "sleeps",
    "spins",
    "futex",
    "go",
    "threads",
    "owners",
    "users",
)
EPISODES, HOLDERS, PTRACE, WATCH, HITM, CLOCK, SELF_CHECK = (
    "episodes",
    "holders",
    "ptrace",
    "watch",
    "hitm",
    "clock",
    "self-check",
)
# Of each CPU's time: what watching may cost, as its own budget (`lockline watch --max-overhead`).
WATCH_PART = 0.01
# Memory samples a second of each CPU, and what one costs.
HITM_SAMPLES_PER_S = 1_000
HITM_SAMPLE_NS = 3_000
# A probed read of a clock device, and how often each switch and interrupt asks for the time.
CLOCK_READ_NS = 400
READS_PER_SWITCH = 4
# What the observer of a self-check takes of each CPU.
OBSERVER_PART = 0.01
CHECK_SLICE_MS = 250
# Six pairs of slices, with what is left out behind each switch: fewer tell nothing (docs/self-check.md).
CHECK_SECONDS = 5.5


@dataclass(frozen=True, slots=True)
class Known:
    """What prices are made of: the first step, what it cost, and what that is a second.

    waits_ns_per_s: what its probes cost.
    """

    totals_ns_per_s: float
    waits_per_s: float
    counters: Counters
    cpus: int = 1
    totals_ns: float = 0.0
    waits_ns_per_s: float = 0.0


def known_of(first: Observation, paid_ns: int, window_ns: int, probe_ns: int = 0) -> Known:
    """From the step with totals; probe_ns: of what it cost, that its probes took."""
    seconds = max(window_ns / 1e9, 0.001)
    return Known(paid_ns / seconds, first.waits / seconds, first.counters, first.cpus, paid_ns, probe_ns / seconds)


@dataclass(frozen=True, slots=True)
class Probe:
    """A way to look.

    options: of the collector.  weight: how long it records, of the investigation's time.  signal: of the plan, without
    which it is no use.  price: CPU time a second, ns.  steps: how often it may be made.
    """

    name: str
    options: tuple[str, ...]
    weight: float
    signal: str
    price: Callable[[Known], float]
    steps: int = 1


# Steps without a recording.
LOOKS = (SLEEPS, SPINS, THREADS)


def price_of(name: str, known: Known, seconds: float) -> float:
    """What a step of so many seconds costs, ns: a short recording costs no less than the first one to begin and end."""
    rate = PROBES[name].price(known)
    if name in LOOKS:
        return rate * seconds
    if name == WATCH:
        return NAMES_NS + rate * seconds
    return max(rate * seconds, known.totals_ns + (rate - known.totals_ns_per_s) * seconds)


def seconds_for(name: str, known: Known, price_ns: float) -> float:
    """How long a step may be for that price, s."""
    rate = PROBES[name].price(known)
    if rate <= 0:
        return 0.0
    if name == WATCH:
        return (price_ns - NAMES_NS) / rate
    if name in LOOKS or rate <= known.totals_ns_per_s:
        return price_ns / rate
    return min(price_ns / rate, (price_ns - known.totals_ns) / (rate - known.totals_ns_per_s))


def _futex(known: Known) -> float:
    switches = known.counters.switches_per_s
    return known.totals_ns_per_s + switches * (SWITCH_NS + SYSCALLS_PER_SWITCH * SYSCALL_NS)


def _go(known: Known) -> float:
    return _futex(known) + GO_TRAPS_PER_S * GO_TRAP_NS


def _episodes(known: Known) -> float:
    counters = known.counters
    return known.totals_ns_per_s + counters.switches_per_s * SWITCH_NS + counters.interrupts_per_s * INTERRUPT_NS


def _holders(known: Known) -> float:
    return known.totals_ns_per_s + known.waits_per_s * UNLOCKS_PER_WAIT * UNLOCK_NS


def _threads(_: Known) -> float:
    return LOOKS_PER_S * THREADS_LOOKED_AT * LOOK_NS


def _sleeps(_: Known) -> float:
    return SLEEP_LOOKS * SLEEP_LOOK_NS


def _spins(known: Known) -> float:
    return (min(SPIN_SAMPLES, SPIN_SAMPLES_OF_CPU * known.cpus) + SWITCH_SAMPLES) * SPIN_SAMPLE_NS


def _totals(known: Known) -> float:
    return known.totals_ns_per_s


def _watch(known: Known) -> float:
    # Its own budget holds all that it does but for its end, and for the waits, which it records as well.
    return WATCH_PART * known.cpus * 1e9 + known.waits_ns_per_s


def _hitm(known: Known) -> float:
    return known.totals_ns_per_s + HITM_SAMPLES_PER_S * HITM_SAMPLE_NS * known.cpus


def _clock(known: Known) -> float:
    events = known.counters.switches_per_s + known.counters.interrupts_per_s
    return known.totals_ns_per_s + events * READS_PER_SWITCH * CLOCK_READ_NS


def _self_check(known: Known) -> float:
    return _episodes(known) / 2 + OBSERVER_PART * known.cpus * 1e9


PROBES: Mapping[str, Probe] = {
    probe.name: probe
    for probe in (
        Probe(TOTALS, (), 0.1, "", _totals, steps=2),
        Probe(SLEEPS, (), 0.05, "", _sleeps),
        Probe(SPINS, (), 0.05, "", _spins),
        Probe(FUTEX, ("--futex",), 0.2, "futex waits", _futex, steps=2),
        Probe(GO, ("--futex", "--go"), 0.15, "futex waits", _go),
        Probe(THREADS, (), 0.1, "", _threads),
        Probe(OWNERS, ("--holders",), 0.1, "", _holders),
        Probe(USERS, (), 0.05, "", _totals),
        Probe(EPISODES, ("--episodes", "--holders"), 0.15, "", _episodes),
        Probe(HOLDERS, ("--holders", "--holds"), 0.15, "spinlock holders", _holders),
        Probe(PTRACE, ("--ptrace", "--episodes"), 0.15, "", _episodes),
        Probe(WATCH, (), 0.1, "watchpoints", _watch),
        Probe(HITM, ("--hitm",), 0.1, "memory samples (HITM)", _hitm),
        Probe(CLOCK, ("--clocksource",), 0.1, "", _clock),
        Probe(SELF_CHECK, ("--episodes", f"--self-check={CHECK_SLICE_MS}ms"), 0.3, "", _self_check),
    )
}
