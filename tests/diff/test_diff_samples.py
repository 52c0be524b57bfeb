# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples from files: what the tools print, what people write, and what is refused by its line."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockline.base.errors import LocklineError
from lockline.diff.samples import Samples, direction, parse, read_samples

# As perf 6.1 prints them.
FUTEX_HASH = """\
# Running 'futex/hash' benchmark:
Run summary [PID 2215]: 2 threads, each operating on 1024 [private] futexes for 1 secs.

[thread  0] futexes: 0x555a63397430 ... 0x555a6339842c [ 2803712 ops/sec ]
[thread  1] futexes: 0x555a633986d0 ... 0x555a633996cc [ 2698240 ops/sec ]

Averaged 2750976 operations/sec (+- 1.92%), total secs = 1
"""
FUTEX_WAKE = """\
[Run 1]: Wokeup 4 of 4 threads in 0.1370 ms
[Run 2]: Wokeup 4 of 4 threads in 0.1180 ms
Wokeup 4 of 4 threads in 0.2012 ms (+-32.65%)
"""
WAKE_PARALLEL = """\
[Run 9]: Avg per-thread latency (waking 1/4 threads) in 0.0097 ms (+-39.14%)
[Run 10]: Avg per-thread latency (waking 1/4 threads) in 0.0225 ms (+-75.70%)
Avg per-thread latency (waking 1/4 threads) in 0.0152 ms (+-24.69%)
"""
SCHED_PIPE = """\
# Running 'sched/pipe' benchmark:
# Executed 20000 pipe operations between two processes

     Total time: 0.397 [sec]

      19.857000 usecs/op
          50360 ops/sec
"""
MESSAGING = """\
# Running 'sched/messaging' benchmark:
# 20 sender and receiver processes per group
# 1 groups == 40 processes run

     Total time: 0.047 [sec]
"""
HACKBENCH = "Running in process mode with 10 groups using 40 file descriptors each (== 400 tasks)\nTime: 0.123\n"
TBENCH = "Throughput 1234.5 MB/sec  8 clients  8 procs  max_latency=0.345 ms\n"


def of(text: str, pattern: str | None = None) -> Samples:
    return parse("x.txt", text.splitlines(), None if pattern is None else re.compile(pattern))


@pytest.mark.parametrize(
    ("text", "values", "unit"),
    [
        (FUTEX_HASH * 2, (2750976.0, 2750976.0), "ops/sec"),
        (FUTEX_WAKE, (0.137, 0.118), "ms"),
        (FUTEX_WAKE.splitlines()[2] + "\n", (0.2012,), "ms"),
        (WAKE_PARALLEL, (0.0097, 0.0225), "ms"),
        ("Requeued 4 of 4 threads in 0.0104 ms (+-34.08%)\n", (0.0104,), "ms"),
        (SCHED_PIPE * 3, (50360.0,) * 3, "ops/sec"),
        (MESSAGING, (0.047,), "sec"),
        (HACKBENCH, (0.123,), "sec"),
        (TBENCH, (1234.5,), "MB/sec"),
        ("1\n2.5\n\n# a comment\n-3e2\n", (1.0, 2.5, -300.0), ""),
        ("1,394,938\n1,616,781.5\n", (1394938.0, 1616781.5), ""),
        ("run 1: 12 ms\nrun 2: 13.5ms\n", (12.0, 13.5), "ms"),
        ("throughput = 99 req/s\n", (99.0,), "req/s"),
        ("Time: 3 [sec] \r\nTime: 4 [sec]\r\n", (3.0, 4.0), "sec"),
        ("12 ops per second\n", (12.0,), "ops per second"),
        (".5\n+7\n", (0.5, 7.0), ""),
    ],
)
def test_read(text: str, values: tuple[float, ...], unit: str) -> None:
    found = of(text)
    assert (found.values, found.unit) == (values, unit)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\nnan\n", "line 2: no finite number 'nan'"),
        ("1\n2\n-inf\n", "line 3: no finite number"),
        ("1\nlatency NaN us\n", "line 2: no finite number"),
        ("Infinity\n", "line 1: no finite number"),
        ("1\n\nabc\n", "line 3: no number at the end of 'abc'; --pattern"),
        ("1e999\n", "line 1: '1e999' is not a finite number"),
        ("-2e100\n", "line 1: '-2e100' is not a measured number"),
        ("1,23\n", "line 1: no number"),
        ("1.2.3\n", "line 1: no number"),
        ("0x10\n", "line 1: no number"),
        ("2026-11-21 17:40\n", "line 1: no number"),
        ("12 ops/sec (+- 0.30%)\n", "line 1: no number"),
        ("١٢\n", "line 1: no number"),
        ("1 ms\n2 us\n", "line 2: the unit is 'us' and was 'ms' before"),
        ("1\n2 ms\n", "line 2: the unit is 'ms' and was '' before"),
        ("Averaged 1e999 operations/sec (+- 0.30%)\n", "line 1: '1e999' is not a finite number"),
        ("", "no samples in it"),
        ("# nothing\n\n", "no samples in it"),
        ("x" * 200 + "\n", "line 1: no number at the end of 'xxx"),
    ],
)
def test_refused_by_line(text: str, message: str) -> None:
    with pytest.raises(LocklineError) as caught:
        of(text)
    assert str(caught.value).startswith("x.txt: ")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


