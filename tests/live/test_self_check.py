# SPDX-License-Identifier: GPL-2.0-or-later
"""The self-check finds a load that stalls because it is traced, and is not fooled by one that stalls anyhow."""

import os
import resource
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support import Collector, Recording, bpf_links, decode, running, wait_for
from test_episodes import report

TOP = Path(__file__).resolve().parent.parent.parent
# Enough for a difference of many times, also where the kernel is busy with other tests.
PAIRS = 9
# With so many pairs chance alone gives the least p once in 2^11 times.
PAIRS_ALIKE = 12
# More links than the two tracepoints of the waits and the probes of slow paths take.
DEEPER_LINKS = 12


@pytest.fixture
def real_time() -> None:
    """Skips where no task gets real-time priority, as in some containers."""
    try:
        process = subprocess.run(["chrt", "-f", "2", "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("chrt (util-linux) is not installed")
    if process.returncode:
        pytest.skip(f"no real-time priority here: {process.stderr.strip()}")


def slices(path: Path) -> list[tuple[Any, ...]]:
    """(pair, begin, end, deeper, waits, wait histogram, wake-ups, histogram, switches) of the slices so far."""
    with Recording(path) as recorded:
        return recorded.rows(
            "SELECT pair, begin_ns, end_ns, deeper, waits, wait_histogram, wakeups, wakeup_histogram, switches"
            " FROM self_check ORDER BY slice"
        )


def check(live: Path, path: Path, when: str, links: int, pairs: int, *options: str) -> dict[str, Any]:
    """The report's self_check, of so many pairs, with a load that stalls `when` the collector has more than `links`."""
    with (
        Collector(live, path, "--self-check=0.25", "-I", "0.2", *options) as collector,
        running(live / "workloads" / "stalls", str(collector.process.pid), str(links), when, "3000") as load,
    ):
        wait_for(lambda: len(slices(path)) >= 2 * pairs, f"{pairs} pairs of slices")
        assert load.poll() is None
    found: dict[str, Any] = report(path)["self_check"]
    assert found["pairs"] >= pairs
    assert found["ended"] is None
    return found


def wakeups(found: dict[str, Any]) -> dict[str, Any]:
    (measure,) = [measure for measure in found["measures"] if measure["name"] == "wake-ups"]
    assert isinstance(measure, dict)
    return measure


@pytest.mark.parametrize(("when", "verdict"), [("with", "makes stalls"), ("without", "hides stalls")])
def test_what_deeper_probes_do_to_a_load(live: Path, recording: Path, real_time: None, when: str, verdict: str) -> None:
    found = check(live, recording, when, DEEPER_LINKS, PAIRS, "--episodes")
    assert wakeups(found)["verdict"] == verdict, found
    assert found["verdict"] in (verdict, "makes some stalls and hides others")
    assert "context switches" in found["deeper"]
    assert found["waits_always"]
    findings = [finding for finding in report(recording)["findings"] if finding["rule"] == "perturbation"]
    assert len(findings) == 1


def test_what_the_probes_of_the_waits_do_to_a_load(live: Path, recording: Path, real_time: None) -> None:
    found = check(live, recording, "with", 0, PAIRS)
    assert wakeups(found)["verdict"] == "makes stalls", found
    assert not found["waits_always"]


def test_a_load_that_stalls_anyhow(live: Path, recording: Path, real_time: None) -> None:
    measure = wakeups(check(live, recording, "both", DEEPER_LINKS, PAIRS_ALIKE, "--episodes"))
    assert measure["with"]["outliers"] + measure["without"]["outliers"] >= 20
    # Not the verdict: that is wrong once in twenty times.
    assert measure["test"]["p"] > measure["test"]["smallest_p"], measure


def test_the_slices(live: Path, recording: Path) -> None:
    """Pairs have one slice of each kind, slices do not overlap, and the deeper probes are silent without."""
    with (
        Collector(live, recording, "--self-check=0.25", "-I", "0.2", "--episodes", "--threshold", "0ms"),
        running(live / "workloads" / "lock_load", "directory", "4", cwd=recording.parent, share=0.3),
    ):
        wait_for(lambda: len(slices(recording)) >= 8, "8 slices")
    found = slices(recording)
    for number, (pair, begin, end, deeper, waits, wait_histogram, wakes, histogram, switches) in enumerate(found):
        assert pair == number // 2
        assert end - begin >= 250_000_000
        assert deeper in (0, 1)
        assert waits == sum(decode(wait_histogram).values())
        # Both are counted by threads that go on meanwhile.
        assert abs(wakes - sum(decode(histogram).values())) <= len(os.sched_getaffinity(0))
        assert switches > 0
    for one, other in zip(found[::2], found[1::2], strict=False):
        assert one[3] + other[3] == 1
    for before, after in pairwise(found):
        assert after[1] - before[2] >= 200_000_000
    with Recording(recording) as recorded:
        silent = sum(
            recorded.number("SELECT count(*) FROM timeline WHERE time_ns BETWEEN ? AND ?", begin, end)
            for _, begin, end, deeper, *_ in found
            if not deeper
        )
        assert silent == 0
        assert recorded.number("SELECT count(*) FROM timeline") > 0
        assert recorded.integrity() == "ok"


# The links of the waits alone.
FEW_LINKS = 8


def test_probes_are_taken_off_in_truth(live: Path, recording: Path) -> None:
    """The collector's links come and go; those of the waits stay."""

    with Collector(live, recording, "--self-check=0.25", "--episodes", "--futex") as collector:
        process = collector.process.pid
        # While they are attached one by one, any number of them is seen: no number is the slice's own.
        wait_for(lambda: 2 <= bpf_links(process) <= FEW_LINKS, "slice without the deeper probes")
        wait_for(lambda: bpf_links(process) > FEW_LINKS + 10, "slice with them")
        few = wait_for(lambda: (count := bpf_links(process)) <= FEW_LINKS and count, "slice without them again")
        assert few >= 2


def test_interrupted_in_a_slice_without(live: Path, recording: Path) -> None:
    collector = Collector(live, recording, "--self-check=0.25").attached()
    wait_for(lambda: any(not row[3] for row in slices(recording)), "slice without probes")
    assert collector.stop(signal.SIGINT) == 0
    with Recording(recording) as recorded:
        assert recorded.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]
        assert recorded.integrity() == "ok"
    done = subprocess.run(
        [sys.executable, "-m", "lockline", "report", "--all", recording],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(TOP / "userspace")},
    )
    assert "Self-check:" in done.stdout


