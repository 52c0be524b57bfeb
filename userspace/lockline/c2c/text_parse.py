# SPDX-License-Identifier: GPL-2.0-or-later
"""What a text of `perf c2c report --stdio` says, or one of `perf script` with data addresses and data sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lockline.base.errors import LocklineError
from lockline.c2c.text_lines import MAX_LINE_CHARACTERS, Line, clean_lines
from lockline.c2c.text_readings import READINGS, of_perf, unescaped, unfolded
from lockline.c2c.text_reports import Draft, Scanner
from lockline.c2c.text_samples import SampleList, is_sample_list, read_samples
from lockline.c2c.text_tables import LineDetail, TableRow

MAX_LINES = 1_000_000
# So many other reports of a text are named.
_OTHERS = 20

_NOTHING = (
    "nothing of perf c2c is in it; expected is the text of `perf c2c report --stdio`, whole or a part with its headers"
)
_PROTOTYPE = (
    "the output of the perf c2c prototype of 2014, which is not read; expected is the text of `perf c2c report --stdio`"
    " of Linux 4.10 or later"
)
_MEM_REPORT = (
    "the text of `perf mem report`, which has no cache lines; make one with `perf c2c report --stdio` from the same"
    " perf.data, or import that file itself"
)
_NO_ADDRESSES = (
    "a list of perf script samples without data addresses or data sources; print them with"
    " `perf script -F comm,pid,tid,cpu,time,event,addr,data_src,weight,ip,sym,dso`"
)


class TextImportError(LocklineError):
    """A text that holds nothing to import."""


@dataclass(frozen=True)
class C2cText:
    """What one report says, as it says it.

    counts: figures of the whole source, by the names of struct c2c_stats, and shared_* of the shared lines.
    table, details: the lines and the offsets in each, in the text's order, which perf before 5.6 leaves unsorted.
    samples: in the place of all these for a text of perf script.  problems: line number and what is wrong there.
    notes: one line each, for people.
    """

    report: int
    reports: int
    first_line: int
    counts: Mapping[str, int] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    sort: str = ""
    grouping: str = ""
    table: tuple[TableRow, ...] = ()
    table_peer: bool = False
    details: tuple[LineDetail, ...] = ()
    samples: SampleList | None = None
    problems: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()


def _plain_counts(draft: Draft) -> dict[str, int]:
    """Counts by the names of struct c2c_stats; figures that contradict each other are named, and kept."""
    counts = dict(draft.counts)
    llc = counts.pop("llc", None)
    misses = counts.pop("llc_miss", None)
    if llc is not None and "lcl_hitm" in counts:
        # perf prints the sum of both.
        if llc >= counts["lcl_hitm"]:
            counts["ld_llchit"] = llc - counts["lcl_hitm"]
        else:
            draft.problem(draft.first_line, f"{llc} LLC hits, but {counts['lcl_hitm']} local HITM among them")
    for total, sides in (("tot_hitm", ("lcl_hitm", "rmt_hitm")), ("tot_peer", ("lcl_peer", "rmt_peer"))):
        if all(side in counts for side in sides):
            counts[total] = sum(counts[side] for side in sides)
    checks: tuple[tuple[str, int | None, tuple[str, ...]], ...] = (
        ("records", counts.get("nr_entries"), ("load", "store", "noparse")),
        ("LLC misses", misses, ("lcl_dram", "rmt_dram", "rmt_hit", "rmt_hitm")),
    )
    for what, whole, parts in checks:
        if whole is not None and all(part in counts for part in parts):
            parts_sum = sum(counts[part] for part in parts)
            if parts_sum != whole:
                draft.problem(draft.first_line, f"{whole} {what} in all, but the parts add up to {parts_sum}")
    return counts


def _problem_note(problems: Sequence[tuple[int, str]]) -> list[str]:
    if not problems:
        return []
    line, problem = problems[0]
    more = f", and {len(problems) - 1} more problems" if len(problems) > 1 else ""
    return [f"line {line}: {problem}{more}"]


def _of_draft(draft: Draft, report: int, drafts: Sequence[Draft], too_long: Sequence[int]) -> C2cText:
    counts = _plain_counts(draft)
    for number in too_long:
        draft.problem(number, f"longer than {MAX_LINE_CHARACTERS} characters")
    own = sorted(draft.problems)
    # A recording has no notes: who reads it later is to know that there was more in the text.
    others = [
        (other.first_line, f"another report begins here, number {number} of {len(drafts)}; --report {number} shows it")
        for number, other in enumerate(drafts, 1)
        if number != report
    ]
    notes = []
    if len(drafts) > 1:
        begins = ", ".join(str(other.first_line) for other in drafts[:_OTHERS])
        notes.append(f"the text holds {len(drafts)} reports, at lines {begins}; this is number {report} (--report)")
    return C2cText(
        report=report,
        reports=len(drafts),
        first_line=draft.first_line,
        counts=counts,
        events=tuple(draft.events),
        sort=draft.sort,
        grouping=draft.grouping,
        table=tuple(draft.table),
        table_peer=draft.table_peer,
        details=tuple(draft.details),
        problems=tuple(sorted([*own, *others[:_OTHERS]])),
        notes=(*notes, *_problem_note(own)),
    )


def _of_samples(samples: SampleList) -> C2cText:
    notes = []
    if samples.no_address:
        notes.append(f"{samples.no_address} samples without a data address are left out")
    if samples.left_out:
        notes.append(f"{samples.left_out} samples are left out: the event `memory` has each access once")
    return C2cText(
        report=1,
        reports=1,
        first_line=samples.samples[0].line,
        events=tuple(sorted({sample.event for sample in samples.samples if sample.event})),
        samples=samples,
        problems=samples.problems,
        notes=(*notes, *_problem_note(samples.problems)),
    )


def _refusal(lines: Sequence[Line], samples: SampleList | None, unread: Sequence[tuple[int, str]]) -> str:
    """Why nothing can be imported: what the text is."""
    if samples or is_sample_list(lines):
        return _NO_ADDRESSES
    for line in lines:
        words = " ".join(line.text.split())
        if "Phys Adrs" in words or "%hitm" in words.split():
            return _PROTOTYPE
        if "perf mem report" in words or words.startswith("Memory access Samples") or "- Cache -" in words:
            return _MEM_REPORT
        if words.startswith("# Overhead") and ("Memory access" in words or "Local Weight" in words):
            return _MEM_REPORT
    if unread:
        number, problem = unread[0]
        return f"no part of the report in it could be read; line {number}: {problem}"
    return _NOTHING


def _content(drafts: Sequence[Draft]) -> int:
    """How much of a text was read: figures and rows; rows whose line has no totals are worth half."""
    return sum(
        2 * (len(draft.counts) + len(draft.table))
        + sum((1 + len(detail.rows)) << bool(detail.totals) for detail in draft.details)
        for draft in drafts
    )


def _problems(drafts: Sequence[Draft]) -> int:
    return sum(len(draft.problems) for draft in drafts)


def _unbroken(text: str, lines: list[Line], plain: bool, scanner: Scanner) -> tuple[list[Line], Scanner, list[Draft]]:
    """The lines as they were before a terminal broke them, with what reads them; the same if none did.

    plain: whether they are those of the text, without another reading; scanner: has read them.
    """
    now = _content(scanner.drafts), -_problems(scanner.drafts)
    # With the blanks at their ends the lines have the terminal's width, wherever it broke them.
    kept = clean_lines(unescaped(text), blanks=True)[0] if plain else lines
    for broken in (kept, lines):
        whole = unfolded(broken)
        if whole == broken:
            continue
        whole = [Line(number, line.rstrip()) for number, line in whole]
        again = Scanner(whole)
        drafts = again.run()
        better = _content(drafts), -_problems(drafts)
        # A header that was broken within a word has columns that nobody knows.  A row that was broken within a name is
        # read either way, and the name is wrong: whatever leaves no row in parts is then how it was.
        if better > now or (better == now and not again.wrapped and broken == kept):
            return whole, again, drafts
    return lines, scanner, scanner.drafts


def parse(text: str, report: int | None = None) -> C2cText:
    """What a text says; report: which of several, from 1 (default: the first).

    Raises TextImportError, with what the text is, if there is nothing to import in it.
    """
    if text.count("\n") + text.count("\r") > MAX_LINES:
        raise TextImportError(f"more than {MAX_LINES:,} lines; cut the report out of it")
    lines, too_long = clean_lines(unescaped(text))
    plain = lines
    scanner = Scanner(lines)
    drafts = scanner.run()
    most = _content(drafts)
    read = any(draft.table or draft.details for draft in drafts) and not _problems(drafts)
    for reading in READINGS if not read and of_perf(lines) else ():
        other = reading(lines)
        if other == lines:
            continue
        again = Scanner(other)
        found = again.run()
        if _content(found) > most:
            lines, scanner, drafts, most = other, again, found, _content(found)
    if (scanner.wrapped or _problems(drafts)) and of_perf(lines):
        lines, scanner, drafts = _unbroken(text, lines, lines is plain, scanner)
    if drafts:
        if report is not None and not 1 <= report <= len(drafts):
            raise TextImportError(f"there is no report {report}: the text holds {len(drafts)}")
        number = report or 1
        return _of_draft(drafts[number - 1], number, drafts, too_long)
    samples = read_samples(lines)
    if samples and samples.samples:
        if report not in (None, 1):
            raise TextImportError(f"there is no report {report}: the text is one list of samples")
        return _of_samples(samples)
    raise TextImportError(_refusal(lines, samples, scanner.unread))
