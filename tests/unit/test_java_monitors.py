# SPDX-License-Identifier: GPL-2.0-or-later
"""Which monitors threads of Java wait for, by looks at their JVM, and what the report makes of that."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockline.analysis.model import Figures
from lockline.analysis.selection import Selection
from lockline.analysis.user_space import java_monitors
from lockline.analysis.user_space.futex_waits import LOCK, Futexes, FutexStack, FutexWaits
from lockline.analysis.user_space.java_locks import object_class
from lockline.analysis.user_space.java_monitors import Monitor, blocked_at_monitors, class_of, monitors_of
from lockline.analysis.user_space.user_evidence import JAVA_LOCK, JAVA_QUEUE, MONITOR, lock_called
from lockline.base.text import Style
from lockline.recording.reader import open_recording
from lockline.recording.rows import Frame
from lockline.recording.user_rows import Futex, FutexTotal
from lockline.render.screen_locks import user_lock_name
from lockline.render.signals import futexes
from lockline.rules import find_all
from lockline.rules.blocked import of_threads
from lockline.rules.report import make_report
from recording_generator import RecordingBuilder
from told import Told, told

MS = 1_000_000
LEDGER = Monitor(4096, "shop.Ledger", 0.8, 40, "clerk", 71, 0.75)
STOCK = Monitor(8192, "shop.Stock", 0.2, 30, "clerk-2", 72, 0.1)


def builder_at(path: Path) -> RecordingBuilder:
    builder = RecordingBuilder(path, seconds=1, cpus=4)
    lock = builder.lock(1, "tasklist_lock", "", "symbol")
    builder.waits(1, 0, lock, 0, [1000] * 3)
    return builder


def recorded(path: Path, monitors: list[tuple[Any, ...]], threads: list[tuple[Any, ...]], untold: float = 0) -> Path:
    """Of process 70: its monitors (address, class, looks, waiting), and threads (address, role, tid, name, looks)."""
    builder = builder_at(path)
    builder.connection.execute("INSERT INTO java_look VALUES (70, 50, ?)", (untold,))
    builder.connection.executemany("INSERT INTO java_monitor VALUES (70, ?, ?, ?, ?)", monitors)
    builder.connection.executemany("INSERT INTO java_monitor_thread VALUES (70, ?, ?, ?, ?, ?)", threads)
    return builder.finish()


def test_parts_of_one_row(tmp_path: Path) -> None:
    """Where a class was not readable at times it is the other looks'; what found no row has its part too."""
    path = recorded(
        tmp_path / "one",
        [(4096, "shop.Ledger", 30, 60.0), (4096, "", 10, 20.0), (8192, "shop.Stock", 10, 10.0)],
        [(4096, "owner", 71, "clerk", 30), (4096, "owner", 72, "other", 5), (8192, "waiter", 71, "", 10)],
        untold=10.0,
    )
    with open_recording(path) as recording:
        found = monitors_of(recording, {70: {2: {71, 72}}, 80: {3: {81}}})
    first, second = found.pop(2)
    assert not found
    assert first == Monitor(4096, "shop.Ledger", 0.8, 40, "clerk", 71, 0.75)
    assert (second.class_name, second.part, second.owner_tid) == ("shop.Stock", 0.1, 0)


def test_each_row_has_the_monitors_of_its_threads(tmp_path: Path) -> None:
    path = recorded(
        tmp_path / "two",
        [(4096, "shop.Ledger", 30, 60.0), (8192, "shop.Stock", 30, 90.0), (12288, "shop.Nobody", 1, 1.0)],
        [(4096, "waiter", 71, "", 30), (8192, "waiter", 73, "", 20), (8192, "waiter", 71, "", 1)],
    )
    with open_recording(path) as recording:
        found = monitors_of(recording, {70: {2: {71, 72}, 3: {73}}})
        assert monitors_of(recording, {}) == {}
    assert {line: [(one.class_name, one.part) for one in monitors] for line, monitors in found.items()} == {
        2: [("shop.Ledger", 1.0)],
        3: [("shop.Stock", 1.0)],
    }


PAYER, PAYEE = (4096, "owner", 71, "payer"), (8192, "owner", 72, "payee")


