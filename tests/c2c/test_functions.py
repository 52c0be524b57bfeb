# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions work on a lock that they are given, by their names in the kernel and in libraries."""

import re

import pytest
from hypothesis import given, settings
from hypothesis.strategies import DataObject, characters, data, from_regex

from lockline.c2c import functions
from lockline.c2c.functions import is_lock_function, is_slow_path, is_spin_function, is_unlock

TAKE = [
    *("native_queued_spin_lock_slowpath", "down_write", "rwsem_spin_on_owner", "__mutex_lock.constprop.0"),
    *("pthread_mutex_lock", "__pthread_rwlock_wrlock", "___pthread_mutex_lock@GLIBC_2.2.5", "__lll_lock_wait"),
    *(
        "std::mutex::lock()",
        "absl::lts_20230125::Mutex::LockSlow(int, void*)",
        "absl::base_internal::SpinLock::SlowLock",
    ),
    *(
        "folly::SharedMutexImpl<true, void>::lockExclusiveImpl",
        "tbb::detail::r1::spin_mutex::lock",
        "malloc_mutex_lock_slow",
    ),
    *("sync.(*Mutex).Lock", "sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).lockSlow", "runtime.lock2"),
    *("std::sys::sync::mutex::futex::Mutex::lock_contended", "parking_lot::raw_mutex::RawMutex::lock_slow"),
    *("LWLockAcquire", "s_lock", "rw_lock_s_lock_spin", "PolicyMutex<TTASEventMutex<GenericPolicy> >::enter"),
    *("__db_tas_mutex_lock", "rte_spinlock_lock", "__kmp_acquire_ticket_lock", "ObjectMonitor::TrySpin(Thread*)"),
    *("Spinlock::lock()", "my::TicketLock<int>::acquire", "ticket_lock", "shard_spin_lock", "g_mutex_lock_slowpath"),
    # Cut by perf.
    *(
        "native_queued_spin_lock_sl",
        "absl::lts_20230802::Mutex:",
        "PolicyMutex<TTASEventMutex",
        "parking_lot::raw_mutex::Ra",
    ),
    *("__pthread_rwlock_wrlock_fu", "absl::base_internal::SpinL", "tbb::detail::d1::spin_mute"),
    *("rocksdb::InstrumentedMutex", "__kmp_acquire_nested_ticke", "ObjectSynchronizer::quick_"),
    *("Monitor::lock_without_safe", "_PyMutex_LockSlow", "std::sync::poison::rwlock::RwLock<T>::read"),
    *("folly::SharedMutexImpl<fal", "std::sys::sync::mutex::fut", "<parking_lot::raw_mutex::R"),
    "folly::SharedMutexImpl<false, void>::lockSharedImpl<folly::SharedMutexImpl<false, void>::WaitForever>",
    # Of Java, as maps of compiled code spell it; cut by perf behind the package, which has nothing but locks.
    *("Ljava/util/concurrent/locks/ReentrantLock;::lock", "void java.util.concurrent.locks.ReentrantLock$Sync.lock()"),
    *("java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire", "Ljava/util/concurrent/lock"),
    *("SpinLock::SpinLoop", "nsync::nsync_mu_lock_slow_", "nsync_mu_rtrylock", "__lock", "AwareLock::Enter"),
    *("ssux_lock_impl<true>::rd_wait", "ssux_lock_impl<false>::wr_w", "srw_mutex_impl<true>::wait_and_lock"),
    *("__wt_readlock", "__wt_try_writelock", "ethr_rwmutex_rlock", "QReadWriteLock::tryLockForRead"),
    # Of kernels before 2.6.33.
    *("_spin_lock", "_spin_lock_irqsave", "_read_lock", "_write_lock_bh", "__write_lock_failed"),
]
GIVE = [
    *(
        "_raw_spin_unlock",
        "up_write",
        "up_read",
        "mutex_unlock",
        "pthread_mutex_unlock",
        "__pthread_mutex_unlock_usercnt",
    ),
    *("std::mutex::unlock()", "absl::Mutex::Unlock()", "absl::lts_20230125::Mutex::UnlockSlow(void*)"),
    *("sync.(*Mutex).Unlock", "sync.(*Mutex).unlockSlow", "sync.(*RWMutex).RUnlock", "runtime.unlock2"),
    *("parking_lot::raw_mutex::RawMutex::unlock_slow",),
    *(
        "LWLockRelease",
        "rw_lock_x_unlock_func",
        "PolicyMutex<OSTrackMutex<GenericPolicy> >::exit",
        "rte_rwlock_read_unlock",
    ),
    # Cut by perf within the word.
    *("__GI___pthread_mutex_unloc", "__GI___pthread_rwlock_unlo"),
    *("__kmp_release_ticket_lock", "ObjectMonitor::exit", "my::SpinLock::release()", "spin_unlock"),
    *("java.util.concurrent.locks.ReentrantLock.unlock", "nsync_mu_runlock", "__wt_writeunlock", "_spin_unlock"),
]
OTHERS = [
    *(
        "",
        "?",
        "lockline",
        "block_page",
        "clock_gettime",
        "unlock_the_door",
        "main.(*Mutexes).Count",
        "sync.(*Pool).Get",
    ),
    *(
        "runtime.mallocgc",
        # Cut by perf where "lock" may begin, and does not.
        *("filesystem_of_this_one_loc", "audio::Track::Mixer::unmut", "audio::TrackMixer::setMute"),
        "runtime.lockedOSThread",
        "std::vector<std::mutex>::push_back(std::mutex)",
        "my::Mutexes::count",
    ),
    *("std::unique_lock<std::mute", "std::__shared_ptr<Spinlock", "my::Mutexes::count_all_of_"),
    *("update_stats", "vma_interval_tree_remove", "std::map<int, Lock>::operator[](int const&)", "parking_lot_open"),
    *(
        "release_pages",
        "draw_lock_icon",
        "ObjectMonitor::notify",
        "my::Spinlocks::find",
        "clock",
        "block_enter",
        "throw_exit",
    ),
    # Who reads by RCU takes no lock; parking a thread touches none.
    *("__rcu_read_lock", "__srcu_read_lock", "rcu_read_unlock_special", "java.util.concurrent.locks.LockSupport.park"),
    *("java.util.concurrent.ConcurrentHashMap.putVal", "overwritelock", "AwareLocks::count", "nsync_mu_is_free"),
]


