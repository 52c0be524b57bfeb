# SPDX-License-Identifier: GPL-2.0-or-later
"""What standard output is: how wide, which characters, colours, and a pager as git has it."""

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress

from lockline.base.text import WIDTH, Page, Style

NARROW, WIDE, WIDEST = 40, 120, 240
_HEADINGS = (
    "ANSWER CAUSE UNCLEAR SURE WHO PROOF RULED UNKNOWN ALSO BESIDES IF STEPS COST WHY"
    " WORK FINDINGS LOCKS LINES MEMBERS CHANGES DO TIME TRUST MORE"
)
_HEADING = rf"(?m)^({_HEADINGS.replace(' ', '|')})(?= |$)"
# The C locale, and what Python puts in its place.
_C = ("C", "POSIX")
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
_SURE = r"(?m)^( \d )(high)( )"


def _size() -> tuple[int, int]:
    """Columns and lines, as shutil has them: loading that takes as long as a tenth of a small report."""
    asked = [
        int(text) if text.isdigit() else 0 for text in (os.environ.get("COLUMNS", ""), os.environ.get("LINES", ""))
    ]
    seen = (0, 0)
    if not all(asked) and sys.__stdout__ is not None:
        with suppress(OSError, ValueError):
            seen = os.get_terminal_size(sys.__stdout__.fileno())
    return asked[0] or seen[0] or 80, asked[1] or seen[1] or 24


def columns() -> int:
    """Of the terminal, or of COLUMNS; 80 where there is neither."""
    return max(NARROW, min(WIDE, _size()[0]))


def page() -> Page:
    """What sections and tables are made for: the terminal, or COLUMNS; a program gets 120 columns, and whole names."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdigit():
        return Page(WIDTH, whole=True)
    return Page(max(NARROW, min(WIDEST, _size()[0])))


def _is_c_locale(environment: Mapping[str, str]) -> bool:
    """Whether the user asks for ASCII: Python itself writes UTF-8 in the C locale (PEP 540)."""
    names = ["LC_ALL", "LC_CTYPE", "LANG"]
    if environment.get("LC_CTYPE") in _COERCED and environment.get("LANG") in _C:
        # Python has set it, for want of a better one (PEP 538): the user said LANG=C.
        names.remove("LC_CTYPE")
    return next((value for name in names if (value := environment.get(name))), "") in _C


def style(addresses: bool = False) -> Style:
    """How text is written to standard output."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return Style(unicode=encoding.startswith("utf") and not _is_c_locale(os.environ), addresses=addresses)


def wants_color(choice: str) -> bool:
    """choice: auto, always or never.  https://no-color.org: NO_COLOR wins over a terminal, --color over both."""
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def painted(text: str, choice: str) -> str:
    """A first screen as --color says: its headings in bold, sure findings in red."""
    if not wants_color(choice):
        return text
    text = re.sub(_HEADING, "\x1b[1m\\1\x1b[0m", text)
    return re.sub(_SURE, "\\1\x1b[31m\\2\x1b[0m\\3", text)


def _pager() -> list[str]:
    """The user's choice; "cat" and "" are none."""
    chosen = os.environ.get("LOCKLINE_PAGER", os.environ.get("PAGER", "less"))
    import shlex
    import shutil

    command = shlex.split(chosen)
    return [] if not command or command[0] == "cat" or not shutil.which(command[0]) else command


def show(text: str) -> None:
    """Writes to standard output, through a pager if that is a terminal and the text is longer than it."""
    lines = _size()[1]
    if sys.stdout.isatty() and text.count("\n") >= lines and os.environ.get("TERM", "dumb") != "dumb":
        pager = _pager()
        if pager:
            import subprocess

            environment = {"LESS": "FRX", "LV": "-c"} | dict(os.environ)
            try:
                done = subprocess.run(pager, input=text, text=True, env=environment, check=False)
            except OSError:
                pass
            else:
                if done.returncode not in (126, 127):
                    return
    sys.stdout.write(text)
    sys.stdout.flush()
