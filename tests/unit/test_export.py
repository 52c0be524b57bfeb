# SPDX-License-Identifier: GPL-2.0-or-later
"""lockline export: sums are the report's, stacks run the right way, and names do no harm.

tests/page has the readers of others that take longer to install.
"""

import csv
import importlib
import io
import itertools
import json
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile_recording import ADDRESS, FORBIDDEN, NAMES
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.base.errors import LocklineError
from lockline.cli import main as cli
from lockline.export import profile as profiles
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from pprof_reader import Pprof
from recording_generator import RecordingBuilder

STACK_FORMATS = ("pprof", "folded", "speedscope", "firefox")
FORMATS = (*STACK_FORMATS, "chrome", "csv")


def export(recording: Path, directory: Path, form: str, *options: str) -> Path:
    output = directory / f"out.{form}"
    assert cli.main(["export", str(recording), "--format", form, "-o", str(output), *options]) == 0
    return output


def report_of(recording: Path, **selection: Any) -> Report:
    with open_recording(recording) as opened:
        return make_report(opened, Selection(**selection), 0)


def by_lock(report: Report) -> "Counter[str]":
    sums: Counter[str] = Counter()
    for lock in report.locks:
        sums[f"{lock.name} ({lock.kind})"] += lock.figures.wait_ns
    return sums


def folded(path: Path) -> list[tuple[list[str], int]]:
    """The stacks, outermost first, and their weights."""
    lines = [line.rpartition(" ") for line in path.read_text().splitlines()]
    return [(frames.split(";"), int(weight)) for frames, _, weight in lines]


def test_pprof_has_the_totals_by_lock(recording: Path, tmp_path: Path) -> None:
    found, report = Pprof(export(recording, tmp_path, "pprof")), report_of(recording)
    assert found.types == [("contentions", "count"), ("delay", "nanoseconds")]
    assert found.texts[found.raw.default_sample_type] == "delay"
    assert found.texts[0] == ""
    assert sum(values[0] for _, values, _ in found.samples) == report.totals.waits
    assert sum(values[1] for _, values, _ in found.samples) == report.totals.wait_ns
    sums: Counter[str] = Counter()
    for _, values, labels in found.samples:
        sums[labels["lock"]] += values[1]
    assert sorted(sums.values()) == sorted(total for total in _by_name(report).values() if total)
    assert found.raw.duration_nanos == report.window.duration_ns
    assert found.raw.period == 1


def _by_name(report: Report) -> "Counter[str]":
    sums: Counter[str] = Counter()
    for lock in report.locks:
        sums[lock.name] += lock.figures.wait_ns
    return sums


def test_pprof_stacks_begin_with_the_leaf(example: Path, tmp_path: Path) -> None:
    found = Pprof(export(example, tmp_path, "pprof"))
    [sample] = [sample for sample in found.samples if "ptrace_attach" in sample[0]]
    assert sample[0] == ["queued_write_lock_slowpath", "ptrace_attach", "__x64_sys_ptrace", "do_syscall_64"]
    assert sample[2] == {
        "lock": "tasklist_lock",
        "kind": "rwlock:W",
        "comm": "strace",
        "cgroup": "/system.slice/database.service",
    }
    assert found.mappings[1] == "[kernel.kallsyms]"


def test_every_file_of_stacks_has_the_totals(recording: Path, tmp_path: Path) -> None:
    total = report_of(recording).totals.wait_ns
    assert sum(weight for _, weight in folded(export(recording, tmp_path, "folded"))) == total
    document = json.loads(export(recording, tmp_path, "speedscope").read_bytes())
    first = document["profiles"][0]
    assert (sum(first["weights"]), first["unit"], first["endValue"]) == (total, "nanoseconds", total)
    assert sum(sum(each["weights"]) for each in document["profiles"][1:]) in (0, total)
    document = json.loads(export(recording, tmp_path, "firefox").read_bytes())
    weights = sum(sum(thread["samples"]["weight"]) for thread in document["threads"])
    assert weights == pytest.approx(total / 1e6)


def test_folded_stacks_run_from_the_task_to_the_lock(example: Path, tmp_path: Path) -> None:
    stacks = {tuple(frames): weight for frames, weight in folded(export(example, tmp_path, "folded"))}
    stack = ["strace", "do_syscall_64", "__x64_sys_ptrace", "ptrace_attach", "queued_write_lock_slowpath"]
    assert stacks[(*stack, "tasklist_lock (rwlock:W)")] == max(stacks.values())
    sums: Counter[str] = Counter()
    for frames, weight in stacks.items():
        sums[frames[-1]] += weight
    assert sums == by_lock(report_of(example))


