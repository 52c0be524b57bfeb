# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of programs (record --futex) of one recording, by names that they have on every host."""

from collections import defaultdict
from collections.abc import Iterator

from lockline.analysis.model import Report
from lockline.analysis.user_space.critical_sections import waited_in
from lockline.analysis.user_space.futex_waits import FutexWaits
from lockline.analysis.user_space.java_locks import object_class
from lockline.analysis.user_space.user_evidence import (
    BEHAVIOUR,
    GIL,
    OCAML_LOCK,
    OCAML_STOP,
    PY_STOP,
    PYPY_GIL,
    ROW_LOCK,
    RUBY_GVL,
    TABLE_LOCK,
    is_waiters_own,
)
from lockline.fleet.tables import Row
from lockline.render.screen_locks import user_lock_name, user_locks

# A process has one of each at most, or they are shown as one.
_ONE = (GIL, PYPY_GIL, PY_STOP, RUBY_GVL, OCAML_LOCK, OCAML_STOP, ROW_LOCK, TABLE_LOCK)


def _named(futex: FutexWaits) -> tuple[str, str]:
    """What a lock is called on each host, and '' or the code that tells it from others of that name.

    An address is another one in each process.  The name of a variable, the class of an object and the function that
    waits are the program's.
    """
    if object_class(futex) or futex.make in _ONE:
        return user_lock_name(futex), ""
    if futex.futex.name and not is_waiters_own(futex.make):
        return futex.futex.name, ""
    make = futex.make if futex.make != BEHAVIOUR else ""
    return make or "lock", waited_in(futex) or futex.futex.object.rpartition("/")[2]


def program_locks(report: Report, hour: int) -> Iterator[Row]:
    """Rows of the table; processes of one name are one program."""
    found: defaultdict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for futex in user_locks(report):
        lock, code = _named(futex)
        sums = found[futex.futex.comm or "?", lock, code]
        sums[0] += futex.figures.waits + futex.total.open_waits
        sums[1] += futex.waited_ns
        sums[2] = max(sums[2], futex.longest_ns)
    for key, sums in sorted(found.items()):
        if sums[1]:
            yield (hour, *key, *sums)
