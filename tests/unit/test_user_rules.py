# SPDX-License-Identifier: GPL-2.0-or-later
"""The rules about waiting in user space: barriers, herds, read-write locks, and what cannot be told."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lockline.analysis.answer import make_answer
from lockline.analysis.model import Figures, Report
from lockline.analysis.selection import Selection
from lockline.analysis.sleepers import Asleep, Sleepers
from lockline.analysis.user_space.futex import with_blame
from lockline.analysis.user_space.futex_waits import (
    BARRIER,
    CONDITION,
    LOCK,
    NONE,
    UNCLEAR,
    BarrierSite,
    Futexes,
    FutexStack,
    FutexTask,
    FutexWaits,
    HolderLook,
)
from lockline.analysis.user_space.hidden_waits import HiddenWaits
from lockline.analysis.user_space.java_monitors import Monitor
from lockline.analysis.user_space.user_evidence import (
    ABSL_MUTEX,
    BEHAVIOUR,
    CONDITION_VARIABLE,
    GIL,
    GO_MUTEX,
    MONITOR,
    PY_LOCK,
    RUBY_GVL,
    RUST_MUTEX,
    RUST_RWLOCK,
    RWLOCK,
    Goroutines,
)
from lockline.base.text import Style
from lockline.recording.reader import open_recording
from lockline.recording.rows import Frame
from lockline.recording.user_rows import Futex, FutexTotal
from lockline.render.screen_answer import answer_lines, answer_words
from lockline.render.signals import futexes
from lockline.rules import find_all
from lockline.rules.report import make_report
from recording_generator import RecordingBuilder
from told import told

MS = 1_000_000
LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"


@pytest.fixture
def quiet(tmp_path: Path) -> Report:
    """A report of one second in which no rule finds anything."""
    path = tmp_path / "quiet.lockline"
    builder = RecordingBuilder(path, seconds=1, cpus=4)
    lock = builder.lock(1, "tasklist_lock", "", "symbol")
    builder.waits(1, 0, lock, 0, [1000] * 3)
    builder.finish()
    with open_recording(path) as recording:
        return make_report(recording, Selection(), 10)


def of_program(number: int, nature: str, wait_ns: int, **changed: Any) -> FutexWaits:
    """A futex of process 7 whose waits are a fifth of a millisecond each."""
    total = FutexTotal._make([number, *(0 for _ in FutexTotal._fields[1:])])._replace(**changed.pop("total", {}))
    figures = Figures(wait_ns // (MS // 5), wait_ns, MS, 0, ())
    name = changed.pop("name", "jobs")
    at_once = replace(figures, wait_ns=0, max_ns=0)
    return FutexWaits(
        Futex(number, 7, "server", 4096 * number, 0, name, ""), total, nature, "as it is", figures, at_once, **changed
    )


@pytest.mark.parametrize(
    ("last_part", "rounds", "wait_ns", "threads", "spoken"),
    [
        (0.9, 100, 500 * MS, 4, True),
        # By chance it may be half of them; few rounds; little waiting; of two threads one comes last in half of all.
        (0.5, 100, 500 * MS, 4, False),
        (0.9, 10, 500 * MS, 4, False),
        (0.9, 100, 50 * MS, 4, False),
        (0.7, 100, 500 * MS, 2, False),
        (0.8, 100, 500 * MS, 2, True),
    ],
)
def test_who_comes_last_at_a_barrier(
    quiet: Report, last_part: float, rounds: int, wait_ns: int, threads: int, spoken: bool
) -> None:
    last = FutexTask("last", 74, 7, "worker-3", rounds, rounds, 0)
    site = BarrierSite("compute", wait_ns, rounds, last, last_part)
    futex = of_program(2, BARRIER, wait_ns, name="phase", total={"waiters": threads}, sites=(site,))
    report = replace(quiet, futexes=Futexes((futex,), ()))
    findings = find_all(report)
    assert [found.rule for found in findings] == (["barrier-imbalance"] if spoken else [])
    if spoken:
        assert told(findings[0]).title == "Threads of server (7) wait at a barrier for worker-3 (74), which comes last"
        assert "it is waited at in compute()" in told(findings[0]).evidence
        answer = make_answer(replace(report, findings=findings))
        assert (answer.kind, answer.at_barriers) == ("user space", answer.user_waiting)


@pytest.mark.parametrize(
    ("make", "wait_ns", "latency_ns", "rules"),
    [
        (GIL, 300 * MS, 20 * MS, ["gil-bound"]),
        (RUBY_GVL, 300 * MS, 20 * MS, ["gvl-bound"]),
        # On starved CPUs whoever has it wants one, too; but one thread that waits for it all the time is bound by it.
        (GIL, 300 * MS, 150 * MS, []),
        (RUBY_GVL, 300 * MS, 150 * MS, []),
        (GIL, 3000 * MS, 1000 * MS, ["gil-bound"]),
        (RUBY_GVL, 1600 * MS, 1160 * MS, ["gvl-bound"]),
        # Without the time from the wake-up to the CPU there is too little; of a mutex, too.
        (GIL, 120 * MS, 30 * MS, []),
        ("", 120 * MS, 30 * MS, []),
        ("", 130 * MS, 20 * MS, ["user-lock"]),
    ],
)
def test_waiting_for_a_cpu_is_no_waiting_for_a_lock(
    quiet: Report, make: str, wait_ns: int, latency_ns: int, rules: list[str]
) -> None:
    futex = of_program(2, LOCK, wait_ns, make=make)
    futex = replace(futex, latency=replace(futex.figures, wait_ns=latency_ns))
    assert [found.rule for found in find_all(replace(quiet, futexes=Futexes((futex,), ())))] == rules


@pytest.mark.parametrize(
    ("functions", "ops", "semaphore", "pool"),
    [
        (("__futex_abstimed_wait_common", "pthread_cond_wait", "Pool::take"), 1 << 9, False, True),
        (("syscall", "<std::sys::sync::condvar::futex::Condvar>::wait_optional_timeout", "take"), 1 << 9, False, True),
        (("__futex_abstimed_wait_common", "__new_sem_wait_slow64", "query"), 1 << 9, True, True),
        # A mutex, and one that threads take again when they come out of a condition.
        (("__lll_lock_wait", "pthread_mutex_lock", "query"), 1, False, False),
        (("__lll_lock_wait", "pthread_cond_wait", "query"), 1, False, False),
    ],
)
def test_what_threads_take_and_give_back(
    quiet: Report, functions: tuple[str, ...], ops: int, semaphore: bool, pool: bool
) -> None:
    """By a condition or a semaphore, which behave like a lock then: nobody who signals holds a lock."""
    stacks = (stack_of("waiter", 30, *functions),)
    futex = of_program(2, LOCK, 900 * MS, make=BEHAVIOUR, total={"ops": ops}, stacks=stacks)
    (found,) = find_all(replace(quiet, futexes=Futexes((replace(futex, semaphore=semaphore),), ())))
    words = told(found)
    assert any("give it back" in one for one in words.next) == pool
    assert any("before you signal" in one for one in words.next) == ("pthread_cond_wait" in functions and not pool)


def stack_of(role: str, waits: int, *functions: str, module: str = "") -> FutexStack:
    return FutexStack(role, waits, waits, 0, tuple(Frame(4096, name, 0, module) for name in functions))


@pytest.mark.parametrize(
    ("woken", "function", "herd"),
    [(1600, "pthread_cond_wait", True), (100, "pthread_cond_wait", False), (1600, "take_job", False)],
)
def test_a_herd_at_a_mutex(quiet: Report, woken: int, function: str, herd: bool) -> None:
    """Of one job for each wake-up the others queue for nothing; a busy mutex is another matter."""
    mutex = of_program(2, LOCK, 400 * MS, stacks=(stack_of("waiter", 30, "__lll_lock_wait", function, "take_job"),))
    condition = of_program(
        3,
        CONDITION,
        900 * MS,
        make=CONDITION_VARIABLE,
        total={"wakes": 100, "tasks_woken": woken},
        stacks=(stack_of("waker", 30, "pthread_cond_broadcast", "add_job"),),
    )
    findings = find_all(replace(quiet, futexes=Futexes((mutex, condition), ())))
    assert [found.rule for found in findings] == ["thundering-herd" if herd else "user-lock"]
    remedies = told(findings[0]).next
    assert any("before you signal" in one for one in remedies) == (not herd and function == "pthread_cond_wait")
    if herd:
        assert told(findings[0]).title == "Each wake-up wakes 16 threads of server (7) that want jobs, and one gets it"
        assert "most are woken by add_job()" in told(findings[0]).evidence


@pytest.mark.parametrize(
    ("wakes", "woken", "awake_us", "told_"),
    [
        (1000, 8000, 10, "Each wake-up wakes 8 threads of server (7) in wait_for_job(), and they sleep again at once"),
        # They work; one is woken at a time; it happens now and then.
        (1000, 8000, 200, ""),
        (8000, 8000, 10, ""),
        (100, 800, 10, ""),
    ],
)
def test_threads_that_are_woken_in_vain(quiet: Report, wakes: int, woken: int, awake_us: int, told_: str) -> None:
    asleep = 10 * 1000 * MS - woken * awake_us * 1000
    condition = of_program(
        3,
        CONDITION,
        asleep,
        make=CONDITION_VARIABLE,
        total={"wakes": wakes, "tasks_woken": woken, "waiters": 10},
        stacks=(stack_of("waiter", 30, "pthread_cond_wait", "wait_for_job"),),
    )
    findings = find_all(replace(quiet, futexes=Futexes((condition,), ())))
    assert [(found.rule, found.confidence) for found in findings] == ([("wake-storm", "medium")] if told_ else [])
    if told_:
        assert told(findings[0]).title == told_
        words = "8,000 were woken, and were awake for 10.0 us on average: most had nothing to do"
        assert words in told(findings[0]).evidence


@pytest.mark.parametrize(("empty", "rule"), [(60_000, "wake-storm"), (10_000, "")])
def test_calls_that_wake_nobody(quiet: Report, empty: int, rule: str) -> None:
    futex = of_program(3, NONE, 0, total={"wakes": 60_000, "wakes_empty": empty})
    findings = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    assert [found.rule for found in findings] == ([rule] if rule else [])
    if rule:
        assert told(findings[0]).evidence == ("60,000 calls a second wake nobody, 100.0% of all",)


def test_an_interpreters_calls_that_wake_nobody_are_its_own(quiet: Report) -> None:
    """As sem_post() for each lock of Python that is released."""
    frames = (Frame(1, "sem_post", 0, LIBC), Frame(2, "PyThread_release_lock", 0, "/usr/bin/python3.11"))
    total = {"wakes": 60_000, "wakes_empty": 60_000}
    futex = of_program(3, NONE, 0, total=total, stacks=(FutexStack("waker", 9, 9, 0, frames),))
    assert find_all(replace(quiet, futexes=Futexes((futex,), ()))) == ()


@pytest.mark.parametrize(
    ("make", "stack"), [(RUST_MUTEX, ()), ("", ("__lll_lock_wait_private", "fprintf", "log_line"))]
)
def test_a_lock_that_the_program_did_not_make_wakes_nobody_with_its_own_finding(
    quiet: Report, make: str, stack: tuple[str, ...]
) -> None:
    """The program cannot change whom it wakes: no finding of its own says that it should."""
    total = {"wakes": 60_000, "wakes_empty": 50_000}
    modules = ("/lib/libc.so.6", "/lib/libc.so.6", "/srv/server")
    frames = tuple(Frame(4096, name, 0, module) for name, module in zip(stack, modules, strict=False))
    stacks = (FutexStack("waiter", 30, 30, 0, frames),)
    futex = of_program(2, LOCK, 400 * MS, total=total, make=make, sure="high", stacks=stacks)
    (found,) = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    assert found.rule == "user-lock"
    assert "50,000 calls a second wake nobody, 83.3% of all" in told(found).evidence


@pytest.mark.parametrize(
    ("make", "name", "called"),
    [
        (RUST_MUTEX, "", "a Rust Mutex of their own program"),
        (ABSL_MUTEX, "", "an absl::Mutex of their own program"),
        (RUST_RWLOCK, "", "a Rust RwLock, a read-write lock of their own program"),
        (RUST_MUTEX, "TABLE", "TABLE of their own program"),
        ("", "", "a lock of their own program"),
    ],
)
def test_a_lock_without_a_name_is_called_by_its_make(quiet: Report, make: str, name: str, called: str) -> None:
    futex = of_program(2, LOCK, 400 * MS, make=make, name=name)
    (found,) = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    assert told(found).title == f"Threads of server (7) wait for {called}"


@pytest.mark.parametrize(("ops", "who"), [(1 << 24, "goroutines"), (1 << 26, "goroutines"), (1 << 9, "threads")])
def test_goroutines_are_no_threads(quiet: Report, ops: int, who: str) -> None:
    """A process has more of them: 2.0 may wait where one thread runs."""
    futex = of_program(2, LOCK, 2000 * MS, make=GO_MUTEX, total={"ops": ops})
    report = replace(quiet, futexes=Futexes((futex,), ()))
    report = replace(report, findings=find_all(report))
    assert any(f": 2.00 {who} wait at any moment" in line for line in told(report.findings[0]).evidence)
    assert f"on average 2.0 {who}, all of them for " in answer_words(report, make_answer(report), Style())


@pytest.mark.parametrize(
    ("function", "module", "where"),
    [
        ("acquire_timed", "/usr/bin/python3.11", ""),
        ("slot_tp_init", "/usr/lib/x86_64-linux-gnu/libpython3.12.so.1.0", ""),
        ("acquire_timed", "/usr/lib/libpython3.13t.so.1.0", ""),
        ("acquire_timed", "/usr/local/lib/libpython3.8m.so.1.0", ""),
        ("acquire_timed", "/usr/bin/python3.13t", ""),
        ("solve", "/srv/pythonic", ", in solve()"),
        ("py::work:/srv/app.py", "[python]", ", in app.py:work()"),
        ("py::Store.get:/srv/lib/python3.12/site-packages/store/db.py", "[python]", ", in db.py:Store.get()"),
        # Of Python's own library.
        ("py::Condition.wait:/usr/lib/python3.11/threading.py", "[python]", ""),
        ("py::_find_spec:<frozen importlib._bootstrap>", "[python]", ""),
        ("solve", "/usr/lib/python3/dist-packages/fast.cpython-311-x86_64-linux-gnu.so", ", in solve()"),
    ],
)
def test_which_lock_of_python_it_is(quiet: Report, function: str, module: str, where: str) -> None:
    """Its threads wait in the interpreter's function for any lock, unless CPython names the program's own."""
    stacks = (stack_of("waiter", 30, "syscall", function, module=module),)
    futex = of_program(2, LOCK, 400 * MS, make=PY_LOCK, stacks=stacks)
    (found,) = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    words = told(found)
    assert words.title == f"Threads of server (7) wait for a lock of Python's threading (Lock, RLock){where}"
    assert words.next[0].startswith("look at what " if where else "`py-spy dump --pid 7`")


@pytest.mark.parametrize(
    ("class_name", "todo"),
    [
        ("java.io.PrintStream", "each call has the stream's lock until it is done"),
        ("java.util.Hashtable", "the class locks itself in each call"),
        # Objects that programs make for nothing but a lock.
        ("java.lang.Object", "make the synchronized part shorter"),
        ("com.example.Orders", "make the synchronized part shorter"),
    ],
)
def test_a_monitor_that_the_program_cannot_split(quiet: Report, class_name: str, todo: str) -> None:
    monitor = Monitor(4096, class_name, 1.0, 20, "", 0, 0.0)
    futex = of_program(2, LOCK, 400 * MS, make=MONITOR, monitors=(monitor,))
    (found,) = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    assert told(found).next[0].startswith(todo)


@pytest.mark.parametrize(
    ("methods", "todo"),
    [
        (("java.util.concurrent.ConcurrentHashMap.compute", "Shop.book"), "do less in what you give to compute()"),
        (("java.util.Hashtable.get", "Shop.book"), "the class locks itself in each call"),
        (("Shop.book", "java.util.TreeMap.compute"), "make the synchronized part shorter"),
        ((), "make the synchronized part shorter"),
    ],
)
def test_the_method_that_threads_wait_in_tells_what_locks_itself(
    quiet: Report, methods: tuple[str, ...], todo: str
) -> None:
    """Where threads wait for monitors of many objects, and none has most of the waiting."""
    frames = [Frame(1, "ObjectMonitor::enter", 0, "libjvm.so"), Frame(2, "HotSpot::monitorenter", 0, "[java]")]
    frames += [Frame(3, name, 0, "[java]") for name in methods]
    waits = FutexStack("waiter", 10, 10, 0, tuple(frames))
    futex = replace(of_program(2, LOCK, 400 * MS, make=MONITOR), stacks=(waits,))
    (found,) = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    assert told(found).next[0].startswith(todo)


def test_what_to_do_about_the_lock_of_pythons_logging(quiet: Report) -> None:
    file = "/usr/lib/python3.12/logging/__init__.py"
    names = (f"py::Handler.acquire:{file}", f"py::info:{file}", "py::serve:/srv/shop.py")
    waits = FutexStack("waiter", 10, 10, 0, tuple(Frame(3, name, 0, "") for name in names))
    futex = replace(of_program(2, LOCK, 400 * MS, make=PY_LOCK), stacks=(waits,))
    (found,) = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    words = told(found)
    assert "a lock that Python's logging has for itself, in info(), called from shop.py:serve()" in words.title
    assert words.next[0].startswith("a handler of logging has its lock until the line is written")


@pytest.mark.parametrize(
    ("looks", "rule"),
    [
        ((HolderLook("D", "fsync", "folio_wait_bit", 15), HolderLook("R", "", "", 10)), "held-over-sleep"),
        # Half of them; too few; asleep in another lock's futex.
        ((HolderLook("D", "fsync", "folio_wait_bit", 15), HolderLook("R", "", "", 15)), "user-lock"),
        ((HolderLook("D", "fsync", "folio_wait_bit", 19),), "user-lock"),
        ((HolderLook("S", "futex", "futex_do_wait", 40),), "user-lock"),
    ],
)
def test_a_lock_that_is_held_over_a_sleep(quiet: Report, looks: tuple[HolderLook, ...], rule: str) -> None:
    (found,) = find_all(replace(quiet, futexes=Futexes((of_program(2, LOCK, 400 * MS, holders=looks),), ())))
    assert found.rule == rule
    if rule == "held-over-sleep":
        assert told(found).title == (
            "The holder of jobs sleeps with it held, in fsync(): other threads of server (7) wait for it"
        )
        assert (
            "at 60.0% of 25 looks its holder slept in fsync(), in the kernel's folio_wait_bit()" in told(found).evidence
        )
        assert "at 40.0% of 25 looks its holder ran, or waited for a CPU" in told(found).evidence
        assert any("without the lock" in line for line in told(found).next)


def test_where_the_owner_lets_go_that_threads_wait_for(quiet: Report) -> None:
    """Not where most of those who wait are woken: after a long hold they wake each other.  Chance owners are none."""
    stacks = (
        FutexStack("waiter", 90, 90, 9, (Frame(1, "touch", 8, ""),)),
        FutexStack("waker", 90, 90, 0, (Frame(2, "touch", 9, ""),), 10 * MS),
        FutexStack("waker", 9, 9, 0, (Frame(3, "sweep", 9, ""),), 990 * MS),
    )
    tasks = (FutexTask("owner", 71, 7, "sweeper", 90, 90, 995 * MS), FutexTask("owner", 72, 7, "b", 1, 1, 5 * MS))
    looks = (HolderLook("S", "clock_nanosleep", "hrtimer_nanosleep", 30),)
    futex = replace(of_program(2, LOCK, 1000 * MS, holders=looks, stacks=stacks), tasks=tasks)
    (found,) = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    words = told(found)
    assert "the owner whom they wait for most releases it in sweep()" in words.evidence
    assert "seen as its owner: sweeper (71)" in words.evidence
    assert words.next[0].startswith("in sweep(), wait for files, sockets and timers without the lock")
    assert words.next[1].startswith("look at what sweep() does between taking the lock and releasing it")
    (unknown,) = find_all(replace(quiet, futexes=Futexes((replace(futex, stacks=()),), ())))
    assert told(unknown).next[0].startswith("wait for files, sockets and timers without the lock")


def test_a_lock_whose_holder_waits_for_another_one(quiet: Report) -> None:
    """The lock at the end of the chain leads, with all the waiting; the other one points to it."""
    busy = HolderLook("S", "futex", "futex_do_wait", 30, 4096 * 3)
    asleep = HolderLook("S", "fsync", "folio_wait_bit", 30)
    first = of_program(2, LOCK, 800 * MS, name="orders", holders=(busy, HolderLook("R", "", "", 5)))
    second = of_program(3, LOCK, 90 * MS, name="stock", holders=(asleep,))
    report = replace(quiet, futexes=Futexes(with_blame((first, second)), ()))
    led, pointed = (told(found) for found in find_all(report))
    # Even though so few wait for it that alone it would not be worth a word.
    assert led.rule == "held-over-sleep"
    assert led.title.startswith("The holder of stock sleeps with it held, in fsync()")
    assert any(line.startswith("0.69 threads more wait for orders, whose holder") for line in led.evidence)
    assert led.wait_ns == 90 * MS + round(800 * MS * 30 / 35)
    assert pointed.title == "The holder of orders waits for stock: look at that one first"
    assert "at 85.7% of 35 looks its holder waited for stock" in pointed.evidence
    assert pointed.next[0].startswith("shorten what is done with stock held")
    assert led.wait_ns + pointed.wait_ns == 890 * MS


def test_a_lock_whose_holder_waits_at_a_condition(quiet: Report) -> None:
    """It waits for another thread's answer: a condition is no lock that is held, nor to blame; both its words count."""
    looks = tuple(HolderLook("S", "futex", "futex_do_wait", 15, 4096 * 3 ^ word) for word in (0, 4))
    lock = of_program(2, LOCK, 800 * MS, name="connection", holders=looks)
    reply = of_program(3, CONDITION, 400 * MS, name="reply", make=CONDITION_VARIABLE, words=(4,))
    (found,) = find_all(replace(quiet, futexes=Futexes(with_blame((lock, reply)), ())))
    assert found.impact.wait_ns == 800 * MS
    assert told(found).title.startswith("The holder of connection waits for another thread with it held")
    assert "at 100.0% of 30 looks its holder waited at reply, a condition" in told(found).evidence
    assert "without the lock" in told(found).next[0]
    assert not any("reply" in line for line in told(found).next)


