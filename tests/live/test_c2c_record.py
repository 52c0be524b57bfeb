# SPDX-License-Identifier: GPL-2.0-or-later
"""record --c2c: perf's memory samples beside the recording, for the same time, and never in its way.

Machines without memory events of the PMU (most guests) have real perf sample a clock in their stead.
"""

import os
import shutil
import zlib
from pathlib import Path

import pytest

from support import Collector, Recording, wait_for
from test_starts_and_ends import record

REFUSING = "#!/bin/sh\necho 'failed: memory events not supported' >&2\nexit 255\n"

# `perf c2c record -- ARGUMENTS` as perf record of a clock.
CLOCKED = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec {perf} record -e cpu-clock --sample-cpu "$@"
"""

SIGNAL = "SELECT state, source, reason, lost FROM probe WHERE signal = 'memory samples'"


def script(directory: Path, text: str) -> Path:
    path = directory / "perf"
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def clocked(tmp_path: Path) -> Path:
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    return script(tmp_path, CLOCKED.format(perf=perf))


def perf_processes(file: Path) -> list[int]:
    """Processes whose command line names the file of the samples; no zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if b"-o" in command and os.fsencode(file) in command and b"-k" in command:
            found.append(int(entry.name))
    return found


def is_zombie(pid: int) -> bool:
    """Whether the process has ended, and its parent has yet to be told; that is with the last of its threads."""
    try:
        [_] = Path(f"/proc/{pid}/task").iterdir()
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ValueError:
        return False
    except OSError:
        return True


def test_goes_on_without(live: Path, recording: Path, tmp_path: Path) -> None:
    perf = script(tmp_path, REFUSING)
    status, errors = record(live, recording, "--c2c", "--perf", perf, "-d", "300ms")
    assert status == 0
    assert "no memory samples: perf ended at once with status 255; it said: failed: memory events not sup" in errors
    assert "the recording goes on without them" in errors
    assert not recording.with_name(recording.name + ".perf.data").exists()
    with Recording(recording) as got:
        assert got.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]
        [(state, source, reason, lost)] = got.rows(SIGNAL)
        assert (state, source) == ("unavailable", "")
        assert "memory events not supported" in reason
        assert "which cache lines move" in lost


def test_types_of_the_kernel_are_stored(live: Path, recording: Path, tmp_path: Path) -> None:
    perf = script(tmp_path, REFUSING)
    assert record(live, recording, "--c2c", "--perf", perf, "-d", "100ms")[0] == 0
    with Recording(recording) as got:
        [(name, size, data)] = got.rows("SELECT name, bytes, data FROM btf")
    kernel = Path("/sys/kernel/btf/vmlinux").read_bytes()
    assert (name, size) == ("vmlinux", len(kernel))
    assert zlib.decompress(data) == kernel


def test_samples_of_the_same_time(live: Path, recording: Path, clocked: Path) -> None:
    status, errors = record(live, recording, "--c2c", "--perf", clocked, "-C", "0", "-d", "1")
    samples = recording.with_name(recording.name + ".perf.data")
    assert status == 0
    assert f"lockline c2c report {samples} --recording {recording}" in errors
    with Recording(recording) as got:
        [(state, source, reason, _)] = got.rows(SIGNAL)
        assert (state, source, reason) == ("on", "perf c2c record", f"in {samples}"[:303])
        facts = dict(got.rows("SELECT name, value FROM meta WHERE name LIKE 'memory_samples%' OR name LIKE '%_ns'"))
    assert facts["memory_samples_file"] == str(samples)
    assert "-- -k CLOCK_MONOTONIC -C 0 -N -D -1" in str(facts["memory_samples_command"])
    # A whole file of perf's, with its own record of the clock.
    data = samples.read_bytes()
    assert data.startswith(b"PERFILE2")
    assert perf_processes(samples) == []


def test_killed_collector_leaves_no_perf(live: Path, recording: Path, clocked: Path) -> None:
    collector = Collector(live, recording, "--c2c", "--perf", str(clocked)).attached()
    samples = recording.with_name(recording.name + ".perf.data")
    assert len(perf_processes(samples)) == 1
    collector.process.kill()
    collector.process.wait(60)
    wait_for(lambda: not perf_processes(samples), "end of perf after the collector's")


def test_perf_that_ends_early_is_told(live: Path, recording: Path, clocked: Path) -> None:
    samples = recording.with_name(recording.name + ".perf.data")
    with Collector(live, recording, "--c2c", "--perf", str(clocked)) as collector:
        [pid] = perf_processes(samples)
        os.kill(pid, 9)
        # A process without memory may still be on its way out.
        wait_for(lambda: is_zombie(pid), "end of perf")
        assert collector.stop() == 0
    assert any("perf ended before the recording did with signal 9" in line for line in collector.errors())
    with Recording(recording) as got:
        assert got.rows("SELECT state FROM probe WHERE signal = 'memory samples'") == [("unavailable",)]
        assert got.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]
