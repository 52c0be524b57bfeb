# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that wait on a CPU, in their own code: no lock tracepoint and no futex shows that.

Samples tell where threads run.  The code there tells whether it is a loop that waits: one with the instruction that
exists for such loops (PAUSE of x86, YIELD, ISB and WFE of arm64), or a return from sched_yield().
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, TypeAlias

from lockline.base.values import dataclass

# spin: a loop with a PAUSE or its like.  swap: one of nothing but an exchange and a test.  read: one that only reads
# and tests, which nothing but another thread can end.  yield: sched_yield().  atomic: no loop that waits, but an
# instruction that needs its cache line for itself.
Kind: TypeAlias = Literal["spin", "swap", "read", "yield", "atomic"]

# Of a cache line, bytes.
LINE = 64
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
# Threads of a process, on average, from which on they are reported.
ENOUGH_CPUS = 0.05


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _loops_x86(code: bytes, at: int) -> "list[bytes]":
    """The bytes of each loop that the instruction at this place may be in: from a jump's target to its end."""
    return [code[begin:end] for begin, end in _places_of_loops_x86(code, at)]


def _places_of_loops_x86(code: bytes, at: int) -> list[tuple[int, int]]:
    """Where these begin and end."""
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
            found.append((begin, end))
    return found


def _operand_end_x86(code: bytes, at: int) -> int:
    """Where an instruction ends whose prefixes but REX and 66 end here, if it has an operand in memory; else 0."""
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
    return at + constants.get(opcode, 0)


def _atomic_x86(code: bytes, begin: int) -> int:
    """How long the instruction is that begins here, if it has the prefix LOCK and an operand in memory; else 0."""
    if code[begin] != 0xF0:
        return 0
    return max(0, _operand_end_x86(code, begin + 1) - begin)


def _exchange_x86(code: bytes, begin: int) -> int:
    """The same of XCHG with memory, which needs no prefix to be atomic."""
    at = begin
    while at < len(code) and (code[at] == 0x66 or 0x40 <= code[at] <= 0x4F):
        at += 1
    if at >= len(code) or code[at] not in (0x86, 0x87):
        return 0
    return max(0, _operand_end_x86(code, begin) - begin)


# The longest instruction with LOCK that compilers make.
_LONGEST_ATOMIC = 14


def _begin_of_atomic_x86(code: bytes, at: int) -> int | None:
    """Where such an instruction begins that the thread is at, or right behind: where a timer finds who waits in it."""
    if at < len(code) and code[at] == 0xF0 and _atomic_x86(code, at):
        return at
    places = range(max(0, at - _LONGEST_ATOMIC), at)
    return next((begin for begin in places if begin + _atomic_x86(code, begin) == at), None)


# The general registers of x86-64 in the order of instructions, by their place among perf's: ax cx dx bx sp bp si di.
_ORDER_X86 = (0, 2, 3, 1, 7, 6, 4, 5, *range(9, 17))


def _operand_x86(code: bytes, begin: int, next_: int, registers: Sequence[int]) -> int:
    """The address of the operand in memory of an instruction with LOCK, or of an exchange; 0: it cannot be told.

    begin: in the code; next_: address of the instruction behind it.  registers: perf's, see REGISTERS.
    """
    at, rex = begin, 0
    while at < len(code) and code[at] in (0xF0, 0x66):
        at += 1
    if at < len(code) and 0x40 <= code[at] <= 0x4F:
        rex = code[at]
        at += 1
    at += 2 if at < len(code) and code[at] == 0x0F else 1
    if at + 6 > len(code):
        return 0
    mode, low = code[at] >> 6, code[at] & 7
    at += 1
    address = 0
    if low == 4:
        scale, index, base = code[at] >> 6, code[at] >> 3 & 7 | (rex & 2) << 2, code[at] & 7
        at += 1
        if index != 4:
            address += registers[_ORDER_X86[index]] << scale
        if base == 5 and mode == 0:
            mode = 2
        else:
            address += registers[_ORDER_X86[base | (rex & 1) << 3]]
    elif low == 5 and mode == 0:
        mode = 2
        address += next_
    else:
        address += registers[_ORDER_X86[low | (rex & 1) << 3]]
    if mode == 1:
        address += struct.unpack_from("<b", code, at)[0]
    elif mode == 2:
        address += struct.unpack_from("<i", code, at)[0]
    return address & (1 << 64) - 1


