# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes HTML.  Every text passes through Writer, which makes it clean and escapes it: a caller cannot forget to."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lockline.base.text import Style, clean

_VOID = frozenset(("br", "input", "meta", "rect", "path", "line"))


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML that is ready."""

    text: str


Content = Markup | str | None
Attribute = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Writer:
    """Makes elements; style: how names are cleaned."""

    style: Style

    def plain(self, text: str) -> str:
        """A text without what could do harm anywhere but in HTML."""
        return clean(text, self.style)

    def text(self, content: Content) -> Markup:
        """A text, or what is ready already."""
        if content is None:
            return Markup("")
        return content if isinstance(content, Markup) else Markup(html.escape(self.plain(content)))

    def __call__(self, tag: str, *children: Content, **attributes: Attribute) -> Markup:
        """An element.  Attributes: class_ is class, aria_label aria-label; True: without a value; None, False: none."""
        parts = [f"<{tag}"]
        for name, value in attributes.items():
            if value is None or value is False:
                continue
            shown = name.rstrip("_").replace("_", "-")
            if value is True:
                parts.append(f" {shown}")
            else:
                number = f"{value:g}" if isinstance(value, float) else str(value)
                parts.append(f' {shown}="{html.escape(self.plain(number))}"')
        parts.append(">")
        if tag not in _VOID:
            parts += [self.text(child).text for child in children]
            parts.append(f"</{tag}>")
        elif tag in ("rect", "path", "line"):
            parts[-1] = "/>"
        return Markup("".join(parts))

    def lines(self, lines: Iterable[str]) -> Markup:
        """A text of several lines, as they are, for what scrolls sideways."""
        text = "\n".join(html.escape(self.plain(line)) for line in lines)
        return Markup(f'<pre tabindex="0">{text}</pre>')

    def list(self, items: Iterable[Content]) -> Markup:
        """A list; nothing without items."""
        made = [self("li", item) for item in items]
        return self("ul", *made) if made else Markup("")

    def table(
        self, caption: str, titles: Sequence[str], rows: Sequence[Sequence[Content]], left: Sequence[int] = (0,)
    ) -> Markup:
        """A table that scrolls sideways where it is too wide; left: columns that are words."""
        if not rows:
            return self("p", f"{caption}: none.", class_="none")
        head = self(
            "tr",
            *(
                self("th", title, scope="col", class_=None if index in left else "n")
                for index, title in enumerate(titles)
            ),
        )
        body = []
        for row in rows:
            cells = [
                self("th" if index == 0 else "td", cell, scope="row" if index == 0 else None)
                if index in left
                else self("td", cell, class_="n")
                for index, cell in enumerate(row)
            ]
            body.append(self("tr", *cells))
        table = self("table", self("caption", caption), self("thead", head), self("tbody", *body))
        return self("div", table, class_="scroll", tabindex=0, role="group", aria_label=caption)


def joined(parts: Iterable[Markup]) -> Markup:
    """Several pieces, one after the other."""
    return Markup("".join(part.text for part in parts))
