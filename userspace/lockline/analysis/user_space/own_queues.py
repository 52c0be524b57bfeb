# SPDX-License-Identifier: GPL-2.0-or-later
"""Queues of a program's own making: whether those who wait at a condition wait for room, or for work.

The kernel sees the same in both: some wait, and others signal.  The functions' names tell which side waits: whoever
waits in push() until another one comes to the same queue's pop() waits for room.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from lockline.analysis.user_space.program_functions import heaviest_name, innermost_own, method_of
from lockline.analysis.user_space.user_evidence import HALF, MOST, Calls, Seen, circles, expects_2, share_from

# What to put into a queue is called, and what to take from it is called beside that.
_PAIRS = (
    *(("push", "pop"), ("put", "get"), ("put", "take"), ("offer", "poll"), ("offer", "take")),
    *(("enqueue", "dequeue"), ("produce", "consume")),
)
# Whoever does so takes something out, and by that makes room, whatever the other side is called.
_TAKES = ("pop", "take", "dequeue")
# Who waits in a function with such a word waits for something to take, or for all to be done.
_NO_PUTS = frozenset(
    (
        *(*_TAKES, "get", "poll", "consume", "receive", "recv", "next", "read", "acquire", "borrow", "lease", "lock"),
        *("wait", "await", "flush", "drain", "join", "sync", "close", "stop", "shutdown", "empty", "idle", "done"),
    )
)
# What a name may have behind that, of one side alone: which end, how many, how long.
_MANNERS = (
    *("all", "any", "back", "batch", "blocking", "bulk", "first", "for", "front", "head", "last", "left", "many", "n"),
    *("one", "right", "tail", "until", "wait"),
)
# Where threads wait for a condition, each at a word of its own: Java's two kinds, parking_lot's.
_CONDITIONS = ("ObjectMonitor::wait", "ConditionObject.await", "parking_lot::condvar::")
# Of a name: what a template is made for, a tag (of what returns a std::string), and the words that it is made of.
_TEMPLATE = re.compile(r"<[^<>]*>|\[abi:\w+\]")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def _plain(name: str) -> str:
    """Without templates, which may stand in one another, and tags."""
    while (shorter := _TEMPLATE.sub("", name)) != name:
        name = shorter
    return name


def _around(function: str, verb: str) -> tuple[str, tuple[str, ...]] | None:
    """What is before this verb in a function's name, with where it belongs, and what is put or taken; None without it.

    Of ring_push_job() "ring" and job: who waits in put() for get_ack() does not wait for room.
    """
    name = _plain(function)
    # A method of Java may have the type that it returns before it.
    scope, colons, last = method_of(name).rpartition("::")
    words = [word.lower() for word in _WORDS.findall(last)]
    if verb not in words:
        return None
    at = words.index(verb)
    before = f"{scope}{colons}{'_'.join(words[:at])}"
    return (before, tuple(word for word in words[at + 1 :] if word not in _MANNERS)) if before else None


def _makes_room(take: str, put: str) -> bool:
    """Whether who takes there makes room for who waits in the other function, of the same class or with its beginning.

    log() of a class waits for its take(); that of several may be for anything.
    """
    words = {word.lower() for word in _WORDS.findall(method_of(put).rpartition("::")[2])}
    parts = [found for verb in _TAKES if (found := _around(take, verb)) is not None and not found[1]]
    if not parts or not words or words & _NO_PUTS:
        return False
    scope, colons, before = parts[0][0].rpartition("::")
    of_put, colons_of_put, last = method_of(_plain(put)).rpartition("::")
    begins = "_".join(word.lower() for word in _WORDS.findall(last))
    return (of_put, colons_of_put) == (scope, colons) and (not before or begins.startswith(f"{before}_"))


def _functions(calls: Sequence[Calls], weight: Callable[[Calls], int]) -> Counter[str]:
    """The program's functions that these calls come from."""
    functions: Counter[str] = Counter()
    for call in calls:
        functions[innermost_own(call.frames)] += weight(call)
    return functions


def _mostly(functions: Counter[str]) -> str:
    """The one that four of five are of; '' if there is none."""
    name = heaviest_name(functions)
    return name if functions[name] >= MOST * functions.total() > 0 else ""


def _waits_in(words: Sequence[Seen]) -> str:
    return _mostly(_functions([call for entry in words for call in entry.waits], lambda call: call.wait_ns))


def _by_others(words: Sequence[Seen]) -> bool:
    """Whether those who wake are not those who wait: workers that take a job may wake the next worker for one more."""
    waiters = {call.task for entry in words for call in entry.waits}
    wakes = [(call.task in waiters, call.waits) for entry in words for call in entry.wakes]
    return sum(count for inside, count in wakes if not inside) >= MOST * sum(count for _, count in wakes) > 0


def puts_and_takes(words: Sequence[Seen]) -> tuple[str, str] | None:
    """The function in which threads wait here to put into a queue, and the one that takes; None: it is not so.

    Whoever puts may wake the next one that waits to put: if one condition serves both sides, or if all are woken, and
    each lets the next one have the lock.
    """
    put = _waits_in(words)
    wakes = _functions([call for entry in words for call in entry.wakes], lambda call: call.waits)
    del wakes[put]
    take = _mostly(wakes)
    same = any(_around(put, one) == _around(take, other) is not None for one, other in _PAIRS)
    return (put, take) if same or (_makes_room(take, put) and _by_others(words)) else None


def own_words_to_put(words: Iterable[Seen]) -> Iterable[list[Seen]]:
    """The words of threads that wait at a condition to put into something, each at its own: those of one queue."""
    found = [
        entry
        for entry in words
        if not expects_2(entry.total)
        and share_from(entry.waits, _CONDITIONS) >= HALF
        and any(_around(_waits_in((entry,)), put) for put, _ in _PAIRS)
    ]
    return circles(found)