def word_at(code: bytes, at: int, machine: str, address: int, registers: Sequence[int]) -> int:
    """The address of what the atomic instruction changes that a thread is at, or right behind; 0: it cannot be told.

    code, at, machine: as kind_at() has them; address: of the thread.  registers: its own, as a sample has them.
    """
    if not 0 <= at <= len(code):
        return 0
    if machine == "x86_64" and len(registers) == 17:
        begin = _begin_of_atomic_x86(code, at)
        size = _atomic_x86(code, begin) if begin is not None else 0
        if begin is None:
            near = [one for one in range(max(0, at - _LONGEST_ATOMIC), at + 1) if one < len(code)]
            sizes = {one: _exchange_x86(code, one) for one in near}
            begin = next((one for one in near if sizes[one] and (one == at or one + sizes[one] == at)), None)
            size = sizes[begin] if begin is not None else 0
        if begin is None:
            for first, end in _places_of_loops_x86(code, at):
                read = _read_in_x86(code[first:end])
                if read is not None:
                    begin, size = first + read[0], read[1]
        if begin is None:
            return 0
        return _operand_x86(code, begin, address + begin - at + size, registers)
    if machine == "aarch64" and len(registers) == 33:
        start = at % 4
        here = (at - start) // 4
        words = struct.unpack_from(f"<{(len(code) - start) // 4}I", code, start)
        word = next((one for one in words[max(0, here - 1) : here + 1] if _is_atomic_arm(one)), None)
        if word is None:
            loads = [one for loop in _loops_arm(words, here) for one in loop if _is_load_arm(one)]
            # Of a load with an offset the register is not the address.
            word = next((one for one in loads if not (_has_offset_arm(one) and one >> 10 & 0xFFF)), None)
        return 0 if word is None else registers[word >> 5 & 31]
    return 0


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


# Instructions that change nothing but flags, or a register by what they read: of one byte, and behind 0F.  Those with a
# constant behind the operand have its length; of groups only the comparison, or the test, is one.
_READ_X86 = {0x8A: 0, 0x8B: 0, 0x84: 0, 0x85: 0, 0x38: 0, 0x39: 0, 0x3A: 0, 0x3B: 0}
_READ_GROUPS_X86 = {0x80: (7, 1), 0x81: (7, 4), 0x83: (7, 1), 0xF6: (0, 1), 0xF7: (0, 4)}
_READ_TWO_X86 = (0xB6, 0xB7, 0xBE, 0xBF)
_LOADS_X86 = (0x8A, 0x8B)


@dataclass(frozen=True, slots=True)
class _Reading:
    """An instruction that reads.  size: its length; operand: where its ModRM is, 0: none; writes: a register, or -1."""

    size: int
    operand: int
    memory: bool
    writes: int


def _reading_x86(code: bytes, begin: int) -> _Reading | None:
    """The instruction that begins here, if it does nothing but read, compare or jump."""
    at, rex = begin, 0
    if at < len(code) and code[at] == 0x66:
        at += 1
    if at < len(code) and 0x40 <= code[at] <= 0x4F:
        rex = code[at]
        at += 1
    if at + 1 >= len(code):
        return None
    opcode, second = code[at], code[at + 1]
    plain = {0x90: 1, 0xEB: 2, 0xA8: 2, 0xA9: 5, 0x3C: 2, 0x3D: 5}
    if opcode in plain or 0x70 <= opcode <= 0x7F:
        return _Reading(at + plain.get(opcode, 2) - begin, 0, False, -1)
    if code[at : at + 2] == _PAUSE:
        return _Reading(2, 0, False, -1)
    if opcode == 0x0F and 0x80 <= second <= 0x8F:
        return _Reading(at + 6 - begin, 0, False, -1)
    constant, load = 0, opcode in _LOADS_X86
    if opcode == 0x0F and second in _READ_TWO_X86:
        at, load = at + 1, True
    elif opcode in _READ_GROUPS_X86:
        wanted, constant = _READ_GROUPS_X86[opcode]
        if second >> 3 & 7 != wanted:
            return None
    elif opcode not in _READ_X86:
        return None
    operand = at + 1
    if operand + 1 >= len(code):
        return None
    mode, register = code[operand] >> 6, code[operand] & 7
    end = operand + 1
    if mode != 3:
        if register == 4:
            mode = 2 if mode == 0 and code[end] & 7 == 5 else mode
            end += 1
        elif mode == 0 and register == 5:
            mode = 2
        end += (0, 1, 4)[mode]
    writes = (code[operand] >> 3 & 7) | (rex & 4) << 1 if load else -1
    return _Reading(end + constant - begin, operand, mode != 3, writes)


def _uses_x86(code: bytes, operand: int, rex: int) -> set[int]:
    """The registers that an operand in memory is addressed by."""
    mode, low = code[operand] >> 6, code[operand] & 7
    if low != 4:
        return set() if low == 5 and mode == 0 else {low | (rex & 1) << 3}
    index, base = code[operand + 1] >> 3 & 7 | (rex & 2) << 2, code[operand + 1] & 7
    used = set() if index == 4 else {index}
    return used if base == 5 and mode == 0 else used | {base | (rex & 1) << 3}


