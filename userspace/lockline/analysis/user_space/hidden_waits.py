# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs whose waits their futexes do not explain, and what would.

Virtual threads of Java and their like, conditions of Python, threads that spin.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, TypeAlias

from lockline.analysis.user_space.program_functions import heaviest_name, innermost_own
from lockline.analysis.user_space.python_parked import waits_for_notice
from lockline.analysis.user_space.run_times import is_interpreter
from lockline.analysis.user_space.user_evidence import (
    HALF,
    MOST,
    SEVERAL,
    Calls,
    Seen,
    at_pypy_lock,
    below_c_library,
    burns_cpus,
    by_process,
    is_yields,
    place_of,
    share_from,
    share_of,
    waiting,
)
from lockline.base.values import dataclass

Kind: TypeAlias = Literal[
    "virtual threads",
    "virtual monitors",
    "python condition",
    "pypy condition",
    "spin",
    "Haskell threads",
    "Erlang processes",
    "tokio tasks",
]

# The kernel keeps 15 characters of VirtualThread-unparker and VirtualThread-unblocker.  A JVM starts the first when a
# virtual thread waits with a timeout, since JDK 24 the second with the first virtual thread.
_HELPER = "VirtualThread-u"
# Threads that run virtual threads.  Pools of a program may have such names too: alone they tell nothing.
_CARRIER = "ForkJoinPool-"
# The unblocker waits here for virtual threads that a monitor was handed to.
_UNBLOCKS = ("JVM_TakeVirtualThreadListToUnblock",)
# Run times that switch between tasks of their own: where a thread of theirs sleeps that has no task to run.  What the
# tasks wait for (an MVar, a message, an asynchronous mutex), no thread waits for.
SCHEDULERS: Mapping[Kind, tuple[str, ...]] = {
    "Haskell threads": ("yieldCapability", "waitForCapability"),
    "Erlang processes": ("erts_schedule",),
    "tokio tasks": ("tokio::runtime::scheduler",),
}
_COMMANDS: Mapping[Kind, str] = {
    "virtual threads": "jcmd {} Thread.dump_to_file FILE",
    "virtual monitors": "jcmd {} JFR.start",
    "python condition": "py-spy dump --pid {}",
    "pypy condition": "faulthandler.register(signal.SIGUSR1)",
    "spin": "lockline why -p {}",
    "Haskell threads": "+RTS -l",
    "Erlang processes": "etop -sort msg_q",
    "tokio tasks": "tokio-console",
}
# Waits in a second from which on a program is not idle.
_BUSY = 20


@dataclass(frozen=True, slots=True)
class HiddenWaits:
    """A busy program that waits for what its futexes do not tell.

    threads: that wait on average; 0: they wait without the kernel, nobody knows.  function: where most of their time
    is; '' unknown.
    """

    kind: Kind
    comm: str
    tgid: int
    threads: float = 0.0
    function: str = ""

    @property
    def command(self) -> str:
        """What shows what they wait for."""
        return _COMMANDS[self.kind].format(self.tgid)


def _slept(words: Iterable[Seen]) -> int:
    return sum(entry.total.slept for entry in words)


def _virtual(words: Iterable[Seen], comms: Mapping[int, str], window_ns: int) -> Kind | None:
    """Whether virtual threads come and go in this process, and queue for monitors."""
    entries = list(words)

    def of(name: str) -> list[Seen]:
        return [one for one in entries if any(comms.get(call.task, "").startswith(name) for call in one.waits)]

    helper = of(_HELPER)
    if not helper or _slept(of(_CARRIER)) * 1e9 < _BUSY * window_ns:
        return None
    unblocks = [one for one in helper if share_from(one.waits, _UNBLOCKS) >= HALF]
    return "virtual monitors" if _slept(unblocks) * 1e9 >= _BUSY * window_ns else "virtual threads"


def _scheduled(words: Iterable[Seen], window_ns: int) -> Kind | None:
    """Whose threads switch between tasks that wait without the kernel, and are busy; None: nobody's."""
    entries = list(words)
    for kind, functions in SCHEDULERS.items():
        if _slept(one for one in entries if share_from(one.waits, functions) >= HALF) * 1e9 >= _BUSY * window_ns:
            return kind
    return None


def _python_condition(words: Iterable[Seen], window_ns: int) -> tuple[Kind, float, str] | None:
    """Of which Python, threads that wait for conditions on average, and where; None: none, or nobody wakes them."""
    found = [one for one in words if waits_for_notice(one)]
    threads = waiting(found, window_ns)
    if threads < SEVERAL or _slept(found) * 1e9 < _BUSY * window_ns:
        return None
    places: Counter[str] = Counter()
    for call in (call for one in found for call in one.waits):
        places[innermost_own(call.frames)] += call.wait_ns
    del places[""]
    kind: Kind = "pypy condition" if at_pypy_lock(found) else "python condition"
    return kind, threads, heaviest_name(places)


def _program_at(call: Calls) -> str:
    """The program's function that yields, else the run time's: a run time yields for its locks, and for a program."""
    return innermost_own(call.frames) or place_of(call)


def _in_run_time(call: Calls) -> bool:
    """Whether a run time's own code yields: .NET's and BEAM's threads look for work for a while before they sleep."""
    caller = next(iter(below_c_library(call.frames)), None)
    return caller is not None and is_interpreter(caller.module)


def _spinning(words: Iterable[Seen], window_ns: int, schedules: bool) -> tuple[float, str] | None:
    """Threads that yield on average, and where; None: hardly any.

    schedules: its threads run tasks, and look for one for a while before they sleep: at rest that is a part of a CPU.
    """
    for entry in filter(is_yields, words):
        threads = waiting((entry,), window_ns)
        looks = schedules or share_of(entry.waits, _in_run_time) >= MOST
        if threads < SEVERAL and (looks or not burns_cpus(entry, window_ns)):
            continue
        places: Counter[str] = Counter()
        for call in entry.waits:
            places[_program_at(call)] += call.wait_ns
        return threads, heaviest_name(places)
    return None


def hidden_waits(
    seen: Iterable[Seen], known: Collection[int], comms: Mapping[int, str], window_ns: int
) -> tuple[HiddenWaits, ...]:
    """Such programs, those with most threads waiting first.

    known: ids of futexes that are known to be locks or conditions; comms: names of tasks by the id that calls have.
    """
    found = []
    for (tgid, shared), words in by_process(seen).items():
        if shared or not window_ns:
            continue
        comm = next(iter(words.values())).futex.comm
        kind = _virtual(words.values(), comms, window_ns) or _scheduled(words.values(), window_ns)
        if kind is not None:
            found.append(HiddenWaits(kind, comm, tgid))
        schedules = any(share_from(one.waits, names) >= HALF for one in words.values() for names in SCHEDULERS.values())
        spins = _spinning((one for one in words.values() if one.futex.id not in known), window_ns, schedules)
        if spins is not None:
            found.append(HiddenWaits("spin", comm, tgid, *spins))
        condition = _python_condition((one for one in words.values() if one.futex.id not in known), window_ns)
        if condition is not None:
            found.append(HiddenWaits(condition[0], comm, tgid, *condition[1:]))
    return tuple(sorted(found, key=lambda one: (-one.threads, one.tgid, one.kind)))
