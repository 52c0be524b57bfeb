# SPDX-License-Identifier: GPL-2.0-or-later
"""A profile as a tree of frames, as large as a page can show."""

from collections.abc import Mapping
from typing import Any

from lockline.export.profile import Profile
from lockline.export.stacks import ANY_TASK, by_path
from lockline.page.svg import Node

# Frames of one graph, and callers above each other.
FRAMES, DEPTH = 2_000, 60
SMALLER = "[smaller]"


class _Growing:
    __slots__ = ("children", "value")

    def __init__(self) -> None:
        self.value = 0
        self.children: dict[str, _Growing] = {}


def _least(root: _Growing) -> int:
    """The weight from which on a tree has at most FRAMES frames."""
    values, todo = [], [root]
    while todo:
        node = todo.pop()
        values.append(node.value)
        todo += node.children.values()
    return 0 if len(values) <= FRAMES else sorted(values, reverse=True)[FRAMES - 1]


def _frozen(name: str, node: _Growing, least: int, depth: int) -> Node:
    kept = [(child, below) for child, below in node.children.items() if below.value >= least and depth < DEPTH]
    children = [_frozen(child, below, least, depth + 1) for child, below in kept]
    rest = sum(below.value for below in node.children.values()) - sum(child.value for child in children)
    if rest:
        children.append(Node(SMALLER, rest))
    # What has no stack is last: it is large, and says nothing.
    return Node(name, node.value, tuple(sorted(children, key=lambda one: (one.name == ANY_TASK, -one.value, one.name))))


def tree(profile: Profile, name: str) -> Node:
    """All stacks from the outermost frame; frames that weigh little become one each where they are."""
    root = _Growing()
    for path, ns in by_path(profile.entries, comm=True).items():
        node = root
        node.value += ns
        for frame in path:
            node = node.children.setdefault(frame, _Growing())
            node.value += ns
    return _frozen(name, root, _least(root), 0)


def as_data(node: Node) -> Mapping[str, Any]:
    """The tree as d3-flame-graph reads it."""
    found: dict[str, Any] = {"name": node.name, "value": node.value}
    if node.children:
        found["children"] = [as_data(child) for child in node.children]
    return found


def stacks(profile: Profile, most: int) -> list[tuple[tuple[str, ...], int]]:
    """The heaviest stacks, outermost frame first."""
    return sorted(by_path(profile.entries, comm=True).items(), key=lambda item: (-item[1], item[0]))[:most]
