# SPDX-License-Identifier: GPL-2.0-or-later
"""The page around the sections: style, scripts and data in one file, and a policy that forbids every request."""

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from lockline import version
from lockline.page.html import Markup, Writer, joined

# Data longer than this are packed: browsers that cannot unpack them show the drawings without scripts.
PACKED_FROM = 200_000

_HERE = Path(__file__).resolve().parent
# What `make page` makes, in the installed tree and in the clone.
_BUNDLES = (_HERE / "charts.js", _HERE.parents[2] / "build" / "page" / "charts.js")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with a link of its own; charts: what scripts draw here, by name."""

    name: str
    title: str
    content: Markup


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page; data: for the charts."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    data: Mapping[str, Any] = field(default_factory=dict)


def bundle() -> str:
    """The script that draws charts; "" if it was not built."""
    found = next((path for path in _BUNDLES if path.is_file()), None)
    return found.read_text(encoding="utf-8") if found is not None else ""


@lru_cache(maxsize=1)
def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"


def _data(data: Mapping[str, Any]) -> str:
    """A script element that is no script: JSON in ASCII, without a character that HTML knows."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    if len(text) < PACKED_FROM:
        for character in "<>&":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return f'<script type="application/json" id="data">{text}</script>'
    packed = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
    return f'<script type="text/plain" id="data" data-packed>{packed}</script>'


def figure(
    write: Writer, name: str, caption: str, drawing: Markup, table: Markup, note: str = "", chart: bool = True
) -> Markup:
    """A chart with its table beside it; name: of the chart in the script, where it draws one."""
    return write(
        "figure",
        # Where it is wider than the window, keys move it.
        write("div", drawing, class_="still", tabindex=0, role="group", aria_label=caption),
        write("div", class_="live", hidden=True) if chart else None,
        write("figcaption", caption, write("span", f" {note}", class_="note") if note else None),
        write("details", write("summary", "The same as a table"), table, id=f"{name}-table"),
        id=f"{name}-chart",
        data_chart=name if chart else None,
        aria_details=f"{name}-table",
    )


def render(page: Page, write: Writer) -> str:
    """The page's file."""
    charts, script = bundle() if page.data else "", _asset("page.js")
    scripts = [text for text in (charts, script) if text]
    sources = " ".join(_hash(text) for text in scripts)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {sources}; base-uri 'none'; form-action 'none'"
    links = write(
        "nav",
        write("ul", *(write("li", write("a", part.title, href=f"#{part.name}")) for part in page.sections)),
        aria_label="Parts of this page",
    )
    search = write(
        "p",
        write("label", "Search for a lock, a task or a control group ", for_="search"),
        write("input", id="search", type="search", autocomplete="off"),
        write("span", id="found", role="status"),
        id="searching",
        hidden=True,
    )
    sections = joined(
        write("section", write("h2", part.title), part.content, id=part.name, aria_label=part.title, tabindex=-1)
        for part in page.sections
    )
    body = joined(
        (
            write("a", "Skip to the answer", href=f"#{page.sections[0].name}", class_="skip"),
            write("header", write("h1", page.title), write("p", page.subtitle), links),
            write("main", search, sections),
            write("footer", write("p", f"Made by lockline {version()}.  This page loads nothing.")),
        )
    )
    head: Sequence[str] = (
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        write("title", f"{page.title}: lockline").text,
        f"<style>{_asset('page.css')}</style>",
    )
    ends = [_data(page.data)] if page.data else []
    # The page's own script runs the one of the charts later: the policy knows both.
    ends += [f'<script type="text/plain" id="charts">{charts}</script>'] if charts else []
    ends.append(f"<script>{script}</script>")
    return "\n".join(("<!DOCTYPE html>", '<html lang="en">', *head, body.text, *ends, "</html>", ""))