def _rex_before(code: bytes, operand: int) -> int:
    """The prefix REX of an instruction by where its ModRM is, 0: none."""
    opcode = operand - 2 if operand > 1 and code[operand - 2] == 0x0F else operand - 1
    return code[opcode - 1] if opcode > 0 and 0x40 <= code[opcode - 1] <= 0x4F else 0


def _read_in_x86(loop: bytes) -> tuple[int, int] | None:
    """Of a loop that only reads: the instruction that reads memory, and its length; None if it does more.

    Such a loop ends only if another thread changes what it reads: none of its registers moves on.
    """
    at, written, operands = 0, set(), []
    while at < len(loop):
        one = _reading_x86(loop, at)
        if one is None or not 0 < one.size <= len(loop) - at:
            return None
        if one.memory:
            operands.append((at, one.size, one.operand))
        written |= {one.writes} - {-1}
        at += one.size
    used = [_uses_x86(loop, operand, _rex_before(loop, operand)) for _, _, operand in operands]
    if not operands or any(registers & written for registers in used):
        return None
    return operands[0][:2]


def _kind_x86(code: bytes, at: int) -> Kind | None:
    if code[max(0, at - len(_YIELD_X86)) : at] == _YIELD_X86:
        return "yield"
    # A function of its own that only pauses, which the loop calls.
    if code[at : at + 2] == _PAUSE or code[max(0, at - 2) : at] == _PAUSE:
        return "spin"
    loops = _loops_x86(code, at)
    if any(_PAUSE in loop for loop in loops):
        return "spin"
    if any(len(loop) <= _SWAP_LOOP and _read_in_x86(loop) is not None for loop in loops):
        return "read"
    if any(len(loop) <= _SWAP_LOOP and _only_swaps_x86(loop) for loop in loops):
        return "swap"
    return "atomic" if _begin_of_atomic_x86(code, at) is not None else None


def _jump_arm(word: int) -> int | None:
    """How far an instruction of arm64 jumps, in instructions; None: it does not."""
    if word >> 26 == 0b000101:
        return _signed(word & 0x3FFFFFF, 26)
    if word >> 24 == 0x54 or (word >> 25) & 0x3F == 0b011010:
        return _signed((word >> 5) & 0x7FFFF, 19)
    if (word >> 25) & 0x3F == 0b011011:
        return _signed((word >> 5) & 0x3FFF, 14)
    return None


def _loops_arm(words: Sequence[int], here: int) -> list[Sequence[int]]:
    """The instructions of each loop that this one may be in."""
    found = []
    for place in range(here, len(words)):
        jump = _jump_arm(words[place])
        if jump is None:
            continue
        begin = place + jump
        if 0 <= begin <= here and 4 * (place + 1 - begin) <= _LONGEST_LOOP:
            found.append(words[begin : place + 1])
    return found


def _has_offset_arm(word: int) -> bool:
    """Whether it is LDR with an offset, which is no load that is ordered (LDAR, LDAPR)."""
    return word & 0x3B000000 == 0x39000000


def _is_load_arm(word: int) -> bool:
    """LDR with an offset; LDAR; LDAPR."""
    return word & 0x3FC00000 == 0x39400000 or word & 0x3FFFFC00 in (0x08DFFC00, 0x38BFC000)


def _only_reads_arm(loop: Sequence[int]) -> bool:
    """Whether a loop only reads, compares and jumps, so that nothing but another thread ends it."""
    loads = [word for word in loop if _is_load_arm(word)]
    others = [word for word in loop if not _is_load_arm(word)]
    compares = (word & 0x7F00001F == 0x7100001F or word & 0x7F20001F == 0x6B00001F for word in others)
    plain = all(one or _jump_arm(word) is not None for one, word in zip(compares, others, strict=True))
    written, used = {word & 31 for word in loads}, {word >> 5 & 31 for word in loads}
    return bool(loads) and plain and not written & used


def _kind_arm(code: bytes, at: int) -> Kind | None:
    start = at % 4
    words = struct.unpack_from(f"<{(len(code) - start) // 4}I", code, start)
    here = (at - start) // 4
    if here >= 2 and words[here - 1] == _SVC_ARM and words[here - 2] in _NUMBERS_ARM:
        return "yield"
    if here < len(words) and words[here] in _WAITS_ARM:
        return "spin"
    loops = _loops_arm(words, here)
    if any(word in _WAITS_ARM for loop in loops for word in loop):
        return "spin"
    if any(_only_reads_arm(loop) for loop in loops):
        return "read"
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
