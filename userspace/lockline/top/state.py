# SPDX-License-Identifier: GPL-2.0-or-later
"""What the viewer chose, and what each key changes.  Nothing here knows of terminals or time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from lockline.analysis.model import LockWaits

View: TypeAlias = Literal["locks", "lock", "futexes", "line", "help"]

SORTS = ("waiting", "waits", "longest", "p99", "name")
# Keys that are no letters, as the drawer names them.
UP, DOWN, LEFT, RIGHT, PAGE_UP, PAGE_DOWN, HOME, END = "up", "down", "left", "right", "ppage", "npage", "home", "end"
ENTER, ESCAPE, BACKSPACE = "enter", "escape", "backspace"
PAGE = 10

Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class State:
    """What is shown.

    selected: name and kind of a lock, None: the first.  step: of a recording, which interval from 0 on; None: the
    whole recording.  pattern: text that names of locks hold.  typing: the pattern is being written.  kind: "" for all.
    keep: the live recording is kept at the end.  watches: how often a line was asked for.
    """

    view: View = "locks"
    sort: str = SORTS[0]
    reverse: bool = False
    kind: str = ""
    pattern: str = ""
    typing: bool = False
    selected: Key | None = None
    paused: bool = False
    step: int | None = None
    keep: bool = False
    quit: bool = False
    scroll: int = 0
    watches: int = 0


def key_of(lock: LockWaits) -> Key:
    """What a lock is selected by."""
    return lock.name, lock.kind


def shown_locks(locks: Sequence[LockWaits], state: State) -> list[LockWaits]:
    """The locks that pass the filters, in their order."""

    def order(lock: LockWaits) -> tuple[float, str, str]:
        figures = lock.figures
        value = {
            "waiting": figures.wait_ns,
            "waits": figures.waits,
            "longest": figures.max_ns,
            "p99": figures.percentile(0.99) or 0,
            "name": 0,
        }[state.sort]
        return -value, lock.name, lock.kind

    words = state.pattern.lower()
    kept = [
        lock for lock in locks if words in lock.name.lower() and (not state.kind or lock.kind.startswith(state.kind))
    ]
    found = sorted(kept, key=order)
    return found[::-1] if state.reverse else found


def selection(locks: Sequence[LockWaits], state: State) -> int:
    """The selected lock's place among those that are shown; the first if it is not there."""
    return next((index for index, lock in enumerate(locks) if key_of(lock) == state.selected), 0)


def _families(locks: Sequence[LockWaits]) -> list[str]:
    return ["", *sorted({lock.kind.partition(":")[0] for lock in locks})]


def _typed(state: State, key: str) -> State:
    if key in (ENTER, ESCAPE):
        return replace(state, typing=False, pattern=state.pattern if key == ENTER else "")
    if key == BACKSPACE:
        return replace(state, pattern=state.pattern[:-1])
    return replace(state, pattern=state.pattern + key) if len(key) == 1 and key.isprintable() else state


def _stepped(state: State, key: str, steps: int) -> State:
    """Time keys: of a recording alone."""
    last = max(0, steps - 1)
    now = state.step
    if key == "a":
        return replace(state, step=None if now is not None else 0, paused=True)
    where = {
        LEFT: last if now is None else max(0, now - 1),
        RIGHT: 0 if now is None else min(last, now + 1),
        HOME: 0,
        END: last,
    }[key]
    return replace(state, step=where, paused=True)


def press(state: State, key: str, locks: Sequence[LockWaits], steps: int = 0) -> State:
    """The state after a key; locks: all of the report.  steps: intervals of a recording, 0 of a live view."""
    if state.typing:
        return _typed(state, key)
    if key == "q":
        return replace(state, quit=True)
    if key == "h":
        return replace(state, view="locks" if state.view == "help" else "help", scroll=0)
    if key == ESCAPE:
        return replace(state, view="locks", scroll=0, pattern="" if state.view == "locks" else state.pattern)
    if steps and key in (LEFT, RIGHT, HOME, END, "a"):
        return _stepped(state, key, steps)
    if key == "p":
        return replace(state, paused=not state.paused)
    if key == "k":
        return replace(state, keep=not state.keep and not steps)
    if key == "w" and not steps:
        return _watching(state, locks)
    if key == "f":
        return replace(state, view="locks" if state.view == "futexes" else "futexes", scroll=0)
    if state.view != "locks":
        return _scrolled(state, key)
    return _in_locks(state, key, locks)


def _watching(state: State, locks: Sequence[LockWaits]) -> State:
    """The line of the selected lock; of one that is shown, once more."""
    shown = shown_locks(locks, state)
    known = (
        state.selected if state.view in ("lock", "line") else key_of(shown[selection(shown, state)]) if shown else None
    )
    return state if known is None else replace(state, view="line", selected=known, scroll=0, watches=state.watches + 1)


def _scrolled(state: State, key: str) -> State:
    move = {UP: -1, DOWN: 1, PAGE_UP: -PAGE, PAGE_DOWN: PAGE}.get(key, 0)
    return replace(state, scroll=max(0, state.scroll + move))


def _in_locks(state: State, key: str, locks: Sequence[LockWaits]) -> State:
    if key == "s":
        return replace(state, sort=SORTS[(SORTS.index(state.sort) + 1) % len(SORTS)])
    if key == "r":
        return replace(state, reverse=not state.reverse)
    if key == "K":
        families = _families(locks)
        at = families.index(state.kind) if state.kind in families else 0
        return replace(state, kind=families[(at + 1) % len(families)])
    if key == "/":
        return replace(state, typing=True, pattern="")
    shown = shown_locks(locks, state)
    if not shown:
        return state
    now = selection(shown, state)
    if key == ENTER:
        return replace(state, view="lock", selected=key_of(shown[now]), scroll=0)
    move = {UP: -1, DOWN: 1, PAGE_UP: -PAGE, PAGE_DOWN: PAGE, HOME: -len(shown), END: len(shown)}.get(key)
    if move is None:
        return state
    return replace(state, selected=key_of(shown[min(len(shown) - 1, max(0, now + move))]))
