#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints how right the verdicts are, by confidence and by kind of input: `make lab`.

tests/lab --first 1 --cases 300 [--kind default] [--wrong]
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "userspace")]

from lab.cases import KINDS, Outcome, Reading, run_case, table  # noqa: E402


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="How right the verdicts on cache lines are.")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--cases", type=int, default=300, help="how many programs")
    parser.add_argument("--each", type=int, default=3, help="kinds of input for each program")
    parser.add_argument("--kind", action="append", help="this kind of input alone")
    parser.add_argument("--wrong", action="store_true", help="list what is wrong")
    parser.add_argument("--cannot", action="store_true", help="list what could not be told")
    arguments = parser.parse_args()
    found = [
        one
        for seed in range(arguments.first, arguments.first + arguments.cases)
        for one in run_case(seed, arguments.kind or KINDS, arguments.each)
    ]
    outcomes = [one for one in found if isinstance(one, Outcome)]
    readings = [one for one in found if isinstance(one, Reading)]
    for by in ("confidence", "verdict", "kind"):
        print(table(outcomes, by) + "\n")
    told = [one for one in outcomes if one.result != "not listed"]
    wrong = sum(one.result == "wrong" for one in told)
    print(f"{len(told)} lines, {wrong} wrong ({wrong / max(1, len(told)):.1%})")
    lost = [one for one in readings if one.read < one.rows]
    silent = [one for one in lost if not one.told]
    print(f"{len(readings)} texts, {len(lost)} with rows that were not read, {len(silent)} of them without a word")
    for text in silent:
        print("  silent:", text)
    if arguments.wrong or arguments.cannot:
        for one in told:
            if (one.result == "wrong" and arguments.wrong) or (one.result == "cannot tell" and arguments.cannot):
                print(one)
        for text in lost:
            print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
