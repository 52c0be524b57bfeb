# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording for the Firefox Profiler: stacks weighted by wait time, and long waits as markers, by task.

The format is the processed one, of the version that Mozilla's crate fxprof-processed-profile 0.8 writes; the profiler
brings files of older versions up to date.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from lockline.analysis.model import OutlierWait, Report
from lockline.base.text import Style, clean
from lockline.export.profile import Entry, Profile
from lockline.export.stacks import by_path, to_json

# Tasks with a track of their own, those that wait longest; the others share one.
TRACKS = 100

# docs-developer/CHANGELOG-formats.md of github.com/firefox-devtools/profiler.
_GECKO_VERSION, _VERSION = 24, 55
_INTERVAL = 1  # of a marker's phase

_FIELDS = (("lock", "Lock"), ("kind", "Kind"), ("cpu", "CPU"))


class _Task(NamedTuple):
    tgid: int
    tid: int
    comm: str


_OTHERS = _Task(0, 0, "other tasks")


class _Tables:
    """Strings, functions and stacks of one thread, each once."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.functions: dict[int, int] = {}
        self.stacks: dict[tuple[int | None, int], int] = {}

    def text(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def stack(self, names: Sequence[str]) -> int | None:
        """The stack's number; names: outermost first."""
        found: int | None = None
        for name in names:
            function = self.functions.setdefault(self.text(name), len(self.functions))
            found = self.stacks.setdefault((found, function), len(self.stacks))
        return found


def _columns(length: int, **columns: object) -> dict[str, Any]:
    """A table; a column that is no list holds the same value in all rows."""
    return {"length": length} | {
        name: value if isinstance(value, list) else [value] * length for name, value in columns.items()
    }


def _markers(waits: Sequence[OutlierWait], tables: _Tables, window_begin_ns: int, style: Style) -> dict[str, Any]:
    data = [
        {
            "type": "LockWait",
            "lock": tables.text(clean(wait.lock, style)),
            "kind": tables.text(clean(wait.kind, style)),
            "cpu": tables.text(str(wait.cpu)),
        }
        for wait in waits
    ]
    begins = [(wait.begin_ns - window_begin_ns) / 1e6 for wait in waits]
    ends = [(wait.begin_ns + wait.wait_ns - window_begin_ns) / 1e6 for wait in waits]
    name = [tables.text("waits for a lock")] * len(waits)
    return _columns(len(waits), data=data, name=name, startTime=begins, endTime=ends, phase=_INTERVAL, category=0)


def _thread(
    task: _Task, process: str, entries: Sequence[Entry], waits: Sequence[OutlierWait], report: Report, style: Style
) -> dict[str, Any]:
    tables = _Tables()
    paths = by_path(entries, comm=False)
    stacks = [tables.stack(names) for names in paths]
    markers = _markers(waits, tables, report.window.begin_ns, style)
    # Samples stand for waits of the whole recording: they have no time of their own, and are spread over it.
    step = report.window.duration_ns / 1e6 / max(1, len(stacks))
    deltas = [step if index else 0.0 for index in range(len(stacks))]
    weights = [ns / 1e6 for ns in paths.values()]
    functions, keys = len(tables.functions), list(tables.stacks)
    return {
        "processName": process,
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": task.comm,
        "isMainThread": task.tid == task.tgid,
        "pid": str(task.tgid),
        "tid": str(task.tid),
        "showMarkersInTimeline": bool(waits),
        "samples": _columns(len(stacks), stack=stacks, timeDeltas=deltas, weight=weights, threadCPUDelta=0)
        | {"weightType": "tracing-ms"},
        "markers": markers,
        "stackTable": _columns(
            len(keys),
            prefix=[prefix for prefix, _ in keys],
            frame=[function for _, function in keys],
        ),
        "frameTable": _columns(
            functions,
            address=-1,
            inlineDepth=0,
            category=0,
            subcategory=0,
            func=list(range(functions)),
            nativeSymbol=None,
            innerWindowID=0,
            line=None,
            column=None,
        ),
        "funcTable": _columns(
            functions,
            name=list(tables.functions),
            isJS=False,
            relevantForJS=False,
            resource=-1,
            fileName=None,
            lineNumber=None,
            columnNumber=None,
        ),
        "resourceTable": _columns(0, lib=[], name=[], host=[], type=[]),
        "nativeSymbols": _columns(0, address=[], functionSize=[], libIndex=[], name=[]),
        "stringArray": list(tables.strings),
    }


def encode(profile: Profile, report: Report, style: Style) -> bytes:
    """The file; report: of the same waits, for the long ones."""
    entries: defaultdict[_Task, list[Entry]] = defaultdict(list)
    weight: defaultdict[_Task, int] = defaultdict(int)
    for entry in profile.entries:
        task = _Task(entry.tgid, entry.tid, entry.comm) if entry.comm else _OTHERS
        entries[task].append(entry)
        weight[task] += entry.ns
    waits: defaultdict[_Task, list[OutlierWait]] = defaultdict(list)
    for wait in sorted(report.outliers, key=lambda wait: wait.begin_ns):
        waits[_Task(wait.task.tgid, wait.task.tid, clean(wait.task.comm, style))].append(wait)
    ranked = sorted({*entries, *waits} - {_OTHERS}, key=lambda task: (-weight[task], task))
    for task in ranked[TRACKS:]:
        entries[_OTHERS] += entries.pop(task, [])
        waits[_OTHERS] += waits.pop(task, [])
    shown = [*ranked[:TRACKS], *([_OTHERS] if entries.get(_OTHERS) or waits.get(_OTHERS) else [])]
    # A process is called as its first thread, or as any that is shown.
    processes = {task.tgid: task.comm for task in reversed(shown)}
    processes |= {task.tgid: task.comm for task in shown if task.tid == task.tgid}
    window = report.window
    return to_json(
        {
            "meta": {
                "interval": 1,
                "startTime": profile.begin_unix_ns / 1e6,
                "processType": 0,
                "product": f"lockline, {profile.name}, {profile.side}",
                "version": _GECKO_VERSION,
                "preprocessedProfileVersion": _VERSION,
                "symbolicated": True,
                "debug": False,
                "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
                "markerSchema": [
                    {
                        "name": "LockWait",
                        "tooltipLabel": "waits for {marker.data.lock}",
                        "tableLabel": "{marker.data.lock} ({marker.data.kind})",
                        "chartLabel": "{marker.data.lock}",
                        "display": ["marker-chart", "marker-table"],
                        "fields": [
                            {"key": key, "label": label, "format": "unique-string", "searchable": True}
                            for key, label in _FIELDS
                        ],
                    }
                ],
                "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
                "extensions": _columns(0, baseURL=[], id=[], name=[]),
                "pausedRanges": [],
                "usesOnlyOneStackType": True,
                "sourceCodeIsNotOnSearchfox": True,
                "profilingStartTime": 0,
                "profilingEndTime": window.duration_ns / 1e6,
            },
            "libs": [],
            "pages": [],
            "counters": [],
            "profilerOverhead": [],
            "threads": [
                _thread(task, processes[task.tgid], entries.get(task, ()), waits.get(task, ()), report, style)
                for task in shown
            ],
        }
    )
