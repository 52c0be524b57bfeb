# SPDX-License-Identifier: GPL-2.0-or-later
"""The graph of who waits for whom, of all steps together."""

from lockline.analysis.waitgraph import Flow, Node, WaitGraph, merged, solve
from lockline.analysis.waitgraph_of import ASLEEP, CPU
from lockline.investigation.chain import waits_for
from lockline.investigation.model import Holders, Investigation, UserLockSeen


def _of_looks(known: Investigation, lock: UserLockSeen, holders: Holders) -> Flow:
    """What the likely holder of a program's lock did, by looks at all threads of its process."""
    node = Node("user lock", lock.name or lock.mapping, f"{lock.tgid}:{lock.address:x}")
    holder = Node("holder", node.name, node.of)
    asleep = holders.sleeping + holders.disk
    behind = next(
        (
            of.name
            for _, seen in known.observations
            for of in seen.locks
            if not of.spinning
            and of.process is not None
            and of.process.tgid == lock.tgid
            and holders.sleeps_in
            and waits_for(holders.sleeps_in, of)
        ),
        None,
    )
    named = Node("sleep", holders.sleeps_in) if holders.sleeps_in else ASLEEP
    target = Node("lock", behind) if behind is not None else named
    delayed = holders.running * (holders.delayed or 0.0)
    part = holders.sleeps_part
    passes = {
        (node, holder): lock.waiters,
        (holder, target): asleep * part,
        (holder, CPU): delayed,
    }
    if part < 1:
        passes[holder, ASLEEP] = passes.get((holder, ASLEEP), 0.0) + asleep * (1 - part)
    return Flow(
        {}, {pair: threads for pair, threads in passes.items() if threads > 0}, {holder: holders.running - delayed}
    )


def graph_of(known: Investigation) -> WaitGraph:
    """Where all waiting comes to in the end, as far as the steps know."""
    flows = [seen.flow for _, seen in known.observations if not seen.not_enough]
    locks = [lock for _, seen in known.observations for lock in seen.user_locks[:1]]
    looks = [seen.holders for _, seen in known.observations if seen.holders is not None and seen.holders.known]
    if locks and looks:
        # The looks are at the process whose lock stood out.
        flows.append(_of_looks(known, locks[-1], looks[-1]))
    critical = max((seen.critical for _, seen in known.observations), key=len, default=())
    return solve(merged(flows), critical)
