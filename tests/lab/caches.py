# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs of a few threads, run through a model of caches: MESI, sockets, pairs of adjacent lines.

Time is in cycles.  A core has one thread at a time, and more threads than cores take turns; a load waits for its line,
a plain store does not; a line goes to one core after the other.  Caches are never full: lines move because they are
shared, and for no other reason.
"""

import heapq
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

# upgrade: a store to a line whose data are here; the other copies have to go.
Served = Literal["L1", "upgrade", "fill buffer", "LLC", "remote hit", "local HITM", "remote HITM", "DRAM"]
MOVES = ("LLC", "remote hit", "local HITM", "remote HITM")
# acquire: loads until it is free, then an atomic instruction takes it; enter: the last load takes it (a ticket's turn).
Kind = Literal["load", "store", "atomic", "acquire", "enter", "release"]
# cpu: the slot of the CPU that the thread runs on.
Who = Literal["one", "own", "any", "cpu"]

LATENCY: Mapping[Served, int] = {
    "L1": 5,
    "upgrade": 60,
    "fill buffer": 45,
    "LLC": 45,
    "remote hit": 200,
    "local HITM": 90,
    "remote HITM": 260,
    "DRAM": 180,
}
# Of a plain store, what the store buffer does not hide.
STORE_SHARE = 0.2
# A thread that shares its CPU runs for so many cycles before the next one.
QUANTUM = 4000.0


@dataclass(frozen=True)
class Machine:
    """CPUs in sockets; adjacent: a miss fetches the other half of its 128 bytes for itself too."""

    cpus: int
    sockets: int = 1
    adjacent: bool = False

    def socket(self, cpu: int) -> int:
        """The socket of a CPU: consecutive CPUs share one."""
        return cpu * self.sockets // self.cpus


@dataclass(frozen=True, eq=False)
class Variable:
    """Bytes of a line; line counts from 0.  Each is itself alone: two of one name are two variables.

    beside: another word of the lock on its line, as its owner: no padding parts the two; which: of several locks there,
    0 if it is the only one.  The same instructions work on all of these.
    """

    name: str
    line: int
    offset: int
    lock: bool = False
    beside: bool = False
    which: int = 0


@dataclass(frozen=True)
class Step:
    """One access of a function: to one variable, to the thread's own of several, or to any of them.

    slow: of a lock whose fast path is built into its users: the function that waits, and takes it after that.
    """

    kind: Kind
    function: str
    variables: tuple[Variable, ...]
    who: Who = "one"
    chance: float = 1.0
    slow: str = ""


@dataclass(frozen=True)
class Role:
    """Threads that do the same: one of the choices each time, then work for so many cycles."""

    threads: int
    choices: tuple[tuple[Step, ...], ...]
    work: int = 60
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class Program:
    """What runs.  moves: chance that a thread goes to another's CPU after an iteration."""

    name: str
    roles: tuple[Role, ...]
    kernel: bool = False
    moves: float = 0.0
    comm: str = "worker"

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Every variable, once."""
        steps = [step for role in self.roles for choice in role.choices for step in choice]
        return tuple(dict.fromkeys(variable for step in steps for variable in step.variables))

    @property
    def threads(self) -> int:
        """The number of threads."""
        return sum(role.threads for role in self.roles)


class Event(NamedTuple):
    """One access: which thread, from where in which function, to what, and who served it."""

    thread: int
    cpu: int
    function: str
    kind: str  # load | store | atomic
    variable: Variable
    served: Served
    latency: int


@dataclass
class Run:
    """What happened.  uses, moves: of each variable, accesses, and those for which another core sent the line."""

    events: list[Event] = field(default_factory=list)
    uses: dict[Variable, int] = field(default_factory=dict)
    moves: dict[Variable, int] = field(default_factory=dict)


@dataclass
class _Line:
    owner: int = -1  # core that has it modified or exclusive
    dirty: bool = False
    sharers: set[int] = field(default_factory=set)
    free_at: float = 0.0
    arrives: dict[int, float] = field(default_factory=dict)


class Caches:
    """The lines of all cores."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.lines: dict[int, _Line] = {}

    def _from(self, line: _Line, cpu: int) -> Served:
        socket = self.machine.socket
        if line.owner >= 0 and line.owner != cpu:
            near = socket(line.owner) == socket(cpu)
            if line.dirty:
                return "local HITM" if near else "remote HITM"
            return "LLC" if near else "remote hit"
        if line.sharers:
            return "LLC" if any(socket(core) == socket(cpu) for core in line.sharers) else "remote hit"
        return "DRAM"

    def access(self, number: int, cpu: int, write: bool, now: float) -> tuple[Served, float]:
        """Who serves it, and when the data are there."""
        line = self.lines.setdefault(number, _Line())
        mine = line.owner == cpu or cpu in line.sharers
        if mine and (line.owner == cpu or not write):
            arrives = line.arrives.get(cpu, 0.0)
            if write:
                line.dirty = True
            return ("fill buffer", arrives) if arrives > now else ("L1", now + LATENCY["L1"])
        served = self._from(line, cpu)
        if mine:
            served = "upgrade"
        ready = max(now, line.free_at) + LATENCY[served]
        line.free_at = ready
        self._take(line, cpu, write)
        line.arrives = {cpu: ready} if write else {**line.arrives, cpu: ready}
        if self.machine.adjacent:
            self._fetch_pair(number ^ 1, cpu, write, ready)
        return served, ready

    @staticmethod
    def _take(line: _Line, cpu: int, write: bool) -> None:
        if write:
            line.owner, line.dirty, line.sharers = cpu, True, set()
            return
        if line.owner >= 0:
            line.sharers.add(line.owner)
            line.owner = -1
        line.dirty = False
        line.sharers.add(cpu)
        if line.sharers == {cpu}:
            line.owner, line.sharers = cpu, set()

    def _fetch_pair(self, number: int, cpu: int, write: bool, ready: float) -> None:
        """The other half comes along: for writing, if that was wanted."""
        line = self.lines.setdefault(number, _Line())
        if line.owner == cpu or (cpu in line.sharers and not write):
            return
        self._take(line, cpu, write)
        line.arrives[cpu] = ready


