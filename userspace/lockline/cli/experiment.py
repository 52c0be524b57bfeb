# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline experiment`: takes a suspected cause away for moments, and tells how much more gets done meanwhile."""

import argparse
import os
import resource
import sys

from lockline.base.ending import ended_by_signals
from lockline.base.errors import LocklineError
from lockline.base.text import clean
from lockline.cli import terminal
from lockline.cli.common import argument, positive
from lockline.experiment.changes import Change, Commands, Cpus, Freeze, Nice, Stop, Sysctl, sysctls_in
from lockline.experiment.judge import FEWEST_PAIRS, judge
from lockline.experiment.progress import MOST_SLICE, Counter, check, opened
from lockline.experiment.result import Result, Told
from lockline.experiment.run import enough_pairs, experiment, measured_s
from lockline.experiment.spec import parse_pid, parse_spec

DEFAULT_SECONDS = 20
DEFAULT_SLICE = 0.4
_SHORTEST_SLICE = 0.02


def _slice(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not _SHORTEST_SLICE <= value <= MOST_SLICE:
        raise ValueError(f"'{text}' must be seconds from {_SHORTEST_SLICE:g} to {MOST_SLICE:g}, as in 0.4")
    return value


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1000:
        raise ValueError(f"'{text}' must be a ratio, as in 1.1")
    return value


def _pids(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(parse_pid(part) for part in text.split(",")))


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "experiment",
        help="take a suspected cause away for moments, and see how much more gets done (as root)",
    )
    what = parser.add_argument_group("what is changed: one of these")
    what.add_argument("--stop", metavar="PID,...", help="stop these processes (SIGSTOP), and let them go on")
    what.add_argument("--stop-cgroup", metavar="CGROUP", help="freeze this control group, and let it go on")
    what.add_argument("--on", metavar="COMMAND", help="run this command to change something; needs --off")
    what.add_argument("--off", metavar="COMMAND", help="run this command to put it back; it may run more than once")
    what.add_argument("--nice", metavar="PID=N", help="set this process to nice N, and back")
    what.add_argument("--cpus", metavar="PID=LIST", help="put this process on these CPUs, as 0-3,7, and back")
    what.add_argument("--set", metavar="NAME=VALUE", help="set this sysctl, and back; needs --change-sysctl")
    parser.add_argument(
        "--change-sysctl", action="store_true", help="with --set: confirm that this machine's sysctl may change"
    )
    parser.add_argument(
        "--progress",
        metavar="SPEC",
        required=True,
        help="what counts as work: io:PID, memory:PID:SYMBOL, tracepoint:SUBSYSTEM:NAME[/PID],"
        " uprobe:FILE:SYMBOL[/PID], file:PATH[:WORD] or command:COMMAND",
    )
    parser.add_argument(
        "-d",
        "--duration",
        type=positive,
        default=DEFAULT_SECONDS,
        metavar="SECONDS",
        help=f"in all (default: {DEFAULT_SECONDS})",
    )
    parser.add_argument(
        "--slice",
        type=argument(_slice),
        default=DEFAULT_SLICE,
        metavar="SECONDS",
        help=f"length of a slice, {_SHORTEST_SLICE:g} to {MOST_SLICE:g} (default: {DEFAULT_SLICE:g})",
    )
    parser.add_argument(
        "--at-least",
        type=argument(_ratio),
        metavar="RATIO",
        help="exit with 2 unless the work with the change is surely at least RATIO times that without",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say on stderr what will be done")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto, on a terminal)"
    )


def _two(text: str, option: str) -> tuple[int, str]:
    """PID=VALUE.  Raises LocklineError."""
    pid, equals, value = text.partition("=")
    if not equals or not value:
        raise LocklineError(f"{option} {text}: must be PID=VALUE")
    try:
        return parse_pid(pid), value
    except ValueError as error:
        raise LocklineError(f"{option} {text}: {error}") from error


def _nice(text: str) -> Nice:
    pid, value = _two(text, "--nice")
    try:
        nice = int(value)
    except ValueError:
        nice = 99
    if not -20 <= nice <= 19:
        raise LocklineError(f"--nice {text}: '{value}' must be a number from -20 to 19")
    return Nice(pid, nice)


def _cpus(text: str) -> Cpus:
    from lockline.analysis.selection import parse_cpus

    pid, value = _two(text, "--cpus")
    try:
        return Cpus(pid, parse_cpus(value), value)
    except ValueError as error:
        raise LocklineError(f"--cpus {text}: {error}") from error


