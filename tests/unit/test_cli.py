# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: exit codes, streams, and what it hands to the collector."""

import argparse
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import lockline
from lockline.analysis.selection import Selection
from lockline.base import collector
from lockline.base.errors import LocklineError
from lockline.cli import demo
from lockline.cli import help as help_texts
from lockline.cli import main as cli
from lockline.cli.common import add_wait_filter, wait_filter
from lockline.recording.reader import open_recording
from lockline.render.meanings import MEANINGS
from lockline.rules.report import make_report
from recording_generator import RecordingBuilder

TOP = Path(__file__).resolve().parents[2]
LAUNCHER = TOP / "scripts" / "lockline-launcher"

DOCTOR = {
    "schema": "lockline-doctor/1",
    "host": {"kernel_release": "6.12.0-lab", "clocksource": "tsc"},
    "probes": [
        {"signal": "lock waits", "state": "on", "source": "tp_btf", "reason": "both tracepoints are there", "lost": ""},
        {"signal": "spinlock first waiter", "state": "blind", "source": "", "reason": "native", "lost": "some waits"},
    ],
}


def make_script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PREFIX/lib, which no test changes: Python compiles it once."""
    directory = tmp_path_factory.mktemp("lib")
    package = directory / "lockline" / "lockline"
    shutil.copytree(TOP / "userspace" / "lockline", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TOP / "VERSION", package / "VERSION")
    return directory


@pytest.fixture
def installed(tmp_path: Path, library: Path) -> Path:
    """The launcher and the package as `make install` lays them out; gives PREFIX."""
    prefix = tmp_path / "usr"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").symlink_to(library)
    shutil.copy(LAUNCHER, prefix / "bin" / "lockline")
    return prefix


def run(program: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
    )


@pytest.mark.parametrize("place", ["clone", "installed"])
def test_the_launcher_finds_the_package(place: str, installed: Path, tmp_path: Path, example: Path) -> None:
    program = installed / "bin" / "lockline"
    if place == "clone":
        program = tmp_path / "clone" / "build" / "bin" / "lockline"
        program.parent.mkdir(parents=True)
        shutil.copy(LAUNCHER, program)
        (tmp_path / "clone" / "userspace").symlink_to(TOP / "userspace")
    # What lies beside the launcher must not be taken for a module of Python's.
    (program.parent / "json.py").write_text("raise SystemExit('wrong module')")
    done = run(program, "report", str(example))
    assert (done.returncode, done.stderr) == (0, "")
    assert "tasklist_lock" in done.stdout


def test_an_interrupt_while_the_package_loads_shows_no_traceback(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "lockline"
    module = tmp_path / "userspace" / "lockline" / "cli" / "main.py"
    for path in (program, module):
        path.parent.mkdir(parents=True)
    shutil.copy(LAUNCHER, program)
    module.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = run(program, "report")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_launcher_runs_through_a_link(installed: Path, tmp_path: Path) -> None:
    link = tmp_path / "lockline"
    link.symlink_to(installed / "bin" / "lockline")
    done = run(link, "--version")
    assert done.stdout.splitlines()[0] == f"lockline {(TOP / 'VERSION').read_text().strip()}"


def test_a_launcher_alone_says_so(tmp_path: Path) -> None:
    program = tmp_path / "a" / "b" / "lockline"
    program.parent.mkdir(parents=True)
    shutil.copy(LAUNCHER, program)
    done = run(program, "report")
    assert done.returncode == 1
    assert "package is not found" in done.stderr
    assert done.stderr.count("\n") == 1


# Of a machine, for every Python on it.
CUSTOM = """
import os, sys

class Kept:
    def __del__(self, write=os.write):
        write(2, b"taken apart")

