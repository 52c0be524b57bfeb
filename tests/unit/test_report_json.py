# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON report: its documented schema, its sums, and one report to the letter."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lockline.analysis.selection import Selection
from lockline.analysis.series import read_slices
from lockline.recording.reader import open_recording
from lockline.render.documents.report import render
from lockline.rules.report import make_report
from recording_generator import SECOND, RecordingBuilder
from schemas import validator_of

GOLDEN = Path(__file__).with_name("golden") / "report.json"

KEYS = ["schema", "answer", "host", "window", "probes", "totals", "locks", "cpus", "outliers", "tasks"]
KEYS += [
    "cgroups",
    "findings",
    "futexes",
    "clock_reads",
    "inactive_waits",
    "ptrace_attaches",
    "lines",
    "cpu_pairs",
    "wait_graph",
    "sleepers",
    "series",
]
KEYS += ["episodes"]
KEYS += ["loss", "cost"]
KEYS += ["self_check", "trust"]


def json_of(path: Path, selection: Selection, addresses: bool = False) -> dict[str, Any]:
    with open_recording(path) as recording:
        report = make_report(recording, selection, 100)
        value = json.loads(render(replace(report, slices=read_slices(recording, report)), addresses))
    assert isinstance(value, dict)
    return value


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    return validator_of("report")


@pytest.mark.parametrize("addresses", [False, True])
@pytest.mark.parametrize(
    "selection",
    [
        Selection(),
        Selection(by="instance", sort="p99", top=2),
        Selection(kinds=("mutex",), cpus=(1, 2), from_ns=SECOND, to_ns=3 * SECOND),
    ],
    ids=str,
)
def test_output_follows_the_schema(
    example: Path, validator: jsonschema.Draft202012Validator, selection: Selection, addresses: bool
) -> None:
    value = json_of(example, selection, addresses)
    validator.validate(value)
    assert list(value) == KEYS


def test_an_empty_recording_follows_the_schema(tmp_path: Path, validator: jsonschema.Draft202012Validator) -> None:
    builder = RecordingBuilder(tmp_path / "empty.lockline")
    builder.connection.execute("DELETE FROM meta")
    value = json_of(builder.finish(), Selection())
    validator.validate(value)
    assert value["totals"]["waits"] == 0


def test_the_schema_refuses_what_it_does_not_name(example: Path, validator: jsonschema.Draft202012Validator) -> None:
    value = json_of(example, Selection())
    value["locks"][0]["colour"] = "red"
    assert not validator.is_valid(value)


def test_lists_add_up_to_the_totals(generated: Path) -> None:
    value = json_of(generated, Selection())
    totals = value["totals"]
    for parts in (totals["kinds"], value["locks"], value["cpus"]):
        for field in ("waits", "wait_ns", "failed"):
            assert sum(part[field] for part in parts) == totals[field]
        counts: dict[int, int] = {}
        for part in parts:
            for lower, count in part["histogram"]:
                counts[lower] = counts.get(lower, 0) + count
        assert [[lower, counts[lower]] for lower in sorted(counts)] == totals["histogram"]


def test_top_limits_the_lists_not_the_totals(generated: Path) -> None:
    whole = json_of(generated, Selection())
    short = json_of(generated, Selection(top=3))
    assert len(short["locks"]) == len(short["tasks"]) == 3
    assert short["locks"] == whole["locks"][:3]
    assert short["totals"] == whole["totals"]
    assert short["totals"]["locks"] == len(whole["locks"]) > 3


def test_addresses_are_told_only_on_request(example: Path) -> None:
    assert "ffff" not in json.dumps(json_of(example, Selection(by="instance")))
    told = json_of(example, Selection(by="instance"), addresses=True)
    assert told["locks"][0]["address"] == "0xffff8880000000c0"
    assert told["outliers"][0]["stack"][0]["address"].startswith("0xffffffff8")


def test_one_report_to_the_letter(example: Path) -> None:
    text = json.dumps(json_of(example, Selection()), indent=1) + "\n"
    if os.environ.get("LOCKLINE_WRITE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
