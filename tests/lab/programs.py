# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs whose lines suffer from something known: by what they are, and by what padding brings in the model."""

import random
from collections.abc import Callable, Sequence
from typing import Literal

from lab.caches import Program, Role, Step, Variable

Truth = Literal["false", "true", "lock", "both", "read mostly", "migrating", "adjacent", "quiet", "by model"]

_ROOTS = (
    *("update", "push", "scan", "poll", "drain", "account", "tick", "flush", "merge", "visit", "enqueue", "charge"),
    *("lookup", "refresh", "collect", "stamp", "bump", "peek", "commit", "advance", "record", "sweep"),
)
_THINGS = ("stats", "queue", "node", "table", "entry", "page", "cache", "slot", "session", "timer", "pool", "ring")


class Names:
    """Names of functions that no rule can know."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.used: set[str] = set()

    def function(self) -> str:
        """One that was not given out before."""
        while True:
            name = f"{self.rng.choice(_ROOTS)}_{self.rng.choice(_THINGS)}"
            if self.rng.random() < 0.2:
                name = f"{name}::{self.rng.choice(_ROOTS)}"
            if name not in self.used:
                self.used.add(name)
                return name


Maker = Callable[[random.Random, Names, int], tuple[Sequence[Role], Truth]]


def _offsets(rng: random.Random, count: int, size: int = 8) -> list[int]:
    return sorted(rng.sample(range(0, 64, size), count))


def _threads(rng: random.Random) -> int:
    return rng.choice((2, 3, 4, 4, 6, 8))


def add(function: str, variables: tuple[Variable, ...], who: Literal["one", "own", "any"], atomic: bool) -> list[Step]:
    """The steps of variable++: a load and a store, or one atomic instruction."""
    if atomic:
        return [Step("atomic", function, variables, who)]
    return [Step("load", function, variables, who), Step("store", function, variables, who)]


def own_slots(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Each thread has a slot of an array; all of them run one function."""
    threads = min(8, _threads(rng))
    slots = tuple(Variable(f"slot{n}", line, offset) for n, offset in enumerate(_offsets(rng, threads)))
    steps = add(names.function(), slots, "own", rng.random() < 0.3)
    return [Role(threads, (tuple(steps),), rng.choice((10, 60, 200)))], "false"


