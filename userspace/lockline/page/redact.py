# SPDX-License-Identifier: GPL-2.0-or-later
"""Takes the names of hosts, commands and control groups out of a report."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from lockline.analysis.findings import Process, Task, Text, UserLock
from lockline.analysis.model import CgroupWaits, Host, Report, Window
from lockline.analysis.waitgraph import Flow
from lockline.fleet.compare import Spread
from lockline.fleet.model import FleetReport, Group, GroupEffect
from lockline.investigation.model import Investigation, Step, Target
from lockline.investigation.sleeps import Blocked, OwnLock
from lockline.recording.rows import Container

# Fields that hold such a name, whatever they are a part of.
_COMMANDS = frozenset(("comm", "comms", "target_comm", "owner_comm", "from_comm", "holder_comm", "by_comm", "command"))
_CGROUPS = frozenset(("cgroup", "throttled_group", "frozen_group"))
_FILES = frozenset(("path", "file", "object", "mapping", "directory"))
_HOSTS = frozenset(("host", "hostname", "boot_id"))
_CONTAINERS = frozenset(("container", "pod", "namespace", "pod_uid", "image", "unit", "slice"))
_KINDS = {"command": _COMMANDS, "group": _CGROUPS, "file": _FILES, "host": _HOSTS, "container": _CONTAINERS}
# Options of the collector that name somebody.
_OPTIONS = {"-G": "group", "--cgroup": "group", "--container": "container", "--pod": "container"}
# What stands for nobody in particular.
_NOBODY = frozenset(("", "?", "[readers]"))


class Redactor:
    """The same name is replaced by the same word everywhere."""

    def __init__(self) -> None:
        self._words: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()
        # In the words of an investigation about somebody.
        self._told: dict[str, str] = {}

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
        if isinstance(value, Target):
            return self._target(value)
        if isinstance(value, Text):
            return replace(value, text=self._without_target(value.text))
        if isinstance(value, Flow):
            # Its names are keys, and no page shows it.
            return Flow()
        if isinstance(value, OwnLock) or (isinstance(value, Blocked) and value.kind == "file-lock"):
            value = replace(value, name=self._word("file", value.name))
        if isinstance(value, Step):
            # Options may name the target, and messages anybody.
            value = replace(value, options=(), message="left out" if value.message else "")
        if isinstance(value, Spread):
            return replace(value, worst=tuple((self._word("host", host), share) for host, share in value.worst))
        if isinstance(value, (Group, GroupEffect)) and value.by == "host":
            value = replace(value, value=self._word("host", value.value))
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

    def _without_target(self, text: str) -> str:
        for name, word in self._told.items():
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", word, text)
        return text

    def _target(self, target: Target) -> Target:
        for option, name in itertools.pairwise((*target.options, *target.asked)):
            if option in _OPTIONS and name:
                self._told[name] = self._word(_OPTIONS[option], name)
        return replace(target, options=(), asked=(), words=self._without_target(target.words))

    def host(self, name: str) -> str:
        """What stands for a host."""
        return self._word("host", name)

    def fleet(self, report: FleetReport) -> FleetReport:
        """A fleet's report without names; releases and roles stay."""
        found: FleetReport = self.inside(report)
        return found

    def investigation(self, known: Investigation) -> Investigation:
        """An investigation without names."""
        found: Investigation = self.inside(known)
        return found

    def report(self, report: Report) -> Report:
        """The report without names."""
        found: Report = self.inside(report)
        return found
