# SPDX-License-Identifier: GPL-2.0-or-later
"""A lock of a program's own, in user space, that its threads wait for in the kernel (record --futex)."""

from lockline.analysis.behind import ENOUGH_LOOKS
from lockline.analysis.findings import (
    Fact,
    Finding,
    Function,
    Impact,
    Measure,
    Process,
    Remedy,
    Task,
    Text,
    UserLock,
    fact,
    ns,
    part,
    remedy,
)
from lockline.analysis.model import Report
from lockline.analysis.user_space.c_library_locks import (
    ENVIRONMENT,
    LOADER,
    MALLOC,
    NAMES,
    OTHER,
    RANDOM,
    SHARED_POINTERS,
    STDIO,
    TIME_ZONE,
    CLibraryLock,
)
from lockline.analysis.user_space.critical_sections import held_in, released_in, waited_in, waits_by_function
from lockline.analysis.user_space.futex_waits import LOCK, PAGE_FAULT, FutexWaits, HolderLook
from lockline.analysis.user_space.java_locks import locking_class, object_class
from lockline.analysis.user_space.java_monitors import ENOUGH_LOOKS as ENOUGH_AT_MONITORS
from lockline.analysis.user_space.java_monitors import heaviest, owner_of
from lockline.analysis.user_space.library_locks import LibraryLock
from lockline.analysis.user_space.program_functions import go_package, is_go_writer
from lockline.analysis.user_space.pthreads import PHASE_WORD
from lockline.analysis.user_space.python_objects import object_functions, stopped_to_collect
from lockline.analysis.user_space.user_evidence import (
    ATOMICS,
    BEHAVIOUR,
    ERLANG_LOCK,
    FULL_QUEUES,
    GIL,
    GO_CHANNEL,
    GO_COND,
    GO_DATABASE,
    GO_FLIGHT,
    GO_MUTEX,
    GO_ONCE,
    GO_POOL,
    GO_RWMUTEX,
    GO_SEMAPHORE,
    GO_WEIGHTED,
    JAVA_CLASS,
    JAVA_LOCK,
    JAVA_QUEUE,
    MONITOR,
    MONO_LOCK,
    MONO_MONITOR,
    NET_LOCK,
    NET_MONITOR,
    OCAML_LOCK,
    OCAML_STOP,
    ONCE,
    OWN_POOL,
    OWN_QUEUE,
    PY_LOCK,
    PY_MUTEX,
    PY_OBJECT,
    PY_PROCESS_LOCK,
    PY_QUEUE,
    PY_SEMAPHORE,
    PY_STOP,
    PYPY_GIL,
    PYPY_LOCK,
    QT_RWLOCK,
    QT_SEMAPHORE,
    ROW_LOCK,
    RUBY_GVL,
    RUBY_MUTEX,
    RUST_CHANNEL,
    RUST_RWLOCK,
    RWLOCK,
    TABLE_LOCK,
    TBB_QUEUE,
    lock_called,
)
from lockline.recording import user_rows
from lockline.rules.common import (
    ENOUGH_WAITS,
    OF_GOROUTINES,
    USER_WORTH_TELLING,
    empty_wakes,
    is_made_by_others,
    library_of,
    share,
    user_waits,
)
from lockline.rules.herd import at_condition, condition_of, out_of_condition

