# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a page as a browser's parser does, as far as tests need it: what is open, what is text, what it would load."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from typing import Any

_VOID = {"br", "input", "meta", "rect", "path", "line"}
# Attributes that make a browser fetch something.
_LOADS = {"src", "srcset", "data", "poster", "background", "action", "formaction", "ping", "xlink:href"}


class Page(HTMLParser):
    """A page's elements; raises AssertionError where one is not closed, or closed in the wrong place."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        assert len(attributes) == len(attrs)
        self.tags.append((tag, attributes))
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((attributes, ""))
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _VOID
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data
        elif self.open and self.open[-1] == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data

    @property
    def policy(self) -> str:
        """The content security policy."""
        return next(
            attributes["content"] or ""
            for tag, attributes in self.tags
            if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
        )

    @property
    def ids(self) -> list[str]:
        """All of them."""
        return [attributes["id"] or "" for _, attributes in self.tags if "id" in attributes]

    @property
    def links(self) -> list[str]:
        """Where links lead."""
        return [attributes["href"] or "" for _, attributes in self.tags if "href" in attributes]

    @property
    def loads(self) -> list[str]:
        """What a browser would fetch."""
        found = [
            f"{tag} {name}"
            for tag, attributes in self.tags
            for name in attributes
            if name in _LOADS or name[:2] == "on"
        ]
        found += [tag for tag, _ in self.tags if tag in ("link", "img", "iframe", "object", "embed", "base", "form")]
        return found + [match for style in self.styles for match in re.findall(r"url\(|@import", style)]

    @property
    def data(self) -> dict[str, Any]:
        """What the charts draw."""
        attributes, text = next(one for one in self.scripts if one[0].get("id") == "data")
        packed = gzip.decompress(base64.b64decode(text)).decode() if "data-packed" in attributes else text
        found: dict[str, Any] = json.loads(packed)
        return found

    def table(self, caption: str) -> list[list[str]]:
        """The rows of a table, without its titles."""
        captions = [index for index, (tag, _) in enumerate(self.tags) if tag == "caption"]
        assert len(captions) == len(self.tables)
        for rows, label in zip(
            self.tables,
            (attributes["aria-label"] for tag, attributes in self.tags if attributes.get("class") == "scroll"),
            strict=True,
        ):
            if label == caption:
                return rows[1:]
        raise KeyError(caption)
