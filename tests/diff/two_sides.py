# SPDX-License-Identifier: GPL-2.0-or-later
"""Files to compare: recordings of a known load, and numbers."""

import random
from collections.abc import Sequence
from pathlib import Path

from recording_generator import RecordingBuilder

SPINLOCK, MUTEX = 0, 3

# lock name -> (kind, waits per CPU and second, median wait in ns)
Load = dict[str, tuple[int, int, float]]

LOAD: Load = {
    "runqueues.__lock": (SPINLOCK, 60, 40_000),
    "futex_hash_bucket.lock": (SPINLOCK, 80, 40_000),
    "pipe_inode_info.mutex": (MUTEX, 2, 1_000),
}


def make_recording(
    path: Path, load: Load, seed: int, seconds: int = 16, cpus: int = 4, first_id: int = 1, **meta: object
) -> Path:
    """A recording of this load, the same in each second but for chance."""
    generator = random.Random(seed)
    builder = RecordingBuilder(path, seconds, cpus, meta)
    for lock, (name, (kind, waits, middle)) in enumerate(load.items(), first_id):
        builder.lock(lock, name)
        for interval in range(1, seconds + 1):
            for cpu in range(cpus):
                lengths = [int(middle * generator.lognormvariate(0, 0.3)) for _ in range(waits)]
                builder.waits(interval, cpu, lock, kind, lengths)
    return builder.finish()


def numbers(path: Path, values: Sequence[float], unit: str = "") -> Path:
    path.write_text("".join(f"{value} {unit}\n" for value in values))
    return path
