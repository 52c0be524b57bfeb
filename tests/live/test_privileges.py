# SPDX-License-Identifier: GPL-2.0-or-later
"""What a recording gives up once it is attached, and what its COMMAND keeps."""

import os
from pathlib import Path

from support import Collector, Recording

CHOWN, DAC_OVERRIDE, NET_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_BOOT = 0, 1, 12, 16, 17, 22
SYS_ADMIN = 21


def status(pid: int) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())


def has(status: dict[str, str], set_name: str, capability: int) -> bool:
    return bool(int(status[set_name], 16) >> capability & 1)


def test_a_recording_keeps_what_it_needs(live: Path, recording: Path) -> None:
    with Collector(live, recording, "-a", "--futex", "--user-stacks") as collector:
        found = status(collector.process.pid)
        for name in ("CapEff", "CapPrm", "CapBnd"):
            for capability in (CHOWN, DAC_OVERRIDE, NET_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_BOOT):
                assert not has(found, name, capability), f"{name}: {capability}"
        assert found["NoNewPrivs"] == "1"
    with Recording(recording) as result:
        ((kept,),) = result.rows("SELECT value FROM meta WHERE name = 'privileges_kept'")
    words = kept.split()
    assert "CAP_BPF" in words
    assert ("CAP_SYS_ADMIN" in words) == has(found, "CapEff", SYS_ADMIN)
    assert "CAP_KILL" not in words


def test_a_directory_of_somebody_else(live: Path, recording: Path) -> None:
    os.chown(recording.parent, 65534, 65534)
    recording.parent.chmod(0o755)
    with Collector(live, recording, "-a") as collector:
        assert has(status(collector.process.pid), "CapEff", DAC_OVERRIDE)
    assert [file.name for file in recording.parent.iterdir()] == [recording.name]


def test_command_keeps_its_own(live: Path, recording: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    with Collector(live, recording, "--", "sh", "-c", f"cat /proc/self/status >{seen}") as collector:
        assert collector.wait() == 0
    found = dict(line.split(":\t", 1) for line in seen.read_text().splitlines())
    own = status(os.getpid())
    assert [found[name] for name in ("CapEff", "CapBnd", "NoNewPrivs")] == [
        own[name] for name in ("CapEff", "CapBnd", "NoNewPrivs")
    ]
