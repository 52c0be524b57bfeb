#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Fuzzes the import of perf c2c's text with atheris.

tests/fuzz/c2c_text_fuzz.py -max_total_time=600 -timeout=10 -rss_limit_mb=1024 CORPUS tests/fuzz/corpus/c2c_text

New inputs go to the first directory.  atheris is not among the development tools, as it is not there for every machine:
build/venv/bin/pip install atheris.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "userspace"), str(ROOT / "tests")]


def main() -> None:
    """Run until the time is over or an input breaks something."""
    import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

    with atheris.instrument_imports(include=["lockline"]):
        from fuzz.c2c_text_target import run

    atheris.Setup(sys.argv, run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
