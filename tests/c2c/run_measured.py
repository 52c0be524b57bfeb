# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a command with its output thrown away and prints what it cost, as JSON.

A process of its own, and a small one: a child's largest memory counts from what its parent had when it was started.
"""

import json
import os
import sys
import time


def main() -> int:
    """The command line is the command; ends as it did."""
    begin = time.monotonic()
    null = os.open(os.devnull, os.O_RDWR)
    places = [(os.POSIX_SPAWN_DUP2, null, descriptor) for descriptor in (0, 1, 2)]
    child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=places)
    _, status, usage = os.wait4(child, 0)
    cost = {
        "seconds": time.monotonic() - begin,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss * 1024,
    }
    print(json.dumps(cost))
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
