# SPDX-License-Identifier: GPL-2.0-or-later
"""Pseudo-terminals, for tests of what a person sees."""

import os


def read_terminal(leader: int) -> bytes:
    """All that is written on the other side, until nobody has it any more; closes this one."""
    written = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # EIO: nobody has the other side any more
            break
        if not part:
            break
        written += part
    os.close(leader)
    return written