def test_speedscope_has_each_lock_as_a_profile(example: Path, tmp_path: Path) -> None:
    document = json.loads(export(example, tmp_path, "speedscope").read_bytes())
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    assert {each["name"]: sum(each["weights"]) for each in document["profiles"][1:]} == by_lock(report_of(example))
    for each in document["profiles"]:
        assert len(each["samples"]) == len(each["weights"])
        assert {frames[stack[-1]] for stack in each["samples"]} <= set(by_lock(report_of(example)))


def test_firefox_tables_are_whole(recording: Path, tmp_path: Path) -> None:
    document = json.loads(export(recording, tmp_path, "firefox").read_bytes())
    assert document["meta"]["preprocessedProfileVersion"] == 55
    markers = 0
    for thread in document["threads"]:
        tables = {name: table for name, table in thread.items() if isinstance(table, dict)}
        for table in tables.values():
            assert {len(column) for column in table.values() if isinstance(column, list)} == {table["length"]}
        stacks, frames = tables["stackTable"], tables["frameTable"]
        assert all(prefix is None or prefix < at for at, prefix in enumerate(stacks["prefix"]))
        assert all(frame < frames["length"] for frame in stacks["frame"])
        assert all(stack < stacks["length"] for stack in tables["samples"]["stack"])
        assert all(name < len(thread["stringArray"]) for name in tables["funcTable"]["name"])
        markers += tables["markers"]["length"]
        for begin, end in zip(tables["markers"]["startTime"], tables["markers"]["endTime"], strict=True):
            assert 0 <= begin < end
    with open_recording(recording) as opened:
        assert markers == len(opened.outliers(-1, None)[0])


def shape(value: object) -> object:
    """A value's structure: keys, and kinds of values; of a list those of all its members."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Where a document's shape is not the reference's.  Empty lists tell nothing about their members."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = [f"{place}.{key}" for key in ours.keys() ^ theirs.keys()]
        return found + [
            each
            for key in ours.keys() & theirs.keys()
            for each in differences(ours[key], theirs[key], f"{place}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list):
        kinds = [each for each in theirs if not isinstance(each, dict)]
        if not theirs or kinds:
            return [f"{place}[]: {each}" for each in ours if theirs and each not in theirs]
        return [line for each in ours for line in differences(each, theirs[0], f"{place}[]")]
    return [] if ours == theirs else [f"{place}: {ours}, not {theirs}"]


def test_firefox_files_are_as_its_authors_write_them(recording: Path, tmp_path: Path) -> None:
    """The reference comes from the crate of the profiler's authors: see firefox_reference.rs."""
    reference = json.loads((Path(__file__).parent / "firefox_reference.json").read_bytes())
    document = json.loads(export(recording, tmp_path, "firefox").read_bytes())
    assert document["meta"]["preprocessedProfileVersion"] == reference["meta"]["preprocessedProfileVersion"]
    # Known to the profiler, and not to the crate: the span of the timeline; and our field more of a marker.
    for key in ("profilingStartTime", "profilingEndTime"):
        del document["meta"][key]
    for thread in document["threads"]:
        for data in thread["markers"]["data"]:
            assert isinstance(data.pop("cpu"), int)
    assert differences(shape(document), shape(reference)) == []


def test_holders_have_what_they_caused(tmp_path: Path, example: Path, hostile: Path) -> None:
    for recording in (example, hostile):
        report = report_of(recording)
        caused = sum(holder.caused_ns for lock in report.locks for holder in lock.holders)
        releases = sum(holder.releases for lock in report.locks for holder in lock.holders)
        found = Pprof(export(recording, tmp_path, "pprof", "--holders"))
        assert [sum(values) for values in zip(*(values for _, values, _ in found.samples), strict=True)] == [
            releases,
            caused,
        ]
        assert sum(weight for _, weight in folded(export(recording, tmp_path, "folded", "--holders"))) == caused
    reaper = folded(export(example, tmp_path, "folded", "--holders", "--lock", "tasklist"))
    assert reaper[-1][0] == [
        "reaper",
        "do_wait",
        "wait_consider_task",
        "release_task",
        "_raw_write_unlock_irq",
        "tasklist_lock (rwlock:W)",
    ]