def test_pattern() -> None:
    assert of("noise\nlat=3 x\nlat=4 y\n", r"lat=(\S+)").values == (3.0, 4.0)
    # An alternative without its group is no sample.
    assert of("skip\nlat=4\n", r"skip|lat=(\d+)").values == (4.0,)
    for text, message in (("a\n", "no line matches --pattern"), ("ok 1\nok x\n", "line 2: 'x' is not a finite number")):
        with pytest.raises(LocklineError, match=message):
            of(text, r"(?:ok) (\S+)|(?!)")


@pytest.mark.parametrize(
    ("unit", "higher", "guessed"),
    [
        ("ops/sec", True, False), ("MB/s", True, False), ("jobs/min", True, False), ("IOPS", True, False),
        ("ops per second", True, False), ("tps", True, False), ("GHz", True, False), ("Mbps", True, False),
        ("sec", False, False), ("ms", False, False), ("usecs/op", False, False), ("ns/op", False, False),
        ("µs", False, False), ("seconds", False, False), ("min", False, False), ("cycles", False, False),
        ("", True, True), ("score", True, True), ("%", True, True), ("MB", True, True),
    ],
)  # fmt: skip
def test_direction_of_units(unit: str, higher: bool, guessed: bool) -> None:
    found = direction(unit)
    assert (found.higher_is_better, found.guessed) == (higher, guessed)
    assert not direction(unit, told=not higher).guessed
    assert direction(unit, told=not higher).higher_is_better != higher


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1\n\0\n", "line 2 is not text"),
        (b"1\n" + b"9" * 5000, "line 2 is longer than 4096 bytes"),
        (b"\n" * 500_001, "more than 500,000 lines"),
        (b"1\n" * 100_001, "more than 100,000 samples"),
        (b"\xff\xfe1\n", "line 1: no number"),
    ],
)
def test_files_that_are_no_samples(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "side"
    path.write_bytes(data)
    with pytest.raises(LocklineError, match=message):
        read_samples(str(path))


def test_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(LocklineError, match="larger than 16 MiB"):
        read_samples(str(path))
    with pytest.raises(LocklineError, match="Is a directory"):
        read_samples(str(tmp_path))


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=20))
@settings(deadline=None)
def test_what_python_prints_is_read_back(values: list[float]) -> None:
    assert of("\n".join(map(repr, values)) + "\n").values == tuple(values)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    try:
        found = f"{read_samples(str(path)).values}"
    except LocklineError as error:
        found = str(error)
    assert found.startswith(("(", str(path)))
    assert "\n" not in found
