# SPDX-License-Identifier: GPL-2.0-or-later
"""What findings say: one sentence for each kind of fact, and for each remedy; findings.py puts the values in."""

from collections.abc import Mapping

# {name} is a value in its usual words.  {name:spec}: a figure in that format of Python, or "s": a plural's s;
# {lock:full}: with its kind; {process:id}: its number.  [...] is left out if a value in it is missing.
SENTENCES: Mapping[str, str] = {
    # Titles.
    "barrier-imbalance": "Threads of {process} wait at a barrier for {task}, which comes last",
    "convoy": "Tasks queue for {lock:full}[ of {process}]",
    "shared-pointer-lock": (
        "Threads of {process} wait for a lock of the C++ library, in atomic_load() or atomic_store() of a"
        " shared_ptr[: {lock}]"
    ),
    "c-library-lock": "Threads of {process} wait for a lock of the C library, in {call}[: {lock}]",
    "cpu-starved": "{cpu} waits far longer than the others",
    "deadlock": "{threads} threads of {process} wait for each other, in a circle: a deadlock",
    "deadlock-with-itself": "A thread of {process} waits for a lock that it holds itself",
    "futex-bucket": "System calls of futexes queue for the kernel's own hash buckets",
    "gil-bound": "{process} is bound by Python's global interpreter lock: one of its threads runs at a time",
    "gvl-bound": "{process} is bound by Ruby's global VM lock (GVL): one of its threads runs at a time",
    "master-lock-bound": "{process} is bound by OCaml's master lock: one of its threads runs at a time",
    "gil-at-times": "Threads of {process} wait at times for Python's global interpreter lock, which one of them has",
    "master-lock-at-times": "Threads of {process} wait at times for OCaml's master lock, which one of them has",
    "gvl-at-times": "Threads of {process} wait at times for Ruby's global VM lock (GVL), which one of them has",
    "hot-lock": "{lock:full} is hot: many waits that add up",
    "many-locks": "{locks} locks share the waiting, and none of them has a quarter of it",
    "long-waits": "Waits for {lock:full} are few but long",
    "held-interrupts-off": "{lock} is held with interrupts off for up to {most}",
    "held-over-sleep": (
        "The holder of {lock:short} sleeps with it held[, in {call}]: other threads of {process} wait for it"
    ),
    "holder-preempted-by-host": "The host takes CPUs away from lock holders",
    "hot-atomics": "Threads of {process} wait for a lock that JavaScript makes of Atomics.wait()[, in {where}]",
    "hot-go-cond": "Goroutines of {process} wait for each other at a sync.Cond, as for a lock[, in {where}]",
    "hot-go-pool": (
        "Goroutines of {process} wait[ in {where}] to receive what they send each other by a channel, as from a pool"
        " that is too small"
    ),
    "hot-go-semaphore": (
        "Goroutines of {process} wait[ in {where}] to send to a channel that they receive from themselves, as for a"
        " semaphore with too few permits"
    ),
    "hot-go-channel": "Goroutines of {process} queue to send to a channel[ in {where}]: its receivers are too slow",
    "hot-go-database": (
        "Goroutines of {process} wait[ in {where}] for a connection of database/sql: all that it may have are used"
    ),
    "hot-go-flight": (
        "Goroutines of {process} wait[ in {where}] by singleflight for the one that makes what all of them want"
    ),
    "hot-go-weighted": "Goroutines of {process} wait[ in {where}] for places of a semaphore.Weighted",
    "pool-too-small": "Threads of {process} wait[ in {where}] for one of a pool: others of them have all that it has",
    "slow-go-once": "Goroutines of {process} wait for a sync.Once, which another one runs[, in {where}]",
    "hot-go-mutex": "Goroutines of {process} wait for a sync.Mutex[, in {where}]",
    "hot-go-rwmutex": "Goroutines of {process} wait for a sync.RWMutex[, in {where}]",
    "hot-java-lock": "Threads of {process} wait for a lock of java.util.concurrent[, in {where}]",
    "hot-java-lock-of": "Threads of {process} wait for {lock:short}[, in {where}]",
    "hot-row-lock": "Threads of {process} wait for rows that other transactions have locked[, in {where}]",
    "hot-table-lock": "Threads of {process} wait for tables that other statements or transactions use[, in {where}]",
    "hot-monitor-of": (
        "Threads of {process} wait for the monitor of class {class_name}[, owned by thread {owner}][, in {where}]"
    ),
    "hot-monitor": "Threads of {process} wait for a Java monitor (synchronized)[, in {where}]",
    "hot-net-lock": "Threads of {process} wait for each other in .NET: they seem to have a lock",
    "hot-net-monitor": "Threads of {process} wait for a .NET monitor (lock)[, in {where}]",
    "hot-ruby-mutex": "Threads of {process} wait for a Mutex or Monitor of Ruby[, in {where}]",
    "hot-erlang-lock": "Schedulers of {process} wait for a lock of Erlang's run time[, in {where}]",
    "full-queue": "Threads of {process} wait[ in {where}] for room in {lock}",
    "hot-rust-channel": "Threads of {process} wait to send to a channel[ in {where}]: its receivers are too slow",
    "writers-behind-readers": (
        "Writers of {process} wait for readers of {lock:short}, a read-write lock of their own program[, in {where}]"
    ),
    "hot-rwlock": "Threads of {process} wait for {lock:short}, a read-write lock of their own program[, in {where}]",
    "hot-py-lock": "Threads of {process} wait for a lock of Python's threading (Lock, RLock)[, in {where}]",
    "hot-py-mutex": "Threads of {process} wait for a lock of Python (PyMutex)[, in {where}]",
    "hot-py-object": "Threads of {process} wait for an object of Python, which one at a time may use[, in {where}]",
    "ocaml-stopped": "Domains of {process} wait for each other, to collect garbage: OCaml stops all of them for it",
    "python-stopped": "Threads of {process} wait while one of them stops all others[, to {purpose}][, in {where}]",
    "hot-py-process-lock": (
        "Processes of {process} wait for a Lock or Semaphore of Python's multiprocessing[, in {where}]"
    ),
    "slow-once": "Threads of {process} wait for a one-time initialization, which another one makes[, in {where}]",
    "slow-java-class": "Threads of {process} wait for the initialization of a class by another one[, in {where}]",
    "hot-py-semaphore": "Threads of {process} wait for a Semaphore of Python's threading[, in {where}]",
    "inactive-wait": (
        "ptrace[ of {tracer}] waits in a loop for its tracee, which waits for the lock that the loop takes"
    ),
    "line-of-lock-word": (
        "The cache line of {lock} moves between its waiters: the lock's own word, and no layout helps"
    ),
    "line-shared-falsely": (
        "{lock} shares its cache line with {members:and}: tasks that use these and tasks that wait for the lock slow "
        "each other"
    ),
    "line-shared-truly": ("The cache line of {lock} moves for {members:and}, which the same code uses on several CPUs"),
    "line-with-neighbour": "The neighbour of {lock}'s cache line is written, and both are fetched together",
    "lock-by-behaviour": "Threads of {process} wait for each other, as for a lock: {lock:short}[, in {where}]",
    "library-lock": (
        "Threads of {process} wait for a lock that {library} has for itself[, in {call}][, called from {caller}]"
        "[: {lock}]"
    ),
    "held-over-condition": (
        "The holder of {lock:short} waits for another thread with it held[, in {where}]: the others of {process} wait"
        " meanwhile"
    ),
    "queue-behind": (
        "{process} waits[ in {where}] for room in a queue: who takes from it[, {stage},] waits for room in the next"
        " one: look there first"
    ),
    "lock-behind": "The holder of {lock:short} waits for {other:short}: look at that one first",
    "lock-kept-for-input": "{owner} waits for input and has {lock}, with {threads} waiting: for that lock, or for work",
    "lock-not-released": "{owner} does not release {lock}, with {threads} waiting[: {stop}]",
    "long-hold": "{function} holds {lock:full} for long",
    "parked-lock": "Processes of {process} wait for each other, parked: they seem to have a lock of their own making",
    "perturbation": "lockline itself {verdict} here: {probes}",
    "priority-inversion": "{waiter}, a real-time task, waits for {lock} while its holder {holder} does not run",
    "readers-starved": "Readers of {lock} are starved by writers",
    "shared-clocksource": "Every reading of the time queues for one device ({device})",
    "spun-interrupts-off": "{cpu} spun for {lock} with interrupts off for {waited}[, the longest of {waits}]",
    "thundering-herd": "Each wake-up wakes {threads} threads of {process} that want {lock:short}, and one gets it",
    "tracing": "Tracing (ptrace)[ by {tracer}] makes tasks wait for locks",
    "throttled-while-holding": "A limit of CPU time stops {holder} while it holds {lock}",
    "unfair": "Waiters for {lock:full} are overtaken",
    "user-lock": "Threads of {process} wait for {lock:short} of their own program[, in {where}]",
    "wakes-nobody": "{process} wakes threads that do not wait[, at {lock:short}]: each time a system call",
    "woken-in-vain": (
        "Each wake-up wakes {threads} {threads:thread|threads} of {process}[ in {where}], and"
        " {threads:it sleeps|they sleep} again at once"
    ),
    "writers-starved": "Writers of {lock} are starved by readers",
    # Waits and holds of one lock.
    "queue": "{waiters:.1f} tasks wait for it at any moment, on average; {part} of all lock waiting",
    "waits": "{waits} waits of {average} on average",
    "costs-cpus": "waiting for it keeps {cpus:.2f} CPUs spinning[, {part} of the machine]",
    "costs-threads": "on average {threads:.2f} threads wait asleep for it",
    "costs-threads-of": "on average {threads:.2f} threads wait asleep for it; {part} of all lock waiting",
    "wait-rate": "{rate} waits a second of {average} on average; {part} of all lock waiting",
    "spread": "over {locks} locks of this name; the worst of them has {part} of it",
    "busy": "it is held for {part} of the time, {average} on average",
    "waited-by": "{process} does {part} of the waiting that was sampled",
    "wait-too": "its {who} wait too: {part} of all lock waiting",
    "waited-by-all": "processes named {process} do {part} of the waiting that was sampled",
    "waited-in-cgroup": "tasks of control group {cgroup} do {part} of the waiting that was sampled",
    "below-function": "{part} of the sampled waiting is below {function}, for several locks",
    "in-one-type": "{part} of all lock waiting is for locks of {type}",
    "nothing-in-common": "the waits have neither process, control group nor kernel function in common",
    "heaviest-of-many": "the heaviest are {locks:and}: {part} together",
    "written-by": "readers wait for writers; {process} does {part} of the sampled waiting to write",
    "other-side-in": "{part} of the sampled waiting for {how} comes from {function}",
    "others-take": "one thread alone waits; {process} takes the lock for {how} in {function}",
    "visited-by": "another process takes it for {how}: {process}, in {function}",
    "inode-file": "`{command}` names the file (MOUNT{where})",
    "from-caller": "{part} of the sampled waiting comes from {function}",
    "py-object-in": "{part} of the sampled waits are in {function}, which needs the object for itself",
    "held": "held for {average} on average",
    "holds-cause": "holds that end there cause {part} of its waiting: {caused}",
    "caused-by": "{holder} causes {part} of that",
    "each-release": "each of {releases} releases causes {each} of waiting on average, the worst one {most}",
    "side-waits": "{waits} waits of {kind}, {average} on average[, p99 {p99}]",
    "other-side-waits": "{waits} waits of {kind}, {average} each",
    "held-by-readers": "readers held it for {part} of that time",
    "overtaken": "{part} of {waits} waits were overtaken, {bypasses} times in all, {most} in one wait",
    "retaken": "after {retakes} of {releases} contended releases the same task took it again",
    "cpu-spun": "{cpu} spun for {spun}, {part} of its time; the median of the others is {others}",
    "cpu-spun-for": "mostly for {lock:full}: {spun}",
    "most-by": "most of it by {process}",
    # Single waits.
    "one-wait": "{waiter} waited {waited} for {lock}",
    "one-wait-in": "{waiter} waited {waited} for {lock} on {cpu}, in {function}",
    "waited-in": "{waiter} waited in {function}[, called from {caller}]",
    "released-in": "{holder} made a waiter wait for {caused}, and released in {function}[, called from {caller}]",
    "always-taken-off": "interrupts are inferred to be off: the kernel always takes this lock with them disabled",
    "inferred-from-taking": "interrupts are inferred to be off: that function takes the lock with them disabled",
    "inferred-from-release": (
        "inferred: that function restores interrupts, disabled when the lock was taken; the longest hold may be"
        " another one"
    ),
    "many-locks-stall": (
        "waiters spun for {limit} or more for {locks}, and no lock has more than half of that time: something may"
        " stop CPUs from outside, as a host or firmware does"
    ),
    "such-waits": "the recording has {waits} such waits of {limit} or more",
    "holder-throttled": "{holder} held it for {held} of that, and was throttled for {throttled}: {part}",
    "same-in-others": "the same in {waits} of the long waits",
    "waited-at-priority": "it waited {waited}[ at priority {priority:d}][ ({policy})]",
    "holder-preempted": "{holder} held it for {held} of that, and was ready but had no CPU for {preempted}: {part}",
    # ptrace.
    "tracer-loops": (
        "{tracer} waited for {tracee} in wait_task_inactive(): up to {most} turns in one call, {turns} in {calls} calls"
    ),
    "loop-during-wait": (
        "{waiter} waited {waited} for {lock}, while {looper} on {cpu} made {turns} turns[; the last thing before its"
        " end was {last} on {last_cpu}, {before_end} before]"
    ),
    "loop-holds": ("{holder} takes and drops {lock} in wait_task_inactive(): it caused {caused} of waiting in total"),
    "traced-lock": "{waiting} of it for {lock:full}",
    "traced-part": "{part} of the sampled waiting, {waiting}, is in code that runs only where tasks are traced",
    "traced-task": "{tracee} waits most among the traced ones, when it stops for its tracer ({function})",
    "loop-waits": "wait_task_inactive() itself waits for {lock}: {waiting} of sampled waits",
    # Locks of programs.
    "waits-for-itself": "{thread} has waited {age} for {lock}, which it holds itself",
    "waits-for-owner": "{thread} has waited {age} for {lock}, which {owner} holds",
    "more-threads": "and {threads} more",
    "behind-deadlock": "{threads} more behind them",
    "waiting-for": "{threads} waiting for {lock}, for up to {age}",
    "behind": "{threads} more behind them, for up to {age}",
    "may-be-idle": "it waits for input: if that is the next job, these are idle workers behind a mutex",
    "owner-seen": "{owner} was its owner at every look, for {held}",
    "user-waits": "{waits} waits of {average} on average: {part:.2f} {who} wait at any moment[; p99 {p99}]",
    "in-library": (
        "{part} of the sampled waits are inside of {library}[, in {call}][, called from {caller}]: a lock that the"
        " library has for itself"
    ),
    "in-c-library": "{part} of the sampled waits are in {call}[, called from {caller}]",
    "gil-wanted-in": "threads want it in {function}: {part}",
    "let-go-in": "most of those who wait are let in by {function}",
    "owner-lets-go-in": "the owner whom they wait for most releases it in {function}",
    "nature": "{why}",
    "for-readers": "they wait until its readers let go, and not for another writer",
    "readers-never-let-go": (
        "they wait for its readers, who never let it go to a writer: readers overlap, or one keeps it (which cannot be"
        " told from here)"
    ),
    "still-waits": "{waits} wait{waits:s} had not ended, the oldest after {age}",
    "holder-ran": "at {part} of {looks} looks its holder ran, or waited for a CPU",
    "holder-slept": "at {part} of {looks} looks its holder slept[ in {call}][, in the kernel's {function}]",
    "stage-before": "{threads:.2f} more wait for those who wait here to take from their queue",
    "cascade": "{threads:.2f} threads more wait for {lock:short}, whose holder waits for this one",
    "holder-waited-for": "at {part} of {looks} looks its holder waited for {lock:short}",
    "holder-waited-at": "at {part} of {looks} looks its holder waited at {lock:short}, a condition",
    "holder-waited": "at {part} of {looks} looks its holder waited for another lock of the program",
    "monitor-seen": (
        "at {looks} looks {part} of the waiting threads waited for the monitor of class {class_name}"
        "[, which thread {owner} owned at {owned}]"
    ),
    "owners-seen": "seen as its owner: {owners}",
    "parked": "{processes} processes wait, each on a semaphore of its own, and wake each other there",
    "barrier-waits": "{threads:.1f} threads wait there on average",
    "barrier-in": "it is waited at in {function}",
    "comes-last": "{task} comes last in {part}; with even work it would be {even}",
    "out-of-condition": "{part} are of threads that a condition variable woke",
    "awake-briefly": "{woken} were woken, and were awake for {awake} on average: most had nothing to do",
    "empty-wakes": "{rate} calls a second wake nobody, {part} of all",
    "woken-by": "most are woken by {function}",
    "bucket-waits": "{waits} waits for {buckets} bucket{buckets:s}, {waiting}: {part} of the window",
    "buckets-collide": (
        "{colliding} of {buckets} buckets are shared by several futexes: {futexes} of them in the worst, {waiting}"
    ),
    # The machine.
    "guest-of": "the machine is a guest of {hypervisor}",
    "stolen": "the host took {part} of the CPUs' time away while it was recorded",
    "better-clocks": "this machine also has {clocks}",
    "clock-reads": "{reads} readings were recorded[: {part} of all CPU time, {average} each, {most} at most]",
    "most-reads-from": "most of them come from {function}",
    "own-clock-is-coarse": "lockline's own clock moves at each tick meanwhile, and does not read it",
    # Cache lines.
    "lock-on-line": "{waits} waits for {lock:full} on this line, {waiting}: {part} of the window",
    "seen-in-waits": (
        "{part} of the accesses seen, {transfers:,} transfers among them, were made while waiting for it"
    ),
    "doubt": "doubt: {why}",
    "doubt-lock-by-name": ("doubt: the lock is known to lie on the line by name or by code, not by its address"),
    "doubt-rate": "doubt: how often the line moves is known only to a factor of two",
    "doubt-few-windows": "doubt: {windows:d} windows may have missed what happens in bursts",
    "doubt-transfer-time": (
        "doubt: how long a line takes between these CPUs was not measured (lockline record --deep)"
    ),
    "doubt-few-transfers": ("doubt: {seen:,} transfers were seen; from {enough:d} on there is no doubt"),
}

