# SPDX-License-Identifier: GPL-2.0-or-later
"""From the memory accesses of a recording to a report: join, members, verdict and advice for each line."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import tee

from lockline.base.values import replace
from lockline.c2c.advice import advise
from lockline.c2c.functions import is_spin_function, is_unlock
from lockline.c2c.join import (
    NO_LOCKS,
    Locks,
    locks_by_address,
    locks_by_code,
    locks_by_name,
    read_locks,
    spins_per_second,
)
from lockline.c2c.members import NO_TYPES, ReadProgram, ReadTypes, Types, place
from lockline.c2c.model import (
    Access,
    C2cReport,
    Counts,
    Coverage,
    Line,
    LineReport,
    LockOnLine,
    Machine,
    OffsetReport,
    Part,
    Placement,
    add_counts,
)
from lockline.c2c.parts import cost, cost_name, cost_word, divide
from lockline.c2c.placement import (
    NOWHERE,
    place_by_code,
    place_by_lock,
    place_by_symbol,
    program_of,
    type_id,
    wanted_names,
)
from lockline.c2c.shares import by_shares
from lockline.c2c.tables import find_buddies, place_of, read_lines, read_names, read_tables, score
from lockline.c2c.verdict import judge
from lockline.c2c.verdict_case import actors
from lockline.c2c.watched import EXACT, even, place_by_target
from lockline.recording.reader import MetaValue, Recording

# Inferring a type from the code is tried for the first lines alone; those after it are of little cost.
INFERRED_LINES = 100

# From an open recording, and the numbers of lines in a report, which are taken when their turn comes.
MakeLines = Callable[[Recording, Iterable[int]], Iterator[LineReport]]


def make_c2c_report(
    recording: Recording,
    top: int,
    read_types: ReadTypes | None = None,
    locks_recording: Recording | None = None,
    notes: Sequence[str] = (),
    path: str = "",
    read_program: ReadProgram | None = None,
) -> C2cReport:
    """The report of a recording's memory accesses, of its best `top` lines.

    read_types gives the types of functions, structures and variables by their names; locks_recording: lock waits to
    join the lines with (default: those in the recording itself); path: of the file that was imported;
    read_program: the types of programs.

    Raises RecordingError if a recording is damaged.
    """
    head, count, make = open_c2c_report(recording, top, read_types, locks_recording, notes, path, read_program)
    return replace(head, lines=tuple(make(recording, range(count))))


def open_c2c_report(
    recording: Recording,
    top: int,
    read_types: ReadTypes | None = None,
    locks_recording: Recording | None = None,
    notes: Sequence[str] = (),
    path: str = "",
    read_program: ReadProgram | None = None,
) -> tuple[C2cReport, int, MakeLines]:
    """The report without its lines, how many these are, and what makes them: all accesses at once take much memory.

    The lines are made by their numbers, which count from 0.
    """
    tables = read_tables(recording)
    wanted = tables.lines[:top]
    locks = (
        read_locks(locks_recording or recording, recording) if locks_recording or recording.has_locks() else NO_LOCKS
    )
    told = list(notes)
    if locks_recording is not None:
        told.append(_join_note(locks))
    machine = _machine(recording.meta(), (locks_recording or recording).meta())
    head = C2cReport(
        path=path or recording.path,
        machine=machine,
        sources=tables.sources,
        coverage=tables.coverage,
        lines=(),
        line_count=len(tables.lines),
        other_lines=tables.other_lines,
        transfers=tables.transfers,
        problems=tables.problems,
        notes=tuple(told),
    )
    kernels = [line for line in wanted if line.row.space != "user"] if read_types is not None else []
    kernel = _types(list(read_names(recording, kernels)), locks, read_types)
    users = [line for line in wanted[:INFERRED_LINES] if line.row.space == "user"] if read_program is not None else []
    programs = _programs(list(read_names(recording, users)), read_program)

    buddies = find_buddies(recording, wanted, tables.sums)

    def make(source: Recording, numbers: Iterable[int]) -> Iterator[LineReport]:
        numbers, chosen = tee(numbers)
        for number, line in zip(numbers, read_lines(source, (wanted[one] for one in chosen)), strict=True):
            types = programs.get(program_of(line), NO_TYPES) if line.space == "user" else kernel
            buddy = buddies.get(place_of(line))
            yield _line_report(line, types, locks, head.coverage, buddy, head.machine.cpus, number)

    return head, len(wanted), make


def _join_note(locks: Locks) -> str:
    if locks.by_address:
        return f"lines and locks are joined by address: {locks.why}"
    return f"lines and locks are joined by name and code, not by address: {locks.why}"


def _number(facts: Mapping[str, MetaValue], name: str) -> int | None:
    value = facts.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 8:
        value = int(value)
    return value if isinstance(value, int) and 0 < value < 1 << 20 else None


def _machine(facts: Mapping[str, MetaValue], other: Mapping[str, MetaValue]) -> Machine:
    def word(name: str) -> str | None:
        value = facts.get(name)
        return str(value) if value not in (None, "") else None

    same = word("hostname") in (None, str(other.get("hostname")))
    cpus = _number(facts, "cpus_possible") or (_number(other, "cpus_possible") if same else None)
    return Machine(
        word("hostname"), word("kernel_release"), word("architecture"), cpus or _number(facts, "cpus_online")
    )


def _types(lines: Sequence[Line], locks: Locks, read_types: ReadTypes | None) -> Types:
    if read_types is None or not lines:
        return NO_TYPES
    near = [lock for line in lines for lock in locks_by_address(line, locks)]
    near += [locks.names[name][0] for name in locks.callers if name in locks.names]
    functions, structs, variables = wanted_names(lines, near)
    structs += [line.watch.type for line in lines if line.watch is not None and line.watch.type]
    return read_types(functions, list(dict.fromkeys(structs)), variables)


def _programs(lines: Sequence[Line], read_program: ReadProgram | None) -> dict[str, Types]:
    grouped: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        grouped[program_of(line)].append(line)
    grouped.pop("", None)
    if read_program is None:
        return {}
    return {program: read_program(program, *wanted_names(part, [])) for program, part in grouped.items()}


def _lock_word_offset(line: Line) -> int | None:
    """Where in the line its waiters spin, if anywhere: stray samples make no lock of what others use."""
    if not any(map(is_spin_function, {access.code.symbol for access in line.accesses})):
        return None
    spins: defaultdict[int, int] = defaultdict(int)
    others: defaultdict[int, int] = defaultdict(int)
    for access in line.located:
        weights = spins if is_spin_function(access.code.symbol) else others
        if not is_unlock(access.code.symbol):
            weights[access.offset & ~3] += 1 + access.transfers * 1000 + (access.counts.records or 0)
    words = [offset for offset, weight in spins.items() if weight > others[offset]]
    return max(words, key=lambda offset: (spins[offset], -offset)) if words else None


def _join(line: Line, types: Types, locks: Locks, infer: bool, word: int | None) -> tuple[list[LockOnLine], Placement]:
    """The locks of a line and its object, by the strongest evidence that there is; word: of _lock_word_offset()."""
    found = locks_by_address(line, locks)
    target = place_by_target(line)
    if target is not None:
        return found, target
    for lock in found:
        placement = place_by_lock(lock, types)
        if placement:
            return found, placement
    by_symbol = place_by_symbol(line, types)
    if by_symbol:
        return found, by_symbol
    # Where neither kernel nor program is known, it is a line's number in a text.
    if line.symbol and line.space != "other":
        found = found or locks_by_name([line.symbol], locks, -line.symbol_offset)
        return found, Placement("", None, "", False, (f"the line is {line.symbol}+{line.symbol_offset:#x}",), ())
    if not found and word is not None and line.space == "kernel":
        by_code = locks_by_code({access.function for access in line.accesses}, locks, word)
        placement = place_by_lock(by_code[0], types) if by_code else None
        if placement:
            evidence = (
                f"most waits for {by_code[0].name} come from functions that touch the line",
                *placement.evidence,
            )
            return by_code, Placement(placement.type, placement.base, "code", False, evidence, ())
        found = by_code
    inferred = place_by_code(line, types) if infer else None
    return found, inferred or NOWHERE


def _lock_names(placement: Placement, id_: str, types: Types, line: Line, word: int | None) -> list[str]:
    """The lock's name, as recordings have it, where the code alone tells that there is one."""
    if word is None:
        return []
    if line.symbol and not placement.type:
        return [line.symbol]
    if placement.base is None:
        return []
    found = place(types, id_, placement.base + word)
    return [f"{placement.type}.{found.unit}"] if found and found.unit else []


