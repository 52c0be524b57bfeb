# SPDX-License-Identifier: GPL-2.0-or-later
"""What pagers, terminals, mail, chats, trackers and editors make of a text.  None of these loses a figure."""

import html
import json
import quopri
import random
import re
from collections.abc import Callable

from c2c.report_text import Report, Style, offset_cells

Change = Callable[[str, random.Random], str]
# A row of offsets, or a line's own row of the table.
_ROW = re.compile(r"\s+\d+\.\d+%")


def _each(change: Callable[[str], str]) -> Change:
    return lambda text, _: "\n".join(change(line) for line in text.split("\n"))


def _with_thousands(mark: str) -> Change:
    """Numbers of four digits and more in groups, as some locales and spreadsheets print them."""

    def group(match: re.Match[str]) -> str:
        return f"{int(match[0]):,}".replace(",", mark)

    def change(line: str) -> str:
        return re.sub(r"(?<![\w.:{},'-])[1-9]\d{3,8}(?![\w.:%{},'-])", group, line)

    return _each(change)


def _coloured(text: str, rng: random.Random) -> str:
    """Colours of a terminal, and what clears the rest of each line."""
    colours = ("\x1b[31m", "\x1b[1;32m", "\x1b[38;5;208m", "\x1b[7m")

    def change(line: str) -> str:
        if not _ROW.match(line):
            return line + rng.choice(("", "\x1b[K"))
        return re.sub(r"\d+\.\d+%", lambda share: f"{rng.choice(colours)}{share[0]}\x1b[m", line) + "\x1b[0m"

    return "\n".join(map(change, text.split("\n")))


def _typescript(text: str, rng: random.Random) -> str:
    """What script(1) keeps: prompts, carriage returns, a title, typed characters taken back."""
    head = 'Script started on 2026-01-02 10:11:12+00:00 [TERM="xterm-256color" COLUMNS="212" LINES="50"]\n'
    typed = "perf c2c rx\b \bport --stdio"
    prompt = "\x1b]0;root@host: ~\x07\x1b[?2004hroot@host:~# "
    body = _coloured(text, rng).replace("\n", "\r\n")
    done = '\r\n\nScript done on 2026-01-02 [COMMAND_EXIT_CODE="0"]\n'
    return f"{head}{prompt}{typed}\r\n\x1b[?2004l\r{body}\r\n{prompt}exit{done}"


def _flowed(text: str, _: random.Random) -> str:
    """Mail of format=flowed: wrapped with a space at the end of what goes on, and quoted."""
    result = []
    for line in text.split("\n"):
        rest = line
        while len(rest) > 72 and (at := rest.rfind(" ", 1, 72)) > 0 and rest[:at].strip():
            result.append("> " + rest[: at + 1])
            rest = rest[at + 1 :]
        result.append("> " + rest)
    return "On Tue, 2 Jan 2026 at 10:11, Somebody wrote:\n" + "\n".join(result)


def _tracker(text: str, _: random.Random) -> str:
    """A comment of an issue tracker."""
    return "We see this in production:\n\n{noformat:title=c2c}\n" + text + "\n{noformat}\n\nAny idea?"


def _chat(text: str, rng: random.Random) -> str:
    """A paste in a chat that collapses spaces, with names and times between."""
    lines = []
    for number, line in enumerate(text.split("\n")):
        if number % 40 == 0:
            lines.append(f"Alex  {10 + number // 400}:{rng.randrange(10, 60)} AM")
        lines.append(re.sub(r"[ \t]+", " ", line).strip())
    return "\n".join(lines)


def _entities(text: str, _: random.Random) -> str:
    """Entities for what HTML does not keep, some of them by number."""
    escaped = html.escape(text).replace("%", "&#37;").replace("[", "&#x5b;").replace("]", "&rsqb;")
    return escaped.replace("  ", "&nbsp; ")


def _paged(text: str, _: random.Random) -> str:
    """As pr(1) and a printer have it: form feeds, and a heading on each page."""
    lines = text.split("\n")
    pages = [lines[at : at + 56] for at in range(0, len(lines), 56)]
    return "".join(
        f"\n\n2026-01-02 10:11{'c2c.txt':^40}Page {n}\n\n\n" + "\n".join(page) + "\n\f"
        for n, page in enumerate(pages, 1)
    )


def _pager(text: str, _: random.Random) -> str:
    """Screens of a pager, copied one after the other."""
    lines = text.split("\n")
    return "\n".join(
        "\n".join(lines[at : at + 48]) + f"\n--More--({min(99, 100 * (at + 48) // max(1, len(lines)))}%)"
        for at in range(0, len(lines), 48)
    )


