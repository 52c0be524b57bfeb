# SPDX-License-Identifier: GPL-2.0-or-later
"""Code that language run times compile, and why it has no names (docs/futex.md)."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lockline.recording import rows

# What CPython calls its program's functions, where it names them (perf map support).
PYTHON_CODE = "py::"
# The module of code that a JVM made (userspace/collector/naming/naming_queue.c).
JAVA_CODE = "[java]"
_PYTHON = re.compile(r"python3\.(\d+)")
# Files that run programs: their functions are no program's own.  Programs are code without a file then, or extensions.
_INTERPRETERS = re.compile(
    r"(?:pypy|ruby|perl|php)[\d.]*|php-\w+[\d.]*|node(?:js)?|java|dotnet|mono(?:-\w+)?|sbcl|beam\.smp"
    # Behind Python's version stands how it was built: 3.7m, 3.13t (no GIL), 3.12d.
    r"|(?:lib)?python(?:\d[\d.]*[a-z]{0,2})?(?:-dbg)?(?:\.so[\d.]*)?|(?:lib)?lua(?:jit)?[\d.-]*(?:\.so[\d.]*)?"
    r"|lib(?:pypy[\d.]*-c|ruby[\w.-]*?|perl|php[\d.]*|node|jvm|coreclr|mono\w*-[\d.]+)\.so[\d.]*"
)
# The first CPython that writes a map: 3.12.
_PYTHON_WITH_MAP = 12
# The first JDK that writes one.  lockline names Java's functions without it, where it can read the JVM.
_JAVA_WITH_MAP = 17
# /usr/lib/jvm/java-11-openjdk-amd64/..., jdk-21.0.2/..., java-1.8.0-openjdk/...
_JAVA = re.compile(r"(?:java|jdk|jre|openjdk|temurin|zulu|corretto)-?(?:1\.)?(\d+)", re.IGNORECASE)
# Until JDK 8 libjvm.so lay below a folder for the architecture.
_JAVA_8 = re.compile(r"/lib/(?:amd64|aarch64|i386)/(?:server|client)/libjvm\.so")
# Needed only where that failed: then stacks go by frame pointers, and names come from a map alone.
_UNREAD = "lockline could not read this JVM by its own tables (it ended too soon, or is not HotSpot); "
_JCMD = (
    _UNREAD + "`jcmd {0} Compiler.perfmap` before the recording ends names its code, and with"
    " -XX:+PreserveFramePointer its callers too"
)
_AGENT = (
    _UNREAD + "an agent that writes /tmp/perf-{0}.map, as perf-map-agent does, names its code, and with"
    " -XX:+PreserveFramePointer its callers too"
)
_SWITCHES = {
    "Java": f"{_JCMD}; before JDK {_JAVA_WITH_MAP} an agent has to write that map, as perf-map-agent does",
    "Java with map": _JCMD,
    "Java without map": _AGENT,
    "Node": "start it with --perf-basic-prof --interpreted-frames-native-stack",
    ".NET": "start it with DOTNET_PerfMapEnabled=1 (before .NET 6: COMPlus_PerfMapEnabled=1)",
    "Mono": "start it as MONO_DEBUG=disable_omit_fp mono --jitmap",
    "Python": "start it with -X perf",
}


def is_interpreter(module: str) -> bool:
    """Whether a mapped file is an interpreter, or a run time that compiles: python3.11, libruby-3.1.so, libjvm.so."""
    return _INTERPRETERS.fullmatch(module.rpartition("/")[2].removesuffix(" (deleted)")) is not None


def _java(path: str) -> str:
    """What switches names on in a JVM, by the version that the path of its libjvm.so tells, if it does."""
    if _JAVA_8.search(path):
        return "Java without map"
    versions = [int(number) for number in _JAVA.findall(path)]
    if not versions:
        return "Java"
    return "Java with map" if versions[-1] >= _JAVA_WITH_MAP else "Java without map"


def _run_time(modules: Iterable[str]) -> str:
    files = tuple(modules)
    names = {module.rsplit("/", 1)[-1] for module in files}
    if "libjvm.so" in names:
        return _java(next(module for module in files if module.endswith("/libjvm.so") or module == "libjvm.so"))
    if "libcoreclr.so" in names:
        return ".NET"
    if any(name.startswith(("mono-", "libmono")) for name in names):
        return "Mono"
    return "Node" if any(name in ("node", "nodejs") or name.startswith("libnode.so") for name in names) else ""


# V8's code that interprets; with the second switch each function has a copy of its own.
_INTERPRETS = "Builtins_InterpreterEntryTrampoline"


def _python_without_names(frames: Sequence[rows.Frame]) -> bool:
    """Whether a CPython that could name its functions runs some, and has named none."""
    if any(frame.symbol.startswith(PYTHON_CODE) for frame in frames):
        return False
    versions = (_PYTHON.search(frame.module) for frame in frames if "_PyEval_EvalFrame" in frame.symbol)
    return any(version and int(version[1]) >= _PYTHON_WITH_MAP for version in versions)


def without_names(processes: Mapping[int, Sequence[rows.Frame]]) -> dict[str, tuple[int, ...]]:
    """Processes whose run time could name code that has none in these frames, by what switches it on.

    The switch is text in which {0} stands for the first of these processes' ids.
    """
    found: defaultdict[str, list[int]] = defaultdict(list)
    for tgid, frames in sorted(processes.items()):
        made = any(not frame.symbol and ("[anon" in frame.module or "memfd:" in frame.module) for frame in frames)
        made |= any(frame.symbol == _INTERPRETS for frame in frames)
        language = _run_time(frame.module for frame in frames) if made else ""
        if not language and _python_without_names(frames):
            language = "Python"
        if language:
            found[language].append(tgid)
    return {language: tuple(tgids) for language, tgids in found.items()}


def language_of(key: str) -> str:
    """The language that a key of without_names() is of."""
    return key.partition(" ")[0]


def switch_on(language: str, tgids: Sequence[int]) -> str:
    """How to have the run time write names; language: a key of without_names()."""
    return _SWITCHES[language].format(tgids[0])
