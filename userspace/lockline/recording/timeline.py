# SPDX-License-Identifier: GPL-2.0-or-later
"""Long waits, and what went on around them."""

from collections.abc import Iterator, Sequence

from lockline.recording.conditions import among, between, either, equal
from lockline.recording.reader import Recording
from lockline.recording.rows import Episode, TimelineRow


def episodes(recording: Recording, most: int) -> Iterator[Episode]:
    """What ended a flight, then waits in progress, then the longest waits."""
    order = "state = 'moment' DESC, state = 'in progress' DESC, wait_ns DESC, begin_ns"
    return recording.table(Episode, order=order, limit=most)


def timeline(recording: Recording, from_ns: int, to_ns: int, lock: int, most: int) -> Iterator[TimelineRow]:
    """What happened from one time to another, without events of other locks; oldest first."""
    order = "time_ns, cpu, sequence"
    return recording.table(
        TimelineRow, between("time_ns", from_ns, to_ns), among("lock", (0, lock)), order=order, limit=most
    )


def last_switches(
    recording: Recording, from_ns: int, to_ns: int, tasks: Sequence[int], most: int
) -> Iterator[TimelineRow]:
    """Switches and wake-ups of these tasks from one time to another, newest first."""
    return recording.table(
        TimelineRow,
        between("time_ns", from_ns, to_ns),
        either(equal("type", "switch"), equal("type", "wakeup")),
        either(among("task", tasks), among("other", tasks)),
        order="time_ns DESC, cpu, sequence",
        limit=most,
    )
