# SPDX-License-Identifier: GPL-2.0-or-later
"""What a function's name tells of its accesses: that it takes a lock, lets go of one, or neither."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from lockline.recording.stacks import takes_locks

_UNLOCK = (
    r".*([rR]elease|[eE]xit)\w*|(.*[.:])?\w*[uU]nlock\w*|(.*[.:])?(Slow)?Unlock\w*"
    r"|_*up(_(read|write))?|__up(_\w+)?|rwsem_wake\w*|downgrade_write|percpu_up_\w+|__percpu_up_\w+"
)
# The C library's; absl, folly, TBB, Boost, jemalloc, tcmalloc; Go's sync and runtime; Rust's std and parking_lot.
_USER_LOCK = (
    r"_*(GI_+)?_*pthread_(mutex|spin|rwlock)_(\w*lock\w*|rdlock|wrlock)\w*|_*lll_\w*lock\w*"
    r"|futex_wait_simple|__sem_wait\w*|std::(__\d::)?\w*mutex\w*::\w*lock\w*"
    r"|absl::(\w+::)*((Mutex|SpinLock)::~?|AbslInternalSpinLock)\w*|(tcmalloc::)?SpinLock::((Slow)?(Unl|L)ock\w*|SpinLoop)"
    r"|malloc_mutex_\w*lock\w*|(nsync::)?nsync_mu_r?(try|un)?lock\w*|__(un)?lock"
    r"|folly::\w*(SpinLock|Mutex)\w*(<.*>)?::\w*(lock|Lock)\w*"
    r"|tbb::(\w+::)*\w*(mutex|lock)\w*::\w*(acquire|release|lock)\w*|boost::(\w+::)*\w*(mutex|spinlock)::\w*lock\w*"
    r"|(internal/)?sync\.\(\*(RW)?Mutex\)\.\w+|runtime\.(un)?lock(2|WithRank\w*)?|runtime\.\(\*rwmutex\)\.\w+"
    r"|(<?std::sys::(\w+::)*|<?parking_lot(_core)?::|<?lock_api::)[\w:<>, ]*(mutex|rwlock|Mutex|RwLock)[\w:<>, ]*"
    r"::\w*(lock|read_contended|write_contended)\w*"
    r"|<?std::sync::(\w+::)*(mutex|rwlock)::(Mutex|RwLock)<[\w:<>, ]*>>?::(try_)?(lock|read|write)"
    # PostgreSQL, InnoDB of MySQL and of MariaDB, Berkeley DB, DPDK, OpenMP, the JVM, .NET, WebKit, CPython.
    r"|LWLock(Acquire|Release|Attempt|Wait|Wakeup|Queue|Dequeue|Conflicts|Conditional)\w*|s_lock|tas|rw_lock_\w*lock\w*"
    r"|(ssux|srw|sux)_lock(_impl)?(<.*>)?::\w+|AwareLock::(Enter|Leave|Try|Spin|Contend)\w*"
    r"|(\S+ )?L?java[./]util[./]concurrent[./]locks[./](?!LockSupport)[\w$]+;?(::|\.)\w+"
    r"|__db_(tas|pthread|hybrid)_mutex_\w+|rte_(spin|rw|ticket|mcs)lock_\w*lock\w*"
    r"|__kmp_(acquire|release|test)_\w*lock\w*|omp_(un)?set_(nest_)?lock\w*|gomp_mutex_(un)?lock\w*"
    r"|ObjectMonitor::(enter|EnterI|exit|ExitEpilog|Try\w+|ReenterI|wait)\w*|Object(Synchronizer|Locker)::\w*(enter|exit)"
    r"|Monitor::\w*lock\w*|WTF::Lock::\w*[lL]ock\w*|_?PyMutex_(Try|Un)?[lL]ock\w*"
    # What people call their own ones.
    r"|(\w*_)?(spin|spinlock|ticket|mcs|clh|tas|ttas|mutex|rw|rwlock|rwmutex)_?"
    r"((try|un)?lock|(try)?(r|w|rd|wr|rw)(un)?lock|acquire|release|enter|exit)(_\w+)?"
    # Read and write in one word: rcu_read_lock() and its like take no lock.  As its own word in kernels before 2.6.33.
    r"|(\w*_)?(try_?)?(rd|wr|read|write)(un)?lock(_\w+)?|_+(read|write)_(try)?(un)?lock\w*"
)
# What it takes to be one of these, in lower case.
_WORDS = ("lock", "mutex", "futex", "sem_wait", "tas", "monitor", "acquire", "release", "enter", "exit")
# A spinlock and a count in one word of 64 bits, changed together.
_LOCKREF = r"_*lockref_(get|put|mark|lock)\w*"
# Methods of a class that is a lock by its name.
_LOCK_CLASS = (
    r"\w*([mM]utex|[sS]pin_?[lL]ock|([rR][wW]|[rR]ead(er)?_?[wW]riter?)_?[lL]ock"
    r"|([tT]icket|(?i:mcs|clh|t?tas))_?[lL]ock)(_?([iI]mpl|[bB]ase|T))?"
)
_LOCK_METHOD = r"~?\w*([lL]ock|[aA]cquire|[rR]elease|[eE]nter|[eE]xit)\w*"
# Their lock is an argument, and first in line where the waiters' traffic is.
_SPINS = (
    r"(__pv_|native_)?queued_(spin|read|write)_lock_s(l\w*)?|_+(spin|read|write)_(try)?lock\w*"
    r"|_*raw_(spin|read|write)_(try)?lock\w*|do_raw_\w*lock\w*"
    r"|(_*GI_+)?_*pthread_spin_(try)?lock|rte_spinlock_(try)?lock"
)
# What is called only where a lock is taken already.  Compilers put the rest of the lock into its users.
_SLOW_PATH = (
    r"_*(GI_+)?_*lll_lock_w\w*|(.*[.:])?(\w+_)?(un)?lock_(slow|contended)\w*|(.*[.:])?((un)?lock(Shared)?|Lock|Unlock)Slow\w*"
    r"|(.*::)?Slow(Unl|L)ock\w*|.*::(read|write)_contended|<?parking_lot::raw_(mutex|rwlock)::.*"
    r"|<?std::sys::(\w+::)*(mutex|rwlock)::f\w*|s_lock|(.*::)?SpinLock::SpinLoop"
    r"|ssux_lock_impl<\w+>::(rd|wr)_w\w*|srw_mutex_impl<\w+>::wait\w*"
)
# Of the kernel: who comes here found the lock taken.
_WAITS = (
    r"(__pv_|native_)?queued_(spin|read|write)_lock_s(l\w*)?|__mutex_lock\w*|(rwsem|mutex)_\w*spin_on_owner|osq_lock"
    r"|(mutex|rwsem)_optimistic_spin|rwsem_down_\w+"
)

# The beginning of "lock" at the end of a name that perf has cut, behind what else such a name says.
_LOCK_BEGUN = r".*(([uU]n|[tT]ry)_?[lL]|(([uU]n|[tT]ry|rd|wr|:)_?|_)[lL]oc?)"
# The end of a class that is a lock, as it may be cut.
_CLASS_BEGUN = r"\w*([a-z]_mute|(?<!set)(?<!Set)Mute|[sS]pin_?[lL](oc?)?|[rR][wW]_?[lL](oc?)?)"
# So much of a cut name tells that it is of a lock, whatever is gone.
_CUT_LOCK = (
    r"__kmp_(acquire|release|test)_\w*|ObjectSynchronizer::\w*"
    r"|Ljava/util/concurrent/lock|java[./]util[./]concurrent[./]locks"
)
# What compilers add to a function's name.
_ADDED = r"(?s)\.(constprop|isra|part|cold|llvm|lto_priv|clone|\d).*|@.*"
# Longer names are of no lock that is known.
_LONGEST = 256
# perf c2c cuts names so (SYMBOL_WIDTH less the four characters before them), but with --full-symbols.
CUT = 26
# Functions whose answer is kept: the same ones are asked about on line after line.
_KEPT = 4096


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when it is first needed: all of them take as long as the rules of a small report."""
    return re.compile(pattern)


