# SPDX-License-Identifier: GPL-2.0-or-later
"""What a person sees while recording, and whose the recording is."""

import os
import pty
import re
import subprocess
from pathlib import Path

from terminals import read_terminal


def on_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    """Run a command whose stderr is a terminal; what it wrote there."""
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stderr=follower, env=os.environ | environment) as process:
        os.close(follower)
        written = read_terminal(leader)
    assert process.returncode == 0, written
    return written.decode()


def test_a_line_lives_on_a_terminal_and_the_file_is_the_users(live: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.lockline"
    command = [str(live / "bin" / "lockline-collect"), "record", "-d", "1", "--futex", "-o", str(path)]
    written = on_a_terminal(command, {"TERM": "xterm", "SUDO_UID": "1234", "SUDO_GID": "2345"})
    assert re.search(r"\r\x1b\[K\d+\.\d s: [\d,]+ waits", written), written
    # It is gone when the last line comes.
    last = [found.start() for found in re.finditer(r"\d s: [\d,]+ waits", written)][-1]
    assert written.rindex("\r\x1b[Klockline: ") > last
    assert re.search(r"--futex probes every system call.* a second now", written), written
    assert written.index("--futex probes") < written.index("lockline: recording")
    info = path.stat()
    assert (info.st_uid, info.st_gid, info.st_mode & 0o777) == (1234, 2345, 0o600)


def test_nothing_lives_elsewhere_and_odd_ids_change_nothing(live: Path, tmp_path: Path) -> None:
    path = tmp_path / "plain.lockline"
    command = [str(live / "bin" / "lockline-collect"), "record", "-d", "0.5", "-o", str(path)]
    for user, group in (("0", "0"), ("12x", "5"), ("1234", "")):
        done = subprocess.run(
            command,
            env=os.environ | {"TERM": "xterm", "SUDO_UID": user, "SUDO_GID": group},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stderr
        assert (path.stat().st_uid, path.stat().st_gid) == (0, 0)
