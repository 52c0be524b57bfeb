# SPDX-License-Identifier: GPL-2.0-or-later
"""Queues of a program's own making: whether those who wait at a condition wait for room, or for work.

The kernel sees the same in both: some wait, and others signal.  The functions' names tell which side waits: whoever
waits in push() until another one comes to the same queue's pop() waits for room.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from lockline.analysis.user_space.program_functions import heaviest_name, innermost_own, method_of
from lockline.analysis.user_space.user_evidence import MOST, Calls, Seen

# What to put into a queue is called, and what to take from it is called beside that.
_PAIRS = (
    *(("push", "pop"), ("put", "get"), ("put", "take"), ("offer", "poll"), ("offer", "take")),
    *(("enqueue", "dequeue"), ("produce", "consume")),
)
# What a name may have behind that, of one side alone: which end, how many, how long.
_MANNERS = (
    *("all", "any", "back", "batch", "blocking", "bulk", "first", "for", "front", "head", "last", "left", "many", "n"),
    *("one", "right", "tail", "until", "wait"),
)
# Of a name: what a template is made for, and the words that it is made of.
_TEMPLATE = re.compile(r"<[^<>]*>")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def _around(function: str, verb: str) -> tuple[str, tuple[str, ...]] | None:
    """What is before this verb in a function's name, with where it belongs, and what is put or taken; None without it.

    Of ring_push_job() "ring" and job: who waits in put() for get_ack() does not wait for room.
    """
    name = function
    while (shorter := _TEMPLATE.sub("", name)) != name:
        name = shorter
    # A method of Java may have the type that it returns before it.
    scope, colons, last = method_of(name).rpartition("::")
    words = [word.lower() for word in _WORDS.findall(last)]
    if verb not in words:
        return None
    at = words.index(verb)
    before = f"{scope}{colons}{'_'.join(words[:at])}"
    return (before, tuple(word for word in words[at + 1 :] if word not in _MANNERS)) if before else None


def _mostly(calls: Sequence[Calls], weight: Callable[[Calls], int]) -> str:
    """The program's function that four of five of these calls come from; '' if there is none."""
    functions: Counter[str] = Counter()
    for call in calls:
        functions[innermost_own(call.frames)] += weight(call)
    name = heaviest_name(functions)
    return name if functions[name] >= MOST * functions.total() > 0 else ""


def puts_and_takes(words: Sequence[Seen]) -> tuple[str, str] | None:
    """The function in which threads wait here to put into a queue, and the one that takes; None: it is not so."""
    put = _mostly([call for entry in words for call in entry.waits], lambda call: call.wait_ns)
    take = _mostly([call for entry in words for call in entry.wakes], lambda call: call.waits)
    same = any(_around(put, one) == _around(take, other) is not None for one, other in _PAIRS)
    return (put, take) if same else None
