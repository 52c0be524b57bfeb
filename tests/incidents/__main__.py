#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Asks `lockline why` about programs with a planted cause, in random order, as root: `make lab-incidents`.

tests/incidents [NAME...] [--seed 1] [--machine]
"""

import argparse
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "userspace")]

from incidents.cases import CASES, run_case, table  # noqa: E402


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Whether `lockline why` finds causes that were planted.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases whose name begins so; default: all")
    parser.add_argument("--seed", type=int, default=1, help="of their order")
    parser.add_argument("--machine", action="store_true", help="ask about the whole machine, not the process")
    parser.add_argument("-v", "--verbose", action="store_true", help="each story, as JSON")
    arguments, options = parser.parse_known_args()
    cases = [case for case in CASES if not arguments.names or case.name.startswith(tuple(arguments.names))]
    random.Random(arguments.seed).shuffle(cases)
    results = []
    for case in cases:
        result = run_case(case, tuple(options), arguments.machine)
        results.append(result)
        told = "right" if result.right else "starved" if result.starved else "WRONG"
        print(
            f"{told} {result.sure:6} {case.name}: {result.cause}: {result.title}",
            file=sys.stderr,
            flush=True,
        )
        if arguments.verbose:
            print(result.story, file=sys.stderr)
    results.sort(key=lambda one: CASES.index(one.case))
    right = sum(one.right for one in results)
    high = [one for one in results if one.sure == "high"]
    print(table(results))
    starved = sum(one.starved for one in results)
    print(
        f"\n{right} of {len(results)} right; {starved} name the lock, and the want of CPUs that the machine had;"
        f" of {len(high)} that are sure {sum(one.right for one in high)} right."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