def without_descriptors(pid: int) -> None:
    """That process can open no new file, and so no new link."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))


def test_deeper_probes_that_cannot_come_back(live: Path, recording: Path) -> None:
    """The waits are still recorded, the deeper probes are gone, and the recording says so."""

    def number(query: str) -> int:
        with Recording(recording) as recorded:
            return recorded.number(query)

    waits = "SELECT sum(waits) FROM lock_total"
    with (
        Collector(live, recording, "--self-check=0.25", "-I", "0.1", "--episodes") as collector,
        running(live / "workloads" / "lock_load", "directory", "4", cwd=recording.parent, share=0.3),
    ):
        before = resource.prlimit(collector.process.pid, resource.RLIMIT_NOFILE)
        without_descriptors(collector.process.pid)
        wait_for(lambda: number("SELECT count(*) FROM meta WHERE name = 'self_check_ended'"), "end of the check")
        resource.prlimit(collector.process.pid, resource.RLIMIT_NOFILE, before)
        so_far = number(waits)
        wait_for(lambda: number(waits) > so_far, "more waits")
    assert any("goes on" in line for line in collector.errors())
    with Recording(recording) as recorded:
        assert recorded.loss("self_check_detached") > 0
        assert recorded.integrity() == "ok"
    assert report(recording)["self_check"]["ended"]


def test_probes_of_the_waits_that_cannot_come_back(live: Path, recording: Path) -> None:
    """Nothing could be recorded any more: it ends, and what there is stays."""
    collector = Collector(live, recording, "--self-check=0.25", "-I", "0.1").attached()
    without_descriptors(collector.process.pid)
    assert collector.wait() == 1
    assert any("the recording ends here" in line for line in collector.errors())
    with Recording(recording) as recorded:
        assert recorded.integrity() == "ok"
        assert recorded.number("SELECT count(*) FROM interval") > 0
