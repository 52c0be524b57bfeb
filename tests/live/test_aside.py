# SPDX-License-Identifier: GPL-2.0-or-later
"""`record --until --save-last`: parts that are saved by themselves while the recording goes on."""

import json
import shutil
import signal
import subprocess
from pathlib import Path

from support import Collector, Recording, wait_for

# As systemd has it where stderr is the journal.
JOURNAL = ("sh", "-c", 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$0" "$@"')
NEVER = "wait>1h"
KEPT = 2


def parts(recording: Path) -> set[Path]:
    """What was saved and is still there."""
    return set(recording.parent.glob(f"{recording.stem}.saved-*.data"))


def test_parts_are_saved_and_the_oldest_go(live: Path, recording: Path) -> None:
    """More are asked for than are kept; each is a recording that can be read."""
    path = recording.with_name("rec.data")
    options = ("-a", "-I", "0.1", "--until", NEVER, "--save-last", "1", "--saves", str(KEPT))
    collector = Collector(live, path, *options, prefix=JOURNAL).attached()
    seen: set[Path] = set()

    def another() -> bool:
        """Until then it is asked again: too soon after one there is none."""
        collector.process.send_signal(signal.SIGUSR2)
        return bool(parts(path) - seen)

    # A part of the user's own: its name is another one.
    own = path.with_name("rec-20200101-000000.data")
    own.touch()
    for _ in range(KEPT + 2):
        wait_for(another, "part")
        seen |= parts(path)
    wait_for(lambda: len(parts(path)) <= KEPT, "removal of the oldest part")
    assert parts(path) <= seen
    newest = max(parts(path))
    report = subprocess.run(
        [live / "bin" / "lockline", "report", newest, "--format", "json"], capture_output=True, text=True, check=True
    )
    assert json.loads(report.stdout)["locks"]
    with Recording(newest) as part:
        facts = dict(part.rows("SELECT name, value FROM meta WHERE name IN ('fired', 'saved_from', 'state')"))
        assert facts == {"fired": "SIGUSR2", "saved_from": path.name, "state": "complete"}
        assert part.number("SELECT max(end_ns) - min(begin_ns) FROM interval") >= 500_000_000
    assert newest.stat().st_mode & 0o777 == 0o600
    assert collector.stop() == 0
    said = [line for line in collector.errors() if "what led to it is saved in" in line]
    assert [line.startswith("<5>lockline: SIGUSR2; ") for line in said] == [True] * len(said)
    assert len(said) >= KEPT + 2
    assert own.exists()
    assert not list(path.parent.glob("*.partial"))


def test_without_lockline_beside_it(live: Path, recording: Path, tmp_path: Path) -> None:
    """It is said before anything is recorded."""
    alone = tmp_path / "lockline-collect"
    shutil.copy(live / "bin" / "lockline-collect", alone)
    done = subprocess.run(
        [alone, "record", "-o", recording, "--until", NEVER, "--save-last", "1m"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        f"runs `lockline save`, which cannot be started: {tmp_path}/lockline: No such file or directory" in done.stderr
    )
    assert not recording.exists()