def _word(symbol: str) -> str:
    # The wrapper of a paravirt function, which saves registers.
    word = symbol[:_LONGEST].removeprefix("__raw_callee_save_")
    # Parameters, but of a method in Go the receiver.
    word = word if ".(*" in word else word.partition("(")[0]
    if len(word) == CUT and _compiled(_LOCK_BEGUN).fullmatch(word):
        at = word.lower().rindex("l")
        word = word[:at] + word[at] + "ock"
    if word.endswith(">") and "::" in word:
        word = _without_arguments(word)
    return _compiled(_ADDED).sub("", word) if "." in word or "@" in word else word


def _without_arguments(word: str) -> str:
    """A name without the arguments of its template, which may have colons in them."""
    depth = 0
    for at in range(len(word) - 1, 0, -1):
        depth += (word[at] == ">") - (word[at] == "<")
        if not depth:
            return word[:at] if word[at - 1].isalnum() else word
    return word


def _is_method_of_lock(word: str) -> bool:
    owner, _, method = word.rpartition("::")
    name = owner.partition("<")[0].rpartition("::")[2]
    return bool(_compiled(_LOCK_CLASS).fullmatch(name) and _compiled(_LOCK_METHOD).fullmatch(method))


def _is_cut_in_lock(word: str) -> bool:
    """Whether the end of a name is cut off behind that of a class that is a lock: its methods work on the lock."""
    if len(word) != CUT:
        return False
    if _compiled(_CUT_LOCK).fullmatch(word):
        return True
    if not ("::" in word or "<" in word):
        return False
    last = word.rpartition("::")[2]
    if _compiled(_LOCK_CLASS).fullmatch(last) or _compiled(_CLASS_BEGUN).fullmatch(last):
        return True
    whole, template, _ = word.partition("<") if word[0] != "<" else (word, "", "")
    name = whole if template else whole.rstrip(":") if whole.endswith(":") else whole.rpartition("::")[0]
    return _compiled(_LOCK_CLASS).fullmatch(name.rpartition("::")[2]) is not None