def test_a_selection_is_that_of_the_report(generated: Path, tmp_path: Path) -> None:
    for options, selection in (
        (["--from", "2", "--to", "5"], {"from_ns": 2_000_000_000, "to_ns": 5_000_000_000}),
        (["--lock", "object_1"], {"lock": "object_1"}),
        (["--kinds", "mutex,spinlock"], {"kinds": ("mutex", "spinlock")}),
    ):
        total = report_of(generated, **selection).totals.wait_ns
        assert 0 < total < report_of(generated).totals.wait_ns
        assert sum(weight for _, weight in folded(export(generated, tmp_path, "folded", *options))) == total
        rows = list(csv.DictReader(io.StringIO(export(generated, tmp_path, "csv", *options).read_text())))
        assert sum(int(row["wait_ns"]) for row in rows) == total


def test_csv_has_each_interval_cpu_and_lock(recording: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(export(recording, tmp_path, "csv").read_text())))
    report = report_of(recording)
    assert sum(int(row["waits"]) for row in rows) == report.totals.waits
    assert sum(int(row["wait_ns"]) for row in rows) == report.totals.wait_ns
    by_cpu: Counter[int] = Counter()
    for row in rows:
        by_cpu[int(row["cpu"])] += int(row["wait_ns"])
    assert by_cpu == {cpu.cpu: cpu.figures.wait_ns for cpu in report.cpus}
    keys = [(row["second"], row["cpu"], row["lock"], row["kind"]) for row in rows]
    assert len(set(keys)) == len(keys)


def slices(document: dict[str, Any]) -> dict[tuple[int, int], list[tuple[float, float, str]]]:
    """Of a trace, by track: begin, end and name."""
    found: dict[tuple[int, int], list[tuple[float, float, str]]] = {}
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            track = found.setdefault((event["pid"], event["tid"]), [])
            track.append((event["ts"], event["ts"] + event["dur"], event["name"]))
    return found


def test_a_trace_has_waits_holdings_and_the_arrow_between(example: Path, tmp_path: Path) -> None:
    document = json.loads(export(example, tmp_path, "chrome").read_bytes())
    tracks = slices(document)
    waiter, holder = (1001, 1001), (1004, 1004)
    assert (2_000_000.0, 2_040_000.0, "waits for tasklist_lock") in tracks[waiter]
    assert tracks[holder] == [
        (2_000_000.0, 2_020_000.0, "holds tasklist_lock"),
        (2_020_000.0, 2_039_050.0, "holds tasklist_lock"),
    ]
    arrows = sorted((event for event in document["traceEvents"] if event["ph"] in "sf"), key=lambda event: event["ts"])
    assert [(event["ph"], (event["pid"], event["tid"])) for event in arrows] == [("s", holder), ("f", waiter)]
    assert len({event["id"] for event in arrows}) == 1
    for event in arrows:
        # An arrow that lies in no slice is not drawn.
        assert any(begin <= event["ts"] < end for begin, end, _ in tracks[event["pid"], event["tid"]])
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in document["traceEvents"]
        if event["name"] == "thread_name"
    }
    assert names[waiter] == "strace"
    assert names[holder] == "reaper"


def test_tracks_of_a_trace_have_no_slices_that_cross(recording: Path, tmp_path: Path) -> None:
    document = json.loads(export(recording, tmp_path, "chrome").read_bytes())
    cpus = {event["pid"] for event in document["traceEvents"] if event.get("args") == {"name": "CPUs"}}
    for (process, _), parts in slices(document).items():
        if process in cpus:
            ordered = sorted(parts)
            assert all(first[1] <= second[0] + 1e-6 for first, second in itertools.pairwise(ordered))


