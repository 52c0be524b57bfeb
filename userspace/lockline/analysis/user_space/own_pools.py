# SPDX-License-Identifier: GPL-2.0-or-later
"""Pools by the names of their functions: whether threads that pass something on have a pool, or hand out jobs.

The kernel sees the same in both: they wait, and wake each other.  Who borrows gives back, and who gets something of a
pool does; nobody borrows a job.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from lockline.analysis.user_space.program_functions import heaviest_name, innermost_own, method_of, own_name
from lockline.analysis.user_space.user_evidence import MOST, Calls, Seen

# What takes something for a while, and what takes it of a pool, or a connection.
_BORROWS = ("acquire", "borrow", "checkout", "lease")
_TAKES = ("claim", "fetch", "get", "obtain", "poll", "pop", "request", "take")
_POOLS = ("pool", "pools")
_OF_POOL = (*_POOLS, "conn", "connection", "connections")
# What workers are brought, and where they are.
_JOBS = (
    *("event", "executor", "job", "jobs", "message", "task", "tasks"),
    *("thread", "threads", "work", "worker", "workers"),
)
# What a name may have before its verb.
_BEFORE = ("do", "internal", "try")
# A pool calls its own queue or bag, which waits: so far behind that the function is looked for.
_DEEP = 3
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_TEMPLATE = re.compile(r"<[^<>]*>")
_PARTS = re.compile(r"::|[.:/$]")


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def borrows(function: str) -> bool:
    """Whether a function is called as one that takes something for a while."""
    name = method_of(function.lstrip("<"))
    while (shorter := _TEMPLATE.sub("", name)) != name:
        name = shorter
    *scope, last = _PARTS.split(name.replace(">", ""))
    words, owner = _words(last), _words(scope[-1] if scope else "")
    if not {*words, *owner}.isdisjoint(_JOBS):
        return False
    # Who asks a connection for something waits for an answer.
    of_pool = not set(words).isdisjoint(_OF_POOL) or not set(owner).isdisjoint(_POOLS)
    verbs = [at for at, word in enumerate(words) if word not in (*_BEFORE, *_POOLS)]
    first = words[verbs[0] :] if verbs else []
    return bool(first) and (first[0] in _BORROWS or first[:2] == ["check", "out"] or (first[0] in _TAKES and of_pool))


def _function_of(call: Calls) -> str:
    """The innermost function of the program that borrows, else the innermost; '' if none is known."""
    own = [name for name in map(own_name, call.frames) if name][:_DEEP]
    return next(filter(borrows, own), own[0] if own else "")


def _of_workers(function: str) -> bool:
    return not set(_words(function)).isdisjoint(_JOBS)


def worked_in(words: Iterable[Seen]) -> str:
    """The function, called as one of workers, in which four of five waits of known ones are; '' if they are not."""
    return _mostly(words, lambda call: innermost_own(call.frames), _of_workers)


def borrowed_in(words: Iterable[Seen]) -> str:
    """The function in which threads wait for one of a pool, as four of five waits of known functions do; '' if not."""
    return _mostly(words, _function_of, borrows)


def _mostly(words: Iterable[Seen], function_of: Callable[[Calls], str], fits: Callable[[str], bool]) -> str:
    found: Counter[str] = Counter()
    for call in (call for entry in words for call in entry.waits):
        if function := function_of(call):
            found[function] += call.wait_ns
    fitting = Counter({name: ns for name, ns in found.items() if fits(name)})
    return heaviest_name(fitting) if fitting.total() >= MOST * found.total() > 0 else ""
