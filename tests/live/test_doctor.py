# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline-collect doctor` on this machine, and on this machine with parts of it hidden."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support import Collector, Recording, wait_for

STATES = {"on", "off", "unavailable", "blind"}
GARBAGE = bytes(range(256)) * 40

# What may read as anything at all without a crash.
TEXTS = [
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/kallsyms",
    "/proc/sys/kernel/kptr_restrict",
    "/proc/sys/kernel/random/boot_id",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/devices/system/cpu/possible",
    "/sys/kernel/btf/vmlinux",
]


@pytest.fixture
def collector(live: Path) -> Iterator[Path]:
    """The collector where every user can run it."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(shutil.copy(live / "bin" / "lockline-collect", directory))


def doctor(command: Sequence[str | Path], **options: Any) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Host facts, and the probes by signal."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "lockline-doctor/1"
    for probe in document["probes"]:
        assert probe["state"] in STATES
        assert probe["reason"]
        assert (probe["state"] == "on") == (probe["lost"] == "")
    assert len({probe["signal"] for probe in document["probes"]}) == len(document["probes"]) > 20
    return document["host"], {probe["signal"]: probe for probe in document["probes"]}


def has_ended(pid: str) -> bool:
    """Whether a process is gone, or only waits to be collected by its parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rsplit(")", 1)[1].split()[0] in "ZX"


def hidden(collector: Path, mounts: str) -> list[str | Path]:
    """The doctor in a mount namespace of its own, after some mounts."""
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no mount namespaces here: {probe.stderr.strip()}")
    return ["unshare", "-m", "sh", "-ec", f'{mounts}\nexec "$0" doctor', collector]