def placed(program: Program, apart: bool) -> dict[Variable, int]:
    """The line number of each variable; apart: each on a pair of lines of its own, the words of a lock on one."""
    if not apart:
        return {variable: variable.line for variable in program.variables}
    locks: dict[tuple[int, int], int] = {}
    places: dict[Variable, int] = {}
    for index, variable in enumerate(program.variables):
        own = 1000 + 2 * index
        if variable.lock or variable.beside:
            own = locks.setdefault((variable.line, variable.which), own)
        places[variable] = own
    return places


class _Thread:
    def __init__(self, role: Role, index: int, in_role: int, cpu: int) -> None:
        self.role, self.index, self.in_role, self.cpu = role, index, in_role, cpu
        self.steps: Sequence[Step] = ()
        self.at = 0
        # Whether it has waited at the step where it is.
        self.waits = False


class _Engine:
    def __init__(self, program: Program, machine: Machine, seed: int, apart: bool) -> None:
        self.program, self.machine = program, machine
        self.rng = random.Random(seed)
        self.caches = Caches(machine)
        self.places = placed(program, apart)
        self.run = Run(uses=dict.fromkeys(program.variables, 0), moves=dict.fromkeys(program.variables, 0))
        self.holders: dict[Variable, int] = {}
        cpus = list(range(machine.cpus))
        self.rng.shuffle(cpus)
        # Threads of each CPU; the first one runs.  awake: CPUs that have a time at which they go on.
        self.queues: list[list[_Thread]] = [[] for _ in cpus]
        self.awake: set[int] = set()
        index = 0
        for role in program.roles:
            for in_role in range(role.threads):
                cpu = cpus[index % machine.cpus]
                self.queues[cpu].append(_Thread(role, index, in_role, cpu))
                index += 1

    def _access(self, thread: _Thread, function: str, variable: Variable, kind: str, now: float) -> float:
        served, ready = self.caches.access(self.places[variable], thread.cpu, kind != "load", now)
        waited = ready - now
        run = self.run
        run.uses[variable] += 1
        if served in MOVES:
            run.moves[variable] += 1
        run.events.append(Event(thread.index, thread.cpu, function, kind, variable, served, int(waited)))
        if kind == "store" and served != "L1":
            return now + max(LATENCY["L1"], waited * STORE_SHARE)
        return ready

    def _variable(self, thread: _Thread, step: Step) -> Variable:
        if step.who == "one":
            return step.variables[0]
        if step.who == "any":
            return self.rng.choice(step.variables)
        return step.variables[(thread.in_role if step.who == "own" else thread.cpu) % len(step.variables)]

    def _next_steps(self, thread: _Thread) -> None:
        role = thread.role
        weights = role.weights or None
        chosen = role.choices[0] if len(role.choices) == 1 else self.rng.choices(role.choices, weights)[0]
        thread.steps = [step for step in chosen if step.chance >= 1 or self.rng.random() < step.chance]
        thread.at = 0

    def _migrate(self, thread: _Thread) -> int:
        """The thread goes to another CPU, and who runs there comes here; gives a CPU that was idle before, or -1."""
        cpu = self.rng.randrange(self.machine.cpus)
        here, there = self.queues[thread.cpu], self.queues[cpu]
        if cpu == thread.cpu:
            return -1
        here.remove(thread)
        # Who is in the midst of its work is left where it is.
        if there and there[0].at >= len(there[0].steps):
            other = there.pop(0)
            other.cpu = thread.cpu
            here.insert(0, other)
        thread.cpu = cpu
        there.append(thread)
        return -1 if cpu in self.awake else cpu

    def go(self, steps: int) -> Run:
        rng, queues, program = self.rng, self.queues, self.program
        heap = [(rng.random() * 100, cpu, 0.0) for cpu, threads in enumerate(queues) if threads]
        heapq.heapify(heap)
        self.awake = {cpu for _, cpu, _ in heap}
        while len(self.run.events) < steps:
            now, cpu, since = heapq.heappop(heap)
            if not queues[cpu]:
                self.awake.discard(cpu)
                continue
            thread = queues[cpu][0]
            if thread.at >= len(thread.steps):
                self._next_steps(thread)
                if program.moves and rng.random() < program.moves:
                    thread.at = len(thread.steps)
                    woken = self._migrate(thread)
                    thread.at = 0
                    if woken >= 0:
                        self.awake.add(woken)
                        heapq.heappush(heap, (now, woken, now))
                elif len(queues[cpu]) > 1 and now - since > QUANTUM:
                    queues[cpu].append(queues[cpu].pop(0))
                    since = now
                heapq.heappush(heap, (now + thread.role.work * (0.5 + rng.random()), cpu, since))
                continue
            heapq.heappush(heap, (self._step(thread, now) + 1 + rng.random() * 3, cpu, since))
        return self.run

    def _step(self, thread: _Thread, now: float) -> float:
        """The thread's next access; gives when it has its data."""
        step = thread.steps[thread.at]
        variable = self._variable(thread, step)
        kind: str = step.kind
        function = step.function
        if kind in ("acquire", "enter"):
            thread.waits = thread.waits or variable in self.holders
            function = step.slow if thread.waits and step.slow else function
            if variable in self.holders:
                # Waiters look at the word until it is free; who looks every cycle is sampled in a few of them.
                return self._access(thread, function, variable, "load", now) + 30
            self.holders[variable] = thread.index
            kind = "atomic" if kind == "acquire" else "load"
        elif kind == "release":
            self.holders.pop(variable, None)
            kind = "store"
        thread.at += 1
        thread.waits = False
        return self._access(thread, function, variable, kind, now)


def play(program: Program, machine: Machine, steps: int, seed: int, apart: bool = False) -> Run:
    """So many accesses of a program; apart: with each variable on lines of its own."""
    return _Engine(program, machine, seed, apart).go(steps)


def moves_of_lines(program: Program, run: Run, work: Run | None = None) -> dict[int, float]:
    """How often a line comes from another core, per access, by the line before anything is moved apart.

    work: the run whose accesses these are (default: the same one).  Who waits less does more in the same time: the
    moves of a variable are counted for as many accesses as it had there.
    """
    uses: dict[int, int] = {}
    moves: dict[int, float] = {}
    for variable in program.variables:
        count = (work or run).uses[variable]
        uses[variable.line] = uses.get(variable.line, 0) + count
        share = run.moves[variable] / max(1, run.uses[variable])
        moves[variable.line] = moves.get(variable.line, 0.0) + share * count
    return {line: moves[line] / max(1, uses[line]) for line in uses}
