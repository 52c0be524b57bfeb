# SPDX-License-Identifier: GPL-2.0-or-later
"""record --hitm on this machine: by an event of the kernel's own where there is no PMU.

A clock's samples have no data source, and none is made up.
"""

import re
import signal
from pathlib import Path

import pytest

from support import Collector, Recording, running, wait_for

CLOCK = "software/config=0/"
SIGNAL = "SELECT state, source, reason, lost FROM probe WHERE signal = 'memory samples (HITM)'"
RING_BYTES = 512 * 128 + 64  # of each CPU: samples and its state
DEVICES = Path("/sys/bus/event_source/devices")


@pytest.fixture
def no_memory_events() -> None:
    """Skips where the PMU has such events."""
    if list(DEVICES.glob("*/events/mem-loads")) or (DEVICES / "ibs_op").exists():
        pytest.skip("this machine has memory events")


def perf_events(pid: int) -> int:
    """Open perf events of a process."""
    links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return sum("[perf_event]" in link for link in links)


def test_a_clock_has_no_data_source(live: Path, recording: Path) -> None:
    with (
        running("sh", "-c", "while :; do :; done"),
        Collector(live, recording, "--hitm", "--hitm-event", CLOCK, "-d", "1") as run,
    ):
        assert run.wait() == 0, run.errors()
        errors = run.errors()
    assert any("had a data source" in line for line in errors), errors
    with Recording(recording) as got:
        samples = got.number("SELECT value FROM meta WHERE name = 'memory_samples'")
        assert samples > 0
        assert got.loss("memory_without_source") == samples
        assert got.number("SELECT count FROM memory_count WHERE name = 'noparse'") == samples
        assert got.number("SELECT count FROM memory_count WHERE name = 'nr_entries'") == samples
        assert got.number("SELECT count(*) FROM memory_line") == 0
        assert got.number("SELECT value FROM meta WHERE name = 'memory_running_ns'") > 0
        assert got.rows("SELECT kind, name, event FROM memory_source") == [("PMU", "software", CLOCK)]
        assert got.rows(SIGNAL) == [("on", "PMU", CLOCK, "")]


def test_the_chosen_cpus_and_tasks_alone(live: Path, recording: Path) -> None:
    """Of a process that sleeps there is nothing to sample."""
    hitm = ["--hitm", "--hitm-event", CLOCK, "--hitm-rate", "100"]
    with running("sleep", "1000") as sleeper:
        chosen = ["-C", "0", "-p", str(sleeper.pid)]
        # Where functions are probed by kprobes, these are such events too.
        with Collector(live, recording, *chosen) as run:
            others = perf_events(run.process.pid)
            run.stop()
        with Collector(live, recording, *chosen, *hitm) as run:
            assert perf_events(run.process.pid) == others + 1
            assert run.stop() == 0, run.errors()
    with Recording(recording) as got:
        assert got.number("SELECT value FROM meta WHERE name = 'memory_samples'") == 0
        assert got.number("SELECT value FROM meta WHERE name = 'memory_sample_rate'") == 100


def charged(pid: int) -> int:
    """What the kernel counts for the maps that a process holds."""
    texts = [info.read_text() for info in Path(f"/proc/{pid}/fdinfo").iterdir()]
    sizes = {
        int(found[1]): int(size[1])
        for text in texts
        if (found := re.search(r"^map_id:\s+(\d+)", text, re.MULTILINE))
        and (size := re.search(r"^memlock:\s+(\d+)", text, re.MULTILINE))
    }
    return sum(sizes.values())


def test_the_kernel_charges_what_the_recording_says(live: Path, recording: Path) -> None:
    """The rings of samples are in the budget, as the kernel accounts for them."""
    told, seen = [], []
    for hitm in ([], ["--hitm", "--hitm-event", CLOCK]):
        with Collector(live, recording, "-a", "--memory", "64M", *hitm) as run:
            seen.append(charged(run.process.pid))
        with Recording(recording) as got:
            told.append(got.number("SELECT value FROM cost WHERE name = 'map_bytes'"))
            cpus = got.number("SELECT value FROM meta WHERE name = 'cpus_possible'")
            assert got.number("SELECT value FROM cost WHERE name = 'table_bytes'") <= 64 << 20
    assert told[1] - told[0] == cpus * RING_BYTES
    # What else is charged is the same for both, but for what a page rounds up.
    assert told[1] <= seen[1]
    assert abs((seen[1] - told[1]) - (seen[0] - told[0])) < 16384


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_event_stays(live: Path, recording: Path, number: signal.Signals) -> None:
    with Collector(live, recording, "--hitm", "--hitm-event", CLOCK) as run:
        pid = run.process.pid
        assert perf_events(pid) >= 1
        run.stop(number)
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), f"end of process {pid}")


@pytest.mark.usefixtures("no_memory_events")
def test_without_a_pmu(live: Path, recording: Path) -> None:
    """The report says so, and the recording goes on."""
    with Collector(live, recording, "--hitm", "-d", "0.1") as run:
        assert run.wait() == 0
        errors = run.errors()
    assert any(
        "no memory samples: this machine has no event source mem-loads" in line and "lockline watch" in line
        for line in errors
    ), errors
    with Recording(recording) as got:
        state, source, reason, lost = got.rows(SIGNAL)[0]
        assert (state, source) == ("unavailable", "")
        assert "ibs_op" in reason
        assert "cache lines" in lost
        assert got.rows("SELECT * FROM memory_source") == []


def test_events_that_are_none(live: Path, recording: Path) -> None:
    with Collector(live, recording, "--hitm", "--hitm-event", "gpu/config=1/", "-d", "0.1") as run:
        assert run.wait() == 0
        assert any("there is no such PMU" in line for line in run.errors())
    with Recording(recording) as got:
        assert got.rows(SIGNAL)[0][0] == "unavailable"


def test_an_event_that_the_kernel_refuses(live: Path, recording: Path) -> None:
    with Collector(live, recording, "--hitm", "--hitm-event", "software/config=999/", "-d", "0.1") as run:
        assert run.wait() == 0
        errors = run.errors()
    assert any("software/config=999/" in line and "goes on" in line for line in errors), errors
    with Recording(recording) as got:
        state, _, reason, _ = got.rows(SIGNAL)[0]
        assert state == "unavailable"
        assert "refuses the events" in reason
