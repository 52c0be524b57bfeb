# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline save`: keeps a part of a recording aside, as a recording of its own."""

import argparse
import sys
from datetime import datetime, timezone
from pathlib import Path

from lockline.analysis.selection import Selection
from lockline.base.errors import LocklineError
from lockline.base.numbers import duration
from lockline.cli.common import add_times
from lockline.cli.report import DEFAULT_RECORDING, default_recording


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    save = commands.add_parser(
        "save",
        help="copy a part of a recording to a file of its own, also while it is being written",
    )
    files = save.add_mutually_exclusive_group()
    files.add_argument("file", nargs="?", metavar="FILE", help=f"default: {DEFAULT_RECORDING}, or the service's")
    files.add_argument("-i", "--input", metavar="FILE", help="the same, as in perf")
    add_times(save)
    save.add_argument(
        "-o", "--output", metavar="FILE", help="default: lockline-DATE-TIME.data, the time when the part begins"
    )


def _name(begin_unix_ns: object, since_ns: int) -> str:
    if not isinstance(begin_unix_ns, int) or not 0 <= begin_unix_ns < 1 << 62:
        return "lockline-saved.data"
    moment = datetime.fromtimestamp((begin_unix_ns + since_ns) // 1_000_000_000, timezone.utc)
    return moment.strftime("lockline-%Y%m%d-%H%M%S.data")


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """Write the part; gives nothing to print, and the exit code.  Raises LocklineError."""
    from lockline.analysis.report import resolved, select_span
    from lockline.recording.reader import open_recording
    from lockline.recording.save import save_part

    if arguments.from_ns is None and arguments.to_ns is None:
        raise LocklineError("save: which part? For example: lockline save -10m")
    source = arguments.input or arguments.file or default_recording()
    with open_recording(source) as recording:
        facts, intervals = recording.meta(), recording.intervals()
        begins = [one.begin_ns for one in intervals]
        begin = facts.get("begin_ns")
        begin = begin if isinstance(begin, int) else min(begins, default=0)
        length = max((one.end_ns for one in intervals), default=begin) - begin
        selection = resolved(Selection(from_ns=arguments.from_ns, to_ns=arguments.to_ns), length)
        span = select_span(intervals, selection, begin, removed=True)
        assert span is not None
        chosen = [one for one in intervals if span[0] <= one.id <= span[1]]
        first, last = min(one.begin_ns for one in chosen), max(one.end_ns for one in chosen)
        output = Path(arguments.output or _name(facts.get("begin_unix_ns"), first - begin))
        if output.exists() and output.samefile(source):
            raise LocklineError(f"{output}: it is the recording itself; name another file with -o")
        save_part(recording, span, output)
    print(f"lockline: {duration(last - first)} saved; lockline report {output}", file=sys.stderr)
    return "", 0