def remedies_with_sysctls() -> set[str]:
    """The sysctls that the atlas or a finding names as a remedy."""
    from lockline.atlas import atlas
    from lockline.render.finding_sentences import REMEDIES

    return sysctls_in(text for lock in atlas().locks for text in lock.helps) | sysctls_in(REMEDIES.values())


def _sysctl(arguments: argparse.Namespace) -> Sysctl:
    change = Sysctl(arguments.set, remedies_with_sysctls())
    if not arguments.change_sysctl:
        raise LocklineError(
            f"--set changes the whole machine for moments ({change.plan}): add --change-sysctl to allow that"
        )
    return change


def _change(arguments: argparse.Namespace) -> Change:
    """What is to be changed.  Raises LocklineError."""
    named = [name for name in ("stop", "stop_cgroup", "on", "nice", "cpus", "set") if getattr(arguments, name)]
    if len(named) != 1 or (arguments.on is None) != (arguments.off is None):
        if arguments.on is not None or arguments.off is not None:
            raise LocklineError("--on and --off need each other, and no other change beside them")
        raise LocklineError("name one change: --stop, --stop-cgroup, --on and --off, --nice, --cpus or --set")
    if arguments.stop:
        try:
            pids = _pids(arguments.stop)
        except ValueError as error:
            raise LocklineError(f"--stop {arguments.stop}: {error}") from error
        return Stop(pids)
    if arguments.stop_cgroup:
        return Freeze(arguments.stop_cgroup)
    if arguments.on:
        return Commands(arguments.on, arguments.off)
    if arguments.nice:
        return _nice(arguments.nice)
    return _cpus(arguments.cpus) if arguments.cpus else _sysctl(arguments)


def refuse_victim(change: Change, counter: Counter) -> None:
    """Raises LocklineError if the load itself would stand still."""
    from lockline.experiment.processes import tracer_of

    if change.kind not in ("stop", "stop-cgroup") or counter.pid is None:
        return
    if counter.pid in change.pids:
        raise LocklineError(f"--progress counts the work of {counter.who}, which would be stopped")
    tracer = tracer_of(counter.pid)
    if tracer and tracer in change.pids:
        raise LocklineError(
            f"{counter.who} is traced by process {tracer}, and would stand still with it; end the tracer instead"
        )


def _say(arguments: argparse.Namespace, text: str) -> None:
    if not arguments.quiet:
        print(f"lockline: {clean(text, terminal.style())}", file=sys.stderr, flush=True)


def _own_cpu_s() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def make(arguments: argparse.Namespace) -> Result:
    """Make the experiment.  Raises LocklineError."""
    enough_pairs(arguments.slice, arguments.duration, FEWEST_PAIRS)
    try:
        progress = parse_spec(arguments.progress)
    except ValueError as error:
        raise LocklineError(f"--progress: {error}") from error
    change = _change(arguments)
    with opened(progress) as counter:
        refuse_victim(change, counter)
        checked = check(counter, arguments.slice)
        _say(
            arguments,
            f"{change.plan}, for about half of {arguments.duration} s, {arguments.slice:g} s at a time; Ctrl-C ends it",
        )
        _say(arguments, f"what counts as work: {counter.words}, {checked.rate:,.4g} a second now")
        before = _own_cpu_s()
        made = experiment(change, counter, arguments.slice, arguments.duration)
        own = _own_cpu_s() - before
    told = Told(
        spec=arguments.progress,
        change_kind=change.kind,
        change=change.words,
        change_pids=change.pids,
        counter=counter.words,
        counter_pid=counter.pid,
        who=counter.who,
        check_rate=checked.rate,
        slice_s=arguments.slice,
        warm_up=1 - measured_s(arguments.slice) / arguments.slice,
    )
    judged = judge(made.pairs, made.seconds)
    return Result(told, made, judged, own, own / made.seconds / (os.cpu_count() or 1) if made.seconds else 0.0)


def exit_code(result: Result, at_least: float | None) -> int:
    """2: the work with the change is not surely so many times that without."""
    if at_least is None:
        return 0
    test = result.judged.test
    return 0 if test is not None and test.low >= at_least else 2


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """What is printed, and the exit code.  Raises LocklineError."""
    if os.geteuid() != 0:
        raise LocklineError("experiment: needs root; run it with sudo")
    try:
        with ended_by_signals():
            result = make(arguments)
    except LocklineError as error:
        raise LocklineError(f"experiment: {error}") from error
    code = exit_code(result, arguments.at_least)
    if arguments.format == "json":
        from lockline.render.documents.experiment import as_json

        return as_json(result), code
    from lockline.render.experiment_words import render

    return terminal.painted(render(result, terminal.style(), terminal.columns()), arguments.color), code
