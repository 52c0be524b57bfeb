# SPDX-License-Identifier: GPL-2.0-or-later
"""The names of the JSON documents, with their versions."""

from typing import Final

REPORT = "lockline-report/2"
LINES = "lockline-c2c/1"
WATCH = "lockline-watch/1"
DIFF = "lockline-diff/2"
WHY: Final = "lockline-why/1"
EXPERIMENT: Final = "lockline-experiment/1"
