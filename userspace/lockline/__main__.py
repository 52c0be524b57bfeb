# SPDX-License-Identifier: GPL-2.0-or-later
"""`python3 -m lockline` is the command line."""

import sys

from lockline.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
