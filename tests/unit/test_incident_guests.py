# SPDX-License-Identifier: GPL-2.0-or-later
"""The laboratory of incidents in guests: what a guest tells is there at once, and not at its end."""

import subprocess
import sys
from pathlib import Path

from incidents.guests import lines_as_they_come

# It goes on when its first line was read.
_GUEST = """
import os, sys, time
told, read = sys.argv[1:]
with open(told, "a") as file:
    print("first", file=file, flush=True)
    while not os.path.exists(read):
        time.sleep(0.01)
    print("second\\nth", end="", file=file, flush=True)
    time.sleep(0.05)
    print("ird\\nnot who", end="", file=file, flush=True)
"""


def test_each_line_of_a_guest_comes_when_it_is_written(tmp_path: Path) -> None:
    told, read = tmp_path / "told", tmp_path / "read"
    told.touch()
    with subprocess.Popen([sys.executable, "-c", _GUEST, told, read]) as process:
        lines = lines_as_they_come(process, told)
        assert next(lines) == "first"
        assert process.poll() is None
        read.touch()
        assert list(lines) == ["second", "third"]