# A wait that needs no others beside it.
LONG_NS = 1_000_000_000
# The part of all waiting from which a wait that has not ended is spoken of.
_WORTH_ADDING = 0.1
# Less than this part of the waiting is for an owner by chance: who has a lock for a moment is not waited for.
_HARDLY = 0.01
# The part of the looks at holders from which on something is what they do.
_MOSTLY = 0.5
# The part of the sampled waits from which a function that wants an interpreter's lock is told.
_WORTH_TELLING = 0.2
HELD_OVER_SLEEP = "held-over-sleep"
# Threads that wait for an interpreter's lock on average, from which on their program is bound by it.
BOUND = 0.5
# Waits for such a lock and waits for a CPU are alike up to this ratio.
_AS_LONG = 3
# System calls in which a holder waits for another lock of its program.
_FUTEX_CALLS = ("futex", "futex_wait", "futex_waitv")
# Findings of their own, and what they say, by the kind of lock.
_RULES = {
    GIL: "gil-bound",
    PYPY_GIL: "gil-bound",
    OCAML_LOCK: "master-lock-bound",
    RUBY_GVL: "gvl-bound",
    MONITOR: "hot-monitor",
    NET_MONITOR: "hot-monitor",
    MONO_MONITOR: "hot-monitor",
}
# What they say of a program that is not bound by it.
_SELDOM = {GIL: "gil-at-times", PYPY_GIL: "gil-at-times", OCAML_LOCK: "master-lock-at-times", RUBY_GVL: "gvl-at-times"}
_CLAIMS = {
    "": "user-lock",
    BEHAVIOUR: "lock-by-behaviour",
    GIL: "gil-bound",
    PYPY_GIL: "gil-bound",
    PY_LOCK: "hot-py-lock",
    PYPY_LOCK: "hot-py-lock",
    PY_MUTEX: "hot-py-mutex",
    PY_OBJECT: "hot-py-object",
    PY_PROCESS_LOCK: "hot-py-process-lock",
    PY_SEMAPHORE: "hot-py-semaphore",
    MONITOR: "hot-monitor",
    JAVA_LOCK: "hot-java-lock",
    **OF_GOROUTINES,
    RWLOCK: "hot-rwlock",
    RUST_CHANNEL: "hot-rust-channel",
    JAVA_QUEUE: "full-queue",
    PY_QUEUE: "full-queue",
    TBB_QUEUE: "full-queue",
    OWN_QUEUE: "full-queue",
    OWN_POOL: "pool-too-small",
    ONCE: "slow-once",
    JAVA_CLASS: "slow-java-class",
    RUST_RWLOCK: "hot-rwlock",
    RUBY_GVL: "gvl-bound",
    OCAML_LOCK: "master-lock-bound",
    OCAML_STOP: "ocaml-stopped",
    RUBY_MUTEX: "hot-ruby-mutex",
    ATOMICS: "hot-atomics",
    NET_MONITOR: "hot-net-monitor",
    NET_LOCK: "hot-net-lock",
    MONO_MONITOR: "hot-net-monitor",
    MONO_LOCK: "hot-net-lock",
    QT_RWLOCK: "hot-rwlock",
    ERLANG_LOCK: "hot-erlang-lock",
    ROW_LOCK: "hot-row-lock",
    TABLE_LOCK: "hot-table-lock",
}

# Classes of Java's library; objects of java.lang are what programs lock of their own: an Object, a Class.
_JAVA_LIBRARY = ("java.", "javax.", "jdk.", "sun.")
_JAVA_LANGUAGE = "java.lang."

# Statics of Rust's library (library/std/src/io/stdio.rs): print!() and eprintln!() have their lock for each call.
_RUST_STREAMS = "std::io::stdio::"

# In terms of what the program calls, as nobody can shorten the C library.
_LIBRARY_REMEDIES = {
    MALLOC: (remedy("allocate-less"), remedy("other-allocator")),
    STDIO: (remedy("write-once"), remedy("one-writer")),
    RANDOM: (remedy("generator-by-thread"),),
    TIME_ZONE: (remedy("convert-time-less"),),
    LOADER: (remedy("load-less"),),
    NAMES: (remedy("keep-names"),),
    ENVIRONMENT: (remedy("keep-environment"),),
    SHARED_POINTERS: (remedy("atomic-shared-pointer"),),
    OTHER: (remedy("call-less"),),
}


def _owners(futex: FutexWaits) -> tuple[Task, ...]:
    """Who was seen to have it, without those whom hardly anybody waited for."""
    owners = [task for task in futex.tasks if task.role == "owner"]
    every = sum(task.wait_ns for task in owners)
    return tuple(Task(task.comm, task.tid) for task in owners if task.wait_ns >= _HARDLY * every)


def _looks(futex: FutexWaits) -> int:
    return sum(look.looks for look in futex.holders)


def _sleeps_in(futex: FutexWaits) -> HolderLook | None:
    """What holders sleep in, if they mostly do; None: they do not, or too few looks tell."""
    asleep = [look for look in futex.holders if look.state in ("S", "D") and look.call not in _FUTEX_CALLS]
    every, slept = _looks(futex), sum(look.looks for look in asleep)
    if every < ENOUGH_LOOKS or slept <= _MOSTLY * every:
        return None
    return asleep[0]


