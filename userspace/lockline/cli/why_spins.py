# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of where the target's threads run, by a timer of each CPU: perf_event_open(2), without a PMU."""

import fcntl
import mmap
import os
import platform
import random
import struct
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache

from lockline.base.collector import ask_names
from lockline.base.errors import LocklineError
from lockline.cli.why_counters import PROC, short_text
from lockline.cli.why_memory import Memory
from lockline.cli.why_sleeps import threads_wanted
from lockline.experiment.perf import attributes_of, online_cpus, open_event
from lockline.investigation import probes
from lockline.investigation.counters import parse_schedstat
from lockline.investigation.model import Target
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
from lockline.investigation.wait_loops import AROUND, Kind, kind_at, word_at

# The registers of a sample by their bits, and where the next instruction and (arm64) the link register are among them:
# ax to sp, ip, r8 to r15; x0 to x30, sp, pc (arch/*/include/uapi/asm/perf_regs.h).
_REGISTERS = {"x86_64": (0xFF01FF, 8, None), "aarch64": ((1 << 33) - 1, 32, 30)}
_SOFTWARE, _CPU_CLOCK, _SWITCHES = 1, 0, 3
# PERF_SAMPLE_TID, _PERIOD, _REGS_USER, _STACK_USER; disabled, and idle time does not count; so often a second.
_SAMPLE_TYPE = 1 << 1 | 1 << 8 | 1 << 12 | 1 << 13
_DISABLED, _BUT_IDLE, _OFTEN = 1 << 0, 1 << 7, 1 << 10
_ENABLE = 0x2400
_RECORD_SAMPLE = 9
# Where the ring's first page has head and tail.
_HEAD = 1024
_SHORTEST_PERIOD_NS = 1_003_000
# Of a sample, but for its registers.
_RECORD_BYTES = 64
# The kernel finds the period of switches by and by: it takes a quarter of the samples that it is asked for.
_ASKED_FOR = 4 * probes.SWITCH_SAMPLES
_MOST_SWITCH_SAMPLES_PER_S = 2_000
# Threads of which it is read how long they wanted a CPU.
_MOST_THREADS = 500
# Addresses whose code is read, the most frequent ones; a loop that waits has few.
_MOST_ADDRESSES = 1024
# With fewer samples, of each kind, the looks say nothing.
_FEWEST_SAMPLES = 200
_MOST_NAMES = 256


def _samples_of(
    ring: mmap.mmap, mask: int, next_: int, link: int | None, whom: Collection[int] | None, switches: bool
) -> Iterator[Sample | None]:
    """The samples of one CPU, of threads that have code of their own; None in place of those of other threads.

    whom: threads; None: all.  switches: each stands for so many, as the kernel counted; who runs on has left nothing.
    """
    registers = mask.bit_count()
    (head,) = struct.unpack_from("<Q", ring, _HEAD)
    data = ring[mmap.PAGESIZE : mmap.PAGESIZE + min(head, len(ring) - mmap.PAGESIZE)]
    at = 0
    while at + 8 <= len(data):
        kind, _, size = struct.unpack_from("<IHH", data, at)
        if size < 8 or at + size > len(data):
            return
        # Of a thread of the kernel the registers are none, and the record is shorter.
        if kind == _RECORD_SAMPLE and size >= 8 + 8 + 8 + 8 + 8 * registers + 8:
            tgid, tid, period, of = struct.unpack_from("<iiQQ", data, at + 8)
            if of and whom is not None and tid not in whom:
                yield None
            elif of:
                values = struct.unpack_from(f"<{registers}Q", data, at + 32)
                stack = at + 32 + 8 * registers
                (room,) = struct.unpack_from("<Q", data, stack)
                top = struct.unpack_from("<Q", data, stack + 8)[0] if room >= 8 else 0
                back = top if link is None else values[link]
                yield Sample(tgid, tid, values[next_], back, values, stands_for=period if switches else 0)
        at += size


