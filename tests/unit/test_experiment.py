# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline experiment` without a load: its SPECs, its judgement, its words, and what it refuses."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockline.base.errors import LocklineError
from lockline.base.paired_test import paired_test
from lockline.base.text import Style
from lockline.cli import experiment as command
from lockline.cli import main as cli
from lockline.experiment import spec
from lockline.experiment.changes import Change, Freeze, Stop, Sysctl, sysctls_in
from lockline.experiment.elf import ElfFile
from lockline.experiment.guard import Guard
from lockline.experiment.judge import FEWEST_PAIRS, Judgement, Pair, Slice, judge
from lockline.experiment.processes import refuse
from lockline.experiment.progress import Check, Counter, check, opened, refuse_coarse, run_shell
from lockline.experiment.result import Result, Told
from lockline.experiment.run import Made, enough_pairs, experiment
from lockline.render import experiment_words as words
from lockline.render.documents.experiment import as_json
from schemas import validator_of

STYLE = Style()
SECONDS = 60.0


def until(condition: object, what: str) -> None:
    """Poll until it is true."""
    assert callable(condition)
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


# SPEC


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("tracepoint:sched:sched_switch", spec.Tracepoint("sched", "sched_switch")),
        ("tracepoint:raw_syscalls:sys_enter/12", spec.Tracepoint("raw_syscalls", "sys_enter", 12)),
        ("uprobe:/usr/bin/x:handle", spec.Uprobe("/usr/bin/x", "handle")),
        ("uprobe:/a:b/x:handle+0x10/7", spec.Uprobe("/a:b/x", "handle", 16, 7)),
        ("memory:1234:requests", spec.Memory(1234, "requests", 0)),
        ("memory:1234:stats+16:4", spec.Memory(1234, "stats", 16, 4)),
        ("memory:1234:0x7f00:8", spec.Memory(1234, "", 0x7F00, 8)),
        ("io:5", spec.InputOutput(5)),
        ("file:/proc/5/io:syscw", spec.File("/proc/5/io", "syscw")),
        ("file:/tmp/count", spec.File("/tmp/count")),
        ("file:/tmp/a:b:", spec.File("/tmp/a:b")),
        ("command:wc -l < /tmp/a:b", spec.Command("wc -l < /tmp/a:b")),
    ],
)
def test_a_spec(text: str, meant: spec.Spec) -> None:
    assert spec.parse_spec(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "io",
        "io:",
        "io:0",
        "io:x",
        "io:99999999",
        "perf:1",
        "tracepoint:sched",
        "tracepoint:../..:id",
        "tracepoint:sched:sched_switch/x",
        "uprobe:/bin/sh",
        "uprobe::f",
        "memory:5",
        "memory:x:y",
        "memory:5:a:3",
        "memory:5:0x:8",
        "memory:5:a:8:8",
        "file:",
        "file::word",
        "command: ",
        "command:a\0b",
    ],
)
def test_a_spec_that_is_none(text: str) -> None:
    with pytest.raises(ValueError) as error:
        spec.parse_spec(text)
    assert "\n" not in str(error.value)


@given(st.one_of(st.text(), st.builds("{}:{}".format, st.sampled_from(sorted(spec._KINDS)), st.text())))
def test_any_text_is_a_spec_or_refused(text: str) -> None:
    try:
        found = spec.parse_spec(text)
    except ValueError:
        return
    kind = next(name for name in spec._KINDS if text.startswith(f"{name}:"))
    assert type(found) is type(spec.parse_spec(text))
    if isinstance(found, spec.Memory | spec.InputOutput):
        assert 0 < found.pid <= spec.MOST_PID
    if isinstance(found, spec.File):
        assert text in (f"file:{found.path}:{found.word}", f"file:{found.path}")
    if isinstance(found, spec.Command):
        assert text == f"{kind}:{found.command}"


