# SPDX-License-Identifier: GPL-2.0-or-later
"""What is made once, and who waits for it: call_once(), statics of C++, Once of Rust and Go, classes of Java."""

import pytest

from lockline.analysis.user_space.user_evidence import GO_MUTEX, GO_ONCE, JAVA_CLASS, ONCE
from lockline.analysis.user_space.user_locks import recognise
from user_words import WINDOW, from_functions, one, parked, word

JAVA_PARK = ("pthread_cond_wait", "os::PlatformEvent::park", "ObjectMonitor::wait")


@pytest.mark.parametrize(
    ("functions", "told"),
    [
        (("__pthread_once_slow", "config", "serve"), True),
        (("syscall", "__cxa_guard_acquire", "config"), True),
        (("syscall", "<std::sys::sync::once::futex::Once>::call", "shop::config"), True),
        # What is made once waits for something itself.
        (("pthread_cond_wait", "load_config", "__pthread_once_slow", "config"), False),
        (("syscall", "std::thread::park", "shop::load", "<std::sys::sync::once::futex::Once>::call"), False),
    ],
)
def test_who_waits_for_what_is_made_once(functions: tuple[str, ...], told: bool) -> None:
    """One word; whoever makes it wakes all, at the end, and few waits are all there are."""
    words = [word(2, 4096, slept=5, wait_ns=5 * WINDOW, waits=(from_functions(*functions),))]
    found = [(known.make, known.lock, known.sure) for known in recognise(words, (), WINDOW)]
    assert ((ONCE, True, "high") in found) == told


@pytest.mark.parametrize(
    ("functions", "told"),
    [
        ((*JAVA_PARK, "InstanceKlass::initialize_impl", "Shop.price"), True),
        (("pthread_cond_wait", "PlatformMonitor::wait", "Monitor::wait", "InstanceKlass::initialize_impl"), True),
        # The class's own code waits; the name of a class does not tell.
        ((*JAVA_PARK, "JVM_MonitorWait", "Shop.<clinit>", "InstanceKlass::initialize_impl", "Shop.price"), False),
    ],
)
def test_who_waits_for_a_class_of_java(functions: tuple[str, ...], told: bool) -> None:
    """Each thread waits at a word of its own, for one class."""
    found = [known for known in recognise(parked(functions, (9,)), (), WINDOW) if known.make == JAVA_CLASS]
    assert [(known.lock, known.words) for known in found] == ([(True, (2, 3, 4))] if told else [])


@pytest.mark.parametrize(
    ("functions", "make"),
    [
        (("sync.runtime_SemacquireMutex", "sync.(*Mutex).lockSlow", "sync.(*Once).doSlow", "main.config"), GO_ONCE),
        (("internal/sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "sync.(*Once).doSlow", "main.config"), GO_ONCE),
        (("sync.runtime_SemacquireMutex", "sync.(*Mutex).lockSlow", "main.load", "sync.(*Once).doSlow"), GO_MUTEX),
    ],
)
def test_a_once_of_go_waits_at_its_own_mutex(functions: tuple[str, ...], make: str) -> None:
    found = one(recognise([word(2, 4096, ops=1 << 24, waits=(from_functions(*functions),))], (), WINDOW))
    assert (found.make, found.lock) == (make, True)
