# SPDX-License-Identifier: GPL-2.0-or-later
"""Futexes, tracers and clock reads: what is made of their tables."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lockline.analysis.selection import Selection
from lockline.analysis.user_space import futex
from lockline.analysis.user_space.futex_waits import (
    CONDITION,
    LOCK,
    NONE,
    POLL,
    SEMAPHORE,
    UNCLEAR,
    is_semaphore,
    nature,
)
from lockline.analysis.user_space.parked import Word, parked
from lockline.base import histogram
from lockline.base.errors import RecordingError
from lockline.base.text import WIDTH, Style
from lockline.recording import user_rows
from lockline.recording.reader import open_recording
from lockline.render import text as render_text
from lockline.render.documents import report as render_json
from lockline.rules.report import make_report
from recording_generator import RecordingBuilder

MS = 1_000_000


def total(futex: int = 2, waits: tuple[int, ...] = (), **figures: int) -> user_rows.FutexTotal:
    """A futex whose sleeping calls took these times; all else is 0 but what is named."""
    values: dict[str, Any] = dict.fromkeys(user_rows.FutexTotal._fields, 0)
    blob = histogram.encode(histogram.of(waits))
    values |= {"futex": futex, "calls": len(waits), "slept": len(waits), "wait_ns": sum(waits)}
    values |= {"max_ns": max(waits, default=0), "histogram": blob, "latency_histogram": blob} | figures
    return user_rows.FutexTotal(**values)


WAITS = (5 * MS,) * 10


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (total(calls=1000, again=1000), NONE),
        (total(waits=WAITS, ops=1 << 6), LOCK),
        (total(waits=WAITS, ops=1 << 13), LOCK),
        (total(waits=WAITS, owner_samples=10, owners=5), LOCK),
        # A near miss: what lies where a mutex has its owner was a live thread's id but once.
        (total(waits=WAITS, owner_samples=10, owners=4), CONDITION),
        (total(waits=WAITS, value_2=5, waiters=4, wakers=4, both=2, tasks_woken=9), LOCK),
        (total(waits=WAITS, value_2=4, waiters=4, wakers=4, both=2, tasks_woken=9), UNCLEAR),
        (total(waits=WAITS, value_2=5, waiters=4, wakers=1, both=1, tasks_woken=9), CONDITION),
        (total(waits=WAITS, value_2=8, waiters=1, wakers=1), LOCK),
        (total(waits=WAITS, value_2=7, waiters=1, wakers=1), CONDITION),
        # A place to park: one thread is woken there by others.  Who has had a mutex wakes it, even if nobody waits.
        (total(waits=WAITS, value_2=10, waiters=1, wakers=5, tasks_woken=10), CONDITION),
        (total(waits=WAITS, value_2=10, waiters=1, wakers=2, both=1, tasks_woken=10), LOCK),
        (total(waits=WAITS, value_2=10, waiters=1, wakers=1, tasks_woken=7), LOCK),
        # A counter that happened to pass 2.
        (total(waits=WAITS[:2], value_2=2, waiters=1, wakers=1), CONDITION),
        (total(waits=WAITS[:1], owner_samples=1, threads=1), CONDITION),
        # SBCL's condition: a word with a thread's id, that threads wake; the kernel wakes who waits for a thread's end.
        (total(waits=WAITS, owner_samples=10, threads=10, waiters=6, wakers=6, both=6, tasks_woken=10), UNCLEAR),
        (total(waits=WAITS, owner_samples=10, threads=10, tasks_woken=4), CONDITION),
        (total(waits=WAITS, timed=10, timed_out=8), POLL),
        (total(waits=WAITS, timed=10, timed_out=7), CONDITION),
        # Timeouts of a lock do not make it a poll.
        (total(waits=WAITS, timed=10, timed_out=10, owner_samples=10, owners=9), LOCK),
        # Idle workers, signalled by one other thread; and all asleep since before the recording.
        (total(waits=WAITS, waiters=8, wakers=1, tasks_woken=10), CONDITION),
        (total(open_waits=8, oldest_ns=3_600_000 * MS), CONDITION),
        # So many threads that their hashes cover all.
        (total(waits=WAITS, value_2=5, waiters=128, wakers=128, both=128, tasks_woken=9), CONDITION),
        (total(waits=WAITS, waiters=2, wakers=2, both=2, tasks_woken=9), UNCLEAR),
    ],
)
def test_the_nature_of_a_futex(found: user_rows.FutexTotal, expected: str) -> None:
    kind, why = nature(found)
    assert kind == expected, why
    assert why


@pytest.mark.parametrize(
    ("found", "semaphores", "expected"),
    [
        (total(waits=WAITS, waiters=1, wakers=31, tasks_woken=10), 8, SEMAPHORE),
        (total(waits=WAITS, waiters=1, wakers=31, tasks_woken=10), 7, CONDITION),
        (total(waits=WAITS, waiters=4, wakers=4, both=4, tasks_woken=10), 10, UNCLEAR),
        # Polled with sem_timedwait().
        (total(waits=WAITS, waiters=1, timed=10, timed_out=9), 10, POLL),
        (total(open_waits=8, oldest_ns=3_600_000 * MS), 0, CONDITION),
    ],
)
def test_semaphores(found: user_rows.FutexTotal, semaphores: int, expected: str) -> None:
    kind, why = nature(found, is_semaphore(found, semaphores))
    assert kind == expected, why
    assert ("sem_wait" in why) == (expected in (SEMAPHORE, UNCLEAR))


def words(*wakers: dict[int, int], group: str = "server", others: tuple[int, ...] = ()) -> dict[int, Word]:
    """Words of one group: task 1 (and others) waits on the first, 2 on the second..., with wakes by task."""
    return {
        number: Word(group, frozenset((number, *(others if number == 1 else ()))), woken)
        for number, woken in enumerate(wakers, 1)
    }


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # Three threads that wake each other.
        (words({2: 5, 3: 5}, {1: 5, 3: 5}, {1: 5, 2: 5}), {1, 2, 3}),
        # Two are threads that take turns, or not enough to tell.
        (words({2: 5}, {1: 5}), set()),
        # Workers of a pool: all are woken by the one that gives them work, and wake it.
        (words({2: 1, 3: 1, 4: 1}, {1: 5}, {1: 5}, {1: 5}), set()),
        # The same with two that give work, and wait for nothing.
        (words({8: 5, 9: 5}, {8: 5, 9: 5}, {8: 5, 9: 5}), set()),
        # A pipeline, round and round.
        (words({3: 9}, {1: 9}, {2: 9}), set()),
        # A tenth of the wakes come from elsewhere; or a third, which leaves too few of the others.
        (words({2: 9, 3: 9, 9: 2}, {1: 5, 3: 5}, {1: 5, 2: 5}), {1, 2, 3}),
        (words({2: 9, 3: 9, 9: 9}, {1: 5, 3: 5}, {1: 5, 2: 5}), set()),
        # A process took the place of another; or two that wait at each other's words.
        (words({2: 5, 3: 5}, {1: 5, 3: 5}, {1: 5, 2: 5, 9: 5}, others=(9,)), {1, 2, 3}),
        (words({2: 5, 3: 5}, {1: 5, 3: 5}, {1: 5, 2: 5}, others=(2,)), set()),
        # Of one that sleeps and is never seen to be woken, nothing is known.
        (words({2: 5, 3: 5}, {1: 5, 3: 5}, {1: 5, 2: 5}, {}), {1, 2, 3}),
    ],
)
def test_parked_waiters(found: dict[int, Word], expected: set[int]) -> None:
    assert parked(found) == expected


def test_parked_waiters_are_of_one_group() -> None:
    one, other = words({2: 5, 3: 5}, {1: 5, 3: 5}), words({2: 5, 3: 5}, {1: 5, 3: 5}, {1: 5, 2: 5}, group="other")
    assert parked(one | {3: other[3]}) == set()
    assert parked({number + 10: word for number, word in other.items()}) == {11, 12, 13}


def insert(builder: RecordingBuilder, table: str, row: tuple[Any, ...]) -> None:
    builder.connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Two futexes (a lock that one task holds, an idle pool) that collide, one tracer, one clock."""
    builder = RecordingBuilder(tmp_path / "signals.lockline")
    for waiter in ((901, 70, 70, "holder", 0), (902, 71, 70, "worker", 0)):
        insert(builder, "waiter", waiter)
    insert(builder, "lock", (901, -4096, "futex_hash_bucket.lock", "bucket 3", "slab"))
    insert(builder, "futex", (1, 0, "", 0, 0, "", ""))
    insert(builder, "futex", (2, 70, "server", 4096, 0, "big_lock", "/usr/bin/server"))
    insert(builder, "futex", (3, 70, "server", 8192, 0, "", "[heap]"))
    insert(builder, "futex_total", total(2, WAITS, owner_samples=10, owners=10, waiters=1, wakers=1))
    insert(builder, "futex_total", total(3, (9000 * MS,), waiters=1, wakers=1, tasks_woken=1))
    insert(builder, "futex_sample", (2, "owner", 901, 0, 10, 10, 50 * MS))
    insert(builder, "futex_sample", (2, "waiter", 902, 0, 10, 10, 50 * MS))
    insert(builder, "futex_holder", (2, "R", "", "", 0, 5))
    insert(builder, "futex_holder", (2, "D", "fsync", "folio_wait_bit", 0, 20))
    insert(builder, "futex_bucket", (901, 2, 5, 5000, 2000))
    insert(builder, "futex_bucket", (901, 3, 1, 100, 100))
    blob = histogram.encode(histogram.of((1000, 1000, 9000)))
    insert(builder, "clock_total", (0, 3, 11_000, 9000, blob))
    insert(builder, "clock_total", (1, 0, 0, 0, b""))
    insert(builder, "clock_sample", (901, 0, 1, 3, 11_000))
    insert(builder, "meta", ("clock_function", "read_hpet"))
    insert(builder, "meta", ("clock_reads_timed", 1))
    insert(builder, "inactive_wait", (80, 80, "tracer", 81, 81, "tracee", 3, 40, 38, 40, 0, 11_000, 9000))
    insert(builder, "inactive_cpu", (1, blob, histogram.encode([0, 2, *[0] * 4, 1, *[0] * 121])))
    insert(builder, "ptrace_attach", (80, 80, "tracer", 81, 81, "tracee", 3, 11_000, 9000))
    insert(builder, "ptrace_attach_cpu", (1, blob))
    insert(builder, "loss", ("attach_failed", 1, "calls of ptrace_attach() that failed", "info"))
    return builder.finish()


