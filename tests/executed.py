# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests/vm/coherence/executed.c, the plugin that counts an emulated guest's instructions, has counted."""

import math
import re
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# What the kernel calls a program, or a function of one: bpf_prog_TAG_NAME.
PROGRAM = re.compile(r"bpf_prog_[0-9a-f]{16}_(\w+)$")
# Where the kernel turns off to a probe's programs.
TURN_OFF = re.compile(
    r"bpf_trampoline_\d+$|__bpf_trace_(contention_(begin|end)|sys_(enter|exit)|sched_(switch|waking|wakeup_template))$"
)
CLOCK = "bpf_ktime_get_ns"
# The counter is read by a pointer, which no call names.
READ_COUNTER, CALLS_COUNTER = "read_tsc", "ktime_get_mono_fast_ns"
THUNK = re.compile(r"(__pi_)?__x86_indirect_thunk")
DEEPEST = 8


@dataclass(frozen=True)
class Block:
    """Code of the kernel without a jump into or out of it, and how often it ran in a phase."""

    address: int
    instructions: int
    locked: int
    clocks: int
    target: int  # of its last call or jump; 0: not known
    runs: int


@dataclass
class Phase:
    """Instructions that were executed between two marks."""

    user: int
    kernel: int
    blocks: list[Block] = field(default_factory=list)

    @property
    def both(self) -> int:
        """Of user space and of the kernel."""
        return self.user + self.kernel


@dataclass
class Function:
    """A function of the kernel or of a program, without what it calls."""

    runs: int = 0
    instructions: int = 0
    locked: int = 0
    calls: dict[str, int] = field(default_factory=dict)  # how often it called which


@dataclass(frozen=True)
class Program:
    """A program, or a function of one: means of one run."""

    name: str
    runs: int
    instructions: float
    locked: float
    clocks: float


@dataclass(frozen=True)
class Cost:
    """What a tool's probes took in a phase, in instructions."""

    programs: tuple[Program, ...]
    own: int  # of the programs
    helpers: int  # what they called in the kernel
    way: int  # from the probes to them and back
    locked: int  # operations of the programs, and of what they called
    clocks: int  # reads

    @property
    def instructions(self) -> int:
        """All of it."""
        return self.own + self.helpers + self.way

    def runs(self, name: str) -> int:
        """Of a program; 0: it did not run."""
        return sum(program.runs for program in self.programs if program.name == name)


class Symbols:
    """Names of the kernel's code, and of programs, from lines of /proc/kallsyms."""

    def __init__(self, lines: Iterable[str]) -> None:
        found: dict[int, str] = {}
        for line in lines:
            words = line.split()
            if len(words) >= 3 and words[1] in "tTwW":
                found.setdefault(int(words[0], 16), words[2])
        self._begins = sorted(found)
        self._names = [found[begin] for begin in self._begins]

    def at(self, address: int) -> tuple[str, int]:
        """Name, and distance from the function's begin."""
        index = bisect_right(self._begins, address) - 1
        return (self._names[index], address - self._begins[index]) if index >= 0 else ("", address)


def read_phases(file: Path) -> dict[int, Phase]:
    """The phases by number.  ValueError if the guest did not come to its end."""
    phases: dict[int, Phase] = {}
    blocks: list[Block] = []
    ended = False
    with file.open(encoding="ascii") as lines:
        for line in lines:
            words = line.split()
            if words[0] == "block":
                numbers = [int(word, 16 if place in {0, 4} else 10) for place, word in enumerate(words[1:])]
                blocks.append(Block(*numbers))
            elif words[0] == "phase":
                number, user, kernel = map(int, words[1:])
                phases[number] = Phase(user, kernel, blocks)
                blocks = []
            ended = words[0] == "end"
    if not ended:
        raise ValueError(f"{file}: not written to its end")
    return phases


def functions_of(phase: Phase, symbols: Symbols) -> dict[str, Function]:
    """What each function executed, by its symbol."""
    found: dict[str, Function] = {}
    for block in phase.blocks:
        name, distance = symbols.at(block.address)
        function = found.setdefault(name, Function())
        function.instructions += block.instructions * block.runs
        function.locked += block.locked * block.runs
        if not distance:
            function.runs += block.runs
        if block.target:
            target, inside = symbols.at(block.target)
            # A jump within the function, back to its begin, is no call.
            if not inside and target != name:
                function.calls[target] = function.calls.get(target, 0) + block.runs
    return found


def program_name(symbol: str) -> str | None:
    """The name of a program, or of a function of one; None: it is the kernel's own."""
    found = PROGRAM.match(symbol)
    return found[1] if found else None


