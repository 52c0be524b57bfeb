# SPDX-License-Identifier: GPL-2.0-or-later
"""The collector on Debian's kernels: recorded in a guest, judged here."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from guest import Guest
from matrix import TEST_AND_SET, Case

TOP = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def states(guest: Guest) -> dict[str, str]:
    """What the doctor says of each signal."""
    return {probe["signal"]: probe["state"] for probe in guest.json("doctor.json")["probes"]}


def test_doctor_tells_the_host(case: Case, guest: Guest) -> None:
    host = guest.json("doctor.json")["host"]
    assert host["kernel_release"].startswith(case.release)
    assert host["spinlock_mode"] == case.spinlock_mode
    assert host["cpus_possible"] == str(case.cpus)
    assert host["btf"] == "present"


def test_doctor_tells_what_is_blind(case: Case, guest: Guest) -> None:
    probes = {probe["signal"]: probe for probe in guest.json("doctor.json")["probes"]}
    for signal in ("lock waits", "per-CPU lock names", "slab lock names", "rwlock waiters"):
        assert probes[signal]["state"] == "on", probes[signal]
    assert probes["static lock names"]["state"] == ("on" if case.variables else "unavailable")
    first, queued = probes["spinlock first waiter"], probes["spinlock queued waiters"]
    assert (first["state"], first["source"]) == ("on", case.source), first
    assert queued["state"] == "on"
    assert queued["source"] == (case.source if case.spinlocks == TEST_AND_SET else "tp_btf contention_begin"), queued
    # With PREEMPT_RT the first two pass the tracepoints, or do not exist; 6.1's tracepoint spans the last.
    fentry = case.source != "kprobe"
    in_interrupt, spinning = probes["rwlock readers in interrupt"], probes["rwsem writers that win by spinning"]
    assert in_interrupt["state"] == ("on" if case.realtime or fentry else "blind"), in_interrupt
    assert spinning["state"] == "on", spinning
    assert spinning["source"] == ("tp_btf contention_begin" if case.realtime else "fentry" if fentry else "kprobe"), (
        spinning
    )
    behind_readers = probes["percpu-rwsem writers behind readers"]
    spanned = case.release.startswith("6.1.")
    assert behind_readers["state"] == "on", behind_readers
    assert behind_readers["source"] == ("tp_btf contention_begin" if spanned else "fentry"), behind_readers


def test_recording_holds_the_same_plan(guest: Guest, states: dict[str, str]) -> None:
    recorded: dict[str, str] = dict(guest.query("SELECT signal, state FROM probe"))
    assert recorded == states | {"process following": "on"}  # of the load, which the doctor did not start


def test_memory_samples(case: Case, guest: Guest) -> None:
    """A clock's, none of which has a data source, and none is made up; before 6.2 a program could not tell."""
    state, reason = guest.query("SELECT state, reason FROM probe WHERE signal = 'memory samples (HITM)'")[0]
    if case.release.startswith("6.1."):
        assert state == "unavailable"
        assert "since 6.2" in reason
        return
    assert state == "on", reason
    losses = guest.facts("loss")
    assert losses["memory_without_source"] == guest.facts("meta")["memory_samples"] > 0
    assert losses["memory_nested"] == 0
    assert guest.query("SELECT count(*) FROM memory_line") == [(0,)]


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


def test_stacks_are_known(guest: Guest) -> None:
    """Those that were walked before are not walked again, but at times: then they were the same."""
    losses = guest.facts("loss")
    assert losses["known_stack"] > 0
    assert losses["wrong_stack"] == 0


def test_known_lock_is_named(case: Case, guest: Guest) -> None:
    source = "symbol" if case.variables else "call site"
    waits = guest.query(
        "SELECT sum(waits) FROM lock_total JOIN lock ON lock.id = lock"
        f" WHERE name = 'tasklist_lock' AND source = '{source}'"
    )
    assert waits[0][0], guest.query("SELECT name, source, sum(waits) FROM lock_total JOIN lock ON id = lock GROUP BY 1")


def test_report_opens_it(guest: Guest) -> None:
    done = subprocess.run(
        [TOP / "build" / "bin" / "lockline", "report", "--format", "json", guest.recording],
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    assert report["schema"] == "lockline-report/2"
    assert "tasklist_lock" in {lock["name"] for lock in report["locks"]}


def test_kernel_has_no_complaint(guest: Guest) -> None:
    # Lockups and stalls are left out: an emulated guest can be kept waiting for longer than they allow.
    assert not re.findall(r"^.*(?:WARNING:|BUG: (?!soft lockup)|Oops|general protection).*$", guest.text("dmesg"), re.M)
