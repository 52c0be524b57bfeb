# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline explain LOCK`: what the atlas knows of a lock."""

import argparse
import shutil
from typing import TYPE_CHECKING

from lockline.base.errors import LocklineError

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(commands: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser("explain", help="what a kernel lock protects, what contends it, and what helps")
    parser.add_argument(
        "lock", nargs="?", metavar="LOCK", help="a name from a report, as mm_struct.mmap_lock or mmap_lock"
    )
    parser.add_argument("--list", action="store_true", help="all locks that lockline can explain")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")


def explain(arguments: argparse.Namespace) -> str:
    """What the command prints; LocklineError names similar locks where this one is not known."""
    from lockline.atlas import atlas
    from lockline.render.atlas import render, render_json, render_list

    known = atlas()
    width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    if arguments.list:
        return render_json(known, known.locks) if arguments.format == "json" else render_list(known, width)
    if not arguments.lock:
        raise LocklineError("explain: name a lock, or use --list")
    lock = known.find(arguments.lock)
    if lock is None:
        near = known.near(arguments.lock)
        hint = f"did you mean {', '.join(near)}?" if near else "lockline explain --list shows those it knows"
        raise LocklineError(f"explain: the atlas has no lock '{arguments.lock[:80]}'; {hint}")
    return render_json(known, (lock,)) if arguments.format == "json" else render(lock, known.kernels, width)


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """What is printed, and the exit code.  Raises LocklineError."""
    return explain(arguments), 0
