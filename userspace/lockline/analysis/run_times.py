# SPDX-License-Identifier: GPL-2.0-or-later
"""Code that language run times compile, and why it has no names (docs/futex.md)."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lockline.recording import rows

_PYTHON = re.compile(r"python3\.(\d+)")
# The first CPython that writes a map: 3.12.
_PYTHON_WITH_MAP = 12
_SWITCHES = {
    "Java": (
        "start it with -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, or with the"
        " first of them and run `jcmd {} Compiler.perfmap` before the recording ends"
    ),
    "Node": "start it with --perf-basic-prof",
    ".NET": "start it with DOTNET_PerfMapEnabled=1 (before .NET 6: COMPlus_PerfMapEnabled=1)",
    "Python": "start it with -X perf",
}


def _run_time(modules: Iterable[str]) -> str:
    names = {module.rsplit("/", 1)[-1] for module in modules}
    if "libjvm.so" in names:
        return "Java"
    if "libcoreclr.so" in names:
        return ".NET"
    return "Node" if any(name in ("node", "nodejs") or name.startswith("libnode.so") for name in names) else ""


def _python_without_names(frames: Sequence[rows.Frame]) -> bool:
    """Whether a CPython that could name its functions runs some, and has named none."""
    if any(frame.symbol.startswith("py::") for frame in frames):
        return False
    versions = (_PYTHON.search(frame.module) for frame in frames if "_PyEval_EvalFrame" in frame.symbol)
    return any(version and int(version[1]) >= _PYTHON_WITH_MAP for version in versions)


def without_names(processes: Mapping[int, Sequence[rows.Frame]]) -> dict[str, tuple[int, ...]]:
    """Processes whose run time could name code that has none in these frames, by what switches it on.

    The switch is text in which {} stands for the first of these processes' ids.
    """
    found: defaultdict[str, list[int]] = defaultdict(list)
    for tgid, frames in sorted(processes.items()):
        made = any(not frame.symbol and ("[anon" in frame.module or "memfd:" in frame.module) for frame in frames)
        language = _run_time(frame.module for frame in frames) if made else ""
        if not language and _python_without_names(frames):
            language = "Python"
        if language:
            found[language].append(tgid)
    return {language: tuple(tgids) for language, tgids in found.items()}


def switch_on(language: str, tgids: Sequence[int]) -> str:
    """How to have the run time write names; language: a key of without_names()."""
    return _SWITCHES[language].format(tgids[0])