@pytest.mark.parametrize(
    ("looks", "circle", "behind"),
    [
        # Of 50 looks: who waits for payer's monitor, who waits for payee's, and one more.
        ((50, 50, 50), 2, 1),
        ((48, 49, 50), 2, 1),
        # Each waits for the other at times: no look need have seen both.
        ((30, 30, 50), 0, 0),
        ((50, 40, 50), 0, 0),
        ((50, 50, 20), 2, 0),
    ],
)
def test_a_circle_that_each_look_sees(tmp_path: Path, looks: tuple[int, int, int], circle: int, behind: int) -> None:
    path = recorded(
        tmp_path / "circle",
        [(4096, "shop.Ledger", 50, 100.0), (8192, "shop.Stock", 50, 50.0)],
        [
            (*PAYER, 50),
            (*PAYEE, 50),
            (4096, "waiter", 72, "", looks[0]),
            (8192, "waiter", 71, "", looks[1]),
            (4096, "waiter", 73, "", looks[2]),
        ],
    )
    with open_recording(path) as recording:
        blocked = blocked_at_monitors(recording, {70: "java"}, 4_000 * MS)
    found = [told(one) for one in of_threads(blocked)]
    assert [one.title for one in found] == (
        [f"{circle} threads of java (70) wait for each other, in a circle: a deadlock"] if circle else []
    )
    if found:
        waits = "payer (71) has waited 4.00 s for the monitor of class shop.Stock, which payee (72) holds"
        assert waits in found[0].evidence
        assert any("behind them" in line for line in found[0].evidence) == bool(behind)
        assert "jcmd 70 Thread.print" in found[0].next[0]


@pytest.mark.parametrize(
    ("monitors", "class_name"),
    [
        ((LEDGER, STOCK), "shop.Ledger"),
        # Unknown class; too few looks; none with half of the threads.
        ((replace(LEDGER, class_name=""),), ""),
        ((replace(LEDGER, looks=4),), ""),
        ((replace(LEDGER, part=0.4), replace(STOCK, part=0.4)), ""),
        ((), ""),
    ],
)
def test_what_a_row_is_called(monitors: tuple[Monitor, ...], class_name: str) -> None:
    assert class_of(monitors) == class_name
    name = lock_called(Futex(2, 7, "java", 4096, 0, "", ""), MONITOR, class_of(monitors)).name
    assert name == ("the monitor of class shop.Ledger" if class_name else "a Java monitor (its object moves)")
    assert java_monitors.told(monitors) == (
        '; at 40 looks 80% of them waited for the monitor of class shop.Ledger, owned by thread "clerk" at 75% of the'
        " looks"
        if class_name
        else ""
    )


def contended(*monitors: Monitor) -> FutexWaits:
    total = FutexTotal._make([2, *(0 for _ in FutexTotal._fields[1:])])
    figures = Figures(1000, 800 * MS, MS, 0, ())
    futex = Futex(2, 7, "java", 4096, 0, "", "")
    at_once = Figures(1000, 0, 0, 0, ())
    return FutexWaits(futex, total, LOCK, "as it is", figures, at_once, make=MONITOR, monitors=monitors)


def one_finding(directory: Path, futex: FutexWaits) -> Told:
    """The finding about a lock of a program, in words, in a report without other waits."""
    path = builder_at(directory / "quiet").finish()
    with open_recording(path) as recording:
        quiet = make_report(recording, Selection(), 10)
    (finding,) = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    return told(finding)


@pytest.mark.parametrize(("owner_part", "owned"), [(0.75, ', owned by thread "clerk"'), (0.4, "")])
def test_the_finding_names_the_class_and_who_owns_it(tmp_path: Path, owner_part: float, owned: str) -> None:
    futex = contended(replace(LEDGER, owner_part=owner_part), STOCK)
    text = one_finding(tmp_path, futex)
    assert text.title == f"Threads of java (7) wait for the monitor of class shop.Ledger{owned}"
    (first, second) = [line for line in text.evidence if "looks" in line]
    assert first == (
        "at 40 looks 80.0% of the waiting threads waited for the monitor of class shop.Ledger, which thread"
        f' "clerk" owned at {owner_part:.1%}'
    )
    assert 'class shop.Stock, which thread "clerk-2" owned at 10.0%' in second
    assert user_lock_name(futex) == "monitor of shop.Ledger"


def test_the_row_and_its_details() -> None:
    text = "\n".join(futexes(Futexes((contended(LEDGER, STOCK),), ()), Style()))
    assert 'monitor of class shop.Ledger, owned by thread "clerk", java 7' in text
    words = " ".join(text.split())
    assert "80.0% of those seen waiting, at 40 looks: for the monitor of class shop.Ledger (0x1000)" in words
    assert 'thread "clerk" owned it at 75.0% of them' in words