@pytest.mark.parametrize(
    ("text", "word", "number"),
    [
        ("12", "", 12),
        ("  uptime 3.5e2 7", "", 350),
        ("rchar: 1\nsyscw: 44\n", "syscw", 44),
        ("a=1 b=2", "b", 2),
        ('requests_total{code="200"} 17 1690', 'requests_total{code="200"}', None),
        ("requests_total 17 1690", "requests_total", 17),
        ("5 6 7", "2", 6),
        ("5 6 7", "4", None),
        ("5 6 7", "0", None),
        ("none", "", None),
        ("nan inf", "", None),
        ("syscw: none", "syscw", None),
    ],
)
def test_a_number_in_a_text(text: str, word: str, number: float | None) -> None:
    assert spec.number_in(text, word) == number


@given(st.text(), st.text())
def test_a_number_in_any_text_is_finite(text: str, word: str) -> None:
    number = spec.number_in(text, word)
    assert number is None or number == number


# Counters


def counting(*values: float) -> Counter:
    """A counter that has these values, one after the other, and stays at the last."""
    left = list(values)
    return Counter("rounds", lambda: left.pop(0) if len(left) > 1 else left[0])


def test_a_counter_that_does_not_move_is_refused() -> None:
    with pytest.raises(LocklineError, match="did not move"):
        check(counting(5), 0.2, 0.02)


def test_a_counter_that_goes_back_is_refused() -> None:
    with pytest.raises(LocklineError, match="went back from 5 to 3"):
        check(counting(5, 3), 0.2, 0.02)


def test_a_small_counter_begins_again_at_zero() -> None:
    counter = counting(0)
    counter.modulus = 256
    assert counter.grown(250, 4) == 10
    with pytest.raises(LocklineError, match="went back"):
        counter.grown(100, 90)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (Check(1000, 1000, 1, 0.001), ""),
        # Rare single events are no sums.
        (Check(3, 3, 0.02, 0.001), ""),
        # We looked seldom, and it moved each time.
        (Check(5000, 8, 1, 0.001), ""),
        (Check(5000, 1, 0.01, 0.001), "too coarse for slices of 0.2 s; take --slice 5"),
        (Check(5000, 0.1, 0.01, 0.001), "too coarse for slices of 0.2 s; take another counter"),
        (Check(1000, 1000, 1, 0.08), "takes 80 ms to read: too long for slices of 0.2 s; take --slice 1"),
    ],
)
def test_a_counter_that_is_too_coarse(found: Check, told: str) -> None:
    if not told:
        refuse_coarse("x", found, 0.2)
        return
    with pytest.raises(LocklineError, match=told):
        refuse_coarse("x", found, 0.2)


def test_counters_of_files_and_commands(tmp_path: Path) -> None:
    file = tmp_path / "count"
    file.write_text("jobs: 4\n")
    for text in (f"file:{file}:jobs", f"file:{file}", f"command:grep -o '[0-9]*' {file}"):
        with opened(spec.parse_spec(text)) as counter:
            assert counter.read() == 4
            file.write_text("jobs: 9\n")
            assert counter.grown(4, counter.read()) == 5
        file.write_text("jobs: 4\n")
    file.write_text("none")
    with opened(spec.parse_spec(f"file:{file}:jobs")) as counter, pytest.raises(LocklineError, match="no number after"):
        counter.read()


def test_commands_that_fail_or_hang() -> None:
    with pytest.raises(LocklineError, match="failed: no such thing"):
        run_shell("echo no such thing >&2; exit 3")
    with pytest.raises(LocklineError, match="failed: exit code 3"):
        run_shell("exit 3")
    with pytest.raises(LocklineError, match="takes longer than"):
        run_shell("sleep 60", 0.2)


def test_a_command_may_leave_a_process_behind() -> None:
    """It holds the command's output open, as a tracer that was started in the background does."""
    left = int(run_shell("sleep 600 & echo $!"))
    os.kill(left, signal.SIGKILL)


@given(st.binary(max_size=200))
def test_damaged_elf_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "elf"
    path.write_bytes(content)
    with pytest.raises(LocklineError, match="is not a 64-bit ELF file"):
        ElfFile(path)
    path.write_bytes(b"\x7fELF\x02\x01" + content)
    with suppress(LocklineError), ElfFile(path) as elf:
        elf.find("main")


