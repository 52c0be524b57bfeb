# SPDX-License-Identifier: GPL-2.0-or-later
"""How words behave, whatever make they are of: like a lock, like a barrier, or as nobody's who is idle.

A lock: somebody has it while others wait, and whoever lets go wakes one of those who wait, or all of them.  A barrier:
who comes last wakes all others.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from lockline.analysis.user_space.crowds import is_crowd, same_threads
from lockline.analysis.user_space.program_functions import heaviest_name, own_name
from lockline.analysis.user_space.user_evidence import (
    HALF,
    MOST,
    Calls,
    Seen,
    asleep,
    is_yields,
    most_of,
    open_ns,
    seems_mutex,
    several_wait,
    share_of,
    total_of,
    waiting,
    waiting_still,
)
from lockline.recording import rows

# What runs the closure of a thread of Rust.
_RUST_THREAD = "__rust_begin_short_backtrace"
# Of a window: waits elsewhere by one thread at a time, of those who queue for a lock.
NEARLY_ALL = 0.8
_ONE_THREAD = 1.1
# The same of waits of which none begins before the one before has ended, with what ends beyond the window.
_ONE_AFTER_THE_OTHER = 1.02
_SEVERAL_TASKS = 2
# Of a holder's waits for answers: requests for which who answers had to be woken.  Who is busy need not be woken.
_ASKED = 0.1
# At a lock's holder: fewer may all be of one moment.
_ENOUGH_LOOKS = 10
# Threads that were asleep for this part of a window lived that long at least; shorter lives cannot be told.
_MOSTLY_THERE = 0.6
# Tasks woken by one call: a lock lets one in, a barrier all.
_ONE_AT_A_TIME = 1.5
# Of the others, by one call, at a barrier; and the fewest threads that show it.
_ALL = 0.9
_BARRIER_THREADS = 3
# Of the others, that sleep on average.  Work that differs by chance (exponentially) keeps 0.8 of 64 threads waiting for
# the last one, and less of fewer.
_IN_TURNS = 0.85
# Of the window, in which all who use a word may seem asleep there, although it is a lock.
_MOMENT = 0.05
# What a thread's last wait may have too much, as a recording ends.
_EDGE_NS = 10_000_000
# Of each thread: the end of an idle program wakes its threads one after the other.
WAITS_EACH = 3
# Of all wakes of a word: a thread that makes fewer does not take the lock.  Of a thread's own wakes: waits.
_NOW_AND_THEN = 0.05


def samples_by_task(calls: Iterable[Calls]) -> Counter[int]:
    """How many samples each task has."""
    found: Counter[int] = Counter()
    for call in calls:
        found[call.task] += call.samples
    return found


def waits_by_task(calls: Iterable[Calls]) -> Counter[int]:
    """How many waits, or wakes, each task has."""
    found: Counter[int] = Counter()
    for call in calls:
        found[call.task] += call.waits
    return found


def are_crowd(words: Sequence[Seen]) -> bool:
    """Whether more threads use one of these words than its sets can tell apart."""
    return any(is_crowd(entry.total.waiters, entry.total.wakers) for entry in words)


def crowd_wakes_itself(words: Sequence[Seen]) -> bool | None:
    """Whether the threads of a crowd that wake are those that wait; None: the samples do not tell."""
    waits = samples_by_task(call for entry in words for call in entry.waits)
    return same_threads(waits, samples_by_task(call for entry in words for call in entry.wakes))


def bring_work(words: Sequence[Seen]) -> set[int]:
    """Tasks that wake others here, and wait for none, or once, as whoever starts a thread does until it runs."""
    waits = waits_by_task(call for entry in words for call in entry.waits)
    wakes = waits_by_task(call for entry in words for call in entry.wakes)
    return {task for task, count in wakes.items() if waits[task] <= _NOW_AND_THEN * count}


def wake_each_other(words: Sequence[Seen]) -> bool:
    """Whether most wakes of these words come from threads that wait at one of them."""
    if are_crowd(words):
        return bool(crowd_wakes_itself(words))
    inside = {call.task for entry in words for call in entry.waits}
    wakes = [(call.task in inside, call.waits) for entry in words for call in entry.wakes]
    return sum(waits for peer, waits in wakes if peer) >= MOST * sum(waits for _, waits in wakes) > 0


def wait_again(words: Sequence[Seen]) -> bool:
    """Whether most of the threads that wait at these words have waited several times each."""
    sleeps = sleeps_of({call.task for entry in words for call in entry.waits}, words)
    return sum(many >= WAITS_EACH for many in sleeps.values()) >= HALF * len(sleeps) > 0


def wait_once(words: Sequence[Seen], window_ns: int) -> bool:
    """Whether nearly all the waiting is one wait of each thread, for half of the recording or more.

    Idle threads do so, and wake each other when the program ends.
    """
    longest = most_of(words, "max_ns")
    tasks = {call.task for entry in words for call in entry.waits}
    return longest >= HALF * window_ns and longest * len(tasks) >= MOST * total_of(words, "wait_ns") > 0


def _users(words: Sequence[Seen]) -> int:
    """Threads that wait at these words, and others that wake there more than now and then: one who never waits."""
    waiting_there = {call.task for entry in words for call in entry.waits}
    wakes: defaultdict[int, int] = defaultdict(int)
    for call in (call for entry in words for call in entry.wakes):
        wakes[call.task] += call.waits
    often = _NOW_AND_THEN * sum(wakes.values())
    others = {task for task, count in wakes.items() if count >= often} - waiting_there
    waiters = most_of(words, "waiters") if len(words) == 1 else 0
    return max(len(waiting_there), waiters) + len(others)


def nobody_holds(words: Sequence[Seen], window_ns: int) -> bool:
    """Whether all threads that use these words were asleep there at once, for more than a moment.

    While threads wait for a lock, one of the others has it.  Time from the wake-up to the CPU is no sleep: whoever
    was woken may have been given the lock.  How many threads a crowd has is not known.
    """
    if are_crowd(words):
        return False
    users = _users(words)
    # Waits that end while a recording ends count as a whole: of a short one, that is much.
    edges = users * _EDGE_NS / window_ns if window_ns else 0.0
    return asleep(words, window_ns) > users - 1 + min(_MOMENT + edges, HALF)


def lived(slept_ns: Iterable[int], window_ns: int) -> int:
    """For how long threads were there, that may have started late: as long at least as the one that slept most."""
    most = max(slept_ns, default=0)
    return min(most, window_ns) if most >= _MOSTLY_THERE * window_ns else window_ns


def waiting_of(tasks: Collection[int], words: Iterable[Seen]) -> dict[int, int]:
    """How long these tasks waited at these words, ns, by what their samples stand for; with waits that go on."""
    waited = ((entry, entry.total.wait_ns + open_ns(entry.total)) for entry in words)
    return _by_task(tasks, ((entry, figure, [call.wait_ns for call in entry.waits]) for entry, figure in waited))


def sleeps_of(tasks: Collection[int], words: Iterable[Seen]) -> dict[int, int]:
    """How often these tasks slept at these words, likewise."""
    return _by_task(tasks, ((entry, entry.total.slept, [call.waits for call in entry.waits]) for entry in words))


def _by_task(tasks: Collection[int], parts: Iterable[tuple[Seen, int, Sequence[int]]]) -> dict[int, int]:
    """A word's figure by task, as what its sampled waits have of it has been parted among them."""
    found: defaultdict[int, int] = defaultdict(int)
    for entry, figure, sampled in parts:
        every = sum(sampled)
        for call, part in zip(entry.waits, sampled, strict=True):
            if call.task in tasks and every:
                found[call.task] += figure * part // every
    return dict(found)


