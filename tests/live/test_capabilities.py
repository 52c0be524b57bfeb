# SPDX-License-Identifier: GPL-2.0-or-later
"""The collector records with the capabilities of the service alone."""

import re
import subprocess
from pathlib import Path

from support import Recording

TOP = Path(__file__).resolve().parents[2]


def test_the_capabilities_of_the_service_are_enough(live: Path, recording: Path) -> None:
    service = (TOP / "packaging" / "lockline.service").read_text()
    found = re.search(r"^CapabilityBoundingSet=(.*)$", service, re.MULTILINE)
    assert found
    kept = ",".join(f"+{word.removeprefix('CAP_').lower()}" for word in found[1].split())
    assert "sys_admin" not in kept
    command = ["setpriv", "--bounding-set", f"-all,{kept}", "--inh-caps", "-all", "--no-new-privs"]
    command += [
        str(live / "bin" / "lockline-collect"),
        "record",
        "-q",
        "-a",
        "--flight",
        "-d",
        "1",
        "-o",
        str(recording),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with Recording(recording) as result:
        assert result.integrity() == "ok"
        assert result.rows("SELECT value FROM meta WHERE name = 'state'") == [("complete",)]
