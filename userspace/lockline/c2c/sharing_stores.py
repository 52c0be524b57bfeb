# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of sharing a line's cost is, where no store of it was sampled: somebody writes it, nobody knows where."""

from lockline.c2c.functions import is_lock_function
from lockline.c2c.model import Part
from lockline.c2c.sharing_model import BOTH, MEMBER, RECORD_STORES, SATURATED, THREADS, WHOLE_TEXT, Sharing
from lockline.c2c.users import apart, elsewhere, repeated, same_code, several

# Two members that are used together do not both pay so much: the first finds the line, the second has it.
BOTH_PAY = 0.3
# Nor do both pay as often when they are accessed: so much less often is as often, as samples go.
AS_OFTEN = 0.5
# One or two samples may be mistaken ones.
LEAST_PAID = 3


def unseen_writes(used: list[Part]) -> Sharing:
    """No store was sampled: somebody writes the line, and it is not known where."""
    fought = [part for part in used if part.share >= MEMBER]
    pairs = [(one, other) for index, one in enumerate(fought) for other in fought[index + 1 :]]
    told = all(part.counts.stores is not None for part in fought)
    missing = (
        f"stores were not sampled, or hardly, so it is not known which bytes are written; {RECORD_STORES}"
        if told
        else f"the stores of each offset are not known, so neither are the bytes that are written; {WHOLE_TEXT}"
    )
    alone = all(part.users.alone for part in fought) and repeated(part.users for part in fought)
    known = all(part.users.threads for part in fought)
    if pairs and _saturated(fought) and all(several(part.users) for part in fought):
        # Several may write to each: how much of the waiting is for their own bytes, no sample says.
        why = "nearly all loads wait, and several users have each member: they may wait for each other's writes to it"
        return Sharing("open", "likely", tuple(fought), "", None, f"{why}; {missing}")
    # Each end of a queue, or of a mailbox, is written by one side and read by the other.
    ends = len(fought) == 2 and all(part.users.alone for part in fought) and not _same_code(fought)
    exchange = f"two users may exchange data so, each of which reads what the other one writes; {missing}"
    if pairs and all(apart(one.users, other.users) for one, other in pairs):
        reason = "nobody uses more than one of them, and each pays"
        # Without stores the text shows a row only if it pays: others may use these bytes and pay nothing.  That each
        # of many users pays at bytes of its own is no accident.  A file (which tells LOCK bits) has all rows.
        rows = [access for part in fought for access in part.accesses]
        listed = any(not row.transfers or row.counts.locked is not None for row in rows)
        own = len(fought) > 2 and alone
        if ends:
            return Sharing("false", "likely", tuple(fought), reason, None, exchange)
        return Sharing("false", "shown" if listed or own else "likely", tuple(fought), reason, None)
    if pairs and alone:
        reason = "one user alone has each of them, and each pays for another one's writes"
        cpus = {part.users.cpus for part in fought}
        if len(cpus) == 1 and None not in cpus:
            why = "one user has all of them, and whether others write to them or beside them is not known"
            return Sharing("open", "likely", tuple(fought), "", None, f"{why}; {missing}")
        if ends:
            return Sharing("false", "likely", tuple(fought), reason, None, exchange)
        same = f"one user that has all of them, and reads what others write, looks the same; {THREADS}"
        return Sharing("false", "likely", tuple(fought), reason, None, same)
    often = max((_rate(part) for part in fought), default=0.0)
    paying = [
        part
        for part in fought
        if part.cost >= LEAST_PAID
        and (part.share >= BOTH_PAY or (part.share >= BOTH and _rate(part) >= AS_OFTEN * often))
    ]
    strangers = all(elsewhere(one.accesses, other.accesses) and not _of_locks(one, other) for one, other in pairs)
    if len(paying) > 1 and not known and strangers:
        reason = "different code pays at each of them; of members used together the first alone would pay"
        return Sharing("false", "likely", tuple(fought), reason, None, missing)
    return Sharing("open", "likely", tuple(fought), "", None, missing)


def _saturated(parts: list[Part]) -> bool:
    """Whether nearly all loads pay, as far as these are told."""
    rows = [row for part in parts for row in part.accesses]
    told = all(row.counts.loads is not None or row.counts.records is not None for row in rows)
    return told and sum(part.cost for part in parts) >= SATURATED * sum(row.found for row in rows)


def _same_code(parts: list[Part]) -> bool:
    """Whether some function works at both of two members."""
    return same_code(parts[0].accesses, parts[1].accesses)


def _rate(part: Part) -> float:
    """Of the accesses to a member, those that pay."""
    return part.cost / max(1, part.counts.records or 0)


def _of_locks(one: Part, other: Part) -> bool:
    """Whether functions of locks use both, as they use a lock's words together."""
    return all(any(is_lock_function(access.code.symbol) for access in part.accesses) for part in (one, other))