def test_counters_of_a_trace_add_up_to_the_waiting(example: Path, tmp_path: Path) -> None:
    document = json.loads(export(example, tmp_path, "chrome").read_bytes())
    sums: Counter[str] = Counter()
    last: dict[str, tuple[float, float]] = {}
    for event in document["traceEvents"]:
        if event["ph"] == "C":
            before = last.get(event["name"])
            if before is not None:
                sums[event["name"]] += round((event["ts"] - before[0]) * before[1] * 1000)
            last[event["name"]] = event["ts"], event["args"]["threads"]
    for name, total in by_lock(report_of(example)).items():
        assert sums[f"waiting for {name}"] == pytest.approx(total, abs=4000)


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_names_do_no_harm(form: str, hostile: Path, tmp_path: Path) -> None:
    path = export(hostile, tmp_path, form)
    if form == "pprof":
        texts = Pprof(path).texts
    elif form == "folded":
        stacks = folded(path)
        # A name that holds a line end or a semicolon makes no line and no frame of its own.
        assert len(stacks) == len(NAMES)
        assert {len(frames) for frames, _ in stacks} == {5}
        texts = [frame for frames, _ in stacks for frame in frames]
    elif form == "csv":
        rows = list(csv.reader(io.StringIO(path.read_text())))
        assert {len(row) for row in rows} == {13}
        texts = [cell for row in rows for cell in row]
        assert not any(cell.startswith(("=", "+", "@")) for cell in texts)
    else:
        assert path.read_bytes().isascii()
        texts = [path.read_text().encode().decode("unicode_escape")]
    for text in texts:
        assert not any(bad in text for bad in FORBIDDEN), text
    assert not any(unicodedata.category(character) in ("Cc", "Cf") for text in texts for character in text.strip("\n"))


@pytest.mark.parametrize("form", STACK_FORMATS)
def test_addresses_are_shown_on_request_alone(form: str, hostile: Path, tmp_path: Path) -> None:
    def holds(path: Path) -> bool:
        if form == "pprof":
            found = Pprof(path)
            assert (ADDRESS in "".join(found.texts)) == any(address for _, _, address in found.locations.values())
            return ADDRESS in "".join(found.texts)
        return ADDRESS in path.read_text()

    assert not holds(export(hostile, tmp_path, form))
    assert holds(export(hostile, tmp_path, form, "--addresses"))


WEIGHTS = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.integers(0, 3)),
    st.tuples(st.integers(0, 1000), st.integers(0, 10**12)),
    max_size=12,
)
EXACT = st.tuples(st.integers(0, 1000), st.integers(0, 10**12))


@given(WEIGHTS, EXACT, EXACT)
def test_fitted_weights_have_the_exact_sums(
    weights: dict[tuple[str, int, int], tuple[int, int]], a: tuple[int, int], b: tuple[int, int]
) -> None:
    exact = {("a", "mutex"): a, ("b", "mutex"): b}
    given_weights = {((lock, "mutex", task), (stack, 0)): ns for (lock, task, stack), ns in weights.items()}
    sums = {lock: [0, 0] for lock in exact}
    for (lock, kind, _), _, count, ns in profiles._fitted(given_weights, exact):
        assert count >= 0
        assert ns >= 0
        sums[lock, kind][0] += count
        sums[lock, kind][1] += ns
    assert {lock: tuple(figures) for lock, figures in sums.items()} == exact


def test_standard_output_and_a_file_are_the_same(
    example: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    written = export(example, tmp_path, "folded").read_bytes()
    capfdbinary.readouterr()
    assert cli.main(["export", "-i", str(example), "--format", "folded", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == written


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--format", "csv", "--holders"], "--holders: of the formats"),
        (["--format", "pprof", "--holders", "--from", "1"], "of the whole recording"),
        (["--format", "pprof", "--from", "2", "--to", "1"], "--to: lies before --from"),
        (["--format", "pprof", "--lock", "nothing"], "no lock of the recording matches"),
        (["--format", "pprof", "--holders", "--lock", "mmap"], "no holders in it"),
        (["--format", "pprof", "-o", "/nonexistent/x"], "cannot be written: No such file"),
    ],
    ids=" ".join,
)
def test_one_clear_line(
    options: list[str], words: str, example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = [] if "-o" in options else ["-o", str(tmp_path / "out")]
    assert cli.main(["export", str(example), *options, *output]) == 1
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_recording_is_not_replaced(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = example.read_bytes()
    assert cli.main(["export", str(example), "--format", "csv", "-o", str(example)]) == 1
    assert "is a recording, which is not replaced" in capsys.readouterr().err
    assert example.read_bytes() == before


def test_parquet_names_what_is_missing(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    from lockline.export import waits

    with pytest.raises(LocklineError, match=r"pip install 'lockline\[export\]'"):
        waits.to_parquet(iter(()))


def test_who_recorded_locks_of_programs_learns_that_the_file_lacks_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "waits.lockline"
    for state, told in (("off", False), ("on", True)):
        recording = RecordingBuilder(path)
        recording.insert("probe", [("futex waits", state, "", "", "")])
        recording.finish()
        assert cli.main(["export", str(path), "--format", "csv", "-o", str(tmp_path / "waits.csv")]) == 0
        assert ("locks of programs are not in the file" in capsys.readouterr().err) == told
        path.unlink()
