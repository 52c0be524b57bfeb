# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of lock a futex of Ruby's threads is: the GVL, a Mutex, a Monitor, or a queue."""

import pytest

from lockline.analysis.user_space.user_evidence import Calls, Seen
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording import rows
from user_words import LIBC, WINDOW, word

RUBY_3_1, RUBY_3_3 = "/usr/lib/libruby-3.1.so.3.1.7", "/usr/lib/libruby-3.3.so.3.3.8"
LET_GO = "rb_threadptr_execute_interrupts"


def ruby_stack(library: str, place: int, *inside: str) -> tuple[rows.Frame, ...]:
    """A stack of a thread of Ruby that waits; place: the address in the library's function for it; '?' has no name."""
    names = ("rb_native_cond_wait", "?", *inside)
    ours = [rows.Frame(place + at, "" if name == "?" else name, 0, library) for at, name in enumerate(names)]
    return (rows.Frame(1, "pthread_cond_wait", 0, LIBC), *ours, rows.Frame(2, "", 0, LIBC))


def ruby(
    *stacks: tuple[rows.Frame, ...], wakers: tuple[int, ...] = (0, 1, 2), wait_ns: int = WINDOW // 2
) -> list[Seen]:
    """Threads at a word of their own each, below these stacks; wakers of each word, by task."""
    return [
        word(
            task + 2,
            4096 * (task + 1),
            wait_ns=wait_ns,
            waits=(Calls(task, (), (), 10, 10, frames),),
            wakers_of=tuple(Calls(waker, (), (), 10, 0) for waker in wakers if waker != task),
        )
        for task, frames in enumerate(stacks)
    ]


def told(words: list[Seen]) -> list[tuple[str, bool, str, int]]:
    return [(one.make, one.lock, one.sure, len(one.words)) for one in recognise(words, (), WINDOW)]


def test_threads_of_ruby_that_are_made_to_let_go_wait_for_the_gvl() -> None:
    """Three that compute, and one that comes back from a call of the system: the same place in gvl_acquire_common()."""
    computes = ruby_stack(RUBY_3_1, 4096, "?", LET_GO, "?", "rb_vm_exec")
    words = ruby(computes, computes, computes, ruby_stack(RUBY_3_1, 4096, "?", "?", "rb_nogvl"))
    assert told(words) == [("Ruby GVL", True, "high", 4)]
    # With symbols, of a version that is not known; a queue, an interrupt of which runs the program.
    named = ruby_stack("/opt/bin/ruby", 4096, "gvl_acquire_common", "rb_thread_schedule_limits", LET_GO)
    assert told(ruby(named, named)) == [("Ruby GVL", True, "high", 2)]
    queue = ruby_stack(RUBY_3_1, 8192, "?", "rb_ensure", "?", "rb_vm_exec", LET_GO)
    assert told(ruby(queue, queue)) == []


