# SPDX-License-Identifier: GPL-2.0-or-later
"""What is known of the kernel's locks: what each protects, what contends it, how to confirm it, what helps."""

import json
import re
from collections.abc import Iterable
from dataclasses import field
from functools import cache
from pathlib import Path

from lockline.base.values import dataclass

# A lock inside a lock is explained by the outer one, whose name stands before it.
_INNER = (".wait_lock", ".rtmutex.wait_lock", ".base.rtmutex.wait_lock", ".wait.lock", ".waiters.lock")
# Members that bear a short prefix of their struct, as in i_rwsem of struct inode: other structs have none of the name.
_PREFIXED = re.compile("[a-z]{1,2}_")


@dataclass(frozen=True)
class KnownLock:
    """One kind of lock, under all names that lockline gives it.

    only_in: names that only some of the kernels have by which the atlas was checked.  module: what must be loaded.
    where: parts of the names of functions that wait, and which of `helps` is for them.  on: the same by the file
    system of the inode that the lock is of.
    """

    names: tuple[str, ...]
    title: str
    kind: str
    protects: str
    contended_by: tuple[str, ...]
    confirm: str
    helps: tuple[str, ...]
    sources: tuple[str, ...]
    note: str = ""
    module: str = ""
    only_in: dict[str, tuple[str, ...]] = field(default_factory=dict)
    where: dict[str, int] = field(default_factory=dict)
    on: dict[str, int] = field(default_factory=dict)

    def speaks_of(self, functions: Iterable[str]) -> bool:
        """Whether what helps is for waits in one of these functions, or for any."""
        return not self.where or any(part in name for name in functions for part in self.where)

    def where_in(self, functions: Iterable[str]) -> bool:
        """Whether something that helps is for these functions, and not for any."""
        return bool(self.where) and self.speaks_of(functions)

    def helps_in(self, functions: Iterable[str], instance: str = "") -> tuple[str, ...]:
        """What helps, what is for waits in these functions first; before that, what is for the lock's file system."""
        system = instance.rpartition(" ")[2]
        fitting = [self.helps[self.on[system]]] if system in self.on else []
        fitting += [self.helps[index] for name in functions for part, index in self.where.items() if part in name]
        return tuple(dict.fromkeys((*fitting, *self.helps)))


@dataclass(frozen=True)
class Atlas:
    """All known locks, and the kernels in which their names were looked up."""

    kernels: tuple[str, ...]
    locks: tuple[KnownLock, ...]

    def find(self, name: str) -> KnownLock | None:
        """The lock of a name as reports print it, an inner lock by its outer one; None: not in the atlas."""
        by_name = {known: lock for lock in self.locks for known in lock.names}
        name = name.split("[", 1)[0].split(" (", 1)[0].strip()
        if name in by_name:
            return by_name[name]
        for inner in _INNER:
            if name.endswith(inner) and name.removesuffix(inner) in by_name:
                return by_name[name.removesuffix(inner)]
        # People say mmap_lock; the name's type goes with it only where members of two types are called so.
        members = {id(lock): lock for known, lock in by_name.items() if known.rsplit(".", 1)[-1] == name}
        return next(iter(members.values())) if len(members) == 1 else self._embedded(name)

    def _embedded(self, name: str) -> KnownLock | None:
        """The lock of a struct inside another one: ext4_inode_info.vfs_inode.i_rwsem is inode.i_rwsem."""
        parts = name.split(".")
        for start in range(2, len(parts)):
            outer, path = parts[start - 1], ".".join(parts[start:])
            fitting = [
                (known.partition(".")[0], lock)
                for lock in self.locks
                for known in lock.names
                if known.partition(".")[2] == path
            ]
            # A member is often called like its type: vfs_inode.
            alike = [lock for kind, lock in fitting if outer.endswith(kind)]
            found = alike or [lock for _, lock in fitting if _PREFIXED.match(path)]
            if found and all(lock is found[0] for lock in found):
                return found[0]
        return None

    def near(self, name: str) -> list[str]:
        """Up to five names that are spelled like this one, or hold it."""
        names = [known for lock in self.locks for known in lock.names]
        held = [known for known in names if name.lower() in known.lower()] if name else []

        import difflib

        def likeness(known: str) -> float:
            matcher = difflib.SequenceMatcher(None, name, known)
            short = difflib.SequenceMatcher(None, name, known.rsplit(".", 1)[-1])
            return max(matcher.ratio(), short.ratio())

        alike = sorted((known for known in names if likeness(known) > 0.7), key=likeness, reverse=True)
        return list(dict.fromkeys(held + alike))[:5]


def _known_lock(entry: dict[str, object]) -> KnownLock:
    texts = {key: value for key, value in entry.items() if isinstance(value, str)}
    lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
    only, where, on = entry.get("only_in", {}), entry.get("where", {}), entry.get("on", {})
    assert isinstance(only, dict)
    assert isinstance(where, dict)
    assert isinstance(on, dict)
    only_in = {name: tuple(kernels) for name, kernels in only.items()}
    return KnownLock(**texts, **lists, only_in=only_in, where=where, on=on)  # type: ignore[arg-type]


@cache
def atlas() -> Atlas:
    """The atlas of the package: locks.json."""
    document = json.loads(Path(__file__).with_name("locks.json").read_text(encoding="utf-8"))
    return Atlas(tuple(document["kernels"]), tuple(map(_known_lock, document["locks"])))
