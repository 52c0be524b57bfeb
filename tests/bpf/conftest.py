# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests that run BPF programs by BPF_PROG_TEST_RUN share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kallsyms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of /proc/kallsyms.

    The kernel writes that anew for each reader, 0.1 s of CPU time; memory_feed runs about a hundred times.
    """
    path = tmp_path_factory.mktemp("kernel") / "kallsyms"
    path.write_bytes(Path("/proc/kallsyms").read_bytes())
    return path
