# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests that run BPF programs by BPF_PROG_TEST_RUN share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_feeder import Feeder

# make test gives these tests the least priority, at which a reader of names may get no CPU for seconds: lockline leaves
# it alone then.
CPU_SHARE = ("nice", "-n", "-19")


@pytest.fixture(scope="session")
def feeder(build: Path, bpf_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feeder]:
    """memory_feed with its programs loaded, for all tests."""
    # The kernel writes its symbols anew for each reader, 0.1 s of CPU time.
    kallsyms = tmp_path_factory.mktemp("kernel") / "kallsyms"
    kallsyms.write_bytes(Path("/proc/kallsyms").read_bytes())
    with Feeder([*CPU_SHARE, str(build / "tests" / "memory_feed"), str(kallsyms)]) as feeder:
        yield feeder