def _call(look: HolderLook) -> Function | Text | None:
    if look.call == PAGE_FAULT:
        return Text("a page fault")
    return Function(look.call) if look.call else None


def _done_by_holders(futex: FutexWaits) -> list[Fact]:
    """Evidence of what they do, where enough looks tell."""
    every = _looks(futex)
    if every < ENOUGH_LOOKS:
        return []
    found = []
    for look in futex.holders[:3]:
        at, looks = part(look.looks / every, "the looks"), Measure(every, "looks")
        function = Function(look.function) if look.function else None
        if look.state == "R":
            found.append(fact("holder-ran", part=at, looks=looks))
        elif look.call in _FUTEX_CALLS and futex.behind is not None:
            # Told with the other lock's name.
            continue
        elif look.call in _FUTEX_CALLS:
            found.append(fact("holder-waited", part=at, looks=looks))
        else:
            found.append(fact("holder-slept", part=at, looks=looks, call=_call(look), function=function))
    return found


def _monitors_seen(futex: FutexWaits) -> list[Fact]:
    """Evidence of which monitors of Java the waits were for, and who had them."""
    return [
        fact(
            "monitor-seen",
            looks=Measure(monitor.looks, "looks"),
            part=part(monitor.part, "the threads seen waiting"),
            class_name=Text(monitor.class_name),
            owner=Text(f'"{monitor.owner}"') if monitor.owner else None,
            owned=part(monitor.owner_part, "the looks") if monitor.owner else None,
        )
        for monitor in futex.monitors
        if monitor.class_name and monitor.looks >= ENOUGH_AT_MONITORS and monitor.part >= _WORTH_ADDING
    ]


def _of_java_lock(class_name: str) -> tuple[Remedy, ...]:
    """What to do about a lock of java.util.concurrent."""
    if class_name == "Semaphore":
        return remedy("more-permits"), remedy("java-lock-events")
    if class_name == "ReentrantReadWriteLock":
        return remedy("java-shorten-rwlock"), remedy("java-lock-events")
    if class_name == "StampedLock":
        return remedy("java-read-optimistically"), remedy("java-lock-events")
    return remedy("java-narrow-lock"), remedy("java-lock-events")


def _locks_in(futex: FutexWaits, called: str) -> str:
    """The class whose methods lock for themselves where threads wait: of the object, or else of the method."""
    return called or (locking_class(futex) if futex.make == MONITOR else "")


def _of_monitor(class_name: str) -> tuple[Remedy, ...]:
    """What to do about a Java monitor.  Classes of Java's own library lock themselves, and no program changes them."""
    if class_name.startswith("java.io."):
        return remedy("java-write-less"), remedy("java-lock-events")
    if class_name.partition("$")[0] == "java.util.concurrent.ConcurrentHashMap":
        return remedy("java-compute-less"), remedy("java-lock-events")
    if class_name.startswith(_JAVA_LIBRARY) and not class_name.startswith(_JAVA_LANGUAGE):
        return remedy("java-call-less"), remedy("java-lock-events")
    return remedy("java-narrow-monitor"), remedy("java-lock-events")


def _wanted_in(futex: FutexWaits) -> list[Fact]:
    """Evidence of which functions threads want an interpreter's lock in, the two that want it most."""
    waits = waits_by_function(futex)
    every = sum(waits.values())
    return [
        fact("gil-wanted-in", part=part(count / every, "the sampled waits"), function=Function(name))
        for name, count in waits.most_common(2)
        if count >= _WORTH_TELLING * every
    ]


def _objects_in(futex: FutexWaits) -> list[Fact]:
    """Evidence of what the interpreter does with objects of Python that threads wait for."""
    functions = object_functions(futex)
    every = sum(stack.samples for stack in futex.stacks if stack.role == "waiter")
    return [
        fact("py-object-in", part=part(count / every, "the sampled waits"), function=Function(name))
        for name, count in functions.most_common(2)
        if count >= _WORTH_TELLING * every
    ]


