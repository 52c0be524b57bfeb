# SPDX-License-Identifier: GPL-2.0-or-later
"""Metrics: their sums, their number, and what Prometheus' own parser makes of them."""

import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from example_recording import make_example
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.cli.exporter import MOST_CLIENTS
from lockline.cli.main import main
from lockline.export.metrics import OTHER, PATIENCE, RETIRED, Metrics, Series, Tally, advance, advance_series, label
from lockline.export.prometheus import render
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report

TOP = Path(__file__).resolve().parents[2]
METRICS = TOP / "packaging" / "metrics"

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parse(text: str) -> Samples:
    """By name of the sample, by its labels."""
    found: Samples = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        assert family.type != "unknown", family.name
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found[sample.name], (sample.name, labels)
            found[sample.name][labels] = sample.value
    return found


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_example(tmp_path_factory.mktemp("example") / "example.lockline")


@pytest.fixture(scope="module")
def report(example: Path) -> Report:
    with open_recording(example) as recording:
        return make_report(recording, Selection(), 0)


def test_sums_are_those_of_the_report(report: Report) -> None:
    found = parse(render(advance(Metrics(), report, 3, 3)).decode())
    waits, seconds = found["lockline_lock_waits_total"], found["lockline_lock_wait_seconds_total"]
    assert sum(waits.values()) == report.totals.waits
    assert sum(seconds.values()) == pytest.approx(report.totals.wait_ns / 1e9, rel=1e-12)
    for kind in report.kinds:
        of_kind = {labels: value for labels, value in waits.items() if ("kind", kind.kind) in labels}
        assert sum(of_kind.values()) == kind.figures.waits
        (count,) = (
            value for labels, value in found["lockline_wait_seconds_count"].items() if ("kind", kind.kind) in labels
        )
        assert count == kind.figures.waits
    names = {dict(labels)["lock"] for labels in waits}
    assert OTHER in names
    assert len(names - {OTHER}) == 3
    assert sum(found["lockline_container_wait_seconds_total"].values()) == pytest.approx(
        report.sampled.wait_ns / 1e9, rel=1e-12
    )
    assert {dict(labels)["rule"] for labels in found["lockline_findings"]} == {one.rule for one in report.findings}
    assert found["lockline_recorded_seconds_total"][()] > 0


def test_buckets_grow(report: Report) -> None:
    found = parse(render(advance(Metrics(), report, 50, 50)).decode())
    by_kind: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for labels, value in found["lockline_wait_seconds_bucket"].items():
        by_kind[dict(labels)["kind"]].append((float(dict(labels)["le"]), value))
    for kind in report.kinds:
        buckets = sorted(by_kind[kind.kind])
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
        assert buckets[-1] == (float("inf"), kind.figures.waits)


def test_an_update_without_waits_changes_nothing(report: Report) -> None:
    once = advance(Metrics(), report, 50, 50)
    twice = advance(once, report, 50, 50)
    assert (twice.locks.counted, twice.kinds, twice.counters) == (once.locks.counted, once.kinds, once.counters)


def test_the_next_recording_goes_on(report: Report) -> None:
    once = advance(Metrics(), report, 50, 50)
    window = replace(report.window, recording_begin_ns=report.window.recording_begin_ns + 1)
    twice = advance(once, replace(report, window=window), 50, 50)
    for labels, tally in once.locks.counted.items():
        assert twice.locks.counted[labels] == tally + tally
    for kind, counts in once.kinds.items():
        assert twice.kinds[kind] == tuple(2 * count for count in counts)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.dictionaries(st.integers(0, 30), st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=20),
        max_size=PATIENCE + 20,
    ),
    st.integers(1, 5),
)
def test_no_wait_is_lost_and_nothing_goes_back(steps: list[dict[int, tuple[int, int]]], limit: int) -> None:
    """Sums are those of all waits; series are few; apart from those that retire, none goes back."""
    series = Series()
    totals: dict[tuple[str, ...], Tally] = {}
    for step in steps:
        for lock, (waits, wait_ns) in step.items():
            key = (f"kind {lock % 2}", f"lock {lock}")
            totals[key] = totals.get(key, Tally()) + Tally(waits, wait_ns)
        before, series = series, advance_series(series, dict(totals), limit, restarted=False)
        assert sum(tally.waits for tally in series.counted.values()) == sum(one.waits for one in totals.values())
        assert sum(tally.wait_ns for tally in series.counted.values()) == sum(one.wait_ns for one in totals.values())
        named = [labels for labels in series.counted if labels[-1] not in (OTHER, RETIRED)]
        assert len(named) <= limit
        assert len(series.counted) <= limit + 4
        for labels, tally in before.counted.items():
            if labels in series.counted:
                assert series.counted[labels].wait_ns >= tally.wait_ns
            else:
                assert before.idle[labels] >= PATIENCE


def test_a_lock_that_gets_its_name_late_is_counted_once() -> None:
    """Its waits leave the name that it had."""
    before = advance_series(Series(), {("mutex", "?"): Tally(5, 500)}, 9, restarted=True)
    totals = {("mutex", "?"): Tally(3, 300), ("mutex", "a"): Tally(6, 900), ("spinlock", "b"): Tally(1, 10)}
    after = advance_series(before, totals, 9, restarted=False)
    assert after.counted == {
        ("mutex", "?"): Tally(5, 500),
        ("mutex", "a"): Tally(4, 700),
        ("spinlock", "b"): Tally(1, 10),
    }