def test_where_the_holder_sleeps() -> None:
    """Two words that it waits at are two lines, and each has its word: no line stands there twice."""
    looks = (HolderLook("S", "futex", "futex_do_wait", 6, 0x1148), HolderLook("S", "futex", "futex_do_wait", 3, 0x114C))
    mutex = of_program(2, LOCK, 800 * MS, holders=(*looks, HolderLook("R", "", "", 1)))
    text = " ".join(" ".join(futexes(Futexes((mutex,), ()), Style())).split())
    slept = "60.0% sleeps in futex() (futex_do_wait), at 0x1148; 30.0% sleeps in futex() (futex_do_wait), at 0x114c; "
    assert slept in text
    assert "10.0% runs, or wants to" in text


def test_a_lock_of_the_c_library(quiet: Report) -> None:
    frames = tuple(
        Frame(number, name, 0, module)
        for number, (name, module) in enumerate(
            [("__lll_lock_wait_private", "/lib/libc.so.6"), ("malloc", "/lib/libc.so.6"), ("parse", "/srv/server")]
        )
    )
    mutex = of_program(2, LOCK, 400 * MS, stacks=(FutexStack("waiter", 30, 30, 0, frames),))
    (found,) = find_all(replace(quiet, futexes=Futexes((mutex,), ())))
    assert (found.rule, found.confidence) == ("user-lock", "high")
    assert told(found).title == "Threads of server (7) wait for a lock of the C library, in malloc(): jobs"
    assert "100.0% of the sampled waits are in malloc(), called from parse()" in told(found).evidence
    assert "allocate less there" in told(found).next[0]


