# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages: they read without scripts, their sums are the report's, they load nothing, and names do no harm.

tests/page looks at them in a browser.
"""

import base64
import hashlib
import html
import re
import unicodedata
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from example_recording import make_example
from hostile_recording import FORBIDDEN, NAMES, make_hostile
from lockline.analysis.model import Report
from lockline.analysis.selection import Selection
from lockline.analysis.user_space.futex_waits import Futexes
from lockline.base.numbers import count, duration
from lockline.base.text import Style, clean
from lockline.cli import main as cli
from lockline.page import document, flames, svg, waitfor
from lockline.page.html import Writer
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report
from page_reader import Page
from recording_generator import Shape, generate
from test_blocked import waits
from test_lines import bucket_recording
from watched_lines import futex_bucket

TOP = Path(__file__).resolve().parents[2]
# Without the charts' script, which `make page` makes.
BUNDLE = "/* a script of charts */"


@pytest.fixture(autouse=True)
def bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "bundle", lambda: BUNDLE)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("pages")
    shape = Shape(cpus=8, locks=60, seconds=10, cells=150, seed=7, tasks=40, outliers=5)
    return {
        "example": make_example(directory / "example"),
        "generated": generate(directory / "generated", shape),
        "hostile": make_hostile(directory / "hostile"),
        "watched": bucket_recording(directory / "watched", futex_bucket(2_000)),
    }


def page(directory: Path, *arguments: str) -> Page:
    """The page that a command writes; it prints nothing."""
    output = directory / "page.html"
    assert cli.main([*arguments, "--html", str(output)]) in (0, 2)
    return Page(output.read_text(encoding="utf-8"))


def pages(recordings: dict[str, Path], directory: Path) -> dict[str, Page]:
    """One of each kind."""
    text = TOP / "tests" / "c2c" / "reader_and_writer.txt"
    found = {name: page(directory, "report", str(path)) for name, path in recordings.items()}
    found["watch"] = page(directory, "watch", "-i", str(recordings["watched"]))
    found["c2c"] = page(directory, "c2c", "report", str(text))
    found["diff"] = page(directory, "diff", str(recordings["example"]), str(recordings["generated"]))
    found["hostile diff"] = page(directory, "diff", str(recordings["hostile"]), str(recordings["hostile"]))
    return found


def report_of(recording: Path, **selection: Any) -> Report:
    with open_recording(recording) as opened:
        return make_report(opened, Selection(**selection), 0)


def test_a_page_of_lines_answers_as_the_screen_does(
    recordings: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a line that costs little it does not say how to move its members."""
    text = TOP / "tests" / "c2c" / "reader_and_writer.txt"
    for command in (["watch", "-i", str(recordings["watched"])], ["c2c", "report", str(text)]):
        assert cli.main(command) == 0
        screen = capsys.readouterr().out
        page(tmp_path, *command)
        answers = re.findall(r'class="answer">([^<]*)<', (tmp_path / "page.html").read_text(encoding="utf-8"))
        label = " ".join(html.unescape(answers[0]).split()[:5])
        assert f"ANSWER  {label}" in screen
        for todo in answers[1:]:
            assert todo.removeprefix("What to do: ").rstrip(".")[:30] in " ".join(screen.split())


