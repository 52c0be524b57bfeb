# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages in a browser: every chart is drawn, nothing is loaded, nothing complains, and keys are enough.

Pictures of what was seen are kept in build/page-test/seen.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockline.analysis.selection import Selection
from lockline.cli import main as cli
from lockline.recording.reader import open_recording
from lockline.rules.report import make_report

from .made import MODULES, NAMES, TOP

PAGES = (*NAMES, "diff", "watch", "c2c", "why")
SIZES = {"phone": (360, 740), "desk": (1280, 900), "4k": (3840, 2160)}
PAPER = {"paper": (718, 1047)}  # A4 without its margins, at 96 pixels an inch
SEEN = TOP / "build" / "page-test" / "seen"
MILLISECONDS = 120_000

# A canvas of one colour has nothing drawn on it.
COLOURS = """canvas => {
  const seen = new Set();
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  for (let at = 0; at < pixels.length; at += 4) seen.add(`${pixels[at]},${pixels[at + 1]},${pixels[at + 2]}`);
  return seen.size;
}"""


def draw_all(page: Any) -> None:
    """Charts are drawn when they come near the window: each is brought there."""
    for figure in page.locator("figure[data-chart]").all():
        figure.evaluate("one => one.scrollIntoView()")
        page.wait_for_selector(f"#{figure.get_attribute('id')}[data-shown]", state="attached")
    page.evaluate("scrollTo(0, 0)")


def lay_out_all(page: Any) -> None:
    """Parts outside the window are not laid out: now all of them are."""
    page.add_style_tag(content="section { content-visibility: visible !important; }")


@contextmanager
def opened(chromium: Any, path: Path, size: str = "desk", whole: bool = True, **options: Any) -> Iterator[Any]:
    """The page in a window; it must neither ask for anything nor complain.  whole: with all charts drawn."""
    width, height = (SIZES | PAPER)[size]
    context = chromium.new_context(viewport={"width": width, "height": height}, **options)
    context.set_default_timeout(MILLISECONDS)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: said.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    if whole:
        draw_all(page)
    yield page
    assert said == []
    context.close()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PAGES)
def test_every_chart_is_drawn(name: str, size: str, pages: dict[str, Path], chromium: Any) -> None:
    with opened(chromium, pages[name], size) as page:
        for figure in page.locator("figure").all():
            if figure.get_attribute("data-chart") is None or not figure.evaluate("one => one.matches('.drawn')"):
                # What scripts do not draw is drawn already.
                assert figure.locator("svg.drawing").first.bounding_box()["height"] > 10
                assert figure.locator("svg.drawing :is(path, rect)").count() > 0
            elif figure.locator("canvas").count():
                assert figure.locator("canvas").first.evaluate(COLOURS) > 2
            else:
                assert figure.locator(".live svg rect").count() > 0
        # Nothing sticks out: wide tables scroll in themselves.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        lay_out_all(page)
        SEEN.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SEEN / f"{name}-{size}.png", full_page=size != "4k")


