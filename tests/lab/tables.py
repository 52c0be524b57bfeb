# SPDX-License-Identifier: GPL-2.0-or-later
"""What the laboratory has found, as tables of Markdown, and where they stand in the documents."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import fill

from lab.cases import Outcome, Reading

RESULTS = ("right", "wrong", "cannot tell")
TRUTHS = ("false", "true", "mixed", "lock", "both", "adjacent", "quiet")
VERDICTS = ("false sharing", "true sharing", "lock word", "adjacent line", "read mostly", "too little evidence")
QUIET = ("none", "read mostly")
CONFIDENCES = ("high", "medium", "low")
BEGIN, END = "<!-- laboratory: begin -->", "<!-- laboratory: end -->"
_WIDTH = 100
# So many lines that look alike, and so many of them with one true verdict, mean that the input tells it.
ALIKE, CLEAR = 10, 0.9
# Of fewer verdicts on one pattern in one kind of input a share says little; so many of the worst are shown.
CELL, WORST = 30, 5


def listed(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those of lines that the report has."""
    return [one for one in outcomes if one.result in RESULTS]


def _markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    columns = " | ".join(head)
    lines = [f"| {columns} |", "| --- " * (columns.count(" | ") + 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def _share(count: int, whole: int) -> str:
    return f"{100 * count / whole:.1f} %" if whole else "-"


def _results(head: str, groups: dict[str, list[Outcome]], told: set[int]) -> str:
    rows = []
    for name, group in groups.items():
        counts = Counter(one.result for one in group)
        whole = len(group)
        cannot = [one for one in group if one.result == "cannot tell"]
        could = sum(id(one) in told for one in cannot)
        rows.append((name, f"{whole:,}", *(_share(counts[result], whole) for result in RESULTS), _share(could, whole)))
    return _markdown([head, "lines", *RESULTS, "of these the input tells"], rows)


def _grouped(outcomes: Iterable[Outcome], key: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    groups: defaultdict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        groups[key(one)].append(one)
    return dict(sorted(groups.items()))


def tellable(outcomes: Sequence[Outcome]) -> set[int]:
    """The ids of those of which the input tells the verdict: nine in ten of the other lines that look alike have it."""
    groups: defaultdict[object, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        groups[one.signs].append(one)
    found: set[int] = set()
    for group in groups.values():
        # Lines of one program, in several inputs, are one witness.
        if len({one.seed for one in group}) < ALIKE:
            continue
        counts = Counter(verdict for one in group for verdict in one.right)
        if counts and counts.most_common(1)[0][1] >= CLEAR * len(group):
            found |= {id(one) for one in group}
    return found


def confusion(outcomes: Sequence[Outcome]) -> str:
    """What lines are, against what they are called."""
    counts = Counter((one.truth, "read mostly" if one.verdict in QUIET else one.verdict) for one in listed(outcomes))
    rows = [(truth, *(f"{counts[truth, verdict]:,}" for verdict in VERDICTS)) for truth in TRUTHS]
    return _markdown(["the line is", *VERDICTS], rows)


def calibration(outcomes: Sequence[Outcome]) -> str:
    """How right verdicts are by their confidence."""
    rows = []
    for name in CONFIDENCES:
        decided = [one for one in listed(outcomes) if one.confidence == name and one.result != "cannot tell"]
        wrong = sum(one.result == "wrong" for one in decided)
        programs = len({one.seed for one in decided if one.result == "wrong"})
        rows.append((name, f"{len(decided):,}", f"{wrong:,}", _share(wrong, len(decided)), programs))
    return _markdown(["confidence", "verdicts", "wrong", "share", "programs with a wrong one"], rows)


def worst(outcomes: Sequence[Outcome]) -> str:
    """Where verdicts of each confidence are wrong most often: one pattern in one kind of input."""
    rows: list[tuple[object, ...]] = []
    for name in CONFIDENCES:
        decided = [one for one in listed(outcomes) if one.confidence == name and one.result != "cannot tell"]
        cells = _grouped(decided, lambda one: f"{one.pattern} | {one.kind.partition(':')[0]}")
        found = [
            (sum(one.result == "wrong" for one in cell), len(cell), where)
            for where, cell in cells.items()
            if len(cell) >= CELL
        ]
        found.sort(key=lambda cell: (-cell[0] / cell[1], cell[2]))
        rows += [(name, where, f"{whole:,}", wrong, _share(wrong, whole)) for wrong, whole, where in found[:WORST]]
    head = f"The worst of all cells of one pattern, one kind of input and one confidence, with {CELL} verdicts or more:"
    return f"{head}\n\n" + _markdown(["confidence", "pattern", "kind of input", "verdicts", "wrong", "share"], rows)


def hidden(outcomes: Sequence[Outcome]) -> str:
    """Costly lines that "none" or "read mostly" hides: of all costly lines, and of all such verdicts."""
    costly = [one for one in outcomes if one.costly]
    quiet = [one for one in outcomes if one.verdict in QUIET]
    both = [one for one in costly if one.verdict in QUIET]
    absent = sum(one.result == "not listed" and one.kind == "perf.data" for one in costly)
    files = sum(one.kind == "perf.data" for one in costly)
    return (
        f"Of {len(costly):,} costly lines (all of each file's), {len(both):,} are called read mostly or none"
        f" ({_share(len(both), len(costly))}); of the {len(quiet):,} lines that are called so,"
        f" {_share(len(both), len(quiet))} are costly.  Of {files:,} costly lines in perf.data files"
        f" {absent:,} have a sample that shows a transfer, and are not in the report."
    )


def by_kind(outcomes: Sequence[Outcome]) -> str:
    """By kind of input."""
    every = listed(outcomes)
    told = tellable(every)
    groups = _grouped(every, lambda one: f"{one.kind.partition(':')[0]} | {one.stores}")
    return _results("kind of input | stores", groups, told)


def by_verdict(outcomes: Sequence[Outcome]) -> str:
    """By verdict and confidence."""
    every = [one for one in listed(outcomes) if one.result != "cannot tell"]
    groups = _grouped(every, lambda one: f"{one.verdict} | {one.confidence}")
    rows = []
    for name, group in groups.items():
        wrong = sum(one.result == "wrong" for one in group)
        rows.append((name, f"{len(group):,}", f"{wrong:,}", _share(wrong, len(group))))
    return _markdown(["verdict | confidence", "lines", "wrong", "share"], rows)


def readings(found: Sequence[Reading]) -> str:
    """How many texts lost rows, and whether the report says so."""
    lost = [one for one in found if one.read < one.rows]
    silent = [one for one in lost if not one.told]
    whole = [one for one in lost if one.kind.partition(":")[0] in ("mangled", "odd")]
    return (
        f"Of {len(found):,} inputs {len(lost):,} have rows that were not read, {len(silent):,} of them without a word;"
        f" {len(whole):,} of them are texts that were changed without loss."
    )


def report(found: Sequence[Outcome | Reading], head: str) -> str:
    """All of it."""
    outcomes = [one for one in found if isinstance(one, Outcome)]
    texts = [one for one in found if isinstance(one, Reading)]
    first = [one for one in outcomes if not one.wide]
    second = [one for one in outcomes if one.wide]
    parts = [head, confusion(outcomes), calibration(outcomes)]
    for name, some in (("first", first), ("second", second)):
        if some and len(some) < len(outcomes):
            parts += [f"The {name} set of programs alone:", calibration(some)]
    parts += [hidden(outcomes), worst(outcomes), by_verdict(outcomes), by_kind(outcomes), readings(texts)]
    return "\n\n".join(parts).replace(".  ", ". ")


def write(path: Path, text: str) -> None:
    """Puts the tables between the marks of a document."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or not after:
        raise ValueError(f"{path}: no {BEGIN} ... {END}")
    parts = [part if part.startswith("|") else fill(part, _WIDTH) for part in text.split("\n\n")]
    made = "\n\n".join(parts)
    path.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}", encoding="utf-8")
