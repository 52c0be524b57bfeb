# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of where the target's threads run, by a timer of each CPU: perf_event_open(2), without a PMU."""

import fcntl
import mmap
import os
import platform
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache

from lockline.base.collector import ask_names
from lockline.base.errors import LocklineError
from lockline.cli.why_counters import PROC, short_text
from lockline.cli.why_memory import Memory
from lockline.cli.why_sleeps import threads_wanted
from lockline.experiment.perf import attributes_of, online_cpus, open_event
from lockline.investigation import probes
from lockline.investigation.model import Target
from lockline.investigation.spins import AROUND, Kind, Place, Sample, Spins, kind_at, spins_of, word_at

# The registers of a sample by their bits, and where the next instruction and (arm64) the link register are among them:
# ax to sp, ip, r8 to r15; x0 to x30, sp, pc (arch/*/include/uapi/asm/perf_regs.h).
_REGISTERS = {"x86_64": (0xFF01FF, 8, None), "aarch64": ((1 << 33) - 1, 32, 30)}
_SOFTWARE, _CPU_CLOCK = 1, 0
# PERF_SAMPLE_TID, _REGS_USER, _STACK_USER; disabled, and idle time does not count.
_SAMPLE_TYPE = 1 << 1 | 1 << 12 | 1 << 13
_FLAGS = 1 << 0 | 1 << 7
_ENABLE = 0x2400
_RECORD_SAMPLE = 9
# Where the ring's first page has head and tail.
_HEAD = 1024
_SHORTEST_PERIOD_NS = 1_003_000
# Of a sample, but for its registers.
_RECORD_BYTES = 56
# Addresses whose code is read, the most frequent ones; a loop that waits has few.
_MOST_ADDRESSES = 1024
_MOST_NAMES = 256


def _samples_of(ring: mmap.mmap, mask: int, next_: int, link: int | None) -> Iterator[Sample]:
    """The samples of one CPU: those of threads that have code of their own."""
    registers = mask.bit_count()
    (head,) = struct.unpack_from("<Q", ring, _HEAD)
    data = ring[mmap.PAGESIZE : mmap.PAGESIZE + min(head, len(ring) - mmap.PAGESIZE)]
    at = 0
    while at + 8 <= len(data):
        kind, _, size = struct.unpack_from("<IHH", data, at)
        if size < 8 or at + size > len(data):
            return
        # Of a thread of the kernel the registers are none, and the record is shorter.
        if kind == _RECORD_SAMPLE and size >= 8 + 8 + 8 + 8 * registers + 8:
            tgid, tid, of = struct.unpack_from("<iiQ", data, at + 8)
            if of:
                values = struct.unpack_from(f"<{registers}Q", data, at + 24)
                stack = at + 24 + 8 * registers
                (room,) = struct.unpack_from("<Q", data, stack)
                top = struct.unpack_from("<Q", data, stack + 8)[0] if room >= 8 else 0
                yield Sample(tgid, tid, values[next_], top if link is None else values[link], values)
        at += size


def _sampled(seconds: float) -> tuple[list[Sample], float, int]:
    """All samples of all CPUs, how long that took (s), and the time between two samples of a CPU (ns)."""
    known = _REGISTERS.get(platform.machine())
    if known is None:
        raise LocklineError(f"code of {platform.machine()} is not known to lockline")
    try:
        cpus = online_cpus()
    except (OSError, ValueError) as error:
        raise LocklineError(f"running threads cannot be sampled: which CPUs run is not known: {error}") from error
    period_ns = max(_SHORTEST_PERIOD_NS, round(seconds * 1e9 * len(cpus) / probes.SPIN_SAMPLES))
    size = _RECORD_BYTES + 8 * known[0].bit_count()
    wanted = seconds * 1e9 / period_ns * size * 1.25 / mmap.PAGESIZE
    pages = 1 << max(1, round(wanted + 0.5) - 1).bit_length()
    attributes = attributes_of(_SOFTWARE, _CPU_CLOCK, _FLAGS, (period_ns, _SAMPLE_TYPE), user=(known[0], 8))
    with ExitStack() as stack:
        rings = []
        descriptors = []
        for cpu in cpus:
            try:
                descriptor = open_event(attributes, -1, cpu)
                stack.callback(os.close, descriptor)
                descriptors.append(descriptor)
                rings.append(stack.enter_context(mmap.mmap(descriptor, (1 + pages) * mmap.PAGESIZE)))
            except OSError as error:
                raise LocklineError(f"running threads cannot be sampled: {error.strerror}") from error
        for descriptor in descriptors:
            fcntl.ioctl(descriptor, _ENABLE, 0)
        began = time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        samples = [sample for ring in rings for sample in _samples_of(ring, *known)]
    return samples, took, period_ns


def _kind_at(memory: Memory, tgid: int, address: int) -> Kind | None:
    """How a thread waits there, if it does."""
    code, at = memory.read(tgid, address - AROUND, 2 * AROUND), AROUND
    if not code:
        # At the begin of a mapping.
        code, at = memory.read(tgid, address, AROUND), 0
    return kind_at(code, at, platform.machine()) if code else None


def _word_at(memory: Memory, one: Sample) -> int:
    """What the atomic instruction changes that a thread is at."""
    code = memory.read(one.tgid, one.address - AROUND, 2 * AROUND)
    return word_at(code, AROUND, platform.machine(), one.address, one.registers) if code else 0


def look_at_spins(target: Target, seconds: float) -> tuple[Spins, int]:
    """Sample the target's threads, and tell which wait on CPUs, and where; and the number of all samples.

    Raises LocklineError if the kernel refuses, or of a machine whose code is not known.
    """
    every, took, period_ns = _sampled(seconds)
    whole = target.options[0] == "-a"
    wanted = set() if whole else {tid for _, tid in threads_wanted(target)}
    own = os.getpid()
    samples = [one for one in every if (whole or one.tid in wanted) and one.tgid != own]
    frequent = Counter((one.tgid, one.address) for one in samples).most_common(_MOST_ADDRESSES)
    with Memory() as memory:
        kinds = {key: kind for key, _ in frequent if (kind := _kind_at(memory, *key)) is not None}
        at = [one for one in samples if (one.tgid, one.address) in kinds]
        backs = Counter((one.tgid, one.back) for one in at if one.back).most_common(_MOST_NAMES)
        known = {key for key, _ in backs if memory.follows_call(*key)}
        words = {id(one): _word_at(memory, one) for one in at if kinds[one.tgid, one.address] != "yield"}
    samples = [
        replace(one, back=one.back if (one.tgid, one.back) in known else 0, registers=(), word=words.get(id(one), 0))
        for one in samples
    ]
    asked = [key for key, _ in Counter((one.tgid, one.address) for one in at).most_common(_MOST_NAMES)]
    # A return address may be the first one behind its function.
    asked += [(tgid, back - 1) for tgid, back in known]
    changed = Counter((one.tgid, one.word) for one in samples if one.word)
    asked += [key for key, _ in changed.most_common(_MOST_NAMES)]
    names = dict(zip(asked, ask_names(asked), strict=True)) if asked else {}

    def place(tgid: int, address: int) -> Place:
        found = names.get((tgid, address)) or names.get((tgid, address - 1))
        return Place(*found) if found else Place("", "")

    @cache
    def comm(tgid: int) -> str:
        return short_text(f"{PROC}/{tgid}/comm")

    return spins_of(samples, kinds, place, comm, period_ns / 1e9 / took), len(every)
