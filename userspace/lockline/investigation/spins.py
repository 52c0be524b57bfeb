# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that wait on a CPU, in their own code: no lock tracepoint and no futex shows that.

Samples tell where threads run.  The code there tells whether it is a loop that waits: one with the instruction that
exists for such loops (PAUSE of x86, YIELD, ISB and WFE of arm64), or a return from sched_yield().
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from lockline.base.values import dataclass

# spin: a loop with a PAUSE or its like.  swap: one of nothing but an exchange and a test.  yield: sched_yield().
# atomic: no loop that waits, but an instruction that needs its cache line for itself.
Kind: TypeAlias = Literal["spin", "swap", "yield", "atomic"]

# Code around a sample, bytes before and behind; no longer loop is one that waits.
AROUND = 64
_LONGEST_LOOP = 96
# A loop that only exchanges and tests is this short.
_SWAP_LOOP = 24
_PAUSE = b"\xf3\x90"
# mov $24, %eax; syscall: sched_yield() of x86-64, include/uapi/asm-generic/unistd.h's 124 of arm64.
_YIELD_X86 = b"\xb8\x18\x00\x00\x00\x0f\x05"
_WAITS_ARM = frozenset({0xD503203F, 0xD5033FDF, 0xD503205F})
_SVC_ARM = 0xD4000001
_NUMBERS_ARM = frozenset({0xD2800F88, 0x52800F88})
# Functions that are locks by their name: the C library's.
LOCKS = ("pthread_spin_lock", "__pthread_spin_lock", "pthread_spin_trylock")
# Threads of a process, on average, from which on they are told.
ENOUGH_CPUS = 0.05


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _loops_x86(code: bytes, at: int) -> "list[bytes]":
    """The bytes of each loop that the instruction at this place may be in: from a jump's target to its end."""
    found = []
    for place in range(max(0, at - 1), len(code) - 1):
        first, second = code[place], code[place + 1]
        if 0x70 <= first <= 0x7F or first == 0xEB:
            end, distance = place + 2, _signed(second, 8)
        elif first == 0x0F and 0x80 <= second <= 0x8F and place + 6 <= len(code):
            end, distance = place + 6, struct.unpack_from("<i", code, place + 2)[0]
        else:
            continue
        begin = end + distance
        if 0 <= begin <= at < end and end - begin <= _LONGEST_LOOP:
            found.append(code[begin:end])
    return found


def _atomic_x86(code: bytes, begin: int) -> int:
    """How long the instruction is that begins here, if it has the prefix LOCK and an operand in memory; else 0."""
    at = begin + 1
    if code[begin] != 0xF0:
        return 0
    if at < len(code) and code[at] == 0x66:
        at += 1
    if at < len(code) and 0x40 <= code[at] <= 0x4F:
        at += 1
    two_bytes = at < len(code) and code[at] == 0x0F
    at += two_bytes
    if at + 2 >= len(code):
        return 0
    opcode, operand = code[at], code[at + 1]
    mode, register = operand >> 6, operand & 7
    at += 2
    if mode == 3:
        return 0
    if register == 4:
        mode = 2 if mode == 0 and code[at] & 7 == 5 else mode
        at += 1
    elif mode == 0 and register == 5:
        mode = 2
    at += (0, 1, 4)[mode]
    constants = {0xBA: 1} if two_bytes else {0x80: 1, 0x83: 1, 0x81: 4}
    return at + constants.get(opcode, 0) - begin


# The longest instruction with LOCK that compilers make.
_LONGEST_ATOMIC = 14


def _is_atomic_x86(code: bytes, at: int) -> bool:
    """Whether the thread is at such an instruction, or right behind one: where a timer finds who waits in it."""
    if at < len(code) and code[at] == 0xF0 and _atomic_x86(code, at):
        return True
    return any(begin + _atomic_x86(code, begin) == at for begin in range(max(0, at - _LONGEST_ATOMIC), at))


def _is_atomic_arm(word: int) -> bool:
    """Load-exclusive and store-exclusive; LDADD, SWP and their like; CAS."""
    return word & 0x3F000000 == 0x08000000 or word & 0x3F200C00 == 0x38200000