@given(st.data())
def test_elf_files_with_changed_bytes(tmp_path: Path, data: st.DataObject) -> None:
    """Python's own, or one of its libraries."""
    content = bytearray(Path("/proc/self/exe").read_bytes()[:4096])
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(16, 1023))] = data.draw(st.integers(0, 255))
    path = tmp_path / "elf"
    path.write_bytes(content)
    with suppress(LocklineError), ElfFile(path) as elf:
        elf.find("main")


# The judgement


def pairs_of(ratio: float, number: int, noise: float = 0.05, seed: int = 1, rate: float = 1000.0) -> list[Pair]:
    """Pairs whose change has that effect."""
    lot = random.Random(seed)

    def one(factor: float) -> Slice:
        return Slice(0.15, 0.15 * rate * factor * lot.lognormvariate(0, noise), 0.2)

    return [Pair(one(ratio), one(1), lot.random() < 0.5) for _ in range(number)]


def bursts_of(ratio: float, number: int, seed: int, length: int = 4) -> list[Pair]:
    """Pairs whose change has an effect that comes and goes: so many that follow each other have the same one."""
    lot = random.Random(seed)
    pairs: list[Pair] = []
    for start in range(0, number, length):
        pairs += pairs_of(ratio * lot.lognormvariate(0, 0.3), length, seed=100 * seed + start)
    return pairs


@pytest.mark.parametrize(("number", "length"), [pytest.param(32, 4, marks=pytest.mark.laboratory), (12, 2)])
def test_an_effect_that_comes_and_goes_makes_the_interval_wide(number: int, length: int) -> None:
    """Neighbours that are alike are no evidence of their own."""
    held = narrow = 0
    for seed in range(40):
        pairs = bursts_of(1.5, number, seed, length)
        test = judge(pairs, 13.0).test
        assert test is not None
        held += test.low <= 1.5 <= test.high
        alone = paired_test([(one.changed.rate, one.unchanged.rate) for one in pairs])
        assert test.low <= alone.low <= alone.high <= test.high
        assert test.p >= alone.p
        narrow += alone.low <= 1.5 <= alone.high
    assert held >= 36 > narrow


@pytest.mark.parametrize(("ratio", "verdict"), [(3.0, "more"), (1.2, "more"), (0.5, "less"), (1.0, "no difference")])
def test_an_effect_is_seen(ratio: float, verdict: str) -> None:
    judged = judge(pairs_of(ratio, 40), 16.0)
    assert judged.verdict == verdict
    assert judged.test is not None
    assert judged.test.low <= ratio * 1.05
    assert judged.test.high >= ratio * 0.95


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = sum(
        test.low <= 1.5 <= test.high
        for seed in range(200)
        if (test := judge(pairs_of(1.5, 12, 0.3, seed), 5.0).test) is not None
    )
    assert 180 <= held <= 200


def test_what_cannot_be_told_says_why_and_how_long_would_do() -> None:
    bursts = judge(pairs_of(1.0, 12, 1.0), 5.0)
    assert bursts.verdict == "cannot be told"
    assert "bursts" in bursts.why_not
    assert bursts.enough_s is not None
    assert bursts.enough_s > 5
    few = judge(pairs_of(3.0, FEWEST_PAIRS - 1), 2.0)
    assert (few.verdict, few.test) == ("cannot be told", None)
    assert few.enough_s == pytest.approx(2.4)
    still = [Pair(Slice(0.15, 0, 0.2), Slice(0.15, 0, 0.2), True)] * 8
    assert "did not move" in judge(still, 3.0).why_not
    rare = [Pair(Slice(0.15, n % 3 == 0, 0.2), Slice(0.15, n % 4 == 0, 0.2), True) for n in range(12)]
    assert "longer slices" in judge(rare, 3.0).why_not
    assert judge([], 0.0).enough_s is None


def test_work_only_with_the_change() -> None:
    judged = judge([Pair(Slice(0.15, 50, 0.2), Slice(0.15, 0, 0.2), True)] * 8, 3.0)
    assert judged.verdict == "more"
    assert "some work done, and none without" in words.answer(result_of(judged))


def test_too_short_for_the_pairs_that_are_needed() -> None:
    enough_pairs(0.2, 3, 6)
    with pytest.raises(LocklineError, match="-d 3 holds 1 pairs of slices of 1 s, and 6 are needed: -d 13"):
        enough_pairs(1.0, 3, 6)


