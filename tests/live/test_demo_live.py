# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline demo` on this kernel: load and report agree, also beside programs that wait more."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from incidents.cases import running
from lockline.cli import main as cli

pytestmark = pytest.mark.usefixtures("live")


@pytest.mark.parametrize("beside", [(), ("incidents", "file-lock", "12")], ids=["alone", "beside more waiting"])
def test_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str], beside: tuple[str, ...]) -> None:
    """Of twelve processes eleven wait for a file as long as the demo lasts; its own load makes two threads wait."""
    with ExitStack() as stack:
        if beside:
            stack.enter_context(running(beside, tmp_path))
        code = cli.main(["demo", "-d", "4"])
    captured = capsys.readouterr()
    text = " ".join(captured.out.split())
    assert code == 0, captured.err + captured.out
    assert "load and report agree" in captured.err
    assert "mmap_lock" in text
    if beside:
        assert "a lock on a file (flock, fcntl)" in text
        assert "incident.lock" in text