@pytest.mark.parametrize(
    "library",
    [
        ("tbb::detail::r1::wait_on_address", "tbb::detail::d1::mutex::lock"),
        ("QBasicMutex::lockInternal",),
        ("QWaitCondition::wait", "QReadWriteLock::tryLockForWrite"),
        ("g_mutex_lock_slowpath", "g_mutex_lock"),
        ("boost::mutex::lock",),
        ("ethr_event_swait", "ethr_rwmutex_rwlock"),
    ],
)
def test_the_programs_function_and_not_the_librarys_that_waits_for_it(quiet: Report, library: tuple[str, ...]) -> None:
    mutex = of_program(2, LOCK, 400 * MS, stacks=(stack_of("waiter", 30, "syscall", *library, "book", "main"),))
    (found,) = find_all(replace(quiet, futexes=Futexes((mutex,), ())))
    assert " in book()" in told(found).title


def test_few_but_long_waits_for_what_is_known_to_be_a_lock(quiet: Report) -> None:
    total = FutexTotal._make([2, *(0 for _ in FutexTotal._fields[1:])])
    figures, at_once = Figures(3, 3000 * MS, 2000 * MS, 0, ()), Figures(3, 0, 0, 0, ())
    futex = FutexWaits(
        Futex(2, 7, "server", 4096, 0, "table", ""), total, LOCK, "a pthread rwlock", figures, at_once, make=RWLOCK
    )
    findings = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    assert told(findings[0]).title == ("Threads of server (7) wait for table, a read-write lock of their own program")
    assert find_all(replace(quiet, futexes=Futexes((replace(futex, make="", sure="medium"),), ()))) == ()


