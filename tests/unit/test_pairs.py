# SPDX-License-Identifier: GPL-2.0-or-later
"""The estimate of a change from pairs of runs, and its interval."""

import math

import pytest

from pairs import change


def test_without_noise_it_is_the_change_itself() -> None:
    found = change([math.log(1.02)] * 10)
    assert (found.estimate, found.low, found.high) == pytest.approx((0.02, 0.02, 0.02))


def test_of_few_pairs_the_interval_is_all_there_is() -> None:
    found = change([math.log(ratio) for ratio in (0.9, 1.0, 1.2)])
    assert (found.low, found.high) == pytest.approx((-0.1, 0.2))
    assert found.estimate == pytest.approx(math.sqrt(0.9 * 1.2) - 1, abs=0.03)


def test_one_wild_pair_does_not_move_it() -> None:
    calm = [math.log(1 + number / 1000) for number in range(20)]
    wild = [*calm[:-1], math.log(5)]
    assert change(wild).estimate == pytest.approx(change(calm).estimate, abs=0.002)
    assert change(wild).low == pytest.approx(change(calm).low, abs=0.002)
