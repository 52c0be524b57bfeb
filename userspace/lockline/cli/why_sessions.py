# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the titles of PostgreSQL's processes."""

import random
from collections.abc import Iterable

from lockline.base.patience import Reader
from lockline.cli.why_counters import PROC, short_text
from lockline.investigation.counters import parse_arguments
from lockline.investigation.sessions import SERVERS, Session, SessionWaits, session_of, session_waits

# Of one look, chosen by chance where there are more: a process without rights reads each, which takes 50 us.
_MOST_SESSIONS = 40
_TITLE_BYTES = 256


class Sessions:
    """Sessions of PostgreSQL among the processes that are looked at."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._comms: dict[int, str] = {}
        self._looks: list[list[Session]] = []
        self._read = self._servers = 0

    def _title(self, tgid: int) -> str:
        begin = parse_arguments(short_text(f"{PROC}/{tgid}/stat").rpartition(")")[2])
        title, _, _ = self._reader.memory(tgid, begin, _TITLE_BYTES).partition(b"\0")
        return title.decode("utf-8", "replace")

    def look(self, tgids: Iterable[int]) -> None:
        """One look at these processes."""
        wanted = set(tgids)
        for tgid in wanted - self._comms.keys():
            self._comms[tgid] = short_text(f"{PROC}/{tgid}/comm")
        servers = [tgid for tgid in wanted if self._comms[tgid] in SERVERS]
        some = random.sample(servers, min(_MOST_SESSIONS, len(servers)))
        found = [session_of(tgid, self._title(tgid)) for tgid in some]
        self._looks.append([one for one in found if one is not None])
        self._read += len(some)
        self._servers += len(servers)

    def waits(self, part: float) -> SessionWaits | None:
        """What they waited for; part: of all threads, that were looked at."""
        comm = next((comm for comm in self._comms.values() if comm in SERVERS), "")
        return session_waits(comm, self._looks, part * self._read / self._servers) if self._read else None
