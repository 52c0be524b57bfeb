# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs are fitted to few of the kernel's types; the code is the same as by all of them."""

import subprocess
from pathlib import Path


def test_few_types_fit_the_programs_as_all_do(build: Path, bpf_machine: None) -> None:
    done = subprocess.run(
        [build / "tests" / "fitted"], capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    hashes = {name: (by_all, by_few) for name, by_all, by_few in (line.split() for line in done.stdout.splitlines())}
    assert {"contention_begin", "contention_end", "process_fork", "resolve_slab", "futex_exit"} <= set(hashes)
    assert {name for name, (by_all, by_few) in hashes.items() if by_all != by_few} == set()