@pytest.mark.parametrize("symbol", TAKE)
def test_who_takes_a_lock(symbol: str) -> None:
    assert is_lock_function(symbol)
    assert not is_unlock(symbol)


@pytest.mark.parametrize("symbol", GIVE)
def test_who_lets_go(symbol: str) -> None:
    assert is_lock_function(symbol)
    assert is_unlock(symbol)


@pytest.mark.parametrize("symbol", OTHERS)
def test_who_does_neither(symbol: str) -> None:
    assert not is_lock_function(symbol)
    assert not is_spin_function(symbol)


def test_who_is_called_only_where_others_have_the_lock() -> None:
    slow = ("__lll_lock_wait", "sync.(*Mutex).lockSlow", "absl::Mutex::LockSlow(int, void*)", "__mutex_lock_slowpath")
    slow += ("SpinLock::SpinLoop", "ssux_lock_impl<true>::rd_wait", "srw_mutex_impl<true>::wait", "nsync_mu_lock_slow_")
    assert all(map(is_slow_path, slow))
    fast = ("pthread_mutex_lock", "sync.(*Mutex).Lock", "_raw_spin_lock", "LWLockAcquire", "deadlock_slow_check", "")
    assert not any(map(is_slow_path, fast))


@pytest.mark.parametrize("part", ["<std::sys::", "parking_lot::mutex::", "tbb::a_mutex_", "absl::a::", "folly::Mutex<"])
def test_a_hostile_name_takes_no_longer_than_a_short_one(part: str) -> None:
    """A pattern that backtracks would not end: a megabyte is matched as often as 256 characters are."""
    short, long = part * (256 // len(part)), part * (1_000_000 // len(part))
    assert is_lock_function(long) == is_lock_function(short)


def branches(pattern: str) -> list[str]:
    """What a pattern is any one of."""
    found, depth = [""], 0
    for part in re.findall(r"\\.|.", pattern):
        depth += (part == "(") - (part == ")")
        if part == "|" and not depth:
            found.append("")
        else:
            found[-1] += part
    return found


# In ASCII: what Unicode has of letters takes seconds to list, and tells nothing about words.
ASCII = characters(codec="ascii")


@pytest.mark.parametrize("branch", [*branches(functions._USER_LOCK), *branches(functions._LOCKREF)])
@settings(max_examples=10)
@given(data())
def test_no_name_of_a_lock_is_passed_over_for_its_words(branch: str, data: DataObject) -> None:
    assert functions._may_be_users_lock(data.draw(from_regex(branch, fullmatch=True, alphabet=ASCII)))