def _own(frame: rows.Frame) -> str:
    """A function of the program; a thread's closure of Rust is mostly made part of the function that runs it."""
    return own_name(frame) or (_RUST_THREAD if _RUST_THREAD in frame.symbol else "")


def _own_of(call: Calls) -> list[str]:
    """The program's functions on a stack, the innermost first."""
    return [name for name in map(_own, call.frames) if name]


def _waits_at(lock: Iterable[Seen]) -> list[Calls]:
    return [call for entry in lock for call in entry.waits]


def _queue_at(lock: Iterable[Seen]) -> set[int]:
    """The tasks that wait for a lock."""
    return {call.task for call in _waits_at(lock)}


def _function_of(lock: Sequence[Seen]) -> str:
    """The program's function that waits for a lock; '' if it is not known, as of some stacks of Python."""
    functions: Counter[str] = Counter()
    for call in _waits_at(lock):
        functions.update(dict.fromkeys(_own_of(call)[:1], call.wait_ns))
    return heaviest_name(functions)


def _is_called(lock: Sequence[Seen], function: str) -> bool:
    """Whether others of the program call a function: a thread's whole loop is not all under the lock."""
    return share_of(_waits_at(lock), lambda call: function in _own_of(call)[:-1]) >= MOST


def _in_same_function(lock: Sequence[Seen], others: Iterable[Seen]) -> bool:
    """Whether the program's function that waits for a lock is also on the stacks of its threads' other waits."""
    queue = _queue_at(lock)
    function = _function_of(lock)
    elsewhere = [call for call in _waits_at(others) if call.task in queue and _own_of(call)]
    return bool(function) and share_of(elsewhere, lambda call: function in _own_of(call)) >= MOST


