# SPDX-License-Identifier: GPL-2.0-or-later
"""The collector on Debian's kernels: recorded in a guest, judged here."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from guest import LOAD, Guest

TOP = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Case:
    """A kernel, what it is booted with, and what lockline must find there."""

    kernel: str
    release: str
    cpu: str
    spinlocks: str
    append: str = "tsc=reliable"
    clock: str = "precise"

    def __str__(self) -> str:
        return f"{self.kernel}-{self.spinlocks}-{self.clock}"


# In a guest whose hypervisor offers no paravirtual locks a kernel uses test-and-set ones; without
# the hypervisor's mark it takes itself to be on bare metal.
NATIVE, TEST_AND_SET = "max,-hypervisor", "max"
CASES = (
    Case("bookworm", "6.1.", NATIVE, "native"),
    Case("bookworm", "6.1.", TEST_AND_SET, "test-and-set", "tsc=unstable clocksource=hpet", "coarse"),
    Case("trixie", "6.12.", NATIVE, "native"),
    Case("trixie", "6.12.", TEST_AND_SET, "test-and-set"),
)

COMMAND = f"""
lockline-collect doctor > doctor.json || exit
lockline-collect record -a -o run.lockline -- {LOAD}
"""


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    """One boot."""
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def guest(case: Case, boot: Callable[..., Guest]) -> Guest:
    """What the boot left."""
    return boot(case.kernel, COMMAND, "--cpu", case.cpu, "--append", case.append)


@pytest.fixture(scope="module")
def states(guest: Guest) -> dict[str, str]:
    """What the doctor says of each signal."""
    return {probe["signal"]: probe["state"] for probe in guest.json("doctor.json")["probes"]}


def test_doctor_tells_the_host(case: Case, guest: Guest) -> None:
    host = guest.json("doctor.json")["host"]
    assert host["kernel_release"].startswith(case.release)
    assert host["spinlock_mode"] == case.spinlocks
    assert host["cpus_possible"] == "2"
    assert host["btf"] == "present"


def test_doctor_tells_what_is_blind(states: dict[str, str]) -> None:
    assert states["lock waits"] == "on"
    assert states["static lock names"] == "on"
    assert states["per-CPU lock names"] == "on"
    assert states["slab lock names"] == "on"
    # Both kernels let the slow path be probed; rwsems that are won by spinning stay unseen.
    assert states["spinlock first waiter"] == "on"
    assert states["spinlock queued waiters"] == "on"
    assert states["rwsem writers that win by spinning"] == "blind"


def test_recording_holds_the_same_plan(guest: Guest, states: dict[str, str]) -> None:
    recorded = dict(guest.query("SELECT signal, state FROM probe"))
    assert recorded == states | {"process following": "on"}  # of the load, which the doctor did not start


def test_clock(case: Case, guest: Guest) -> None:
    assert guest.facts("meta")["clock"] == case.clock


def test_recording_is_complete(guest: Guest) -> None:
    meta = guest.facts("meta")
    assert meta["state"] == "complete"
    intervals = guest.query("SELECT begin_ns, end_ns FROM interval ORDER BY id")
    assert [begin for begin, _ in intervals] == [meta["begin_ns"], *(end for _, end in intervals[:-1])]
    assert intervals[-1][1] == meta["end_ns"]


def test_every_begin_is_accounted_for(guest: Guest) -> None:
    assert guest.begins() > 0
    assert guest.accounted_begins() == guest.begins()


def test_known_lock_is_named(guest: Guest) -> None:
    waits = guest.query(
        "SELECT sum(waits) FROM lock_total JOIN lock ON lock.id = lock"
        " WHERE name = 'tasklist_lock' AND source = 'symbol'"
    )
    assert waits[0][0], guest.query("SELECT name, source, sum(waits) FROM lock_total JOIN lock ON id = lock GROUP BY 1")


def test_spinlocks_are_seen_by_probes_of_their_slow_path(guest: Guest) -> None:
    # Two CPUs never queue: the tracepoints alone would show no wait for a spinlock of either kind,
    # but for the inner lock of an rwlock.
    assert guest.facts("loss")["slow_paths"] > 0
    waits = guest.query("SELECT sum(waits) FROM lock_total JOIN lock ON id = lock WHERE name = 'runqueues.__lock'")
    assert waits[0][0], guest.query("SELECT name, sum(waits) FROM lock_total JOIN lock ON id = lock GROUP BY 1")


def test_report_opens_it(guest: Guest) -> None:
    done = subprocess.run(
        [TOP / "build" / "bin" / "lockline", "report", "--format", "json", guest.recording],
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    assert report["schema"] == "lockline-report/1"
    assert "tasklist_lock" in {lock["name"] for lock in report["locks"]}
