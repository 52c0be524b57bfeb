# SPDX-License-Identifier: GPL-2.0-or-later
"""Watchpoints on other kernels: two threads whose transfers are known, a run queue, and a variable by its symbol."""

import json
from collections.abc import Callable

import pytest
from boots import Section
from guest import Guest
from matrix import TEST_AND_SET, boot, chosen, kernel_of
from watched_line import check_run_queue

KERNELS = ("trixie", "trixie-backports")
COUNT = 200

# The workload says a line for each command.
COMMAND = f"""
mkfifo /tmp/commands
ping_pong line tokens < /tmp/commands > told &
exec 3> /tmp/commands
until grep -q ready told || ! kill -0 $!; do sleep 0.1; done
pid=$(sed 's/.*"pid": \\([0-9]*\\).*/\\1/' told)
rounds='do_one() {{ echo "$1" > /tmp/commands; until [ $(wc -l < told) -ge $2 ]; do sleep 0.1; done; }}'
lockline-collect watch user:$pid:ping_pong_lines --full --offsets 0-7,24-31 -q -o user.lockline -- \\
	sh -c "$rounds; do_one 'go {COUNT} 0' 2" || exit
lockline-collect watch runqueues:0 --max-overhead 20 -q -o run.lockline -- \\
	sh -c "$rounds; do_one 'go {COUNT} 1000' 3" || exit
lockline-collect watch tasklist_lock -d 0.3 -q -o symbol.lockline || exit
exec 3>&-
wait
"""


SECTIONS = chosen(*(Section(boot(kernel, TEST_AND_SET), "watch", COMMAND) for kernel in KERNELS))


@pytest.fixture(scope="module", params=SECTIONS, ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """What a guest with the workload left."""
    return results(request.param)


def test_every_transfer_is_counted(guest: Guest) -> None:
    ready, truth, *_ = [json.loads(line) for line in guest.text("told").splitlines()]
    assert truth["writes"] == COUNT
    assert guest.rows("user.lockline", "SELECT sum(transfers), sum(lost) FROM watch_window") == [(2 * COUNT - 1, 0)]
    stores = "SELECT offset, sum(stores) FROM memory_access GROUP BY offset HAVING sum(stores)"
    assert guest.rows("user.lockline", stores) == [(0, COUNT), (24, COUNT)]
    assert guest.rows("user.lockline", "SELECT pid, symbol FROM memory_line") == [(ready["pid"], "ping_pong_lines")]


def test_a_run_queue(guest: Guest) -> None:
    check_run_queue(guest, least_told=0.9)


def test_a_variable_by_its_symbol(guest: Guest) -> None:
    line = "SELECT target, symbol FROM watch JOIN memory_line ON line = id"
    assert guest.rows("symbol.lockline", line) == [("tasklist_lock", "tasklist_lock")]
    assert guest.rows("symbol.lockline", "SELECT count(*) FROM watch_window")[0][0] > 0


def test_the_kernel_has_no_complaint(guest: Guest) -> None:
    assert "WARNING:" not in guest.text("dmesg")
    assert "BUG:" not in guest.text("dmesg")
