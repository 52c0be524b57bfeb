# SPDX-License-Identifier: GPL-2.0-or-later
"""No text is wider than its terminal, whatever the names; figures are never cut, and a program gets whole names."""

import re
import shutil
import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from c2c.description import Description
from c2c.memory_recording import write_memory_recording
from c2c.sharing_patterns import adjacent_lines, every_kind, peer_snoops, true_sharing
from examined import CASES, Scene
from fleet_generator import Truth, host_days, record
from lockline.analysis.diagnosis import Diagnosis
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.base.text import Column, Page, Style, folded, on_page, table, width
from lockline.cli import main as cli
from lockline.cli import terminal
from lockline.cli.report import SECTIONS
from lockline.recording import rows
from lockline.recording.reader import Recording, open_recording
from lockline.render import doctor
from lockline.render import text as text_render
from lockline.rules import report
from lockline.rules.report import make_report
from recording_generator import SECOND, Shape, generate
from watched_lines import futex_bucket, whole, write_watch

WIDTHS = (80, 120)
# What is put behind every name: with and without places to break it.
LONG = "_of_a_subsystem_whose_authors_like_names_that_tell_everything"
# Table, column, and what it becomes.
LONGER = (
    ("lock", "name", f"name || '{LONG}'"),
    ("lock", "instance", f"CASE instance WHEN '' THEN '' ELSE instance || '{LONG}' END"),
    ("frame", "symbol", f"symbol || '{LONG}'"),
    ("cgroup", "path", f"path || '/docker/{LONG}{LONG}'"),
    ("waiter", "comm", "substr(comm || '/kworker-u256:12', 1, 15)"),
    ("futex", "name", f"CASE name WHEN '' THEN '' ELSE name || '{LONG}' END"),
    ("futex", "object", f"CASE object WHEN '' THEN '' ELSE object || '{LONG}' END"),
    ("meta", "value", f"value || '{LONG}'"),
    ("probe", "reason", f"reason || ' because {LONG} is not there, and {LONG * 2} neither'"),
    ("memory_line", "symbol", f"CASE symbol WHEN '' THEN '' ELSE symbol || '{LONG}' END"),
    ("memory_code", "symbol", f"symbol || '{LONG}'"),
)
# Facts of meta that are texts.
TEXTS = "name IN ('hostname', 'kernel_release', 'kernel_version', 'cpu_model', 'command_line')"