def _line_report(
    line: Line,
    types: Types,
    locks: Locks,
    coverage: Coverage,
    buddy: Line | None,
    cpus: int | None,
    number: int,
) -> LineReport:
    word = _lock_word_offset(line)
    on_line, placement = _join(line, types, locks, number < INFERRED_LINES, word)
    id_ = type_id(placement, line, types)
    if not on_line and word is not None:
        names = _lock_names(placement, id_, types, line, word)
        on_line = locks_by_name(names, locks, word) or [
            LockOnLine(name, "", ("spinlock",), word, None, None, None, "code", {}) for name in names or [""]
        ]
    fair = by_shares(line) if line.shares else even(line)
    parts, kind = divide(fair, types, id_, placement.base, on_line)
    seen = EXACT if line.watch is not None else coverage
    judgement = judge(
        fair, parts, kind, seen, buddy, placement.sure or placement.base is None, spins_per_second(on_line)
    )
    if line.shares:
        # What it was judged by are no counts.
        shown, _ = divide(line, types, id_, placement.base, on_line)
        parts = tuple(replace(part, counts=own.counts) for part in parts for own in shown if own.begin == part.begin)
        members = {part.begin: part for part in parts}
        judgement = replace(judgement, members=tuple(members.get(part.begin, part) for part in judgement.members))
    # What is added up already: of parts that are one offset's accesses.
    known = {part.accesses[0].offset: part.counts for part in parts if fair is line and _one_offset(part)}
    advice = advise(line, placement, id_, types, parts, judgement, on_line, cpus, cost_word(line, kind))
    listed, exact = _cpus(line.accesses)
    several = actors(line.accesses) > 1
    written = several and bool(line.counts.stores)
    return LineReport(
        line=line,
        score=score(line.counts.transfers, line.counts.fill_buffer or 0, written),
        cost=cost(line.counts, kind),
        cost_is=cost_name(line, kind),
        cpus=_cpu_count(line.accesses),
        cpus_exact=exact,
        cpu_list=cpu_list(listed),
        placement=placement,
        offsets=_offsets(line, types, id_, placement, known),
        parts=parts,
        judgement=judgement,
        locks=tuple(on_line),
        advice=advice,
        buddy=buddy,
    )