def test_a_page_of_a_report_advises_as_the_screen_does(
    recordings: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a lock that the atlas knows it says what helps there; and it says when that was."""
    advised = 0
    for name in ("example", "generated"):
        assert cli.main(["report", str(recordings[name])]) == 0
        screen = " ".join(capsys.readouterr().out.split())
        page(tmp_path, "report", str(recordings[name]))
        text = " ".join(html.unescape((tmp_path / "page.html").read_text(encoding="utf-8")).split())
        (when,) = re.findall(r", ([0-9.]+ m?s from \S+ \S+ UTC)", screen)[:1]
        assert when in text
        for todo in re.findall(r" do (.*?)(?= \d (?:high|medium|low) | LOCKS )", screen):
            assert todo in text
            advised += 1
    assert advised


def test_no_page_loads_anything(recordings: dict[str, Path], tmp_path: Path) -> None:
    for name, found in pages(recordings, tmp_path).items():
        assert found.loads == [], name
        policy = dict(part.strip().split(" ", 1) for part in found.policy.split(";"))
        assert policy["default-src"] == "'none'"
        # That of the charts is run by the page's own.
        run = [
            text for attributes, text in found.scripts if "type" not in attributes or attributes.get("id") == "charts"
        ]
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run]
        assert policy["script-src"].split() == [f"'sha256-{one}'" for one in hashes]
        assert set(policy) == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
        assert (BUNDLE in run) == (name not in ("watch", "c2c", "diff", "hostile diff"))


def test_links_lead_somewhere(recordings: dict[str, Path], tmp_path: Path) -> None:
    for name, found in pages(recordings, tmp_path).items():
        assert len(set(found.ids)) == len(found.ids), name
        assert found.links
        assert {link[1:] for link in found.links} <= set(found.ids)
        assert all(link.startswith("#") for link in found.links)
        details = {attributes["aria-details"] for _, attributes in found.tags if "aria-details" in attributes}
        # Each chart has a table, or a text, beside it.
        assert details <= set(found.ids)
        assert len(details) == sum(tag == "figure" for tag, _ in found.tags)
        drawings = [attributes for tag, attributes in found.tags if tag == "svg"]
        assert all(one["role"] == "img" and one["aria-label"] for one in drawings)


@pytest.mark.parametrize("name", ["example", "generated", "hostile"])
def test_sums_are_those_of_the_report(name: str, recordings: dict[str, Path], tmp_path: Path) -> None:
    found, report = page(tmp_path, "report", str(recordings[name])), report_of(recordings[name])
    data = found.data
    assert sum(sum(values) for _, values in data["locks"]) == report.totals.wait_ns
    cpus = {cpu: sum(values) for cpu, values in data["cpus"]}
    assert cpus == {str(cpu.cpu): cpu.figures.wait_ns for cpu in report.cpus}
    counts = [sum(number for _, number in one["buckets"]) for one in data["histograms"]]
    assert sorted(counts) == sorted(
        lock.figures.waits for lock in sorted(report.locks, key=lambda lock: -lock.figures.wait_ns)[:20]
    )
    assert data["flames"]["flame"]["value"] == report.totals.wait_ns
    whole = sum(lock.figures.wait_ns for lock in report.locks)
    assert whole == report.totals.wait_ns


def test_the_tables_read_without_scripts(recordings: dict[str, Path], tmp_path: Path) -> None:
    found, report = page(tmp_path, "report", str(recordings["example"])), report_of(recordings["example"])
    text = " ".join(found.texts)
    assert "One lock makes 98% of all lock waiting: tasklist_lock (rwlock:W)." in text
    assert {row[0]: row[4] for row in found.table("Locks by waiting")} == {
        lock.name + (f" [{lock.worst_instance}]" if lock.instances == 1 and lock.worst_instance else ""): duration(
            lock.figures.wait_ns
        )
        for lock in report.locks
    }
    assert [row[1] for row in found.table("Waits by CPU")] == [count(cpu.figures.waits) for cpu in report.cpus]
    assert len(found.table("Waiting over time")) == 4
    assert found.table("Stacks by waiting, outermost frame first")[0][0].endswith("tasklist_lock (rwlock:W)")
    assert found.table("Who held the locks")[0][0] == "reaper (1004)"
    assert found.table("Who waits, by samples")[0][0].startswith("strace")
    assert "spinlock first waiter" in text
    assert "reaper (1004) holds it" in text


def test_the_graph_of_who_waits_for_whom(recordings: dict[str, Path], tmp_path: Path) -> None:
    found, report = page(tmp_path, "report", str(recordings["example"])), report_of(recordings["example"])
    edges = {(source, how, target): words for source, how, target, words in found.table("Who waits for whom")}
    assert edges["strace", "waits for", "tasklist_lock (rwlock:W)"] == duration(
        sum(task.lock_ns for task in report.tasks if (task.comm, task.lock) == ("strace", "tasklist_lock"))
    )
    assert edges["tasklist_lock (rwlock:W)", "was held by", "reaper"] == "280 ms"
    waited, holds = waitfor.flows(report)
    assert sum(waited.values()) == sum(task.lock_ns for task in report.tasks)
    assert sum(holds.values()) == sum(holder.caused_ns for lock in report.locks for holder in lock.holders)
    # Without holders nobody waits for anybody known.
    assert "waitfor" not in page(tmp_path, "report", str(recordings["generated"])).ids


def test_threads_that_wait_for_each_other_are_in_the_graph(recordings: dict[str, Path]) -> None:
    blocked = Futexes((), (), blocked=(waits(1, 2, 5), waits(2, 1, 4)))
    report = replace(report_of(recordings["example"]), futexes=blocked, tasks=(), locks=())
    assert waitfor.flows(report) == (
        {("w1 (1)", "lock_of_2"): 5_000_000_000, ("w2 (2)", "lock_of_1"): 4_000_000_000},
        {("lock_of_2", "w2 (2)"): 5_000_000_000, ("lock_of_1", "w1 (1)"): 4_000_000_000},
    )
    drawing = waitfor.waitfor_section(report, Writer(Style(unicode=True))).content.text
    assert drawing.count('class="flow"') == 4


def test_many_are_joined_in_the_graph_and_sums_stay(recordings: dict[str, Path]) -> None:
    report = report_of(recordings["generated"])
    waiters = {task.comm for task in report.tasks}
    drawing = waitfor.waitfor_section(report, Writer(Style(unicode=True))).content.text
    assert f"all others ({len(waiters) - waitfor.NODES:,})" in drawing
    # Each column has at most so many boxes, and one of the others.
    assert drawing.count('class="node"') <= 3 * (waitfor.NODES + 1)


def test_a_selection_is_that_of_the_report(recordings: dict[str, Path], tmp_path: Path) -> None:
    for options, selection in (
        (["--from", "2", "--to", "5"], {"from_ns": 2_000_000_000, "to_ns": 5_000_000_000}),
        (["--cpu", "0-3"], {"cpus": (0, 1, 2, 3)}),
        (["--lock", "object"], {"lock": "object"}),
    ):
        found = page(tmp_path, "report", str(recordings["generated"]), *options)
        total = report_of(recordings["generated"], **selection).totals.wait_ns
        assert sum(sum(values) for _, values in found.data["locks"]) == total
        assert sum(sum(values) for _, values in found.data["cpus"]) == total


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, one in value.items() for text in (key, *_strings(one))]
    return [text for one in value for text in _strings(one)] if isinstance(value, list) else []


def test_hostile_names_stay_text(recordings: dict[str, Path], tmp_path: Path) -> None:
    plain = Counter(tag for tag, _ in page(tmp_path, "report", str(recordings["example"])).tags)
    for arguments in (["report", str(recordings["hostile"])], ["diff", *[str(recordings["hostile"])] * 2]):
        found = page(tmp_path, *arguments)
        # No name became an element of a kind that a page of good names lacks, and none became a script.
        assert {tag for tag, _ in found.tags} <= set(plain)
        assert sum(tag == "script" for tag, _ in found.tags) <= plain["script"]
        texts = found.texts + [value or "" for _, attributes in found.tags for value in attributes.values()]
        if arguments[0] == "report":
            texts += _strings(found.data)
        for text in texts:
            assert not any(bad in text for bad in FORBIDDEN), text
            odd = {character for character in text if unicodedata.category(character) in ("Cc", "Cf")}
            assert odd <= {"\n"}
    shown = "\n".join(page(tmp_path, "report", str(recordings["hostile"])).texts)
    assert all(clean(name, Style(unicode=True)) in shown for name in NAMES)


def test_redacted_pages_name_nobody(recordings: dict[str, Path], tmp_path: Path) -> None:
    def everything(found: Page) -> str:
        data = _strings(found.data) if any(one[0].get("id") == "data" for one in found.scripts) else []
        return "\n".join([*found.texts, *data, *(value or "" for _, one in found.tags for value in one.values())])

    for name, secrets in (
        ("example", ("lab1", "strace (", "reaper", "writer", "database", "-d 4")),
        ("watched", ("lab1",)),
        ("generated", ("lab1", "worker/", "service-", ".service")),
    ):
        path = str(recordings[name])
        commands = [["report", path], ["diff", path, path]] + ([["watch", "-i", path]] if name == "watched" else [])
        for command in commands:
            text = everything(page(tmp_path, *command, "--redact"))
            assert not [secret for secret in (*secrets, path) if secret in text], command
        assert any(secret in everything(page(tmp_path, "report", path)) for secret in secrets)
    redacted = everything(page(tmp_path, "report", str(recordings["example"]), "--redact"))
    # Locks and functions stay, and a task has one name in all places.
    assert "tasklist_lock" in redacted
    assert "release_task()" in redacted
    [name] = set(re.findall(r"(\S+) \(1001\)", redacted))
    assert re.fullmatch(r"command-\d+", name)


def test_a_page_of_much_is_small_and_says_what_it_joined(tmp_path: Path) -> None:
    shape = Shape(cpus=260, locks=700, seconds=250, cells=60, seed=3, tasks=600, outliers=2)
    recording = generate(tmp_path / "large", shape)
    found = page(tmp_path, "report", str(recording))
    # 2 MB less the 800 KB that the script of charts may have.
    assert (tmp_path / "page.html").stat().st_size < 1_200_000
    report, data = report_of(recording), found.data
    assert len(data["steps"]) <= 240
    assert sum(sum(values) for _, values in data["locks"]) == report.totals.wait_ns
    assert sum(sum(values) for _, values in data["cpus"]) == report.totals.wait_ns
    assert [name for name, _ in data["locks"]][-1] == "all others"
    text = " ".join(found.texts)
    assert "2 intervals of the recording are one step here." in text
    assert "The 11 locks with most waiting have a colour of their own." in text
    assert "more locks" in text
    assert "[smaller]" in _strings(data["flames"])


def test_a_page_without_the_script_of_charts_is_whole(
    recordings: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "bundle", lambda: "")
    found = page(tmp_path, "report", str(recordings["example"]))
    assert sum(tag == "svg" for tag, _ in found.tags) >= 8
    assert found.loads == []


def test_drawings_keep_within_their_box() -> None:
    write = Writer(Style(unicode=True))
    drawing = svg.stacked(write, "x", [(0, 10), (10, 20)], [("a", (5, 20)), ("b", (5, 0))])
    paths = [part.split('"')[0] for part in drawing.text.split('d="')[1:]]
    assert len(paths) == 2
    numbers = [float(number) for number in paths[0].replace("M", " ").replace("z", "").split("h")[0].split()]
    assert numbers[0] == svg.LEFT
    assert all(0 <= number <= svg.WIDTH for number in numbers)
    empty = svg.stacked(write, "x", [], [])
    assert "<svg" in empty.text
    assert "NaN" not in svg.heat(write, "x", [], []).text


def test_small_frames_are_joined_and_sums_stay() -> None:
    def total(node: svg.Node) -> int:
        assert sum(child.value for child in node.children) <= node.value
        return 1 + sum(total(child) for child in node.children)

    from lockline.export.profile import Code, Entry, Profile

    entries = tuple(
        Entry("lock", "mutex", f"comm{index % 50}", 1, 1, "/", (Code(f"f{index}", ""), Code("g", "")), 1, 1 + index)
        for index in range(5_000)
    )
    tree = flames.tree(Profile("waiters", "", 0, 1, entries), "all")
    assert tree.value == sum(entry.ns for entry in entries)
    assert total(tree) < 2 * flames.FRAMES


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "EXAMPLE", "--redact"], "--redact needs --html FILE"),
        (["diff", "EXAMPLE", "EXAMPLE", "--redact"], "--redact needs --html FILE"),
        (["watch", "-i", "EXAMPLE", "--redact"], "--redact needs --html FILE"),
        (["report", "EXAMPLE", "--html", "/nonexistent/page"], "cannot be written"),
        (["report", "EXAMPLE", "--html", "EXAMPLE"], "is a recording, which is not replaced"),
    ],
    ids=" ".join,
)
def test_one_clear_line(
    arguments: list[str], words: str, recordings: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(recordings["example"])
    assert cli.main([path if word == "EXAMPLE" else word for word in arguments]) == 1
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1
