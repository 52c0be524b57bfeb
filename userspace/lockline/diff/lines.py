# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines of two recordings, by what lies on them: never by address, which is another one after each boot."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lockline.base.errors import LocklineError
from lockline.base.statistics import holm
from lockline.diff.line_names import TypeNames, function_name, key_of, symbol_name, type_names
from lockline.diff.model import Judgement, Rule, count_judgement, judge
from lockline.diff.recordings import Presence
from lockline.recording import memory
from lockline.recording import memory_rows as rows
from lockline.recording.reader import Recording
from lockline.watch.tables import watched_lines

Metric = Literal["hitm", "peer"]

MAX_JUDGED = 50

# Lines with fewer transfers than this on both sides together are listed, not judged.
MIN_EVENTS = 10

_QUERY_LINES = 10_000


@dataclass(frozen=True, slots=True)
class LineRates:
    """One side's accesses to the lines of one identity; None: the source does not tell.

    share: of all transfers of the recording; per_10k: transfers in 10,000 samples.
    """

    lines: int
    records: int | None
    loads: int | None
    stores: int | None
    local_hitm: int
    remote_hitm: int
    local_peer: int
    remote_peer: int
    cpus: int | None
    per_10k: float
    share: float

    def transfers(self, metric: Metric) -> int:
        """HITM, or peer snoops."""
        if metric == "hitm":
            return self.local_hitm + self.remote_hitm
        return self.local_peer + self.remote_peer


@dataclass(frozen=True, slots=True)
class LineDifference:
    """Lines of one identity on both sides; named_by: type, symbol, functions, or nothing ('all' for the sum)."""

    name: str
    named_by: str
    presence: Presence
    before: LineRates
    after: LineRates
    judgement: Judgement | None
    unjudged: str


@dataclass(frozen=True, slots=True)
class LinesDiff:
    """Lines in the order of the change; samples: of each side, to which transfers are in proportion."""

    metric: Metric
    samples: tuple[int, int]
    total: LineDifference
    lines: tuple[LineDifference, ...]
    judged: int


@dataclass(frozen=True, slots=True)
class _Side:
    path: str
    samples: int
    groups: Mapping[tuple[str, str], Sequence[memory.LineSum]]
    cpus: Mapping[int, int]


def has_lines(recording: Recording) -> bool:
    """Whether the recording has samples of memory accesses."""
    return bool(_sampled(recording))


def _sampled(recording: Recording) -> list[memory.LineSum]:
    """The lines that were sampled: of those that were watched, the accesses are no sample."""
    watched = watched_lines(recording)
    return [row for row in memory.line_sums(recording) if row.line not in watched]


def _functions(recording: Recording, lines: Sequence[int]) -> dict[int, list[memory.LineFunction]]:
    functions: defaultdict[int, list[memory.LineFunction]] = defaultdict(list)
    for start in range(0, len(lines), _QUERY_LINES):
        for row in memory.line_functions(recording, lines[start : start + _QUERY_LINES]):
            functions[row.line].append(row)
    return functions


def _read_side(recording: Recording, types: TypeNames, usable: frozenset[str]) -> _Side:
    sums = _sampled(recording)
    for row in sums:
        if any(value is not None and value < 0 for value in row[1:]):
            raise LocklineError(f"{recording.path}: the recording is damaged: line {row.line} has negative counts")
    lines = {line.id: line for line in recording.table(rows.MemoryLine)}
    counts = recording.table(rows.MemoryCount)
    samples = sum(count.value for count in counts if count.name == "nr_entries" and count.value > 0)
    recorded = sum(row.records or 0 for row in sums)
    # A line's accesses are among the samples; where a source gives too few, or none, the sum over its lines counts.
    samples = max(samples, recorded)
    if not samples:
        raise LocklineError(f"{recording.path}: does not say how many samples it has, so rates cannot be compared")
    typed = {number: types.names.get(key_of(line), "") for number, line in lines.items()}
    typed = {number: name for number, name in typed.items() if name in usable}
    unnamed = [
        row.line for row in sums if row.line not in typed and (row.line not in lines or not lines[row.line].symbol)
    ]
    functions = _functions(recording, unnamed)
    groups: defaultdict[tuple[str, str], list[memory.LineSum]] = defaultdict(list)
    for row in sums:
        line = lines.get(row.line)
        if row.line in typed:
            groups["type", typed[row.line]].append(row)
        elif line is not None and line.symbol:
            groups["symbol", symbol_name(line)].append(row)
        else:
            name = function_name(functions.get(row.line, []))
            groups["functions" if name else "nothing", name or "?"].append(row)
    return _Side(recording.path, samples, groups, memory.line_cpus(recording, [row.line for row in sums]))


def _metric(sides: Sequence[_Side]) -> Metric:
    hitm = any(row.local_hitm or row.remote_hitm for side in sides for group in side.groups.values() for row in group)
    return "hitm" if hitm else "peer"


