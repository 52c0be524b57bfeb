# SPDX-License-Identifier: GPL-2.0-or-later
"""perf.data files that end too early open with what they hold, or are refused in one line."""

import struct
from pathlib import Path

import pytest

from c2c import imported, sharing_patterns
from c2c import perfdata_format as perfdata
from c2c.description import Description
from c2c.perfdata_sample import SAMPLE

STEP = 1000


def small() -> Description:
    """A file of some 60 KB."""
    return sharing_patterns.lock_word()


def data_begin(data: bytes) -> int:
    """Where the first record is: of a file after its attributes, of a pipe after 16 bytes."""
    if struct.unpack_from("<Q", data, 8)[0] == 16:
        return 16
    return int(struct.unpack_from("<Q", data, 40)[0])


def whole_samples(data: bytes) -> int:
    """How many samples are whole in the data, uncompressed."""
    at, found = data_begin(data), 0
    end = len(data)
    if at != 16:
        end = min(end, at + struct.unpack_from("<Q", data, 48)[0])
    while at + 8 <= end:
        kind, _, size = struct.unpack_from("<IHH", data, at)
        if at + size > end:
            break
        found += kind == SAMPLE
        at += size
    return found


@pytest.mark.parametrize("pipe", [False, True])
@pytest.mark.parametrize("compressed", [0, perfdata.COMPRESSED])
def test_a_file_that_ends_early_opens_with_what_it_holds(pipe: bool, compressed: int, tmp_path: Path) -> None:
    description = small().changed(pipe=pipe, compressed=compressed)
    whole = description.write(tmp_path / "whole.data").read_bytes()
    samples = len(description.accesses)
    cut_path, output = tmp_path / "cut.data", tmp_path / "cut.lockline"
    seen = []
    for length in range(0, len(whole), STEP):
        cut_path.write_bytes(whole[:length])
        output.unlink(missing_ok=True)
        done = imported.run(cut_path, output)
        assert done.returncode in (0, 1), (length, done)
        if done.returncode:
            (line,) = done.stderr.splitlines()
            assert str(cut_path) in line, length
            assert not output.exists(), length
            held = 0
        else:
            found = imported.read(output)
            held = found.counts["nr_entries"]
            assert held == sum(line.total.counts["records"] for line in found.lines), length
            # A file that lacks only features has all its samples, and a problem names what is missing.
            assert found.problems or held == samples, length
        if not compressed:
            present = whole_samples(whole[:length]) if length > data_begin(whole) else 0
            assert held == present, (length, done.stderr)
        seen.append(held)
    assert seen == sorted(seen)
    assert seen[0] == 0
    assert seen[-1] > samples / 2
