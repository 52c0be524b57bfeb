# SPDX-License-Identifier: GPL-2.0-or-later
"""A clock device that all CPUs share: its reads, held against an independent count of them."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from boots import Section
from guest import Guest
from matrix import STATISTICS_ON, boot, chosen, kernel_of

from lockline.base import histogram

KERNELS = ("bookworm", "trixie", "sid")
# Where the same is done once more with kprobes, as on a kernel that has no fentry: one that does not tell what
# kprobes missed (before 6.7), and one that does.
BY_KPROBE = ("bookworm", "trixie")
SECONDS = 5
LOAD = f"timeout {SECONDS} lock_load futex 4"
COUNTED = f"sh -c 'echo read > /tmp/fifo; {LOAD}; echo read > /tmp/fifo'"

# Counts are read before and after a load, alone and with a recording of waits; then inside and outside of one of reads.
COMMAND = f"""
{STATISTICS_ON}
lockline-collect doctor --clocksource > doctor.json || exit
mkfifo /tmp/fifo /tmp/clock
function_counter read_hpet < /tmp/fifo > counter &
exec 3> /tmp/fifo
until grep -q ready counter || ! kill -0 $!; do sleep 0.1; done
told=1
count() {{
	echo read > /tmp/fifo
	told=$((told + 1))
	until [ $(wc -l < counter) -ge $told ]; do sleep 0.1; done
}}
count
{LOAD}
count
function_counter bpf_ktime_get_ns < /tmp/clock > clock &
exec 4> /tmp/clock
until grep -q ready clock || ! kill -0 $!; do sleep 0.1; done
lockline-collect record -a -q -o waits.lockline -- {COUNTED}
exec 4>&-
told=$((told + 2))
count
lockline-collect record -a -q --clocksource -o run.lockline -- {COUNTED}
told=$((told + 2))
count
by_kprobe
exec 3>&-
wait
"""


# A kprobe event of the guest's own at the same function: each hit that the kernel passes over counts for both.
PROFILE = "cat /sys/kernel/tracing/kprobe_profile"
RECORD_BY_KPROBE = f"""
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
echo 'r:told/missed read_hpet' >> /sys/kernel/tracing/kprobe_events
echo 1 > /sys/kernel/tracing/events/told/missed/enable
no_fentry lockline-collect record -a -q --clocksource -o kprobe.lockline -- \\
	sh -c '{PROFILE} > missed-before; echo read > /tmp/fifo; {LOAD}; echo read > /tmp/fifo; {PROFILE} > missed-after'
