# SPDX-License-Identifier: GPL-2.0-or-later
"""Histograms, and that C and Python put each wait into the same bucket."""

import random
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockline.base import histogram

TOP = Path(__file__).resolve().parents[2]

WAITS = st.one_of(st.integers(0, 1 << 20), st.integers(0, 1 << 40), st.integers(0, (1 << 63) - 1))

PROGRAM = """
#include <stdio.h>
#include "bpf/lockline.h"
int main(void)
{
	unsigned long long ns;

	while (scanf("%llu", &ns) == 1)
		printf("%u\\n", histogram_bucket(ns));
	return 0;
}
"""


def test_buckets_are_those_of_the_kernel_side(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.fail("no C compiler, which the build needs too")
    source = tmp_path / "buckets.c"
    source.write_text(PROGRAM)
    subprocess.run([compiler, "-Wall", "-Werror", f"-I{TOP}", "-o", tmp_path / "buckets", source], check=True)
    generator = random.Random(1)
    values = [edge + step for edge in histogram.LOWER for step in (-1, 0, 1) if edge + step >= 0]
    values += [generator.getrandbits(generator.randrange(1, 64)) for _ in range(20_000)]
    done = subprocess.run(
        [tmp_path / "buckets"], input="\n".join(map(str, values)), capture_output=True, text=True, check=True
    )
    theirs = [int(line) for line in done.stdout.split()]
    assert theirs == [histogram.bucket(value) for value in values]


@given(WAITS)
def test_a_wait_lies_in_its_bucket(ns: int) -> None:
    index = histogram.bucket(ns)
    upper = histogram.upper_bound(index)
    assert histogram.lower_bound(index) <= ns
    assert upper is None or ns < upper


def test_buckets_follow_each_other() -> None:
    assert histogram.LOWER[:3] == (0, 64, 80)
    assert histogram.LOWER[histogram.OVERFLOW] == 1 << 36
    assert all(lower < upper for lower, upper in pairwise(histogram.LOWER))


@given(st.lists(WAITS))
def test_a_blob_gives_the_counts_back(waits: list[int]) -> None:
    counts = histogram.of(waits)
    decoded = histogram.empty()
    histogram.add_blob(decoded, histogram.encode(counts))
    assert decoded == counts
    assert sum(decoded) == len(waits)


@given(st.lists(WAITS), st.lists(WAITS))
def test_blobs_one_after_the_other_add_up(first: list[int], second: list[int]) -> None:
    both = histogram.empty()
    histogram.add_blob(both, histogram.encode(histogram.of(first)) + histogram.encode(histogram.of(second)))
    assert both == histogram.of(first + second)
    assert both == histogram.total([histogram.of(first), histogram.of(second)])
    assert histogram.total([]) == histogram.empty()


def test_counts_beyond_32_bits_survive() -> None:
    counts = histogram.empty()
    counts[5] = (1 << 33) + 7
    decoded = histogram.empty()
    histogram.add_blob(decoded, histogram.encode(counts))
    assert decoded == counts


@given(st.lists(st.integers(64, (1 << 36) - 1), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_percentiles_are_at_most_an_eighth_off(waits: list[int], fraction: float) -> None:
    rank = max(1, -(-len(waits) * round(fraction * 1000) // 1000))
    truth = sorted(waits)[rank - 1]
    value = histogram.percentile(histogram.of(waits), fraction, max(waits))
    assert value is not None
    assert abs(value - truth) <= truth * 0.125 + 1
    assert value <= max(waits)


def test_percentile_of_rank_99_of_100() -> None:
    counts = histogram.of([100] * 99 + [1_000_000])
    assert histogram.percentile(counts, 0.99, 1_000_000) == histogram.middle(histogram.bucket(100), 1_000_000)
    assert histogram.percentile(counts, 1.0, 1_000_000) == histogram.middle(histogram.bucket(1_000_000), 1_000_000)


def test_no_waits_have_no_percentile() -> None:
    assert histogram.percentile(histogram.empty(), 0.5, 0) is None


def test_the_last_bucket_stands_for_the_maximum() -> None:
    longest = 100_000_000_000
    assert histogram.percentile(histogram.of([longest]), 0.5, longest) == longest


def test_pairs_leave_empty_buckets_out() -> None:
    assert histogram.pairs(histogram.of([0, 70, 70, 1 << 40])) == [[0, 1], [64, 2], [1 << 36, 1]]


@pytest.mark.parametrize("blob", [b"\0", b"\x7a\x00\x01\x00\x00\x00", b"\xff\xff\x01\x00\x00\x00"])
def test_damaged_blobs_are_refused(blob: bytes) -> None:
    with pytest.raises(ValueError):
        histogram.add_blob(histogram.empty(), blob)
