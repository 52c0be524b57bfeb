# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs with forms of sharing that real ones have: locks of many kinds, counts, rings, objects of an allocator.

Most are "by model": what padding brings in the model of caches decides which kind of sharing it is.
"""

import random
from collections.abc import Callable, Sequence

from lab.caches import Program, Role, Step, Variable
from lab.programs import Names, Truth, add

Many = tuple[Sequence[Role], dict[int, Truth]]
WideMaker = Callable[[random.Random, Names, int], Many]
_WORK = (10, 40, 100, 300, 1000)


def crowd(rng: random.Random, most: int = 64) -> int:
    """A number of threads: few mostly, many at times."""
    return min(most, rng.choice((2, 3, 4, 6, 8, 12, 16, 32, 64)))


def _word(name: str, line: int, offset: int, lock: bool = False, beside: bool = False) -> tuple[Variable, ...]:
    return (Variable(name, line, offset, lock, beside),)


def _inside(rng: random.Random, names: Names, line: int, places: Sequence[int]) -> list[Step]:
    """What a lock's holder works on, beside the lock."""
    holder = names.function()
    chosen = rng.sample(list(places), min(len(places), rng.choice((0, 0, 1, 2, 3))))
    return [step for at in sorted(chosen) for step in add(holder, _word(f"field{at}", line, at), "one", False)]


def rw_semaphore(rng: random.Random, names: Names, line: int) -> Many:
    """An rwsem: readers count themselves in and out, writers take it; the owner is watched by who spins."""
    count, owner = _word("count", line, 0, True), _word("owner", line, 8, beside=True)
    data = _inside(rng, names, line, (40, 48, 56))
    read = (
        Step("atomic", "down_read", count),
        *(Step("load", step.function, step.variables) for step in data[:1]),
        Step("atomic", "up_read", count),
    )
    write = (
        *(Step("load", "rwsem_spin_on_owner", owner) for _ in range(rng.choice((1, 3)))),
        Step("acquire", "down_write", count),
        Step("store", "down_write", owner),
        *data,
        Step("store", "up_write", owner),
        Step("release", "up_write", count),
    )
    work = rng.choice(_WORK)
    roles = [Role(crowd(rng, 16), (read, write), work, (rng.choice((0.0, 1.0, 5.0)), 1.0))]
    return roles, {line: "both" if data else "lock"}


def rw_spinlock(rng: random.Random, names: Names, line: int) -> Many:
    """A qrwlock: readers add to its word, writers take it."""
    word, wait = _word("cnts", line, 0, True), _word("wait_lock", line, 4, beside=True)
    data = _inside(rng, names, line, (16, 24, 32))
    read = (
        Step("atomic", "queued_read_lock_slowpath", word),
        *(Step("load", step.function, step.variables) for step in data[:1]),
        Step("atomic", "_raw_read_unlock", word),
    )
    write = (
        Step("atomic", "queued_write_lock_slowpath", wait),
        Step("acquire", "queued_write_lock_slowpath", word),
        *data,
        Step("release", "_raw_write_unlock", word),
        Step("store", "queued_write_lock_slowpath", wait),
    )
    roles = [Role(crowd(rng, 16), (read, write), rng.choice(_WORK), (rng.choice((1.0, 5.0, 30.0)), 1.0))]
    return roles, {line: "both" if data else "lock"}


def sequence_count(rng: random.Random, names: Names, line: int) -> Many:
    """A sequence number, and the data that it protects: readers read all of it, a writer changes all of it."""
    seq = _word("sequence", line, 0)
    data = [_word(f"field{n}", line, 8 + 8 * n) for n in range(rng.choice((1, 2, 4)))]
    reader, writer = names.function(), names.function()
    read = (Step("load", reader, seq), *(Step("load", reader, one) for one in data), Step("load", reader, seq))
    bump = add(writer, seq, "one", False)
    write = (*bump, *(Step("store", writer, one) for one in data), *bump)
    return [Role(crowd(rng, 32), (read,), rng.choice(_WORK)), Role(1, (write,), rng.choice(_WORK))], {line: "by model"}


