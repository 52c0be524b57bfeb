# SPDX-License-Identifier: GPL-2.0-or-later
"""What a function's name tells of its accesses: that it takes a lock, lets go of one, or neither."""

import re

from lockline.recording.rows import Frame
from lockline.recording.stacks import is_lock_internal

_UNLOCK = re.compile(
    r"\w*unlock\w*|_*up(_(read|write))?|__up(_\w+)?|rwsem_wake\w*|downgrade_write|percpu_up_\w+|__percpu_up_\w+"
)
_USER_LOCK = re.compile(
    r"_*(GI_+)?_*pthread_(mutex|spin|rwlock)_(\w*lock\w*|rdlock|wrlock)\w*|_*lll_\w*lock\w*"
    r"|futex_wait_simple|__sem_wait\w*|absl::\w*Mutex\w*|std::(recursive_|shared_)?mutex::\w*lock\w*"
)
# Their lock is an argument, and first in line where the waiters' traffic is.
_SLOW_PATH = re.compile(
    r"(__pv_|native_)?queued_(spin|read|write)_lock_slowpath|_*raw_(spin|read|write)_(try)?lock\w*|do_raw_\w*lock\w*"
)


def _word(symbol: str) -> str:
    # The wrapper of a paravirt function, which saves registers.
    return symbol.removeprefix("__raw_callee_save_").partition(".")[0].partition("@")[0]


def is_unlock(symbol: str) -> bool:
    """Whether the function lets go of a lock that it is given."""
    return bool(_UNLOCK.fullmatch(_word(symbol))) and is_lock_function(symbol)


def is_lock_function(symbol: str) -> bool:
    """Whether the function works on a lock that it is given: takes it, waits for it, lets go of it."""
    word = _word(symbol)
    return bool(word) and (is_lock_internal(Frame(0, word, 0, "")) or _USER_LOCK.fullmatch(word) is not None)


def is_spin_function(symbol: str) -> bool:
    """Whether the function accesses nothing of a spinlock or rwlock but its word."""
    return _SLOW_PATH.fullmatch(_word(symbol)) is not None
