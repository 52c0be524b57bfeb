# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that wait on a CPU, in their own code: no lock tracepoint and no futex shows that.

Samples tell where threads run.  The code there tells whether it is a loop that waits (wait_loops.py), or a return from
sched_yield().
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from lockline.base.values import dataclass
from lockline.investigation.wait_loops import Kind

# Of a cache line, bytes.
LINE = 64
# Functions that are locks by their name: the C library's.
LOCKS = ("pthread_spin_lock", "__pthread_spin_lock", "pthread_spin_trylock")
# Threads of a process, on average, from which on they are reported.
ENOUGH_CPUS = 0.05


@dataclass(frozen=True, slots=True)
class Sample:
    """A thread that ran.  address: of its own code, in the kernel too; back: where its function may return to, or 0.

    registers: its own.  word: what the atomic instruction there changes, 0: there is none, or it cannot be told.
    stands_for: of a thread that left its CPU, for so many switches; 0: it ran on.
    """

    tgid: int
    tid: int
    address: int
    back: int
    registers: tuple[int, ...] = ()
    word: int = 0
    stands_for: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a thread got of the CPUs while others were sampled, as parts of that time: it ran, and it had to wait."""

    ran: float
    waited: float


@dataclass(frozen=True, slots=True)
class Place:
    """A name of code.  function: '' if it has none."""

    function: str
    file: str


@dataclass(frozen=True, slots=True)
class Spin:
    """Threads of a process that wait in one function, on CPUs.

    caller: of that function, '' if not known.  cpus: how many do that, on average.  part: of the CPU time of these
    threads.  threads: how many were seen there; several: more than one of them, each of which does other things too.
    switches: a second, where threads that leave their CPUs show it: cpus are those then that wait for a CPU because
    they gave theirs away, and part is of all their switches.
    """

    kind: Kind
    function: str
    file: str
    caller: str
    comm: str
    tgid: int
    cpus: float
    part: float
    threads: int
    several: bool
    word: int = 0
    name: str = ""
    sharing: int = 0
    switches: float = 0.0

    @property
    def is_lock(self) -> bool:
        """Whether the function's name says that it takes a lock."""
        return self.function in LOCKS


@dataclass(frozen=True, slots=True)
class Spins:
    """What samples of running threads saw.  samples: of the target's threads; cpus: that they used, on average.

    got: of the time in which they wanted a CPU, the part in which they had one.  unnamed: as of Sleeps.
    """

    samples: int
    cpus: float
    spins: tuple[Spin, ...]
    got: float = 1.0
    unnamed: int = 0

    @property
    def wanted(self) -> float:
        """CPUs that its threads wanted on average."""
        return self.cpus / self.got if self.got else 0.0


def part_got(wanted: Iterable[Wanted]) -> float:
    """Of the time in which threads wanted a CPU, the part in which they had one; 1: they wanted none."""
    threads = tuple(wanted)
    ran, waited = sum(one.ran for one in threads), sum(one.waited for one in threads)
    return ran / (ran + waited) if ran > 0 else 1.0


# Sampled switches of a process in sched_yield() from which on they say something; of all that such a thread makes.
_ENOUGH_YIELDS = 5
_MOSTLY_YIELDS = 0.5