class _Timer:
    """Samples of one kind, of all CPUs.  Raises LocklineError if the kernel refuses."""

    def __init__(
        self, stack: ExitStack, cpus: Sequence[int], attributes: bytes, samples: float, switches: bool
    ) -> None:
        """samples: of each CPU, at most.  switches: that is what is counted."""
        self._switches = switches
        self._known = _REGISTERS[platform.machine()]
        self._descriptors = []
        self._rings = []
        wanted = samples * (_RECORD_BYTES + 8 * self._known[0].bit_count()) * 1.25 / mmap.PAGESIZE
        pages = 1 << max(1, round(wanted + 0.5) - 1).bit_length()
        for cpu in cpus:
            try:
                descriptor = open_event(attributes, -1, cpu)
                stack.callback(os.close, descriptor)
                self._descriptors.append(descriptor)
                self._rings.append(stack.enter_context(mmap.mmap(descriptor, (1 + pages) * mmap.PAGESIZE)))
            except OSError as error:
                raise LocklineError(f"running threads cannot be sampled: {error.strerror}") from error

    def begin(self) -> None:
        """From now on."""
        for descriptor in self._descriptors:
            fcntl.ioctl(descriptor, _ENABLE, 0)

    def samples(self, whom: Collection[int] | None) -> tuple[list[Sample], int]:
        """Those that were taken of these threads (None: of all), and how many were taken in all."""
        every = [one for ring in self._rings for one in _samples_of(ring, *self._known, whom, self._switches)]
        return [one for one in every if one is not None], len(every)


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Threads that ran, each for period_ns, and those that left their CPUs, in so many seconds.

    every: samples that were taken of all threads.
    """

    ran: list[Sample]
    left: list[Sample]
    every: int
    seconds: float
    period_ns: int


def _sampled(seconds: float, whom: Callable[[], Collection[int] | None]) -> _Sampled:
    """Samples of all CPUs; whom: asked at the end, of which threads (None: of all)."""
    known = _REGISTERS.get(platform.machine())
    if known is None:
        raise LocklineError(f"code of {platform.machine()} is not known to lockline")
    try:
        cpus = online_cpus()
    except (OSError, ValueError) as error:
        raise LocklineError(f"running threads cannot be sampled: which CPUs run is not known: {error}") from error
    period_ns = max(_SHORTEST_PERIOD_NS, round(seconds * 1e9 * len(cpus) / probes.SPIN_SAMPLES))
    often = max(1, min(_MOST_SWITCH_SAMPLES_PER_S, round(_ASKED_FOR / seconds / len(cpus))))
    user = (known[0], 8)
    running = attributes_of(_SOFTWARE, _CPU_CLOCK, _DISABLED | _BUT_IDLE, (period_ns, _SAMPLE_TYPE), user=user)
    leaving = attributes_of(_SOFTWARE, _SWITCHES, _DISABLED | _OFTEN, (often, _SAMPLE_TYPE), user=user)
    with ExitStack() as stack:
        timers = (
            _Timer(stack, cpus, running, seconds * 1e9 / period_ns, switches=False),
            _Timer(stack, cpus, leaving, seconds * often, switches=True),
        )
        for timer in timers:
            timer.begin()
        began = time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        wanted = whom()
        (ran, of_ran), (left, of_left) = (timer.samples(wanted) for timer in timers)
    return _Sampled(ran, left, of_ran + of_left, took, period_ns)


def _times_of(threads: Sequence[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Of these threads: ns on a CPU, and ns in which each wanted one, since it began."""
    found = {}
    for tgid, tid in threads[:_MOST_THREADS]:
        times = parse_schedstat(short_text(f"{PROC}/{tgid}/task/{tid}/schedstat"))
        if times is not None:
            found[tid] = times
    return found


def _wanted(
    before: Mapping[int, tuple[int, int]], after: Mapping[int, tuple[int, int]], ns: float
) -> dict[int, Wanted]:
    """What each thread got of the CPUs in so many ns.  How long it waited is added up when it gets one."""
    return {
        tid: Wanted((ran - before[tid][0]) / ns, min(1.0, max(0, waited - before[tid][1]) / ns))
        for tid, (ran, waited) in after.items()
        if tid in before
    }


def _kind_at(memory: Memory, tgid: int, address: int) -> Kind | None:
    """How a thread waits there, if it does."""
    code, at = memory.read(tgid, address - AROUND, 2 * AROUND), AROUND
    if not code:
        # At the begin of a mapping.
        code, at = memory.read(tgid, address, AROUND), 0
    return kind_at(code, at, platform.machine()) if code else None


def _word_at(one: Sample, code: bytes) -> int:
    """What the atomic instruction changes that a thread is at; code: around it."""
    return word_at(code, AROUND, platform.machine(), one.address, one.registers) if code else 0