sys.kept = Kept()
"""
REGISTERS = """
import atexit
atexit.register(print, "registered")
"""


@pytest.mark.parametrize("registers", [False, True])
def test_only_what_is_registered_for_the_end_is_done_at_it(installed: Path, tmp_path: Path, registers: bool) -> None:
    (tmp_path / "sitecustomize.py").write_text(CUSTOM + REGISTERS * registers)
    done = run(installed / "bin" / "lockline", "help", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0
    assert done.stdout
    assert done.stdout.endswith("registered\n") == registers
    assert done.stderr == ("taken apart" if registers else "")


def test_version_is_that_of_the_build() -> None:
    assert lockline.version() == (TOP / "VERSION").read_text().strip()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["report", "--sort", "colour"],
        ["report", "--cpu", "x"],
        ["report", "--top", "0"],
        ["report", "--top", "1000000000"],
        ["report", "--from", "yesterday"],
        ["report", "--kinds", ","],
        ["report", "a", "b"],
        ["report", "a", "-i", "b"],
        ["watch", "--top", "0", "runqueues:0"],
        ["diff", "--sort", "colour"],
        ["demo", "-d", "-1"],
    ],
    ids=" ".join,
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "lockline help" in captured.err or "--help`\n" in captured.err
    # What is wrong, in a line; without a command, or with one that nobody knows, how to find one in another.
    assert captured.err.count("\n") == 1 + (arguments == ["nonsense"])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["report", "/nonexistent/lockline.data"], "no such file"),
        (["report", "EXAMPLE", "--kinds", "ticketlock"], "no kind 'ticketlock'; there are spinlock,"),
        (["report", "EXAMPLE", "--lock", "nothing\x1b[0m"], "no lock of the recording matches"),
        (["report", "EXAMPLE", "--cpu", "4,7"], "a CPU of the recorded machine, which has 4"),
        (["report", "EXAMPLE", "--from", "3", "--to", "2"], "lies before --from"),
        (["report", "EXAMPLE", "--from", "99"], "no interval of the recording lies there"),
        (["report", "EXAMPLE", "--from", "-1", "--to", "-2s"], "lies before --from"),
        (["export", "EXAMPLE", "--format", "csv", "-o", "-", "--to=-1h"], "lies before --from"),
    ],
)
def test_failures_are_one_line(
    arguments: list[str], message: str, example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main([str(example) if argument == "EXAMPLE" else argument for argument in arguments])
    captured = capsys.readouterr()
    assert (code, captured.out) == (1, "")
    assert captured.err.startswith("lockline: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert "\x1b" not in captured.err


def test_the_default_file(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(example, "lockline.data")
    assert cli.main(["report", "--format", "json"]) == 0


def test_the_file_as_perf_takes_it(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for arguments in ([str(example)], ["-i", str(example)], ["--input", str(example)]):
        assert cli.main(["report", *arguments]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] == outputs[2] != ""


@pytest.mark.parametrize(
    "arguments, command",
    [
        (["report", "--stdio"], "report"),
        (["doctor", "all"], "doctor"),
        (["diff", "a", "b", "c"], "diff"),
        (["c2c", "report", "a", "--stdio"], "c2c report"),
        (["c2c", "import", "a", "-o", "b", "c"], "c2c import"),
    ],
)
def test_an_unknown_argument_is_told_with_its_command(
    arguments: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 1
    what = "no such option" if arguments[-1].startswith("-") else "one argument too many"
    told = f"lockline {command}: {arguments[-1]}: {what}; see `lockline {command} --help`\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    "word, meant", [("repotr", "report"), ("dif", "diff"), ("recrod", "record"), ("zzz\x1b[0m", None)]
)
def test_a_wrong_command_is_told_with_the_one_that_was_meant(
    word: str, meant: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([word])
    err = capsys.readouterr().err
    assert caught.value.code == 1
    assert "is not a command" in err
    assert (f"did you mean `lockline {meant}`?" in err) == (meant is not None)
    assert "\x1b" not in err


@pytest.mark.parametrize(
    "command",
    [
        ["report", "FILE"],
        ["report", "-i", "FILE"],
        ["watch", "-i", "FILE", "lock:tasklist_lock"],
        ["diff", "EXAMPLE", "FILE"],
        ["export", "--format", "chrome", "-i", "FILE", "-o", "out"],
        ["save", "-10s", "-i", "FILE", "-o", "out"],
        ["top", "--once", "FILE"],
        ["c2c", "report", "FILE"],
        ["c2c", "import", "FILE", "-o", "out"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("content", [None, b"", bytes(range(256)) * 20], ids=["missing", "empty", "garbage"])
def test_a_file_that_is_none_of_ours_is_one_line(
    command: list[str],
    content: bytes | None,
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command names the file, in words of ours and not in those of SQLite."""
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "FILE").write_bytes(content)
    words = [str(example) if word == "EXAMPLE" else word for word in command]
    assert cli.main(words) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "FILE" in captured.err
    assert not any(word in captured.err for word in ("database", "no such table", "Errno"))
    assert not (tmp_path / "out").exists()


