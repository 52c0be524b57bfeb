# SPDX-License-Identifier: GPL-2.0-or-later
"""A parser of options whose errors are one line, with the word that was meant."""

import argparse
import re
from typing import NoReturn

from lockline.base.text import Style, clean

_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")


class Parser(argparse.ArgumentParser):
    """Its sub-parsers are of this class too."""

    def error(self, message: str) -> NoReturn:
        """End with one line and exit code 1 (argparse's 2 would say that something regressed)."""
        # Only who made a mistake loads the words of all commands.
        from lockline.cli.help import nearest

        choice = _CHOICE.search(message)
        if choice:
            meant = nearest(choice.group(1), re.findall(r"[\w.-]+", choice.group(2)))
            message += f"; did you mean {meant}?" if meant else ""
        line = clean(message, Style(unicode=False, addresses=False))
        self.exit(1, f"{self.prog}: {line}; see `{self.prog} --help`\n")