@pytest.mark.parametrize(("waits", "words"), [(1, "1 wait"), (3, "3 waits")])
def test_a_wait_that_has_not_ended_counts(quiet: Report, waits: int, words: str) -> None:
    """A writer that readers starve: its wait outlasts the recording, as those of others may."""
    total = {"open_waits": waits, "oldest_ns": 900 * MS, "open_ns": waits * 900 * MS}
    futex = of_program(2, LOCK, 4 * MS, total=total, make=RWLOCK)
    report = replace(quiet, futexes=Futexes((futex,), ()))
    (found,) = find_all(report)
    assert found.impact.wait_ns == (4 + waits * 900) * MS
    assert f"{words} had not ended, the oldest after 900 ms" in told(found).evidence
    answer = make_answer(replace(report, findings=(found,)))
    assert (answer.kind, round(answer.user_waiting or 0.0, 2)) == ("user space", round(waits * 0.9, 2))


@pytest.mark.parametrize(
    ("total", "shared", "says", "todo"),
    [
        (
            {},
            0,
            "they wait for its readers, who never let it go to a writer",
            "`gdb -p 7 -batch -ex 'p *(int *)0x1ff8'`",
        ),
        # In memory that processes share the address is another one in each.
        ({}, 1, "they wait for its readers, who never let it go to a writer", "glibc lets new readers pass a writer"),
        ({"slept": 3, "tasks_woken": 3}, 0, "they wait until its readers let go", "glibc lets new readers pass"),
    ],
)
def test_writers_that_wait_for_readers(quiet: Report, total: dict[str, int], shared: int, says: str, todo: str) -> None:
    still = {"open_waits": 1, "oldest_ns": 900 * MS, "open_ns": 900 * MS}
    futex = of_program(2, LOCK, 4 * MS, total=still | total, make=RWLOCK, behind_readers=True)
    futex = replace(futex, futex=futex.futex._replace(shared=shared))
    (found,) = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    words = told(found)
    assert words.title == "Writers of server (7) wait for readers of jobs, a read-write lock of their own program"
    assert any(line.startswith(says) for line in words.evidence)
    assert words.next[0].startswith(todo)


