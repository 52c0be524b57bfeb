# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline export`: a recording as a file that another tool opens."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lockline.analysis.selection import Selection
from lockline.base.errors import LocklineError
from lockline.base.text import Style
from lockline.cli.common import add_times
from lockline.cli.output import write_whole
from lockline.cli.report import DEFAULT_RECORDING, default_recording, kinds_argument

if TYPE_CHECKING:
    from lockline.recording.reader import Recording

FORMATS = {
    "pprof": "compressed protobuf, for `go tool pprof`, Pyroscope, Parca",
    "folded": "stacks on one line each, for flamegraph.pl and inferno",
    "speedscope": "JSON, for speedscope.app",
    "perfetto": "protobuf, for ui.perfetto.dev: waits and holds over time",
    "chrome": "the same as JSON, for chrome://tracing and speedscope.app",
    "firefox": "JSON, for profiler.firefox.com: stacks, and long waits over time",
    "csv": "waits by second, CPU and lock",
    "parquet": "the same columns; needs DuckDB: pip install 'lockline[export]'",
}
# Of stacks, which holders have as well.
_STACKS = ("pprof", "folded", "speedscope", "firefox")
ALL = -1


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    listed = "\n".join(f"  {name:12}{what}" for name, what in FORMATS.items())
    export = commands.add_parser(
        "export",
        help="write a recording for another tool: pprof, speedscope, Perfetto, ...",
        epilog=f"formats:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    files = export.add_mutually_exclusive_group()
    files.add_argument("file", nargs="?", metavar="FILE", help=f"default: {DEFAULT_RECORDING}")
    files.add_argument("-i", "--input", metavar="FILE", help="the same, as in perf")
    export.add_argument("--format", choices=tuple(FORMATS), required=True, metavar="F", help="see below")
    export.add_argument("-o", "--output", metavar="FILE", required=True, help="what to write; - is standard output")
    export.add_argument("--holders", action="store_true", help="stacks of who held the locks (record --holders)")
    export.add_argument("--addresses", action="store_true", help="show kernel addresses")
    export.add_argument("--kinds", type=kinds_argument, metavar="LIST", help="only these kinds, as spinlock,mutex*")
    export.add_argument("--lock", metavar="PATTERN", help="only locks whose name holds this text, or matches *, ?, [")
    add_times(export)


_UNSAID = "locks of programs are not in the file; `lockline report --futex` shows them"


def _encoded(path: str, arguments: argparse.Namespace) -> tuple[bytes, bool]:
    """The file's content, and whether the recording has locks of programs, which it lacks."""
    from lockline.recording.reader import open_recording

    with open_recording(path) as recording:
        return _content(recording, path, arguments), recording.saw_futexes()


def _content(recording: "Recording", path: str, arguments: argparse.Namespace) -> bytes:
    from lockline.rules.report import make_report

    style = Style(unicode=True, addresses=arguments.addresses)
    selection = Selection(kinds=arguments.kinds, lock=arguments.lock, from_ns=arguments.from_ns, to_ns=arguments.to_ns)
    wanted = arguments.format
    timed = wanted in ("perfetto", "chrome", "firefox")
    report = make_report(recording, selection, ALL if timed else 0, ALL if timed else 0)
    if wanted in ("perfetto", "chrome"):
        from lockline.export import chrome, perfetto
        from lockline.export.trace import read_trace

        trace = read_trace(recording, report, style)
        return perfetto.encode(trace) if wanted == "perfetto" else chrome.encode(trace)
    if wanted in ("csv", "parquet"):
        from lockline.export import waits

        rows = waits.rows_of(recording, report, style)
        return waits.to_csv(rows) if wanted == "csv" else waits.to_parquet(rows)
    from lockline.export.profile import read_profile

    profile = read_profile(recording, report, "holders" if arguments.holders else "waiters", style)
    if arguments.holders and not profile.entries:
        raise LocklineError(f"{path}: no holders in it; record them with: lockline record --holders")
    if wanted == "pprof":
        from lockline.export import pprof

        return pprof.encode(profile)
    if wanted == "firefox":
        from lockline.export import firefox

        return firefox.encode(profile, report, style)
    from lockline.export import stacks

    return stacks.folded(profile) if wanted == "folded" else stacks.speedscope(profile)


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """Write the file; gives nothing to print, and the exit code.  Raises LocklineError."""
    if arguments.holders and arguments.format not in _STACKS:
        raise LocklineError(f"--holders: of the formats {', '.join(_STACKS)}")
    if arguments.holders and (arguments.from_ns is not None or arguments.to_ns is not None):
        raise LocklineError("--holders: of the whole recording, without --from and --to")
    if not arguments.output:
        raise LocklineError("-o: name the file to write; - is standard output")
    content, unsaid = _encoded(arguments.input or arguments.file or default_recording(), arguments)
    if arguments.output == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        write_whole(Path(arguments.output), content)
    if unsaid:
        print(f"lockline: {_UNSAID}", file=sys.stderr)
    return "", 0
