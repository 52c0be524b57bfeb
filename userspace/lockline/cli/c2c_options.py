# SPDX-License-Identifier: GPL-2.0-or-later
"""The options of `lockline c2c report`, and a reader of plain command lines that does without argparse.

argparse takes longer to load and to set up than a small report to make.  What leaves any doubt goes to argparse: words
that are not known, abbreviations, values that are missing or wrong, options that exclude each other, --help.
"""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lockline.base.numbers import as_number
from lockline.base.values import NamedTuple
from lockline.render.c2c_sections import SECTIONS

if TYPE_CHECKING:
    import argparse

TEXT_LINES = 10
JSON_LINES = 1000


class Option(NamedTuple):
    """words: how it is written; told: what argparse's add_argument() takes; number: whether it is one, from 1 on.

    group: of options that exclude each other, or that help shows together; '' if it has none.
    """

    words: tuple[str, ...]
    told: Mapping[str, Any]
    number: bool = False
    group: str = ""

    @property
    def name(self) -> str:
        """The attribute that has its value."""
        return str(self.told.get("dest") or self.words[-1].lstrip("-").replace("-", "_"))

    @property
    def default(self) -> Any:
        """Its value where it is not given."""
        return self.told.get("default", False if self.is_flag else None)

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return "action" in self.told


def _flag(word: str, about: str, group: str = "") -> Option:
    return Option((word,), {"action": "store_true", "help": about}, group=group)


# Of the import too.
INPUT_OPTIONS = (
    Option(("--kallsyms",), {"metavar": "F", "help": "for a perf.data file: a copy of its machine's /proc/kallsyms"}),
    Option(("--system-map",), {"metavar": "F", "help": "for a perf.data file: System.map of its kernel"}),
    Option(("--symfs",), {"metavar": "DIR", "help": "for a perf.data file: where the programs are, instead of /"}),
    Option(
        ("--report",),
        {"dest": "number", "metavar": "N", "help": "for a text with several reports: the N-th"},
        number=True,
    ),
)
FILES, TYPES, SHOWN = "files", "types", "what to show, in place of the first screen"
FILE = Option(
    ("file",),
    {"nargs": "?", "metavar": "FILE", "help": "a recording, perf.data, or the text of a report; - is stdin"},
    group=FILES,
)
REPORT_OPTIONS = (
    FILE,
    Option(("-i", "--input"), {"metavar": "FILE", "help": "the same, as in perf"}, group=FILES),
    *INPUT_OPTIONS,
    Option(("--recording",), {"metavar": "R", "help": "lock waits of the same time, to join the lines with"}),
    Option(
        ("--btf",),
        {"metavar": "F", "help": "types of the recorded kernel: raw BTF, or a vmlinux with it"},
        group=TYPES,
    ),
    Option(("--vmlinux",), {"dest": "btf", "metavar": "F", "help": "the same"}, group=TYPES),
    Option(
        ("--top",),
        {"metavar": "N", "help": f"lines (default: {TEXT_LINES}; json: {JSON_LINES})"},
        number=True,
    ),
    Option(
        ("--by",),
        {
            "choices": ("lines", "functions"),
            "default": "lines",
            "help": "lines (default), or functions: pairs of one that waits for a line and one that writes it",
        },
    ),
    Option(("--format",), {"choices": ("text", "json"), "default": "text", "help": "text (default) or json"}),
    _flag("--all", "everything", SHOWN),
    *(_flag(f"--{name}", what, SHOWN) for name, what in SECTIONS.items()),
    Option(
        ("--color",),
        {
            "choices": ("auto", "always", "never"),
            "default": "auto",
            "help": "colours (default: auto, on a terminal)",
        },
    ),
    _flag("--addresses", "show kernel addresses"),
)
# Those of add_html(), which argparse reads.
_OF_PAGES = {"html": None, "redact": False}


def _value(option: Option, text: str) -> Any:
    """What an option's value is; None if it is none."""
    if option.number:
        return as_number(text)
    return text if text in option.told.get("choices", (text,)) else None


def plain(arguments: Sequence[str]) -> "argparse.Namespace | None":
    """What argparse makes of a command line; None where only argparse should say."""
    if list(arguments[:2]) != ["c2c", "report"]:
        return None
    options = {word: option for option in REPORT_OPTIONS for word in option.words if option is not FILE}
    found: dict[str, Any] = {option.name: option.default for option in REPORT_OPTIONS} | _OF_PAGES
    given: list[Option] = []
    words = iter(arguments[2:])
    for word in words:
        name, equals, text = word.partition("=")
        option = options.get(name) if word.startswith("-") else FILE
        if option is None or (equals and (option.is_flag or not name.startswith("--"))):
            return None
        if option.is_flag:
            value: Any = True
        else:
            text = word if option is FILE else text if equals else next(words, "")
            value = _value(option, text) if text and not text.startswith("-") else None
        if value is None:
            return None
        found[option.name] = value
        given.append(option)
    # Of those that exclude each other one at most, and nothing twice; a report needs its file.
    groups = [option.group for option in given if option.group in (FILES, TYPES)]
    if len(set(groups)) < len(groups) or FILES not in groups:
        return None
    made: Any = SimpleNamespace(command="c2c", c2c_command="report", **found)
    return made  # type: ignore[no-any-return]
