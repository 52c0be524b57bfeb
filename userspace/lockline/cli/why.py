# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline why`: finds the cause of lock waiting in steps, each chosen by what the ones before have seen."""

import argparse
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from lockline import version
from lockline.base.collector import ask_group
from lockline.base.ending import ended_by_signals
from lockline.base.errors import LocklineError
from lockline.base.numbers import duration, percent
from lockline.base.text import Style, clean
from lockline.cli import terminal
from lockline.cli.common import add_html, add_wait_filter, argument, check_html, positive, wait_filter
from lockline.cli.output import replace_whole
from lockline.cli.temporary import temporary
from lockline.cli.why_counters import MOST_CHILDREN, descendants_of, watched
from lockline.cli.why_steps import Made, make_step, not_started
from lockline.investigation.choice import LEAST_BUDGET_NS, Ended, is_over, judge, left_unpaid, next_steps
from lockline.investigation.model import Choice, Investigation, Plan, Target, Verdict
from lockline.recording.writer import add_investigation
from lockline.render import why_screen
from lockline.render.documents import why as document
from lockline.render.why_words import fact_words

DEFAULT_SECONDS = 20
DEFAULT_OVERHEAD = 0.01
# No plan of steps is longer.
MOST_STEPS = 8
_STOP_SECONDS = 5


def _overhead(text: str) -> float:
    number = text.removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0.01 <= value <= 100:
        raise ValueError(f"'{text}' must be from 0.01% to 100% of all CPUs' time, as in 1%")
    return value / 100


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    why = commands.add_parser(
        "why",
        help="find the cause of lock waiting, step by step (as root)",
    )
    who = why.add_argument_group("what to look at")
    who.add_argument("-a", "--all", action="store_true", help="the whole machine (default)")
    who.add_argument("-p", "--pid", metavar="PID,...", help="these processes, and what they fork")
    who.add_argument("-t", "--tid", metavar="TID,...", help="only these threads")
    who.add_argument("-G", "--cgroup", metavar="PATH", help="tasks in this control group or below it")
    who.add_argument("--container", metavar="NAME", help="tasks of this container: a name or an id")
    who.add_argument("--pod", metavar="NS/NAME", help="tasks of this pod")
    add_wait_filter(who)
    why.add_argument(
        "-d",
        "--duration",
        type=positive,
        default=DEFAULT_SECONDS,
        metavar="SECONDS",
        help=f"record for at most this long in total (default: {DEFAULT_SECONDS})",
    )
    why.add_argument(
        "--max-overhead",
        type=argument(_overhead),
        default=DEFAULT_OVERHEAD,
        metavar="PART",
        help="budget: how much of all CPUs' time in -d SECONDS the steps may use (default: 1%%)",
    )
    why.add_argument(
        "--follow", action="store_true", help="go on until Ctrl-C: report when a cause ends and when another one begins"
    )
    why.add_argument(
        "--what-if", action="store_true", help="behind the answer: what would be gained at most without each lock"
    )
    why.add_argument("--long", action="store_true", help="all that is known, in place of one screen")
    why.add_argument("-o", "--output", metavar="FILE", help="keep the recording that tells most, with the story in it")
    why.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    add_html(why)
    why.add_argument("-q", "--quiet", action="store_true", help="do not report the steps on stderr")
    why.add_argument("--addresses", action="store_true", help="show kernel addresses")
    why.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto, on a terminal)"
    )
    why.add_argument("load", nargs="*", metavar="COMMAND", help="after --: run this, and look until it ends")


def _ids(text: str, option: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 1 << 31 for part in parts):
        raise LocklineError(f"{option} {text}: must be numbers of processes or threads, as in 1234,1235")
    return tuple(int(part) for part in parts)


def target_of(arguments: argparse.Namespace, load: int | None) -> Target:
    """Whom it is about, and which waits.  Raises LocklineError where several are named."""
    target = _tasks(arguments, load)
    chosen = wait_filter(arguments)
    if not chosen:
        return target
    return Target((*target.options, *chosen), f"{target.words} (of {' '.join(chosen)})", target.tgids, False)


def _processes(pids: tuple[int, ...]) -> Target:
    """These, and those that they have forked, which all steps follow."""
    children = descendants_of(pids, MOST_CHILDREN)
    words = f"process {pids[0]}" if len(pids) == 1 else f"{len(pids)} processes"
    if children:
        words += f" and its {len(children)} children" if len(pids) == 1 else f" and their {len(children)} children"
        words = words.replace(" 1 children", " child")
    return Target(("-p", ",".join(map(str, pids))), words, pids)


def _group(cgroup: str, container: str, pod: str) -> Target:
    """One of these names it.  All steps are of its directory: the looks in /proc, too."""
    names = (("control group", "-G", cgroup), ("container", "--container", container), ("pod", "--pod", pod))
    words = ", ".join(f"{what} {name}" for what, _, name in names if name)
    asked = tuple(word for _, option, name in names if name for word in (option, name))
    return Target(("-G", ask_group(cgroup, container, pod)), words, asked=asked)


