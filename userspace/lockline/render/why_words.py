# SPDX-License-Identifier: GPL-2.0-or-later
"""The facts of an investigation in words; those of rules have theirs in lockline.render.findings."""

from collections.abc import Mapping

from lockline.analysis.findings import Fact, Remedy
from lockline.render import findings

# As lockline.render.findings.SENTENCES.
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
    "why-step-ptrace": "whether a tracer's loop makes tasks wait",
    # Claims.
    "why-kernel-locks": "tasks wait for locks of the kernel",
    "why-program-locks": "threads wait for locks of their own programs",
    "why-other-locks": "tasks wait for locks of files, or for semaphores of System V",
    "why-file-lock": "Tasks wait for a lock on {file}[, which {holder} has]",
    "why-semaphore": "Tasks wait for {semaphore} of System V[, which {holder} took]",
    "why-spinning": "threads wait on CPUs: they spin in code of their own",
    "why-spins": "Threads of {process} spin[ in {function}][, called from {caller}]: they wait on a CPU",
    "why-yields": "Threads of {process} call sched_yield() over and over[, from {caller}]: they wait on a CPU",
    "why-atomics": (
        "threads of {process} spend {part} of their CPU time in atomic instructions[ in {function}];"
        " `perf c2c record -p {process:id}` shows whether CPUs fight over their cache line"
    ),
    "why-polling": "threads of {process} poll for a lock: they sleep for a moment, look, and sleep again",
    "why-tracer": "a tracer makes tasks wait",
    "why-clock": "all CPUs wait for one clock device",
    "why-unclear-wait": "Threads of {process} wait for {lock}, which may be a lock",
    "why-unseen-goroutines": "Goroutines of {process} wait for mutexes, which the kernel does not see",
    "why-holder-sleeps": "The holder of {lock} sleeps with it held[, in {function}]",
    "why-holder-no-cpu": "The holder of {lock} wants a CPU and gets none",
    "why-holder-throttled": "A CPU limit stops the holder of {lock}",
    "why-another-process": "another process than {process} has {lock} while that waits",
    "why-held-by-others": "{holder} has {lock} while {process} waits for it",
    "why-long-hold": "one function holds {lock} for long",
    # For and against.
    "why-seen-again": "seen in {steps} steps",
    "why-little-waiting": "{waits} lock waits, together {part}, the longest {longest}",
    "why-little-user-waiting": "waiting for locks of programs is {part}",
    "why-user-waiting": "{threads:.2f} threads wait on average for locks of programs, none of which stands out",
    "why-unclear": "{threads:.2f} threads wait for it on average; {why}",
    "why-go-program": "it is a busy program in Go, whose goroutines wait without the kernel",
    "why-go-wakes": "{wakes} of the wakes that were sampled come from unlocking a mutex that goroutines wait for",
    "why-blocked": "at {looks} looks {threads:.2f} threads slept in {function} on average, most of them {process}",
    "why-file-holder": "by /proc/locks and open files {holder} had it at {seen} of {known} looks[, in {function}]",
    "why-semaphore-holder": "{holder} changed it last at {seen} of {known} looks[; it slept in {function}]",
    "why-holder-unknown": "who has it is not known",
    "why-none-blocked": "at {looks} looks at {threads} threads none was asleep for one",
    "why-some-looked-at": "at {looks} looks at {threads} threads, chosen by chance, none was asleep for one",
    "why-spin-samples": (
        "{samples} samples of running threads: {cpus:.2f} CPUs spin on average, of {threads} threads,"
        " {part} of their time on a CPU"
    ),
    "why-spin-lock": "{function} takes a spinlock, which nobody sleeps for",
    "why-spin-pause": "the loop has the instruction that only waiting loops need: for a lock, a barrier or for work",
    "why-spin-swap": "the loop only exchanges a word and tests it, as a spinlock does",
    "why-spin-yield": "who yields in a loop waits for a lock, a barrier or for work",
    "why-not-sampled": "where the threads run was not sampled",
    "why-no-spins": "in {samples} samples of running threads, which use {cpus:.2f} CPUs, few spin",
    "why-naps": "{threads} threads sleep {rate:.0f} times a second each; what for, the kernel does not see",
    "why-threads-unknown": "the threads of {target} are known to the collector alone",
    "why-refused": "this kernel does not show it ({signal}: {reason})",
    "why-nobody-traced": "no process is being traced",
    "why-traced": "{processes} processes are being traced",
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
        "at {known} of {looks} moments with waiters the likely holder[ ({holder})] is known: it ran at {running} of"
        " them, and slept at {asleep}[, mostly in {function}]"
    ),
    "why-few-looks": "only at {looks} moments with waiters the likely holder was known",
    "why-delayed": "the likely holder had no CPU for {part} of the time that it wanted one",
    "why-throttled": "control group {group} was stopped by its CPU limit for {part} of the time",
}

REMEDIES: Mapping[str, str] = {
    "why-move-out": "move what sleeps in {function} out of the section that holds {lock}",
    "why-sleep-less": "find what the holder of {lock} waits for, and do that without the lock",
    "why-shorten-file-lock": "look at what {holder} does with {file} locked, and shorten that",
    "why-find-file-lock": "`lslocks` tells who has the lock; shorten what is done with {file} locked",
    "why-share-file-lock": (
        "let readers share the lock (LOCK_SH, F_RDLCK), and writers lock the part that they change (fcntl)"
    ),
    "why-shorten-semaphore": "look at what {holder} does between taking {semaphore} and giving it back",
    "why-find-semaphore": "`ipcs -s -i SET` tells who changed {semaphore} last; shorten what is done with it taken",
    "why-spin-less": (
        "hold what they wait for for less time, run no more threads than there are CPUs, or use a mutex, which sleeps"
    ),
    "why-perf-spin": "`perf record -e cpu-clock -g -p {process:id}` shows all callers",
    "why-record-go": (
        "`lockline record --futex --go -p {process:id}` follows goroutines: which mutex, and for how long"
    ),
    "why-ask-holder": "look at what {holder} does with {lock}: slow it down, or keep the two apart",
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