# Words


def result_of(judged: Judgement, made: Made | None = None, kind: str = "stop") -> Result:
    """A result with that judgement."""
    told = Told(
        spec="io:1002",
        change_kind=kind,
        change="strace (1001) stopped",
        change_pids=(1001,),
        counter="reads and writes of load (1002)",
        counter_pid=1002,
        who="load (1002)",
        check_rate=100.0,
        slice_s=0.2,
        warm_up=0.25,
    )
    return Result(told, made or Made(pairs_of(2.8, 8), 3.2, 1.6, 0.21), judged, 0.01, 0.001)


def test_the_answer_is_said_first() -> None:
    much = words.answer(result_of(judge(pairs_of(2.8, 40), 16.0)))
    assert much.startswith("With strace (1001) stopped load (1002) gets 2.")
    assert "times as much done" in much
    assert "95% confidence" in much
    assert "% more done" in words.answer(result_of(judge(pairs_of(1.3, 40), 16.0)))
    assert "% less done" in words.answer(result_of(judge(pairs_of(0.8, 40), 16.0)))
    none = words.answer(result_of(judge(pairs_of(1.0, 40), 16.0)))
    assert none.startswith("No difference seen: with strace (1001) stopped load (1002) gets between -")
    unclear = words.answer(result_of(judge(pairs_of(1.0, 12, 1.0), 5.0)))
    assert unclear.startswith("It cannot be told what strace (1001) stopped changes: ")
    assert unclear.endswith(" s would do")


def test_the_screen_and_the_document() -> None:
    for judged in (judge(pairs_of(0.5, 8), 3.2), judge(pairs_of(1.0, 12, 1.0), 5.0), judge([], 0.0)):
        result = result_of(judged, Made(pairs_of(0.5, 8), 3.2, 1.6, 0.21, 1, 1, True))
        text = words.render(result, STYLE, 80)
        assert text.startswith(("ANSWER", "UNCLEAR"))
        assert max(map(len, text.splitlines())) <= 80
        assert "in 1 of 9 slices the change was not in force" in " ".join(text.split())
        document = json.loads(as_json(result))
        validator_of("experiment").validate(document)
        assert document["title"] == words.answer(result)
    assert any("keeps its locks" in one for one in words.notes(result_of(judge(pairs_of(0.5, 8), 3.2))))


@pytest.mark.parametrize(("at_least", "code"), [(None, 0), (1.5, 0), (2.9, 2)])
def test_a_threshold(at_least: float | None, code: int) -> None:
    assert command.exit_code(result_of(judge(pairs_of(2.0, 40), 16.0)), at_least) == code
    if at_least is not None:
        assert command.exit_code(result_of(judge([], 0.0)), at_least) == 2


# What is refused


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name one change"),
        (["--on", "true"], "--on and --off need each other"),
        (["--progress", "x", "--stop", "5"], "'x' must be tracepoint:SUBSYSTEM:NAME[/PID], uprobe"),
        (["--on", "true", "--off", "true", "--stop", "5"], "--on and --off need each other"),
        (["--stop", "x"], "must be the number of a process"),
        (["--stop", "1"], "the machine's init"),
        (["--stop", str(os.getpid())], "lockline itself"),
        (["--stop", str(os.getppid())], "started lockline"),
        (["--stop-cgroup", "/"], "below the root"),
        (["--stop-cgroup", "../x"], "below the root"),
        (["--stop-cgroup", "no/such/group"], "not a control group that can be frozen"),
        (["--nice", "5"], "must be PID=VALUE"),
        (["--nice", "5=99"], "from -20 to 19"),
        (["--cpus", "5=x"], "--cpus 5=x: 'x' "),
        (["--set", "kernel.panic=1"], "not a setting that lockline knows as a remedy"),
        (["--set", "/proc/sys/kernel/panic=1"], "not a setting that lockline knows as a remedy"),
        (["--set", "../../x=1"], "must be NAME=VALUE"),
        (["--set", "vm.compaction_proactiveness=1\n2"], "must be NAME=VALUE"),
        (["--set", "vm.compaction_proactiveness=3"], "add --change-sysctl"),
        (["--stop", "4194304"], "does not exist"),
        (["--stop", "5", "--slice", "1", "-d", "3"], "6 are needed"),
    ],
)
def test_one_line_and_exit_code_1(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert cli.main(["experiment", "--progress", "io:1", *arguments]) == 1
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_threads_of_the_kernel_are_left_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n":
        pytest.skip("the kernel's threads are not seen here")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert cli.main(["experiment", "--progress", "io:1", "--stop", "2"]) == 1
    assert "is a thread of the kernel: it is never stopped" in capsys.readouterr().err


def test_it_needs_root(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["experiment", "--progress", "io:1", "--stop", "5"]) == 1
    assert "needs root" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "x", "9", "nan"])
