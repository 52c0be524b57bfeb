#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Asks `lockline why` about programs with a planted cause, in random order, as root: `make lab-incidents`.

tests/incidents [NAME...] [--seed 1] [--part 1/4] [--machine] [--kernel trixie]
tests/incidents --of STORIES [--costs]    the table of answers (of costs) that --stories has kept
tests/incidents --costs NAME...           what each costs, beside the fixed recordings that would be needed
"""

import argparse
import dataclasses
import json
import random
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "userspace")]

from incidents.cases import CASES, Result, run_case, table  # noqa: E402
from incidents.costs import costs_table, steps_table  # noqa: E402
from incidents.guests import run_in_guest  # noqa: E402


def _keep(result: Result, stories: Path | None) -> None:
    if stories is not None:
        with stories.open("a") as file:
            file.write(json.dumps(dataclasses.asdict(result)) + "\n")


def _tell(result: Result, verbose: bool, stories: Path | None) -> None:
    told = "right" if result.right else "starved" if result.starved else "WRONG"
    print(f"{told} {result.sure:6} {result.case.name}: {result.cause}: {result.title}", file=sys.stderr, flush=True)
    if verbose:
        print(result.story, file=sys.stderr)
    _keep(result, stories)


def _of_story(told: dict[str, object]) -> Result:
    case = next(one for one in CASES if one.name == told["case"]["name"])  # type: ignore[index]
    return Result(**{**told, "case": case, "probes": tuple(told["probes"])})  # type: ignore[arg-type]


def _in_guest(arguments: argparse.Namespace) -> list[Result]:
    words = [*arguments.names, "--seed", str(arguments.seed), "--part", arguments.part]
    words += ["--machine"] if arguments.machine else []
    results = []
    try:
        for line in run_in_guest(arguments.kernel, words):
            if line.startswith("{"):
                results.append(_of_story(json.loads(line)))
                _keep(results[-1], arguments.stories)
            else:
                print(line, file=sys.stderr, flush=True)
    except RuntimeError as error:
        print(error, file=sys.stderr)
    return results


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Whether `lockline why` finds causes that were planted.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases whose name begins so; default: all")
    parser.add_argument("--seed", type=int, default=1, help="of their order")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="the K-th of N parts of the cases in that order")
    parser.add_argument("--of", type=Path, metavar="STORIES", help="ask nothing: tell what such a file has")
    parser.add_argument("--costs", action="store_true", help="what steps cost, beside fixed recordings")
    parser.add_argument("--machine", action="store_true", help="ask about the whole machine, not the process")
    parser.add_argument("-v", "--verbose", action="store_true", help="each story, as JSON")
    parser.add_argument("--stories", type=Path, metavar="FILE", help="add each answer to a file, as JSON, a line each")
    parser.add_argument("--kernel", metavar="NAME", help="in a guest of this kernel of scripts/kernels, emulated")
    parser.add_argument("--max-overhead", help="of `lockline why`")
    parser.add_argument("-d", "--duration", help="of `lockline why`")
    arguments = parser.parse_args()
    # What was started ends with us.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    options = ["--max-overhead", arguments.max_overhead] if arguments.max_overhead else []
    options += ["-d", arguments.duration] if arguments.duration else []
    named = [case for case in CASES if not arguments.names or case.name.startswith(tuple(arguments.names))]
    if arguments.costs and not arguments.of:
        print(costs_table([case for case in named if not case.around]))
        return 0
    if arguments.of:
        results = [_of_story(json.loads(line)) for line in arguments.of.read_text().splitlines()]
    elif arguments.kernel:
        results = _in_guest(arguments)
    else:
        cases = named
        random.Random(arguments.seed).shuffle(cases)
        results = []
        part, parts = map(int, arguments.part.split("/"))
        for case in cases[part - 1 :: parts]:
            try:
                results.append(run_case(case, tuple(options), arguments.machine))
            except (RuntimeError, OSError) as error:
                print(f"no answer: {error}", file=sys.stderr, flush=True)
                continue
            _tell(results[-1], arguments.verbose, arguments.stories)
    if arguments.costs:
        print(steps_table(results))
        return 0
    results.sort(key=lambda one: CASES.index(one.case))
    right = sum(one.right for one in results)
    print(table(results))
    starved = sum(one.starved for one in results)
    most = max((one.paid for one in results), default=0.0)
    print(
        f"\n{right} of {len(results)} right; {starved} name the lock, and the want of CPUs that the machine had;"
        f" {most:.0%} of the budget at most."
    )
    for sure in ("high", "medium", "low"):
        told = [one for one in results if one.sure == sure]
        print(
            f"{sure}: {len(told)}, right {sum(one.right for one in told)}, "
            f"the lock and no CPU {sum(one.starved for one in told)}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
