# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks whose holders wait for another lock: whose doing the waiting is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockline.analysis.behind import ENOUGH_LOOKS, Behind, Place, Places, behind_of, blame


def test_a_holder_that_waits_for_another_lock() -> None:
    assert behind_of([(7, 60), (0, 20), (9, 4)]) == Behind(7, 60 / 84)
    # It runs, or waits in passing.
    assert behind_of([(0, 80)]) is None
    assert behind_of([(0, 70), (7, 14)]) is None
    assert behind_of([]) is None


def test_few_looks_say_nothing() -> None:
    assert behind_of([(7, ENOUGH_LOOKS - 1)]) is None
    assert behind_of([(7, ENOUGH_LOOKS)]) == Behind(7, 1.0)


def test_waiting_is_passed_on_to_the_end_of_the_chain() -> None:
    found = blame({1: 400, 2: 100, 3: 50}, {1: Behind(2, 0.5), 2: Behind(3, 1.0)})
    assert found[1].ns == 200
    # All that stands before it goes on to the last one.
    assert found[2].ns == 0
    assert found[3].ns == 50 + 100 + 200
    assert found[3].before == ((2, 300),)
    assert found[3].behind is None


def test_locks_that_wait_for_each_other_blame_nobody() -> None:
    found = blame({1: 400, 2: 100, 3: 10}, {1: Behind(2, 1.0), 2: Behind(1, 1.0), 3: Behind(1, 0.5)})
    assert (found[1].ns, found[2].ns, found[3].ns) == (405, 100, 5)


def test_a_lock_that_nobody_waits_for_takes_no_blame() -> None:
    assert blame({1: 400}, {1: Behind(9, 1.0)})[1].ns == 400


@given(
    st.dictionaries(st.integers(1, 12), st.integers(0, 10**12), min_size=1),
    st.dictionaries(st.integers(1, 12), st.builds(Behind, st.integers(1, 12), st.floats(0.25, 1))),
)
def test_no_waiting_is_lost_or_counted_twice(waited: dict[int, int], behind: dict[int, Behind]) -> None:
    edges = {lock: edge for lock, edge in behind.items() if lock in waited}
    found = blame(waited, edges)
    assert all(one.ns >= 0 for one in found.values())
    # Waiting at a lock is some lock's doing, once.
    assert sum(one.ns for one in found.values()) == pytest.approx(sum(waited.values()), rel=1e-9, abs=1)


def test_a_lock_that_processes_share_is_found_under_another_one_of_them() -> None:
    """It stands under the process that was seen first; what was forked has it at the same address."""
    first = Place(1, 10, 0x100, True, frozenset({10, 11, 12}))
    second = Place(2, 12, 0x200, True, frozenset({12, 13}))
    own = Place(3, 12, 0x300, False, frozenset({12}))
    places = Places((first, second, own))
    assert places.behind(first, 0x200) == 2
    # A process's own lock is at that address there alone; and nothing is behind a lock whose holder waits for none.
    assert places.behind(first, 0x300) == places.behind(first, 0) == 0
    assert places.behind(own, 0x200) == places.behind(second, 0x200) == 2
    # Others have something else at the address; of two that may be meant none is sure.
    strangers = Place(4, 50, 0x200, True, frozenset({50}))
    assert Places((first, strangers)).behind(first, 0x200) == 0
    assert Places((first, second, replace(strangers, processes=frozenset({11})))).behind(first, 0x200) == 0