def _tasks(arguments: argparse.Namespace, load: int | None) -> Target:
    named = [name for name in ("pid", "tid", "cgroup", "container", "pod") if getattr(arguments, name)]
    if len(named) + (load is not None) > 1 and named != ["container", "pod"]:
        raise LocklineError("why: name one: -p, -t, -G, --container, --pod or a command")
    if load is not None:
        return Target(("-p", str(load)), f"the command (process {load})", (load,))
    if arguments.pid:
        return _processes(_ids(arguments.pid, "-p"))
    if arguments.tid:
        _ids(arguments.tid, "-t")
        return Target(("-t", arguments.tid), f"thread {arguments.tid}")
    if arguments.cgroup or arguments.container or arguments.pod:
        return _group(arguments.cgroup or "", arguments.container or "", arguments.pod or "")
    return Target(("-a",), "this machine")


@contextmanager
def _load(command: Sequence[str]) -> Iterator["subprocess.Popen[bytes] | None"]:
    """Run the command until the block ends; None without one.  What it prints goes where ours does not."""
    if not command:
        yield None
        return
    try:
        process = subprocess.Popen(command, stdout=sys.stderr.fileno(), start_new_session=True)
    except (OSError, ValueError) as error:
        raise LocklineError(f"{command[0]} cannot be run: {getattr(error, 'strerror', error)}") from error
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


def say(arguments: argparse.Namespace, text: str) -> None:
    """Tell on stderr what is being done, unless -q says not to."""
    if not arguments.quiet:
        print(f"lockline: {clean(text, terminal.style(arguments.addresses))}", file=sys.stderr, flush=True)


def _announced(choice: Choice, number: int) -> str:
    options = " ".join(option for option in choice.options if option.startswith("--"))
    how = f" ({options})" if options else ""
    return f"step {number}, {choice.probe}{how}, {choice.seconds:.1f} s: {fact_words(choice.why)}"


def _told(made: Made) -> str:
    step = made.step
    if step.outcome == "failed":
        return f"step {step.number} failed: {step.message}"
    if step.cost is None:
        return f"step {step.number}: {step.outcome}"
    over = ", more than was left of the budget" if step.outcome == "over budget" else ""
    return f"  it cost {duration(step.cost.paid_ns)} of CPU, {percent(step.cost.share)} of all{over}"


def investigate(
    plan: Plan,
    target: Target,
    directory: Path,
    say: Callable[[str], None],
    alive: Callable[[], bool] = lambda: True,
) -> tuple[Investigation, Ended, dict[int, Path]]:
    """Make steps until the cause is proven, or nothing more can be told: what is known, why it ended, the recordings.

    alive: whether the target is still there.
    """
    known = Investigation(target, plan)
    recordings: dict[int, Path] = {}
    ended: Ended | None = None
    while ended is None and len(known.steps) < MOST_STEPS:
        choices = next_steps(known)
        if not choices:
            ended = "budget" if left_unpaid(known) else "nothing left to try"
            break
        choice = choices[0]
        number = len(known.steps) + 1
        if not choice.affordable:
            known = _with(known, Made(not_started(choice, number), None), recordings)
            say(f"step {number}, {choice.probe}: not started, its price of {duration(choice.price_ns)} is too high")
            continue
        say(_announced(choice, number))
        made = make_step(choice, known, directory)
        known = _with(known, made, recordings)
        if made.step.outcome == "failed" and not known.observations:
            # Then it is the command's own error, which is said once.
            raise LocklineError(made.step.message)
        say(_told(made))
        ended = is_over(known) or (None if alive() else "target gone")
    return known, ended or "nothing left to try", recordings


def _with(known: Investigation, made: Made, recordings: dict[int, Path]) -> Investigation:
    if made.recording is not None:
        recordings[made.step.number] = made.recording
    return Investigation(known.target, known.plan, (*known.steps, made.step))


def most_telling(known: Investigation, verdict: Verdict, recordings: dict[int, Path]) -> Path | None:
    """The recording of the step that saw the cause, the last one that did; else the last of all."""
    if not recordings:
        return None
    cause = verdict.cause
    saw = [
        step.number
        for step, seen in known.observations
        if cause is not None and any(found.rule == cause.cause for found in seen.findings)
    ]
    saw += [told.step for told in cause.evidence] if cause is not None else []
    numbers = [number for number in saw if number in recordings] or list(recordings)
    return recordings[max(numbers)]


def machine_of(known: Investigation, begin_unix_ns: int) -> document.Machine:
    """The machine that it runs on, and when the investigation began."""
    return document.Machine(platform.node(), platform.release(), known.plan.cpus, begin_unix_ns, version())