def _cpus(accesses: Sequence[Access]) -> tuple[int, bool]:
    """The CPUs that are known, and whether these are all."""
    bits = 0
    exact = bool(accesses)
    for access in accesses:
        bits |= access.cpus or 0
        exact = exact and (access.cpus is not None or not access.cpu_count) and access.offset >= 0
    return bits, exact and bits > 0


def _cpu_count(accesses: Sequence[Access]) -> int | None:
    listed = most = 0
    for access in accesses:
        if access.cpus:
            listed |= access.cpus
        if access.cpu_count > most:
            most = access.cpu_count
    return max(listed.bit_count(), most) or None


def cpu_list(bits: int) -> str:
    """A bit set of CPUs as "0-3,7"."""
    ranges = []
    cpu = 0
    while bits >> cpu:
        low = (bits >> cpu) & -(bits >> cpu)
        cpu += low.bit_length() - 1
        run = ~(bits >> cpu) & ((bits >> cpu) + 1)
        length = run.bit_length() - 1
        ranges.append(str(cpu) if length == 1 else f"{cpu}-{cpu + length - 1}")
        cpu += length
    return ",".join(ranges)


def _one_offset(part: Part) -> bool:
    # They are sorted by it.
    return part.accesses[0].offset == part.accesses[-1].offset


def _paid_first(access: Access) -> tuple[int, int, int]:
    return -access.transfers, -(access.counts.records or 0), access.code.address


def _offsets(
    line: Line, types: Types, id_: str, placement: Placement, known: Mapping[int, Counts]
) -> tuple[OffsetReport, ...]:
    grouped: defaultdict[int, list[Access]] = defaultdict(list)
    for access in line.located:
        grouped[access.offset].append(access)
    reports = []
    for offset in sorted(grouped):
        accesses = grouped[offset]
        found = place(types, id_, placement.base + offset) if id_ and placement.base is not None else None
        member = ""
        if found is not None and placement.base is not None:
            rest = placement.base + offset - found.offset
            member = f"{found.path}+{rest:#x}" if rest else found.path
        if len(accesses) > 1:
            accesses.sort(key=_paid_first)
        symbol = accesses[0].code.symbol or next((access.code.symbol for access in accesses if access.code.symbol), "")
        counts = known.get(offset) or add_counts([access.counts for access in accesses])
        reports.append(OffsetReport(offset, member, symbol, counts, _cpu_count(accesses), tuple(accesses)))
    return tuple(reports)


def parts_by_cost(parts: Sequence[Part]) -> list[Part]:
    """Most cost first."""
    return sorted(parts, key=lambda part: (-part.cost, -(part.counts.records or 0), part.begin))