REMEDIES: Mapping[str, str] = {
    "allocate-less": "allocate less there: keep buffers and use them again, or take memory in larger parts",
    "atomic-shared-pointer": (
        "use std::atomic<std::shared_ptr> (C++20), or a lock for each pointer: the library has 16 locks or so for all"
    ),
    "ask-program": "ask the program which lock that is (PostgreSQL: wait_event of pg_stat_activity, of type LWLock)",
    "call-library-less": (
        "call the library less often there, or give each thread what it locks (a handle, a context, a connection) for"
        " itself"
    ),
    "more-arenas": "let the allocator have more arenas, or larger caches by thread (jemalloc: MALLOC_CONF=narenas:N)",
    "call-less": "call it less often, or from one thread, or keep what it returned",
    "change-layout": "{how}",
    "check-each-probe": (
        "record with --self-check and only one of the options that add these probes, to see which it is; take the "
        "lengths of stalls from a recording without them"
    ),
    "compare-cpu": (
        "look for what is special about it: its distance to the lock's memory (another node), its interrupts, tasks "
        "pinned to it"
    ),
    "convert-time-less": (
        "convert a time once a second and keep the text; glibc locks the time zone for each conversion, gmtime_r() too"
    ),
    "do-less-with-it-held": "do less with the lock held, and split it: one for each part of the data",
    "even-work": "split the work evenly, or into small parts that whoever is free takes",
    "even-work-openmp": "split the work evenly, or into small parts that whoever is free takes: schedule(dynamic)",
    "fewer-futex-waiters": "spin in user space before the system call, or have fewer threads wait on one futex",
    "find-holder": (
        "`lockline record --episodes -d 30` shows who holds it meanwhile: no interrupt is served on the waiting CPU"
    ),
    "find-who-stops-cpus": (
        "look whether the host takes CPUs away (column st of `vmstat 1`) or firmware stops them (`turbostat --show"
        " SMI`), before you look for a holder"
    ),
    "generator-by-thread": "give each thread a generator of its own: rand_r(), random_r(), std::mt19937",
    "go-block-profile": (
        "`go tool pprof http://HOST/debug/pprof/block` (runtime.SetBlockProfileRate) has the lines that send and those"
        " that receive"
    ),
    "erlang-table": (
        "if it is an ETS table that many write: give it write_concurrency, or split it; if many send to one"
        " process: divide its work among several"
    ),
    "erlang-lock-counter": (
        "`lcnt:rt_collect()` and `lcnt:inspect()` in an emulator of type lcnt (`erl -emu_type lcnt`) name the lock"
    ),
    "go-channel-as-lock": (
        "if goroutines take out again what they put in, it is a lock of theirs: do less between the two"
    ),
    "go-more-receivers": (
        "more goroutines that receive, or less to do for each value; a larger buffer helps only where values come in"
        " bursts, or where the channel hands out places, as a semaphore"
    ),
    "go-call-less": (
        "{function} and its mutex are of Go's library: call it less often, or give each goroutine an object of its own"
    ),
    "go-write-less": (
        "{function} has its mutex until the write is done: write less, or into a buffer that one goroutine writes out"
    ),
    "go-mutex-profile": (
        "`go tool pprof http://HOST/debug/pprof/mutex` (runtime.SetMutexProfileFraction) has the lines that make others"
        " wait"
    ),
    "go-narrow-mutex": (
        "do less with it held; split the data by key, each part with a mutex, or use sync/atomic where a word will do"
    ),
    "go-narrow-rwmutex": (
        "do less with it held, above all to write; or keep what is read in an atomic.Pointer, and replace it as a whole"
    ),
    "java-lock-events": (
        "`jcmd PID JFR.start` records jdk.JavaMonitorEnter and jdk.ThreadPark: class and line of each long wait"
    ),
    "row-lock-less": (
        "make transactions that change the same rows shorter, and change those rows last; spread a counter over several"
        " rows"
    ),
    "row-lock-which": (
        "the tables innodb_lock_waits and innodb_locks of information_schema (MySQL 8: sys.innodb_lock_waits) name the"
        " row and the statement"
    ),
    "table-lock-who": (
        "`show full processlist` shows who waits for a metadata lock; performance_schema.metadata_locks (MariaDB: the"
        " plugin metadata_lock_info) shows who has it: end that transaction"
    ),
    "table-lock-timeout": (
        "commit transactions that only read, too, before they wait for anything else; give ALTER TABLE a short"
        " lock_wait_timeout: all that come after it queue behind it"
    ),
    "java-narrow-lock": (
        "do less between lock() and unlock(); split the lock by key, or use a concurrent collection, StampedLock or"
        " LongAdder"
    ),
    "go-hold-connections-less": (
        "hold a connection for less time: close Rows when they are read, and do nothing else within a transaction"
    ),
    "go-more-connections": "db.SetMaxOpenConns() allows more, if the database can serve more at once",
    "make-sooner": (
        "that one call decides how long all of them wait: make it faster, or keep its result and make it anew before it"
        " is too old"
    ),
    "more-of-pool": (
        "threads take something there and give it back: hold it for less time, or let there be more of it, if more"
        " threads can be served at once"
    ),
    "more-permits": (
        "hold a permit for less time; more permits let more threads in, if what they guard can serve more at once"
    ),
    "java-shorten-rwlock": (
        "do less between writeLock().lock() and unlock(); StampedLock can read without taking a lock, and a"
        " ConcurrentHashMap locks its parts"
    ),
    "java-compute-less": (
        "do less in what you give to compute(), computeIfAbsent() and merge(): it runs with the bin's lock held, which"
        " other keys share; to count, keep a LongAdder as the value"
    ),
    "java-read-optimistically": (
        "do less between writeLock() and unlockWrite(); read with tryOptimisticRead(), which takes no lock"
    ),
    "java-call-less": (
        "the class locks itself in each call: call it less, have one for each thread, or use a class of"
        " java.util.concurrent in its place"
    ),
    "java-write-less": (
        "each call has the stream's lock until it is done: collect lines in a buffer of the thread's own, or let one"
        " thread write for all (an asynchronous logger)"
    ),
    "java-narrow-monitor": (
        "make the synchronized part shorter, and split it: an object to lock for each part of the data, or a"
        " ConcurrentHashMap"
    ),
    "hold-shorter": (
        "find who holds it for so long, and let it do less meanwhile; `lockline explain LOCK` may know more"
    ),
    "keep-environment": "read the environment once, at the start, and keep it",
    "keep-names": "keep the answers for a while: each call reads files or asks servers, with a lock held",
    "lend-priority": ("use a lock that gives its holder the waiter's priority (rt_mutex, PTHREAD_PRIO_INHERIT)"),
    "load-less": (
        "load and look up symbols at the start; of exceptions: glibc 2.35 and GCC 12 or later unwind without this lock"
    ),
    "make-once-early": ("do it before these threads start, or do less in it: nobody goes on there until it is done"),
    "more-receivers": (
        "more threads that receive, or less to do for each value; a larger buffer helps with bursts alone"
    ),
    "net-contention-events": (
        "`dotnet-trace collect -p PID --clrevents contention` records each wait for a lock, with its stack"
    ),
    "mono-map": "`MONO_DEBUG=disable_omit_fp mono --jitmap PROGRAM` names the program's functions, which tell",
    "net-narrow-monitor": (
        "make the part inside `lock` shorter, and split it: an object to lock for each part of the data, or a"
        " ConcurrentDictionary or Interlocked"
    ),
    "newer-kernel-throttling": "Linux 6.18 and newer: a group's limit does not stop a task inside the kernel",
    "next-stage": "make the next stage faster first: this queue is full because that one is",
    "no-answer-with-it-held": (
        "wait for the other thread's answer without the lock, or let several ask at once, as by a pool of connections"
    ),
    "no-sleep-with-it-held": (
        "[in {function}, ]wait for files, sockets and timers without the lock: copy what is needed, then let it go"
    ),
    "one-writer": "or hand the lines to one thread that writes, or give each thread a file of its own",
    "other-allocator": (
        "or use an allocator that caches by thread: LD_PRELOAD of jemalloc, mimalloc or tcmalloc; do not limit glibc's"
        " arenas (MALLOC_ARENA_MAX)"
    ),
    "own-cpus-for-guest": "give the guest CPUs of its own, or fewer of them than the host has free",
    "paravirtual-spinlocks-queue": (
        "test-and-set spinlocks have no queue: paravirtual spinlocks, offered by the hypervisor, would have one"
    ),
    "paravirtual-spinlocks-yield": ("let the host offer paravirtual spinlocks: a waiter then yields to the holder"),
    "pause-between": (
        "the CPU that releases it still has it in its cache and takes it again: leave a pause between two sections"
    ),
    "rwlock-one-reader": (
        "`gdb -p {process:id} -batch -ex 'p *(int *){readers}'`, a few times: if the number changes, readers overlap,"
        " and PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP lets writers in; if it never does, one may keep it"
    ),
    "shorten-reading": "do less while it is held to read; or let readers do without it (RCU, a copy)",
    "shorten-rwlock": "do less with it held, above all to write; or let readers do without it (RCU, a copy)",
    "rwlock-writers-first": (
        "glibc lets new readers pass a writer that waits: PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP changes that"
    ),
    "private-futex-hash": "Linux 6.16 and newer give a process a hash of its own: fewer futexes meet in a bucket",
    "python-processes": (
        "let processes compute, not threads (multiprocessing, more workers of the server), or use a free-threaded"
        " build of Python 3.13 or newer"
    ),
    "python-release-gil": (
        "move the computing into libraries that release the GIL (NumPy, hashlib, zlib, an extension of your own)"
    ),
    "ocaml-domains": "let processes compute, or domains of OCaml 5 (Domain.spawn), and not threads",
    "ocaml-fewer-domains": (
        "no more domains than CPUs (Domain.recommended_domain_count): each collection waits for all of them, those"
        " without a CPU too"
    ),
    "ocaml-larger-heap": (
        "make fewer objects, or collect less often: a larger minor heap (OCAMLRUNPARAM=s=8M, in words)"
    ),
    "ocaml-release": ("C code that the program calls can let others run meanwhile: caml_release_runtime_system()"),
    "java-ask-jvm-less": (
        "do less often what takes a lock of the JVM: start threads (a pool has them ready), load classes, look at all"
        " threads"
    ),
    "python-log-by-queue": (
        "a handler of logging has its lock until the line is written: give the loggers a QueueHandler, and let one"
        " QueueListener write (logging.handlers); log less"
    ),
    "python-permits": (
        "of a Semaphore, hold a permit for less time; more permits let more processes in, if what they guard can serve"
        " more at once"
    ),
    "python-own-object": (
        "give each thread a list, dict or set of its own, and put them together at the end; or share it less often"
    ),
    "python-copy-less": (
        "do not copy, sort or walk through a large one while others use it: each such call has it to its end"
    ),
    "python-collect-less": (
        "collect garbage less often: larger numbers in gc.set_threshold(), gc.freeze() behind the start, no"
        " gc.collect() while threads work; make fewer objects that refer to each other"
    ),
    "python-stop-less": (
        "find what stops all threads so often: collecting garbage, forking, changing a class, setting a trace or"
        " profile function, reading the frames of other threads"
    ),
    "python-which-lock": (
        "`py-spy dump --pid {process:id}`, a few times: the lines that wait show which lock it is; do less with it held"
    ),
    "pypy-which": (
        "have the program call faulthandler.register(signal.SIGUSR1) when it starts: then `kill -USR1 {process:id}`"
        " prints what each thread is in"
    ),
    "python-who-has-gil": "`py-spy top --gil --pid {process:id}` shows the functions that have it",
    "raise-cpu-limit": (
        "raise the CPU limit of its control group (cpu.max; cpu.stat there counts throttled_usec), or, of a real-time"
        " task, kernel.sched_rt_runtime_us"
    ),
    "record-ptrace": "`lockline record --holders --ptrace` shows tracer, tracee and the turns of the loop",
    "record-user-stacks": (
        "`lockline record --futex --user-stacks -p {process:id}` shows where it is taken: do less with it held"
    ),
    "ruby-fewer-threads": "fewer threads in each process (Puma's `threads`) wait less, and compute as much",
    "ruby-processes": (
        "let processes compute, not threads (Puma's `workers`, Unicorn, more processes of Sidekiq), or use Ractors for"
        " what shares nothing"
    ),
    "ruby-release-gvl": "let C extensions compute without it (rb_thread_call_without_gvl())",
    "ruby-which-lock": (
        "`rbspy snapshot --pid {process:id}`, a few times: the lines that wait show which lock it is; do less with it"
        " held"
    ),
    "same-order": "let all take these locks in the same order",
    "see-episode": "see what ran on the holder's CPU meanwhile: `lockline report --episodes 1`",
    "see-line-map": "`lockline watch -i FILE` has the line's map, and who takes it from whom",
    "shorten-other": "shorten what is done with {other:short} held; do not take it with {lock:short} held",
    "let-owner-go-on": "it is stopped: continue it (`kill -CONT {owner:id}`), or end what traces or froze it",
    "thaw-owner": (
        "thaw the control group of process {owner:id} (/proc/{owner:id}/cgroup names it): write 0 to its cgroup.freeze"
        " (v1: THAWED to freezer.state)"
    ),
    "end-tracer-of-owner": "end who traces it, or detach that: TracerPid in /proc/{owner:id}/status names it",
    "see-what-owner-does": (
        "`gdb -p {process:id} -batch -ex 'thread apply all backtrace'` shows what the owner does meanwhile: release"
        " the lock before that"
    ),
    "java-where-taken": "`jcmd {process:id} Thread.print -l` shows where each of them took its monitor",
    "see-where-taken": (
        "`gdb -p {process:id} -batch -ex 'thread apply all backtrace'` shows where each of them took its lock"
    ),
    "see-why-no-tsc": (
        "see in the kernel's log why the TSC was given up (tsc: Marking TSC unstable): firmware, or a hypervisor"
    ),
    "shorten-function": ("look at what {function} does between taking the lock and releasing it, and shorten that"),
    "shorten-readers": ("shorten what the readers do with the lock held, or take them off it (RCU, per-object locks)"),
    "shorten-section": "interrupts of the holder's CPU had to wait as long: shorten that section",
    "shorten-writers": "shorten what the writers do with the lock held, or take them off it",
    "switch-clock": "switch: echo {clock} > /sys/devices/system/clocksource/clocksource0/current_clocksource",
    "take-less-often": (
        "take it less often, hold it for less time, or split what it protects; `lockline explain LOCK` may know more"
    ),
    "take-once": "take it only once in each thread, or make it a recursive lock",
    "find-tracer": "`grep TracerPid /proc/{tracee:id}/status` names the tracer: stop it, or trace less on this machine",
    "stop-tracer": "stop {tracer}, or trace less on this machine",
    "trace-less": "find out who traces (strace, debuggers, checkpointing) and trace less on this machine",
    "wake-without-it": (
        "release the lock before you signal the condition: else who is woken finds it taken, and sleeps again"
    ),
    "wake-one": (
        "wake one thread where one can go on (pthread_cond_signal(), notify_one()), and unlock the mutex before that"
    ),
    "wake-if-waited": (
        "count who waits beside the word, and call FUTEX_WAKE only where somebody does, as the C library's locks do"
    ),
    "watch-lock": "`lockline watch -i FILE 'lock:{lock}'` shows whether the bucket's line is shared falsely",
    "rust-lock-stream": (
        "lock the stream once for many lines (std::io::stdout().lock()), and write to it through a BufWriter:"
        " println!() locks it for each line"
    ),
    "write-once": "format into a buffer of the thread's own, and write that with one call",
    "call-less-often": "find out why {function} is called so often: `lockline record -S {function:name} --user-stacks`",
    "each-little": "do not start with one of the locks: without it, at most its own part of the waiting is gone",
    "why-of-cgroup": "`lockline why -G {cgroup}` looks at what these tasks do",
    "why-of-process": "`lockline why -p {process:id}` looks at what this process does",
    "who-hold": "`lockline record --holders` shows who holds the locks while others wait",
    "who-holds-longest": "`lockline record --episodes -d 30` shows who holds it in the longest waits",
    "who-holds": "`lockline record --holders` shows who holds it while they wait",
}
