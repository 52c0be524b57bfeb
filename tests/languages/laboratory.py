# SPDX-License-Identifier: GPL-2.0-or-later
"""What `record --futex` makes of programs in nine languages: `make lab-languages`; PARTS="reach spins" for some tables.

Each is built from its source here, and recorded from its begin to its end: contended, idle, and with the lock split.
The program's own counters are the truth.  The same for locks of libraries in C++.  Then locks that spin before they
sleep; what part of the sampled stacks reaches the program's own function; other kinds of waiting: the finding that
each must have, or none.
What has no compiler here is left out, and said to be.  Exit code 1: a finding is missing, or one too many.
"""

import argparse
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
sys.path[:0] = [str(HERE.parents[1] / "userspace"), str(HERE.parent)]

from jvms import JAVA_COMPILERS, jvms  # noqa: E402 - found by the line above
from lockline.analysis.user_space.futex import read_futexes  # noqa: E402
from lockline.analysis.user_space.futex_waits import LOCK  # noqa: E402
from lockline.recording import user_rows  # noqa: E402
from lockline.recording.reader import open_recording  # noqa: E402

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
    own: tuple[str, ...] = ("under_mutex", "load", "threads", "main::{lambda")


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
        ("java", "-cp", "{}", "Threads"),
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


_FLAGS = "pkg-config --cflags --libs"
_PROGRAM = "g++ -O2 -std=c++20 -fPIC -pthread"
# Locks of libraries, by the package of pkg-config that they need.
MAKES = {
    package: Language(
        name,
        "pkg-config",
        (
            *("sh", "-c"),
            f"{_PROGRAM} -DMAKE={name.upper()} {HERE}/makes.cc -o {{}}/makes_{name} $({_FLAGS} {package})",
        ),
        (f"{{}}/makes_{name}",),
        own=("under_lock", "std::thread::_State_impl"),
    )
    for name, package in {
        "absl": "absl_synchronization",
        "tbb": "tbb",
        "Qt": "Qt5Core",
        "glib": "glib-2.0",
    }.items()
}


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
        {
            "semaphore": "user-lock",
            "atomic": "user-lock",
            "shared": "user-lock",
            "once": "user-lock",
            "static": "user-lock",
            "barrier": "barrier-imbalance",
        },
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
        {"readwrite": "user-lock", "scheduled": "", "behind": "", "full": "user-lock"},
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


# Locks that spin before they sleep, by mode.
_CARGO = ("cargo", "build", "--quiet", "--release", "--manifest-path", f"{HERE}/spins/Cargo.toml", "--target-dir", "{}")
SPINS = (
    Kinds(
        "C++20 semaphore",
        "g++",
        ("g++", "-O2", "-std=c++20", "-pthread", f"{HERE}/spins.cc", "-o", "{}/spins_cc"),
        ("{}/spins_cc",),
        {"semaphore": "user-lock"},
    ),
    Kinds(
        "OpenMP of LLVM",
        "clang",
        ("clang", "-O2", "-fopenmp", f"{HERE}/spins_openmp.c", "-o", "{}/spins_llvm"),
        ("{}/spins_llvm",),
        {"critical": "user-lock", "lock": "user-lock", "barrier": ""},
    ),
    Kinds(
        "the same, OMP_WAIT_POLICY=passive",
        "clang",
        (),
        ("env", "OMP_WAIT_POLICY=passive", "{}/spins_llvm"),
        {"critical": "user-lock", "barrier": ""},
    ),
    Kinds("parking_lot", "cargo", _CARGO, ("{}/release/spins",), {"mutex": "user-lock"}),
    Kinds("crossbeam", "cargo", (), ("{}/release/spins",), {"channel": "user-lock"}),
)


@dataclass(frozen=True)
class Reach:
    """Programs whose stacks are to reach their own functions.

    options: of `record`.  warm: recorded from 3 s after its begin on.
    """

    name: str
    needs: str
    build: tuple[str, ...]
    run: tuple[str, ...]
    modes: tuple[str, ...]
    own: tuple[str, ...]
    options: tuple[str, ...] = ()
    warm: bool = False