PARK = ("__futex_abstimed_wait_common", "Parker::park", "Unsafe_Park", "jdk.internal.misc.Unsafe.park")
SUPPORT = "void java.util.concurrent.locks.LockSupport.park(java.lang.Object)"
QUEUED = "java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire"


def stack(samples: int, *symbols: str) -> FutexStack:
    frames = tuple(Frame(0, name, 0, "") for name in (*PARK, *symbols, "shop.Till.pay"))
    return FutexStack("waiter", samples, samples, samples * MS, frames)


@pytest.mark.parametrize(
    ("stacks", "class_name"),
    [
        ([stack(9, SUPPORT, QUEUED, "java.util.concurrent.Semaphore.acquire")], "Semaphore"),
        ([stack(9, SUPPORT, QUEUED, "java.util.concurrent.locks.ReentrantLock$Sync.lock")], "ReentrantLock"),
        (
            [stack(9, SUPPORT, "java.util.concurrent.locks.ReentrantReadWriteLock$WriteLock.lock")],
            "ReentrantReadWriteLock",
        ),
        # A lock of the program's own making, of the package's parts.
        ([stack(9, SUPPORT, QUEUED)], ""),
        ([stack(9, SUPPORT, QUEUED, "shop.Latch.take", "java.util.concurrent.ThreadPoolExecutor.runWorker")], ""),
        # Two that none stands out of; one that does; stacks without names do not vote.
        (
            [
                stack(5, SUPPORT, "java.util.concurrent.Semaphore.acquire"),
                stack(5, SUPPORT, "java.util.concurrent.locks.StampedLock.readLock"),
            ],
            "",
        ),
        (
            [
                stack(9, SUPPORT, "java.util.concurrent.Semaphore.acquire"),
                stack(1, SUPPORT, "java.util.concurrent.locks.StampedLock.readLock"),
                stack(30),
            ],
            "Semaphore",
        ),
        ([], ""),
    ],
)
def test_which_class_of_java_util_concurrent(stacks: list[FutexStack], class_name: str) -> None:
    futex = replace(contended(), make=JAVA_LOCK, stacks=tuple(stacks))
    assert object_class(futex) == class_name
    assert user_lock_name(futex) == (class_name or "java.util.concurrent lock")


@pytest.mark.parametrize(
    ("method", "title", "remedy"),
    [
        ("java.util.concurrent.Semaphore.acquire", "a Semaphore of java.util.concurrent", "hold a permit"),
        ("java.util.concurrent.Exchanger.exchange", "an Exchanger of java.util.concurrent", "do less between lock()"),
        (
            "java.util.concurrent.locks.StampedLock.writeLock",
            "a StampedLock of java.util.concurrent",
            "do less between writeLock()",
        ),
        (QUEUED, "a lock of java.util.concurrent", "do less between lock()"),
    ],
)
def test_the_finding_names_the_class_of_java_util_concurrent(
    tmp_path: Path, method: str, title: str, remedy: str
) -> None:
    text = one_finding(tmp_path, replace(contended(), make=JAVA_LOCK, stacks=(stack(9, SUPPORT, method),)))
    assert text.title == f"Threads of java (7) wait for {title}, in shop.Till.pay()"
    assert text.next[0].startswith(remedy)


@pytest.mark.parametrize(
    ("class_name", "advice"),
    [
        ("java.util.concurrent.ConcurrentHashMap$Node", "do less in what you give to compute()"),
        ("java.io.PrintStream", "each call has the stream's lock"),
        ("java.util.Vector", "the class locks itself in each call"),
        ("java.lang.Object", "make the synchronized part shorter"),
    ],
)
def test_advice_about_a_class_of_javas_own_library(tmp_path: Path, class_name: str, advice: str) -> None:
    futex = replace(contended(), make=MONITOR, monitors=(replace(LEDGER, class_name=class_name),))
    assert one_finding(tmp_path, futex).next[0].startswith(advice)


def test_a_full_queue_has_the_name_of_its_class(tmp_path: Path) -> None:
    waits = stack(9, SUPPORT, "java.util.concurrent.ArrayBlockingQueue.put")
    text = one_finding(tmp_path, replace(contended(), make=JAVA_QUEUE, stacks=(waits,)))
    assert text.title == (
        "Threads of java (7) wait in shop.Till.pay() for room in an ArrayBlockingQueue of java.util.concurrent"
    )
    assert text.next[0].startswith("more threads that receive")
