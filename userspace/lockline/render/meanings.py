# SPDX-License-Identifier: GPL-2.0-or-later
"""What each finding means, in plain words: `lockline help FINDING`.  docs/rules.md says when a rule finds it."""

MEANINGS = {
    "barrier-imbalance": "Threads meet at a barrier. The same thread comes last nearly always, and the others wait.",
    "behind-lock": "Who holds a program's lock waits for a lock of the kernel meanwhile. That lock makes both wait.",
    "busy-lock": "Of the kernel's locks this one is waited for most, but for little in all.",
    "convoy": "There is a queue for one lock all the time. As soon as one task has it, the next one waits.",
    "cpu-starved": "One CPU waits much longer for locks than the other CPUs do.",
    "deadlock": "Threads wait for each other in a circle. None of them can go on, now or later.",
    "futex-bucket": (
        "Programs wait for their own locks so often that the kernel's table of waiters (the futex hash) is itself a "
        "bottleneck."
    ),
    "database-lock": "Sessions of PostgreSQL wait for locks on rows or tables.",
    "file-lock": "Tasks wait for a lock on a file (flock, fcntl).",
    "gil-bound": "Python runs one thread of a process at a time. The other threads wait for its global lock, the GIL.",
    "master-lock-bound": "OCaml runs one thread at a time (OCaml 5: one of each domain). The others wait for its lock.",
    "goroutines-at-rest": "Goroutines that wait have no thread, so a wait that began before is not seen.",
    "gvl-bound": "Ruby runs one thread of a process at a time. The other threads wait for its global lock, the GVL.",
    "held-by-others": "Another process holds the lock that this one waits for.",
    "held-over-sleep": "A thread sleeps while it holds a lock. All threads that want the lock sleep with it.",
    "hidden-waits": "Threads of a program wait for what the kernel does not see. Tools of its language show it.",
    "holder-no-cpu": "The task that holds a lock wants to run, but gets no CPU.",
    "holder-preempted": (
        "This is a virtual machine, and its host takes a CPU away while a task on it has a spinlock. The waiters spin "
        "until the CPU is back."
    ),
    "holder-sleeps": "The task that holds a lock sleeps: it waits for a disk, the network, a timer or another lock.",
    "holder-throttled": "A limit of CPU time (cpu.max) stops a task while it holds a lock. Its waiters stop too.",
    "hot-lock": "A lock has very many short waits. Each is harmless; together they cost CPUs or threads.",
    "hot-monitor": "Threads of a Java or .NET program wait for an object that one of them has locked (synchronized).",
    "inactive-wait": (
        "A tracer (strace, a debugger) waits in a loop until the traced task has left its CPU. The loop takes the very "
        "lock that this task needs to leave."
    ),
    "interrupts-off": "A CPU spins for a lock, or holds one, for long with interrupts off. It serves no timers then.",
    "lock-not-released": "A thread has held a lock for seconds, and others wait for it all that time.",
    "long-waits": "A lock has few waits, but each of them is long. The tasks that wait sleep all that time.",
    "long-hold": "One function of the kernel holds a lock for long, and that causes most of the waiting for it.",
    "many-locks": (
        "Many locks share the waiting, so none of them is the cause. What the waits have in common may be: one "
        "process, or one function."
    ),
    "parked-lock": "Processes wait on semaphores and wake each other there, as for a lock that they make themselves.",
    "perturbation": "lockline's own probes change the long waits here: they cause some of them, or hide some.",
    "priority-inversion": "A real-time task waits for a lock whose holder does not get a CPU.",
    "program-locks": "Threads wait for locks of their programs, and no single lock stands out.",
    "readers-starved": "Readers of a lock wait much longer than its writers.",
    "semaphore": "Tasks wait for a semaphore of System V.",
    "semaphore-not-posted": (
        "Threads wait for a semaphore that nobody posts: they have nothing to do, or somebody has not given it back."
    ),
    "shared-clocksource": "The clock of this machine is one device that all CPUs must read in turn (hpet, acpi_pm).",
    "shared-line": (
        "The memory of a lock (its cache line), or of what threads count in, moves between CPUs so often that it can "
        "explain a part of the waiting."
    ),
    "short-of-memory": (
        "Memory is short. Tasks wait while the kernel gives pages back, and meet at the lock of the list of pages."
    ),
    "small-pool": (
        "Threads wait until others give something back, and several have one at a time: a pool of connections, slots"
        " or workers is too small, or each is kept for too long."
    ),
    "stopped": "A signal, a freezer or a tracer (strace, a debugger) stops threads of the program.",
    "thundering-herd": "A program wakes many threads at once, but only one can have the lock. The others wait again.",
    "tracing": "A tracer (strace, a debugger) stops tasks again and again, and tracer and traced wait for locks there.",
    "unclear-wait": "Threads wait at one place in a program; it may be a lock, or they may wait for work.",
    "wake-storm": "A program wakes threads for nothing: many at once that sleep again, or nobody at all.",
    "unfair": "Tasks that came later get the lock first, again and again.",
    "unseen-goroutines": "Goroutines of a Go program wait for mutexes. The kernel does not see that; --go records it.",
    "user-lock": "Threads wait for a lock of their own program, not for one of the kernel.",
    "user-spin": "Threads of a program spin on a CPU, in a loop of their own, for a lock, a barrier or work.",
    "writer-starved": "Writers of a lock wait much longer than its readers.",
}
