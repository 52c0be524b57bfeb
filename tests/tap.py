# SPDX-License-Identifier: GPL-2.0-or-later
"""What the test programs in C print: TAP, with the complaints of a test before its line."""

import re


def parse_tap(text: str) -> dict[str, tuple[bool, str]]:
    """Per test whether it passed, and what it complained of."""
    results: dict[str, tuple[bool, str]] = {}
    complaints: list[str] = []
    for line in text.splitlines():
        match = re.fullmatch(r"(not )?ok \d+ - (\w+)", line)
        if match:
            results[match[2]] = (match[1] is None, "\n".join(complaints))
            complaints = []
        elif line.startswith("# "):
            complaints.append(line)
    return results
