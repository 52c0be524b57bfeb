# SPDX-License-Identifier: GPL-2.0-or-later
"""Takes the names of hosts, commands and control groups out of a report."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from lockline.analysis.findings import Process, Task, UserLock
from lockline.analysis.model import CgroupWaits, Host, Report, Window
from lockline.recording.rows import Container

# Fields that hold such a name, whatever they are a part of.
_COMMANDS = frozenset(("comm", "comms", "target_comm", "owner_comm", "from_comm", "command"))
_CGROUPS = frozenset(("cgroup",))
_FILES = frozenset(("path", "file", "object"))
_HOSTS = frozenset(("hostname", "boot_id"))
_CONTAINERS = frozenset(("container", "pod", "namespace", "pod_uid", "image", "unit", "slice"))
_KINDS = {"command": _COMMANDS, "group": _CGROUPS, "file": _FILES, "host": _HOSTS, "container": _CONTAINERS}
# What stands for nobody in particular.
_NOBODY = frozenset(("", "?", "[readers]"))


class Redactor:
    """The same name is replaced by the same word everywhere."""

    def __init__(self) -> None:
        self._words: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()

    def _word(self, kind: str, name: str) -> str:
        if name in _NOBODY:
            return name
        if (kind, name) not in self._words:
            self._counts[kind] += 1
            self._words[kind, name] = f"{kind}-{self._counts[kind]}"
        return self._words[kind, name]

    def _field(self, name: str, value: Any) -> Any:
        kind = next((kind for kind, names in _KINDS.items() if name in names), "")
        if kind and isinstance(value, str):
            return self._word(kind, value)
        if kind and isinstance(value, tuple) and all(isinstance(one, str) for one in value):
            return tuple(self._word(kind, one) for one in value)
        return self.inside(value)

    def inside(self, value: Any) -> Any:
        """The value with all names in it replaced."""
        if isinstance(value, (str, int, float, bytes, type(None))):
            return value
        if isinstance(value, Host):
            value = replace(value, name=None if value.name is None else self._word("host", value.name), facts={})
        if isinstance(value, (CgroupWaits, Container)):
            value = value._replace(name="") if isinstance(value, Container) else replace(value, name="")
        if isinstance(value, Window):
            # They hold more names.
            value = replace(value, command_line=None, filter=None)
        if isinstance(value, (Task, Process)):
            return replace(value, comm=self._word("command", value.comm))
        if isinstance(value, UserLock):
            return replace(value, mapping=self._word("file", value.mapping))
        if is_dataclass(value) and not isinstance(value, type):
            changed = {one.name: self._field(one.name, getattr(value, one.name)) for one in fields(value)}
            return replace(value, **changed)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            made: Any = type(value)
            return made(*(self._field(name, one) for name, one in zip(value._fields, value, strict=True)))
        if isinstance(value, tuple):
            return tuple(self.inside(one) for one in value)
        if isinstance(value, Mapping):
            return {key: self._field(str(key), one) for key, one in value.items()}
        return value

    def report(self, report: Report) -> Report:
        """The report without names."""
        found: Report = self.inside(report)
        return found
