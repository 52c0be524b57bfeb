# SPDX-License-Identifier: GPL-2.0-or-later
"""A module that is loaded when it is first used: not every report needs all that its parts can do."""

# Without typing: see cli/c2c_start.py.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Late:
    """Stands for a module, and loads it when one of its names is asked for.

    Type checkers are shown the import itself, under TYPE_CHECKING.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> "Any":
        from importlib import import_module

        value = getattr(import_module(self._name), name)
        # The next time it is found at once.
        setattr(self, name, value)
        return value
