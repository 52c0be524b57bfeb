# SPDX-License-Identifier: GPL-2.0-or-later
"""Stacks without what the probe put there, and the caller that a lock's own functions hide."""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockline.recording.rows import Frame

_PROBE = (
    r"ftrace_trampoline"
    r"|bpf_(prog_[0-9a-f]{16}_\w*|trampoline_\d+\w*|trace_run\d+|get_stack\w*|stack_walk\w*)|__bpf_(prog|trace)_\w+"
    r"|(__traceiter|trace|__probestub|perf_trace)_contention_\w+"
)

# The functions that take locks, wait for them or release them.  With the wrappers below it is what
# symbol_is_lock_internal() of the collector has, but for the probe and the scheduler.
_INTERNAL = (
    r"_*(raw_callee_save_+)?(pv_|native_)?queued_(spin|read|write)_(try)?(un)?lock\w*"
    r"|_*raw_(spin|read|write)_(try)?(un)?lock\w*|do_raw_\w*lock\w*"
    r"|resilient_\w*_lock\w*|rqspinlock_\w+|_*bpf_(res_)?spin_\w+|rust_helper_(spin|mutex)_\w+"
    r"|_*mutex_(try)?(un)?lock\w*|__mutex_\w+|mutex_(optimistic_)?spin\w*|osq_\w+|_*ww_mutex_\w+|__ww_rt_mutex_\w+"
    r"|_*(down|up)(_(read|write|interruptible|killable|timeout|trylock)\w*)?|__down_common|___down_common|downgrade_write"
    r"|rwsem_\w+|__rwsem_\w+|percpu_(down|up|rwsem)_\w+|__percpu_(down|up|rwsem)_\w+|_*ldsem_\w+"
    r"|_*rt_mutex_\w+|rt_(spin|read|write)_(try)?(un)?lock\w*|_*rtlock_\w+|rwbase_\w+|__rwbase_\w+"
    r"|(try_to_take|task_blocks_on|__try_to_take)_rt_mutex|mark_wakeup_next_waiter|mcs_spin_\w+"
    r"|kvm_wait|pv_wait\w*|__pv_\w+"
)
# Thin wrappers around one lock, whose callers tell more: of wait queues, counters with a lock, run queues, consoles.
_WRAPPER = (
    r"lockref_\w+|_?(atomic|refcount)_dec_and_\w+|_?raw_spin_rq_\w+|(__)?task_rq_lock|double_rq_lock"
    r"|lock_(hr)?timer_base|(__)?lock_task_sighand|__up_console_sem|_*fdget_pos|__f_unlock_pos"
    r"|__wake_up\w*|swake_up_\w+|__swait_\w+|prepare_to_s?wait\w*|add_wait_queue\w*|remove_wait_queue|finish_s?wait"
    r"|wait_for_completion\w*|complete(_all|_with_flags)?|autoremove_wake_function|schedule_rtlock|(raw_)?spin_lock_irqsave_\w+"
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when it is first needed: that takes a millisecond."""
    return re.compile(pattern)


def is_probe(frame: "Frame") -> bool:
    """Whether the frame belongs to the probe, not to what was probed."""
    return frame.module == "bpf" or _compiled(_PROBE).fullmatch(frame.symbol.partition(".")[0]) is not None


def takes_locks(symbol: str) -> bool:
    """Whether a function of the kernel is one that takes locks, not a user of one."""
    return _compiled(_INTERNAL).fullmatch(symbol.partition(".")[0]) is not None


def is_lock_internal(frame: "Frame") -> bool:
    """Whether the frame is a function that takes locks, not a user of one."""
    return takes_locks(frame.symbol)


def is_wrapper(frame: "Frame") -> bool:
    """Whether the frame is a function around one lock, so that its caller is who uses the lock."""
    return _compiled(_WRAPPER).fullmatch(frame.symbol.partition(".")[0]) is not None


def without_probe(frames: "Sequence[Frame]") -> "tuple[Frame, ...]":
    """The frames from the first one that is not the probe's; all if there would be none left."""
    for index, frame in enumerate(frames):
        if not is_probe(frame):
            return tuple(frames[index:])
    return tuple(frames)


def without_internals(frames: "Sequence[Frame]") -> "tuple[Frame, ...]":
    """The frames from the caller of the lock's functions on; all if there would be none left."""

    def is_own(frame: "Frame") -> bool:
        return is_lock_internal(frame) or is_wrapper(frame)

    for index, frame in enumerate(frames):
        # What called one of the lock's functions in its place; not every kernel has a name for it.
        is_trampoline = (not frame.symbol or is_probe(frame)) and any(map(is_own, frames[index + 1 : index + 2]))
        if not is_own(frame) and not is_trampoline:
            return tuple(frames[index:])
    return tuple(frames)