def keep(recording: Path, output: Path, story: document.Document, again: bool = False) -> None:
    """Keep the recording as that file, with the story; what was there becomes FILE.old, as `lockline record` does.

    again: what is there is ours, and is replaced.  Raises LocklineError if it cannot be written.
    """
    try:
        add_investigation(recording, document.as_json(story).strip())
        if not again and output.exists():
            if not output.is_file():
                raise LocklineError(f"{output}: not a plain file; name another one with -o")
            output.replace(f"{output}.old")
        replace_whole(output, recording.read_bytes(), 0o600)
    except OSError as error:
        raise LocklineError(f"{output}: cannot be written: {error.strerror}") from error


def shown(story: document.Document, arguments: argparse.Namespace, kept: bool = True) -> str:
    """The story as it is printed; with --html it is in the page.  kept: so is its recording, if that was asked for."""
    if arguments.html is not None:
        from lockline.cli.output import write_whole
        from lockline.page.html import Writer
        from lockline.page.why import make_page

        write = Writer(Style(unicode=True, addresses=arguments.addresses))
        write_whole(Path(arguments.html), make_page(story, write).encode())
        return ""
    if arguments.format == "json":
        return document.as_json(story, arguments.addresses)
    style = terminal.style(arguments.addresses)
    text = why_screen.render(story, style, terminal.columns(), arguments.output if kept else None, arguments.long)
    text += why_screen.bounds(story, style, terminal.columns()) if arguments.what_if else ""
    return terminal.painted(text, arguments.color)


def plan_of(arguments: argparse.Namespace) -> Plan:
    """What the investigation may use."""
    return Plan(float(arguments.duration), arguments.max_overhead, os.cpu_count() or 1)


def _check_output(output: str | None) -> None:
    """Raises LocklineError if a file could not be made there: that is better said before the steps are paid."""
    if output is None:
        return
    directory = Path(output).absolute().parent
    if not os.access(directory, os.W_OK | os.X_OK):
        raise LocklineError(f"{output}: cannot be written: {directory} is no directory to write in")


def _check_budget(plan: Plan) -> None:
    """Raises LocklineError if not even the first step can be paid."""
    if plan.allowed_ns < LEAST_BUDGET_NS:
        enough = math.ceil(LEAST_BUDGET_NS / (plan.seconds * 1e9 * plan.cpus) * 1e4) / 1e4
        raise LocklineError(
            f"why: --max-overhead {plan.max_overhead:.2%} pays {duration(plan.allowed_ns)} of CPU in {plan.seconds:g}"
            f" s, and the first step costs {duration(LEAST_BUDGET_NS)} or more: take {enough:.2%}, or a longer -d"
        )


def find(
    arguments: argparse.Namespace, target: Target, directory: Path, alive: Callable[[], bool] = lambda: True
) -> tuple[document.Document, LocklineError | None]:
    """One investigation, and why its recording could not be kept.  Raises LocklineError if its first step fails."""
    not_kept = None
    plan = plan_of(arguments)
    begin = time.time_ns()
    known, ended, recordings = investigate(plan, target, directory, lambda text: say(arguments, text), alive)
    verdict = judge(known, ended)
    story = document.make(known, verdict, machine_of(known, begin))
    telling = most_telling(known, verdict, recordings)
    if arguments.output is not None:
        try:
            if telling is None:
                raise LocklineError("why: no step made a recording to keep")
            keep(telling, Path(arguments.output), story)
        except LocklineError as error:
            # The answer is paid for, and it is there.
            not_kept = error
    return (redacted(known, verdict, machine_of(known, begin)) if arguments.redact else story), not_kept


def redacted(known: Investigation, verdict: Verdict, machine: document.Machine) -> document.Document:
    """The story without names of hosts, commands, control groups, containers and files."""
    from lockline.page.redact import Redactor

    names = Redactor()
    known = names.investigation(known)
    # Judged anew: what a verdict says in plain text is made of the names that are left out.
    verdict = judge(known, verdict.ended)
    return document.make(known, verdict, replace(machine, hostname=names.host(machine.hostname)))


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """What is printed, and the exit code.  Raises LocklineError."""
    check_html(arguments)
    if os.geteuid() != 0:
        raise LocklineError("why: recording needs root; run it with sudo")
    if arguments.follow and arguments.load:
        raise LocklineError("why: --follow looks at what runs already; name it with -p")
    _check_output(arguments.output)
    _check_budget(plan_of(arguments))
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        directory = stack.enter_context(temporary("why"))
        load = stack.enter_context(_load(arguments.load))
        target = target_of(arguments, None if load is None else load.pid)
        alive: Callable[[], bool] = watched(target) if load is None else (lambda: load.poll() is None)
        if not arguments.follow:
            story, not_kept = find(arguments, target, directory, alive)
            if not_kept is not None:
                print(f"lockline: {clean(str(not_kept), terminal.style(arguments.addresses))}", file=sys.stderr)
            return shown(story, arguments, not_kept is None), int(not_kept is not None)
        from lockline.cli.why_follow import follow

        return follow(arguments, target, directory), 0