def test_slices_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["experiment", "--progress", "io:1", "--slice", text])
    assert stopped.value.code == 1
    assert "must be seconds from 0.02 to 5" in capsys.readouterr().err


def test_the_load_itself_is_not_stopped() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            change = Stop([process.pid])
            counter = counting(1)
            counter.who, counter.pid = "sleep", process.pid
            with pytest.raises(LocklineError, match="would be stopped"):
                command.refuse_victim(change, counter)
        finally:
            process.kill()
    with pytest.raises(LocklineError, match="does not exist"):
        refuse(process.pid, "stopped")


def test_a_thread_is_no_process() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        with pytest.raises(LocklineError, match=f"is a thread of process {os.getpid()}"):
            refuse(thread.native_id, "stopped")
    finally:
        end.set()
        thread.join()


def test_sysctls_that_are_remedies(tmp_path: Path) -> None:
    known = command.remedies_with_sysctls()
    assert {"kernel.numa_balancing", "kernel.sched_rt_runtime_us", "vm.compaction_proactiveness"} <= known
    assert "kernel.panic" not in known
    assert sysctls_in(["set vm.a_b=1 or net.x.y; not user.c of a file"]) >= {"vm.a_b", "net.x.y"}
    file = tmp_path / "vm" / "compaction_proactiveness"
    file.parent.mkdir()
    file.write_text("20\n")
    for name in (
        "vm.compaction_proactiveness",
        "vm/compaction_proactiveness",
        f"{tmp_path}/vm/compaction_proactiveness",
    ):
        change = Sysctl(f"{name}=0", known, tmp_path)
        assert "back to 20" in change.plan
        change.apply()
        assert file.read_text().startswith("0")
        change.undo()
        file.write_text("20\n")
    with pytest.raises(LocklineError, match="is 20 already"):
        Sysctl("vm.compaction_proactiveness=20", known, tmp_path)


@pytest.mark.parametrize(
    ("place", "file", "on", "off"),
    [("unified", "cgroup.freeze", "1", "0"), (".", "cgroup.freeze", "1", "0"), ("freezer", "freezer.state", "F", "T")],
)
def test_control_groups_of_both_kinds(place: str, file: str, on: str, off: str, tmp_path: Path) -> None:
    group = tmp_path / place / "a.slice" / "b"
    group.mkdir(parents=True)
    (group / file).write_text(off)
    (group / "cgroup.procs").write_text("4194304\n")
    change = Freeze("a.slice/b", tmp_path)
    change.apply()
    assert (group / file).read_text().startswith(on)
    change.undo()
    assert (group / file).read_text().startswith(off)
    (group / file).write_text("1" if on == "1" else "FROZEN")
    with pytest.raises(LocklineError, match="frozen already"):
        Freeze("/a.slice/b/", tmp_path)
    (group / file).write_text(off)
    (group / "cgroup.procs").write_text(f"{os.getppid()}\n")
    with pytest.raises(LocklineError, match="has lockline in it"):
        Freeze("a.slice/b", tmp_path)
    (group / "cgroup.procs").write_text("")
    with pytest.raises(LocklineError, match="has no processes"):
        Freeze("a.slice/b", tmp_path)


# The guard, and slices