def document(path: Path) -> dict[str, Any]:
    with open_recording(path) as opened:
        value = json.loads(render_json.render(make_report(opened, Selection(), 10)))
    assert isinstance(value, dict)
    return value


def test_locks_come_first_and_idle_time_is_no_contention(recording: Path) -> None:
    futexes = document(recording)["futexes"]
    assert [futex["name"] for futex in futexes["futexes"]] == ["big_lock", None]
    assert futexes["wait_ns"] == {
        **dict.fromkeys(("parked", "barrier", "spin", "unclear", "poll", "semaphore"), 0),
        "lock": 50 * MS,
        "condition": 9000 * MS,
    }
    assert {(task["role"], task["comm"]) for task in futexes["futexes"][0]["tasks"]} == {
        ("owner", "holder"),
        ("waiter", "worker"),
    }
    (bucket,) = futexes["buckets"]
    assert bucket["collision"]
    assert bucket["waits"] == 6


def test_what_holders_do(recording: Path) -> None:
    """The looks that held-over-sleep follows from."""
    assert [futex["holders"] for futex in document(recording)["futexes"]["futexes"]] == [
        [
            {"state": "D", "call": "fsync", "function": "folio_wait_bit", "looks": 20},
            {"state": "R", "call": None, "function": None, "looks": 5},
        ],
        [],
    ]