def _progress(text: str, rng: random.Random) -> str:
    """Standard error between the rows."""
    words = ("[ perf record: Woken up 12 times to write data ]", "Warning:\nProcessed 9482 events and lost 3 chunks!")
    return "\n".join(
        line + (f"\n{rng.choice(words)}" if _ROW.match(line) and rng.random() < 0.1 else "")
        for line in text.split("\n")
    )


def _containers(text: str, _: random.Random) -> str:
    """A container's log in JSON, one object a line."""
    return "\n".join(
        json.dumps({"log": line + "\n", "stream": "stdout", "time": "2026-01-02T10:11:12.123456789Z"})
        for line in text.split("\n")
    )


def _smart(text: str, _: random.Random) -> str:
    """An editor that makes long dashes of two, and curly quotes."""
    return text.replace("--", "\u2013").replace("'", "\u2019")


def markdown_table(report: Report, style: Style, rng: random.Random) -> str:
    """The offsets as a table of Markdown, its columns in another order, without the totals of the lines."""
    columns, lines = offset_cells(report, style)
    heads = ["Cache line", *(f"{group.strip('- ')} {name}".strip() for group, name, _ in columns)]
    rows = [[f"{address:#x}", *cells] for address, cells in lines]
    order = list(range(len(heads)))
    rng.shuffle(order)
    table = ["| " + " | ".join(heads[i] for i in order) + " |", "|" + " --- |" * len(order)]
    table += ["| " + " | ".join(row[i] for i in order) + " |" for row in rows]
    return "The offsets:\n\n" + "\n".join(table) + "\n"


def tracker_table(report: Report, style: Style, rng: random.Random) -> str:
    """The same in the marks of a tracker, with totals left out and shares without their sign."""
    text = markdown_table(report, style, rng)
    lines = [line for line in text.split("\n") if "| ---" not in line]
    at = next(i for i, line in enumerate(lines) if line.startswith("|"))
    lines[at] = lines[at].replace(" | ", " || ").replace("| ", "|| ", 1)
    return "\n".join(lines)


def spreadsheet(report: Report, style: Style, rng: random.Random) -> str:
    """The same as a spreadsheet of a locale with decimal commas saves it."""
    text = markdown_table(report, style, rng)
    rows = [line.strip("| ").split(" | ") for line in text.split("\n") if line.startswith("|") and "---" not in line]
    return "\n".join(";".join(re.sub(r"^(\d+)\.(\d+)%$", r"\1,\2%", cell) for cell in row) for row in rows) + "\n"


# Of figures, not of a text.
TABLES: dict[str, Callable[[Report, Style, random.Random], str]] = {
    "Markdown table": markdown_table,
    "tracker table": tracker_table,
    "spreadsheet": spreadsheet,
}
ODD: dict[str, Change] = {
    "thousands, comma": _with_thousands(","),
    "thousands, point": _with_thousands("."),
    "thousands, quote": _with_thousands("'"),
    "thousands, thin space": _with_thousands("\u202f"),
    "thousands, hard space": _with_thousands("\u00a0"),
    "space before percent": lambda text, _: re.sub(r"(\d\.\d+)%", r"\1 %", text),
    "colours": _coloured,
    "typescript": _typescript,
    "format flowed": _flowed,
    "tracker": _tracker,
    "chat": _chat,
    "entities": _entities,
    "printed": _paged,
    "pager": _pager,
    "progress": _progress,
    "container log": _containers,
    "long dashes": _smart,
    "hard spaces": lambda text, _: text.replace(" ", "\u00a0"),
    "zero-width spaces": lambda text, _: text.replace("\n", "\u200b\n\u200b"),
    "byte order mark": lambda text, _: "\ufeff" + text,
    "line ends alone": lambda text, _: text.replace("\n", "\r"),
    "patch": _each(lambda line: "+" + line),
    "grep": lambda text, _: "\n".join(f"c2c.txt:{n}:{line}" for n, line in enumerate(text.split("\n"), 1)),
    "pod log": _each(lambda line: "2026-01-02T10:11:12.123456789Z stdout F " + line),
    "cat -A": _each(lambda line: line.replace("\t", "^I") + "$"),
    "quoted-printable": lambda text, _: quopri.encodestring(text.encode()).decode(),
    "long lines": _each(lambda line: line + " " * 20000 if _ROW.match(line) else line),
    "zeros": lambda text, rng: "".join(
        line + ("\0" if rng.random() < 0.003 else "") for line in text.splitlines(keepends=True)
    ),
    "syslog": lambda text, _: "Jan  2 10:11:12 host perf: " + text.replace("\n", "#012"),
    "side bars": _each(lambda line: f"\u2502{line}\u2502"),
    "two reports": lambda text, _: text + "\n\n" + text,
}
# Bytes, not characters.
CODES = {"UTF-16": "utf-16", "UTF-16 without a mark": "utf-16-be", "UTF-32": "utf-32", "Latin-1": "latin-1"}