def _only_swaps_x86(loop: bytes) -> bool:
    """Whether a short loop exchanges a word for what is always the same, until it finds it free.

    XCHG with memory (86 or 87, whose second byte names no register) needs no prefix.  CMPXCHG compares with %eax: a
    loop that sets it anew each time waits for one value; one that does not has read the word, and changes it.
    """
    pairs = list(pairwise(loop))
    if any(one in (0x86, 0x87) and two < 0xC0 for one, two in pairs):
        return True
    compares = b"\xf0\x0f\xb1" in loop or b"\xf0\x0f\xb0" in loop or b"\xf0\x48\x0f\xb1" in loop
    sets = any((one in (0x31, 0x33) and two == 0xC0) or (one == 0x89 and two & 0xC7 == 0xC0) for one, two in pairs)
    return compares and (sets or 0xB8 in loop)


def _kind_x86(code: bytes, at: int) -> Kind | None:
    if code[max(0, at - len(_YIELD_X86)) : at] == _YIELD_X86:
        return "yield"
    # A function of its own that only pauses, which the loop calls.
    if code[at : at + 2] == _PAUSE or code[max(0, at - 2) : at] == _PAUSE:
        return "spin"
    loops = _loops_x86(code, at)
    if any(_PAUSE in loop for loop in loops):
        return "spin"
    if any(len(loop) <= _SWAP_LOOP and _only_swaps_x86(loop) for loop in loops):
        return "swap"
    return "atomic" if _is_atomic_x86(code, at) else None


def _jump_arm(word: int) -> int | None:
    """How far an instruction of arm64 jumps, in instructions; None: it does not."""
    if word >> 26 == 0b000101:
        return _signed(word & 0x3FFFFFF, 26)
    if word >> 24 == 0x54 or (word >> 25) & 0x3F == 0b011010:
        return _signed((word >> 5) & 0x7FFFF, 19)
    if (word >> 25) & 0x3F == 0b011011:
        return _signed((word >> 5) & 0x3FFF, 14)
    return None


def _kind_arm(code: bytes, at: int) -> Kind | None:
    start = at % 4
    words = struct.unpack_from(f"<{(len(code) - start) // 4}I", code, start)
    here = (at - start) // 4
    if here >= 2 and words[here - 1] == _SVC_ARM and words[here - 2] in _NUMBERS_ARM:
        return "yield"
    if here < len(words) and words[here] in _WAITS_ARM:
        return "spin"
    for place in range(here, len(words)):
        jump = _jump_arm(words[place])
        if jump is None:
            continue
        begin = place + jump
        around = words[begin : place + 1] if 0 <= begin <= here else ()
        if 4 * len(around) <= _LONGEST_LOOP and any(word in _WAITS_ARM for word in around):
            return "spin"
    return "atomic" if any(_is_atomic_arm(word) for word in words[max(0, here - 1) : here + 1]) else None


def kind_at(code: bytes, at: int, machine: str) -> Kind | None:
    """How a thread waits that is about to run the instruction at this place of the code; None: it does not wait.

    machine: as uname -m has it.  Of code of other machines nothing is said.
    """
    if not 0 <= at <= len(code):
        return None
    if machine == "x86_64":
        return _kind_x86(code, at)
    return _kind_arm(code, at) if machine == "aarch64" else None


def is_after_call(code: bytes, machine: str) -> bool:
    """Whether these bytes end with a call, so that what comes next is where a function returns to."""
    if machine == "aarch64":
        word = struct.unpack("<I", code[-4:])[0] if len(code) >= 4 else 0
        return word >> 26 == 0b100101 or word & 0xFFFFFC1F == 0xD63F0000
    return code[-5:-4] == b"\xe8" or code[-6:-4] == b"\xff\x15" or (code[-2:-1] == b"\xff" and code[-1] & 0xF8 == 0xD0)


@dataclass(frozen=True, slots=True)
class Sample:
    """A thread that ran.  address: of its own code, in the kernel too; back: where its function may return to, or 0."""

    tgid: int
    tid: int
    address: int
    back: int


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

    @property
    def is_lock(self) -> bool:
        """Whether the function's name says that it takes a lock."""
        return self.function in LOCKS


@dataclass(frozen=True, slots=True)
class Spins:
    """What samples of running threads saw.  samples: of the target's threads; cpus: that they used, on average."""

    samples: int
    cpus: float
    spins: tuple[Spin, ...]


def spins_of(
    samples: Sequence[Sample],
    kinds: Mapping[tuple[int, int], Kind],
    place: Callable[[int, int], Place],
    comm: Callable[[int], str],
    cpus_each: float,
) -> Spins:
    """Who waits on CPUs, and where; kinds: of a process and an address; cpus_each: of one sample."""
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
            )
        )
    return Spins(len(samples), len(samples) * cpus_each, tuple(sorted(spins, key=lambda one: -one.cpus)))
