# SPDX-License-Identifier: GPL-2.0-or-later
"""What a thread waits for, by the kernel function that it sleeps in (/proc/PID/wchan)."""

from collections.abc import Mapping
from itertools import chain
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["file-lock", "semaphore"]

# fs/locks.c and ipc/sem.c of 5.10 to 7.x, with what compilers fold into one another.
_KINDS: Mapping[str, Kind] = {
    "locks_lock_inode_wait": "file-lock",
    "flock_lock_inode_wait": "file-lock",
    "posix_lock_inode_wait": "file-lock",
    "do_lock_file_wait": "file-lock",
    "fcntl_setlk": "file-lock",
    "fcntl_setlk64": "file-lock",
    "__do_sys_flock": "file-lock",
    "__break_lease": "file-lock",
    "nfs4_proc_lock": "file-lock",
    "nlmclnt_block": "file-lock",
    "do_semtimedop": "semaphore",
    "__do_semtimedop": "semaphore",
    "do_semop": "semaphore",
}
# Where the kernel keeps a thread that is stopped: kernel/signal.c, kernel/freezer.c, kernel/cgroup/freezer.c.
StopKind: TypeAlias = Literal["signal", "tracer", "frozen"]
_STOPS: Mapping[str, StopKind] = {
    "do_signal_stop": "signal",
    "ptrace_stop": "tracer",
    "do_freezer_trap": "frozen",
    "__refrigerator": "frozen",
}
_STOPPED: Mapping[StopKind, str] = {
    "signal": "stopped by a signal: kill -CONT lets it go on",
    "tracer": "stopped by who traces it",
    "frozen": "its control group is frozen",
}
# For a signal: kernel/signal.c.
_SIGNALS = ("sigsuspend", "__do_sys_rt_sigsuspend")
FREE_MEMORY = "free memory"
# What is no lock, by how the function's name begins.  Here what others are slow to do, or short of.
_SLOW: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("pipe_write", "anon_pipe_write", "fifo_pipe_write", "pipe_wait_writable"),
        "a pipe is full: its reader is slower",
    ),
    (
        ("sk_stream_wait_memory", "unix_wait_for_peer", "sock_wait_for_wmem", "sock_alloc_send_pskb"),
        "a socket's buffer is full: its reader is slower",
    ),
    (("folio_wait", "__folio_lock", "wait_on_page", "__lock_page", "__folio_wait"), "a page that is read or written"),
    (
        ("jbd2_", "wait_transaction", "add_transaction_credits", "start_this_handle", "xlog_", "xfs_log", "xfs_trans"),
        "the file system's journal",
    ),
    (("wait_current_trans", "btrfs_commit", "wait_for_commit", "btrfs_wait"), "the file system's transaction"),
    (("balance_dirty_pages",), "the disk takes written pages too slowly (vm.dirty_ratio)"),
    (
        (
            "io_schedule",
            "__iomap_dio",
            "iomap_dio",
            "__blockdev_direct_IO",
            "submit_bio_wait",
            "blk_",
            "blkdev_",
            "bio_",
            "rq_qos_wait",
            "__wait_on_buffer",
            "ext4_read_bh",
            "__ext4_sb_bread",
            "__bread_gfp",
            "__sync_dirty_buffer",
            "sync_dirty_buffer",
        ),
        "the disk",
    ),
    (("reclaim_throttle", "throttle_direct_reclaim", "mem_cgroup_handle_over_high", "shrink_"), FREE_MEMORY),
    (("handle_userfault",), "a page that a program hands over (userfaultfd)"),
    # fs/fuse/dev.c, file.c: not fuse_dev_do_read(), in which that program itself waits for work.
    (
        (
            *("request_wait_answer", "__fuse_request_send", "__fuse_simple_request", "fuse_simple_request"),
            *("fuse_get_req", "fuse_wait_on_page", "fuse_wait_on_folio", "fuse_set_nowrite", "fuse_sync_writes"),
        ),
        "a file system's own program (FUSE)",
    ),
    (("rpc_", "nfs"), "a file server (NFS)"),
    (("do_msgsnd",), "a message queue is full"),
    (("__wait_rcu_gp", "synchronize_rcu", "synchronize_srcu"), "an RCU grace period"),
)
_SLOW_NAMES = tuple(chain.from_iterable(names for names, _ in _SLOW))
# And here what somebody else decides.
_OTHERS: tuple[tuple[tuple[str, ...], str], ...] = (
    *_SLOW,
    # ipc/mqueue.c: of a full queue, or of an empty one.
    (("wq_sleep", "do_mq_timedsend"), "a message queue is full, or empty (POSIX)"),
    (("kernel_clone", "wait_for_vfork_done"), "a child that vfork() started, until it runs a program or ends"),
    (_SIGNALS, "a signal (some run times stop all threads like this, to collect garbage)"),
    # Where not all mutexes of the kernel are such: PI futexes.
    (("rt_mutex_", "__rt_mutex_"), "a mutex with priority inheritance"),
)
# A thread that asks for the time that it sleeps: kernel/time/hrtimer.c.
_NAPS = ("hrtimer_nanosleep", "do_nanosleep", "common_nsleep")
# Where it waits for a futex, for a lock of its program or for work: kernel/futex/ of 5.10 to 7.x.
_FUTEX_WAITS = ("futex_wait_queue", "futex_do_wait", "futex_wait", "__futex_wait", "do_futex")
# For a client, for input or for a child.
_INPUTS = (
    *("ep_poll", "do_epoll_wait", "do_poll", "do_sys_poll", "poll_schedule_timeout", "do_select", "inet_csk_accept"),
    *("unix_accept", "skb_wait_for_more_packets", "__skb_wait_for_more_packets", "unix_stream_read", "unix_dgram_recv"),
    *("sk_wait_data", "tcp_recvmsg", "pipe_read", "anon_pipe_read", "wait_for_partner", "n_tty_read", "inotify_read"),
    *("eventfd_read", "signalfd_dequeue", "timerfd_read", "do_wait", "kernel_wait4", "do_sigtimedwait", "sigsuspend"),
    *("do_msgrcv", "io_cqring_wait", "fuse_dev_do_read", "read_events"),
    *("do_syslog", "syslog_print", "ptrace_", "__do_sys_pause"),
)