@pytest.mark.parametrize(
    ("inside", "wakers", "wait_ns", "known"),
    [
        # They run the program, and pass it on: those that sleep for ever look the same, and so it is not sure.
        (("?", "?", "?"), (0, 1, 2), WINDOW // 2, [("Ruby GVL", True, "medium", 3)]),
        (("?", "?", "rb_yield", "rb_ensure"), (0, 1, 2), WINDOW // 2, [("Ruby GVL", True, "medium", 3)]),
        # Each comes back from a call of the system.
        (("?", "rb_thread_io_blocking_call"), (9,), WINDOW // 2, [("Ruby GVL", True, "high", 3)]),
        # As of Puma on Ruby 3.3: behind a poll(), and behind what an extension did alone.
        (("?", "?", "rb_io_wait"), (9,), WINDOW // 2, [("Ruby GVL", True, "high", 3)]),
        (("?", "rb_nogvl", "rb_getnameinfo"), (9,), WINDOW // 2, [("Ruby GVL", True, "high", 3)]),
        # Another thread wakes them; all are asleep at once; they wait for a queue, for a Mutex.
        (("?", "?", "?"), (9,), WINDOW // 2, []),
        (("?", "?", "?"), (0, 1, 2), WINDOW, []),
        (("?", "?", "rb_ensure"), (0, 1, 2), WINDOW // 2, []),
        (("?", "?", "rb_mutex_lock"), (9,), WINDOW // 2, [("Ruby Mutex", True, "high", 3)]),
        # With symbols: a queue.
        (("thread_sched_to_waiting_until_wakeup", "rb_yield"), (0, 1, 2), WINDOW // 2, []),
    ],
)
def test_threads_of_ruby_that_wait_for_all_at_one_word(
    inside: tuple[str, ...], wakers: tuple[int, ...], wait_ns: int, known: list[tuple[str, bool, str, int]]
) -> None:
    stack = ruby_stack(RUBY_3_3, 4096, *inside)
    assert told(ruby(stack, stack, stack, wakers=wakers, wait_ns=wait_ns)) == known


def test_a_monitor_of_ruby_by_the_file_that_locks_it() -> None:
    """monitor.so jumps to rb_mutex_lock(), which jumps on: no frame has its name."""
    monitor = rows.Frame(3, "", 0, "/usr/lib/x86_64-linux-gnu/ruby/3.1.0/monitor.so")
    enters = (*ruby_stack(RUBY_3_3, 4096, "?", "?")[:-1], monitor, rows.Frame(2, "", 0, RUBY_3_3))
    assert told(ruby(enters, enters, enters)) == [("Ruby Mutex", True, "high", 3)]
    # Its conditions sleep below functions with names.
    waits = (*ruby_stack(RUBY_3_3, 4096, "?", "?", "rb_ensure")[:-1], monitor, rows.Frame(2, "", 0, RUBY_3_3))
    assert told(ruby(waits, waits, waits)) == []


def ruby_mutexes(*threads: tuple[int, int], held_over: tuple[str, ...] = ()) -> list[Seen]:
    """Threads of Ruby 3.1 that wait for a Mutex, and who lets each of them in, 0 nobody.

    held_over: functions below which each also waits for another thread, nine tenths of the time.
    """
    lock = ruby_stack(RUBY_3_1, 4096, "?", "?", "rb_mutex_synchronize")
    unlock = ruby_stack(RUBY_3_1, 0, "?", "rb_mutex_unlock", "rb_ensure")
    queue = ruby_stack(RUBY_3_1, 4096, "?", "?", *held_over)
    names = tuple(frame.symbol for frame in queue if frame.symbol)
    return [
        word(
            task + 2,
            4096 * (task + 1),
            wait_ns=WINDOW * 8 // 10,
            waits=(Calls(task, (), (), 10, 6, lock), *((Calls(task, names, (), 1, 4, queue),) if held_over else ())),
            wakers_of=(Calls(by, (), (), 10, 0, unlock),) if by else (),
        )
        for task, by in threads
    ]


QUEUE_INSIDE = ("rb_ensure", "?", "rb_vm_exec", "rb_yield", "rb_ensure", "rb_vm_exec")


@pytest.mark.parametrize(
    ("words", "known"),
    [
        # One; two, of which the threads have nothing to do with each other.
        (ruby_mutexes((1, 2), (2, 3), (3, 1)), [("Ruby Mutex", True, "high", 3)]),
        (ruby_mutexes((1, 2), (2, 1), (3, 4), (4, 3)), [("Ruby Mutex", True, "high", 2)] * 2),
        # One thread has it whenever it wants: it may sleep with it held, unseen.
        (ruby_mutexes((1, 9), (2, 9), (3, 9)), [("Ruby Mutex", True, "medium", 3)]),
        # Nobody lets go; who has it waits for a queue; who waits for a queue has nothing.
        (ruby_mutexes((1, 0), (2, 0), (3, 0)), [("Ruby Mutex", False, "medium", 3)]),
        (ruby_mutexes((1, 2), (2, 3), (3, 1), held_over=QUEUE_INSIDE), [("Ruby Mutex", False, "medium", 3)]),
        (ruby_mutexes((1, 2), (2, 3), (3, 1), held_over=QUEUE_INSIDE[:3]), [("Ruby Mutex", True, "high", 3)]),
    ],
    ids=["one", "two", "one alone", "stuck", "workers", "queue elsewhere"],
)
def test_mutexes_of_ruby(words: list[Seen], known: list[tuple[str, bool, str, int]]) -> None:
    assert told(words) == known
