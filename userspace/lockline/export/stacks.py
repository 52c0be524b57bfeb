# SPDX-License-Identifier: GPL-2.0-or-later
"""A profile as folded stacks, and for speedscope.

In these formats a lock is the innermost frame of its stacks: they have no labels.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from lockline.export.profile import Entry, Profile

# In place of a command, of waits that no sample stands for.
ANY_TASK = "[any task]"

# Locks with a profile of their own.
_LOCKS = 100


def path(entry: Entry, comm: bool) -> tuple[str, ...]:
    """The names of a stack, outermost first: the command, the functions, the lock."""
    task = (entry.comm or ANY_TASK,) if comm else ()
    return (*task, *(code.name for code in reversed(entry.stack)), f"{entry.lock} ({entry.kind})")


def by_path(entries: Sequence[Entry], comm: bool) -> dict[tuple[str, ...], int]:
    """Wait time by path(), in ns."""
    sums: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for entry in entries:
        sums[path(entry, comm)] += entry.ns
    return {names: ns for names, ns in sorted(sums.items()) if ns}


def folded(profile: Profile) -> bytes:
    """One line for each stack: frames from the outermost, then wait time in ns."""
    lines = (
        ";".join(name.replace(";", ":") for name in names) + f" {ns}\n"
        for names, ns in by_path(profile.entries, comm=True).items()
    )
    return "".join(lines).encode("utf-8", "replace")


def to_json(document: Any) -> bytes:
    """A document in ASCII, on one line."""
    return (json.dumps(document, separators=(",", ":"), ensure_ascii=True) + "\n").encode()


def speedscope(profile: Profile) -> bytes:
    """All stacks as one profile, and those of each lock as one of its own, heaviest first."""
    frames: dict[str, int] = {}
    by_lock: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in profile.entries:
        by_lock[f"{entry.lock} ({entry.kind})"].append(entry)

    def sampled(name: str, entries: Sequence[Entry]) -> dict[str, Any]:
        paths = by_path(entries, comm=True)
        samples = [[frames.setdefault(frame, len(frames)) for frame in names] for names in paths]
        total = sum(paths.values())
        return {
            "type": "sampled",
            "name": name,
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": total,
            "samples": samples,
            "weights": list(paths.values()),
        }

    heaviest = sorted(by_lock.items(), key=lambda item: (-sum(entry.ns for entry in item[1]), item[0]))
    profiles = [sampled(f"all locks, {profile.side}", profile.entries)]
    if len(heaviest) > 1:
        profiles += [sampled(name, entries) for name, entries in heaviest[:_LOCKS]]
    return to_json(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "lockline",
            "name": f"{profile.name}, {profile.side}",
            "activeProfileIndex": 0,
            "shared": {"frames": [{"name": name} for name in frames]},
            "profiles": profiles,
        }
    )
