# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether machine code around a place is a loop that waits: for x86-64 and arm64.

One with the instruction that exists for such loops (PAUSE of x86, YIELD, ISB and WFE of arm64) does; so does one that
nothing but another thread can end, as it changes nothing that it tests.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from lockline.base.values import dataclass

# spin: a loop with a PAUSE or its like.  swap: one of nothing but an exchange and a test.  read: one that only reads
# and tests, which nothing but another thread can end.  yield: sched_yield().  atomic: no loop that waits, but an
# instruction that needs its cache line for itself.
Kind: TypeAlias = Literal["spin", "swap", "read", "yield", "atomic"]

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


def _prefixes_x86(code: bytes, begin: int) -> tuple[int, int]:
    """Where an instruction goes on behind the prefixes 66 and REX; and REX, 0: it has none."""
    at = begin + (code[begin : begin + 1] == b"\x66")
    rex = code[at] if at < len(code) and 0x40 <= code[at] <= 0x4F else 0
    return at + (rex != 0), rex


def _memory_end_x86(code: bytes, operand: int) -> int:
    """Where the address of an operand in memory ends whose ModRM is there: SIB and displacement are behind it."""
    mode, register, end = code[operand] >> 6, code[operand] & 7, operand + 1
    if register == 4:
        mode = 2 if mode == 0 and code[end] & 7 == 5 else mode
        end += 1
    elif mode == 0 and register == 5:
        mode = 2
    return end + (0, 1, 4)[mode]


def _operand_end_x86(code: bytes, at: int) -> int:
    """Where an instruction ends whose prefixes but REX and 66 end here, if it has an operand in memory; else 0."""
    at, _ = _prefixes_x86(code, at)
    two_bytes = at < len(code) and code[at] == 0x0F
    at += two_bytes
    if at + 2 >= len(code) or code[at + 1] >> 6 == 3:
        return 0
    constants = {0xBA: 1} if two_bytes else {0x80: 1, 0x83: 1, 0x81: 4}
    return _memory_end_x86(code, at + 1) + constants.get(code[at], 0)


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


def _exchanges_x86(loop: bytes) -> bool:
    """Whether a short loop exchanges a word for what is always the same, until it finds it free.

    XCHG with memory (86 or 87, whose second byte names no register) needs no prefix.
    """
    return any(one in (0x86, 0x87) and two < 0xC0 for one, two in pairwise(loop))


_CMPXCHG = (b"\x0f\xb0", b"\x0f\xb1")
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
    at, rex = _prefixes_x86(code, begin)
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
    memory = code[operand] >> 6 != 3
    end = _memory_end_x86(code, operand) if memory else operand + 1
    writes = (code[operand] >> 3 & 7) | (rex & 4) << 1 if load else -1
    return _Reading(end + constant - begin, operand, memory, writes)


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


@dataclass(frozen=True, slots=True)
class _Setting:
    """An instruction that sets a register.  size: its length; of: the registers that it makes the value of."""

    size: int
    register: int
    of: frozenset[int] = frozenset()


def _setting_x86(code: bytes, begin: int) -> _Setting | None:
    """The instruction that begins here, if it sets a register to a constant, an address, another register or a flag."""
    at, rex = _prefixes_x86(code, begin)
    if at + 2 >= len(code):
        return None
    opcode, operand, third = code[at : at + 3]
    low, middle, registers = (operand & 7) | (rex & 1) << 3, (operand >> 3 & 7) | (rex & 4) << 1, operand >> 6 == 3
    if 0xB8 <= opcode <= 0xBF:
        return _Setting(at + (9 if rex & 8 else 5) - begin, (opcode & 7) | (rex & 1) << 3)
    if registers and opcode in (0x31, 0x33) and low == middle:
        return _Setting(at + 2 - begin, low)
    if registers and opcode == 0x89:
        return _Setting(at + 2 - begin, low, frozenset({middle}))
    if registers and opcode == 0x8B:
        return _Setting(at + 2 - begin, middle, frozenset({low}))
    if registers and opcode == 0xC7:
        return _Setting(at + 6 - begin, low)
    if opcode == 0x0F and 0x90 <= operand <= 0x9F and third >> 6 == 3:
        return _Setting(at + 3 - begin, (third & 7) | (rex & 1) << 3)
    if opcode == 0x8D and not registers:
        return _Setting(_operand_end_x86(code, begin) - begin, middle, frozenset(_uses_x86(code, at + 1, rex)))
    return None


def _made_of(registers: set[int], settings: Sequence[_Setting]) -> set[int]:
    """The registers that are set to something made of one of these, sooner or later as the loop goes round."""
    found = set[int]()
    for _ in settings:
        found |= {one.register for one in settings if one.of & (registers | found)}
    return found


def _waits_to_swap_x86(loop: bytes) -> bool:
    """Whether all that a loop does is to compare a word with a constant, and to exchange it: it waits for that value.

    Every instruction is known.  Nothing that CMPXCHG uses is made of what the loop reads from memory: a loop that reads
    a word, and puts in its place what it made of it, changes something each time that it goes round.  Nor is it made of
    itself: a loop that looks for a free place in a table moves on, and ends by itself.  And there is one CMPXCHG: a
    loop that takes something with one and gives it back with another gets on with its work.
    """
    at, used = 0, set[int]()
    loaded, settings = set[int](), list[_Setting]()
    while at < len(loop):
        size = _atomic_x86(loop, at)
        setting, reading = _setting_x86(loop, at), _reading_x86(loop, at)
        if size:
            operand = next((place + 2 for place in (at + 1, at + 2) if loop[place : place + 2] in _CMPXCHG), 0)
            if not operand or used:
                return False
            rex = _rex_before(loop, operand)
            used |= {0, (loop[operand] >> 3 & 7) | (rex & 4) << 1} | _uses_x86(loop, operand, rex)
        elif setting is not None:
            size = setting.size
            settings.append(setting)
        elif reading is not None:
            size = reading.size
            loaded |= {reading.writes} - {-1}
        if not 0 < size <= len(loop) - at:
            return False
        at += size
    moves = {one.register for one in settings if one.register in _made_of({one.register}, settings)}
    changes = loaded | moves | _made_of(loaded | moves, settings)
    return bool(used) and any(one.register == 0 for one in settings) and not used & changes


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
    if any((len(loop) <= _SWAP_LOOP and _exchanges_x86(loop)) or _waits_to_swap_x86(loop) for loop in loops):
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
