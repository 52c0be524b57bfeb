# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tiers of the tests need of the files of tests."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_no_two_files_have_one_name() -> None:
    """pytest imports a file by its name alone: a tier that collects two of one name loads neither of them."""
    names = Counter(file.name for file in TESTS.rglob("test_*.py"))
    assert [name for name, files in names.items() if files > 1] == []