def shared_counter(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """One counter that all threads add to, from one function or from several."""
    counter = (Variable("counter", line, rng.choice(_offsets(rng, 4))),)
    atomic = rng.random() < 0.6
    choices = tuple(tuple(add(names.function(), counter, "one", atomic)) for _ in range(rng.choice((1, 1, 2, 3))))
    return [Role(_threads(rng), choices, rng.choice((10, 60, 200)))], "true"


def any_slot(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """A histogram: each thread adds to any slot, by one function; every slot is everybody's."""
    slots = tuple(Variable(f"bin{n}", line, offset) for n, offset in enumerate(_offsets(rng, rng.choice((2, 3, 4)))))
    steps = tuple(add(names.function(), slots, "any", rng.random() < 0.5))
    return [Role(_threads(rng), (steps,), rng.choice((10, 60, 200)))], "true"


def reader_and_writer(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Threads that read a field, and other threads that write another one."""
    read, written = _offsets(rng, 2)
    if rng.random() < 0.5:
        read, written = written, read
    config, count = (Variable("config", line, read),), (Variable("count", line, written),)
    reader = names.function()
    writer = reader if rng.random() < 0.2 else names.function()
    stores = [Step("store", writer, count)] if rng.random() < 0.5 else add(writer, count, "one", rng.random() < 0.5)
    readers = [Step("load", reader, config) for _ in range(rng.choice((1, 2, 4)))]
    return [
        Role(_threads(rng), (tuple(readers),), rng.choice((5, 30, 100))),
        Role(rng.choice((1, 1, 1, 2, 3)), (tuple(stores),), rng.choice((10, 60, 200))),
    ], "false"


def read_then_count(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Every thread reads a field, and then adds to a counter beside it: parts of one operation."""
    read, written = _offsets(rng, 2)
    if rng.random() < 0.5:
        read, written = written, read
    config, count = (Variable("limit", line, read),), (Variable("used", line, written),)
    first = names.function()
    second = first if rng.random() < 0.6 else names.function()
    steps = [Step("load", first, config), *add(second, count, "one", rng.random() < 0.6)]
    return [Role(_threads(rng), (tuple(steps),), rng.choice((10, 60, 200)))], "true"


def two_counters(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Two counters, each of threads of its own."""
    a, b = _offsets(rng, 2)
    first, second = (Variable("rx", line, a),), (Variable("tx", line, b),)
    one = names.function()
    other = one if rng.random() < 0.15 else names.function()
    atomic = rng.random() < 0.4
    threads = rng.choice((1, 1, 2, 4))
    return [
        Role(threads, (tuple(add(one, first, "one", atomic)),), rng.choice((10, 60))),
        Role(threads, (tuple(add(other, second, "one", atomic)),), rng.choice((10, 60))),
    ], "false"


def counters_together(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Two counters that every thread adds to in one go."""
    a, b = _offsets(rng, 2)
    first, second = (Variable("packets", line, a),), (Variable("bytes", line, b),)
    atomic = rng.random() < 0.4
    function = names.function()
    steps = (*add(function, first, "one", atomic), *add(function, second, "one", atomic))
    return [Role(_threads(rng), (steps,), rng.choice((10, 60, 200)))], "true"


def counters_of_all(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Two counters with a function each, and every thread runs both functions."""
    a, b = _offsets(rng, 2)
    first, second = (Variable("hits", line, a),), (Variable("misses", line, b),)
    atomic = rng.random() < 0.5
    choices = (
        tuple(add(names.function(), first, "one", atomic)),
        tuple(add(names.function(), second, "one", atomic)),
    )
    return [Role(_threads(rng), choices, rng.choice((10, 60, 200)), (0.5, 0.5))], "true"


def queue_ends(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """A ring with one producer and one consumer: each writes its end, and reads the other's now and then."""
    a, b = _offsets(rng, 2)
    head, tail = (Variable("head", line, a),), (Variable("tail", line, b),)
    put, get = names.function(), names.function()
    seldom = rng.choice((0.05, 0.3, 1.0))
    return [
        Role(1, ((*add(put, head, "one", False), Step("load", put, tail, "one", seldom)),), rng.choice((20, 80))),
        Role(1, ((*add(get, tail, "one", False), Step("load", get, head, "one", seldom)),), rng.choice((20, 80))),
    ], "false"


def lock_word(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """A lock alone on its line."""
    return _locked(rng, names, line, ())


def lock_and_data(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """A lock, and beside it what its holder works on."""
    where = 0
    data = [offset for offset in _offsets(rng, rng.choice((1, 2, 3))) if offset != where] or [32]
    return _locked(rng, names, line, tuple(Variable(f"field{n}", line, offset) for n, offset in enumerate(data)))


def _locked(rng: random.Random, names: Names, line: int, data: tuple[Variable, ...]) -> tuple[Sequence[Role], Truth]:
    word = (Variable("lock", line, 0, lock=True),)
    take, free, holder = f"{names.function()}", f"{names.function()}", names.function()
    if rng.random() < 0.7:
        take, free = "native_queued_spin_lock_slowpath", "_raw_spin_unlock"
    elif rng.random() < 0.5:
        free = take
    inside = [step for variable in data for step in add(holder, (variable,), "one", False)]
    steps = (Step("acquire", take, word), *inside, Step("release", free, word))
    return [Role(rng.choice((3, 4, 6, 8)), (steps,), rng.choice((20, 100, 300)))], "both" if data else "lock"


# A sleeping lock's functions: who takes it, who releases it, who spins for as long as its owner runs.
_SLEEPING = (
    ("down_write", "up_write", "rwsem_spin_on_owner"),
    ("__mutex_lock", "mutex_unlock", "mutex_spin_on_owner"),
    ("pthread_mutex_lock", "pthread_mutex_unlock", "pthread_mutex_lock"),
)


def sleeping_lock(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """A lock of two words, its count and its owner, which waiters watch; perhaps with the holder's data beside it."""
    count, owner = (Variable("count", line, 0, lock=True),), (Variable("owner", line, 8, beside=True),)
    take, free, spin = rng.choice(_SLEEPING)
    holder = names.function()
    data = [
        step
        for number in range(rng.choice((0, 0, 1, 2)))
        for step in add(holder, (Variable(f"field{number}", line, 40 + 8 * number),), "one", False)
    ]
    steps = (
        *(Step("load", spin, owner) for _ in range(rng.choice((1, 2, 4)))),
        Step("acquire", take, count),
        Step("store", take, owner),
        *data,
        Step("store", free, owner),
        Step("release", free, count),
    )
    return [Role(rng.choice((3, 4, 6, 8)), (steps,), rng.choice((20, 100, 300)))], "both" if data else "lock"


def read_mostly(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Read by all, written once in a long time."""
    config = (Variable("config", line, rng.choice(_offsets(rng, 3))),)
    reader, writer = names.function(), names.function()
    return [
        Role(_threads(rng), ((Step("load", reader, config),),), 30),
        Role(1, ((Step("load", reader, config), Step("store", writer, config, "one", rng.choice((0.002, 0.0)))),), 30),
    ], "read mostly"


def migrating(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """One thread's own counter; the thread goes from CPU to CPU."""
    counter = (Variable("private", line, rng.choice(_offsets(rng, 3))),)
    return [Role(1, (tuple(add(names.function(), counter, "one", False)),), 30)], "migrating"


def read_fields_of_one_writer(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """One field that a thread writes and others read: a flag or a clock."""
    clock = (Variable("now", line, rng.choice(_offsets(rng, 3))),)
    reader, writer = names.function(), names.function()
    return [
        Role(_threads(rng), ((Step("load", reader, clock),),), rng.choice((20, 80))),
        Role(1, (tuple(add(writer, clock, "one", False)),), rng.choice((40, 100))),
    ], "true"


def count_or_read(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """A counter that every thread adds to, and fields that each of them reads at other times, by other functions."""
    first, *others = rng.sample(range(0, 64, 8), rng.choice((2, 3, 4)))
    count = (Variable("count", line, first),)
    choices = [tuple(add(names.function(), count, "one", rng.random() < 0.7))]
    if rng.random() < 0.4:
        choices.append((Step("load", names.function(), count),))
    reader = names.function()
    for number, offset in enumerate(others):
        choices.append((Step("load", reader, (Variable(f"field{number}", line, offset),)),))
        reader = reader if rng.random() < 0.3 else names.function()
    weights = tuple(rng.choice((0.1, 0.3, 1.0)) for _ in choices)
    return [Role(_threads(rng), tuple(choices), rng.choice((10, 60, 200)), weights)], "false"


def published_fields(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Fields that one thread writes together, and others read together: a sequence number and its data."""
    fields = [(Variable(f"field{n}", line, offset),) for n, offset in enumerate(_offsets(rng, rng.choice((2, 3))))]
    reader, writer = names.function(), names.function()
    return [
        Role(_threads(rng), (tuple(Step("load", reader, field) for field in fields),), rng.choice((20, 80))),
        Role(1, (tuple(step for field in fields for step in add(writer, field, "one", False)),), rng.choice((40, 100))),
    ], "true"


def mailbox(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Each worker polls a slot of its own, and clears it when a master has written to it; the master takes turns."""
    threads = rng.choice((2, 3, 4, 6))
    slots = tuple(Variable(f"slot{n}", line, offset) for n, offset in enumerate(_offsets(rng, threads)))
    poll, post = names.function(), names.function()
    seldom = rng.choice((0.02, 0.1, 0.5))
    return [
        Role(threads, ((Step("load", poll, slots, "own"), Step("store", poll, slots, "own", seldom)),), 20),
        Role(1, ((Step("store", post, slots, "any"),),), rng.choice((20, 100, 400))),
    ], "false"


def slots_and_collector(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Counters of threads, which another thread sums up now and then."""
    threads = min(7, _threads(rng))
    slots = tuple(Variable(f"slot{n}", line, offset) for n, offset in enumerate(_offsets(rng, threads)))
    collect = names.function()
    collector = tuple(Step("load", collect, (slot,)) for slot in slots)
    return [
        Role(threads, (tuple(add(names.function(), slots, "own", rng.random() < 0.4)),), rng.choice((10, 60))),
        Role(1, (collector,), rng.choice((200, 2000))),
    ], "false"


def count_with_limit(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """A count that all change, and a limit that the same functions read, at times without changing the count."""
    used, limit = _offsets(rng, 2)
    count, bound = (Variable("used", line, used),), (Variable("limit", line, limit),)
    charge, uncharge = names.function(), names.function()
    choices = (
        (*add(charge, count, "one", True), Step("load", charge, bound)),
        (*add(uncharge, count, "one", True), Step("load", uncharge, bound, "one", rng.choice((0.2, 1.0)))),
        (Step("load", charge, bound),),
    )
    return [Role(_threads(rng), choices, rng.choice((20, 100)), (1.0, 1.0, rng.choice((0.0, 0.5, 2.0))))], "true"


def lock_beside_readers(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """A lock, and beside it a field that others read without it."""
    word = (Variable("lock", line, 0, lock=True),)
    flags = (Variable("flags", line, 8 * rng.choice((1, 3, 6))),)
    steps = (
        Step("acquire", "native_queued_spin_lock_slowpath", word),
        Step("release", "_raw_spin_unlock", word),
    )
    return [
        Role(rng.choice((3, 4, 6)), (steps,), rng.choice((20, 100, 300))),
        Role(_threads(rng), ((Step("load", names.function(), flags),),), rng.choice((20, 80))),
    ], "both"


def ring_of_many(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """A ring with producers and consumers: each kind changes its own end atomically and reads the other one."""
    a, b = _offsets(rng, 2)
    head, tail = (Variable("head", line, a),), (Variable("tail", line, b),)
    put, get = names.function(), names.function()
    seldom = rng.choice((0.1, 1.0))
    return [
        Role(
            rng.choice((2, 3, 4)),
            ((Step("load", put, tail, "one", seldom), *add(put, head, "one", True)),),
            rng.choice((20, 80)),
        ),
        Role(
            rng.choice((2, 3, 4)),
            ((Step("load", get, head, "one", seldom), *add(get, tail, "one", True)),),
            rng.choice((20, 80)),
        ),
    ], "true"


def pair(rng: random.Random, names: Names, line: int) -> tuple[Sequence[Role], Truth]:
    """Two lines of one pair: some threads write the first, others read the second."""
    first = (Variable("hot", line & ~1, rng.choice(_offsets(rng, 2))),)
    second = (Variable("cold", line | 1, rng.choice(_offsets(rng, 2))),)
    return [
        Role(rng.choice((2, 3)), (tuple(add(names.function(), first, "one", False)),), 40),
        Role(_threads(rng), ((Step("load", names.function(), second),),), 40),
    ], "adjacent"


# Each of a program's parts has room for so many lines.
LINES = 4

MAKERS: dict[Maker, float] = {
    own_slots: 3,
    shared_counter: 2,
    any_slot: 1,
    reader_and_writer: 3,
    read_then_count: 1,
    two_counters: 2,
    counters_together: 1,
    counters_of_all: 0.7,
    queue_ends: 0.7,
    lock_word: 1.5,
    lock_and_data: 1.5,
    sleeping_lock: 1.5,
    read_mostly: 1,
    migrating: 0.7,
    read_fields_of_one_writer: 1,
    count_or_read: 2,
    published_fields: 0.7,
    mailbox: 1,
    slots_and_collector: 0.7,
    count_with_limit: 1,
    lock_beside_readers: 1,
    ring_of_many: 0.7,
    pair: 0.5,
}


def make_program(rng: random.Random) -> tuple[Program, dict[int, Truth], bool]:
    """A program of one to three of these, on lines of their own; what each line is; whether it wants pairs."""
    names = Names(rng)
    makers = rng.choices(list(MAKERS), list(MAKERS.values()), k=rng.choice((1, 1, 1, 2, 3)))
    roles: list[Role] = []
    truths: dict[int, Truth] = {}
    for index, maker in enumerate(makers):
        line = LINES * index + (rng.randrange(2) if maker is not pair else 0)
        made, truth = maker(rng, names, line)
        roles += made
        truths[line] = truth
        if maker is pair:
            truths[line] = "true"
            truths[line | 1] = "adjacent"
    moving = migrating in makers
    # Schedulers move busy threads seldom; on a loaded machine often.
    moves = rng.choice((0.02, 0.05)) if moving else rng.choice((0.0, 0.0, 0.0, 0.002, 0.01))
    program = Program(" + ".join(maker.__name__ for maker in makers), tuple(roles), rng.random() < 0.5, moves)
    return program, truths, pair in makers