def _ask(lock: Sequence[Seen], others: Sequence[Seen], window_ns: int) -> bool:
    """Whether a lock's holders wait elsewhere for the answer of a thread that they have asked, with the lock held.

    They wake it in the function that takes the lock, and it wakes them.  It hardly sleeps there: who hands out work
    does, until the workers have done it.
    """
    queue = _queue_at(lock)
    function = _function_of(lock)
    if not function or not _is_called(lock, function):
        return False
    words = [entry for entry in others if not seems_mutex(entry.total)]
    answered = [entry for entry in words if any(call.task in queue for call in entry.waits)]
    answer = {call.task for entry in answered for call in entry.wakes} - queue
    asked = [entry for entry in words if {call.task for call in entry.waits} & answer and entry not in answered]
    asks = [call for entry in asked for call in entry.wakes if call.task in queue]
    waits = sum(sleeps_of(queue, answered).values())
    return (
        sum(sleeps_of(answer, asked).values()) >= _ASKED * waits > 0
        and sum(waiting_of(answer, asked).values()) < HALF * window_ns * len(answer)
        and share_of(asks, lambda call: function in _own_of(call)) >= MOST
    )


def held_over_wait(lock: Sequence[Seen], others: Iterable[Seen], window_ns: int) -> str:
    """Why a lock's holder waits at another word nearly all the time; '' if it does not.

    One thread at a time waits there, each of them one that queues for the lock too, and all others queue meanwhile:
    a queue of workers, or a lock that is held over a wait.  Where others work meanwhile, chance could have it so: then
    they wait there one after the other, in the function that takes the lock.  Not where they have asked for what they
    wait for: the others queue for whoever answers.
    """
    queue = _queue_at(lock)
    looks = sum(entry.looks for entry in lock)
    if len(queue) < _SEVERAL_TASKS or not window_ns:
        return ""
    # The holder was seen at work.
    if looks >= _ENOUGH_LOOKS and sum(entry.ran for entry in lock) >= HALF * looks:
        return ""
    # Who gives its CPU away runs on when it gets one.
    words = [entry for entry in others if not is_yields(entry)]
    elsewhere = waiting_of(queue, words)
    if len(elsewhere) < _SEVERAL_TASKS:
        return ""
    at_lock = waiting_of(queue, lock)
    lived_ns = lived((at_lock.get(task, 0) + elsewhere.get(task, 0) for task in queue), window_ns)
    asleep = sum(elsewhere.values()) / lived_ns
    at_work = len(queue) - asleep - waiting_still(lock, lived_ns)
    if not NEARLY_ALL <= asleep <= _ONE_THREAD or at_work > HALF:
        # Who sleeps for a while is woken by the clock.
        woken = [entry for entry in words if entry.total.timed_out < MOST * max(entry.total.slept, 1)]
        asleep = sum(waiting_of(queue, woken).values()) / window_ns
        if not NEARLY_ALL <= asleep <= _ONE_AFTER_THE_OTHER or not _in_same_function(lock, woken):
            return ""
    if _ask(lock, words, window_ns):
        return ""
    return (
        f"its holder waits at another futex, {asleep:.0%} of the time: workers wait for their next job, or the lock is"
        " held during a wait; the stacks of those waits show which"
    )


def _peers(words: Sequence[Seen]) -> bool:
    waiters, wakers, both = (most_of(words, name) for name in ("waiters", "wakers", "both"))
    if total_of(words, "timed_out") >= HALF * max(total_of(words, "slept"), 1):
        return False
    if are_crowd(words):
        return bool(crowd_wakes_itself(words))
    return waiters > 1 and both >= MOST * max(wakers, 1) and both >= HALF * waiters


