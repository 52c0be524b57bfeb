# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest of scripts/vm left behind, and the load that it runs."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Ptrace and fork take tasklist_lock, pipes their mutex.  lockline starts it once it is attached, and
# ends with it: under load, probing a function takes an emulated machine half a minute.
LOAD = "stress-ng --ptrace 2 --fork 2 --pipe 2 --mmap 2 --mmap-bytes 16M --quiet --timeout 5"

# Begins that became no wait; see docs/how-it-works.md.
BEGINS_WITHOUT_WAIT = ("filtered", "repeated", "orphaned", "too_deep", "no_slot", "open")


@dataclass(frozen=True)
class Guest:
    """The files of one guest; `recording` is run.lockline among them."""

    directory: Path

    @property
    def recording(self) -> Path:
        """The guest's recording."""
        return self.directory / "run.lockline"

    def text(self, name: str) -> str:
        """A file that the guest wrote."""
        return (self.directory / name).read_text()

    def json(self, name: str) -> Any:
        """A JSON file that the guest wrote."""
        return json.loads(self.text(name))

    def rows(self, file: str, sql: str) -> list[tuple[Any, ...]]:
        """Of one of its recordings."""
        with closing(sqlite3.connect(self.directory / file)) as connection:
            return connection.execute(sql).fetchall()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the recording."""
        return self.rows(self.recording.name, sql)

    def facts(self, table: str) -> dict[str, Any]:
        """A table of (name, value, ...) rows, as a dictionary."""
        return {row[0]: row[1] for row in self.query(f"SELECT * FROM {table}")}

    def begins(self) -> int:
        """All begins that lockline saw: of the tracepoints, and entries of probed slow paths."""
        by_tracepoint = self.query("SELECT sum(begins) FROM begin_count")[0][0]
        return int(by_tracepoint) + int(self.facts("loss")["slow_paths"])

    def accounted_begins(self) -> int:
        """Those that became waits, and those of which the recording says why they did not."""
        loss = self.facts("loss")
        waits = self.query("SELECT coalesce(sum(waits), 0) FROM lock_total")[0][0]
        return int(waits) + sum(int(loss[name]) for name in BEGINS_WITHOUT_WAIT)
