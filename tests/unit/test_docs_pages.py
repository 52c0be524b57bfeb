# SPDX-License-Identifier: GPL-2.0-or-later
"""The documentation: what it points to is there, pages and headings in them; and its lines are short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")


def headings(page: Path) -> set[str]:
    """Of a page, as GitHub writes them in links."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for path, heading in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading:
            assert heading in headings(target), f"{path}#{heading}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_have_at_most_100_columns(page: Path) -> None:
    # Tables cannot be wrapped, nor can what a program prints.
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith(("|", "    "))]
    assert [line for line in lines if len(line) > 100] == []