def test_this_machine(collector: Path) -> None:
    host, probes = doctor([collector, "doctor"])
    assert host["kernel_release"] == os.uname().release
    assert host["hostname"] == os.uname().nodename
    assert host["btf"] == "present"
    assert int(host["cpus_possible"]) >= int(host["cpus_online"]) >= 1
    assert host["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert host["spinlock_mode"]
    assert "missing" in host["capabilities"]
    assert probes["lock waits"]["state"] == "on"
    assert probes["user stacks"]["state"] == "off"


def test_what_a_recording_would_keep(live: Path, recording: Path, collector: Path) -> None:
    host, _ = doctor([collector, "doctor"])
    with Collector(live, recording, "-a"):
        pass
    with Recording(recording) as result:
        ((kept,),) = result.rows("SELECT value FROM meta WHERE name = 'privileges_kept'")
    assert "CAP_BPF" in kept.split()
    assert host["privileges_kept"] == kept


def test_without_rights(collector: Path) -> None:
    host, probes = doctor([collector, "doctor"], user=65534, group=65534, extra_groups=[])
    assert host["capabilities"].startswith("present: none")
    assert probes["lock waits"]["state"] == "unavailable"
    assert "root" in probes["lock waits"]["reason"]
    assert "CAP_SYS_ADMIN" in probes["own cost"]["reason"]


def test_without_sysfs(collector: Path) -> None:
    host, probes = doctor(hidden(collector, "mount -t tmpfs none /sys"))
    assert host["btf"] == "missing"
    assert probes["lock waits"]["state"] == "unavailable"
    assert "BTF" in probes["lock waits"]["reason"]


def test_without_procfs(collector: Path) -> None:
    host, _ = doctor(hidden(collector, "mount -t tmpfs none /proc"))
    assert host["kallsyms"] == "not readable"
    assert host["capabilities"] == "not readable (/proc/self/status)"


def test_garbage_in_sysfs(collector: Path, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(GARBAGE)
    mounts = "\n".join(f"mount --bind {garbage} {text}" for text in TEXTS if Path(text).exists())
    host, _ = doctor(hidden(collector, mounts))
    assert all(value.isprintable() and value.isascii() for value in host.values())


def test_shared_clock(collector: Path, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("hpet\n")
    mounts = f"mount --bind {clock} /sys/devices/system/clocksource/clocksource0/current_clocksource"
    host, probes = doctor(hidden(collector, mounts))
    assert host["clocksource"] == "hpet"
    assert probes["clock"]["state"] == "blind"
    assert "hpet" in probes["clock"]["reason"]


def test_perf_that_hangs(collector: Path, tmp_path: Path) -> None:
    """It is given up, and it leaves no process behind."""
    left = tmp_path / "pid"
    perf = tmp_path / "perf"
    perf.write_text(f"#!/bin/sh\nsleep 1000 & echo $! > {left}\nwait\n")
    perf.chmod(0o755)
    host, _ = doctor([collector, "doctor"], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert "does not say" in host["perf_version"]
    pid = left.read_text().strip()
    wait_for(lambda: has_ended(pid), f"end of process {pid}")


@pytest.mark.parametrize("command", ["doctor", "types", "record --sizes", "record --help", "--version"])
def test_full_disk(collector: Path, command: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [collector, *command.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["lockline: cannot write the output: No space left on device"]


def deep(command: Sequence[str | Path], **options: Any) -> dict[str, Any]:
    """What was measured between CPUs."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    assert done.returncode == 0, done.stderr
    measured: dict[str, Any] = json.loads(done.stdout)["cpu_pairs"]
    return measured


@pytest.mark.alone
@pytest.mark.usefixtures("two_cpus")
def test_between_cpus(collector: Path) -> None:
    """Every pair of a small machine, without rights."""
    measured = deep([collector, "doctor", "--deep"], user=65534, group=65534, extra_groups=[])
    cpus = sorted(os.sched_getaffinity(0))
    assert measured["cpus"] == len(cpus)
    assert measured["possible_pairs"] == len(cpus) * (len(cpus) - 1) // 2
    pairs = {(pair["first"], pair["second"]): pair for pair in measured["pairs"]}
    if measured["chosen_pairs"] == measured["possible_pairs"]:
        assert set(pairs) == {(a, b) for a in cpus for b in cpus if a < b}
    for pair in pairs.values():
        assert 0 < pair["least_transfer_ns"] <= pair["transfer_ns"]
        assert pair["rounds"] > 0
        assert pair["readings"] > 0
        assert pair["warp_ns"] >= 0
        assert (pair["warp_behind"] is None) == (pair["warp_ns"] == 0)
        assert pair["warp_behind"] in {None, pair["first"], pair["second"]}
    assert measured["counter"] in {"TSC", "CNTVCT_EL0"}
    assert measured["counter_hz"] > 1e6


@pytest.mark.alone
def test_on_one_cpu(collector: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    measured = deep([collector, "doctor", "--deep"], preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    assert (measured["cpus"], measured["possible_pairs"], measured["pairs"]) == (1, 0, [])


@pytest.mark.usefixtures("two_cpus")
def test_recorded(live: Path, recording: Path) -> None:
    with Collector(live, recording, "--deep", "-d", "0.1") as run:
        assert run.wait() == 0, run.errors()
    with Recording(recording) as data:
        measured = data.rows("SELECT first, second, transfer_ns, least_transfer_ns, warp_ns, rounds FROM cpu_pair")
        chosen = data.number("SELECT value FROM meta WHERE name = 'cpu_pairs_chosen'")
        hz = data.number("SELECT value FROM meta WHERE name = 'cpu_counter_hz'")
    assert 0 < len(measured) <= chosen
    for first, second, median, least, warp, rounds in measured:
        assert first < second
        assert 0 < least <= median
        assert warp >= 0
        assert rounds > 0
    assert hz > 1e6


@pytest.mark.parametrize(("given", "name"), [("node-7", "node-7"), ("", os.uname().nodename), ("x" * 200, "x" * 64)])
def test_the_name_of_the_machine(collector: Path, given: str, name: str) -> None:
    """Of a container's node, which its DaemonSet tells."""
    environment = {**os.environ, "LOCKLINE_HOST": given}
    done = subprocess.run([collector, "doctor"], capture_output=True, text=True, check=True, env=environment)
    assert json.loads(done.stdout)["host"]["hostname"] == name