def _of_go_mutex(where: str) -> tuple[Remedy, ...]:
    """What to do about a sync.Mutex.  where: it is waited for; nobody changes Go's own library."""
    package = go_package(where)
    if not package:
        return remedy("go-narrow-mutex"), remedy("go-mutex-profile")
    if is_go_writer(package):
        return remedy("go-write-less", function=Function(where)), remedy("go-mutex-profile")
    return remedy("go-call-less", function=Function(where)), remedy("go-mutex-profile")


def _remedies(
    make: str, process: Process, waited: str, released: str, stacks: bool, class_name: str
) -> tuple[Remedy, ...]:
    """What to do, in the language's terms.  class_name: of a Java object that is locked, if it is known."""
    if make == GIL:
        return remedy("python-processes"), remedy("python-release-gil"), remedy("python-who-has-gil", process=process)
    if make == PYPY_GIL:
        return remedy("python-processes"), remedy("pypy-which", process=process)
    if make == OCAML_STOP:
        return remedy("ocaml-fewer-domains"), remedy("ocaml-larger-heap")
    if make == OCAML_LOCK:
        return remedy("ocaml-domains"), remedy("ocaml-release")
    if make == RUBY_GVL:
        return remedy("ruby-processes"), remedy("ruby-release-gvl"), remedy("ruby-fewer-threads")
    if make in (PY_SEMAPHORE, QT_SEMAPHORE):
        return (remedy("more-permits"),)
    if make == PY_OBJECT:
        return remedy("python-own-object"), remedy("python-copy-less")
    if make == PY_PROCESS_LOCK and waited:
        return remedy("shorten-function", function=Function(waited)), remedy("python-permits")
    if make in (PY_LOCK, PY_MUTEX) and waited:
        return remedy("shorten-function", function=Function(waited)), remedy("do-less-with-it-held")
    if make in (PY_LOCK, PY_MUTEX):
        return remedy("python-which-lock", process=process), remedy("do-less-with-it-held")
    if make == PYPY_LOCK:
        return remedy("pypy-which", process=process), remedy("do-less-with-it-held")
    if make == RUBY_MUTEX:
        return remedy("ruby-which-lock", process=process), remedy("do-less-with-it-held")
    if make in (PY_PROCESS_LOCK, ATOMICS):
        return (remedy("do-less-with-it-held"),)
    if make == MONITOR:
        return _of_monitor(class_name)
    if make == NET_MONITOR:
        return remedy("net-narrow-monitor"), remedy("net-contention-events")
    if make == NET_LOCK:
        return remedy("do-less-with-it-held"), remedy("net-contention-events")
    if make == MONO_MONITOR:
        return (remedy("net-narrow-monitor"),)
    if make == MONO_LOCK and not waited:
        return remedy("mono-map"), remedy("do-less-with-it-held")
    if make == JAVA_LOCK:
        return _of_java_lock(class_name)
    if make == GO_MUTEX:
        return _of_go_mutex(released)
    if make == GO_RWMUTEX:
        return remedy("go-narrow-rwmutex"), remedy("go-block-profile")
    if make == ROW_LOCK:
        return remedy("row-lock-less"), remedy("row-lock-which")
    if make == TABLE_LOCK:
        return remedy("table-lock-who"), remedy("table-lock-timeout")
    if make in (ONCE, GO_ONCE, JAVA_CLASS):
        return (remedy("make-once-early"),)
    if make == ERLANG_LOCK:
        return remedy("erlang-table"), remedy("erlang-lock-counter")
    if make == OWN_POOL:
        return (remedy("more-of-pool"),)
    if make in (GO_COND, GO_POOL):
        return remedy("more-of-pool"), remedy("go-block-profile")
    if make == GO_DATABASE:
        return remedy("go-hold-connections-less"), remedy("go-more-connections"), remedy("go-block-profile")
    if make == GO_FLIGHT:
        return remedy("make-sooner"), remedy("go-block-profile")
    if make in (GO_SEMAPHORE, GO_WEIGHTED):
        return remedy("more-permits"), remedy("go-block-profile")
    if make == GO_CHANNEL:
        return remedy("go-more-receivers"), remedy("go-channel-as-lock"), remedy("go-block-profile")
    if make in FULL_QUEUES:
        return (remedy("more-receivers"),)
    if make == QT_RWLOCK:
        return (remedy("shorten-rwlock"),)
    if make in (RWLOCK, RUST_RWLOCK):
        return remedy("shorten-rwlock"), remedy("rwlock-writers-first")
    if released:
        return remedy("shorten-function", function=Function(released)), remedy("do-less-with-it-held")
    if stacks:
        return (remedy("do-less-with-it-held"),)
    return (remedy("record-user-stacks", process=process),)