def test_a_wrong_word_of_a_command_is_told_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, meant in (
        (["c2c", "raport"], "report"),
        (["report", "--color", "alway"], "always"),
        # As perf has it.
        (["c2c", "record"], "`lockline record --c2c`"),
    ):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == 1
        err = capsys.readouterr().err
        assert f"did you mean {meant}?" in err
        assert err.count("\n") == 1


def test_a_wrong_option_is_told_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["report", "--finding5", "--zzzzzz"])
    told = "--finding5 --zzzzzz: no such option; did you mean --findings?; see `lockline report --help`"
    assert told in capsys.readouterr().err


def test_help_names_each_command_once_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help"]) == 0
    overview = capsys.readouterr().out
    assert cli.main(["--help"]) == 0
    assert capsys.readouterr().out == overview
    assert overview.startswith("usage: lockline COMMAND")
    listed = [line.split()[0] for line in overview.splitlines() if re.match(r"  [a-z0-9]+  ", line)]
    assert sorted(listed) == sorted({*cli._COMMANDS, *cli._COLLECTORS, "help"})
    assert sorted(help_texts.EXAMPLES) == sorted({"", *cli._COMMANDS, *cli._COLLECTORS})
    assert max(map(len, overview.splitlines())) <= 80
    for command in cli._COMMANDS:
        with pytest.raises(SystemExit) as caught:
            cli.main(["help", command])
        assert not caught.value.code
        text = capsys.readouterr().out
        assert text.startswith(f"usage: lockline {command} ")
        for what, how in help_texts.EXAMPLES[command]:
            assert what in text
            assert how in text


def test_help_of_a_finding_a_lock_and_nonsense(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", "hot-lock"]) == 0
    assert capsys.readouterr().out.startswith("hot-lock is a finding of lockline. A lock has very many short waits.")
    assert cli.main(["explain", "mmap_lock"]) == 0
    explained = capsys.readouterr().out
    assert cli.main(["help", "mmap_lock"]) == 0
    assert capsys.readouterr().out == explained
    for word, hint in (
        ("nonsense", "`lockline help` lists the commands"),
        ("recrod", "did you mean `lockline help record`?"),
        ("dedlock", "did you mean `lockline help deadlock`?"),
        ("mmap_lok", "did you mean `lockline help mm_struct.mmap_lock`?"),
    ):
        assert cli.main(["help", word]) == 1
        assert f"'{word}' is not a command, a finding or a lock; {hint}\n" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--lock", "--from", "--sort", "--top", "--html"])
def test_two_dashes_are_a_value(
    option: str, example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code: object = cli.main(["report", str(example), f"{option}=--"])
    except SystemExit as stopped:
        code = stopped.code
    assert (code, capsys.readouterr().err.count("\n")) in ((0, 0), (1, 1))


def test_each_finding_has_a_meaning() -> None:
    """The rules' names in docs/rules.md, those of causes in docs/why.md, and no others."""
    docs = Path(__file__).parents[2] / "docs"
    named = set()
    for page, head in (("rules.md", "| rule | when "), ("why.md", "| cause | what |")):
        text = (docs / page).read_text()
        for line in text[text.index(head) :].split("\n\n", 1)[0].splitlines()[2:]:
            named |= set(re.findall(r"`([a-z-]+)`", line.split("|")[1]))
    assert set(MEANINGS) == named


def test_examples_are_commands_that_there_are() -> None:
    """Each is taken by the parser of its command, as far as the options are ours."""
    for examples in help_texts.EXAMPLES.values():
        for _, how in examples:
            for part in re.split(r"; | \| ", how):
                words = shlex.split(part)
                if words[0] != "lockline" or words[1] in cli._COLLECTORS:
                    continue
                assert not cli.make_parser([words[1]]).parse_known_args(words[1:])[1], how


def test_a_reader_that_leaves_early(example: Path) -> None:
    command = f"'{sys.executable}' -m lockline report '{example}' --format json --by instance | head -c 10; echo"
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TOP / "userspace")},
    )
    assert done.stderr == ""
    assert done.stdout == '{"schema":\n'