def _may_be_users_lock(word: str) -> bool:
    """Whether the name has any of the words that a lock's function has."""
    lower = word.lower()
    return any(part in lower for part in _WORDS)


def _is_users_lock(word: str) -> bool:
    if _is_cut_in_lock(word):
        return True
    if not _may_be_users_lock(word):
        return False
    known = _compiled(_USER_LOCK).fullmatch(word) or _compiled(_LOCKREF).fullmatch(word)
    return known is not None or _is_method_of_lock(word)


@lru_cache(_KEPT)
def is_unlock(symbol: str) -> bool:
    """Whether the function lets go of a lock that it is given."""
    return is_lock_function(symbol) and _compiled(_UNLOCK).fullmatch(_word(symbol)) is not None


@lru_cache(_KEPT)
def is_lock_function(symbol: str) -> bool:
    """Whether the function works on a lock that it is given: takes it, waits for it, lets go of it."""
    word = _word(symbol)
    return bool(word) and (takes_locks(word) or _is_users_lock(word))


_LOCK_WORD = r"([tT]ry_?)?([uU]n_?)?[lL]ock"
# Pairs that keep nobody out: readers by RCU count themselves, and mlock() pins pages.
_NO_LOCK = r"\w*rcu_(\w+_)?(read|qsbr)_(un)?lock\w*|_*m(un)?lock\w*"


@lru_cache(_KEPT)
def _halves(symbol: str) -> frozenset[tuple[str, bool]]:
    """A name without a word that says that it locks or unlocks, and whether it unlocks; for each such word in it."""
    word = _word(symbol)
    found = _compiled(_LOCK_WORD).finditer(word) if "ock" in word and not _compiled(_NO_LOCK).fullmatch(word) else ()
    return frozenset((f"{word[: match.start()]}*{word[match.end() :]}", bool(match[2])) for match in found)


@lru_cache(_KEPT)
def half_of_lock(symbol: str) -> str:
    """What a name says that its function does with a lock, whatever lock that is: lock, unlock; '' if neither."""
    found = _halves(symbol)
    return "unlock" if any(frees for _, frees in found) else "lock" if found else ""


def paired_locks(symbols: Iterable[str]) -> frozenset[str]:
    """Those of some functions that are two halves of one lock by their names: x_lock or x_trylock, and x_unlock."""
    halves = {symbol: found for symbol in symbols if (found := _halves(symbol))}
    every = frozenset().union(*halves.values())
    both = {name for name, frees in every if frees and (name, False) in every}
    return frozenset(symbol for symbol, found in halves.items() if any(name in both for name, _ in found))


@lru_cache(_KEPT)
def is_spin_function(symbol: str) -> bool:
    """Whether the function accesses nothing of a spinlock or rwlock but its word."""
    word = _word(symbol)
    return "lock" in word and _compiled(_SPINS).fullmatch(word) is not None


@lru_cache(_KEPT)
def waits_for_lock(symbol: str) -> bool:
    """Whether the function is called where others have the lock, and not where it is free."""
    return is_slow_path(symbol) or ("_" in symbol and _compiled(_WAITS).fullmatch(_word(symbol)) is not None)


@lru_cache(_KEPT)
def is_slow_path(symbol: str) -> bool:
    """Whether the function is for a lock that others have: its bytes are a lock, whoever else uses them."""
    return is_lock_function(symbol) and _compiled(_SLOW_PATH).fullmatch(_word(symbol)) is not None
