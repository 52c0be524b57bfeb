# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline diff`: options, and which comparison two files call for."""

import argparse
import re
import sys
from pathlib import Path

from lockline.base import files
from lockline.base.errors import LocklineError
from lockline.base.text import Page, Style, clean, on_page
from lockline.cli.common import add_html, check_html
from lockline.cli.terminal import columns, painted, style
from lockline.diff.lines import LinesDiff, diff_lines, has_lines
from lockline.diff.model import DEFAULT_MIN_SHARE, DEFAULT_THRESHOLD, Rule, compare
from lockline.diff.recordings import WaitsDiff, conditions, diff_waits
from lockline.diff.result import Diff, SamplesDiff
from lockline.diff.samples import direction, read_samples
from lockline.diff.watched import WatchedDiff, diff_watched, has_watched
from lockline.recording.reader import open_recording
from lockline.render import diff_screen, diff_text
from lockline.render.documents import diff as document

FAILED = 2


def _percent(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]{1,9})?) ?%?", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a percentage; write it as 2 or 0.5")
    return float(match[1]) / 100


def _threshold(text: str) -> float:
    value = _percent(text)
    if not value:
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is not a regular expression: {error}") from error
    if pattern.groups != 1:
        raise argparse.ArgumentTypeError(f"'{text}' has {pattern.groups} groups; there must be one, around the sample")
    return pattern


def _labels(text: str) -> tuple[str, str]:
    labels = tuple(part.strip() for part in text.split(","))
    if len(labels) != 2 or not all(1 <= len(label) <= 16 and label.isprintable() for label in labels):
        raise argparse.ArgumentTypeError(f"'{text}': give two words of up to 16 characters, as in baseline,+fix")
    return labels[0], labels[1]


def _top(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' must be a number above 0")
    return int(text)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "diff",
        help="compare two recordings, or a benchmark's samples, before and after a change",
    )
    parser.add_argument("before", metavar="BEFORE", help="a recording, or a file of numbers or of a benchmark's output")
    parser.add_argument("after", metavar="AFTER", help="the same kind of file")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    output.add_argument("--changelog", action="store_true", help="a table for the description of a kernel patch")
    add_html(parser)
    parser.add_argument(
        "--threshold",
        type=_threshold,
        default=DEFAULT_THRESHOLD,
        metavar="PERCENT",
        help="the difference that matters (default: 2)",
    )
    parser.add_argument(
        "--labels", type=_labels, default=("before", "after"), metavar="A,B", help="titles of the sides"
    )
    parser.add_argument(
        "--fail-inconclusive", action="store_true", help="exit code 2 also if the figures cannot decide"
    )
    parser.add_argument("--top", type=_top, metavar="N", help="rows of each table (default: 15; json: all)")
    shown = parser.add_argument_group("what to show, in place of the first screen")
    shown.add_argument("--all", action="store_true", help="everything")
    for name, what in diff_text.SECTIONS.items():
        shown.add_argument(f"--{name}", action="store_true", help=what)
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto, on a terminal)"
    )
    samples = parser.add_argument_group("samples")
    samples.add_argument(
        "--pattern",
        type=_pattern,
        metavar="REGEX",
        help="one group around the sample; lines that do not match are ignored",
    )
    samples.add_argument("--unit", metavar="UNIT", help="unit of the samples, if the file does not name it")
    way = samples.add_mutually_exclusive_group()
    way.add_argument(
        "--higher-is-better", dest="higher", action="store_true", default=None, help="more is better, as for throughput"
    )
    way.add_argument("--lower-is-better", dest="higher", action="store_false", help="less is better, as for latency")
    recordings = parser.add_argument_group("recordings")
    recordings.add_argument(
        "--lock", metavar="PATTERN", help="only locks whose name holds this text, or matches *, ?, ["
    )
    recordings.add_argument(
        "--min-share",
        type=_percent,
        default=DEFAULT_MIN_SHARE,
        metavar="PERCENT",
        help="judge locks with at least this share of waiting (default: 0.1)",
    )


def _is_recording(path: str) -> bool:
    """Raises LocklineError if the file cannot be read, or has to be imported first."""
    try:
        # What is read once, as a pipe is, would have no samples left after this look.
        if files.is_regular(path) is False:
            raise LocklineError(f"{path}: not a file; write what it gives into one")
        with Path(path).open("rb") as file:
            magic = file.read(len(files.SQLITE))
    except (OSError, ValueError) as error:
        raise LocklineError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not magic:
        raise LocklineError(f"{path}: empty")
    if magic.startswith(files.PERF):
        raise LocklineError(f"{path}: a perf.data file; make a recording of it with `lockline c2c import` first")
    return magic == files.SQLITE