REACH = (
    Reach(
        "C, without symbols",
        "gcc",
        ("gcc", "-O2", "-pthread", "-s", "-rdynamic", f"{HERE}/threads.c", "-o", "{}/c_stripped"),
        ("{}/c_stripped",),
        ("contended",),
        ("main", "start_thread"),
    ),
    Reach("Go, --go", "go", LANGUAGES[4].build, ("{}/go",), ("contended",), ("main.",), options=("--go",)),
    *(
        Reach(
            f"Java {version}, {switch or 'no switch'}",
            "javac",
            ("javac", "--release", "17", "-d", "{}", f"{HERE}/Threads.java"),
            (str(java), *([switch] if switch else ()), "-cp", "{}", "Threads"),
            ("monitor", "lock"),
            ("Threads.",),
            warm=True,
        )
        for version, java in jvms().items()
        for switch in ("", *JAVA_COMPILERS.values())
    ),
    Reach("Ruby", "ruby", (), ("ruby", f"{HERE}/threads.rb"), ("contended", "mutex"), ("rb_", "ruby_")),
    Reach(
        "Node.js, both switches",
        "node",
        (),
        (
            *("node", "--perf-basic-prof", "--interpreted-frames-native-stack", "--no-logfile-per-isolate"),
            *("--logfile={}/v8.log", f"{HERE}/threads.js"),
        ),
        ("contended",),
        ("underMutex",),
        warm=True,
    ),
)


def counters(text: str) -> dict[str, int]:
    """The program's own, of the lines "name number"."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def record(command: list[str], path: Path, options: Sequence[str] = ()) -> dict[str, int]:
    """Records a program from begin to end, and returns its counters."""
    record_it = [str(LOCKLINE), "record", "--futex", *options, "-o", str(path), "--", *command]
    with subprocess.Popen(
        record_it, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while (line := process.stdout.readline()) and "ready" not in line:
            pass
        time.sleep(SECONDS)
        out, _ = process.communicate("\n")
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return counters(out)


def record_warm(reached: Reach, command: list[str], path: Path) -> dict[str, int]:
    """Records a program that has run for a while."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        while (line := program.stdout.readline()) and "ready" not in line:
            pass
        time.sleep(SECONDS)
        pid = str(program.pid)
        record_it = [str(LOCKLINE), "record", "--futex", "-p", pid, "-d", str(SECONDS), "-o", str(path)]
        process = subprocess.run([*record_it, *reached.options], stderr=subprocess.DEVNULL, check=False)
        out, _ = program.communicate("\n")
    if process.returncode:
        raise SystemExit(f"{' '.join(record_it)}: exit code {process.returncode}")
    return counters(out)


def report(path: Path) -> dict[str, Any]:
    """The report of a recording."""
    command = [str(LOCKLINE), "report", "--format", "json", str(path)]
    value = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert isinstance(value, dict)
    return value


def reach(path: Path, own: tuple[str, ...]) -> tuple[int, float]:
    """Sampled stacks of locks, and what part of them has one of the program's own functions."""
    with open_recording(path) as recording:
        found = read_futexes(recording, {})
        locks = [one for one in found.futexes if one.nature == LOCK] if found is not None else []
        words = {word for one in locks for word in (one.futex.id, *one.words)}
        samples = [
            sample
            for sample in recording.table(user_rows.FutexSample)
            if sample.futex in words and sample.role != "owner" and sample.stack
        ]
        stacks = recording.stacks(sorted({sample.stack for sample in samples}))
    every = sum(sample.samples for sample in samples)
    there = sum(
        sample.samples
        for sample in samples
        if any(name in frame.symbol for frame in stacks.get(sample.stack, ()) for name in own)
    )
    return every, there / every if every else 0.0


def reach_row(one: Reach, mode: str, path: Path) -> str:
    """One line of the table of stacks."""
    every, part = reach(path, one.own)
    return f"{one.name:44} {mode:10} {every:6} {part:6.0%}  {', '.join(one.own)}"


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
    deep = f"{reach(path, language.own)[1]:.0%}" if mode in language.contended else "-"
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


