# SPDX-License-Identifier: GPL-2.0-or-later
"""Who waits for whom at the end of a recording: waits in progress for locks whose owner is known (record --futex)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lockline.base.values import dataclass
from lockline.recording import user_rows

# Where a thread waits for whatever comes next.  In a pool one does, with a mutex, and the others wait for their turn.
_FOR_EVENTS = frozenset(("ep_poll", "do_epoll_wait", "inet_csk_accept", "inet_csk_wait_for_connect"))
# Functions of the kernel in which threads wait for input: an idle worker sleeps there, and has the queue's mutex.
_FOR_INPUT = frozenset(
    (
        *_FOR_EVENTS,
        *("pipe_read", "anon_pipe_read", "fifo_pipe_read", "n_tty_read", "eventfd_read", "timerfd_read"),
        *("poll_schedule_timeout", "do_poll", "do_select"),
        *("wait_woken", "sk_wait_data", "tcp_recvmsg_locked"),
        *("__skb_wait_for_more_packets", "unix_stream_read_generic", "unix_stream_data_wait"),
        *("do_sigtimedwait", "do_msgrcv", "wq_sleep"),
    )
)
# Locks of one owner, each with a waiter of its own, from which on that is no chance.
_SEVERAL_LOCKS = 2


@dataclass(frozen=True, slots=True)
class BlockedThread:
    """A thread that has waited for over a second for a lock that another one, or itself, owns.

    age_ns: since the wait began, or since the recording did.  timed: it will give up by itself.  owned_ns: how long
    that owner was seen, 0: once.  owner_state: R, S, D...; owner_in: kernel function that it sleeps in; '': not known.
    """

    futex: user_rows.Futex
    tid: int
    tgid: int
    comm: str
    age_ns: int
    timed: bool
    owner: int
    owned_ns: int
    owner_comm: str
    owner_state: str
    owner_in: str

    @property
    def for_input(self) -> bool:
        """Whether the owner waits for input: it may be the next job."""
        return self.owner_state == "S" and self.owner_in in _FOR_INPUT

    @property
    def for_events(self) -> bool:
        """Whether it waits for whatever comes next, as one of a pool does while the others wait for their turn."""
        return self.owner_state == "S" and self.owner_in in _FOR_EVENTS


@dataclass(frozen=True, slots=True)
class Cycle:
    """Threads each of which waits for the next, the last for the first; behind: others that wait for one of them."""

    threads: tuple[BlockedThread, ...]
    behind: tuple[BlockedThread, ...]


@dataclass(frozen=True, slots=True)
class Standstill:
    """Threads that wait, directly or behind others of them, for one that itself waits for no known lock."""

    owner: int
    threads: tuple[BlockedThread, ...]  # those that wait for the owner's own locks first, then by age

    @property
    def direct(self) -> tuple[BlockedThread, ...]:
        """Those that wait for a lock of the owner's own."""
        return tuple(thread for thread in self.threads if thread.owner == self.owner)


def kept_idle(blocked: Iterable[BlockedThread]) -> frozenset[int]:
    """Ids of locks by which idle threads are kept: a thread holds several, and waits for input.

    At each of them one thread waits, for which it is (io_threads_mutex of Redis).  Behind a lock that was forgotten all
    who need it wait.
    """
    by_owner: defaultdict[int, defaultdict[int, list[BlockedThread]]] = defaultdict(lambda: defaultdict(list))
    owners = set()
    for thread in blocked:
        by_owner[thread.owner][thread.futex.id].append(thread)
        owners.add(thread.tid)
    found: set[int] = set()
    for owner, locks in by_owner.items():
        waits = [thread for at in locks.values() for thread in at]
        alone = all(len(at) == 1 for at in locks.values()) and len(locks) >= _SEVERAL_LOCKS
        if alone and owner not in owners and all(one.for_input and not one.futex.shared for one in waits):
            found.update(locks)
    return frozenset(found)


def _behind(roots: Iterable[int], waiting: Mapping[int, Sequence[BlockedThread]]) -> tuple[BlockedThread, ...]:
    """All who wait for these threads, or for one who does: the nearest first, then the oldest."""
    found: list[BlockedThread] = []
    seen = set(roots)
    nearest = list(seen)
    while nearest:
        rank = [thread for owner in nearest for thread in waiting.get(owner, ()) if thread.tid not in seen]
        rank.sort(key=lambda thread: (-thread.age_ns, thread.tid))
        found += rank
        nearest = [thread.tid for thread in rank]
        seen.update(nearest)
    return tuple(found)


def who_waits_for_whom(blocked: Iterable[BlockedThread]) -> tuple[tuple[Cycle, ...], tuple[Standstill, ...]]:
    """The cycles, which nothing but a timeout ends, and the standstills; most threads first.  A thread waits once."""
    by_tid = {thread.tid: thread for thread in blocked}
    waiting: defaultdict[int, list[BlockedThread]] = defaultdict(list)
    for thread in by_tid.values():
        waiting[thread.owner].append(thread)
    cycles: list[Cycle] = []
    looked_at: set[int] = set()
    for start in by_tid:
        path: dict[int, BlockedThread] = {}
        tid = start
        while tid in by_tid and tid not in path and tid not in looked_at:
            path[tid] = by_tid[tid]
            tid = by_tid[tid].owner
        if tid in path:
            members = list(path)
            threads = tuple(path[member] for member in members[members.index(tid) :])
            cycles.append(Cycle(threads, _behind((thread.tid for thread in threads), waiting)))
        looked_at.update(path)
    roots = sorted(owner for owner in waiting if owner not in by_tid)
    standstills = [Standstill(root, _behind([root], waiting)) for root in roots]
    return (
        tuple(sorted(cycles, key=lambda cycle: -len(cycle.threads) - len(cycle.behind))),
        tuple(sorted(standstills, key=lambda still: -len(still.threads))),
    )