def _diff_samples(arguments: argparse.Namespace, rule: Rule) -> Diff:
    before, after = (read_samples(path, arguments.pattern) for path in (arguments.before, arguments.after))
    if before.unit != after.unit and arguments.unit is None:
        units = " and ".join(f"'{side.unit}'" if side.unit else "no unit" for side in (before, after))
        raise LocklineError(f"{after.path}: the sides have different units: {units}; --unit overrides them")
    if before.taken != after.taken:
        raise LocklineError(
            f"{after.path}: the sides are different benchmarks: {before.taken} and {after.taken}; "
            "--pattern takes what both have"
        )
    unit = before.unit if arguments.unit is None else str(arguments.unit)
    way = direction(unit, arguments.higher)
    comparison = compare(before.values, after.values, way.higher_is_better, rule)
    warnings = []
    if way.guessed:
        warnings.append(f"higher is taken as better: {way.reason.removeprefix('guessed: ')}")
    if Path(before.path).samefile(after.path):
        warnings.append("both sides are the same file")
    samples = SamplesDiff(before, after, unit, way, comparison)
    return Diff(before.path, after.path, rule, tuple(warnings), samples)


def _refuse_for_recordings(arguments: argparse.Namespace) -> None:
    for option, value in (("--pattern", arguments.pattern), ("--unit", arguments.unit)):
        if value is not None:
            raise LocklineError(f"{option} is for samples, and these are recordings")
    if arguments.higher is not None:
        raise LocklineError("less waiting is taken as better in recordings; --higher-is-better is for samples")


def _diff_recordings(arguments: argparse.Namespace, rule: Rule) -> Diff:
    _refuse_for_recordings(arguments)
    warnings: list[str] = []
    waits: WaitsDiff | None = None
    lines: LinesDiff | None = None
    watches: WatchedDiff | None = None
    with open_recording(arguments.before) as before, open_recording(arguments.after) as after:
        recordings = before, after
        warnings += conditions(before, after)
        timed = [bool(recording.intervals()) for recording in recordings]
        sampled = [has_lines(recording) for recording in recordings]
        if all(timed):
            waits, more = diff_waits(before, after, rule, arguments.min_share, arguments.lock)
            warnings += more
        if all(sampled):
            lines, more = diff_lines(before, after, rule)
            warnings += more
        watched = [has_watched(recording) for recording in recordings]
        if any(watched) and all(one or other for one, other in zip(watched, sampled, strict=True)):
            watches, more = diff_watched(before, after, rule)
            warnings += more
            # A side that was watched is compared with the samples of the other one.
            sampled = [True, True]
        for what, present in (("waits", timed), ("memory accesses", sampled)):
            if any(present) and not all(present):
                warnings.append(f"{recordings[present.index(False)].path} has no {what}: they are not compared")
    if waits is None and lines is None and watches is None:
        raise LocklineError(f"{arguments.after}: has nothing in common with {arguments.before} that can be compared")
    if Path(arguments.before).samefile(arguments.after):
        warnings.append("both sides are the same file")
    return Diff(arguments.before, arguments.after, rule, tuple(warnings), waits=waits, lines=lines, watched=watches)


def make_diff(arguments: argparse.Namespace) -> Diff:
    """Compare what the arguments name.  Raises LocklineError."""
    rule = Rule(threshold=arguments.threshold)
    kinds = [_is_recording(path) for path in (arguments.before, arguments.after)]
    if kinds[0] != kinds[1]:
        names = [
            f"{path} is {'a recording' if kind else 'none'}"
            for path, kind in zip((arguments.before, arguments.after), kinds, strict=True)
        ]
        raise LocklineError(f"give two files of the same kind: {names[0]}, {names[1]}")
    return _diff_recordings(arguments, rule) if kinds[0] else _diff_samples(arguments, rule)


def _text(result: Diff, plain: Style, arguments: argparse.Namespace) -> str:
    if arguments.all:
        return diff_text.render(result, plain, arguments.labels, arguments.top)
    names = [name for name in diff_text.SECTIONS if getattr(arguments, name)]
    if names:
        return diff_text.render_sections(result, plain, arguments.labels, arguments.top, names)
    text = diff_screen.render(result, plain, columns(), arguments.labels)
    return painted(text, arguments.color)


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """What is printed, and the exit code.  Raises LocklineError."""
    check_html(arguments)
    result = make_diff(arguments)
    plain = style(addresses=False)
    text = ""
    if arguments.html is not None:
        from lockline.cli.output import write_whole
        from lockline.page.diff import make_diff_page
        from lockline.page.html import Writer

        page = make_diff_page(result, Writer(Style(unicode=True)), arguments.labels, arguments.top, arguments.redact)
        write_whole(Path(arguments.html), page.encode())
    elif arguments.format == "json":
        text = document.render(result, arguments.top)
    elif arguments.changelog:
        # A commit message is as wide as it is, whoever reads it.
        with on_page(Page()):
            text = diff_text.changelog(result, plain, arguments.labels)
        for warning in result.warnings:
            print(f"lockline: {clean(warning, plain)}", file=sys.stderr)
    else:
        text = _text(result, plain, arguments)
    failed = ("regressed", "inconclusive") if arguments.fail_inconclusive else ("regressed",)
    return text, FAILED if result.verdict in failed else 0