# A lock's function that waits, where compilers build the rest of the lock into its users: Go, Rust, jemalloc, glibc,
# PostgreSQL; and the one that wakes a waiter, if it is another one.
_SLOW = (
    ("sync.(*Mutex).lockSlow", "sync.(*Mutex).unlockSlow"),
    ("parking_lot::raw_mutex::RawMutex::lock_slow", "parking_lot::raw_mutex::RawMutex::unlock_slow"),
    ("je_malloc_mutex_lock_slow", ""),
    ("__lll_lock_wait_private", "__lll_lock_wake_private"),
    ("s_lock", ""),
)


def built_in_lock(rng: random.Random, names: Names, line: int) -> Many:
    """A lock that its users take themselves where it is free, by one instruction; who has to wait calls a function."""
    wait, wake = rng.choice(_SLOW)
    word = _word("state", line, 0, True)
    data = _inside(rng, names, line, (8, 16, 24, 40))
    # The lock's user works on the data itself, or calls who does.
    users = [data[0].function if data and rng.random() < 0.7 else names.function()]
    users += [names.function() for _ in range(rng.choice((0, 0, 1, 2)))]
    choices = [
        (
            Step("acquire", user, word, slow=wait),
            *data,
            *([Step("load", wake, word, chance=rng.choice((0.0, 0.1, 0.5)))] if wake else []),
            Step("release", user, word),
        )
        for user in users
    ]
    return [Role(crowd(rng, 32), tuple(choices), rng.choice(_WORK))], {line: "both" if data else "lock"}


def lock_and_count(rng: random.Random, names: Names, line: int) -> Many:
    """A lockref: a spinlock and a count in eight bytes, changed together by cmpxchg, or with the lock taken."""
    lock, count = _word("lock", line, 0, True), _word("count", line, 4, beside=True)
    get, put = "lockref_get", "lockref_put_return"
    slow = (
        Step("acquire", "native_queued_spin_lock_slowpath", lock),
        *add(get, count, "one", False),
        Step("release", "_raw_spin_unlock", lock),
    )
    fast = (Step("load", get, lock), Step("atomic", get, lock), Step("load", put, lock), Step("atomic", put, lock))
    beside = []
    if rng.random() < 0.5:
        beside = [
            Role(crowd(rng, 8), ((Step("load", names.function(), _word("flags", line, 32)),),), rng.choice(_WORK))
        ]
    roles = [Role(crowd(rng, 16), (fast, slow), rng.choice(_WORK), (1.0, rng.choice((0.1, 1.0)))), *beside]
    return roles, {line: "both" if beside else "lock"}


def counts_under_lock(rng: random.Random, names: Names, line: int) -> Many:
    """A lock, and counts that its holders change and others read without it: a run queue, a node of a tree of them."""
    word = _word("lock", line, 0, True)
    places = sorted(rng.sample((4, 8, 16, 24, 32, 48), rng.choice((1, 1, 2, 3))))
    counts = [_word(f"count{at}", line, at) for at in places]
    take, free = "native_queued_spin_lock_slowpath", rng.choice(("_raw_spin_unlock", "_raw_spin_unlock_irqrestore"))
    change, look = names.function(), names.function()
    seldom = rng.choice((1.0, 1.0, 0.3, 0.05))
    inside = [
        step
        for one in counts
        for step in (Step("load", change, one, "one", seldom), Step("store", change, one, "one", seldom))
    ]
    held = (Step("acquire", take, word), *inside, Step("release", free, word))
    scan = tuple(Step("load", look, one) for one in counts[: rng.choice((1, 3))])
    often = rng.choice((0.3, 1.0, 5.0, 20.0))
    work = rng.choice(_WORK)
    if rng.random() < 0.5:
        return [Role(crowd(rng, 32), (held, scan), work, (1.0, often))], {line: "both"}
    return [Role(crowd(rng, 16), (held,), work), Role(crowd(rng, 16), (scan,), rng.choice(_WORK))], {line: "both"}


def ticket_lock(rng: random.Random, names: Names, line: int) -> Many:
    """A ticket lock of the program's own: a counter of tickets, and the number that is served."""
    apart = rng.choice((2, 4, 8))
    tickets, serving = _word("next", line, 0, beside=True), _word("serving", line, apart, True)
    take = names.function()
    free = take if rng.random() < 0.3 else names.function()
    data = _inside(rng, names, line, (24, 32, 48))
    steps = (
        Step("atomic", take, tickets),
        Step("enter", take, serving),
        *data,
        Step("release", free, serving),
    )
    return [Role(crowd(rng, 16), (steps,), rng.choice(_WORK))], {line: "both"}