def kind_of(function: str) -> Kind | None:
    """The kind of lock that a thread in this kernel function waits for; None if it is for none of these."""
    return _KINDS.get(function.partition(".")[0])


def other_of(function: str) -> str:
    """What a thread in this kernel function waits for, if that is no lock and worth telling; else ''."""
    stop = stop_of(function)
    if stop is not None:
        return _STOPPED[stop]
    return next((words for names, words in _OTHERS if function.startswith(names)), "")


def is_slow(function: str) -> bool:
    """Whether a thread in this kernel function waits for what others are slow to do or short of: that is no lock."""
    return function.startswith(_SLOW_NAMES)


def stop_of(function: str) -> StopKind | None:
    """Why a thread in this kernel function is stopped; None: it is not."""
    return _STOPS.get(function.partition(".")[0])


def waits_for_signal(function: str) -> bool:
    """Whether a thread in this kernel function waits for a signal: an only thread, as a shell's, for its child."""
    return function.startswith(_SIGNALS)


def is_nap(function: str) -> bool:
    """Whether a thread in this kernel function sleeps for a time that it has chosen."""
    return function.startswith(_NAPS)


def reads_pipe(function: str) -> bool:
    """Whether a thread in this kernel function waits for a byte in a pipe."""
    return function.startswith(("pipe_read", "anon_pipe_read"))


def waits_for_futex(function: str) -> bool:
    """Whether a thread in this kernel function waits for a futex."""
    return function.partition(".")[0] in _FUTEX_WAITS


def is_input(function: str) -> bool:
    """Whether a thread in this kernel function waits for a client, for input or for a child."""
    return function.startswith(_INPUTS)
