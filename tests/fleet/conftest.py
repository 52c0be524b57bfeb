# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of a fleet share."""

from collections.abc import Iterator

import duckdb
import pytest

from lockline.cli import fleet as command
from lockline.fleet.engine import DuckDb


@pytest.fixture(scope="module", autouse=True)
def one_instance() -> Iterator[None]:
    """Reports and comparisons of a module share an instance of DuckDB: to start and end one takes 40 ms of CPU.

    `lockline fleet sql` has its own, which it locks; test_a_report_by_a_process_of_its_own starts all that users do.
    """
    with duckdb.connect(config={"threads": 1}) as instance, pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_engine", lambda _: DuckDb(instance=instance))
        yield