def spin_row(kinds: Kinds, mode: str, path: Path, truth: dict[str, int]) -> str:
    """One line of the table of locks that spin: of its heaviest row, whatever it is taken for."""
    found = report(path)
    heaviest = max(found["futexes"]["futexes"], key=lambda futex: int(futex["wait_ns"]))
    rules = sorted({one["rule"] for one in found["findings"]} & USER_RULES)
    waited, own = heaviest["wait_ns"], truth["wait_ns"]
    return (
        f"{kinds.name:34} {mode:10} {','.join(rules) or '-':12} {waited / 1e9:7.2f} s of {own / 1e9:7.2f} s"
        f" {waited / own - 1:+7.1%}  {heaviest['nature']}: {heaviest['make'] or heaviest['name'] or '-'}"
    )


def build_and_record(
    program: Language | Kinds | Reach, modes: Sequence[str], directory: str
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
        if isinstance(program, Reach) and program.warm:
            yield mode, path, record_warm(program, [*command, mode], path)
        else:
            options = program.options if isinstance(program, Reach) else ()
            yield mode, path, record([*command, mode], path, options)


def tell_languages(directory: str) -> int:
    """Prints the first table; how many are wrong is not judged."""
    print(f"{'':7} {'mode':10} {'finding':12} {'locks':>10} {'off':>7} {'reach':>6}  heaviest lock")
    for language in LANGUAGES:
        for mode, path, truth in build_and_record(language, (*language.contended, "idle", "split"), directory):
            print(row(language, mode, path, truth), flush=True)
    return 0


def tell_makes(directory: str) -> int:
    """Prints the same of locks of libraries."""
    print(f"\n{'':7} {'mode':10} {'finding':12} {'locks':>10} {'off':>7} {'reach':>6}  heaviest lock")
    for package, make in MAKES.items():
        if (
            shutil.which("pkg-config") is None
            or subprocess.run(["pkg-config", "--exists", package], check=False).returncode
        ):
            print(f"{make.name:7} no {package} here")
            continue
        for mode, path, truth in build_and_record(make, (*make.contended, "idle", "split"), directory):
            print(row(make, mode, path, truth), flush=True)
    return 0


def tell_spins(directory: str) -> int:
    """Prints the sums of locks that spin, beside the programs' own."""
    print(f"\n{'':34} {'mode':10} {'finding':12} {'heaviest':>9} of {'counted':>9} {'off':>7}  what it is")
    for kinds in SPINS:
        for mode, path, truth in build_and_record(kinds, tuple(kinds.modes), directory):
            print(spin_row(kinds, mode, path, truth), flush=True)
    return 0


def tell_reach(directory: str) -> int:
    """Prints what part of the stacks reaches the programs' functions."""
    print(f"\n{'':44} {'mode':10} {'stacks':>6} {'reach':>6}  of these functions")
    plain = [Reach(one.name, one.needs, one.build, one.run, one.contended, one.own) for one in LANGUAGES]
    for reached in (*(one for one in plain if one.name not in ("Go", "Java")), *REACH):
        for mode, path, _ in build_and_record(reached, reached.modes, directory):
            print(reach_row(reached, mode, path), flush=True)
    return 0


def tell_kinds(directory: str) -> int:
    """Prints the last table; how many findings are missing, or too many."""
    wrong = 0
    print(f"\n{'':7} {'mode':10} {'finding':18} {'':28} heaviest word")
    for kinds in KINDS:
        for mode, path, _ in build_and_record(kinds, tuple(kinds.modes), directory):
            line, right = kind_row(kinds, mode, path)
            wrong += not right
            print(line, flush=True)
    return wrong


PARTS = {
    "languages": tell_languages,
    "makes": tell_makes,
    "spins": tell_spins,
    "reach": tell_reach,
    "kinds": tell_kinds,
}


def main() -> int:
    """Prints the tables; 1: a finding is missing, or one too many."""
    parser = argparse.ArgumentParser(description="What record --futex makes of locks in nine languages.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="these tables alone")
    parts = parser.parse_args().parts or list(PARTS)
    with tempfile.TemporaryDirectory() as directory:
        wrong = sum(PARTS[part](directory) for part in parts)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