echo 0 > /sys/kernel/tracing/events/told/missed/enable
echo '-:told/missed' >> /sys/kernel/tracing/kprobe_events
told=$((told + 2))
count
"""


def section(kernel: str) -> Section:
    """A guest with an HPET for a clock."""
    script = COMMAND.replace("by_kprobe", RECORD_BY_KPROBE if kernel in BY_KPROBE else "")
    return Section(boot(kernel, append="tsc=unstable clocksource=hpet"), "clocksource", script)


SECTIONS = chosen(*map(section, KERNELS))


@pytest.fixture(scope="module", params=SECTIONS, ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """What a guest with an HPET for a clock left."""
    return results(request.param)


def counts(guest: Guest) -> list[int]:
    """Calls of read_hpet(): around the load alone, in the recording of waits, between, in that of reads, at the end."""
    lines = [json.loads(line) for line in guest.text("counter").splitlines()]
    return [line["calls"] for line in lines if line["event"] == "counts"]


def test_a_recording_of_waits_reads_no_device_for_a_wait(guest: Guest) -> None:
    alone, recorded = counts(guest)[1] - counts(guest)[0], counts(guest)[3] - counts(guest)[2]
    with closing(sqlite3.connect(guest.directory / "waits.lockline")) as connection:
        waits = connection.execute("SELECT sum(waits) FROM lock_total").fetchone()[0]
    print(f"\nread_hpet: {alone} under the load, {recorded} with a recording of {waits} waits")
    assert waits > 20  # on a busy machine emulated loads meet rarely
    # The helper that reads the clock for a program was not called once; two calls for a wait would be usual.
    ready, *counted = [json.loads(line) for line in guest.text("clock").splitlines()]
    assert ready["event"] == "ready"
    assert counted[-1]["calls"] == 0


def test_reads_are_those_of_an_independent_count(guest: Guest) -> None:
    outer = counts(guest)[7] - counts(guest)[4]
    inner = counts(guest)[6] - counts(guest)[5]
    recorded = guest.query("SELECT sum(reads) FROM clock_total")[0][0]
    # Reads in interrupts that came while the program of another read ran.
    missed = guest.query("SELECT sum(recursion_misses) FROM program WHERE name LIKE '%clock%'")[0][0]
    print(f"\nreads: {inner} inside, {recorded} recorded, {missed} missed, {outer} outside")
    assert inner - missed <= recorded <= outer


def test_reads_have_times_and_callers(guest: Guest) -> None:
    facts = guest.facts("meta")
    assert facts["clocksource"] == "hpet"
    assert facts["clock"] == "coarse"
    assert facts["clock_function"] == "read_hpet"
    assert facts["clock_reads_timed"] == 1
    unmatched = guest.facts("loss")["clock_reads_unmatched"]
    reads, read_ns, max_ns = guest.query("SELECT sum(reads), sum(read_ns), max(max_ns) FROM clock_total")[0]
    buckets = histogram.empty()
    for (blob,) in guest.query("SELECT histogram FROM clock_total"):
        histogram.add_blob(buckets, blob)
    assert sum(buckets) == reads - unmatched
    assert read_ns > 0
    assert max_ns <= read_ns
    callers = {symbol for (symbol,) in guest.query("SELECT symbol FROM frame WHERE tgid = 0")}
    print(f"\n{reads} reads, {read_ns / reads:.0f} ns on average, {max_ns} at most; {sorted(callers)[:12]}")
    assert callers & {"ktime_get", "ktime_get_update_offsets_now", "ktime_get_ts64", "ktime_get_real_ts64"}
    # Programs that read lockline's own clock.
    assert not [name for name in callers if name.startswith("bpf_ktime")]
    samples, weight = guest.query("SELECT sum(samples), sum(reads) FROM clock_sample")[0]
    assert 0 < samples <= weight <= reads


def profile_missed(guest: Guest, name: str) -> int:
    """Hits of the guest's own kprobe event that the kernel passed over so far."""
    ((hits, missed),) = [line.split()[1:] for line in guest.text(name).splitlines() if line.split()[0] == "missed"]
    assert int(hits) >= 0
    return int(missed)


def test_by_kprobe_it_is_the_same(guest: Guest) -> None:
    if not (guest.directory / "kprobe.lockline").exists():
        pytest.skip(f"kernels but {', '.join(BY_KPROBE)} are recorded by fentry alone")
    assert "no_fentry: 38 programs" in guest.text("stderr")
    with closing(sqlite3.connect(guest.directory / "kprobe.lockline")) as connection:
        source = connection.execute("SELECT source FROM probe WHERE signal = 'reads of a shared clock'").fetchone()[0]
        reads, read_ns = connection.execute("SELECT sum(reads), sum(read_ns) FROM clock_total").fetchone()
        query = "SELECT recursion_misses FROM program WHERE name = 'clock_kprobe_leave'"
        told = connection.execute(query).fetchone()[0]
        release = connection.execute("SELECT value FROM meta WHERE name = 'kernel_release'").fetchone()[0]
        uncounted = connection.execute("SELECT count FROM loss WHERE name = 'misses_uncounted'").fetchone()[0]
    assert source == "kprobe"
    before, begin, end, after = counts(guest)[7:11]
    passed_over = profile_missed(guest, "missed-after") - profile_missed(guest, "missed-before")
    print(
        f"\nby kprobe: {end - begin} inside, {reads} recorded, {told} told as missed ({uncounted} programs uncounted), "
        f"{passed_over} passed over as the guest's own event has it, {after - before} outside"
    )
    # Each read is recorded or missed: a kprobe is passed over while another one runs on that CPU.
    assert reads <= after - before
    assert end - begin <= reads + max(told, passed_over)
    if tuple(int(number) for number in release.split(".")[:2]) < (6, 7):
        assert uncounted >= 2
        assert told == 0
    else:
        assert uncounted == 0
        assert end - begin <= reads + told
    assert read_ns > 0


def test_the_plan_tells_of_the_device(guest: Guest) -> None:
    probes: dict[str, Any] = {probe["signal"]: probe for probe in guest.json("doctor.json")["probes"]}
    assert probes["reads of a shared clock"]["state"] == "on", probes["reads of a shared clock"]
    assert "timed in CPU cycles" in probes["reads of a shared clock"]["reason"]
