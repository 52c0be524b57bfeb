# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory where many CPUs are possible and few are there: the kernel's arrays have a part for each of these."""

import json
import re
from collections.abc import Callable

import pytest
from boots import Boot, Section
from guest import LOAD, Guest
from matrix import chosen, kernel_of

POSSIBLE = 240  # 8-bit APIC ids end at 255, and those of the I/O APIC are among them
BUDGET = 64 << 20

# The kernel's own account of the maps, and the collector's memory while it records.
COMMAND = f"""
lockline-collect record --sizes --memory 64M --possible-cpus 2 > two
lockline-collect record -a --memory 64M -o run.lockline -- {LOAD} 2> messages &
recorder=$!
until grep -q recording messages || ! kill -0 $recorder; do sleep 0.1; done
cat /proc/$recorder/fdinfo/* > fdinfo
while kill -0 $recorder; do cat /proc/$recorder/status > now && grep -q RssAnon now && mv now memory; sleep 0.2; done
wait $recorder
"""


# 6.1, because newer kernels count CPUs to come only under known hypervisors.
MANY = Section(Boot("bookworm", possible=POSSIBLE, append="tsc=reliable", label=f"{POSSIBLE}possible"), "many", COMMAND)


@pytest.fixture(scope="module", params=chosen(MANY), ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """A guest with many CPUs to come."""
    return results(request.param)


def test_attaches_and_records(guest: Guest) -> None:
    assert guest.facts("meta")["cpus_possible"] == str(POSSIBLE)
    assert guest.begins() > 0
    assert guest.accounted_begins() == guest.begins()


def test_slots_that_are_empty_take_no_memory(guest: Guest) -> None:
    two = json.loads(guest.text("two"))
    assert guest.facts("meta")["named_rows_per_cpu"] == two["named_rows_per_cpu"]
    assert guest.facts("cost")["map_bytes"] == two["map_bytes"]


def test_tables_keep_the_budget(guest: Guest) -> None:
    assert guest.facts("meta")["memory_bytes"] == BUDGET
    assert guest.facts("cost")["table_bytes"] <= BUDGET


def test_kernel_charges_what_the_recording_says(guest: Guest) -> None:
    charged = sum(int(size) for size in re.findall(r"^memlock:\s+(\d+)", guest.text("fdinfo"), re.MULTILINE))
    said = guest.facts("cost")["map_bytes"]
    # 6.1 charges keys, which arrays do not have: 4 bytes, rounded up (bpf_map_memory_footprint(), kernel/bpf/syscall.c)
    entries = re.findall(r"^max_entries:\s+(\d+)", guest.text("fdinfo"), re.MULTILINE)
    keys = sum(8 * int(number) for number in entries)
    # Programs and the skeleton's own small maps are charged too.
    assert said <= charged <= said + keys + (1 << 19)


def test_collector_keeps_the_budget(guest: Guest) -> None:
    cost = guest.facts("cost")
    anonymous = 1024 * int(re.findall(r"RssAnon:\s+(\d+) kB", guest.text("memory"))[0])
    # Names are beside the budget; so are SQLite's pages, stacks and the C library's.
    assert anonymous + cost["map_bytes"] <= BUDGET + cost["names_bytes"] + (16 << 20)