def test_the_guard_puts_back_what_is_left(tmp_path: Path) -> None:
    kept = Guard((tmp_path / "kept").touch, 60.0)
    kept.on()
    kept.off()
    kept.end(True)
    assert not (tmp_path / "kept").exists()
    # Its pipe ends, as when lockline is killed.
    killed = Guard((tmp_path / "killed").touch, 60.0)
    killed.on()
    os.close(killed._pipe)
    os.waitpid(killed.pid, 0)
    assert (tmp_path / "killed").exists()
    # Nobody says that the change is over.
    late = Guard((tmp_path / "late").touch, 0.05)
    late.on()
    until((tmp_path / "late").exists, "the guard did nothing")
    late.end(True)
    gone = Guard((tmp_path / "gone").touch, 60.0)
    os.kill(gone.pid, 9)
    until(lambda: not gone.alive(), "the guard was not killed")
    with pytest.raises(LocklineError, match="was killed"):
        gone.on()


class Doubling(Change):
    """While it is on, work is done twice as fast."""

    kind = "commands"
    words = plan = "doubling"

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.since, self.work, self.speed = now(), 0.0, 1000.0
        self.undone = 0

    def _count(self) -> None:
        now = self.now()
        self.work += (now - self.since) * self.speed
        self.since = now

    def read(self) -> float:
        """The work so far."""
        self._count()
        return self.work

    def apply(self) -> None:
        self._count()
        self.speed = 2000.0

    def undo(self) -> None:
        self._count()
        self.speed = 1000.0
        self.undone += 1


class Clock:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        """The time."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Lets it pass."""
        self.seconds += seconds


def test_slices_in_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("lockline.experiment.run.time", clock)
    change = Doubling(clock.monotonic)
    made = experiment(change, Counter("work", change.read), 0.02, 0.6, random.Random(3).random)
    judged = judge(made.pairs, made.seconds)
    assert judged.verdict == "more"
    assert judged.test is not None
    assert judged.test.ratio == pytest.approx(2.0, rel=0.01)
    assert {one.changed_first for one in made.pairs} == {True, False}
    assert change.speed == 1000.0
    assert 0 < made.changed_s < made.seconds


class Limited(Doubling):
    """A CPU limit, as the kernel's: a tenth of each period, at its begin; the first period begins when it is set."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock.monotonic)
        self._clock, self._until = clock, 0.0
        self._work, self._since, self._limited = 0.0, 0.0, True

    def read(self) -> float:
        now = self._clock.monotonic()
        if self._limited:
            periods, rest = divmod(now - self._since, 0.1)
            return self._work + 0.01 * round(periods) + min(rest, 0.01)
        return self._work + now - self._since

    def _set(self, limited: bool) -> None:
        self._work, self._since, self._limited = self.read(), self._clock.monotonic(), limited

    def apply(self) -> None:
        self._set(limited=False)

    def undo(self) -> None:
        if not self._limited:
            self._set(limited=True)


@pytest.mark.parametrize("slice_s", [0.2, 0.4, 0.5, 1.0])
def test_a_limit_that_acts_in_periods_is_measured_as_it_is(slice_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one and a half periods the half would be without CPU time in each slice: the gain came out too large."""
    clock = Clock()
    monkeypatch.setattr("lockline.experiment.run.time", clock)
    change = Limited(clock)
    made = experiment(change, Counter("work", change.read), slice_s, 16 * slice_s, random.Random(3).random)
    test = judge(made.pairs, made.seconds).test
    assert test is not None
    assert test.ratio == pytest.approx(10.0, rel=0.02)


@pytest.mark.parametrize("where", ["apply", "read", "undo"])
def test_all_is_put_back_after_an_error(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change = Doubling()
    counter = Counter("work", change.read)
    failing = counter if where == "read" else change
    before = getattr(failing, where)
    calls = []

    def fail() -> float | None:
        calls.append(where)
        if len(calls) == 3:
            raise LocklineError("as planned")
        value: float | None = before()
        return value

    monkeypatch.setattr(failing, where, fail)
    with pytest.raises(LocklineError, match="as planned"):
        experiment(change, counter, 0.02, 5.0)
    assert change.speed == 1000.0


def test_help_names_every_change() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lockline", "experiment", "--help"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "userspace")},
        capture_output=True,
        text=True,
        check=True,
    )
    for option in ("--stop", "--stop-cgroup", "--on", "--off", "--nice", "--cpus", "--set", "--progress", "--at-least"):
        assert option in done.stdout
