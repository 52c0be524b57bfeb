# SPDX-License-Identifier: GPL-2.0-or-later
"""What the holder of a program's lock does: from looks at the threads of its process."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from lockline.investigation.model import ENOUGH_OWNERS, Holders
from lockline.investigation.priorities import comes_last

# Less time in which holders wanted a CPU does not count.
ENOUGH_WANTED_NS = 5_000_000


@dataclass(frozen=True, slots=True)
class ThreadLook:
    """One thread at one moment, as /proc tells: state letter, the futex that it waits for (0: none), and where.

    on_cpu_ns: since it began; delayed_ns: in which it wanted a CPU and had none; None: not known.  cpu: on which it ran
    last, -1: not known.  nice: as setpriority(2) has it; policy: as sched_setscheduler(2) has it.
    """

    tid: int
    comm: str
    state: str
    futex: int
    sleeps_in: str
    on_cpu_ns: int | None = None
    delayed_ns: int | None = None
    cpu: int = -1
    nice: int = 0
    policy: int = 0


def _delayed(moments: Sequence[Mapping[int, ThreadLook]], look_ns: int) -> float | None:
    """Of the time in which the likely holders wanted a CPU, the part in which they had none; None: not known.

    moments: the likely holders of each; look_ns: from one to the next.  Counted from one look to the next, of threads
    that are one in both.  The kernel adds up how long a thread wanted a CPU when it gets one: of one that is ready all
    the time, and whose counts stand still, the looks themselves tell.
    """
    on_cpu = delayed = 0
    starved: defaultdict[int, int] = defaultdict(int)
    for first, second in pairwise(moments):
        for tid in first.keys() & second.keys():
            before, after = first[tid], second[tid]
            if None in (before.on_cpu_ns, before.delayed_ns, after.on_cpu_ns, after.delayed_ns):
                continue
            ran = (after.on_cpu_ns or 0) - (before.on_cpu_ns or 0)
            wanted = (after.delayed_ns or 0) - (before.delayed_ns or 0)
            if not ran and not wanted and before.state == after.state == "R":
                starved[tid] += look_ns
                continue
            # What the kernel adds up now has the looks before in it.
            starved[tid] = 0
            on_cpu += ran
            delayed += wanted
    delayed += sum(starved.values())
    wanted = on_cpu + delayed
    return delayed / wanted if wanted >= ENOUGH_WANTED_NS else None


def _used_ns(moments: Sequence[Sequence[ThreadLook]], users: Collection[int]) -> int:
    """CPU time of these threads, from the first look at each to the last one."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for moment in moments:
        for look in moment:
            if look.tid in users and look.on_cpu_ns is not None:
                first.setdefault(look.tid, look.on_cpu_ns)
                last[look.tid] = look.on_cpu_ns
    return sum(max(0, last[tid] - first[tid]) for tid in first)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whom a mutex names as its owner at one moment; ran: if it is ready, the part of that time on a CPU, or None."""

    look: ThreadLook
    ran: float | None = None


def part_on_cpu(before: ThreadLook, after: ThreadLook, same: bool, gap_ns: int) -> float | None:
    """Of two looks at a thread that is ready at the first: the part of its time on a CPU; None: not known.

    same: it is the owner at both.  gap_ns: from one to the other, more than the scheduler's tick, which adds up what a
    running thread uses.  How long a thread waited for a CPU is added up when it gets one: what is more than the gap
    began before the first look.
    """
    if None in (before.on_cpu_ns, before.delayed_ns, after.on_cpu_ns, after.delayed_ns):
        return None
    ran = max(0, (after.on_cpu_ns or 0) - (before.on_cpu_ns or 0))
    wanted = max(0, (after.delayed_ns or 0) - (before.delayed_ns or 0))
    if not ran and not wanted:
        # Who lets go of a lock runs.
        return 0.0 if same else 1.0
    return 0.0 if wanted > gap_ns else ran / (ran + wanted)


def _delayed_owners(owners: Sequence[Owner | None]) -> float | None:
    """The same of owners that were ready: each moment counts alike."""
    ran = [one.ran for one in owners if one is not None and one.look.state == "R" and one.ran is not None]
    return 1 - sum(ran) / len(ran) if ran else None


# Rounds in which what holders do is worked out; later ones change nothing that is shown.
_ROUNDS = 40
# Moments that nobody saw stand for what is possible, so that a few moments prove nothing.
_UNSEEN_MOMENTS = 1.0


def _does(look: ThreadLook) -> str:
    """What a thread does that waits at no futex: where it sleeps, or that it runs or wants to."""
    return "" if look.state == "R" else f"{look.state} {look.sleeps_in}"


def _parts(moments: Sequence[Sequence[ThreadLook]]) -> list[list[float]]:
    """How likely each of the threads that may hold a lock does so, moment by moment.

    One of them has it, the others have let it go.  What holders do shows where one thread alone may have it: what is
    only ever seen beside that is what threads do without the lock.  So the two are told apart together, by expectation
    and maximization (Dempster, Laird and Rubin, 1977) from equal parts on.  Where several are always seen together,
    nothing tells them apart, and the parts stay equal.
    """
    kinds = sorted({_does(look) for moment in moments for look in moment})
    by_kind = [[kinds.index(_does(look)) for look in moment] for moment in moments]
    parts = [[1 / len(moment)] * len(moment) for moment in moments]
    for _ in range(_ROUNDS if len(kinds) > 1 else 0):
        held = [_UNSEEN_MOMENTS / len(kinds)] * len(kinds)
        let_go = list(held)
        for moment, part in zip(by_kind, parts, strict=True):
            for kind, one in zip(moment, part, strict=True):
                held[kind] += one
                let_go[kind] += 1 - one
        with_it = [one / sum(held) for one in held]
        without = [one / sum(let_go) for one in let_go]
        for moment, part in zip(by_kind, parts, strict=True):
            odds = [with_it[kind] / without[kind] for kind in moment]
            part[:] = [one / sum(odds) for one in odds]
    return parts


# Of the moments at which a holder is known, the part from which on it is one and the same thread.
_ONE_HOLDER = 0.6


def _one_holder(parts: Mapping[int, float], moments: Sequence[Sequence[ThreadLook]]) -> ThreadLook | None:
    """The last look at the thread that is the likely holder at most moments; None: several are."""
    tid = max(parts, key=lambda one: parts[one], default=0)
    if not parts or parts[tid] < _ONE_HOLDER * len(moments):
        return None
    return [look for moment in moments for look in moment if look.tid == tid][-1]


# How far apart the words of one pthread_rwlock_t lie: readers wait at one, writers at both.
_RWLOCK_WORDS = 8


def holders_of(
    looks: Sequence[Sequence[ThreadLook]],
    futex: int,
    rwlock: bool = False,
    known_users: Collection[int] = (),
    look_ns: int = 0,
    owners: Sequence[Owner | None] = (),
) -> Holders:
    """What the likely holder of a futex did, from looks at all threads of its process.

    A thread that is ever seen waiting for the futex uses it, and known_users do: those that were seen to wait for it,
    to own it or to let others on before.  At a moment when some of these wait, the others that wait at no futex are
    those that may hold it, each with a part of that moment (_parts).  look_ns: from one look to the next.  owners: whom
    the lock names at each look, as far as it does: with enough of these, nothing is guessed.
    """
    near = _RWLOCK_WORDS if rwlock else 0

    def waits(look: ThreadLook) -> bool:
        return bool(look.futex) and abs(look.futex - futex) <= near

    users = {look.tid for moment in looks for look in moment if waits(look)} | set(known_users)
    named = [
        owner if owner is not None and not owner.look.futex and any(map(waits, moment)) else None
        for moment, owner in zip_longest(looks, owners[: len(looks)])
    ]
    elsewhere = Counter(
        owner.look.futex
        for moment, owner in zip(looks, owners, strict=False)
        if owner is not None and owner.look.futex and not waits(owner.look) and any(map(waits, moment))
    )
    owned = sum(owner is not None for owner in named)
    exact = owned >= ENOUGH_OWNERS
    waiting = 0
    running = sleeping = disk = 0.0
    functions: defaultdict[str, float] = defaultdict(float)
    asleep_at_once: list[int] = []
    comms: defaultdict[str, float] = defaultdict(float)
    tids: defaultdict[int, float] = defaultdict(float)
    likely: list[dict[int, ThreadLook]] = []
    of_moments: list[list[ThreadLook]] = []
    for moment, owner in zip(looks, named, strict=True):
        if not any(waits(look) for look in moment):
            likely.append({})
            continue
        waiting += 1
        # Who waits at another futex has let this one go if that is a condition variable, as it mostly is.  If it is a
        # lock, the recording of futexes has seen that chain.
        candidates = [look for look in moment if look.tid in users and not look.futex]
        if exact:
            candidates = [] if owner is None else [owner.look]
        likely.append({look.tid: look for look in candidates})
        if candidates:
            of_moments.append(candidates)
    known = len(of_moments)
    for candidates, parts in zip(of_moments, _parts(of_moments), strict=True):
        places = Counter(look.sleeps_in for look in candidates if look.state != "R")
        asleep_at_once.append(max(places.values(), default=0))
        for look, part in zip(candidates, parts, strict=True):
            comms[look.comm] += part
            tids[look.tid] += part
            if look.state == "R":
                running += part
                continue
            if look.state == "D":
                disk += part
            else:
                sleeping += part
            functions[look.sleeps_in] += part
    asleep = sleeping + disk
    users |= {owner.look.tid for owner in owners if owner is not None}
    length_ns = look_ns * (len(looks) - 1)
    holder = _one_holder(tids, of_moments)
    name, most = max(functions.items(), key=lambda item: (item[1], item[0]), default=("", 0.0))
    return Holders(
        looks=waiting,
        known=known,
        running=running / known if known else 0.0,
        sleeping=sleeping / known if known else 0.0,
        disk=disk / known if known else 0.0,
        sleeps_in=name,
        sleeps_part=most / asleep if asleep else 0.0,
        delayed=_delayed_owners(named) if exact else _delayed(likely, look_ns),
        owners=owned,
        used_cpus=_used_ns(looks, users) / length_ns if length_ns > 0 else 0.0,
        comm=max(comms, key=lambda comm: comms[comm], default=""),
        together=sum(count > 1 for count in asleep_at_once) / some if (some := sum(map(bool, asleep_at_once))) else 0.0,
        places=sum(asleep_at_once) / known if known else 0.0,
        behind=elsewhere.most_common(1)[0] if elsewhere else (0, 0),
        tid=holder.tid if holder is not None else 0,
        comes_last=holder is not None and comes_last(holder.policy, holder.nice),
        nice=holder.nice if holder is not None else 0,
    )
