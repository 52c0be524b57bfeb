# SPDX-License-Identifier: GPL-2.0-or-later
"""lockline: a profiler of lock contention on live Linux systems."""


def version() -> str:
    """The version of this installation, from VERSION beside the package or at the top of the clone."""
    from pathlib import Path

    package = Path(__file__).resolve().parent
    for path in (package / "VERSION", package.parents[1] / "VERSION"):
        if path.is_file():
            return path.read_text(encoding="utf-8").strip()
    return "unknown"
