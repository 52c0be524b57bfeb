# SPDX-License-Identifier: GPL-2.0-or-later
"""A lock of the atlas as text and as JSON."""

import json
import textwrap
from dataclasses import asdict

from lockline.atlas import Atlas, KnownLock

SCHEMA = "lockline-explain/1"
_LABEL = 13


def _part(label: str, text: str, width: int) -> list[str]:
    first = f"{label:{_LABEL}}"
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=" " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _listed(label: str, texts: tuple[str, ...], width: int) -> list[str]:
    lines: list[str] = []
    for index, text in enumerate(texts):
        first = f"{label if not index else '':{_LABEL}}- "
        lines += textwrap.wrap(
            text,
            width,
            initial_indent=first,
            subsequent_indent=" " * (_LABEL + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def render(lock: KnownLock, kernels: tuple[str, ...], width: int) -> str:
    """What a person reads; kernels: those in which the names were looked up."""
    lines = textwrap.wrap(f"{lock.names[0]} ({lock.kind}): {lock.title}", width)
    lines += ["", *_part("Protects", lock.protects, width), *_listed("Contended by", lock.contended_by, width)]
    # A command is copied as it stands: never wrapped.
    lines += [f"{'Confirm':{_LABEL}}{lock.confirm}", *_listed("What helps", lock.helps, width)]
    if len(lock.names) > 1:
        lines += _part("Also called", ", ".join(lock.names[1:]), width)
    if lock.note:
        lines += _part("Note", lock.note, width)
    if lock.module:
        lines += _part("Module", lock.module, width)
    lines += _part("Read", ", ".join(lock.sources), width)
    some = [f"{name} only in {', '.join(only)}" for name, only in lock.only_in.items()]
    lines += _part(
        "Checked", f"names looked up in Linux {', '.join(kernels)}{'; ' + '; '.join(some) if some else ''}", width
    )
    return "\n".join(lines) + "\n"


def render_list(known: Atlas, width: int) -> str:
    """One line for each lock of the atlas."""
    widest = max(len(lock.names[0]) for lock in known.locks)
    return "".join(f"{lock.names[0]:{widest}}  {lock.title}"[:width] + "\n" for lock in known.locks)


def render_json(known: Atlas, locks: tuple[KnownLock, ...]) -> str:
    """The same as a document of schema lockline-explain/1: docs/explain.md."""
    return (
        json.dumps({"schema": SCHEMA, "kernels": known.kernels, "locks": [asdict(lock) for lock in locks]}, indent=2)
        + "\n"
    )
