# SPDX-License-Identifier: GPL-2.0-or-later
"""The sections of a report of cache lines, by the option that shows one alone."""

SECTIONS = {
    "lines": "the table of lines",
    "maps": "who uses each line: members, functions, verdict, locks, advice",
    "trust": "what the figures rest on, and what they lack",
}