def test_waits_that_cannot_be_told_are_spoken_of(quiet: Report) -> None:
    report = replace(quiet, futexes=Futexes((of_program(2, UNCLEAR, 3 * quiet.window.duration_ns),), ()))
    words = answer_words(report, make_answer(report), Style())
    assert "Besides, 3.0 threads of programs wait on average" in words


@pytest.mark.parametrize(
    ("wait_ms", "longest_ms", "kind"),
    [(99, 5, "negligible"), (99, 10, "user space"), (9, 10, "negligible"), (100, 5, "user space")],
)
def test_little_waiting_for_locks_of_programs(quiet: Report, wait_ms: int, longest_ms: int, kind: str) -> None:
    """A tenth of one thread's time, or a hundredth with a wait that somebody notices."""
    lock = of_program(2, LOCK, wait_ms * MS)
    lock = replace(lock, figures=replace(lock.figures, max_ns=longest_ms * MS))
    report = replace(quiet, futexes=Futexes((lock,), ()))
    answer = make_answer(report)
    assert answer.kind == kind
    words = answer_words(report, answer, Style())
    assert ("So are programs' own locks: 0.10 threads wait" in words) == (kind == "negligible" and wait_ms > 9)


def test_where_goroutines_wait_and_let_go(quiet: Report) -> None:
    waits = stack_of("waiter", 30, "sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "main.take")
    wakes = stack_of("waker", 30, "sync.(*Mutex).unlockSlow", "main.put")
    lock = of_program(2, LOCK, 400 * MS, make=GO_MUTEX, stacks=(waits, wakes))
    (found,) = find_all(replace(quiet, futexes=Futexes((lock,), ())))
    assert told(found).title.endswith("wait for a sync.Mutex, in main.take()")
    assert "most of those who wait are let in by main.put()" in told(found).evidence
    # Most waits ended by their timeout: a few wakes do not tell how.
    timed = replace(lock, total=lock.total._replace(slept=1000, timed_out=900))
    (found,) = find_all(replace(quiet, futexes=Futexes((timed,), ())))
    assert not any("are let in by" in line for line in told(found).evidence)


def test_goroutines_are_in_the_answer(quiet: Report) -> None:
    report = replace(quiet, futexes=Futexes((), (), unseen=(Goroutines("api", 7, 30),)))
    words = answer_words(report, make_answer(report), Style())
    assert "Goroutines of api wait for mutexes too" in words
    assert "`lockline record --futex --go -p 7`" in words
    # Nobody knows whether they wait.
    report = replace(quiet, futexes=Futexes((), (), unseen=(Goroutines("api", 7, 0),)))
    assert "What goroutines of api wait for is not recorded here" in answer_words(report, make_answer(report), Style())


def test_the_answer_has_barriers_at_which_no_one_thread_is_late(quiet: Report) -> None:
    last = FutexTask("last", 74, 7, "worker-3", 30, 30, 0)

    def words(last_part: float, waiting_ms: int) -> str:
        site = BarrierSite("compute", waiting_ms * MS, 100, last, last_part)
        futex = of_program(2, BARRIER, waiting_ms * MS, total={"waiters": 4}, sites=(site,))
        report = replace(quiet, futexes=Futexes((futex,), ()))
        return answer_words(report, make_answer(replace(report, findings=find_all(report))), Style())

    assert "Besides, 2.7 threads wait at barriers on average, and no one thread comes last." in words(0.3, 2700)
    assert "no one thread" not in words(0.9, 2700)
    assert "at barriers" not in words(0.3, 500)


def test_the_answer_says_what_would_show_them(quiet: Report) -> None:
    def words(one: HiddenWaits) -> str:
        report = replace(quiet, futexes=Futexes((), (), hidden=(one,)))
        return answer_words(report, make_answer(report), Style())

    assert "`jcmd 7 Thread.dump_to_file FILE` shows it" in words(HiddenWaits("virtual threads", "java", 7))
    assert "jdk.JavaMonitorEnter" in words(HiddenWaits("virtual monitors", "java", 7))
    told = words(HiddenWaits("python condition", "python3", 7, 4.9, "app.py:borrow"))
    assert "4.9 threads of python3 (7) wait for others in threading, mostly in app.py:borrow(): for a" in told
    assert "`py-spy dump --pid 7`" in told
    for kind, shows in (("Haskell threads", "+RTS -l"), ("Erlang processes", "etop"), ("tokio tasks", "tokio-console")):
        assert f"`{shows}" in words(HiddenWaits(cast(Any, kind), "server", 7))


def test_threads_that_spin_are_told_before_what_was_looked_at(quiet: Report) -> None:
    """There is room for seven lines: what was looked at is left out first, and says nothing against it."""
    futexes = Futexes((), (), hidden=(HiddenWaits("spin", "ticket", 7, 3.0, "ticket_lock"),))
    asleep = (Asleep("ticket", 7, "futex", "futex_wait_queue", "", 1.0),)
    sleepers = Sleepers(7, 5.0, 5.0, (("ticket", 7),), asleep, 4.0, 0.97, ())
    report = replace(quiet, futexes=futexes, sleepers=sleepers)
    told = " ".join(" ".join(answer_lines(report, make_answer(report), Style(), 80)).split())
    assert "3.0 threads of ticket (7) spin on average in ticket_lock()" in told
    assert "spinning in programs" not in told


def test_threads_that_spin_in_a_scheduler_and_its_tasks_are_both_told(quiet: Report) -> None:
    hidden = (HiddenWaits("spin", "h", 7, 1.4, "gc"), HiddenWaits("Haskell threads", "h", 7))
    report = replace(quiet, futexes=Futexes((), (), hidden=hidden))
    told = answer_words(report, make_answer(report), Style())
    assert "1.4 threads of h (7) spin on average in gc()" in told
    assert "What Haskell threads of h (7) wait for" in told


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        ("main.serve", "go-narrow-mutex"),
        ("example.com/net/http.(*Cache).Get", "go-narrow-mutex"),
        ("log.(*Logger).output", "go-write-less"),
        ("net/http.(*Server).trackConn", "go-call-less"),
        ("math/rand.Int63", "go-call-less"),
    ],
)
def test_nobody_changes_a_mutex_of_gos_library(quiet: Report, function: str, advice: str) -> None:
    frames = (Frame(1, "sync.(*Mutex).Lock", 0, "/srv/api"), Frame(2, function, 0, "/srv/api"))
    stacks = tuple(FutexStack(role, 9, 9, 9, frames) for role in ("waiter", "waker"))
    futex = of_program(2, LOCK, 2000 * MS, make=GO_MUTEX, stacks=stacks)
    (found,) = find_all(replace(quiet, futexes=Futexes((futex,), ())))
    assert found.remedies[0].action == advice