def test_a_closed_pipe_is_no_failure(example: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "lockline", "report", example],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TOP / "userspace")},
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_one_line(example: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lockline", "report", example],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(TOP / "userspace")},
        )
    assert done.returncode == 1
    assert done.stderr == "lockline: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("words", [["report"], ["help"], ["--version"]])
def test_an_output_that_is_closed_is_one_line(example: Path, words: list[str]) -> None:
    words = [*words, str(example)] if words == ["report"] else words
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "lockline", *words],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TOP / "userspace")},
    )
    assert (done.returncode, done.stderr) == (1, "lockline: cannot write the output: Bad file descriptor\n")


@pytest.mark.parametrize("encoding, full", [("utf-8", "█"), ("ascii", "#"), ("latin-1", "#")])
def test_output_in_the_terminals_encoding(installed: Path, example: Path, encoding: str, full: str) -> None:
    done = subprocess.run(
        [sys.executable, installed / "bin" / "lockline", "report", example],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert full in done.stdout.decode(encoding)


def test_record_is_the_collectors_own(installed: Path) -> None:
    make_script(installed / "bin" / collector.NAME, 'printf "%s\\n" "$@"; exit 7')
    arguments = ["record", "--futex", "-C", "0-3", "--", "sh", "-c", "echo a b"]
    done = run(installed / "bin" / "lockline", *arguments)
    assert done.returncode == 7
    assert done.stdout.splitlines() == arguments


def test_no_collector(installed: Path) -> None:
    done = run(installed / "bin" / "lockline", "record", PATH="/nonexistent")
    assert done.returncode == 1
    assert done.stderr == "lockline: lockline-collect not found beside lockline or in PATH; build it with `make`\n"


@pytest.mark.parametrize("place", ["bin", "libexec", "libexec/lockline", "elsewhere"])
def test_the_collector_is_found(installed: Path, place: str) -> None:
    make_script(installed / place / collector.NAME, "echo found")
    done = run(installed / "bin" / "lockline", "record", PATH=f"{installed / 'elsewhere'}:{os.environ['PATH']}")
    assert done.stdout == "found\n"


def doctor_of(installed: Path, answer: str, *options: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    (installed / "answer").write_text(answer)
    make_script(installed / "bin" / collector.NAME, f"cat '{installed / 'answer'}'; exit {code}")
    return run(installed / "bin" / "lockline", "doctor", *options)


def test_doctor(installed: Path) -> None:
    text = doctor_of(installed, json.dumps(DOCTOR)).stdout
    first = "ANSWER  lockline can record lock waits here. It does not see: spinlock first waiter."
    assert text.startswith(f"{first}\n\nHost\n")
    assert "kernel_release  6.12.0-lab" in text
    assert "on           lock waits             tp_btf; both tracepoints are there" in text
    assert "blind        spinlock first waiter  native; lost: some waits" in text
    assert "2 signals: 1 on, 1 blind" in text
    assert json.loads(doctor_of(installed, json.dumps(DOCTOR), "--format", "json").stdout) == DOCTOR


def test_a_doctor_says_first_that_nothing_can_be_recorded(installed: Path) -> None:
    refused = {"signal": "lock waits", "state": "unavailable", "source": "", "reason": "run as root", "lost": "all"}
    text = doctor_of(installed, json.dumps(DOCTOR | {"probes": [refused]})).stdout
    assert text.startswith("ANSWER  lockline cannot record lock waits here: run as root.\n")


@pytest.mark.parametrize(
    "answer",
    ["", "[]", "{}", "null", '{"schema": 1}', '{"schema": "lockline-doctor/1", "host": 3, "probes": [1]}', "[" * 9999],
)
def test_an_answer_that_is_none(installed: Path, answer: str) -> None:
    done = doctor_of(installed, answer)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("lockline: doctor: ")
    assert done.stderr.count("\n") == 1


def test_a_doctor_that_fails(installed: Path) -> None:
    done = doctor_of(installed, "", code=3)
    assert (done.returncode, done.stderr) == (1, "lockline: lockline-collect doctor failed, exit code 3\n")


def test_demo_needs_root(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["demo"]) == 1
    assert capsys.readouterr().err == "lockline: demo: recording needs root; run it with sudo\n"


def test_demo_of_why_needs_root(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["demo", "--why"]) == 1
    assert capsys.readouterr().err == "lockline: demo: recording needs root; run it with sudo\n"


def test_demo_of_why_fails_if_it_blames_something_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = f"""while [ $# -gt 0 ]; do if [ "$1" = -o ]; then cp '{example}' "$2"; fi; shift; done"""
    pretend_root(monkeypatch, tmp_path, script)
    assert cli.main(["demo", "--why"]) == 1
    shown = capsys.readouterr()
    assert "tasklist_lock" in shown.out
    assert "do not agree: `why` names something else, but the load does this" in shown.err
    assert list((tmp_path / "tmp").iterdir()) == []


def pretend_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    """A collector that is a script, and temporary files in tmp_path/tmp."""
    (tmp_path / "tmp").mkdir()
    path = make_script(tmp_path / "collect", script)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(collector, "find_collector", lambda: str(path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))


def test_demo_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, example: Path) -> None:
    """A stand-in collector notes the processes of the load and copies a recording."""
    own = os.getpid()
    # Tests before this one in the same process may have left a reader of memory that is used again.
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(own)], capture_output=True, text=True, check=True)
    others = "|".join(children.stdout.split())
    pretend_root(
        monkeypatch,
        tmp_path,
        f"""for argument; do output=$argument; done
        cp '{example}' "$output"
        until ps -o pid= --ppid {own} | grep -qvwE "$$|{others}"; do sleep 0.05; done
        ps -o pid= --ppid {own} | grep -vwE "$$|{others}" > '{tmp_path}/load'""",
    )
    report, pid = demo.run_demo(1, Selection(), 5)
    assert report.locks[0].name == "tasklist_lock"
    assert len(report.slices) == report.window.intervals
    assert demo.verdict(report, pid)[0] is False
    assert list((tmp_path / "tmp").iterdir()) == []
    load_pids = [int(pid) for pid in (tmp_path / "load").read_text().split()]
    assert len(load_pids) == 1
    assert not [pid for pid in load_pids if Path(f"/proc/{pid}").exists()]


