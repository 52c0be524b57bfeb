# SPDX-License-Identifier: GPL-2.0-or-later
"""Of Python: processes (turns by a multiprocessing.Lock), lock (threads do), semaphore (two at a time), pool (idle).

Prints "ready", and runs until a line or the end of its input.
"""

import concurrent.futures
import hashlib
import multiprocessing
import os
import sys
import threading
import time

DATA = b"x" * 400_000


def compute():
    """Without the GIL."""
    hashlib.sha256(DATA).digest()


def turns(lock):
    """Compute, as many at a time as it lets in."""
    while True:
        with lock:
            compute()


def feed():
    """Little work for a pool."""
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        while True:
            pool.submit(compute)
            time.sleep(0.01)


def main():
    mode = sys.argv[1]
    if mode == "pool":
        threading.Thread(target=feed, daemon=True).start()
    elif mode == "lock":
        lock = threading.Lock()
        for _ in range(5):
            threading.Thread(target=turns, args=(lock,), daemon=True).start()
    elif mode == "semaphore":
        semaphore = threading.Semaphore(2)
        for _ in range(6):
            threading.Thread(target=turns, args=(semaphore,), daemon=True).start()
    else:
        lock = multiprocessing.Lock()
        for _ in range(5):
            multiprocessing.Process(target=turns, args=(lock,), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.readline()
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)


main()
