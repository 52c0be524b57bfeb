# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline demo` on this kernel: load and report agree, also beside programs that wait more."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from lockline.cli import main as cli
from support import planted

pytestmark = pytest.mark.usefixtures("live")


@pytest.mark.parametrize(
    ("beside", "first"),
    [
        ((), "mm_struct.mmap_lock"),
        # "a lock on a file", or "locks on 2 files" beside others that wait for one.
        (("incidents", "file-lock", "12"), "(flock, fcntl)"),
        (("incidents", "one-directory", "24"), "i_rwsem"),
    ],
    ids=["alone", "beside a file's lock", "beside a heavier lock of the kernel"],
)
def test_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str], beside: tuple[str, ...], first: str) -> None:
    """Beside twelve processes with one file, or 24 threads in one directory: these wait more."""
    with ExitStack() as stack:
        if beside:
            stack.enter_context(planted(beside, tmp_path, nice=19))
        code = cli.main(["demo", "-d", "2"])
    captured = capsys.readouterr()
    text = " ".join(captured.out.split())
    assert code == 0, captured.err + captured.out
    assert "load and report agree" in captured.err
    assert "threads of one process map memory" in captured.err
    assert "mmap_lock" in text
    answer = text.partition("ANSWER")[2]
    assert first in answer.partition("FINDINGS")[0].partition("LOCKS")[0]
    if beside:
        assert "because other programs of this machine wait more for that" in captured.err
