# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of `lockline fleet report --html`."""

from collections.abc import Sequence

from lockline.base.numbers import count, duration, percent
from lockline.fleet import text
from lockline.fleet.choose import moment
from lockline.fleet.model import FleetReport, GroupEffect, LockShare, Programs, Silent
from lockline.page import svg
from lockline.page.document import Page, Section, figure, render
from lockline.page.html import Content, Writer, joined
from lockline.page.redact import Redactor

# Of the drawing; the table has all.
DRAWN = 20
HOSTS = 200


def _name(lock: LockShare | GroupEffect) -> str:
    return f"{lock.name} ({lock.kind})"


def _locks(report: FleetReport, write: Writer) -> Section:
    rows: list[Sequence[Content]] = []
    for lock in report.locks:
        worst = ", ".join(f"{host} {percent(share)}" for host, share in lock.spread.worst)
        rows.append(
            (
                _name(lock),
                percent(lock.share),
                percent(lock.of_waiting),
                f"{lock.hosts:,}",
                percent(lock.spread.median),
                percent(lock.spread.p99),
                count(lock.waits),
                duration(lock.p50_ns),
                duration(lock.p99_ns),
                duration(lock.max_ns),
                text.change_words(lock.change, lock.new) or "-",
                worst or "-",
            )
        )
    titles = ("lock", "of all host time", "of waiting", "hosts", "median host", "p99 host", "waits", "p50", "p99")
    table = write.table("Locks", (*titles, "longest", "change", "worst hosts"), rows, (0, 10, 11))
    bars = [(_name(lock), lock.spread.median * 100, lock.spread.p99 * 100) for lock in report.locks[:DRAWN]]
    names = ("median host", "host at p99")
    drawing = joined((svg.pairs(write, "Share of host time, by lock", bars, names), svg.legend(write, names)))
    caption = (
        "Wait time over observed host time, in percent: the host in the middle, and the one that 99 of 100 are below."
    )
    return Section("locks", "Locks", figure(write, "locks", caption, drawing, table, chart=False))


def _programs(programs: Programs, write: Writer) -> Section:
    rows: list[Sequence[Content]] = []
    for lock in programs.locks:
        worst = ", ".join(f"{host} {percent(share)}" for host, share in lock.spread.worst)
        rows.append(
            (
                text.program_lock_name(lock),
                lock.program,
                percent(lock.share),
                f"{lock.hosts:,}",
                percent(lock.spread.median),
                percent(lock.spread.p99),
                count(lock.waits),
                duration(lock.max_ns),
                "-" if lock.before is None else percent(lock.before),
                worst or "-",
            )
        )
    titles = ("lock", "program", "of host time", "hosts", "median host", "p99 host", "waits", "longest")
    table = write.table("Locks of programs", (*titles, "of time in the period before", "worst hosts"), rows, (0, 1, 9))
    note = write("p", f"Of {programs.hosts:,} hosts that were recorded with --futex.", class_="note")
    return Section("programs", "Locks of programs", joined((table, note)))


def _groups(report: FleetReport, write: Writer) -> Section:
    groups: list[Sequence[Content]] = [
        (f"{group.by.replace('_', ' ')} {group.value}", f"{group.hosts:,}", percent(group.share))
        for group in report.groups
    ]
    effects: list[Sequence[Content]] = []
    for one in report.effects:
        judgement = one.effect.judgement
        effects.append(
            (
                _name(one),
                f"{one.by.replace('_', ' ')} {one.value}",
                f"{one.effect.hosts[1]:,}",
                percent(one.effect.after),
                percent(one.effect.before),
                f"{judgement.p:.2g}" if judgement else "-",
                judgement.verdict if judgement else "-",
            )
        )
    titles = ("lock", "group", "its hosts", "its share", "of the others", "p, corrected", "verdict")
    return Section(
        "machines",
        "Kernels, CPU models and other groups",
        joined(
            (
                write.table("Groups of hosts", ("group", "hosts", "lock waiting, of host time"), groups),
                write.table("Locks that differ", titles, effects, (0, 1, 6)),
                write("p", f"{report.tested:,} comparisons; p is corrected for their number.", class_="note"),
            )
        ),
    )


def _findings(report: FleetReport, write: Writer) -> Section:
    rows: list[Sequence[Content]] = [
        (one.rule, f"{one.hosts:,}", "-" if one.before is None else f"{one.before:,}", percent(one.share))
        for one in report.findings
    ]
    titles = ("rule", "hosts", "hosts in the period before", "waiting that it explains, of host time")
    return Section("findings", "Findings", write.table("Findings by rule", titles, rows))


def _hosts(silent: Sequence[Silent], caption: str, write: Writer) -> Content:
    rows: list[Sequence[Content]] = [
        (one.host, percent(one.seen), "-" if one.last_hour is None else f"{moment(one.last_hour)} UTC")
        for one in silent[:HOSTS]
    ]
    return write.table(caption, ("host", "of the usual time", "last hour seen"), rows, (0, 2))


def _coverage(report: FleetReport, write: Writer) -> Section:
    rows: list[Sequence[Content]] = []
    for name, period in (("this period", report.period), ("the period before", report.before)):
        if period is not None:
            when = f"{moment(period.first_hour)} to {moment(period.end_hour)}"
            hours = f"{period.observed_ns / 3.6e12:,.0f}"
            rows.append((name, when, f"{period.hosts:,}", f"{period.recordings:,}", hours, f"{period.lost:,}"))
    titles = ("what", "UTC", "hosts", "recordings", "host-hours", "events lost")
    parts = [write.table("What was observed", titles, rows, (0, 1))]
    for silent, caption in (
        (report.missing, "Hosts that are missing"),
        (report.partial, "Hosts seen for a short time"),
    ):
        made = _hosts(silent, caption, write)
        parts.append(write("div", made))
        if len(silent) > HOSTS:
            parts.append(write("p", f"and {len(silent) - HOSTS:,} more", class_="note"))
    return Section("coverage", "What the figures lack", joined(parts))


def make_fleet_page(report: FleetReport, write: Writer, redact: bool = False) -> str:
    """The page of a fleet's report, as a file; redact: without names of hosts and containers."""
    report = Redactor().fleet(report) if redact else report
    shown = text.render(report, write.style)
    answer, _, rest = shown.partition("\n\n")
    summary = [line for line in rest.rpartition("\n\n")[2].splitlines() if line]
    sections = (
        Section(
            "answer",
            "The answer",
            joined((write("p", " ".join(answer.split()), class_="answer"), write.lines(summary))),
        ),
        _locks(report, write),
        *([_programs(report.programs, write)] if report.programs else []),
        _groups(report, write),
        _findings(report, write),
        _coverage(report, write),
    )
    period = report.period
    subtitle = f"{period.hosts:,} hosts, {moment(period.first_hour)} to {moment(period.end_hour)} UTC"
    return render(Page("Lock waits of the fleet", subtitle, sections), write)
