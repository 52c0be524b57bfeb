# SPDX-License-Identifier: GPL-2.0-or-later
"""The facts of an investigation in words; those of rules have theirs in lockline.render.findings."""

from collections.abc import Mapping

from lockline.analysis.findings import Fact, Remedy
from lockline.render import findings

# As lockline.render.finding_sentences.SENTENCES.
SENTENCES: Mapping[str, str] = {
    # What a step is to tell.
    "why-step-totals": "which locks of the kernel keep {target} waiting, and for how long",
    "why-step-totals-again": "whether the first step's picture lasts",
    "why-step-sleeps": "what threads of {target} sleep in: locks of files, semaphores, or no lock (/proc)",
    "why-step-spins": "whether threads of {target} spin on CPUs: where they run, by a timer",
    "why-step-futex": "whether threads wait for locks of their own programs",
    "why-step-futex-again": "the same lock once more, of the process that stood out",
    "why-step-go": "whether goroutines of {process} wait for mutexes (uprobes in the program)",
    "why-step-threads": "what the holder of {lock} does: the threads of {process} in /proc",
    "why-step-owners": "which process has {lock:full} while others wait for it",
    "why-step-users": "which other processes use {lock:full}",
    "why-step-episodes": "what the holder of {lock:full} does during long waits: runs, sleeps, or wants a CPU",
    "why-step-holders": "which function holds {lock:full}, and for how long",
    "why-step-watch": "whether CPUs fight over the cache line of {name}: watchpoints on it",
    "why-step-hitm": "which cache lines CPUs take from each other: the PMU's samples",
    "why-step-clock": "how often the clock device is read, and for how long",
    "why-step-self-check": "whether lockline's own probes make these waits: slices with and without them",
    "why-step-ptrace": "whether a tracer's loop makes tasks wait",
    # Claims.
    "why-kernel-locks": "tasks wait for locks of the kernel",
    "why-program-locks": "threads wait for locks of their own programs",
    "why-program-lock": "Threads of {process} wait for {lock} of their own program",
    "why-other-locks": "tasks wait for locks of files, or for semaphores of System V",
    "why-file-lock": "Tasks wait for a lock on {file}[, which {holder} has]",
    "why-database-lock": (
        "Sessions of {process} wait for locks of their database, on rows or tables[, while {session} is left in a"
        " transaction]"
    ),
    "why-semaphore": "Tasks wait for {semaphore} of System V[, which {holder} took]",
    "why-spinning": "threads wait on CPUs: they spin in code of their own",
    "why-spins": "Threads of {process} spin[ for {word}][ in {function}][, called from {caller}]: they wait on a CPU",
    "why-yields": "Threads of {process} call sched_yield() over and over[, from {caller}]: they wait on a CPU",
    "why-atomics": (
        "threads of {process} spend {part} of their CPU time in atomic instructions[ in {function}];"
        " `perf c2c record -p {process:id}` shows whether CPUs fight over their cache line"
    ),
    "why-polling": "threads of {process} poll for a lock: they sleep for a moment, look, and sleep again",
    "why-own-lock": "Threads of {process} that sleep for a moment wait for each other's lock on {file}",
    "why-tracer": "a tracer makes tasks wait",
    "why-clock": "all CPUs wait for one clock device",
    "why-unclear-wait": "Threads of {process} wait for {lock}[, in {where}], which may be a lock",
    "why-unclear-place": "Threads of {process} wait at one place in its {place}[, in {where}], which may be a lock",
    "why-hidden-waits": "Threads of {process} wait unseen: `{command}` shows what for",
    "why-unseen-goroutines": "Goroutines of {process} wait for mutexes, which the kernel does not see",
    "why-holder-sleeps": "The holder of {lock} sleeps with it held[, in {function}]",
    "why-holder-no-cpu": (
        "The holder of {lock} wants a CPU and gets none[: {tasks} tasks want {cpus} CPUs]"
        "[: {before} runs before it, at a real-time priority]"
    ),
    "why-holder-throttled": "A CPU limit[ of control group {group}] stops the holder of {lock}",
    "why-holder-stopped": "{holder} has {lock}, and is stopped by a signal",
    "why-holder-traced": "{holder} has {lock}, and is stopped by who traces it[: {tracer}]",
    "why-holder-frozen": "{holder} has {lock}, and is frozen with its control group[ {group}]",
    "why-another-process": "another process than {process} has {lock} while that waits",
    "why-held-by-others": "{holder} has {lock} while {process} waits for it",
    "why-long-hold": "one function holds {lock} for long",
    "why-stopped-by-signal": "{process} is stopped by a signal",
    "why-stopped-by-tracer": "{process} stops again and again[ for {tracer}], which traces it",
    "why-tracer-stops": "{processes} processes stop again and again for {tracer}, which traces them",
    "why-frozen": "{process} is frozen, with its control group[ {group}]",
    "why-owner-gone": (
        "{threads} {threads:thread|threads} of {process} {threads:waits|wait} for a mutex that nobody releases: its"
        " owner, thread {owner}, has ended"
    ),
    "why-once": (
        "{threads} {threads:thread|threads} of {process} {threads:waits|wait} for {owner}, which runs an initialiser"
        " (pthread_once)"
    ),
    "why-stand-at-locks": (
        "{threads} {threads:thread|threads} of {process} {threads:stands|stand} still, waiting for {lock}[, in"
        " {function}]: nobody lets go"
    ),
    "why-goroutines-at-rest": "goroutines of {process} may wait for each other since before",
    "why-not-posted": (
        "{threads} {threads:thread|threads} of {process} {threads:waits|wait} for a semaphore[ in {function}], which"
        " nobody posts"
    ),
    "why-line-alone": "its threads had {cpus} in all, so that they hardly met: it may move where CPUs are free",
    "why-memory-stalls": "some task waits for memory at {part} (/proc/pressure/memory)",
    "why-owner-stands": "thread {owner} had it at the end",
    "why-short-of-memory": "Memory is short: the kernel looks for pages to give back, and tasks meet at {lock:full}",
    "why-most-waited": "Tasks wait for {lock:full} more than for other locks, but not for long",
    "why-behind-lock": "Threads[ of {process}] that hold {lock} wait for {other:full} meanwhile: it makes both wait",
    "why-pool": (
        "Threads of {process} wait at {lock} for others that sleep[ in {function}], several at once: a pool is too"
        " small"
    ),
    "why-line": "CPUs fight over the cache line of {name}[, which threads of {process} change in {function}]",
    "why-line-open": "CPUs fight over the cache line of {name}",
    "why-perturbation": "lockline's own probes make these waits",
    # For and against.
    "why-threads-stopped": "{threads:.2f} of its {of} are stopped, on average",
    "why-tracees-stopped": "{threads:.2f} of their threads stand in {function} on average, until it lets them go on",
    "why-standing": (
        "{threads} {threads:thread|threads} of {process} waited for it all the time and never ran[; in {function}]"
    ),
    "why-owner-of-mutex": "the mutex names its owner, and there is no such thread",
    "why-once-in": "{owner} is in the initialiser[, asleep in {function}]",
    "why-idle-or-not": (
        "workers with nothing to do look the same as those who wait for one that was not given back:"
        " `gdb -p {process:id} -batch -ex 'thread apply all backtrace'` shows where they are"
    ),
    "why-sleeps-for-lock": (
        "the holder of {lock} sleeps in {function}; there it waits for a lock of the kernel: {other:full} has {waits}"
        " of this process[, most of them in {caller}]"
    ),
    "why-line-moves": "it moves {moves:.0f} times a second between CPUs, which costs {cpu} at {each} a move",
    "why-line-samples": "it has {part} of all loads from other CPUs' caches that were sampled",
    "why-line-verdict": "{verdict}[: {members}]",
    "why-line-still": "it moves {moves:.0f} times a second between CPUs, which costs {cpu} at most",
    "why-line-unseen": "no access to the line was seen",
    "why-clock-reads": "the clock device was read {reads} times, which took {part}",
    "why-deeper-waits": "the steps with more probes saw {deeper:.2f} threads wait, the first step {first:.2f}",
    "why-not-perturbed": "slices with and without the deeper probes do not differ",
    "why-perturbed": "slices with and without the deeper probes differ: {verdict}",
    "why-little": "{waits}, {part} in sum, {average} each[, most of them in {function}]",
    "why-seen-again": "seen in {steps} steps",
    "why-little-waiting": "{waits} lock waits, together {part}, the longest {longest}",
    "why-little-user-waiting": "waiting for locks of programs is {part}",
    "why-user-waiting": "{threads:.2f} threads wait on average for locks of programs, none of which stands out",
    "why-few-waits": (
        "{threads:.2f} threads wait on average for locks of programs, most of them for this one; {waits} ended"
    ),
    "why-waited-in": "threads wait for it in {function}",
    "why-unclear": "{threads:.2f} threads wait for it on average; {why}",
    "why-virtual-threads": "it runs virtual threads, which wait without the kernel",
    "why-virtual-monitors": "virtual threads wait for Java monitors without the kernel (JFR: jdk.JavaMonitorEnter)",
    "why-scheduled-tasks": "its threads switch between {tasks}, which wait without the kernel",
    "why-yields-counted": "{threads:.1f} threads give their CPU away on average (sched_yield), and look again",
    "why-python-condition": (
        "{threads:.1f} threads wait for others in threading: for a Semaphore or a full Queue, or for work"
    ),
    "why-pypy-condition": (
        "{threads:.1f} threads wait for others in threading: for a Semaphore or a full Queue, or for work"
    ),
    "why-go-program": "it is a busy program in Go, whose goroutines wait without the kernel",
    "why-go-wakes": "{wakes} of the wakes that were sampled come from unlocking a mutex that goroutines wait for",
    "why-blocked": "at {looks} looks {threads:.2f} threads slept in {function} on average, most of them {process}",
    "why-file-holder": "by /proc/locks and open files {holder} had it at {seen} of {known} looks[, in {function}]",
    "why-semaphore-holder": "{holder} changed it last at {seen} of {known} looks[; it slept in {function}]",
    "why-holder-unknown": "who has it is not known",
    "why-sessions-wait": (
        "at {looks} {looks:look|looks} titles of processes said that they wait: {threads:.1f} sessions on average, most"
        " in {statement}"
    ),
    "why-session-left": "{session} was in a transaction at nearly all of them, and its client did nothing",
    "why-sessions-work": "{working:.1f} other sessions worked meanwhile",
    "why-slow": "{threads:.1f} threads sleep for something else: {reason}",
    "why-none-blocked": "{looks} {looks:look|looks} at {threads} {threads:thread|threads}: none was asleep for one",
    "why-some-looked-at": (
        "{looks} {looks:look|looks} at {threads} {threads:thread|threads}, chosen by chance: none was asleep for one"
    ),
    "why-spin-samples": (
        "{samples} samples of running threads: {cpus:.2f} CPUs spin on average, of {threads} {threads:thread|threads},"
        " {part} of their time on a CPU"
    ),
    "why-spin-lock": "{function} takes a spinlock, which nobody sleeps for",
    "why-spin-pause": "the loop has the instruction that only waiting loops need: for a lock, a barrier or for work",
    "why-spin-swap": "the loop only exchanges a word and tests it, as a spinlock does",
    "why-spin-read": "the loop only reads a word and tests it: nothing but another thread can end it",
    "why-yield-switches": (
        "{threads} {threads:thread calls|threads call} sched_yield() {rate:,.0f} times a second, {part};"
        " {waiting:.1f} of them wait for a CPU again"
    ),
    "why-few-samples": ("its threads had a CPU for only {got}: {samples} samples are too few to say whether they spin"),
    "why-spin-yield": "who yields in a loop waits for a lock, a barrier or for work",
    "why-not-sampled": "where the threads run was not sampled",
    "why-no-spins": "in {samples} samples of running threads, which use {cpus:.2f} CPUs, few spin",
    "why-refused-lock": (
        "they ask for it without waiting (F_SETLK, LOCK_NB): each is refused {rate:.1f} times a second, and then sleeps"
        " for a moment; who only stands by for a leader does so too, more seldom"
    ),
    "why-own-lock-changes": (
        "it locks and unlocks that file itself; between threads of one process a library (SQLite) settles this, and the"
        " kernel does not see it"
    ),
    "why-naps": (
        "{threads} {threads:thread sleeps|threads sleep} {rate:.0f} times a second each[, in {function}]; the kernel"
        " does not see what for"
    ),
    "why-threads-unknown": "only the collector knows the threads of {target}",
    "why-refused": "this kernel does not show it ({signal}: {reason})",
    "why-nobody-traced": "no tracer is attached[ to {target}]",
    "why-traced": "{processes} {processes:process is|processes are} being traced",
    "why-no-turns": "no tracer was seen to loop",
    "why-own-clock": "the clock source is {clock}, which each CPU reads by itself",
    "why-blamed": "over {waits} waits {process} had the lock for {part} of the waiting",
    "why-blamed-readers": "over {waits} waits readers, whom the lock does not name, had it for {part} of the waiting",
    "why-reader": "{process} does {part} of the waiting to read it",
    "why-held": (
        "over {waits} long waits[, mostly for {holder},] the holder had the lock for {held}: it ran for {running} of"
        " that, slept for {asleep}, and wanted a CPU for {stopped}"
    ),
    "why-owners-only": "releases of {lock} are not seen here: who had it when a wait began may have let go since",
    "why-short-waits": "no wait lasts longer than {longest}: a holder that stands still would make longer ones",
    "why-no-holder-seen": "no holder of {lock} was seen in the long waits",
    "why-short-average": "waits last {average} on average: nobody holds it for long",
    "why-no-long-hold": "no function that holds {lock} for long was seen",
    "why-looks": (
        "at {known} of {looks} moments with waiters the likely holder[, {holder},] is known: it ran at {running} of"
        " them, wanted a CPU at {waiting}, and slept at {asleep}[, mostly in {function}]"
    ),
    "why-sleeps-for": "it sleeps in {function}: {reason}",
    "why-did-not-run": "{threads} {threads:thread|threads} did not run while {threads:it was|they were} looked at",
    "why-may-be-deadlock": "this may be a deadlock, or a holder that waits for something else",
    "why-may-be-in-line": "these may be workers in line behind the one that waits for a job, too",
    "why-ask-goroutines": (
        "they have no thread; /debug/pprof/goroutine?debug=2 of net/http/pprof shows them (so does `kill -QUIT"
        " {process:id}`, which ends it)"
    ),
    "why-together": (
        "at {part} two threads or more that use it slept at once[, in {function}]: {places:.1f} on average"
    ),
    "why-few-looks": "the likely holder was known at only {looks} {looks:moment|moments} with waiters",
    "why-owner-changes": (
        "at only {looks} {looks:moment|moments} the lock named an owner that stayed long enough to be looked at"
    ),
    "why-delayed": "the likely holder had no CPU for {part} of the time that it wanted one",
    "why-short-of-cpus": "{tasks} tasks want the {cpus} CPUs of this machine, on average",
    "why-used-by-us": "lockline used {used:.2f} CPUs itself while it looked: who wants one may wait for that",
    "why-own-threads": "the threads that use {lock} keep {used:.1f} of the {cpus} CPUs busy themselves",
    "why-throttled": "control group {group} was stopped by its CPU limit for {part} of the time",
}

