# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads of Python that wait in several functions, by one mode; each function adds up what it waits, by its own clock.

locks: three functions at one threading.Lock, which each holds over a sleep.  semaphore: six threads at a Semaphore of
two.  pool: six threads that share two connections, which a queue has.  barrier: four threads, of which one is late.
gil: two functions that compute.  It ends with a line on stdin, and prints a line of ns for each function.
"""

import queue
import sys
import threading
import time
from collections import defaultdict
from contextlib import AbstractContextManager

LOCK = threading.Lock()
SEMAPHORE = threading.Semaphore(2)
BARRIER = threading.Barrier(4)
CONNECTIONS: queue.Queue[int] = queue.Queue()
waited: defaultdict[str, int] = defaultdict(int)
stop = threading.Event()


def enter(guard: AbstractContextManager[object], function: str) -> None:
    begin = time.monotonic_ns()
    guard.__enter__()
    waited[function] += time.monotonic_ns() - begin


def book() -> None:
    enter(LOCK, "book")
    time.sleep(0.004)
    LOCK.release()


def cancel() -> None:
    enter(LOCK, "cancel")
    time.sleep(0.002)
    LOCK.release()


def look() -> None:
    enter(LOCK, "look")
    time.sleep(0.001)
    LOCK.release()


def borrow() -> None:
    with SEMAPHORE:
        time.sleep(0.004)


def acquire() -> int:
    begin = time.monotonic_ns()
    connection = CONNECTIONS.get()
    waited["acquire"] += time.monotonic_ns() - begin
    return connection


def query() -> None:
    connection = acquire()
    time.sleep(0.004)
    CONNECTIONS.put(connection)


def meet(late: bool) -> None:
    time.sleep(0.02 if late else 0.001)
    try:
        BARRIER.wait()
    except threading.BrokenBarrierError:
        stop.wait()


def compute(turns: int) -> int:
    return sum(range(turns))


def price() -> None:
    compute(30_000)


def rank() -> None:
    compute(10_000)


def run(mode: str, number: int) -> None:
    # Two threads of each of the first function, one of the others.
    functions = {"locks": (book, book, cancel, cancel, look, look), "gil": (price, price, rank, rank)}
    while not stop.is_set():
        if mode == "semaphore":
            borrow()
        elif mode == "pool":
            query()
        elif mode == "barrier":
            meet(number == 0)
        else:
            functions[mode][number]()


def main() -> None:
    mode = sys.argv[1]
    count = {"locks": 6, "semaphore": 6, "pool": 6, "barrier": 4, "gil": 4}[mode]
    for connection in range(2):
        CONNECTIONS.put(connection)
    threads = [threading.Thread(target=run, args=(mode, number)) for number in range(count)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.readline()
    stop.set()
    BARRIER.abort()
    for thread in threads:
        thread.join()
    for function, ns in sorted(waited.items()):
        print(function, ns)


main()
