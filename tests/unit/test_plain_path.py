# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands for pathlib where that takes too long to load says the same; a file system that does not answer."""

import os
from pathlib import Path

import pytest

from lockline.base.files import is_regular, plain_path, takes_changes

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


def test_a_change_that_ends_and_one_that_does_not(tmp_path: Path) -> None:
    for name in ("file", "pipe"):
        path = str(tmp_path / name)
        if name == "pipe":
            os.mkfifo(path)
            # Nobody writes it: who opens it waits.
            assert not takes_changes(path, 0.1)
            os.close(os.open(path, os.O_WRONLY))
            os.wait()
        else:
            Path(path).write_text("a")
            before = Path(path).stat()
            assert takes_changes(path, 60)
            after = Path(path).stat()
            assert (before.st_uid, before.st_gid, before.st_mode) == (after.st_uid, after.st_gid, after.st_mode)
    assert takes_changes(str(tmp_path / "none"), 60)
