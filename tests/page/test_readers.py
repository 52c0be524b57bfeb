# SPDX-License-Identifier: GPL-2.0-or-later
"""lockline export, read by what others wrote: go tool pprof, pprof-format, speedscope's schema, DuckDB."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.cli import main as cli
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report

from .made import MODULES, NAMES

DECODE = """
const { Profile } = require("pprof-format");
const { gunzipSync } = require("zlib");
const profile = Profile.decode(gunzipSync(require("fs").readFileSync(process.argv[1])));
const text = (index) => profile.stringTable.strings[Number(index)];
console.log(JSON.stringify({
  types: profile.sampleType.map((type) => [text(type.type), text(type.unit)]),
  sums: profile.sampleType.map((_, index) => profile.sample.reduce((sum, one) => sum + Number(one.value[index]), 0)),
  functions: profile.function.map((one) => text(one.name)),
}));
"""


def export(recording: Path, output: Path, form: str, *options: str) -> Path:
    assert cli.main(["export", str(recording), "--format", form, "-o", str(output), *options]) == 0
    return output


def report_of(recording: Path) -> Report:
    with open_recording(recording) as opened:
        return make_report(opened, Selection(), 0)


def go_sums(output: Path) -> list[int]:
    """What `go tool pprof -raw` adds up to: contentions, and delay in ns."""
    command = ["go", "tool", "pprof", "-raw", str(output)]
    raw = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "contentions/count delay/nanoseconds[dflt]" in raw
    lines = raw[raw.index("Samples:") : raw.index("Locations")].splitlines()
    values = [line.partition(":")[0].split() for line in lines if line.strip()[:1].isdigit() and ":" in line]
    return [sum(int(pair[index]) for pair in values) for index in (0, 1)]


@pytest.mark.parametrize("name", NAMES)
def test_go_reads_the_profile(name: str, recordings: dict[str, Path], tmp_path: Path) -> None:
    report = report_of(recordings[name])
    output = export(recordings[name], tmp_path / "waits.pb.gz", "pprof")
    assert go_sums(output) == [report.totals.waits, report.totals.wait_ns]


@pytest.mark.parametrize("name", ["example", "hostile"])
def test_go_reads_the_profile_of_holders(name: str, recordings: dict[str, Path], tmp_path: Path) -> None:
    holders = [holder for lock in report_of(recordings[name]).locks for holder in lock.holders]
    output = export(recordings[name], tmp_path / "holders.pb.gz", "pprof", "--holders")
    assert go_sums(output) == [sum(one.releases for one in holders), sum(one.caused_ns for one in holders)]
    top = subprocess.run(["go", "tool", "pprof", "-top", str(output)], capture_output=True, text=True, check=True)
    assert "release_task" in top.stdout or name != "example"


@pytest.mark.parametrize("name", NAMES)
def test_pprof_format_reads_the_profile(name: str, recordings: dict[str, Path], tmp_path: Path) -> None:
    report = report_of(recordings[name])
    output = export(recordings[name], tmp_path / "waits.pb.gz", "pprof")
    done = subprocess.run(
        ["node", "-e", DECODE, str(output)], cwd=MODULES.parent, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["types"] == [["contentions", "count"], ["delay", "nanoseconds"]]
    assert found["sums"] == [report.totals.waits, report.totals.wait_ns]
    assert found["functions"]


@pytest.mark.parametrize("name", NAMES)
def test_speedscope_files_follow_its_schema(name: str, recordings: dict[str, Path], tmp_path: Path) -> None:
    [schema] = (MODULES / "speedscope").rglob("file-format-schema.json")
    document = json.loads(export(recordings[name], tmp_path / "waits.json", "speedscope").read_bytes())
    jsonschema.validate(document, json.loads(schema.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", NAMES)
def test_parquet_has_the_totals(name: str, recordings: dict[str, Path], tmp_path: Path) -> None:
    import duckdb

    report = report_of(recordings[name])
    output = export(recordings[name], tmp_path / "waits.parquet", "parquet")
    with duckdb.connect() as connection:
        rows = connection.read_parquet(str(output)).fetchall()
        names = connection.read_parquet(str(output)).columns
    waits, wait_ns, cpu = (names.index(column) for column in ("waits", "wait_ns", "cpu"))
    assert sum(row[waits] for row in rows) == report.totals.waits
    assert sum(row[wait_ns] for row in rows) == report.totals.wait_ns
    assert {row[cpu] for row in rows} == {each.cpu for each in report.cpus}
