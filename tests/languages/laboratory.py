# SPDX-License-Identifier: GPL-2.0-or-later
"""What `record --futex` makes of programs in nine languages: `make lab-languages`.

Each is built from its source here, and recorded from its begin to its end: contended, idle, and with the lock split.
The program's own counters are the truth.  Then other kinds of waiting: the finding that each must have, or none.
What has no compiler here is left out, and said to be.  Exit code 1: a finding is missing, or one too many.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LOCKLINE = HERE.parents[1] / "build/bin/lockline"
SECONDS = 3
USER_RULES = {"user-lock", "gil-bound", "gvl-bound", "hot-monitor", "thundering-herd", "barrier-imbalance"}


@dataclass(frozen=True)
class Language:
    """A language: how it is built into a directory, how it is run there, and its modes; timed: it counts its waits.

    own: functions of the program; of Python, that of its interpreter that runs them.
    """

    name: str
    needs: str
    build: tuple[str, ...]
    run: tuple[str, ...]
    contended: tuple[str, ...] = ("contended",)
    timed: bool = True
    own: tuple[str, ...] = ("under_mutex", "load", "threads")


LANGUAGES = (
    Language(
        "C", "gcc", ("gcc", "-O2", "-pthread", f"{HERE}/threads.c", "-o", "{}/c"), ("{}/c",), own=("under_mutex", "run")
    ),
    Language("C++", "g++", ("g++", "-O2", "-std=c++17", "-pthread", f"{HERE}/threads.cc", "-o", "{}/cc"), ("{}/cc",)),
    Language("Rust", "rustc", ("rustc", "-O", f"{HERE}/threads.rs", "-o", "{}/rs"), ("{}/rs",)),
    Language(
        "Java",
        "javac",
        ("javac", "-d", "{}", f"{HERE}/Threads.java"),
        (
            *("java", "-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit"),
            *("-cp", "{}", "Threads"),
        ),
        ("monitor", "lock"),
        own=("Threads.",),
    ),
    Language("Go", "go", ("go", "build", "-o", "{}/go", f"{HERE}/threads.go"), ("{}/go",), timed=False, own=("main.",)),
    Language(
        "Python", "python3", (), (sys.executable, f"{HERE}/threads.py"), timed=False, own=("_PyEval_EvalFrameDefault",)
    ),
    Language(
        "C#",
        "dotnet",
        # Mono's compiler: a run time alone has none.
        ("mcs", "-optimize+", "-out:{}/Threads.exe", f"{HERE}/Threads.cs"),
        (
            *("env", "COMPlus_PerfMapEnabled=1", "DOTNET_PerfMapEnabled=1", "dotnet", "exec", "--runtimeconfig"),
            *(f"{HERE}/threads_net.json", "{}/Threads.exe"),
        ),
        contended=("contended", "pool"),
        own=("Threads::UnderMutex",),
    ),
)


@dataclass(frozen=True)
class Kinds:
    """Programs of other kinds of waiting: the rule that must speak by mode, '' none."""

    name: str
    needs: str
    build: tuple[str, ...]
    run: tuple[str, ...]
    modes: dict[str, str]


KINDS = (
    Kinds(
        "C",
        "gcc",
        ("gcc", "-O2", "-pthread", f"{HERE}/kinds.c", "-o", "{}/kinds_c"),
        ("{}/kinds_c",),
        {"rwlock": "user-lock", "barrier": "barrier-imbalance", "even": "", "herd": "thundering-herd", "queue": ""},
    ),
    Kinds(
        "C++",
        "g++",
        ("g++", "-O2", "-std=c++20", "-pthread", f"{HERE}/kinds.cc", "-o", "{}/kinds_cc"),
        ("{}/kinds_cc",),
        {"semaphore": "user-lock", "atomic": "user-lock", "shared": "user-lock", "barrier": "barrier-imbalance"},
    ),
    Kinds(
        "OpenMP",
        "gcc",
        ("gcc", "-O2", "-fopenmp", f"{HERE}/kinds_openmp.c", "-o", "{}/kinds_openmp"),
        ("{}/kinds_openmp",),
        {"critical": "user-lock", "barrier": "barrier-imbalance", "even": ""},
    ),
    Kinds(
        "Rust",
        "rustc",
        ("rustc", "-O", f"{HERE}/kinds.rs", "-o", "{}/kinds_rs"),
        ("{}/kinds_rs",),
        {"rwlock": "user-lock", "pool": ""},
    ),
    Kinds(
        "Java",
        "javac",
        ("javac", "-d", "{}", f"{HERE}/Kinds.java"),
        ("java", "-cp", "{}", "Kinds"),
        {"readwrite": "user-lock", "scheduled": "", "behind": ""},
    ),
    Kinds(
        "Python",
        "python3",
        (),
        (sys.executable, f"{HERE}/kinds.py"),
        {"processes": "user-lock", "lock": "user-lock", "pool": ""},
    ),
    Kinds(
        "Ruby",
        "ruby",
        (),
        ("ruby", f"{HERE}/threads.rb"),
        {"contended": "gvl-bound", "calls": "gvl-bound", "mutex": "user-lock", "idle": ""},
    ),
    Kinds("JS", "node", (), ("node", f"{HERE}/threads.js"), {"contended": "user-lock", "idle": ""}),
)


def counters(text: str) -> dict[str, int]:
    """The program's own, of the lines "name number"."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def record(command: list[str], path: Path, seconds: float = SECONDS) -> dict[str, int]:
    """Records a program from begin to end, and returns its counters."""
    record_it = [str(LOCKLINE), "record", "--futex", "-o", str(path), "--", *command]
    with subprocess.Popen(
        record_it, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while (line := process.stdout.readline()) and "ready" not in line:
            pass
        time.sleep(seconds)
        out, _ = process.communicate("\n")
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return counters(out)


def report(path: Path) -> dict[str, Any]:
    """The report of a recording."""
    command = [str(LOCKLINE), "report", "--format", "json", str(path)]
    value = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert isinstance(value, dict)
    return value


def reach(futexes: list[dict[str, Any]], own: tuple[str, ...]) -> float:
    """The share of the locks' sampled stacks that have one of the program's own functions."""
    stacks = [stack for futex in futexes if futex["nature"] == "lock" for stack in futex["stacks"]]
    every = sum(stack["samples"] for stack in stacks)
    there = sum(
        stack["samples"]
        for stack in stacks
        if any(name in (frame["symbol"] or "") for frame in stack["frames"] for name in own)
    )
    return there / every if every else 0.0


def row(language: Language, mode: str, path: Path, truth: dict[str, int]) -> str:
    """One line of the table."""
    found = report(path)
    futexes = found["futexes"]["futexes"]
    locks = [futex for futex in futexes if futex["nature"] == "lock"]
    heaviest = max(locks, key=lambda futex: int(futex["wait_ns"]), default=None)
    rules = sorted({one["rule"] for one in found["findings"]} & USER_RULES)
    waited = sum(futex["wait_ns"] for futex in locks)
    off = "-"
    if language.timed and mode in language.contended and truth.get("wait_ns"):
        off = f"{waited / truth['wait_ns'] - 1:+.1%}"
    name = "-" if heaviest is None else heaviest["make"] or heaviest["name"] or f"a word in {heaviest['object']}"
    deep = f"{reach(futexes, language.own):.0%}" if mode in language.contended else "-"
    return (
        f"{language.name:7} {mode:10} {','.join(rules) or '-':12} {waited / 1e9:8.2f} s {off:>7} {deep:>6}  {name[:50]}"
    )


def kind_row(kinds: Kinds, mode: str, path: Path) -> tuple[str, bool]:
    """One line of the second table, and whether the finding is as it must be."""
    found = report(path)
    rules = sorted({one["rule"] for one in found["findings"]} & USER_RULES)
    wanted = kinds.modes[mode]
    right = rules == ([wanted] if wanted else [])
    heaviest = max(found["futexes"]["futexes"], key=lambda futex: int(futex["wait_ns"]))
    what = f"{heaviest['nature']}: {heaviest['make'] or ''} {heaviest['name'] or ''}".strip()
    told = "right" if right else f"WRONG, wanted {wanted or 'none'}"
    return f"{kinds.name:7} {mode:10} {','.join(rules) or '-':18} {told:28} {what[:50]}", right


def build_and_record(
    program: Language | Kinds, modes: Sequence[str], directory: str
) -> Iterator[tuple[str, Path, dict[str, int]]]:
    """Each mode recorded, with the program's counters; nothing where its compiler is missing."""
    if shutil.which(program.needs) is None:
        print(f"{program.name:7} no {program.needs} here")
        return
    if program.build:
        subprocess.run([part.replace("{}", directory) for part in program.build], check=True)
    for mode in modes:
        path = Path(directory) / "recording.lockline"
        path.unlink(missing_ok=True)
        command = [part.replace("{}", directory) for part in program.run]
        yield mode, path, record([*command, mode], path)


def main() -> int:
    """Prints the tables; 1: a finding is missing, or one too many."""
    wrong = 0
    print(f"{'':7} {'mode':10} {'finding':12} {'locks':>10} {'off':>7} {'reach':>6}  heaviest lock")
    with tempfile.TemporaryDirectory() as directory:
        for language in LANGUAGES:
            for mode, path, truth in build_and_record(language, (*language.contended, "idle", "split"), directory):
                print(row(language, mode, path, truth), flush=True)
        print(f"\n{'':7} {'mode':10} {'finding':18} {'':28} heaviest word")
        for kinds in KINDS:
            for mode, path, _ in build_and_record(kinds, tuple(kinds.modes), directory):
                line, right = kind_row(kinds, mode, path)
                wrong += not right
                print(line, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
