# SPDX-License-Identifier: GPL-2.0-or-later
"""Ruby's global VM lock and its Mutex, by where threads wait (MRI 2.7 to 3.4, thread_pthread.c; docs/futex.md).

A thread waits for the GVL at a condition variable of its own, in functions of libruby that stripped libraries have no
names for: gvl_acquire_common() to 3.1, thread_sched_to_running_common() in 3.2, thread_sched_wait_running_turn() since
3.3.  Some that call these are exported, and tell: a timer has a thread that computes let go every 100 ms, in
rb_threadptr_execute_interrupts() (to 3.2); a system call for a file ends with taking it again.  Since 3.3 threads sleep
at the same word for other reasons; but a queue, a Mutex and a join have exported functions in between.
"""

import functools
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lockline.analysis.user_space.behaviour import (
    NEARLY_ALL,
    lived,
    nobody_holds,
    wake_each_other,
)
from lockline.analysis.user_space.user_evidence import (
    HALF,
    RUBY_GVL,
    RUBY_MUTEX,
    Calls,
    Processes,
    Recognised,
    Seen,
    apart,
    below_c_library,
    by_waiting,
    waiting,
)
from lockline.base.c_library import is_c_library
from lockline.base.values import dataclass
from lockline.recording.rows import Frame

_RUBY = re.compile(r"(?:lib)?ruby(?:-?(\d+)\.(\d+))?(?:\.so(?:\.(\d+)\.(\d+))?[.\d]*)?")
# The first whose threads sleep for other reasons at the same word too.
_ONE_WORD = (3, 3)

# Between a wait and who asked for it, where a symbol table names them; those that say what the wait is for.
_INSIDE = ("rb_native_cond_", "native_cond_", "gvl_", "do_gvl_timer", "thread_sched_", "blocking_region_end")
_TAKES_GVL = ("gvl_acquire", "gvl_yield", "do_gvl_timer", "thread_sched_to_running", "thread_sched_yield")
_SLEEPS = ("thread_sched_to_waiting", "thread_sched_wait_events")
# Who waits there for nothing but the GVL.
_CALLERS = (
    "rb_threadptr_execute_interrupts",
    "rb_thread_schedule",
    "rb_thread_schedule_limits",
    "rb_thread_io_blocking_region",
    "rb_thread_io_blocking_call",
    # Behind a call that went on without it: input and output, what an extension does alone.
    "rb_io_wait",
    "rb_wait_for_single_fd",
    "rb_thread_wait_for_single_fd",
    "rb_thread_fd_select",
    "rb_nogvl",
    "rb_thread_call_without_gvl",
    "rb_thread_call_without_gvl2",
)
# Below these the program itself runs; a thread that sleeps there may do nothing but Kernel#sleep, Thread.stop.
_RUNS = ("rb_yield", "rb_funcall", "rb_proc_call", "rb_block_call", "rb_method_call", "rb_vm_exec", "rb_vm_invoke")
# Monitor's own file jumps to rb_mutex_lock(), which jumps on, so that neither has a frame of its own.
_MONITOR_FILE = "monitor.so"
_MUTEX_CALLERS = ("rb_mutex_lock", "rb_mutex_synchronize", "do_mutex_lock", _MONITOR_FILE)
_UNLOCKS = ("rb_mutex_unlock",)
# A queue, a condition variable and a join sleep so that they can clean up: what they wait for, another thread does.
_WAITS_FOR_OTHERS = ("rb_ensure",)
# A block of Mutex#synchronize runs so, as the Mutex is let go whatever happens; these lie next to each other.
_BLOCK_WITH_CLEANUP = ("rb_yield", "rb_ensure")


@dataclass(frozen=True, slots=True)
class _Asked:
    """Who asked for a wait inside Ruby: the function ('' none up to the thread's begin); names of those between.

    place: of its untimed wait, 0 if it has a timeout.
    """

    caller: str
    inside: tuple[str, ...]
    place: int


def _ruby(module: str) -> re.Match[str] | None:
    return _RUBY.fullmatch(module.rpartition("/")[2].removesuffix(" (deleted)"))


def _one_word(words: Iterable[Seen]) -> bool:
    """Whether its threads may sleep where they wait for the GVL; so, if the version is not known."""
    modules = (frame.module for entry in words for call in entry.waits for frame in call.frames)
    for match in filter(None, map(_ruby, modules)):
        major, minor = match[3] or match[1], match[4] or match[2]
        if major:
            return (int(major), int(minor)) >= _ONE_WORD
    return True


