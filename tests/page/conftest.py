# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings, pages of them, and a browser: what `make test-page` installs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockline.base.text import Style
from lockline.cli import main as cli
from lockline.investigation.choice import judge
from lockline.page.html import Writer
from lockline.page.why import make_page
from lockline.render.documents import why as document
from why_cases import MACHINE, stories

from .made import TOP, make_all


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_all(tmp_path_factory.mktemp("recordings"))


@pytest.fixture(scope="session")
def pages(recordings: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each recording, of a diff, of watched lines, of c2c data and of an investigation."""
    directory = tmp_path_factory.mktemp("pages")
    text = TOP / "tests" / "c2c" / "reader_and_writer.txt"
    commands = {name: ["report", str(path)] for name, path in recordings.items()}
    commands["diff"] = ["diff", str(recordings["example"]), str(recordings["generated"])]
    commands["watch"] = ["watch", "-i", str(recordings["watched"])]
    commands["c2c"] = ["c2c", "report", str(text)]
    for name, command in commands.items():
        assert cli.main([*command, "--html", str(directory / f"{name}.html")]) in (0, 2)
    known = stories()[-1]
    story = document.make(known, judge(known, "time"), MACHINE)
    (directory / "why.html").write_text(make_page(story, Writer(Style(unicode=True))), encoding="utf-8")
    return {name: directory / f"{name}.html" for name in (*commands, "why")}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()