def _is_lock(report: Report, futex: user_rows.Futex) -> bool:
    """Whether it is a lock, and no condition."""
    found = report.futexes.futexes if report.futexes is not None else ()
    return any(one.nature == LOCK for one in found if one.futex.id == futex.id)


def _other(report: Report, futex: FutexWaits) -> tuple[UserLock | None, UserLock | None]:
    """What those who have this lock mostly wait for: another lock, or else a condition."""
    if futex.behind is None or futex.behind[1] <= _MOSTLY:
        return None, None
    other = UserLock(futex.behind[0].name, futex.behind[0].object)
    return (other, None) if _is_lock(report, futex.behind[0]) else (None, other)


def _of_chain(report: Report, futex: FutexWaits) -> list[Fact]:
    """Evidence of locks that are waited for with this one held, and the other way round."""
    if futex.make in FULL_QUEUES:
        before = sum(ns_ for _, ns_ in futex.before)
        told = share(report, before) >= USER_WORTH_TELLING
        return [fact("stage-before", threads=Measure(share(report, before), "threads"))] if told else []
    found = [
        fact("cascade", threads=Measure(share(report, ns_), "threads"), lock=UserLock(other.name, other.object))
        for other, ns_ in futex.before
        if share(report, ns_) >= USER_WORTH_TELLING
    ]
    if futex.behind is not None:
        other, at = futex.behind
        lock = UserLock(other.name, other.object)
        looks = Measure(_looks(futex), "looks")
        at_looks = part(at, "the looks")
        if _is_lock(report, other):
            found.append(fact("holder-waited-for", part=at_looks, looks=looks, lock=lock))
        else:
            found.append(fact("holder-waited-at", part=at_looks, looks=looks, lock=lock))
    return found


def _claim(
    futex: FutexWaits,
    process: Process,
    lock: UserLock,
    asleep: HolderLook | None,
    library: CLibraryLock | LibraryLock | None,
    waiting: float,
    other: UserLock | None = None,
    condition: UserLock | None = None,
) -> Fact:
    """What is said of it.  other, condition: a lock, or a condition, that its holders wait for."""
    if other is not None and futex.make in FULL_QUEUES:
        stage, put = released_in(futex), waited_in(futex)
        return fact(
            "queue-behind",
            process=process,
            where=Function(put) if put else None,
            stage=Function(stage) if stage else None,
        )
    if other is not None:
        return fact("lock-behind", process=process, lock=lock, other=other)
    if condition is not None:
        where = waited_in(futex)
        return fact("held-over-condition", process=process, lock=lock, where=Function(where) if where else None)
    if asleep is not None:
        return fact("held-over-sleep", process=process, lock=lock, call=_call(asleep))
    if isinstance(library, LibraryLock):
        return fact(
            "library-lock",
            process=process,
            lock=lock if lock.name else None,
            library=Text(library.library),
            call=Function(library.function) if library.function else None,
            caller=Function(library.caller) if library.caller else None,
        )
    if library is not None and library.kind == SHARED_POINTERS:
        return fact("shared-pointer-lock", process=process, lock=lock if lock.name else None)
    if library is not None:
        return fact(
            "c-library-lock", process=process, lock=lock if lock.name else None, call=Function(library.function)
        )
    if futex.make in _SELDOM and waiting < BOUND:
        return fact(_SELDOM[futex.make], process=process)
    if futex.make == PY_STOP:
        stopper = released_in(futex)
        return fact(
            "python-stopped",
            process=process,
            purpose=Text("collect garbage") if stopped_to_collect(futex) else None,
            where=Function(stopper) if stopper else None,
        )
    where = waited_in(futex)
    monitor = heaviest(futex.monitors)
    if futex.make == MONITOR and monitor is not None:
        owner = owner_of(monitor)
        return fact(
            "hot-monitor-of",
            process=process,
            class_name=Text(monitor.class_name),
            owner=Text(f'"{owner}"') if owner else None,
            where=Function(where) if where else None,
        )
    if futex.behind_readers:
        return fact("writers-behind-readers", process=process, lock=lock, where=Function(where) if where else None)
    if futex.make == JAVA_LOCK and lock.name:
        return fact("hot-java-lock-of", process=process, lock=lock, where=Function(where) if where else None)
    claim = _CLAIMS.get(futex.make, "user-lock")
    return fact(claim, process=process, lock=lock, where=Function(where) if where else None)