def test_hysteresis() -> None:
    """A lock that is the heaviest for a moment does not drive out one that was so for long."""
    series = advance_series(Series(), {("k", "old"): Tally(1, 100)}, 1, restarted=False)
    totals = {("k", "old"): Tally(1, 100)}
    for step in range(1, PATIENCE + 2):
        totals = totals | {("k", "new"): Tally(step, 10 * step)}
        series = advance_series(series, totals, 1, restarted=False)
        assert (("k", "old") in series.counted) == (step <= PATIENCE)
    assert series.counted["k", RETIRED] == Tally(1, 100)
    assert ("k", "new") in series.counted


def test_ten_thousand_locks_and_fifty_thousand_cgroups(report: Report) -> None:
    (lock, cgroup) = report.locks[0], report.cgroups[0]
    many = replace(
        report,
        locks=tuple(replace(lock, name=f"lock_{number}") for number in range(10_000)),
        cgroups=tuple(
            replace(cgroup, path=f"/{number}", name=f"c{number}", wait_ns=number) for number in range(50_000)
        ),
    )
    metrics = advance(Metrics(), many, 50, 50)
    assert len(metrics.locks.counted) <= 52
    assert len(metrics.containers.counted) <= 52
    assert sum(tally.waits for tally in metrics.locks.counted.values()) == 10_000 * lock.figures.waits
    assert len(render(metrics)) < 100_000


@pytest.mark.parametrize(
    "text, clean",
    [
        ("mm_struct.mmap_lock", "mm_struct.mmap_lock"),
        ("lock at 0xffff888012345678", "lock at ADDRESS"),
        ("ffff888012345678", "ADDRESS"),
        ("a\nb\x1b", "a?b?"),
        ("", "unknown"),
        ("x" * 500, "x" * 120),
    ],
)
def test_labels(text: str, clean: str) -> None:
    assert label(text) == clean


def test_textfile_and_once(example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "lockline.prom"
    assert main(["exporter", "-i", str(example), "--textfile", str(out), "--once"]) == 0
    assert out.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert main(["exporter", "-i", str(example), "--once"]) == 0
    assert parse(capsys.readouterr().out) == parse(out.read_text())


@pytest.mark.parametrize(
    "options, words",
    [
        (["-i", "/nowhere", "--once"], "no such file"),
        (["--listen", "9435"], "is not an address"),
        (["--listen", "127.0.0.1:99999"], "is not an address"),
        (["--textfile", "/nowhere/x", "--once", "-i", "EXAMPLE"], "--textfile /nowhere/x"),
    ],
)
def test_faults(example: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    arguments = [str(example) if word == "EXAMPLE" else word for word in options]
    try:
        code = main(["exporter", *arguments])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    assert code == 1
    assert words in capsys.readouterr().err


def test_without_prometheus_client(example: Path) -> None:
    code = "import sys; sys.modules['prometheus_client'] = None; from lockline.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "exporter", "-i", str(example), "--once"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=TOP / "userspace")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "pip install 'lockline[exporter]'" in done.stderr


@contextmanager
def served(example: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "lockline", "exporter", "-i", str(example), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=TOP / "userspace")
    try:
        assert process.stderr
        found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", process.stderr.readline())
        assert found
        yield int(found[1])
    finally:
        process.terminate()
        process.wait()
        assert process.stderr
        rest = process.stderr.read()
        process.stderr.close()
    assert rest == ""


def scrape(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return str(answer.read().decode())


def test_slow_and_hostile_clients_hold_nobody_up(example: Path) -> None:
    with served(example) as port, ExitStack() as stack:
        for number in range(3 * MOST_CLIENTS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            # Silent, half a request, no request, one whose answer is not read.
            client.sendall((b"", b"GET /met", b"\x00\xff\r\n\r\n", b"GET /metrics HTTP/1.0\r\n\r\n")[number % 4])
            if number % MOST_CLIENTS == 0:
                assert "lockline_build_info" in scrape(port)
        assert parse(scrape(port))["lockline_build_info"]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            scrape(port, "/etc/passwd")


def names_of(expressions: list[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"\blockline_\w+", text)}


def known_names(report: Report) -> set[str]:
    found = parse(render(advance(Metrics(), report, 50, 50)).decode())
    return {
        *found,
        "lockline_events_lost_total",
        "lockline_probe_seconds_total",
        "lockline_collector_cpu_seconds_total",
    }


def test_alerts_name_metrics_that_there_are(report: Report) -> None:
    rules = [
        rule for group in yaml.safe_load((METRICS / "alerts.yml").read_text())["groups"] for rule in group["rules"]
    ]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert {"expr", "for", "labels", "annotations"} <= set(rule)
        assert set(rule["annotations"]) == {"summary", "description"}
    assert names_of([rule["expr"] for rule in rules]) <= known_names(report)


def test_the_dashboard_draws_metrics_that_there_are(report: Report) -> None:
    board = json.loads((METRICS / "grafana.json").read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = set()
    for panel in panels:
        assert {"type", "title", "description", "datasource", "gridPos", "fieldConfig", "targets"} <= set(panel)
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & places
        places |= cells
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    assert names_of(expressions) <= known_names(report)
    assert {"lockline_lock_wait_seconds_total", "lockline_findings"} <= names_of(expressions)
    assert all(text.count("(") == text.count(")") and text.count("{") == text.count("}") for text in expressions)
