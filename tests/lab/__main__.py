#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints how right the verdicts are, by confidence and by kind of input: `make lab`.

tests/lab --cases 20000 --seed fresh [--set first|second] [--kind default] [--docs docs/c2c.md] [--list wrong]
"""

import argparse
import multiprocessing
import os
import random
import resource
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "userspace")]

from lab import tables  # noqa: E402
from lab.cases import KINDS, Outcome, Reading, run_case  # noqa: E402


def _run(seed: int, kinds: Sequence[str], each: int, chosen: str) -> list[Outcome | Reading]:
    """One program; both sets take turns."""
    wide = chosen == "second" or (chosen == "both" and seed % 2 == 1)
    return list(run_case(seed, kinds, each, wide))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How right the verdicts on cache lines are.")
    parser.add_argument("--seed", default="fresh", help="the first seed, or `fresh`: one that was not used before")
    parser.add_argument("--cases", type=int, default=20000, help="how many programs in one kind of input each")
    parser.add_argument("--each", type=int, default=16, help="kinds of input for each program")
    parser.add_argument("--set", choices=("first", "second", "both"), default="both", help="programs of this set")
    parser.add_argument("--kind", action="append", help="this kind of input alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--docs", type=Path, help="the document that gets the tables, between its marks")
    parser.add_argument("--list", choices=("wrong", "cannot tell", "hidden"), help="name these lines")
    return parser.parse_args()


def _progress(found: Iterable[list[Outcome | Reading]], programs: int) -> list[Outcome | Reading]:
    """What is found until the end, or Ctrl-C: then the tables are of what there is."""
    every: list[Outcome | Reading] = []
    with suppress(KeyboardInterrupt):
        for done, some in enumerate(found, 1):
            every += some
            if done % 100 == 0:
                print(f"{done} of {programs} programs", file=sys.stderr)
    return every


def _seconds() -> float:
    """CPU time of this process and of those that ended."""
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in each)


def main() -> int:
    """Command line."""
    given = _arguments()
    kinds = tuple(given.kind or KINDS)
    each = min(given.each, len(set(kinds)))
    first = random.SystemRandom().randrange(1 << 32) if given.seed == "fresh" else int(given.seed)
    programs = -(-given.cases // each)
    run = partial(_run, kinds=kinds, each=each, chosen=given.set)
    seeds = range(first, first + programs)
    if given.jobs > 1:
        with multiprocessing.Pool(given.jobs) as pool:
            found = _progress(pool.imap_unordered(run, seeds, 8), programs)
            pool.close()
            pool.join()
    else:
        found = _progress(map(run, seeds), programs)
    cases = sum(isinstance(one, Reading) for one in found)
    done = len({one.seed for one in found})
    again = f"`make lab CASES={cases} SEED={first}`"
    head = f"{cases:,} cases: {done:,} programs, {each} kinds of input each ({again})."
    text = tables.report(found, head)
    print(text)
    print(f"{_seconds():.0f} s of CPU", file=sys.stderr)
    if given.docs:
        tables.write(given.docs, text)
    for one in found:
        if isinstance(one, Outcome) and given.list:
            shown = one.result == given.list or (given.list == "hidden" and one.costly and one.verdict in tables.QUIET)
            if shown:
                print(one)
        elif isinstance(one, Reading) and given.list and one.read < one.rows and not one.told:
            print(one)
    return 0


if __name__ == "__main__":
    sys.exit(main())