def _callees(function: Function, symbol: str) -> Iterator[tuple[str, int]]:
    for target, calls in function.calls.items():
        if program_name(target) is None:
            yield target, calls
    if symbol == CALLS_COUNTER and not any(target == READ_COUNTER for target in function.calls):
        yield READ_COUNTER, function.runs


def mean_run(found: Mapping[str, Function], symbol: str, depth: int = 0) -> tuple[float, float]:
    """Instructions and locked operations of a run of the kernel's function, with what it calls; programs apart."""
    function = found.get(symbol)
    if not function or not function.runs or depth > DEEPEST:
        return 0.0, 0.0
    instructions, locked = float(function.instructions), float(function.locked)
    for target, calls in _callees(function, symbol):
        of_target = mean_run(found, target, depth + 1)
        instructions += calls * of_target[0]
        locked += calls * of_target[1]
    return instructions / function.runs, locked / function.runs


def cost_of(found: Mapping[str, Function], wanted: Iterable[str] = ()) -> Cost:
    """What the programs took, and the way to them.  wanted: of these programs' symbols alone; else of all."""
    chosen = frozenset(wanted)
    programs: dict[str, list[Function]] = {}
    helpers = helpers_locked = 0.0
    for symbol, function in found.items():
        name = program_name(symbol)
        if name is None or (chosen and symbol not in chosen):
            continue
        programs.setdefault(name, []).append(function)
        for target, calls in _callees(function, symbol):
            instructions, locked = mean_run(found, target)
            helpers += calls * instructions
            helpers_locked += calls * locked
    shown = []
    for name, parts in programs.items():
        runs = sum(part.runs for part in parts)
        clocks = sum(part.calls.get(CLOCK, 0) for part in parts)
        if runs:
            executed = sum(part.instructions for part in parts), sum(part.locked for part in parts)
            shown.append(Program(name, runs, executed[0] / runs, executed[1] / runs, clocks / runs))
    way = sum(mean_run(found, symbol)[0] * found[symbol].runs for symbol in found if TURN_OFF.match(symbol))
    everything = [part for parts in programs.values() for part in parts]
    return Cost(
        tuple(sorted(shown, key=lambda program: -program.runs * program.instructions)),
        sum(part.instructions for part in everything),
        round(helpers),
        round(way),
        sum(part.locked for part in everything) + round(helpers_locked),
        sum(part.calls.get(CLOCK, 0) for part in everything),
    )


@dataclass(frozen=True)
class Answers:
    """By which requests are counted: a function of the kernel that runs equally often for each.

    few, many: phases of two loads, of which the second has so many requests more.
    """

    function: str
    symbols: Symbols
    few: Phase
    many: Phase
    more: int

    def runs(self, phase: Phase) -> int:
        """Of the function in a phase."""
        begins = [block for block in phase.blocks if self.symbols.at(block.address) == (self.function, 0)]
        return sum(block.runs for block in begins)

    def requests(self, phase: Phase) -> float:
        """Answered in a phase.  ValueError: the function does not run for a request."""
        for_them = self.runs(self.many) - self.runs(self.few)
        if for_them < self.more / 2:
            raise ValueError(f"{self.function} ran {for_them} times for {self.more} requests")
        return self.runs(phase) * self.more / for_them


def phases_by_name(lines: Iterable[str], phases: Mapping[int, Phase]) -> dict[tuple[int, str], list[Phase]]:
    """By a tool's number and what it was, in the order in which they were counted.

    lines: number of a phase, and ROUND.TOOL.KIND, as scripts/bench-guest has guests write; others are passed over.
    """
    found: dict[tuple[int, str], list[Phase]] = {}
    for line in lines:
        number, name = line.split()
        parts = name.split(".")
        if len(parts) == len(("round", "tool", "kind")):
            found.setdefault((int(parts[1]), parts[2]), []).append(phases[int(number)])
    return found


def ratios_of_rounds(without: Sequence[float], with_it: Sequence[float]) -> list[float]:
    """Of rounds of four windows each: one without a tool, two with it, one without.

    What grows evenly meanwhile, as a database's tables do, is in both sides alike.
    """
    return [
        math.sqrt(with_it[at] * with_it[at + 1] / (without[at] * without[at + 1]))
        for at in range(0, len(without) - 1, 2)
    ]


def cpu_part(lines: Iterable[str], tool: int, cpus: int) -> float:
    """The part of the CPU time of all CPUs that a tool's processes used, as the median of its recordings.

    lines: number of the tool, then their CPU time in ns and the time in s, at the begin and at the end.
    """
    parts = []
    for line in lines:
        number, cpu_ns, begin_s, cpu_end_ns, end_s = line.split()
        if int(number) == tool:
            parts.append((int(cpu_end_ns) - int(cpu_ns)) * 1e-9 / (cpus * (float(end_s) - float(begin_s))))
    return statistics.median(parts)
