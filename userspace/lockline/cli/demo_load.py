# SPDX-License-Identifier: GPL-2.0-or-later
"""The demo's load: threads of one process that map memory, touch it and unmap it, until the process is ended.

mmap and munmap change the map of the process under its mmap_lock: all other threads wait for it.  True on every kernel,
with one CPU too (whoever is preempted holds the lock), and needs no privileges and no program but Python.
"""

import ctypes
import mmap
import os
import signal
import threading

BYTES = 1 << 20


def _map_and_unmap(libc: ctypes.CDLL) -> None:
    """Never returns; ctypes lets the other threads run meanwhile."""
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    # MAP_POPULATE of include/uapi/asm-generic/mman-common.h, which Python names from 3.10 on.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x8000
    while True:
        libc.munmap(libc.mmap(None, BYTES, protection, flags, -1, 0), BYTES)


def main() -> None:
    """One thread for each CPU, at least four."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    for _ in range(max(4, min(16, os.cpu_count() or 1))):
        threading.Thread(target=_map_and_unmap, args=(libc,), daemon=True).start()
    signal.pause()


if __name__ == "__main__":
    main()