def _asked(frames: Sequence[Frame]) -> _Asked | None:
    """Who asked for a wait or a wake inside Ruby; None if that is not Ruby's."""
    place = 0
    inside: list[str] = []
    for frame in below_c_library(frames):
        if inside and frame.module.rpartition("/")[2] == _MONITOR_FILE:
            return _Asked(_MONITOR_FILE, tuple(inside), place)
        if _ruby(frame.module) is None:
            # Where a thread of Ruby begins.
            return _Asked("", tuple(inside), place) if inside and is_c_library(frame.module) else None
        if frame.symbol and not frame.symbol.startswith(_INSIDE):
            return _Asked(frame.symbol, tuple(inside), place)
        if inside == ["rb_native_cond_wait"]:
            place = frame.address
        inside.append(frame.symbol)
    return None


def _sleeps(asked: _Asked) -> bool:
    return any(name.startswith(_SLEEPS) for name in asked.inside)


def _for_gvl(asked: _Asked) -> bool:
    if _sleeps(asked):
        return False
    return asked.caller in _CALLERS or any(name.startswith(_TAKES_GVL) for name in asked.inside)


def _may_be_for_gvl(asked: _Asked) -> bool:
    """Whether a thread that runs the program waits, and not in a function of Ruby that is known."""
    return bool(asked.place) and not _sleeps(asked) and (not asked.caller or asked.caller.startswith(_RUNS))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word that threads of Ruby wait at, and the parts of the sampled time there by what they wait for.

    calls: the sampled waits that are Ruby's, and who asked for them.
    """

    entry: Seen
    calls: tuple[tuple[Calls, _Asked], ...]
    gvl: float
    maybe: float
    mutex: float


def _part(calls: Sequence[tuple[Calls, _Asked]], entry: Seen, which: Callable[[_Asked], bool]) -> float:
    every = sum(call.wait_ns or call.waits for call in entry.waits)
    return sum(call.wait_ns or call.waits for call, asked in calls if which(asked)) / every if every else 0.0


def _words(words: Mapping[int, Seen]) -> Iterator[_Word]:
    by_word = [
        (entry, [(call, asked) for call in entry.waits if (asked := _asked(call.frames)) is not None])
        for entry in words.values()
    ]
    one_word = _one_word(words.values())
    # Where the same call of rb_native_cond_wait() was seen to wait for the GVL, it always does.
    places = {asked.place for _, calls in by_word for _, asked in calls if _for_gvl(asked)} - {0}
    for entry, calls in by_word:
        if one_word:
            gvl = _part(calls, entry, _for_gvl)
            maybe = _part(calls, entry, lambda asked: _for_gvl(asked) or _may_be_for_gvl(asked))
        else:
            gvl = maybe = float(any(_for_gvl(asked) or asked.place in places for _, asked in calls))
        mutex = 0.0 if gvl >= HALF else _part(calls, entry, lambda asked: asked.caller in _MUTEX_CALLERS)
        yield _Word(entry, tuple(calls), gvl, maybe, mutex)


def _lock(found: Sequence[Seen], make: str, sure: str, why: str, *, unclear: bool = False) -> Recognised:
    ranked = by_waiting(found)
    ids = tuple(entry.futex.id for entry in ranked)
    return Recognised(ids, make, lock=not unclear, sure=sure, why=why, unclear=unclear)


def _gvl(of_ruby: Sequence[_Word], window_ns: int) -> Iterator[Recognised]:
    surely = [word.entry for word in of_ruby if word.gvl >= HALF]
    maybe = [word.entry for word in of_ruby if word.maybe >= HALF]
    if len(maybe) > len(surely) and wake_each_other(maybe) and not nobody_holds(maybe, window_ns):
        why = (
            f"Ruby's global VM lock: {waiting(maybe, window_ns):.1f} threads wait while they run the program, and "
            "wake each other; some may only sleep there: functions without names do not show it"
        )
        yield _lock(maybe, RUBY_GVL, "medium", why)
    elif surely:
        why = f"Ruby's global VM lock: {waiting(surely, window_ns):.1f} threads wait for it on average"
        yield _lock(surely, RUBY_GVL, "high", why)


def _of_mutex(word: _Word) -> Seen:
    """A word with the waits for a Mutex alone, and the wakes by who lets it go."""
    waits = tuple(call for call, asked in word.calls if asked.caller in _MUTEX_CALLERS)
    wakes = ((call, _asked(call.frames)) for call in word.entry.wakes)
    unlocks = tuple(call for call, asked in wakes if asked is not None and asked.caller in _UNLOCKS)
    return replace(word.entry, waits=waits, wakes=unlocks)


def _by_mutex(of_ruby: Sequence[_Word]) -> list[list[_Word]]:
    """The words at which threads wait for a Mutex, parted by who lets go of whom: those who queue for one do.

    Since 3.3 whoever lets go wakes nobody: the next one goes on when it gets the GVL.
    """
    by_id = {word.entry.futex.id: word for word in of_ruby if word.mutex}
    if _one_word(word.entry for word in of_ruby):
        return [list(by_id.values())]
    words = list(map(_of_mutex, by_id.values()))
    # At some, of Ruby's own mutexes, nobody is let in.
    let_in = [entry for entry in words if entry.wakes]
    others = [by_id[entry.futex.id] for entry in words if not entry.wakes]
    if not let_in:
        return [others]
    found = [[by_id[entry.futex.id] for entry in circle] for circle in apart(let_in)]
    max(found, key=lambda circle: sum(word.entry.total.wait_ns for word in circle)).extend(others)
    return found


def _threads_in(words: Iterable[_Word], which: Callable[[Calls, _Asked], bool], window_ns: int) -> float:
    """How many threads wait on average in such calls."""
    waited = 0.0
    for word in words:
        sampled = sum(call.wait_ns for call in word.entry.waits)
        there = sum(call.wait_ns for call, asked in word.calls if which(call, asked))
        waited += word.entry.total.wait_ns * there / sampled if sampled else 0.0
    return waited / window_ns if window_ns else 0.0


def _for_mutex(_: Calls, asked: _Asked) -> bool:
    return asked.caller in _MUTEX_CALLERS


def _for_others_inside(tasks: Container[int], call: Calls, asked: _Asked) -> bool:
    """Whether one of these waits for what another thread does, in a block that has to clean up."""
    pairs = itertools.pairwise(call.functions)
    return call.task in tasks and asked.caller in _WAITS_FOR_OTHERS and _BLOCK_WITH_CLEANUP in pairs


def _by_one_alone(words: Sequence[Seen]) -> bool:
    """Whether one thread lets go, and never waits: it may sleep with the Mutex held in ppoll(), which is no futex."""
    return len({call.task for entry in words for call in entry.wakes}) == 1 and not wake_each_other(words)


def _mutexes(of_ruby: Sequence[_Word], window_ns: int) -> Iterator[Recognised]:
    """The mutexes of a process.

    If nobody lets go, or if one of those who take it nearly always waits for another thread's doing in a block that has
    to clean up, these are idle workers as likely as a lock that is held for too long.
    """
    one_word = _one_word(word.entry for word in of_ruby)
    slept: defaultdict[int, int] = defaultdict(int)
    for call, _ in (asked for word in of_ruby for asked in word.calls):
        slept[call.task] += call.wait_ns
    for circle in _by_mutex(of_ruby):
        found = [word.entry for word in circle if word.mutex >= HALF]
        if not found:
            continue
        # Who lets go at once and takes it again never waits for it.
        alone = list(map(_of_mutex, circle))
        tasks = {call.task for entry in alone for call in (*entry.waits, *entry.wakes)}
        idle = _threads_in(of_ruby, functools.partial(_for_others_inside, tasks), lived(slept.values(), window_ns))
        why = f"threads wait in rb_mutex_lock(): {_threads_in(circle, _for_mutex, window_ns):.1f} on average"
        if not one_word and not any(entry.wakes for entry in alone):
            why += "; nobody released it during the recording: its holder may wait for work"
            yield _lock(found, RUBY_MUTEX, "medium", why, unclear=True)
        elif idle >= NEARLY_ALL:
            why += (
                f"; its holder waits for other threads, {idle:.0%} of the time: workers wait for their next job, or the"
                " Mutex is held during a wait"
            )
            yield _lock(found, RUBY_MUTEX, "medium", why, unclear=True)
        else:
            yield _lock(found, RUBY_MUTEX, "medium" if _by_one_alone(alone) else "high", why)


def ruby_locks(processes: Processes, window_ns: int) -> Iterator[Recognised]:
    """The GVL of each process in Ruby, and its mutexes: each thread waits at words of its own."""
    for words in processes.values():
        of_ruby = list(_words(words))
        yield from _gvl(of_ruby, window_ns)
        if any(word.mutex >= HALF for word in of_ruby):
            yield from _mutexes(of_ruby, window_ns)