def test_the_demo_fails_if_the_report_blames_another_lock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_root(monkeypatch, tmp_path, f"""for argument; do output=$argument; done; cp '{example}' "$output\"""")
    assert cli.main(["demo", "-d", "1"]) == 1
    shown = capsys.readouterr()
    assert "ANSWER" in shown.out
    assert "do not agree: the report names tasklist_lock, but the load does this" in shown.err


@pytest.mark.parametrize(
    ("pid", "each_ns", "found"), [(1001, 2_000_000, True), (7, 2_000_000, False), (1001, 100, False)]
)
def test_the_demo_beside_more_waiting_for_another_lock(tmp_path: Path, pid: int, each_ns: int, found: bool) -> None:
    """The load's own process waits for its mmap_lock for a hundredth of the time or more."""
    builder = RecordingBuilder(tmp_path / "busy.lockline", 4, 2, {})
    builder.waiter(1, "python3")
    builder.lock(1, demo.LOCK, "pid 1001", "owner object")
    builder.lock(2, "tasklist_lock")
    for interval in range(1, 5):
        builder.waits(interval, 0, 1, 6, [each_ns] * 30)
        builder.waits(interval, 0, 2, 6, [20_000_000] * 40)
    builder.insert("sample_total", [(1, 1, 6, 0, 0, 9, 120, 120 * each_ns)])
    builder.finish()
    with open_recording(tmp_path / "busy.lockline") as recording:
        report = make_report(recording, Selection(), 5)
    agree, told = demo.verdict(report, pid)
    assert agree == found
    assert ("The report names tasklist_lock first" if found else "do not agree") in told