def thinned(samples: Sequence[Sample], most: int) -> tuple[list[Sample], float]:
    """So many samples, drawn by lot, and how many each stands for; all of them, if they are no more."""
    if len(samples) <= most:
        return list(samples), 1.0
    factor = len(samples) / most
    kept = random.sample(samples, most)
    return [replace(one, stands_for=round(one.stands_for * factor)) for one in kept], factor


def look_at_spins(target: Target, seconds: float, most_ns: int = 10**9, names_ns: int = 10**9) -> tuple[Spins, int]:
    """Sample the target's threads, and tell which wait on CPUs, and where; and the number of all samples.

    most_ns: CPU time that it may take; where there are samples for more, some are looked at, chosen by chance.
    names_ns: what comes on top for names.
    Raises LocklineError if the kernel refuses, or of a machine whose code is not known.
    """
    used_ns = time.process_time_ns()
    whole = target.options[0] == "-a"
    before = _times_of([] if whole else threads_wanted(target))
    after: dict[int, tuple[int, int]] = {}

    def whom() -> Collection[int] | None:
        threads = [] if whole else threads_wanted(target)
        after.update(_times_of(threads))
        return None if whole else {tid for _, tid in threads}

    seen = _sampled(seconds, whom)
    wanted = _wanted(before, after, seen.seconds * 1e9)
    own = os.getpid()
    of_others = [[one for one in some if one.tgid != own] for some in (seen.ran, seen.left)]
    rest_ns = most_ns - (time.process_time_ns() - used_ns)
    most = max(_FEWEST_SAMPLES, rest_ns // (2 * probes.SPIN_SAMPLE_NS) // len(of_others))
    (samples, factor), (left, _) = (thinned(some, most) for some in of_others)
    frequent = Counter((one.tgid, one.address) for one in (*samples, *left)).most_common(_MOST_ADDRESSES)
    with Memory(most_ns + names_ns - probes.NAMES_NS - (time.process_time_ns() - used_ns)) as memory:
        kinds = {key: kind for key, _ in frequent if (kind := _kind_at(memory, *key)) is not None}
        yields = [one for one in left if kinds.get((one.tgid, one.address)) == "yield"]
        at = [*(one for one in samples if (one.tgid, one.address) in kinds), *yields]
        backs = Counter((one.tgid, one.back) for one in at if one.back).most_common(_MOST_NAMES)
        known = {key for key, _ in backs if memory.follows_call(*key)}
        # A loop that waits has few places, and thousands of samples.
        code = {
            key: memory.read(key[0], key[1] - AROUND, 2 * AROUND) for key in {(one.tgid, one.address) for one in at}
        }
        words = {
            id(one): _word_at(one, code[one.tgid, one.address]) for one in at if kinds[one.tgid, one.address] != "yield"
        }
        named = {tgid for tgid in {one.tgid for one in at} if memory.affords_names(tgid)}
        unnamed = len(memory.unpaid)

    # Thousands of samples: they are made anew, which costs a tenth of a replace().
    def told(one: Sample) -> Sample:
        back = one.back if (one.tgid, one.back) in known else 0
        return Sample(one.tgid, one.tid, one.address, back, (), words.get(id(one), 0), one.stands_for)

    samples, left = ([told(one) for one in some] for some in (samples, left))
    asked = [key for key, _ in Counter((one.tgid, one.address) for one in at).most_common(_MOST_NAMES)]
    # A return address may be the first one behind its function.
    asked += [(tgid, back - 1) for tgid, back in known]
    changed = Counter((one.tgid, one.word) for one in samples if one.word)
    asked += [key for key, _ in changed.most_common(_MOST_NAMES)]
    asked = [key for key in asked if key[0] in named]
    names = dict(zip(asked, ask_names(asked), strict=True)) if asked else {}

    def place(tgid: int, address: int) -> Place:
        found = names.get((tgid, address)) or names.get((tgid, address - 1))
        return Place(*found) if found else Place("", "")

    @cache
    def comm(tgid: int) -> str:
        return short_text(f"{PROC}/{tgid}/comm")

    each = factor * seen.period_ns / 1e9 / seen.seconds
    spins = spins_of(samples, kinds, place, comm, each, part_got(wanted.values()))
    yielding = yields_of(left, kinds, place, comm, wanted, seen.seconds)
    return replace(with_yields(spins, yielding), unnamed=unnamed), seen.every
