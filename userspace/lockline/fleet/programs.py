# SPDX-License-Identifier: GPL-2.0-or-later
"""Which locks of programs cost a fleet most.  They are ranked, and not judged: few hosts are recorded with them."""

import math
from collections import defaultdict

from lockline.diff.model import MAX_JUDGED
from lockline.fleet.compare import spread
from lockline.fleet.model import ProgramLock, Programs
from lockline.fleet.sums import Sums, by_host

_Lock = tuple[str, str, str]


def _of_units(sums: Sums, listed: list[_Lock]) -> dict[_Lock, dict[int, float]]:
    sums.engine.put("ranked", tuple((name, "VARCHAR") for name in ("program", "lock", "code")), listed)
    found: defaultdict[_Lock, dict[int, float]] = defaultdict(dict)
    for unit, program, lock, code, ns in sums.engine.run("program_units"):
        found[program, lock, code][unit] = float(ns)
    return found


def ranked_programs(sums: Sums, now: str, before: str, worst_hosts: int) -> Programs | None:
    """The locks of programs with most waiting; now, before: sides.  None if no recording looked at programs."""
    times = {int(unit): float(ns) for unit, ns in sums.engine.run("program_time")}
    numbers = [number for number in sums.numbers(now) if number in times]
    time = math.fsum(times[number] for number in numbers)
    if not time:
        return None
    time_before = math.fsum(ns for number, ns in times.items() if sums.units[number].side == before)
    rows = sums.engine.run("program_locks")
    earlier = {(program, lock, code): float(ns) for side, program, lock, code, ns, *_ in rows if side == before}
    found = [row for row in rows if row[0] == now]
    waited = _of_units(sums, [row[1:4] for row in found[:MAX_JUDGED]])
    locks = []
    for _, program, lock, code, ns, waits, wait_ns, max_ns, hosts in found[:MAX_JUDGED]:
        shares = by_host(sums.units, numbers, waited.get((program, lock, code), {}), times)
        locks.append(
            ProgramLock(
                program,
                lock,
                code,
                share=float(ns) / time,
                waits=int(waits),
                wait_ns=int(wait_ns),
                max_ns=int(max_ns),
                hosts=int(hosts),
                spread=spread(shares, worst_hosts),
                before=earlier.get((program, lock, code), 0.0) / time_before if time_before else None,
            )
        )
    hosts = len({sums.units[number].host for number in numbers})
    share = math.fsum(float(row[4]) for row in found) / time
    return Programs(hosts, time, share, len(found), tuple(locks))