def lengthened(path: Path) -> Path:
    """The recording with long names beside it."""
    copy = path.with_name("long_" + path.name)
    shutil.copyfile(path, copy)
    with sqlite3.connect(copy) as connection:
        for table_name, column, value in LONGER:
            where = f" WHERE {TEXTS}" if table_name == "meta" else ""
            connection.execute(f"UPDATE {table_name} SET {column} = {value}{where}")
    connection.close()
    return copy


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory, example: Path) -> list[Path]:
    """One with something of everything, large ones, causes that are known, and watched lines; each with long names."""
    directory = tmp_path_factory.mktemp("width")
    found = [shutil.copyfile(example, directory / "example")]
    large = Shape(cpus=256, locks=60, seconds=3, cells=600, tasks=300)
    found.append(generate(directory / "large", large))
    for name in ("deadlock", "mutex of a program", "ptrace on PREEMPT_RT", "HPET", "futex buckets", "long holder"):
        case = CASES[name]
        scene = Scene(directory / name.replace(" ", "_"), case.cpus, **case.meta)
        case.make(scene)
        found.append(scene.builder.finish())
    found.append(write_watch(directory / "watch", whole(futex_bucket(2_000), SECOND // 4)))
    return [*found, *map(lengthened, found)]


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    code = cli.main(list(arguments))
    printed = capsys.readouterr()
    assert code in (0, 2), printed.err
    assert printed.out.strip(), arguments
    return printed.out.splitlines()


def check(lines: list[str], columns: int, what: object) -> None:
    wide = [f"{width(line)}: {line}" for line in lines if width(line) > columns]
    assert not wide, f"{what}\n" + "\n".join(wide[:8])


@pytest.fixture(params=WIDTHS)
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


@pytest.fixture(scope="module")
def analyses() -> dict[object, Report]:
    """Reports by the bytes of their recording and how much they show."""
    return {}


@pytest.fixture
def analysed_once(analyses: dict[object, Report], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a section shows of a report is looked at here: each recording is analysed once, and not for each section."""
    make = report.make_report

    def remembered(recording: Recording, selection: Selection, *limits: int) -> Report:
        key = recording.path, selection, limits
        if key not in analyses:
            analyses[key] = make(recording, selection, *limits)
        return analyses[key]

    monkeypatch.setattr(report, "make_report", remembered)


@pytest.mark.usefixtures("analysed_once")
@pytest.mark.parametrize("section", [*(f"--{name}" for name in SECTIONS), "--episodes=3", "--what-if", ""])
def test_reports(section: str, columns: int, recordings: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for path in recordings:
        arguments = ["report", str(path), *([section] if section else [])]
        check(shown(capsys, *arguments), columns, arguments)


@pytest.mark.parametrize("option", ["", "--all", "--map", "--trust"])
def test_watched_lines(option: str, columns: int, recordings: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for path in (path for path in recordings if path.name.endswith("watch")):
        for command in (["watch", "-i", str(path)], ["c2c", "report", str(path)]):
            if option == "--map" and command[0] == "c2c":
                continue
            arguments = [*command, *([option] if option else [])]
            check(shown(capsys, *arguments), columns, arguments)


@pytest.mark.parametrize("make", [adjacent_lines, every_kind, peer_snoops, true_sharing])
def test_cache_lines(
    make: Callable[[], Description], columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_memory_recording(make(), tmp_path / "lines")
    for one in (path, lengthened(path)):
        for option in ("", "--all", "--lines", "--maps", "--trust"):
            arguments = ["c2c", "report", str(one), *([option] if option else [])]
            check(shown(capsys, *arguments), columns, arguments)


def test_comparisons(columns: int, recordings: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for before, after in pairwise(recordings):
        for option in ("", "--all"):
            arguments = ["diff", str(before), str(after), *([option] if option else [])]
            check(shown(capsys, *arguments), columns, arguments)


def test_a_fleet(columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = Truth(seed=3, hosts=3, locks=5)
    files = [record(tmp_path / f"host{number}", day) for number, day in enumerate(host_days(truth)) if number < 4]
    assert cli.main(["fleet", "add", str(tmp_path / "fleet"), *(str(lengthened(path)) for path in files)]) == 0
    capsys.readouterr()
    check(shown(capsys, "fleet", "report", str(tmp_path / "fleet")), columns, "fleet")


@pytest.mark.parametrize("lock", ["mmap_lock", "--list"])
def test_explained(lock: str, columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    check(shown(capsys, "explain", lock), columns, lock)


@pytest.mark.parametrize("columns", [40, *WIDTHS])
def test_diagnoses(columns: int) -> None:
    probes = [
        rows.Probe(f"signal {number}", state, "tp_btf", LONG * 3, f"what {LONG} would tell")
        for number, state in enumerate(("on", "blind", "unavailable", "off"))
    ]
    with on_page(Page(columns)):
        lines = doctor.render(
            Diagnosis({"kernel": LONG, "a long name": f"{LONG} {LONG}"}, tuple(probes), None), Style()
        )
        check(folded(lines).splitlines(), columns, "doctor")


def figures_of(lines: list[str]) -> list[str]:
    return re.findall(r"(?<![\w.])\d[\d.,]*(?: (?:ns|us|ms|s))?%?(?![\w.])", "\n".join(lines))


def test_figures_are_never_cut(recordings: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a narrow table shows is what the wide one shows, whole."""
    for path in recordings[:2]:
        with open_recording(path) as recording:
            report = make_report(recording, Selection(), 5)
        for name in ("locks", "tasks", "futex", "holders", "cgroups"):
            wide = figures_of(text_render.render_sections(report, Style(), [name]).splitlines())
            for columns in (40, 60, 80):
                with on_page(Page(columns)):
                    narrow = figures_of(text_render.render_sections(report, Style(), [name]).splitlines())
                assert set(narrow) <= set(wide), (path, name, columns)


def rows_of(*names: str) -> list[list[str]]:
    return [[name, "12,345", "1.23 ms", "spinlock"] for name in names]


COLUMNS_OF_ROWS = (
    Column("lock", 30, right=False),
    Column("waits", 6),
    Column("max", 7, spare=1),
    Column("kind", 11, right=False),
)


def test_a_table_gives_up_names_then_spare_columns_then_lines() -> None:
    name = "a_name_of_forty_characters_or_maybe_more"
    with on_page(Page(50)):
        lines = table(COLUMNS_OF_ROWS, rows_of(name))
        assert ".." in lines[1]
        assert "12,345 1.23 ms spinlock" in lines[1]
    with on_page(Page(40)):
        lines = table(COLUMNS_OF_ROWS, rows_of(name))
        assert "12,345 spinlock" in lines[1]
        assert "max" not in lines[0]
    with on_page(Page(16)):
        lines = table(COLUMNS_OF_ROWS, rows_of(name))
        assert len(lines) == 4
        assert lines[3].strip() == "12,345"
    with on_page(Page(200)):
        assert name in table(COLUMNS_OF_ROWS, rows_of(name))[1]
    with on_page(Page(whole=True)):
        assert name * 4 in table(COLUMNS_OF_ROWS, rows_of(name * 4))[1]
    assert ".." in table(COLUMNS_OF_ROWS, rows_of(name))[1]
    assert "1,234,567,890" in table([Column("waits", 6)], [["1,234,567,890"]])[1]


def test_what_is_for_programs_is_not_folded(
    columns: int, recordings: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines of metrics, JSON and CSV are what they are, however narrow the terminal."""
    (path,) = [path for path in recordings if path.name == "long_example"]
    wide = shown(capsys, "report", str(path), "--format", "json")
    assert max(map(width, wide)) > columns
    metrics = shown(capsys, "exporter", "-i", str(path), "--once")
    assert all(line.startswith(("#", "lockline_")) for line in metrics)


def test_a_program_gets_whole_names(recordings: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert terminal.page() == Page(120, whole=True)
    (path,) = [path for path in recordings if path.name == "long_example"]
    lines = shown(capsys, "report", str(path), "--locks")
    (line,) = [line for line in lines if "tasklist_lock" in line]
    assert f"tasklist_lock{LONG}" in line
