# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs `lockline fleet` in this process."""

import io
from contextlib import redirect_stderr, redirect_stdout

from lockline.cli.main import main


def run(*arguments: object) -> tuple[int, str, str]:
    """The exit code, and what it printed on stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["fleet", *map(str, arguments)])
    return code, out.getvalue(), err.getvalue()
