# SPDX-License-Identifier: GPL-2.0-or-later
"""record --self-check where functions are probed: every unlock is probed, and then not, and then again."""

from collections.abc import Callable

import pytest
from boots import Section
from guest import Guest
from matrix import boot, chosen, kernel_of

from lockline.base import histogram

# Attaching and detaching all of them takes an emulated guest a minute: one kernel will do.
KERNELS = ("trixie",)

# When the links have gone, come and gone again there was a slice of each kind.  A slice is a quarter of a second: the
# looks are ten a second, and go by bounds, as a link or two may be on its way at the first look.
COMMAND = """
lockline-collect record -a --holders --self-check=0.25 -I 0.2 -o run.lockline 2> said &
collector=$!
until grep -q recording said || ! kill -0 $collector; do sleep 0.1; done
links() { ls -l /proc/$collector/fd | grep -c bpf; }
all=$(links)
for half in gone back gone; do
	looks=0
	while kill -0 $collector && [ $looks -lt 1500 ]; do
		now=$(links)
		case $half in
		gone) [ $now -lt $((all - 4)) ] && break ;;
		back) [ $now -ge $((all - 2)) ] && break ;;
		esac
		looks=$((looks + 1))
		sleep 0.1
	done
	echo $now >> links
done
kill -INT $collector
wait $collector || exit
"""


SECTIONS = chosen(*(Section(boot(kernel, turns=True), "self-check", COMMAND) for kernel in KERNELS))


@pytest.fixture(scope="module", params=SECTIONS, ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """What a guest left in which the probes of unlocks came and went."""
    return results(request.param)


def test_functions_are_probed_in_turns(guest: Guest) -> None:
    deeper = guest.facts("meta")["self_check_deeper"].split("; ")
    assert "sleeping lock holders" in deeper, deeper
    slices = guest.query("SELECT deeper, begin_ns, end_ns, wakeups, wakeup_histogram FROM self_check ORDER BY slice")
    assert {row[0] for row in slices} == {0, 1}, slices
    for _, begin, end, wakeups, blob in slices:
        assert end - begin >= 250_000_000
        counts = histogram.empty()
        histogram.add_blob(counts, blob)
        assert abs(sum(counts) - wakeups) <= 2
    gone, back = [int(line) for line in guest.text("links").split()[:2]]
    assert gone < back


def test_the_kernel_does_not_complain(guest: Guest) -> None:
    log = guest.text("dmesg")
    assert not [line for line in log.splitlines() if "WARNING:" in line or "BUG:" in line or "Oops" in line]
    assert guest.query("PRAGMA integrity_check") == [("ok",)]
    assert guest.facts("meta")["state"] == "complete"
