# SPDX-License-Identifier: GPL-2.0-or-later
"""How guests are booted: once for all sections, again for what stale code cost, never for what is kept."""

import itertools
import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import boots as module
import pytest
from boots import IN_TURNS, Boot, Boots, FailedError, Section, have_kvm
from guest import Guest
from matrix import CPU, NATIVE, boot, chosen

BOOT = Boot("trixie", cpu=CPU[NATIVE], append="tsc=reliable", label="framework")
LIMIT_S = 10
GOOD = Section(
    BOOT, "good", "echo well > said; echo out; echo err >&2; dmesg | grep -o 'Detected .* MHz' > clock", order=0
)
HANGS = Section(
    BOOT, "hangs", "sleep 1000 &\necho begun > said\nwhile :; do sleep 1; done", order=1, seconds=LIMIT_S, may_fail=True
)
FAILS = Section(BOOT, "fails", "echo no such thing >&2\nexit 3", order=2, may_fail=True)
LAST = Section(BOOT, "last", "ls /out > places; ps > processes; ls /tmp > files", order=3)


def no_programs(_: Boot) -> list[Path]:
    """The guest has busybox alone."""
    return []


@pytest.fixture
def courier(tmp_path: Path) -> Path:
    """A program that is not run."""
    path = tmp_path / "courier"
    path.write_text("no program")
    return path


