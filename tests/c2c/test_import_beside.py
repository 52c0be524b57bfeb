# SPDX-License-Identifier: GPL-2.0-or-later
"""Of many samples some are summed while the next ones are read: the recording is that of one thread."""

import os
import struct
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from c2c import imported, user_patterns
from c2c.description import Description
from c2c.imported import COLLECTOR
from c2c.perfdata_format import FINISHED_ROUND, Packer
from c2c.test_import_against_truth import check

# Times each access of a pattern: some 180,000 samples.
REPEATS = 300
PATIENCE_S = 60
# What a file as of a pipe begins with.
HEADER_BYTES = 16
NO_TIME = 2**64 - 1


@pytest.fixture(scope="module")
def many() -> Description:
    """Of two processes; while they run another file is mapped in place of memory that both threads look at."""
    few = user_patterns.user_sharing()
    return replace(few, accesses=[*few.accesses] * REPEATS).changed(pipe=True)


@pytest.fixture(scope="module")
def data(many: Description, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Its file, as of a pipe."""
    return many.write(tmp_path_factory.mktemp("many") / "perf.data").read_bytes()


def test_many_samples_are_summed_by_a_second_thread(many: Description, data: bytes, tmp_path: Path) -> None:
    output = tmp_path / "out.lockline"
    until = time.monotonic() + PATIENCE_S
    with subprocess.Popen([COLLECTOR, "import", "-", "-o", output, "-q"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(data[: len(data) * 3 // 4])
        process.stdin.flush()
        threads = Path(f"/proc/{process.pid}/task")
        wanted = min(2, len(os.sched_getaffinity(0)))
        while len(list(threads.iterdir())) < wanted:
            assert time.monotonic() < until, "no second thread"
            time.sleep(0.01)
        process.stdin.write(data[len(data) * 3 // 4 :])
        process.stdin.close()
        assert process.wait() == 0
    check(imported.read(output), many.truth())


@pytest.mark.parametrize("cut", [0, 12_345])
def test_the_recording_is_that_of_one_thread(data: bytes, tmp_path: Path, cut: int) -> None:
    made = []
    for cpus in ({min(os.sched_getaffinity(0))}, os.sched_getaffinity(0)):
        output = tmp_path / f"{len(cpus)}.lockline"
        done = subprocess.run(
            [COLLECTOR, "import", "-", "-o", output],
            input=data[: len(data) - cut],
            capture_output=True,
            check=True,
            preexec_fn=lambda cpus=cpus: os.sched_setaffinity(0, cpus),
        )
        # What it says ends with the name of the recording.
        made.append((output.read_bytes(), done.stderr.removesuffix(bytes(output) + b"\n")))
    assert made[0] == made[1]


def _with_changes(data: bytes, change: bytes) -> tuple[bytes, int]:
    """The file with a change behind each round of samples, and how many there are."""
    parts, at, count = [data[:HEADER_BYTES]], HEADER_BYTES, 0
    while at < len(data):
        kind, _, size = struct.unpack_from("<IHH", data, at)
        parts.append(data[at : at + size])
        at += size
        if kind == FINISHED_ROUND:
            parts.append(change)
            count += 1
    return b"".join(parts), count


def test_the_thread_is_not_woken_up_for_each_change(many: Description, data: bytes, tmp_path: Path) -> None:
    comm = Packer(many.file).comm(90_000, 90_000, "other", NO_TIME)
    changed, changes = _with_changes(data, comm)
    (tmp_path / "perf.data").write_bytes(changed)
    with (tmp_path / "perf.data").open("rb") as source:
        process = os.posix_spawn(
            COLLECTOR,
            [COLLECTOR, "import", "-", "-o", tmp_path / "out.lockline", "-q"],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, source.fileno(), 0)],
        )
        _, status, usage = os.wait4(process, 0)
    assert status == 0
    # From the first 65,536 of 180,000 samples on there is a thread.
    assert changes > 2_000
    assert usage.ru_nvcsw < changes / 4
