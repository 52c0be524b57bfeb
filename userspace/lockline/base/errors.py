# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors that end a command with one line on stderr."""


class LocklineError(Exception):
    """What failed, why, and what to do, in one line; the command line exits with 1."""


class RecordingError(LocklineError):
    """A file that is no recording, or one that is damaged or too new."""
