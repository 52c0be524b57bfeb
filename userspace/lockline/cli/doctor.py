# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline doctor`: asks the collector, and shows its answer."""

import argparse

from lockline.base.collector import read_collector
from lockline.cli.terminal import style


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's parser."""
    checks = commands.add_parser("doctor", help="show what this kernel offers to lockline, and what it hides")
    checks.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    checks.add_argument(
        "--deep", action="store_true", help="also time a cache line between CPUs, and compare their clocks (seconds)"
    )


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """What is printed, and the exit code.  Raises LocklineError."""
    from lockline.analysis import diagnosis
    from lockline.render import doctor

    answer = read_collector(["doctor", "--deep"] if arguments.deep else ["doctor"])
    if arguments.format == "json":
        return answer, 0
    return doctor.render(diagnosis.parse(answer), style(addresses=False)), 0