def _told(values: Sequence[int | None]) -> int | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def _rates(side: _Side, group: Sequence[memory.LineSum], metric: Metric, total: int) -> LineRates:
    cpus = 0
    for row in group:
        cpus |= side.cpus.get(row.line, 0)
    numbers = [row.cpu_count for row in group if row.cpu_count is not None]
    rates = LineRates(
        lines=len(group),
        records=_told([row.records for row in group]),
        loads=_told([row.loads for row in group]),
        stores=_told([row.stores for row in group]),
        local_hitm=sum(row.local_hitm or 0 for row in group),
        remote_hitm=sum(row.remote_hitm or 0 for row in group),
        local_peer=sum(row.local_peer or 0 for row in group),
        remote_peer=sum(row.remote_peer or 0 for row in group),
        cpus=cpus.bit_count() if cpus else max(numbers, default=None),
        per_10k=0.0,
        share=0.0,
    )
    transfers = rates.transfers(metric)
    return replace(rates, per_10k=transfers * 10_000 / side.samples, share=transfers / total if total else 0.0)


def _difference(
    name: str, named_by: str, rates: tuple[LineRates, LineRates], sides: Sequence[_Side], metric: Metric, rule: Rule
) -> LineDifference:
    before, after = rates
    counts = before.transfers(metric), after.transfers(metric)
    unjudged = f"fewer than {MIN_EVENTS} transfers" if sum(counts) < MIN_EVENTS else ""
    if named_by == "nothing":
        unjudged = "these lines have no names"
    judgement = None
    if not unjudged:
        judgement = count_judgement(counts[0], sides[0].samples, counts[1], sides[1].samples, rule)
    presence: Presence = "both" if before.lines and after.lines else "new" if after.lines else "gone"
    return LineDifference(name, named_by, presence, before, after, judgement, unjudged)


def _change(difference: LineDifference) -> tuple[float, float, str, str]:
    rates = difference.before.per_10k, difference.after.per_10k
    return -abs(rates[1] - rates[0]), -max(rates), difference.name, difference.named_by


def diff_lines(before: Recording, after: Recording, rule: Rule) -> tuple[LinesDiff, list[str]]:
    """Compare the cache lines of two recordings; also gives what makes them hard to compare.

    Raises RecordingError or LocklineError if one is damaged, or does not tell how many samples it has.
    """
    (types_before, why_before), (types_after, why_after) = type_names(before), type_names(after)
    usable = types_before.common(types_after)
    sides = _read_side(before, types_before, usable), _read_side(after, types_after, usable)
    metric = _metric(sides)
    everything = [[row for group in side.groups.values() for row in group] for side in sides]
    whole = [_rates(side, group, metric, 0) for side, group in zip(sides, everything, strict=True)]
    totals = [rates.transfers(metric) for rates in whole]

    def rates(index: int, key: tuple[str, str]) -> LineRates:
        return _rates(sides[index], sides[index].groups.get(key, ()), metric, totals[index])

    found = [(key, (rates(0, key), rates(1, key))) for key in sorted(sides[0].groups.keys() | sides[1].groups.keys())]
    found.sort(key=lambda item: -max(item[1][0].per_10k, item[1][1].per_10k))
    differences = []
    for number, ((named_by, name), both) in enumerate(found):
        difference = _difference(name, named_by, both, sides, metric, rule)
        if number >= MAX_JUDGED and difference.judgement is not None:
            unjudged = f"beyond the {MAX_JUDGED} lines with most transfers"
            difference = replace(difference, judgement=None, unjudged=unjudged)
        differences.append(difference)
    differences = _corrected(differences, rule)
    total_rates = (replace(whole[0], share=1.0), replace(whole[1], share=1.0))
    warnings = [
        f"{side.path}: {sum(map(len, side.groups.values())):,} lines, and some of them have no name"
        for side in sides
        if ("nothing", "?") in side.groups
    ]
    return (
        LinesDiff(
            metric=metric,
            samples=(sides[0].samples, sides[1].samples),
            total=_difference("", "all", total_rates, sides, metric, rule),
            lines=tuple(sorted(differences, key=_change)),
            judged=sum(difference.judgement is not None for difference in differences),
        ),
        warnings + _source_warnings(before, after) + _naming_warnings(sides, [why_before, why_after]),
    )


def _corrected(differences: Sequence[LineDifference], rule: Rule) -> list[LineDifference]:
    judgements = [difference.judgement for difference in differences if difference.judgement is not None]
    values = iter(holm([judgement.test.p for judgement in judgements]))
    out = []
    for difference in differences:
        if difference.judgement is not None:
            judgement = replace(difference.judgement, p=next(values), tested=len(judgements))
            difference = replace(difference, judgement=judge(judgement, rule, higher_is_better=False))
        out.append(difference)
    return out


def _naming_warnings(sides: Sequence[_Side], reasons: Sequence[str]) -> list[str]:
    """Lines that only their code names are compared with care; types would name them better."""
    by_functions = any(named_by == "functions" for side in sides for named_by, _ in side.groups)
    told = [reason for reason in reasons if reason]
    if not by_functions or not told:
        return []
    return [f"lines are named by the functions that touch them: {'; '.join(told)}"]


def _source_warnings(before: Recording, after: Recording) -> list[str]:
    events = [
        sorted({f"{row.kind} {row.event}" for row in recording.table(rows.MemorySource) if row.kind != "watchpoint"})
        for recording in (before, after)
    ]
    if events[0] == events[1]:
        return []
    return [f"different sources of memory samples: {'; '.join(events[0])} and {'; '.join(events[1])}"]