@pytest.mark.parametrize(("size", "scheme"), [("desk", "light"), ("desk", "dark"), ("phone", "light")])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(name: str, size: str, scheme: str, pages: dict[str, Path], chromium: Any) -> None:
    axe = (MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    with opened(chromium, pages[name], size, color_scheme=scheme) as page:
        lay_out_all(page)
        page.evaluate(axe)
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
        assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []


# What sticks out of a page of paper is lost, and colours of a background are left out unless they are asked for.
LOST_ON_PAPER = """() => [...document.querySelectorAll("pre, table, svg.drawing, .key")].filter(one =>
  one.checkVisibility() && (one.getBoundingClientRect().right > innerWidth || one.scrollWidth > one.clientWidth + 1 &&
  one.matches("pre") || one.matches(".key") && getComputedStyle(one).printColorAdjust !== "exact")
).map(one => one.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("name", PAGES)
def test_paper_shows_all(name: str, pages: dict[str, Path], chromium: Any) -> None:
    with opened(chromium, pages[name], "paper") as page:
        page.emulate_media(media="print")
        assert page.evaluate(LOST_ON_PAPER) == []
        assert page.locator("section").count() > 1


def test_without_scripts_every_chart_is_a_drawing(pages: dict[str, Path], chromium: Any) -> None:
    with opened(chromium, pages["watched"], java_script_enabled=True) as page:
        drawn = page.locator("figure").count()
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["watched"].as_uri())
    assert page.locator("figure .still svg:visible").count() >= drawn
    context.close()


def test_keys_are_enough(pages: dict[str, Path], recordings: dict[str, Path], chromium: Any) -> None:
    with open_recording(recordings["generated"]) as recording:
        report = make_report(recording, Selection(), 0)
    with opened(chromium, pages["generated"]) as page:
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#answer"
        live = page.locator("#timeline-chart .live")
        live.focus()
        page.keyboard.press("ArrowRight")
        status = page.locator("#timeline-chart [aria-live]")
        assert status.inner_text().startswith("0 to 1 s, ")
        page.keyboard.press("End")
        assert status.inner_text().startswith("9 to 10 s, ")
        # The cursor reads every bar of the histogram: together they are the waits of that lock.
        page.locator("#histogram-chart .live").focus()
        status, seen = page.locator("#histogram-chart [aria-live]"), 0
        page.keyboard.press("Home")
        while True:
            text = status.inner_text()
            seen += int(text.rpartition(": ")[2].removesuffix(" waits").replace(",", ""))
            page.keyboard.press("ArrowRight")
            if status.inner_text() == text:
                break
        assert seen == max(report.locks, key=lambda lock: lock.figures.wait_ns).figures.waits


def test_keys_zoom(pages: dict[str, Path], chromium: Any) -> None:
    with opened(chromium, pages["generated"]) as page:
        live, status = page.locator("#timeline-chart .live"), page.locator("#timeline-chart [aria-live]")
        live.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        spans = []
        for key in "++--+0":
            page.keyboard.press(key)
            spans.append(status.inner_text())
        assert spans == [
            "shows 0 to 5 s",
            "shows 1 to 3 s",
            "shows 0 to 4 s",
            "shows 0 to 8 s",
            "shows 0 to 4 s",
            "shows 0 to 10 s",
        ]
        page.keyboard.press("+")
        assert "--from 0.001 --to 4.999" in page.locator("#zoomed").inner_text()
        page.locator("#heat-chart .live").focus()
        page.keyboard.press("End")
        page.keyboard.press("+")
        assert page.locator("#heat-chart [aria-live]").inner_text() == "shows 5 to 10 s"


def test_keys_walk_through_a_flame_graph(pages: dict[str, Path], chromium: Any) -> None:
    """From the outermost frame to the lock, and back; Enter zooms as a click does."""
    with opened(chromium, pages["example"]) as page:
        page.emulate_media(reduced_motion="reduce")
        live, status = page.locator("#flame-chart .live"), page.locator("#flame-chart [aria-live]")
        live.focus()
        page.keyboard.press("Home")
        seen = [status.inner_text()]
        for _ in range(6):
            page.keyboard.press("ArrowDown")
            seen.append(status.inner_text())
        names = [text.partition(":")[0] for text in seen]
        assert names[:4] == ["all waiting", "strace", "do_syscall_64", "__x64_sys_ptrace"]
        assert names[5] == "queued_write_lock_slowpath"
        assert names[6] == "tasklist_lock (rwlock"
        page.keyboard.press("ArrowUp")
        assert status.inner_text() == seen[5]
        assert live.locator(".at").count() == 1
        page.keyboard.press("Enter")
        wide = "() => document.querySelector('#flame-chart .at rect')?.getBoundingClientRect().width > 1000"
        page.wait_for_function(wide)
        page.keyboard.press("Escape")
        assert status.inner_text() == ""


def test_what_has_no_stack_is_last_in_a_flame_graph(pages: dict[str, Path], chromium: Any) -> None:
    with opened(chromium, pages["generated"]) as page:
        page.add_style_tag(content=".drawn .still { display: block !important; }")
        for drawing in ("#flame-chart .live svg g.frame", "#flame-chart .still svg g"):
            boxes = page.locator(drawing).evaluate_all(
                """all => all.map(one => [one.querySelector("title").textContent,
                                          one.querySelector("rect").getBoundingClientRect().x])"""
            )
            [unknown] = [at for words, at in boxes if words.startswith("[any task]")]
            tasks = [at for words, at in boxes if words.startswith("worker/")]
            assert len(tasks) > 3
            assert max(tasks) < unknown


@pytest.mark.parametrize("size", ["phone", "desk"])
def test_labels_of_many_cpus_do_not_touch(size: str, pages: dict[str, Path], chromium: Any) -> None:
    """Rows of text have free rows of pixels between them: left of the chart no long stretch of rows is written on."""
    with opened(chromium, pages["huge"], size) as page:
        runs = page.locator("#heat-chart canvas").evaluate_all(
            """canvases => canvases.map(canvas => {
              const pixels = canvas.getContext("2d").getImageData(0, 0, 60, canvas.height).data;
              let run = 0, longest = 0;
              for (let row = 0; row < canvas.height; row++) {
                let written = false;
                for (let x = 0; x < 60; x++) written ||= pixels[4 * (60 * row + x) + 3] > 60;
                run = written ? run + 1 : 0;
                longest = Math.max(longest, run);
              }
              return longest;
            })"""
        )
        assert 5 < max(runs) < 16


@pytest.mark.parametrize("name", PAGES)
def test_each_part_has_a_link(name: str, pages: dict[str, Path], chromium: Any) -> None:
    with opened(chromium, pages[name], whole=False) as page:
        for link in page.locator("nav a").all():
            href = link.get_attribute("href")
            link.focus()
            page.keyboard.press("Enter")
            assert page.evaluate("location.hash") == href
            page.wait_for_function(
                "id => document.querySelector(id).getBoundingClientRect().top < innerHeight", arg=href
            )
        # Whoever gets the link alone sees the same part.
        page.goto(f"{pages[name].as_uri()}{href}")
        page.wait_for_function("id => document.querySelector(id).getBoundingClientRect().top < innerHeight", arg=href)


def test_zooming_in_time_tells_the_options_of_the_same_part(
    pages: dict[str, Path], recordings: dict[str, Path], chromium: Any
) -> None:
    with opened(chromium, pages["generated"]) as page:
        canvas = page.locator("#timeline-chart canvas").first
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        # The slider's right end, to about the middle.
        y = box["y"] + box["height"] - 19
        page.mouse.move(box["x"] + box["width"] - 16, y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, y, steps=8)
        page.mouse.up()
        told = page.locator("#zoomed")
        page.wait_for_function("document.getElementById('zoomed').textContent !== ''")
        words = told.text_content().split()
        assert words[-6:-4] == ["lockline", "report"], words
    first, last = (float(words[words.index(option) + 1]) for option in ("--from", "--to"))
    assert 0 <= first < 1 < last < 9
    with open_recording(recordings["generated"]) as recording:
        part = make_report(recording, Selection(from_ns=round(first * 1e9), to_ns=round(last * 1e9)), 0)
        steps = [one for one in recording.intervals() if one.end_ns <= part.window.end_ns]
    # Whole intervals: those that the chart still shows.
    assert part.window.begin_ns == steps[0].begin_ns
    assert part.window.end_ns == steps[-1].end_ns


# Pixels that are nearly of this colour.
LIKE = """(canvas, wanted) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let found = 0;
  for (let at = 0; at < pixels.length; at += 4)
    found += wanted.every((part, index) => Math.abs(pixels[at + index] - part) < 12);
  return found / (pixels.length / 4);
}"""
# --doubt of page.css.
DOUBT = [0xFF, 0xF0, 0xC2]


def test_lengths_that_are_not_sure_are_marked(recordings: dict[str, Path], chromium: Any, tmp_path: Path) -> None:
    """The same recording of a clock that moves each 4 us: waits under 40 us may be more than 10 % off."""
    coarse, output = tmp_path / "coarse", tmp_path / "coarse.html"
    shutil.copyfile(recordings["generated"], coarse)
    with closing(sqlite3.connect(coarse)) as connection, connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('clock', 'coarse'), ('clock_step_ns', 4000)")
    for path, marked in ((recordings["generated"], False), (coarse, True)):
        assert cli.main(["report", str(path), "--html", str(output)]) == 0
        with opened(chromium, output, color_scheme="light") as page:
            part = page.locator("#histogram-chart canvas").first.evaluate(LIKE, DOUBT)
            assert (part > 0.05) == marked, part
            still = page.locator("#histogram-chart .still svg").first
            assert still.locator(".doubt").count() == marked
            assert ("under 40.0 us: may be more than 10% off" in still.text_content()) == marked


def test_the_graph_of_who_waits_for_whom(pages: dict[str, Path], chromium: Any) -> None:
    with opened(chromium, pages["example"]) as page:
        graph = page.locator("#waitfor-chart svg")
        boxes = {box.text_content(): box.bounding_box() for box in graph.locator("g:has(.node)").all()}
        place = {
            name: next(box for text, box in boxes.items() if text.startswith(name))
            for name in ("strace", "tasklist", "reaper")
        }
        assert place["strace"]["x"] < place["tasklist"]["x"] < place["reaper"]["x"]
        assert graph.locator(".flow").count() == 5
        page.locator("#waitfor-chart summary").focus()
        page.keyboard.press("Enter")
        assert page.locator("#waitfor-table tbody tr:visible").count() == 5


def test_the_search_filters_tables(pages: dict[str, Path], chromium: Any) -> None:
    with opened(chromium, pages["generated"]) as page:
        rows = page.locator("#locks tbody tr:visible")
        before = rows.count()
        page.locator("#search").fill("subsystem_9_")
        page.locator("#found:not(:empty)").wait_for(state="attached")
        assert 0 < rows.count() < before
        assert all("subsystem_9_" in row.text_content() for row in rows.all())
        page.locator("#search").fill("")
        page.locator("#found:empty").wait_for(state="attached")
        assert rows.count() == before


def test_charts_are_drawn_where_somebody_looks(pages: dict[str, Path], chromium: Any) -> None:
    """A huge page answers before its charts are drawn, and those far below wait."""
    with opened(chromium, pages["huge"], whole=False) as page:
        figures = page.locator("figure[data-chart]")
        # What stands above it may fill the window.
        page.locator("#timeline-chart").evaluate("one => one.scrollIntoView()")
        page.wait_for_selector("#timeline-chart[data-shown]", state="attached")
        assert 1 <= page.locator("figure[data-shown]").count() < figures.count()
        assert page.locator("#flame-chart[data-shown]").count() == 0
        # What is searched before a chart is drawn is marked in it as well.
        page.locator("#search").fill("subsystem_9_")
        page.locator("#found:not(:empty)").wait_for(state="attached")
        page.locator("#flame-chart").evaluate("one => one.scrollIntoView()")
        page.wait_for_selector("#flame-chart[data-shown]", state="attached")
        assert page.locator("#flame-chart .live svg rect").count() > 1


def test_a_huge_page_stays_small(pages: dict[str, Path]) -> None:
    assert (TOP / "build" / "page" / "charts.js").stat().st_size <= 800_000
    assert pages["huge"].stat().st_size <= 2_000_000