REMEDIES: Mapping[str, str] = {
    "lock-or-jobs": (
        "see in {where} whether threads take something there and give it back: then hold it for less time, or let there"
        " be more of it; threads that wait there for jobs are idle"
    ),
    "why-move-out": "move what sleeps in {function} out of the section that holds {lock}",
    "why-larger-pool": "if {lock} hands out connections, slots or jobs: allow more of them at once",
    "why-shorter-use": "give each back sooner: look at what threads do that have one[, in {function}]",
    "why-sleep-less": "find what the holder of {lock} waits for, and do that without the lock",
    "why-shorten-file-lock": "look at what {holder} does with {file} locked, and shorten that",
    "why-find-file-lock": "`lslocks` tells who has the lock; shorten what is done with {file} locked",
    "why-share-file-lock": (
        "let readers share the lock (LOCK_SH, F_RDLCK), and writers lock the part that they change (fcntl)"
    ),
    "why-shorten-transactions": (
        "make transactions that write to {file} shorter, or have one connection write; in WAL mode who reads waits for"
        " nobody"
    ),
    "why-shorten-semaphore": "look at what {holder} does between taking {semaphore} and giving it back",
    "why-ask-postgres": (
        "`select pid, pg_blocking_pids(pid), query from pg_stat_activity where wait_event_type = 'Lock'` shows who"
        " waits for whom"
    ),
    "why-end-transaction": (
        "commit in the client of {session} before it waits for anything else, or set"
        " idle_in_transaction_session_timeout; `select pg_terminate_backend({session:id})` ends it now"
    ),
    "why-find-semaphore": "`ipcs -s -i SET` tells who changed {semaphore} last; shorten what is done with it taken",
    "why-spin-less": (
        "hold what they wait for for less time, run no more threads than there are CPUs, or use a mutex, which sleeps"
    ),
    "why-perf-spin": "`perf record -e cpu-clock -g -p {process:id}` shows all callers",
    "why-ask-run-time": "`{command}` shows what they wait for",
    "java-thread-print": "`jcmd {process:id} Thread.print -l` names who has each monitor, and finds deadlocks",
    "python-dump": "`py-spy dump --pid {process:id}` shows where each thread waits, and who has the lock",
    "see-all-stacks": "`gdb -p {process:id} -batch -ex 'thread apply all backtrace'` shows who waits for what",
    "why-record-go": (
        "`lockline record --futex --go -p {process:id}` follows goroutines: which mutex, and for how long"
    ),
    "why-ask-holder": "look at what {holder} does with {lock}: slow it down, or keep the two apart",
    "why-line-layout": "{advice}",
    "why-line-less": (
        "let each thread count for itself, and add up when somebody asks; or keep what is changed often on lines of"
        " its own (alignas(64))"
    ),
    "why-line-map": "`lockline watch {target} --map` shows which instructions take it from each other",
    "why-continue": "`kill -CONT {process:id}` lets it go on",
    "why-thaw": "thaw control group {group}: write 0 to its cgroup.freeze (v1: THAWED to freezer.state)",
    "why-end-tracer": "end {tracer}, or detach it",
    "why-trace-less": "trace fewer system calls (strace -e, --seccomp-bpf), or use perf trace, which stops nobody",
    "why-make-robust": (
        "make the mutex robust (PTHREAD_MUTEX_ROBUST): then the next one gets EOWNERDEAD when its owner ends"
    ),
    "why-start-anew": "end all that share that memory, and start them anew",
    "why-more-memory": "give it more memory, or a higher memory.high or memory.max of its control group, or use less",
    "why-real-time": (
        "keep {task} off that CPU (taskset, a cpuset), lower its priority, or let it use less than a whole CPU"
    ),
    "why-raise-priority": "raise the priority of {holder}, which runs at nice {nice}: `renice -n 0 -p {holder:id}`",
    "why-more-cpu": "give the process more CPU time, fewer threads, or a higher priority",
}


def fact_words(fact: Fact) -> str:
    """A fact in one sentence."""
    sentence = SENTENCES.get(fact.what)
    return findings.fact_words(fact) if sentence is None else findings.say(sentence, fact.values)


def remedy_words(remedy: Remedy) -> str:
    """A remedy in one sentence."""
    sentence = REMEDIES.get(remedy.action)
    return findings.remedy_words(remedy) if sentence is None else findings.say(sentence, remedy.values)
