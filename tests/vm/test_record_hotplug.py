# SPDX-License-Identifier: GPL-2.0-or-later
"""CPUs that come and go under a recording: loads on a CPU that was away when it began, and that went and came back."""

from collections.abc import Callable

import pytest
from boots import Section
from guest import Guest
from matrix import CLOCK_SAMPLES, boot, chosen, kernel_of

STRETCHES = 2
# Two tasks on one CPU, one of which wakes the other: waits on it alone.
ROUNDS = f"""
online() {{ echo $1 > /sys/devices/system/cpu/cpu1/online; }}
now() {{ cut -d ' ' -f 1 /proc/uptime; }}
for i in $(seq {STRETCHES}); do
    online 1
    began=$(now)
    timeout 5 taskset 1 lock_load futex 1 &
    timeout 5 taskset 2 lock_load futex 1
    echo $began $(now) >> stretches
    wait
    online 0
    sleep 1
done
"""
COMMAND = f"""
echo 0 > /sys/devices/system/cpu/cpu1/online
cat > /tmp/rounds << 'SCRIPT'
{ROUNDS}
SCRIPT
lockline-collect record -a --holders {CLOCK_SAMPLES} -o run.lockline -- sh /tmp/rounds 2> messages || exit
echo 1 > /sys/devices/system/cpu/cpu1/online
grep -l prog_id /proc/[0-9]*/fdinfo/* > programs 2> /dev/null
true  # nothing is found there
"""
HOTPLUG = Section(boot("trixie", turns=True), "record-hotplug", COMMAND, order=1)


@pytest.fixture(scope="module", params=chosen(HOTPLUG), ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """A guest whose second CPU came and went while it was recorded."""
    return results(request.param)


def away(guest: Guest) -> list[float]:
    """Lengths of the stretches with both CPUs, in ns."""
    stretches = [line.split() for line in guest.text("stretches").splitlines()]
    assert len(stretches) == STRETCHES
    return [(float(end) - float(begin)) * 1e9 for begin, end in stretches]


def test_waits_on_it_are_counted(guest: Guest) -> None:
    waits = dict(guest.query("SELECT cpu, sum(waits) FROM cpu_total GROUP BY cpu"))
    assert waits[1] > 0, waits
    assert guest.accounted_begins() == guest.begins()
    assert guest.facts("loss")["cpus_added"] == 0


def test_its_events_are_opened_when_it_comes(guest: Guest) -> None:
    meta = guest.facts("meta")
    length, both = meta["end_ns"] - meta["begin_ns"], sum(away(guest))
    enabled = meta["memory_enabled_ns"]
    # They are opened at the next look.
    assert length + 0.8 * both <= enabled <= 1.1 * length + 1.2 * both + 1e9, (length, both, enabled)


def test_nothing_is_complained_of_nor_left(guest: Guest) -> None:
    assert "came online" not in guest.text("messages")
    assert guest.text("programs") == ""
    assert "WARNING:" not in guest.text("dmesg")
    assert "BUG:" not in guest.text("dmesg")