def queued_lock(rng: random.Random, names: Names, line: int) -> Many:
    """An MCS lock: a tail that all exchange, and a node for each thread; the nodes are too close together, or not."""
    threads = rng.choice((2, 3, 4, 6, 8))
    tail = _word("tail", line, 0, True)
    size = rng.choice((16, 64))
    nodes = tuple(Variable(f"node{n}", line + 1 + n * size // 64, n * size % 64) for n in range(threads))
    take, free = names.function(), names.function()
    steps = (
        Step("store", take, nodes, "own"),
        Step("acquire", take, tail),
        Step("load", take, nodes, "own"),
        Step("store", take, nodes, "any"),
        Step("load", free, nodes, "own"),
        Step("release", free, tail),
    )
    lines = {variable.line for variable in nodes}
    truths: dict[int, Truth] = dict.fromkeys(lines, "by model")
    return [Role(threads, (steps,), rng.choice(_WORK))], {line: "lock", **truths}


# Locks of which two fit on a line: who takes a free one, who waits, who lets go; bytes to the next one, to the owner.
_SMALL = (
    ("_raw_spin_lock", "native_queued_spin_lock_slowpath", "_raw_spin_unlock", (4, 8, 16, 32), 0),
    ("pthread_spin_lock", "", "pthread_spin_unlock", (4, 8, 16, 32), 0),
    ("rte_spinlock_lock", "", "rte_spinlock_unlock", (4, 8, 32), 0),
    ("", "sync.(*Mutex).lockSlow", "", (8, 16, 24), 0),
    ("mutex_lock", "__mutex_lock", "mutex_unlock", (32,), 8),
    ("pthread_mutex_lock", "__lll_lock_wait", "pthread_mutex_unlock", (40,), 8),
)


def two_locks(rng: random.Random, names: Names, line: int) -> Many:
    """Two locks side by side, as of neighbours in an array: of own users, or the same threads take both."""
    take, wait, free, apart, owner = rng.choice(_SMALL)
    if not take:
        take = free = names.function()
    far = rng.choice(apart)
    choices = []
    for which, at in enumerate((0, far), 1):
        word = (Variable("word", line, at, True, which=which),)
        held = (Variable("owner", line, at + owner, beside=True, which=which),)
        inside = (Step("store", take, held), Step("store", free, held)) if owner else ()
        choices.append((Step("acquire", take, word, slow=wait), *inside, Step("release", free, word)))
    work = rng.choice(_WORK)
    if rng.random() < 0.4:
        return [Role(crowd(rng, 32), tuple(choices), work)], {line: "lock"}
    each = rng.choice((1, 1, 2, 4, 8))
    return [Role(each, (choice,), work) for choice in choices], {line: "lock"}


def locked_objects(rng: random.Random, names: Names, line: int) -> Many:
    """Two objects on a line, each a lock and what it protects, as buckets of a table: of own users, or of all."""
    take, wait, free, _, _ = rng.choice(_SMALL[:4])
    holder = names.function()
    if not take:
        take = free = holder
    fields = rng.choice((1, 2))
    choices = []
    for which, at in enumerate((0, 32), 1):
        word = (Variable("word", line, at, True, which=which),)
        data = [(Variable(f"data{n}", line, at + 8 + 8 * n, beside=True, which=which),) for n in range(fields)]
        inside = [step for one in data for step in add(holder, one, "one", False)]
        choices.append((Step("acquire", take, word, slow=wait), *inside, Step("release", free, word)))
    work = rng.choice(_WORK)
    if rng.random() < 0.4:
        return [Role(crowd(rng, 32), tuple(choices), work)], {line: "both"}
    each = rng.choice((1, 1, 2, 4, 8))
    return [Role(each, (choice,), work) for choice in choices], {line: "both"}


def lock_beside_writer(rng: random.Random, names: Names, line: int) -> Many:
    """A lock, of one user or of many, and beside it a field that others change without it."""
    take, wait, free, _, _ = rng.choice(_SMALL[:4])
    if not take:
        take = free = names.function()
    word = _word("word", line, 0, True)
    field, change = _word("field", line, rng.choice((8, 24, 40, 56))), names.function()
    writes = [Step("store", change, field)] if rng.random() < 0.5 else add(change, field, "one", rng.random() < 0.5)
    steps = (Step("acquire", take, word, slow=wait), Step("release", free, word))
    return [
        Role(rng.choice((1, 1, 2, 4, 8)), (steps,), rng.choice(_WORK)),
        Role(rng.choice((1, 1, 2, 4)), (tuple(writes),), rng.choice(_WORK)),
    ], {line: "both"}


def count_in_struct(rng: random.Random, names: Names, line: int) -> Many:
    """A reference count in a struct that is read for the most part: fields read with it, or far more often."""
    at = rng.choice((0, 8, 24, 56))
    count = _word("refs", line, at)
    fields = [_word(f"field{n}", line, off) for n, off in enumerate(range(0, 64, 8)) if off != at][
        : rng.choice((1, 3, 6))
    ]
    get, put, read = names.function(), names.function(), names.function()
    use = tuple(Step("load", read, one) for one in fields)
    hold = (Step("atomic", get, count), *use, Step("atomic", put, count))
    look = use
    often = rng.choice((0.0, 1.0, 10.0, 50.0))
    return [Role(crowd(rng), (hold, look), rng.choice(_WORK), (1.0, often))], {line: "by model"}


def per_cpu_slots(rng: random.Random, names: Names, line: int) -> Many:
    """An array with a slot for each CPU, packed; threads use the slot of the CPU that they run on."""
    size = rng.choice((4, 8, 16))
    slots = tuple(Variable(f"cpu{n}", line + n * size // 64, n * size % 64) for n in range(rng.choice((4, 8, 16))))
    steps = tuple(add(names.function(), slots, "cpu", rng.random() < 0.3))
    truths: dict[int, Truth] = {slot.line: "by model" for slot in slots}
    return [Role(crowd(rng, len(slots)), (steps,), rng.choice(_WORK))], truths


def published_pointer(rng: random.Random, names: Names, line: int) -> Many:
    """RCU: a pointer that all read and one changes now and then; beside it perhaps a count of the updates."""
    pointer, other = _word("pointer", line, rng.choice((0, 16, 40))), _word("updates", line, 56)
    reader, writer = names.function(), names.function()
    seldom = rng.choice((0.001, 0.01, 0.1, 1.0))
    steps = [Step("load", writer, pointer), Step("store", writer, pointer, "one", seldom)]
    if rng.random() < 0.5:
        steps += add(writer, other, "one", rng.random() < 0.5)
    roles = [Role(crowd(rng), ((Step("load", reader, pointer),),), rng.choice(_WORK))]
    return [*roles, Role(1, (tuple(steps),), rng.choice(_WORK))], {line: "by model"}


def work_stealing(rng: random.Random, names: Names, line: int) -> Many:
    """A deque: its owner pushes and pops at the bottom, thieves look at both ends and take from the top."""
    top, bottom = _word("top", line, 0), _word("bottom", line, rng.choice((8, 16, 32)))
    push, steal = names.function(), names.function()
    pop = push if rng.random() < 0.3 else names.function()
    own = (
        (*add(push, bottom, "one", False), Step("load", push, top, "one", 0.3)),
        (*add(pop, bottom, "one", False), Step("load", pop, top), Step("atomic", pop, top, "one", 0.1)),
    )
    thief = (
        Step("load", steal, top),
        Step("load", steal, bottom),
        Step("atomic", steal, top, "one", rng.choice((0.05, 0.5))),
    )
    thieves = Role(rng.choice((1, 2, 4, 7)), (thief,), rng.choice((100, 400, 2000)))
    return [Role(1, own, rng.choice((20, 60, 200))), thieves], {line: "by model"}


def statistics_block(rng: random.Random, names: Names, line: int) -> Many:
    """Counters in a block: each operation adds to some, and every thread does all operations, or has its own."""
    counters = [_word(f"counter{n}", line, 8 * n) for n in range(rng.choice((3, 5, 8)))]
    atomic = rng.random() < 0.5
    operations = []
    for _ in range(rng.choice((2, 3, 4))):
        function = names.function()
        touched = rng.sample(counters, rng.choice((1, 2, min(3, len(counters)))))
        operations.append(tuple(step for one in touched for step in add(function, one, "one", atomic)))
    work = rng.choice(_WORK)
    if rng.random() < 0.5:
        return [Role(crowd(rng), tuple(operations), work)], {line: "by model"}
    return [Role(rng.choice((1, 1, 2, 4)), (one,), work) for one in operations], {line: "by model"}


def flags_beside(rng: random.Random, names: Names, line: int) -> Many:
    """Flags in one word: each thread sets its own bit, or has a byte of its own, and polls others' or its own."""
    threads = rng.choice((2, 3, 4, 6, 8))
    at = rng.choice((0, 8, 24))
    if rng.random() < 0.5:
        word = _word("flags", line, at)
        setter = (Step("atomic", names.function(), word), Step("load", names.function(), word, "one", 0.5))
        return [Role(threads, (setter,), rng.choice(_WORK))], {line: "by model"}
    flags = tuple(Variable(f"flag{n}", line, at + n) for n in range(threads))
    test, change = names.function(), names.function()
    steps = (Step("load", test, flags, "own"), Step("store", change, flags, "own", rng.choice((0.1, 1.0))))
    return [Role(threads, (steps,), rng.choice(_WORK))], {line: "by model"}


def pair_of_own(rng: random.Random, names: Names, line: int) -> Many:
    """Two lines of one pair, each with a thread of its own that writes it; both halves travel together."""
    first, second = _word("left", line & ~1, 0), _word("right", line | 1, 0)
    function = names.function()
    other = function if rng.random() < 0.5 else names.function()
    roles = [
        Role(1, (tuple(add(function, first, "one", False)),), 40),
        Role(1, (tuple(add(other, second, "one", False)),), 40),
    ]
    return roles, {line & ~1: "adjacent", line | 1: "adjacent"}


def small_objects(rng: random.Random, names: Names, line: int) -> Many:
    """Objects of an allocator, smaller than a line or across two: each thread works on its own, by the same code."""
    size = rng.choice((16, 24, 32, 48, 80))
    threads = rng.choice((2, 3, 4, 6))
    fields = sorted(rng.sample(range(0, size, 8), min(size // 8, rng.choice((1, 2, 3)))))
    function = names.function()
    reader = function if rng.random() < 0.5 else names.function()
    steps: list[Step] = []
    lines: dict[int, Truth] = {}
    for number, field in enumerate(fields):
        objects = tuple(
            Variable(f"object{n}.{field}", line + (n * size + field) // 64, (n * size + field) % 64)
            for n in range(threads)
        )
        lines.update({one.line: "by model" for one in objects})
        if number and rng.random() < 0.5:
            steps.append(Step("load", reader, objects, "own"))
        else:
            steps += add(function, objects, "own", False)
    return [Role(threads, (tuple(steps),), rng.choice(_WORK))], lines


def big_array(rng: random.Random, names: Names, line: int) -> Many:
    """A slot for each of many threads: an array of several lines."""
    threads, size = rng.choice((8, 16, 24, 32)), rng.choice((8, 16, 32))
    slots = tuple(Variable(f"slot{n}", line + n * size // 64, n * size % 64) for n in range(threads))
    steps = tuple(add(names.function(), slots, "own", rng.random() < 0.3))
    truths: dict[int, Truth] = {slot.line: "by model" for slot in slots}
    return [Role(threads, (steps,), rng.choice(_WORK))], truths


def fields_of_a_struct(rng: random.Random, names: Names, line: int) -> Many:
    """Readers load some fields in a row, of which others write one: the first load pays, whatever field it is of."""
    places = sorted(rng.sample(range(0, 64, 8), rng.choice((2, 3, 4))))
    fields = [_word(f"field{at}", line, at) for at in places]
    reader, writer = names.function(), names.function()
    written = rng.choice(fields)
    read = fields if rng.random() < 0.7 else [one for one in fields if one is not written]
    loads = tuple(Step("load", reader, one, "one", rng.choice((1.0, 1.0, 0.3))) for one in read)
    steps = add(writer, written, "one", rng.random() < 0.4) if rng.random() < 0.5 else [Step("store", writer, written)]
    roles = [Role(crowd(rng, 32), (loads,), rng.choice(_WORK))]
    return [*roles, Role(rng.choice((1, 1, 2, 4)), (tuple(steps),), rng.choice(_WORK))], {line: "by model"}


def seldom_written(rng: random.Random, names: Names, line: int) -> Many:
    """Read by all, written now and then by one of them: whether that costs anything is a matter of how often."""
    config = _word("config", line, rng.choice((0, 8, 32)))
    other = _word("stamp", line, rng.choice((16, 48)))
    written = other if rng.random() < 0.5 else config
    reader, writer = names.function(), names.function()
    chance = rng.choice((0.0, 0.0003, 0.001, 0.003, 0.01, 0.03))
    readers = Role(crowd(rng, 16), ((Step("load", reader, config),),), rng.choice((10, 30, 100)))
    write = (Step("load", reader, config), Step("store", writer, written, "one", chance))
    return [readers, Role(1, (write,), rng.choice((10, 30, 100)))], {line: "by model"}


def first_in_first_out(rng: random.Random, names: Names, line: int) -> Many:
    """A ring of one producer and one consumer with its slots: ends in one line, each with a copy of the other one."""
    head, tail = _word("head", line, 0), _word("tail", line, rng.choice((8, 32)))
    seen_tail, seen_head = _word("seen_tail", line, 16), _word("seen_head", line, 48)
    slots = tuple(Variable(f"entry{n}", line + 1, 8 * n) for n in range(8))
    put, get = names.function(), names.function()
    often = rng.choice((0.05, 0.3, 1.0))
    produce = [
        Step("load", put, head), Step("load", put, seen_tail), Step("load", put, tail, "one", often),
        Step("store", put, seen_tail, "one", often), Step("store", put, slots, "any"), Step("store", put, head),
    ]  # fmt: skip
    consume = [
        Step("load", get, tail), Step("load", get, seen_head), Step("load", get, head, "one", often),
        Step("store", get, seen_head, "one", often), Step("load", get, slots, "any"), Step("store", get, tail),
    ]  # fmt: skip
    work = rng.choice((20, 80, 300))
    return [Role(1, (tuple(produce),), work), Role(1, (tuple(consume),), work)], {
        line: "by model",
        line + 1: "by model",
    }


def barrier(rng: random.Random, names: Names, line: int) -> Many:
    """A barrier: all count themselves in, and look at its phase until the last one changes it."""
    first, second = rng.sample(range(0, 64, 8), 2)
    count, phase = _word("count", line, first), _word("phase", line, second)
    arrive = names.function()
    wait = arrive if rng.random() < 0.5 else names.function()
    threads = crowd(rng, 32)
    last = 1 / threads
    polls = [Step("load", wait, phase) for _ in range(rng.choice((1, 4, 16)))]
    steps = (
        Step("atomic", arrive, count),
        Step("store", arrive, count, "one", last),
        Step("store", arrive, phase, "one", last),
        *polls,
    )
    return [Role(threads, (steps,), rng.choice(_WORK))], {line: "by model"}


# Each of a program's parts has room for so many lines.
WIDE_LINES = 32

WIDE: dict[WideMaker, float] = {
    rw_semaphore: 1,
    rw_spinlock: 1,
    sequence_count: 1,
    built_in_lock: 1.5,
    lock_and_count: 1,
    counts_under_lock: 1,
    ticket_lock: 1.5,
    queued_lock: 1,
    two_locks: 1,
    locked_objects: 1,
    lock_beside_writer: 1,
    count_in_struct: 1.5,
    per_cpu_slots: 1.5,
    published_pointer: 1.5,
    work_stealing: 1.5,
    statistics_block: 1.5,
    flags_beside: 1,
    pair_of_own: 0.5,
    small_objects: 2,
    big_array: 1,
    seldom_written: 2.5,
    fields_of_a_struct: 1,
    first_in_first_out: 1,
    barrier: 1,
}


def make_wide_program(rng: random.Random) -> tuple[Program, dict[int, Truth], bool]:
    """A program of one to four of these, on lines of their own; what each line is; whether it wants pairs."""
    names = Names(rng)
    makers = rng.choices(list(WIDE), list(WIDE.values()), k=rng.choice((1, 1, 2, 2, 3, 4)))
    roles: list[Role] = []
    truths: dict[int, Truth] = {}
    for index, maker in enumerate(makers):
        made, lines = maker(rng, names, WIDE_LINES * index + (0 if maker is pair_of_own else 2 * rng.randrange(2)))
        roles += made
        truths.update(lines)
    moves = rng.choice((0.0, 0.0, 0.002, 0.01, 0.05))
    pairs = pair_of_own in makers or rng.random() < 0.3
    program = Program(" + ".join(maker.__name__ for maker in makers), tuple(roles), rng.random() < 0.5, moves)
    return program, truths, pairs
