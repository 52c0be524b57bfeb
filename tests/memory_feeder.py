# SPDX-License-Identifier: GPL-2.0-or-later
"""Drives tests/bpf/memory_feed: made-up memory samples, each time into a recording of its own."""

import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

# What only a program takes that waits for itself.
DEADLINE_S = 900


class Feeder:
    """A program that has loaded its BPF programs and waits for commands."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def feed(self, commands: Sequence[str], recording: Path) -> tuple[int, str]:
        """How the process ended that ran them, as subprocess has it, and what it printed."""
        source = recording.with_suffix(".commands")
        source.write_text("".join(f"{command}\n" for command in commands))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        printed: list[str] = []
        late = threading.Timer(DEADLINE_S, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(f"{source}\t{recording}\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                if line.startswith("status "):
                    status = int(line.split()[1])
                    return -(status & 0x7F) or status >> 8, "".join(printed)
                printed.append(line)
        finally:
            late.cancel()
        raise AssertionError(f"memory_feed ended: {''.join(printed)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(DEADLINE_S)