def _never_woken(futex: FutexWaits) -> bool:
    """Whether writers still wait for readers, of whom none has let the lock go to them."""
    return futex.behind_readers and not futex.total.slept and not futex.total.tasks_woken


def _of_writers(futex: FutexWaits) -> tuple[Remedy, ...]:
    """What to do for writers that wait for readers.  Whether it is one reader, or several overlap, a debugger tells."""
    # Shared memory lies elsewhere in each process.
    if not _never_woken(futex) or futex.futex.shared:
        return remedy("rwlock-writers-first"), remedy("shorten-reading")
    readers = Text(f"{futex.futex.address - PHASE_WORD:#x}")
    return (
        remedy("rwlock-one-reader", process=Process("", futex.futex.tgid), readers=readers),
        remedy("rwlock-writers-first"),
    )


def _in_library(library: CLibraryLock | LibraryLock) -> Fact:
    """Evidence for it."""
    where = part(library.part, "the sampled waits")
    caller = Function(library.caller) if library.caller else None
    if isinstance(library, CLibraryLock):
        return fact("in-c-library", part=where, call=Function(library.function), caller=caller)
    call = Function(library.function) if library.function else None
    return fact("in-library", part=where, library=Text(library.library), call=call, caller=caller)


def _of_library(library: CLibraryLock | LibraryLock) -> tuple[Remedy, ...]:
    """What to do about a lock of a library's own."""
    if isinstance(library, CLibraryLock):
        return _LIBRARY_REMEDIES[library.kind]
    if library.logs:
        return (remedy("python-log-by-queue"),)
    if library.of_jvm:
        return (remedy("java-ask-jvm-less"),)
    return (remedy("allocate-less"), remedy("more-arenas")) if library.allocates else (remedy("call-library-less"),)


def _is_pool(futex: FutexWaits) -> bool:
    """Whether threads take something and give it back, by a semaphore or a condition: several may have some at once."""
    return futex.make == BEHAVIOUR and (futex.semaphore or at_condition(futex) >= _MOSTLY)


def _enough(futex: FutexWaits) -> bool:
    """Whether the waits are many, or long ones for what is known to be a lock.

    A wait that ends by a timeout goes on with the next one: together they are long.
    """
    sure = bool(futex.make) and futex.sure == "high"
    cut = futex.total.timed_out >= _MOSTLY * max(futex.total.slept, 1)
    longest_ns = futex.waited_ns // max(1, futex.total.waiters) if cut else futex.longest_ns
    return futex.figures.waits >= ENOUGH_WAITS or (sure and longest_ns >= LONG_NS)


def _wants_a_cpu(report: Report, futex: FutexWaits) -> bool:
    """Whether few threads wait for an interpreter's lock, no longer than for a CPU: its owner wants one as well."""
    seldom = futex.make in _SELDOM and share(report, futex.waited_ns) < BOUND
    return seldom and futex.waited_ns - futex.latency.wait_ns <= _AS_LONG * futex.latency.wait_ns


