# SPDX-License-Identifier: GPL-2.0-or-later
"""Real recordings through all of `lockline fleet`: whatever is added up there is what their own reports say."""

import csv
import io
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fleet_command import run
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.base.text import Style, clean
from lockline.fleet import gather
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from schemas import validator_of

STYLE = Style(unicode=True, addresses=False)
ROLES = ("first", "second")
# Of a recording, by plain SQL.
SUMS = {
    "caused_ns": "SELECT sum(caused_ns) FROM holder_total",
    "episodes": "SELECT count(*) FROM episode",
    "observed_ns": "SELECT sum(end_ns - begin_ns) FROM interval",
    "records": "SELECT sum(records) FROM memory_access",
}


@dataclass
class Truth:
    """What the recordings' own reports say, added up by hand."""

    locks: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)
    tables: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    kernels: dict[str, set[str]] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)

    def add(self, report: Report) -> None:
        """One recording."""
        for lock in report.locks:
            key = clean(lock.name, STYLE), lock.kind
            self.locks[(*key, "waits")] += lock.figures.waits
            self.locks[(*key, "wait_ns")] += lock.figures.wait_ns
        self.totals += Counter(waits=report.totals.waits, wait_ns=report.totals.wait_ns, recordings=1)
        self.rules.update(finding.rule for finding in report.findings)
        host = report.host
        self.hosts.add(clean(host.name or "", STYLE))
        self.kernels.setdefault(host.kernel_release or "", set()).add(clean(host.name or "", STYLE))


def truth_of(recordings: Sequence[Path]) -> Truth:
    """What the reports of these recordings say."""
    truth = Truth()
    for path in recordings:
        with open_recording(path) as recording:
            truth.add(make_report(recording, Selection(), 0))
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            for name, query in SUMS.items():
                truth.tables[name] += connection.execute(query).fetchone()[0] or 0
    return truth


def ask(fleet: Path, query: str) -> list[dict[str, str]]:
    """The rows that `fleet sql` prints."""
    code, text, errors = run("sql", fleet, query, "--format", "csv")
    assert (code, errors) == (0, "")
    return list(csv.DictReader(io.StringIO(text)))


def number(fleet: Path, expression: str, table: str) -> int:
    """A sum over a view."""
    [row] = ask(fleet, f"SELECT coalesce({expression}, 0)::BIGINT AS number FROM {table}")
    return int(row["number"])


def document(*arguments: object, schema: str) -> Any:
    """What a command says as JSON."""
    code, text, errors = run(*arguments, "--format", "json")
    assert (code in (0, 2), errors) == (True, "")
    found = json.loads(text)
    validator_of(schema).validate(found)
    return found


def _check_sql(fleet: Path, truth: Truth) -> None:
    for view in ("lock_shares", "lock_hours", "waits"):
        found: Counter[tuple[str, str, str]] = Counter()
        query = (
            f"SELECT lock, kind, sum(waits)::BIGINT AS waits, sum(wait_ns)::BIGINT AS wait_ns FROM {view} GROUP BY ALL"
        )
        for row in ask(fleet, query):
            for figure in ("waits", "wait_ns"):
                found[row["lock"], row["kind"], figure] += int(row[figure])
        assert found == truth.locks, view
    assert number(fleet, "sum(waits)", "recordings") == truth.totals["waits"]
    assert number(fleet, "sum(waits)", "lengths") == truth.totals["waits"]
    assert number(fleet, "sum(wait_ns)", "recordings") == truth.totals["wait_ns"]
    assert number(fleet, "sum(observed_ns)", "hours") == truth.tables["observed_ns"]
    assert number(fleet, "sum(caused_ns)", "holders") == truth.tables["caused_ns"]
    assert number(fleet, "count(*)", "episodes") == truth.tables["episodes"]
    assert number(fleet, "sum(records)", "lines") == truth.tables["records"]
    assert Counter(row["rule"] for row in ask(fleet, "SELECT rule FROM findings")) == truth.rules


def _check_report(fleet: Path, truth: Truth, tmp_path: Path) -> None:
    code, text, errors = run("report", fleet, "--group-by", "kernel,host")
    assert (code, errors) == (0, "")
    found = document("report", fleet, "--group-by", "kernel,host", schema="fleet")
    heaviest = found["locks"][0]
    assert heaviest["lock"] in text
    assert found["period"]["recordings"] == truth.totals["recordings"]
    assert found["period"]["observed_ns"] == truth.tables["observed_ns"]
    assert found["share"] * truth.tables["observed_ns"] == pytest.approx(truth.totals["wait_ns"])
    for lock in found["locks"]:
        assert lock["waits"] == truth.locks[lock["lock"], lock["kind"], "waits"]
        assert lock["wait_ns"] == truth.locks[lock["lock"], lock["kind"], "wait_ns"]
    groups = {(group["by"], group["value"]): group["hosts"] for group in found["groups"]}
    expected = {("kernel", kernel): len(hosts) for kernel, hosts in truth.kernels.items()}
    expected |= {("host", host): 1 for host in truth.hosts}
    assert groups == expected
    page = tmp_path / "fleet.html"
    assert run("report", fleet, "--html", page) == (0, "", "")
    assert heaviest["lock"] in page.read_text(encoding="utf-8")


def _check_containers(fleet: Path) -> None:
    query = "SELECT container, sum(waits)::BIGINT AS waits FROM containers WHERE container <> '' GROUP BY 1"
    for row in ask(fleet, query):
        found = document("report", fleet, "--container", row["container"], schema="fleet")
        assert found["container"] == row["container"]
        assert sum(lock["waits"] for lock in found["locks"]) == int(row["waits"])


def follow_whole_path(recordings: Sequence[Path], tmp_path: Path) -> Path:
    """Add them in two parts, ask everything, and compare; the fleet's directory, for more questions."""
    fleet, truth = tmp_path / "fleet", truth_of(recordings)
    assert truth.totals["waits"] > 0
    parts = recordings[::2], recordings[1::2]
    for role, part in zip(ROLES, parts, strict=True):
        code, text, errors = run("add", "--intervals", "--role", role, "-j", "2", fleet, *part)
        assert (code, errors) == (0, "")
        assert text.startswith(f"{len(part)} recordings added")
    code, text, _ = run("add", fleet, *recordings)
    assert (code, text) == (0, f"0 recordings added, 0 rows of waits; {len(recordings)} were there already\n")
    _check_sql(fleet, truth)
    _check_report(fleet, truth, tmp_path)
    _check_containers(fleet)
    # The same answer from the files that `add` gathered, and from each recording's own.
    asked = "report", fleet, "--group-by", "kernel,cpu-model,architecture,role"
    before = document(*asked, schema="fleet")
    days = Counter(row["date"] for row in ask(fleet, "SELECT date FROM recordings"))
    if max(days.values()) >= gather.LEAST:
        assert (fleet / gather.GATHERED).is_dir()
        shutil.rmtree(fleet / gather.GATHERED)
        assert document(*asked, schema="fleet") == before
    sides = [truth_of(part) for part in parts]
    diff = document("diff", fleet, "--before", "role=first", "--after", "role=second", schema="fleet-diff")
    assert [diff[side]["period"]["recordings"] for side in ("before", "after")] == [len(part) for part in parts]
    assert [diff[side]["period"]["observed_ns"] for side in ("before", "after")] == [
        side.tables["observed_ns"] for side in sides
    ]
    return fleet
