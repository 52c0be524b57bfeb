# SPDX-License-Identifier: GPL-2.0-or-later
"""Types as `lockline-collect types` prints them, written down by hand from kernel headers (6.1 and 6.18, x86-64)."""

import json
from collections.abc import Sequence
from typing import Any

from lockline.c2c.members import Types, parse_types


def member(name: str, offset: int, size: int, type_: str, struct: str = "", **more: int) -> dict[str, Any]:
    """A member; struct: id of its type."""
    value: dict[str, Any] = {"name": name, "offset": offset, "size": size, "type": type_, **more}
    return {**value, "struct": struct} if struct else value


def struct(name: str, size: int, *members: dict[str, Any], kind: str = "struct") -> dict[str, Any]:
    """A structure or union."""
    return {"kind": kind, "name": name, "size": size, "members": list(members)}


def function(*parameters: str, returns: str = "") -> dict[str, Any]:
    """A function; the ids of structures that its parameters point to."""
    return {
        "parameters": [{"name": f"p{number}", "type": "", "struct": id_} for number, id_ in enumerate(parameters)],
        "returns": {"type": "void", **({"struct": returns} if returns else {})},
    }


COMMON = {
    "atomic": struct("", 4, member("counter", 0, 4, "int")),
    "list": struct(
        "list_head", 16, member("next", 0, 8, "struct list_head *"), member("prev", 8, 8, "struct list_head *")
    ),
    "plist": struct("plist_head", 16, member("node_list", 0, 16, "struct list_head", "list")),
    "node": struct(
        "plist_node",
        40,
        member("prio", 0, 4, "int"),
        member("prio_list", 8, 16, "struct list_head", "list"),
        member("node_list", 24, 16, "struct list_head", "list"),
    ),
    "qspin": struct("qspinlock", 4, member("val", 0, 4, "atomic_t", "atomic")),
    "rawspin": struct("raw_spinlock", 4, member("raw_lock", 0, 4, "arch_spinlock_t", "qspin")),
    "spin_union": struct("", 4, member("rlock", 0, 4, "struct raw_spinlock", "rawspin"), kind="union"),
    "spin": struct("spinlock", 4, member("", 0, 4, "union", "spin_union")),
    "rwsem": struct(
        "rw_semaphore",
        40,
        member("count", 0, 8, "atomic_long_t", "atomic64"),
        member("owner", 8, 8, "atomic_long_t", "atomic64"),
        member("osq", 16, 4, "struct optimistic_spin_queue", "atomic"),
        member("wait_lock", 20, 4, "raw_spinlock_t", "rawspin"),
        member("wait_list", 24, 16, "struct list_head", "list"),
    ),
    "atomic64": struct("", 8, member("counter", 0, 8, "s64")),
    # Two zones in an array, a bit field, a flexible array at the end.
    "zone": struct(
        "zone",
        128,
        member("watermark", 0, 32, "unsigned long[4]", count=4, stride=8),
        member("lock", 64, 4, "spinlock_t", "spin"),
    ),
    "node_data": struct(
        "pglist_data",
        384,
        member("node_zones", 0, 256, "struct zone[2]", "zone", count=2, stride=128),
        member("flags", 256, 1, "unsigned int", bit_offset=0, bit_size=3),
        member("rest", 264, 0, "unsigned long[0]", count=0, stride=8),
    ),
    "counter": struct(
        "page_counter",
        64,
        member("usage", 0, 8, "atomic_long_t", "atomic64"),
        member("min", 8, 8, "unsigned long"),
        member("low", 16, 8, "unsigned long"),
    ),
}


def bucket(private: bool) -> dict[str, Any]:
    """futex_hash_bucket; private: with the pointer that 6.16 added and 7.2 took away."""
    members = [
        member("waiters", 0, 4, "atomic_t", "atomic"),
        member("lock", 4, 4, "spinlock_t", "spin"),
        member("chain", 8, 16, "struct plist_head", "plist"),
    ]
    if private:
        members.append(member("priv", 24, 8, "struct futex_private_hash *"))
    return struct("futex_hash_bucket", 64, *members)


FUNCTIONS = {
    "futex_q_unlock": function("bucket"),
    "futex_q_lock": function("futex_q", returns="bucket"),
    "futex_wake": function(),
    "__futex_unqueue": function("futex_q"),
    "plist_add": function("node", "plist"),
    "plist_del": function("node", "plist"),
    "native_queued_spin_lock_slowpath": function("qspin"),
    "_raw_spin_lock": function("rawspin"),
    "page_counter_try_charge": function("counter"),
}


def types(private: bool = True, foreign: str = "", leave_out: Sequence[str] = ()) -> Types:
    """Types of the futex code, without some functions."""
    structs = {
        **COMMON,
        "bucket": bucket(private),
        "futex_q": struct(
            "futex_q",
            112,
            member("list", 0, 40, "struct plist_node", "node"),
            member("task", 40, 8, "struct task_struct *"),
            member("lock_ptr", 64, 8, "spinlock_t *"),
        ),
        "rq": struct(
            "rq", 3584, member("__lock", 0, 4, "raw_spinlock_t", "rawspin"), member("nr_running", 4, 4, "unsigned int")
        ),
    }
    document = {
        "schema": "lockline-types/1",
        "pointer_size": 8,
        "functions": {name: value for name, value in FUNCTIONS.items() if name not in leave_out},
        "variables": {"runqueues": {"size": 3584, "type": "struct rq", "struct": "rq"}},
        "structs": structs,
    }
    return parse_types(json.dumps(document), foreign)
