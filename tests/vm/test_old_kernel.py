# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel before 5.19 has no tracepoint for waits: lockline says so, and does nothing there."""

from collections.abc import Callable

import pytest
from boots import Section
from guest import Guest
from matrix import NATIVE, boot, chosen, kernel_of

COMMAND = """
lockline-collect doctor > doctor.json 2> doctor-messages
echo $? > doctor-status
lockline-collect record -a -d 1 -o run.lockline > record-output 2> record-messages
echo $? > record-status
ls > files
bpf_programs=$(grep -l prog_id /proc/[0-9]*/fdinfo/* 2> /dev/null | wc -l)
echo $bpf_programs > programs
"""


@pytest.fixture(scope="module", params=chosen(Section(boot("bullseye"), "refused", COMMAND)), ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """Debian 11's 5.10."""
    return results(request.param)


def test_doctor_works(guest: Guest) -> None:
    doctor = guest.json("doctor.json")
    assert guest.text("doctor-status") == "0\n"
    assert guest.text("doctor-messages") == ""
    assert doctor["host"]["kernel_release"].startswith("5.10.")
    assert doctor["host"]["spinlock_mode"] == NATIVE
    probes = {probe["signal"]: probe for probe in doctor["probes"]}
    assert probes["lock waits"]["state"] == "unavailable"
    assert "5.19" in probes["lock waits"]["reason"]
    # Nothing that rests on the tracepoints is promised.
    for signal in ("spinlock first waiter", "spinlock queued waiters", "rwlock waiters", "kernel stacks"):
        assert probes[signal]["state"] == "unavailable", probes[signal]
        assert "5.19" in probes[signal]["reason"], probes[signal]


def test_record_refuses_in_one_line(guest: Guest) -> None:
    assert guest.text("record-status") == "1\n"
    assert guest.text("record-output") == ""
    messages = guest.text("record-messages").splitlines()
    assert len(messages) == 1, messages
    assert "5.19" in messages[0]
    assert "run.lockline" not in guest.text("files").split()


def test_nothing_stays_in_the_kernel(guest: Guest) -> None:
    assert guest.text("programs") == "0\n"
    assert "WARNING:" not in guest.text("dmesg")
