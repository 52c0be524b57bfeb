# SPDX-License-Identifier: GPL-2.0-or-later
"""The JVMs that are installed, and how each of their compilers is had alone."""

import re
from pathlib import Path

# What runs a program's methods, by the switch that leaves nothing else.
JAVA_COMPILERS = {"interpreter": "-Xint", "C1": "-XX:TieredStopAtLevel=1", "C2": "-XX:-TieredCompilation"}
_FOLDER = Path("/usr/lib/jvm")


def jvms() -> dict[int, Path]:
    """The `java` of each version, as Debian's packages and others' lay them out; one of each."""
    found: dict[int, Path] = {}
    for java in sorted(_FOLDER.glob("*/bin/java")):
        release = java.parents[1] / "release"
        version = re.search(r'JAVA_VERSION="(\d+)', release.read_text()) if release.is_file() else None
        if version is not None:
            found.setdefault(int(version[1]), java.resolve())
    return dict(sorted(found.items()))