def yields_of(
    left: Sequence[Sample],
    kinds: Mapping[tuple[int, int], Kind],
    place: Callable[[int, int], Place],
    comm: Callable[[int], str],
    wanted: Mapping[int, Wanted],
    seconds: float,
) -> tuple[Spin, ...]:
    """Who gives the CPU away over and over, from samples of threads that leave theirs.

    Such a thread hardly runs, so that samples of running threads seldom meet it, and least on a busy machine: it waits
    for its turn among those that want a CPU.  wanted: by thread, as far as it is known.
    """
    every: Counter[tuple[int, int]] = Counter()
    yields: Counter[tuple[int, int]] = Counter()
    for one in left:
        every[one.tgid, one.tid] += one.stands_for
        if kinds.get((one.tgid, one.address)) == "yield":
            yields[one.tgid, one.tid] += one.stands_for
    found = []
    for tgid in {tgid for tgid, _ in yields}:
        threads = [key for key in yields if key[0] == tgid and yields[key] >= _MOSTLY_YIELDS * every[key]]
        at = [one for one in left if (one.tgid, one.tid) in threads and kinds.get((tgid, one.address)) == "yield"]
        if len(at) < _ENOUGH_YIELDS:
            continue
        where = Counter(place(tgid, one.address) for one in at).most_common(1)[0][0]
        callers = Counter(place(tgid, one.back).function for one in at if one.back)
        caller, times = callers.most_common(1)[0] if callers else ("", 0)
        waiting = sum(wanted[tid].waited * yields[tgid, tid] / every[tgid, tid] for _, tid in threads if tid in wanted)
        found.append(
            Spin(
                kind="yield",
                function=where.function,
                file=where.file,
                caller=caller if 2 * times > len(at) and caller != where.function else "",
                comm=comm(tgid),
                tgid=tgid,
                cpus=waiting,
                part=sum(yields[key] for key in threads) / sum(every[key] for key in threads),
                threads=len(threads),
                several=len(threads) > 1,
                switches=sum(yields[key] for key in threads) / seconds,
            )
        )
    return tuple(found)


def with_yields(spins: Spins, yields: Sequence[Spin]) -> Spins:
    """With those whom their switches show to yield, in place of the samples of the same process that show less."""
    more = {one.tgid: one for one in yields}
    kept = [one for one in spins.spins if one.kind != "yield" or one.tgid not in more or one.cpus > more[one.tgid].cpus]
    told = {one.tgid for one in kept if one.kind == "yield"}
    kept += [one for one in yields if one.tgid not in told]
    return replace(spins, spins=tuple(sorted(kept, key=lambda one: -one.cpus)))


def spins_of(
    samples: Sequence[Sample],
    kinds: Mapping[tuple[int, int], Kind],
    place: Callable[[int, int], Place],
    comm: Callable[[int], str],
    cpus_each: float,
    got: float = 1.0,
) -> Spins:
    """Who waits on CPUs, and where; kinds: of a process and an address; cpus_each: of one sample; got: of Spins."""
    by_thread = Counter((one.tgid, one.tid) for one in samples)
    found: defaultdict[tuple[int, Kind, Place], list[Sample]] = defaultdict(list)
    for one in samples:
        kind = kinds.get((one.tgid, one.address))
        if kind is not None:
            found[one.tgid, kind, place(one.tgid, one.address)].append(one)
    spins = []
    for (tgid, kind, where), at in found.items():
        seen = Counter((one.tgid, one.tid) for one in at)
        callers = Counter(place(tgid, one.back).function for one in at if one.back)
        caller, times = callers.most_common(1)[0] if callers else ("", 0)
        words = Counter(one.word for one in at if one.word)
        word, of_it = words.most_common(1)[0] if words else (0, 0)
        word = word if 2 * of_it >= len(at) else 0
        spins.append(
            Spin(
                kind=kind,
                function=where.function,
                file=where.file,
                caller=caller if 2 * times > len(at) and caller != where.function else "",
                comm=comm(tgid),
                tgid=tgid,
                cpus=len(at) * cpus_each,
                part=len(at) / sum(by_thread[thread] for thread in seen),
                threads=len(seen),
                several=sum(count < by_thread[thread] for thread, count in seen.items()) > 1,
                word=word,
                name=place(tgid, word).function if word else "",
                sharing=len({one.tid for one in at if word and one.word // LINE == word // LINE}),
            )
        )
    found_spins = tuple(sorted(spins, key=lambda one: -one.cpus))
    return Spins(len(samples), len(samples) * cpus_each, found_spins, got)
