# SPDX-License-Identifier: GPL-2.0-or-later
"""Each option that a page shows behind a command is one of that command."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from programs import TOP

PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
SHOWN = re.compile(r"lockline ([a-z0-9]+)((?: [^`\n;|&#]*)?)")
ACTIONS = {"fleet": ("add", "report", "diff", "sql", "migrate"), "c2c": ("report", "import")}
LAUNCHER = TOP / "build" / "bin" / "lockline"
COMMANDS = (
    *("why", "experiment", "report", "doctor", "demo", "explain", "diff", "c2c", "export", "save", "top", "exporter"),
    *("fleet", "record", "watch"),
)


@cache
def helped(*words: str) -> str:
    """The help of a command."""
    done = subprocess.run([sys.executable, LAUNCHER, *words, "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def options(text: str) -> set[tuple[str, ...]]:
    """What is shown, as the words of the command and the option."""
    found = set()
    for name, rest in SHOWN.findall(text):
        if name not in COMMANDS:
            continue
        words = rest.split(" -- ")[0].split()
        action = words[:1] if words[:1] and words[0] in ACTIONS.get(name, ()) else []
        for word in words:
            if option := re.match(r"\[?(--[a-z][a-z0-9-]*)", word):
                found.add((name, *action, option[1]))
    return found


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_options_exist(page: Path) -> None:
    wrong = []
    for *words, option in options(page.read_text()):
        if not re.search(rf"{re.escape(option)}(?![a-z0-9-])", helped(*words)):
            wrong.append((*words, option))
    assert wrong == []


def test_pages_show_many() -> None:
    shown = set().union(*(options(page.read_text()) for page in PAGES))
    assert len(shown) > 60
    assert {("record", "--futex"), ("fleet", "report", "--since"), ("c2c", "report", "--recording")} <= shown


def test_an_option_that_is_none_is_found() -> None:
    [(*words, option)] = options("`lockline report --no-such-thing`")
    assert option not in helped(*words)