def test_where_threads_wait_of_which_nobody_knows_what_for(quiet: Report) -> None:
    frames = (Frame(1, "pthread_cond_wait", 0, LIBC), Frame(2, "borrow", 0, "/srv/app"))
    futex = of_program(2, UNCLEAR, 2000 * MS, stacks=(FutexStack("waiter", 9, 9, 9, frames),))
    report = replace(quiet, futexes=Futexes((futex, of_program(3, UNCLEAR, 10 * MS)), ()))
    told = answer_words(report, make_answer(report), Style())
    assert "2.0 threads of programs wait on average, mostly in borrow() of server;" in told


@pytest.mark.parametrize(
    ("make", "longest_ms", "to_cpu_ms", "kind"),
    [
        ("", 40, 0, "user space"),
        # It was woken, and had no CPU for as long; whoever has the GIL computes, or wants a CPU.
        ("", 40, 38, "negligible"),
        (GIL, 40, 0, "negligible"),
    ],
)
def test_a_single_wait_matters_if_it_is_for_the_lock(
    quiet: Report, make: str, longest_ms: int, to_cpu_ms: int, kind: str
) -> None:
    futex = of_program(2, LOCK, 50 * MS, make=make, total={"max_latency_ns": to_cpu_ms * MS})
    futex = replace(futex, figures=replace(futex.figures, max_ns=longest_ms * MS))
    assert make_answer(replace(quiet, futexes=Futexes((futex,), ()))).kind == kind