def test_demo_tells_that_recording_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend_root(monkeypatch, tmp_path, "echo 'lockline-collect: no BTF' >&2; exit 1")
    with pytest.raises(LocklineError, match="lockline-collect record failed, exit code 1"):
        demo.run_demo(1, Selection(), 5)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_filter_of_waits_is_given_to_the_collector() -> None:
    """Of top and why: as record takes it, words and all."""
    parser = argparse.ArgumentParser()
    add_wait_filter(parser)
    assert wait_filter(parser.parse_args([])) == ()
    assert wait_filter(parser.parse_args(["-L", "mmap_lock,*inode*"])) == ("-L", "mmap_lock,*inode*")
    assert wait_filter(parser.parse_args(["-S", "ext4_*", "-L", "0xffff"])) == ("-L", "0xffff", "-S", "ext4_*")


@pytest.mark.parametrize("columns", ["80", "60"])
@pytest.mark.parametrize("command", [name for name in help_texts.COMMANDS if name != "help"])
def test_help_says_what_a_command_does_and_fits_the_terminal(
    command: str, columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with suppress(SystemExit):
        cli.main([command, "--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: lockline {command} ")
    rest = text.partition("\n\n")[2]
    described = rest.partition("\n\n")[0].replace("\n", " ")
    assert described[0].isupper()
    assert described.endswith(".")
    assert len(described) > 40
    for what, how in help_texts.EXAMPLES[command]:
        assert f"  {what}" in text
        assert f"      {how}" in text
    body = rest.partition("\nExamples:")[0].partition("\nformats:")[0]
    words = [line for line in body.splitlines() if len(line) > int(columns)]
    # A word alone on its line is not cut.
    assert not [line for line in words if len(line.split()) > 1], words


def test_help_of_watch_names_its_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["watch", "--help"]) == 0
    text = capsys.readouterr().out
    assert "\n\nTARGET: lock:NAME (with -i RECORDING), SYMBOL" in text
    # What both parsers have is there once.
    # Before 3.13 Python writes "-i FILE, --input FILE", since then "-i, --input FILE".
    for option in ("-h", "-i", "-o", "--auto", "--kinds"):
        assert len(re.findall(rf"^ +{re.escape(option)}\b", text, re.MULTILINE)) == 1, option


def test_help_of_record_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["record", "--help"]) == 0
    text = capsys.readouterr().out
    for option in ("--host", "--ssh", "--holders", "--until", "--version"):
        assert len(re.findall(rf"^      {option} ", text, re.MULTILINE)) == 1, option


@pytest.mark.parametrize("word", ["help", "-h", "--help"])
def test_help_of_help(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", word]) == 0
    assert capsys.readouterr().out == help_texts.overview()
