# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/count-results: what CI adds up."""

import subprocess
from pathlib import Path

import pytest

from programs import TOP


def suite(tests: int, failures: int = 0, errors: int = 0, skipped: int = 0) -> str:
    """JUnit's XML, as pytest writes it."""
    numbers = f'tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}"'
    return f"<testsuites><testsuite {numbers}></testsuite></testsuites>"


def counted(*files: Path) -> list[int]:
    """What the script prints."""
    done = subprocess.run([TOP / "scripts" / "count-results", *files], capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


@pytest.mark.parametrize(
    ("first", "again", "expected"),
    [
        (suite(10, skipped=2), None, [8, 0, 2, 0]),
        (suite(10, failures=1, errors=1), None, [8, 2, 0, 0]),
        (suite(10, failures=2), suite(2), [10, 0, 0, 2]),
        (suite(10, failures=2), suite(2, failures=1), [9, 1, 0, 1]),
        (suite(10, failures=2), suite(1), [9, 1, 0, 1]),
        (suite(10, failures=2), "<testsuites", [8, 2, 0, 0]),
        ("", None, [0, 1, 0, 0]),
    ],
)
def test_failed_tests_that_ran_again(tmp_path: Path, first: str, again: str | None, expected: list[int]) -> None:
    """The second run counts for those that failed; none is lost."""
    (tmp_path / "live.xml").write_text(first)
    if again is not None:
        (tmp_path / "live-again.xml").write_text(again)
    assert counted(tmp_path / "live.xml") == expected


def test_files_are_added_up(tmp_path: Path) -> None:
    """One that is missing is a failure."""
    (tmp_path / "pure.xml").write_text(suite(5))
    assert counted(tmp_path / "pure.xml", tmp_path / "live.xml") == [5, 1, 0, 0]
