# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands for pathlib where that takes too long to load says the same."""

import os
from pathlib import Path

import pytest

from lockline.base.files import is_regular, plain_path

PATHS = ["a", "./a", "a/./b/", "a//b", "/a", "//a", "///a/.", "", ".", "..", "../a", "/", "//", "a b", "-", "\u00e4"]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_written_as_pathlib_writes_it(path: str) -> None:
    assert plain_path(path) == str(Path(path))
    assert plain_path(Path(path)) == str(Path(path))


def test_what_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    found = {name: is_regular(str(tmp_path / name)) for name in ("file", "link", "pipe", "loop", ".", "none", "file/x")}
    assert found == {"file": True, "link": True, "pipe": False, "loop": None, ".": False, "none": None, "file/x": None}
    assert is_regular("a\0b") is None
