# SPDX-License-Identifier: GPL-2.0-or-later
"""Four threads of Python: contended (they take turns at the GIL), idle (wait for a queue), split (one computes).

Prints "ready", runs until a line or the end of its input, then prints its counters.
"""

import queue
import sys
import threading
import time
from pathlib import Path

THREADS = 4


def ran():
    """Nanoseconds that this thread has run, and waited for a CPU."""
    return sum(map(int, Path("/proc/thread-self/schedstat").read_text().split()[:2]))


def compute(stop, counts, waited, index, begun):
    """Compute, and count; what it neither ran nor waited for a CPU, it waited for the GIL, from its start on."""
    turns = 0
    while not stop.is_set():
        for _ in range(1000):
            turns += 1
    own = ran()  # which waits for the GIL, too
    waited[index] = time.monotonic_ns() - own - begun
    counts[index] = turns


def serve(jobs, counts, index):
    """Wait for jobs."""
    while jobs.get() is not None:
        counts[index] += 1


def main():
    mode = sys.argv[1]
    stop = threading.Event()
    counts = [0] * THREADS
    waited = [0] * THREADS
    jobs = queue.Queue()
    if mode == "idle":
        threads = [threading.Thread(target=serve, args=(jobs, counts, i)) for i in range(THREADS)]
    else:
        many = THREADS if mode == "contended" else 1
        begun = time.monotonic_ns()
        threads = [threading.Thread(target=compute, args=(stop, counts, waited, i, begun)) for i in range(many)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    if mode == "idle":

        def feed():
            while not stop.is_set():
                time.sleep(0.01)
                jobs.put(1)

        feeder = threading.Thread(target=feed)
        feeder.start()
    sys.stdin.readline()
    stop.set()
    if mode == "idle":
        feeder.join()
        for _ in threads:
            jobs.put(None)
    for thread in threads:
        thread.join()
    print("turns", sum(counts))
    if mode == "contended":
        print(f"waits {sum(counts)}\nwait_ns {sum(waited)}")


main()