def test_whose_doing_the_waiting_is(recording: Path) -> None:
    """At 20 of 25 looks the holder of the lock waited at the other word, a condition: that one is not to blame."""
    first, second = document(recording)["futexes"]["futexes"]
    assert (first["behind"], first["to_blame_ns"], second["to_blame_ns"]) == (None, 50 * MS, 9000 * MS)
    with closing(sqlite3.connect(recording)) as connection:
        connection.execute("UPDATE futex_holder SET state = 'S', call = 'futex', behind = 8192 WHERE state = 'D'")
        connection.commit()
    first, second = document(recording)["futexes"]["futexes"]
    assert (first["behind"]["id"], first["behind"]["part"]) == (3, 0.8)
    assert (first["to_blame_ns"], second["to_blame_ns"]) == (50 * MS, 9000 * MS)
    assert second["behind"] is None


def test_very_many_futexes_are_summed(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file with more than a collector writes, those with most waiting are looked at, and whoever has a holder."""
    with closing(sqlite3.connect(recording)) as connection:
        for number in range(100, 120):
            connection.execute("INSERT INTO futex VALUES (?, 70, 'server', ?, 0, '', '[heap]')", (number, 8 * number))
            values = total(number, (number * MS,), waiters=1, wakers=1, tasks_woken=1)
            places = ",".join("?" * len(values))
            connection.execute(f"INSERT INTO futex_total VALUES ({places})", values)
        connection.commit()
    every = document(recording)["futexes"]
    monkeypatch.setattr(futex, "MOST_FUTEXES", 4)
    few = document(recording)["futexes"]
    kept = [entry["id"] for entry in few["futexes"]]
    assert kept == [2, 3, 120, 119, 118, 117]
    (light,) = (entry for entry in few["futexes"] if entry["id"] == 120)
    assert (light["nature"], light["wait_ns"]) == (CONDITION, sum(range(100, 117)) * MS)
    assert few["wait_ns"] == every["wait_ns"]
    with open_recording(recording) as opened:
        text = render_text.render(make_report(opened, Selection(), 10), Style())
    assert "17 futexes with the least waiting: too many to look at each; together 1.84 s" in text


def test_parked_waiters_in_a_recording(recording: Path) -> None:
    """Three words of what /dev/zero shares, as PostgreSQL has its semaphores; one stands for all in the text."""
    with closing(sqlite3.connect(recording)) as connection:
        for number in (11, 12, 13):
            rows_of_one = [
                ("waiter", (900 + number, number, number, "database", 0)),
                ("futex", (number, number, "database", 4096 * number, 1, "", "/dev/zero")),
                ("futex_total", total(number, WAITS, waiters=1, wakers=2, tasks_woken=10)),
                ("futex_semaphore", (number, 10)),
                ("futex_sample", (number, "waiter", 900 + number, 0, 10, 10, 50 * MS)),
                *(
                    ("futex_sample", (number, "waker", 900 + other, 0, 5, 5, 0))
                    for other in (11, 12, 13)
                    if other != number
                ),
            ]
            for table, row in rows_of_one:
                connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
        connection.commit()
    value = document(recording)
    assert value["futexes"]["wait_ns"]["parked"] == 150 * MS
    assert [futex["nature"] for futex in value["futexes"]["futexes"]].count("parked") == 3
    with open_recording(recording) as opened:
        text = render_text.render(make_report(opened, Selection(), 10), Style())
    assert "a semaphore of one waiter; 2 tasks post it" in text
    assert text.count("tasks post it") == 1
    assert "in shm of database" in text


def test_stacks_that_end_at_once_are_told(recording: Path) -> None:
    with closing(sqlite3.connect(recording)) as connection:
        connection.execute("UPDATE futex_sample SET stack = 991 WHERE role = 'waiter'")
        connection.execute("INSERT INTO stack VALUES (991, 70, x'1000000000000000')")
        connection.commit()
    with open_recording(recording) as opened:
        text = render_text.render(make_report(opened, Selection(), 10), Style())
    assert "10 of 10 sampled stacks are one frame deep" in text
    assert "-fasynchronous-unwind-tables" in text


def test_clock_reads_and_tracers(recording: Path) -> None:
    value = document(recording)
    assert value["clock_reads"]["waits"] == 3
    assert value["clock_reads"]["cpu_share"] > 0
    assert value["inactive_waits"]["pairs"][0]["max_turns"] == 38
    assert value["inactive_waits"]["cpus"][0]["turns"] == [[1, 2], [32, 1]]


def test_attaches(recording: Path) -> None:
    value = document(recording)["ptrace_attaches"]
    assert (value["attaches"], value["failed"], value["attach_ns"], value["max_ns"]) == (3, 1, 11_000, 9000)
    assert value["pairs"][0]["tracee"]["tid"] == 81
    assert sum(calls for _, calls in value["cpus"][0]["histogram"]) == 3
    with open_recording(recording) as opened:
        text = render_text.render(make_report(opened, Selection(), 10), Style())
    assert "Attaching by ptrace: 3 times, 1 of them failed, 11.0 us in all" in text
    assert "tracer 80 to tracee 81: 3 times, 9.00 us at most" in text


def test_the_text_tells_all_three(recording: Path) -> None:
    with open_recording(recording) as opened:
        text = render_text.render(make_report(opened, Selection(), 10), Style())
    for words in ("big_lock of server 70", "held by: holder 70", "futexes that collide", "read_hpet()", "tracee 81"):
        assert words in text, text


def test_long_names_are_no_long_lines(recording: Path) -> None:
    with closing(sqlite3.connect(recording)) as connection:
        connection.execute("UPDATE futex SET name = 'a_name_of_some_length_as_cpp_has_them_' || id WHERE id > 1")
        connection.commit()
    with open_recording(recording) as opened:
        lines = render_text.render(make_report(opened, Selection(), 10), Style()).splitlines()
    assert any("hash bucket" in line for line in lines)
    assert max(map(len, lines)) <= WIDTH


def test_a_damaged_histogram_is_told(recording: Path) -> None:
    for table, column in (("futex_total", "histogram"), ("clock_total", "histogram"), ("inactive_cpu", "turns")):
        with closing(sqlite3.connect(recording)) as connection:
            connection.execute(f"UPDATE {table} SET {column} = x'00'")
            connection.commit()
        with open_recording(recording) as opened, pytest.raises(RecordingError, match="damaged"):
            make_report(opened, Selection(), 10)
