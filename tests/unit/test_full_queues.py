# SPDX-License-Identifier: GPL-2.0-or-later
"""Queues and channels that threads wait to put into."""

from dataclasses import replace

import pytest

from lockline.analysis.user_space.user_evidence import (
    JAVA_QUEUE,
    OWN_QUEUE,
    PY_QUEUE,
    RUST_CHANNEL,
    TBB_QUEUE,
    Calls,
)
from lockline.analysis.user_space.user_locks import recognise
from lockline.recording import rows
from user_words import LIBC, WINDOW, parked, word

SEND = ("syscall", "std::thread::park", "std::sync::mpmc::array::Channel<T>::send", "load::publish")


PACKAGE = "java.util.concurrent"


PUT = ("Parker::park", "Unsafe_Park", "LockSupport.park", "ConditionObject.await", f"{PACKAGE}.ArrayBlockingQueue.put")


PUT_LOCK = (
    "Parker::park",
    "Unsafe_Park",
    "LockSupport.park",
    "ReentrantLock.lockInterruptibly",
    f"{PACKAGE}.ArrayBlockingQueue.put",
)


OFFER = ("Parker::park", "Unsafe_Park", "LockSupport.parkNanos", f"{PACKAGE}.LinkedBlockingQueue.offer", "Shop.order")


OFFER_OWN = (*OFFER[:-2], "com.example.LinkedBlockingQueue.offer")


HANDS_OVER = ("Parker::park", "Unsafe_Park", "LockSupport.parkNanos", f"{PACKAGE}.SynchronousQueue.offer")


PUT_OWN = (*PUT[:-1], "com.example.RetryBlockingQueue.put")


ADD = ("Parker::park", "Unsafe_Park", "LockSupport.park", "ReentrantLock.lock", f"{PACKAGE}.PriorityBlockingQueue.put")