def find(report: Report) -> list[Finding]:
    """Futexes that are contended locks, with a tenth of the window waited for; conditions and polls are none."""
    found = []
    for futex in report.futexes.futexes if report.futexes is not None else ():
        if futex.nature != LOCK or not _enough(futex):
            continue
        # A thread that was woken and has no CPU yet waits for the scheduler.
        waiting = share(report, futex.waited_ns - futex.latency.wait_ns)
        # The last lock of a chain has a finding, however short its own queue is.
        if (
            max(waiting, share(report, futex.to_blame_ns - futex.latency.wait_ns)) < USER_WORTH_TELLING
            or condition_of(report, futex) is not None
            or _wants_a_cpu(report, futex)
        ):
            continue
        called = object_class(futex)
        lock = lock_called(futex.futex, futex.make, called) if called else UserLock(futex.futex.name, "")
        evidence = [fact("nature", why=Text(futex.why))]
        figures = futex.figures
        if figures.waits:
            p99 = figures.percentile(0.99)
            evidence.insert(0, user_waits(report, figures.waits, figures.wait_ns, p99, futex.who))
        open_ns = futex.waited_ns - futex.figures.wait_ns
        if open_ns >= _WORTH_ADDING * futex.waited_ns:
            evidence.append(
                fact("still-waits", waits=Measure(futex.total.open_waits, "waits"), age=ns(futex.total.oldest_ns))
            )
        if futex.behind_readers:
            evidence.append(fact("readers-never-let-go") if _never_woken(futex) else fact("for-readers"))
        owners = _owners(futex) if not futex.make else ()
        if owners:
            evidence.append(fact("owners-seen", owners=owners))
        evidence += _of_chain(report, futex) + _done_by_holders(futex) + _monitors_seen(futex)
        library = library_of(futex)
        if library is not None:
            evidence.append(_in_library(library))
        in_vain = empty_wakes(report, futex) if is_made_by_others(futex) else None
        if in_vain is not None:
            evidence.append(in_vain)
        released = released_in(futex)
        woken = out_of_condition(futex) if futex.make in ("", BEHAVIOUR) else 0.0
        if woken >= _MOSTLY:
            evidence.append(fact("out-of-condition", part=part(woken, "the sampled waits")))
        # Who has a timeout may be woken by nobody.
        ended_by_wake = futex.total.timed_out < _MOSTLY * max(futex.total.slept, 1)
        held = held_in(futex) if owners and library is None else ""
        if held:
            evidence.append(fact("owner-lets-go-in", function=Function(held)))
        elif released and released != waited_in(futex) and library is None and ended_by_wake:
            evidence.append(fact("let-go-in", function=Function(released)))
        if futex.make == GIL:
            evidence += _wanted_in(futex)
        if futex.make == PY_OBJECT:
            evidence += _objects_in(futex)
        asleep, (other, condition) = _sleeps_in(futex), _other(report, futex)
        stage = other is not None and futex.make in FULL_QUEUES
        rule = HELD_OVER_SLEEP if asleep else _RULES.get(futex.make, "user-lock")
        process = Process(futex.futex.comm, futex.futex.tgid)
        found.append(
            Finding(
                rule=rule,
                subject=lock,
                confidence="high" if owners or library or (futex.make and futex.sure == "high") else "medium",
                claim=_claim(
                    futex,
                    process,
                    lock if lock.name else lock_called(futex.futex, futex.make),
                    asleep,
                    library,
                    waiting,
                    other,
                    condition,
                ),
                evidence=tuple(evidence),
                remedies=((remedy("shorten-other", other=other, lock=lock),) if other and not stage else ())
                + (remedy("no-sleep-with-it-held", function=Function(held) if held else None),) * bool(asleep)
                + (remedy("no-answer-with-it-held"),) * bool(condition)
                + (remedy("wake-without-it"),) * (woken >= _MOSTLY)
                + (
                    (remedy("next-stage"),)
                    if stage
                    else _of_library(library)
                    if library is not None
                    else _of_writers(futex)
                    if futex.behind_readers
                    else (remedy("more-of-pool"),)
                    if _is_pool(futex)
                    else (remedy("python-collect-less") if stopped_to_collect(futex) else remedy("python-stop-less"),)
                    if futex.make == PY_STOP
                    else (remedy("rust-lock-stream"), remedy("one-writer"))
                    if futex.futex.name.startswith(_RUST_STREAMS)
                    else _remedies(
                        futex.make,
                        Process("", futex.futex.tgid),
                        waited_in(futex),
                        released,
                        any(len(stack.frames) > 1 for stack in futex.stacks),
                        _locks_in(futex, called),
                    )
                ),
                impact=Impact(futex.to_blame_ns),
            )
        )
    return sorted(found, key=lambda finding: -finding.impact.wait_ns)[:3]