def _woken_by_a_call(words: Sequence[Seen]) -> float:
    """Tasks that a call wakes on average, of the calls that wake any."""
    calls = total_of(words, "wakes") - total_of(words, "wakes_empty")
    return total_of(words, "tasks_woken") / calls if calls > 0 else 0.0


def wakes_all_others(entry: Seen) -> bool:
    """Whether each call wakes nearly all who use the word, three threads or more: whoever wakes may never wait."""
    users = _users((entry,))
    return users >= _BARRIER_THREADS and _woken_by_a_call((entry,)) >= _ALL * (users - 1)


def wakes_all_who_sleep(words: Sequence[Seen]) -> bool:
    """Whether each call that wakes anybody wakes nearly all: of those who spin first, some do not sleep yet."""
    waiters = most_of(words, "waiters")
    return waiters >= _BARRIER_THREADS and _woken_by_a_call(words) >= _ALL * (waiters - 1)


def mostly_brought(words: Sequence[Seen]) -> bool:
    """Whether threads that never wait at these words, or hardly, make half of the wakes there."""
    brings = bring_work(words)
    wakes = [(call.task in brings, call.waits) for entry in words for call in entry.wakes]
    return sum(count for brought, count in wakes if brought) >= HALF * sum(count for _, count in wakes) > 0


def are_brought_work(words: Sequence[Seen], window_ns: int) -> bool:
    """Whether all threads that wait at these words sleep there at once, and most are woken by one that never does.

    Who takes a lock as often as they do waits for it as often: that one brings them work, which they may pass on.
    """
    tasks = {call.task for entry in words for call in entry.waits} - bring_work(words)
    return not are_crowd(words) and asleep(words, window_ns) > len(tasks) - 1 + _MOMENT and mostly_brought(words)


def work_in_turns(words: Sequence[Seen], window_ns: int) -> bool:
    """Whether all but one sleep nearly all the time, and it is another one each time that wakes them.

    At a barrier the last one to come may keep all others waiting; that it is another one each time is rare.  Where each
    wake-up wakes all that want something, and one gets it, it is so.
    """
    wakes = waits_by_task(call for entry in words for call in entry.wakes)
    rotates = 0 < max(wakes.values(), default=0) <= HALF * sum(wakes.values())
    return rotates and asleep(words, window_ns) >= _IN_TURNS * (_users(words) - 1)


def behaves_as_barrier(words: Sequence[Seen]) -> str:
    """Why the threads at these words wait until all have come; '' if it does not look so.

    Whoever wakes is one of those who wait, and wakes all others.
    """
    if not wakes_all_who_sleep(words) or not _peers(words):
        return ""
    if total_of(words, "wakes_empty") > (1 - _ALL) * total_of(words, "wakes"):
        return ""
    waiters, woken = most_of(words, "waiters"), _woken_by_a_call(words)
    return f"it behaves like a barrier: the last of {waiters} threads to come wakes {woken:.1f} at once"


def behaves_as_lock(words: Sequence[Seen], window_ns: int) -> str:
    """Why the threads at these words contend for a lock of whatever make; '' if something speaks against it.

    More than one waits nearly all the time, whoever wakes is one of those who wait, somebody can have the lock, and
    most waits end by a wake.  A dispatcher does not wait where its workers do, polls time out, and workers without
    work are all asleep.
    """
    woken, threads = _woken_by_a_call(words), waiting(words, window_ns)
    if not _peers(words) or not several_wait(words, window_ns) or not woken:
        return ""
    if behaves_as_barrier(words) and not work_in_turns(words, window_ns):
        return ""
    if nobody_holds(words, window_ns) or (any(map(is_yields, words)) and wakes_all_who_sleep(words)):
        return ""
    # Workers may pass jobs on, as those of a queue of Python do; who has jobs for them does not wait there.
    if any(entry.waits and entry.wakes for entry in words) and not wake_each_other(words):
        return ""
    how = "one at a time"
    if woken > _ONE_AT_A_TIME:
        how = f"{woken:.1f} at a time, of which one gets it"
    return f"{threads:.1f} threads wait on average, and those that wait wake each other, {how}: it behaves like a lock"
