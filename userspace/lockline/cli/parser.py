# SPDX-License-Identifier: GPL-2.0-or-later
"""A parser of options whose errors are one line, with the word that was meant."""

import argparse
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from lockline.base.text import Style, clean

_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")


class Parser(argparse.ArgumentParser):
    """Its sub-parsers are of this class too.

    elsewhere: words that users of other tools may try here, and what does it.
    """

    elsewhere: Mapping[str, str] = MappingProxyType({})

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Of `--lock=--` the value is `--`: before Python 3.13 it is an empty list, which no command expects."""
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        """End with one line and exit code 1 (argparse's 2 would say that something regressed)."""
        # Only who made a mistake loads the words of all commands.
        from lockline.cli.help import nearest

        choice = _CHOICE.search(message)
        if choice:
            meant = self.elsewhere.get(choice.group(1)) or nearest(
                choice.group(1), re.findall(r"[\w.-]+", choice.group(2))
            )
            message += f"; did you mean {meant}?" if meant else ""
        line = clean(message, Style(unicode=False, addresses=False))
        self.exit(1, f"{self.prog}: {line}; see `{self.prog} --help`\n")