class Emulator:
    """Stands for scripts/vm: each call does what the next script says, and is written down."""

    def __init__(self, *scripts: tuple[Sequence[str], str]) -> None:
        self.scripts = list(scripts)
        self.calls: list[list[str]] = []
        self.statuses: dict[str, int] = {}

    def __call__(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Bring the sections of the script; the console has its text."""
        self.calls.append(command)
        brought, console = self.scripts.pop(0)
        out = Path(command[command.index("--get") + 1])
        (out / "console").write_text(console)
        for name in brought:
            directory = out / name
            directory.mkdir()
            (directory / "status").write_text(f"{self.statuses.get(name, 0)}\n")
            (directory / "stderr").write_text(f"words of {name}")
            (directory / "uptime").write_text("1.00 2.00\n")
        return subprocess.CompletedProcess(command, 125, "", "vm: the guest did not get to its end")

    def sections(self, call: int) -> list[str]:
        """The sections that a call asked for."""
        command = self.calls[call]
        return [after.split(":")[0] for word, after in itertools.pairwise(command) if word == "--section"]


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Emulator]:
    """Puts an emulator of the test's own in place, and an empty place for results."""

    def put(*scripts: tuple[Sequence[str], str]) -> Emulator:
        made = Emulator(*scripts)
        # Asked for of the kernels' guests, not of these.
        monkeypatch.delenv("LOCKLINE_BOOT", raising=False)
        monkeypatch.setattr(module, "KEPT", tmp_path / "guests")
        monkeypatch.setattr(module, "run_vm", made)
        kernel = tmp_path / "kernel"
        kernel.mkdir()
        for name in ("vmlinuz", "config", "busybox"):
            (kernel / name).write_text(name)
        monkeypatch.setattr(module, "kernel_directory", lambda _: kernel)
        monkeypatch.setattr(module, "found_program", lambda _: kernel / "busybox")
        return made

    return put


def boots_with(courier: Path) -> Boots:
    """Of guests with nothing in them."""
    return Boots(no_programs, lambda _: courier, say=lambda _: None)


@pytest.mark.parametrize("console", ["int3: 0000 [#1]", "#PF: not-present page\nRIP: 0010:0x0\nCode: Unable to access"])
def test_stale_code_costs_only_what_is_missing(emulator: Callable[..., Emulator], courier: Path, console: str) -> None:
    runs = emulator((["good"], console), (["last"], ""))
    boots = boots_with(courier)
    boots.want([GOOD, LAST])
    with pytest.warns(UserWarning, match="ran stale code; booted again, CPUs in turns, for last"):
        boots.result(GOOD)
    assert (runs.sections(0), runs.sections(1)) == (["good", "last"], ["last"])
    assert IN_TURNS not in runs.calls[0]
    assert IN_TURNS in runs.calls[1]
    assert boots.result(LAST).text("status") == "0\n"
    assert [run.again for run in boots.runs] == ["", "ran stale code"]


def test_what_dies_of_something_else_is_not_booted_again(emulator: Callable[..., Emulator], courier: Path) -> None:
    runs = emulator((["good"], "BUG: kernel NULL pointer dereference\nRIP: 0010:0x0123"))
    boots = boots_with(courier)
    boots.want([GOOD, LAST])
    boots.result(GOOD)
    with pytest.raises(FailedError, match="NULL pointer"):
        boots.result(LAST)
    assert len(runs.calls) == 1


def test_what_is_kept_boots_nothing(emulator: Callable[..., Emulator], courier: Path) -> None:
    runs = emulator((["good", "last"], ""), (["last"], ""))
    first = boots_with(courier)
    first.want([GOOD, LAST])
    first.result(GOOD)
    again = boots_with(courier)
    again.want([GOOD, LAST])
    assert again.result(LAST).directory == first.result(LAST).directory
    assert (len(runs.calls), again.kept, again.runs) == (1, 2, [])
    # Another script is another section; what it replaces is not kept.
    changed = replace(LAST, script="true")
    again.result(changed)
    assert runs.sections(1) == ["last"]
    assert not first.result(LAST).directory.exists()


def test_a_section_that_fails_is_not_kept(emulator: Callable[..., Emulator], courier: Path) -> None:
    runs = emulator((["good", "last"], "of the kernel"), (["last"], "of the kernel"))
    runs.statuses["last"] = 1
    boots = boots_with(courier)
    boots.want([GOOD, LAST])
    boots.result(GOOD)
    for asked in (boots, boots_with(courier)):
        with pytest.raises(FailedError, match=r"exit 1; see .*failed\nwords of last\nof the kernel"):
            asked.result(LAST)
    assert (runs.sections(0), runs.sections(1)) == (["good", "last"], ["last"])


@pytest.mark.parametrize("change", [{"cpus": 3}, {"append": ""}, {"threads": "single"}, None], ids=str)
def test_what_decides_is_in_the_name(
    emulator: Callable[..., Emulator], courier: Path, change: dict[str, object] | None
) -> None:
    emulator()
    boots = boots_with(courier)
    other = replace(GOOD, boot=replace(BOOT, **change)) if change else replace(GOOD, script="false")
    assert boots.place(GOOD) == boots.place(replace(GOOD))
    assert boots.place(GOOD).name.rpartition(".")[2] != boots.place(other).name.rpartition(".")[2]


def test_programs_are_in_the_name(emulator: Callable[..., Emulator], courier: Path, tmp_path: Path) -> None:
    emulator()
    program = tmp_path / "program"
    program.write_text("one")
    boots = Boots(lambda _: [program], lambda _: courier)
    one = boots.place(GOOD)
    other = tmp_path / "new" / "program"
    other.parent.mkdir()
    other.write_text("two")
    assert one != Boots(lambda _: [other], lambda _: courier).place(GOOD)


@pytest.mark.parametrize(
    ("begins", "end", "seconds"),
    [
        ({}, 4.0, {}),
        ({}, 0.0, {}),
        ({"good": 4.0, "last": 6.0}, 9.0, {"good": 2.0, "last": 3.0}),
        ({"good": 4.0, "last": 6.0}, 0.0, {"good": 2.0}),
    ],
    ids=["plain", "died at once", "two", "given up in the second"],
)
def test_what_each_section_used(begins: dict[str, float], end: float, seconds: dict[str, float]) -> None:
    assert module.vm().seconds_of_sections(begins, end) == seconds


@pytest.mark.parametrize("sections", [tuple(chosen(GOOD, HANGS, FAILS, LAST))], ids=["trixie"])
def test_a_guest_whose_sections_fail(sections: tuple[Section, ...], results: Callable[[Section], Guest]) -> None:
    """For real: one that hangs and one that fails cost neither what came before nor what comes after."""
    if not sections:
        pytest.skip("KERNELS leaves trixie out")
    good, hangs, fails, last = sections
    assert results(good).text("said") == "well\n"
    assert (results(good).text("stdout"), results(good).text("stderr")) == ("out\n", "err\n")
    # What it would have measured itself, it gets from this machine.
    if not have_kvm():
        detected = float(results(good).text("clock").split()[1])
        assert detected == pytest.approx(module.vm().tsc_khz() / 1000, rel=1e-3)
    assert results(hangs).text("said") == "begun\n"
    assert (results(hangs).text("killed"), results(hangs).text("status")) == (f"{LIMIT_S}\n", "137\n")
    assert (results(fails).text("stderr"), results(fails).text("status")) == ("no such thing\n", "3\n")
    found = results(last)
    assert found.text("places").split() == ["last"]
    assert "sleep 1000" not in found.text("processes")
    assert found.text("files") == ""


RCU = "[ {0}.000000] rcu: rcu_preempt kthread starved for {0}250 jiffies! g2057 f0x2"


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ("[    {0}.000000] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "it said nothing for"),
        (RCU, "RCU had no CPU for"),
        ("matrix: {0}0 s", ""),
    ],
    ids=["complaints", "starved", "beats"],
)
def test_a_kernel_that_complains_does_not_live(
    line: str, failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest whose CPU stands still writes to its console for ever; its watchman does not."""
    monkeypatch.setattr(module.vm(), "SILENT_S", 5)
    console = tmp_path / "console"
    beats = "200" if failure else "80"  # longer than it may be silent, and an end
    script = f'for number in $(seq 1 {beats}); do echo "{line.format("${number}")}" >> {console}; sleep 0.1; done'
    with subprocess.Popen(["sh", "-c", script], text=True) as emulator:
        try:
            if failure:
                with pytest.raises(module.vm().VmError, match=f"stood still: {failure}"):
                    module.vm().follow(emulator, console, 0, True, {})
                assert emulator.poll() is None
            else:
                module.vm().follow(emulator, console, 0, True, {})
        finally:
            emulator.kill()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the time stamp counter of x86-64")
def test_the_rate_of_the_counter_is_the_same_each_time() -> None:
    rates = [module.vm().tsc_khz(0.05) for _ in range(5)]
    assert max(rates) - min(rates) < 1e-3 * rates[0]


def test_boots_of_the_matrix_are_the_same_for_all_files() -> None:
    """What is booted once is one object: kernel, lock mode, CPUs and command line."""
    assert boot("trixie") == boot("trixie")
    assert str(boot("trixie", turns=True)) == "trixie-native-turns-2cpus"
