# SPDX-License-Identifier: GPL-2.0-or-later
"""What several commands' options have in common."""

import argparse
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def argument(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """A parser whose ValueError is argparse's message."""

    def checked(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise ValueError(f"'{text}' is no number from 1 to 999999999")
    return int(text)


positive = argument(_positive)
