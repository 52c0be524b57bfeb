# SPDX-License-Identifier: GPL-2.0-or-later
"""The recordings that the guests of this run brought go through all of `lockline fleet`; none is made for it."""

from pathlib import Path

import pytest
from boots import Boots, FailedError, Section, UnavailableError
from guest import Guest
from matrix import CASES, selected

from whole_path import follow_whole_path

MATRIX = tuple(section for case in CASES if selected(case.kernel) for section in case.sections)


def recordings_of(guest: Guest) -> list[Path]:
    """Those that hold some time: others cannot be placed.

    A flight that met a wait before its last seconds is none of them: its report has that wait, its intervals do not.
    """
    files = sorted(path.name for path in guest.directory.glob("*.lockline"))
    timed = (
        "SELECT (SELECT count(*) FROM interval WHERE end_ns > begin_ns) > 0"
        " AND (SELECT total(waits) FROM wait_interval) = (SELECT total(waits) FROM lock_total)"
    )
    return [guest.directory / name for name in files if guest.rows(name, timed)[0][0]]


# The parameter asks for the matrix's guests, where this test runs alone.
@pytest.mark.parametrize("matrix", [MATRIX], ids=["matrix"])
def test_the_whole_path(matrix: tuple[Section, ...], boots: Boots, tmp_path: Path) -> None:
    found, reasons = [], []
    for section in boots.wanted:
        try:
            found += recordings_of(boots.result(section))
        except UnavailableError as error:
            reasons.append(str(error))
        except FailedError:
            # Its own test says so.
            continue
    if not found and len(reasons) == len(boots.wanted):
        pytest.skip(reasons[0])
    assert found
    follow_whole_path(found, tmp_path)
