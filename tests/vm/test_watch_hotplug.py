# SPDX-License-Identifier: GPL-2.0-or-later
"""CPUs that come and go under watchpoints: two threads whose transfers are known, one on a CPU that is taken away."""

import json
from collections.abc import Callable

import pytest
from boots import Section
from guest import Guest
from matrix import boot, chosen, kernel_of

COUNT = 200
CHANGED = "CPUs went online or offline"

# In the collector's COMMAND.  The second thread runs on CPU 1 where asked to, else on CPU 0.
SHARED = """
begin() { echo "go $1 $2" >&5; }
end() { read -r answer <&6; echo "$answer" >> $rounds; }
round() { begin $1 $2; end; }
perf_events() { ls -l /proc/$PPID/fd | grep -c perf_event; }
until_events() { until [ $(perf_events) -eq $1 ]; do sleep 0.1; done; }
online() { echo $1 > /sys/devices/system/cpu/cpu1/online; }
to_cpu_1() { taskset -p 2 $second > /dev/null; }
"""
# Without a limit of cost the files of a window stay open: two for each CPU.
FULL = f"""
rounds=full-rounds
to_cpu_1
both=$(perf_events)
round {COUNT} 0
begin {COUNT} 0
online 0
end
until_events $((both - 2))
round {COUNT} 0
online 1
until_events $both
to_cpu_1
round {COUNT} 0
"""
WINDOWS = f"""
rounds=windows-rounds
for i in 1 2; do
    to_cpu_1
    begin {COUNT} 0
    online 0
    end
    # Windows lie 100 ms apart: none saw a change that was shorter.
    tries=0
    until grep -q "{CHANGED}" windows-messages || [ $((tries += 1)) -gt 600 ]; do sleep 0.1; done
    online 1
done
to_cpu_1
round {4 * COUNT} 1000
"""
COMMAND = f"""
cat > /tmp/shared << 'SCRIPT'
{SHARED}
SCRIPT
mkfifo /tmp/pairs /tmp/paired
ping_pong line tokens 0 0 < /tmp/pairs > /tmp/paired &
exec 5> /tmp/pairs 6< /tmp/paired
read -r answer <&6
pair=$(echo "$answer" | sed 's/.*"pid": \\([0-9]*\\).*/\\1/')
export second=$(ls /proc/$pair/task | sort -n | tail -n 1)
watch="lockline-collect watch user:$pair:ping_pong_lines --offsets"
(cat /tmp/shared; cat << 'SCRIPT'
{FULL}
SCRIPT
) > /tmp/full
(cat /tmp/shared; cat << 'SCRIPT'
{WINDOWS}
SCRIPT
) > /tmp/windows
$watch 0-7,24-31 --full -o full.lockline -- sh /tmp/full 2> full-messages || exit
$watch 0-7,24-31 --max-overhead 50 -o windows.lockline -- sh /tmp/windows 2> windows-messages || exit
$watch 0-31 --full -d 0.3 -q -o free.lockline || exit
exec 5>&-
wait
grep -l prog_id /proc/[0-9]*/fdinfo/* > programs 2> /dev/null
ls -l /proc/[0-9]*/fd 2> /dev/null | grep perf_event > events
true  # nothing is found there
"""


HOTPLUG = Section(boot("trixie", turns=True), "hotplug", COMMAND, order=1)


@pytest.fixture(scope="module", params=chosen(HOTPLUG), ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """A guest whose second CPU was taken away while a line was watched."""
    return results(request.param)


def rounds(guest: Guest, file: str) -> list[dict[str, int]]:
    """What the workload says of its rounds."""
    return [json.loads(line) for line in guest.text(file).splitlines()]


def transfers(guest: Guest, file: str, since_ns: int, until_ns: int) -> int:
    """In the windows that reach into a stretch of time."""
    within = f"begin_ns + length_ns > {since_ns} AND begin_ns < {until_ns}"
    return int(guest.rows(file, f"SELECT coalesce(sum(transfers), 0) FROM watch_window WHERE {within}")[0][0])


def test_all_is_seen_but_at_the_changes(guest: Guest) -> None:
    first, broken, alone, last = rounds(guest, "full-rounds")
    ever = 10**18
    assert transfers(guest, "full.lockline", 0, broken["begin_ns"]) >= 2 * COUNT - 1
    # On the CPU that is left.
    assert transfers(guest, "full.lockline", alone["begin_ns"], alone["end_ns"]) == 0
    # The window of both CPUs begins when their files are open already.
    assert 1.8 * COUNT <= transfers(guest, "full.lockline", last["begin_ns"], ever) <= 2 * COUNT
    stores = guest.rows("full.lockline", "SELECT offset, sum(stores) FROM memory_access GROUP BY offset")
    assert [offset for offset, _ in stores] == [0, 24]
    assert all(2.8 * COUNT <= seen <= 4 * COUNT for _, seen in stores), stores
    assert guest.rows("full.lockline", "SELECT sum(lost) FROM watch_window") == [(0,)]
    assert first["writes"] == last["writes"] == COUNT


def test_windows_see_a_cpu_that_came_back(guest: Guest) -> None:
    *_, last = rounds(guest, "windows-rounds")
    assert transfers(guest, "windows.lockline", last["begin_ns"], last["end_ns"]) > 0


def test_it_is_said_once(guest: Guest) -> None:
    for file in ("full-messages", "windows-messages"):
        told = [line for line in guest.text(file).splitlines() if CHANGED in line]
        assert len(told) == 1, guest.text(file)
    assert guest.rows("windows.lockline", "SELECT ended FROM watch") == [("",)]


def test_nothing_stays_attached(guest: Guest) -> None:
    assert guest.text("programs") == guest.text("events") == ""
    # All four registers are free again on both CPUs.
    assert {offsets for (offsets,) in guest.rows("free.lockline", "SELECT offsets FROM watch_window")} == {0xFFFFFFFF}
    assert "WARNING:" not in guest.text("dmesg")
    assert "BUG:" not in guest.text("dmesg")