@pytest.mark.parametrize(("wait_ns", "lock"), [(WINDOW * 9 // 10, True), (WINDOW // 4, False)])
def test_threads_that_send_to_a_full_channel(wait_ns: int, lock: bool) -> None:
    """The receiver wakes them, and waits elsewhere; few that wait may have nobody who wants more."""
    (known,) = recognise(parked(SEND, (9,), wait_ns), set(), WINDOW)
    assert (known.make, known.lock, known.unclear) == (RUST_CHANNEL, lock, not lock)


@pytest.mark.parametrize(
    ("functions", "wait_ns", "make", "lock"),
    [
        (PUT, WINDOW * 9 // 10, JAVA_QUEUE, True),
        (PUT, WINDOW // 4, JAVA_QUEUE, False),
        (PUT_LOCK, WINDOW * 9 // 10, None, None),
        (ADD, WINDOW * 9 // 10, None, None),
        (PUT_OWN, WINDOW * 9 // 10, None, None),
        (OFFER, WINDOW * 9 // 10, JAVA_QUEUE, True),
        (HANDS_OVER, WINDOW * 9 // 10, JAVA_QUEUE, True),
        (OFFER_OWN, WINDOW * 9 // 10, None, None),
    ],
)
def test_threads_that_put_into_a_full_queue(
    functions: tuple[str, ...], wait_ns: int, make: str | None, lock: bool | None
) -> None:
    """Who takes wakes them.  A queue's own lock is another matter, and one without bounds is never full."""
    found = [known for known in recognise(parked(functions, (9,), wait_ns), set(), WINDOW) if known.make == JAVA_QUEUE]
    assert [(known.make, known.lock, known.unclear) for known in found] == ([(make, lock, not lock)] if make else [])


PY_LOCK_WAIT = ("__new_sem_wait_slow64", "PyThread_acquire_lock_timed", "_PyEval_EvalFrameDefault")
PY_CONDITION_WAIT = (*PY_LOCK_WAIT, "py::Condition.wait:/usr/lib/python3.12/threading.py")
PY_PUT = "py::Queue.put:/usr/lib/python3.12/queue.py"


@pytest.mark.parametrize(
    ("functions", "full"),
    [
        ((*PY_CONDITION_WAIT, PY_PUT, "py::order:/srv/shop.py"), True),
        # The queue's own lock; who takes; a class of the program.
        ((*PY_LOCK_WAIT, PY_PUT, "py::order:/srv/shop.py"), False),
        ((*PY_CONDITION_WAIT, "py::Queue.get:/usr/lib/python3.12/queue.py"), False),
        ((*PY_CONDITION_WAIT, "py::Queue.put_later:/srv/shop.py"), False),
    ],
)
def test_threads_of_python_that_put_into_a_full_queue(functions: tuple[str, ...], full: bool) -> None:
    """Each at a lock of its own, which the thread releases that takes from the queue."""
    found = recognise(parked(functions, (9,), WINDOW * 9 // 10), set(), WINDOW)
    assert [known.make for known in found if known.lock] == ([PY_QUEUE] if full else [])


PY_PROCESSES = "/usr/lib/python3.12/multiprocessing"
SEMAPHORE_WAIT = ("__new_sem_wait_slow64", "_multiprocessing_SemLock_acquire", "_PyEval_EvalFrameDefault")


@pytest.mark.parametrize(
    ("functions", "full"),
    [
        ((f"py::Queue.put:{PY_PROCESSES}/queues.py", "py::order:/srv/shop.py"), True),
        ((f"py::JoinableQueue.put:{PY_PROCESSES}/queues.py",), True),
        # Who takes; a semaphore of the program's; nobody knows the function.
        ((f"py::Queue.get:{PY_PROCESSES}/queues.py",), False),
        (("py::order:/srv/shop.py",), False),
        ((), False),
    ],
)
def test_processes_of_python_that_put_into_a_full_queue(functions: tuple[str, ...], full: bool) -> None:
    """They share its semaphore, which the process posts that takes.  Of most waits the function is not known."""
    named = Calls(1, (*SEMAPHORE_WAIT, *functions), (), 10, 10)
    waits = (named, *(replace(named, task=task, functions=SEMAPHORE_WAIT) for task in (2, 3)))
    entry = word(2, 4096, shared=1, wait_ns=2 * WINDOW, waits=waits, wakers_of=(Calls(9, (), (), 10, 0),))
    found = recognise([entry], set(), WINDOW)
    assert [known.make for known in found if known.lock] == ([PY_QUEUE] if full else [])


TBB_WAIT = ("syscall", "tbb::detail::r1::wait_bounded_queue_monitor")
TBB_QUEUE_OF_INT = "tbb::detail::d2::concurrent_bounded_queue<int, tbb::detail::d1::cache_aligned_allocator<int> >"


@pytest.mark.parametrize("done", ["internal_push<int const&>", "internal_pop"])
def test_threads_that_put_into_a_full_queue_of_tbb(done: str) -> None:
    """Who takes from an empty one waits in the same function of the library, for work."""
    functions = (*TBB_WAIT, f"{TBB_QUEUE_OF_INT}::{done}", "produce")
    words = parked(functions, (9,), WINDOW * 9 // 10)
    at_2 = [replace(one, total=one.total._replace(value_2=1000)) for one in words]
    assert [known.make for known in recognise(at_2, set(), WINDOW) if known.lock] == (
        [TBB_QUEUE] if "push" in done else []
    )


def of_own(task: int, *functions: str) -> Calls:
    frames = (rows.Frame(1, "pthread_cond_wait", 0, LIBC), *(rows.Frame(2, name, 0, "/srv/shop") for name in functions))
    return Calls(task, functions, (), 10, 10, frames)


@pytest.mark.parametrize(
    ("waits", "wakes", "full"),
    [
        # Six producers and two consumers of C++: 16.0 s in 3 s.
        ("BoundedQueue::push", "BoundedQueue::pop", True),
        ("Queue<std::pair<int, Job>>::push_back(Job const&)", "Queue<std::pair<int, Job>>::pop_front()", True),
        ("shop::JobQueue::tryEnqueue", "shop::JobQueue::tryDequeue", True),
        ("ring_put", "ring_get", True),
        ("<shop::Ring<T>>::put", "<shop::Ring<T>>::take", True),
        ("void shop.Ring.putAll(shop.Job[])", "java.lang.Object shop.Ring.take()", True),
        ("ring_push_job_back", "ring_pop_job", True),
        # Of C++, what returns a std::string has a tag.
        ("Lines::push", "Lines::pop[abi:cxx11]", True),
        # Whoever takes makes room, whatever the other side is called.
        ("AsyncLogger::log", "AsyncLogger::take[abi:cxx11]", True),
        ("logq_append", "logq_take", True),
        ("audit::Sink<Line>::write(Line const&)", "audit::Sink<Line>::pop_front()", True),
        # They wait until all is taken; take themselves; of another class, of another queue; for what is taken by name.
        ("AsyncLogger::flush", "AsyncLogger::take", False),
        ("AsyncLogger::next", "AsyncLogger::take", False),
        ("Logger::log", "AsyncLogger::take", False),
        ("logger_append", "log_take", False),
        ("Client::call", "Client::take_answer", False),
        ("Client::call", "Client::receive", False),
        # Idle ones, that wait for work.
        ("BoundedQueue::pop", "BoundedQueue::push", False),
        # Of two queues; of nothing that has a name; who waits for an answer; a word that only looks like it.
        ("Orders::push", "Answers::pop", False),
        ("push", "pop", False),
        ("Client::send", "Client::receive", False),
        ("Store::output", "Store::getter", False),
        # Six threads that wait until a copy of what they stored is confirmed.
        ("Kv::put", "Kv::get_acks", False),
        ("", "", False),
    ],
)
def test_threads_that_put_into_a_full_queue_of_their_own(waits: str, wakes: str, full: bool) -> None:
    """The names tell which side waits: the kernel sees the same where workers wait for work."""
    entry = word(
        2,
        4096,
        wait_ns=5 * WINDOW,
        waits=tuple(of_own(task, waits, "work") for task in range(1, 7)),
        wakers_of=tuple(of_own(task, wakes, "work") for task in (8, 9)),
    )
    found = [known.make for known in recognise([entry], set(), WINDOW) if known.lock]
    assert found == ([OWN_QUEUE] if full else [])


def test_workers_that_take_a_job_and_wake_the_next_one_have_no_full_queue() -> None:
    """Who wakes in take() waits here as well, for work."""
    entry = word(
        2,
        4096,
        wait_ns=5 * WINDOW,
        waits=tuple(of_own(task, "Pool::work", "run") for task in range(1, 7)),
        wakers_of=tuple(of_own(task, "Pool::take", "run") for task in range(1, 7)),
    )
    assert not [known for known in recognise([entry], set(), WINDOW) if known.make == OWN_QUEUE]


WAIT = "ObjectMonitor::wait"
ENTER = "ObjectMonitor::enter"
AWAIT = f"{PACKAGE}.locks.AbstractQueuedSynchronizer$ConditionObject.await"
QUEUE_PUT, QUEUE_TAKE = "Shop$Jobs.put", "Shop$Jobs.take"


@pytest.mark.parametrize(
    ("waits", "wakes", "full"),
    [
        # Six producers and two consumers of Java, one at a time after notifyAll(): 22.8 s in 4 s.
        ((WAIT, QUEUE_PUT), (QUEUE_PUT, QUEUE_PUT, QUEUE_TAKE), True),
        ((AWAIT, QUEUE_PUT), (QUEUE_TAKE,), True),
        (("parking_lot::condvar::Condvar::wait_until_internal", "ring_push"), ("ring_pop",), True),
        # Those who wait for work, or for the lock.
        ((WAIT, QUEUE_TAKE), (QUEUE_TAKE, QUEUE_PUT), False),
        ((ENTER, QUEUE_PUT), (QUEUE_PUT, QUEUE_TAKE), False),
        # Nobody was seen to take; who stores waits until all is written, and who reads lets go of the lock at times.
        ((WAIT, QUEUE_PUT), (QUEUE_PUT,), False),
        ((WAIT, "Store.put"), ("Store.put", "Store.flush", "Store.get"), False),
    ],
)
def test_threads_that_put_each_at_a_word_of_its_own(waits: tuple[str, ...], wakes: tuple[str, ...], full: bool) -> None:
    """As in Java: who is woken lets the next one have the lock, and waits again."""
    words = [
        word(
            task,
            4096 * task,
            wait_ns=WINDOW * 9 // 10,
            waits=(of_own(task, *waits),),
            wakers_of=tuple(of_own(9 if wake != waits[-1] else task % 3 + 1, wake) for wake in wakes),
        )
        for task in (1, 2, 3)
    ]
    found = [(known.words, known.lock) for known in recognise(words, set(), WINDOW) if known.make == OWN_QUEUE]
    assert found == ([((1, 2, 3), True)] if full else [])


def test_threads_that_put_where_one_condition_serves_both_sides() -> None:
    """Whoever puts wakes others that put."""
    entry = word(
        2,
        4096,
        wait_ns=5 * WINDOW,
        waits=tuple(of_own(task, "Jobs::push", "work") for task in range(1, 7)),
        wakers_of=(*(of_own(task, "Jobs::push", "work") for task in range(1, 7)), of_own(8, "Jobs::pop", "work")),
    )
    assert [known.make for known in recognise([entry], set(), WINDOW) if known.lock] == [OWN_QUEUE]
