# SPDX-License-Identifier: GPL-2.0-or-later
"""The values that an analysis of watched lines is made of.  Offsets in bytes, times in ns, rates per second."""

from lockline.base.values import dataclass
from lockline.recording.code import Code


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time with watchpoints set on some bytes of a line.

    offsets: bit set of these bytes; hits: in the kernel, of which `lost` have no record; transfers: of those that have.
    cut: it ended early, by its limit of hits.  changed: 1: another object, or none, was there at its end; 0: the same;
    -1: not known.
    """

    begin_ns: int
    length_ns: int
    offsets: int
    hits: int
    lost: int
    transfers: int
    cut: bool
    changed: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """One CPU touched the watched bytes after another one had written there, and nobody else in between."""

    from_cpu: int
    from_offset: int
    from_code: Code
    cpu: int
    offset: int
    code: Code
    write: bool  # the access that followed wrote too
    count: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """An instruction of which the disassembler says another thing than the watchpoints: only_read, wrote: accesses."""

    code: Code
    reads: bool  # by the disassembler
    writes: bool
    only_read: int
    wrote: int


@dataclass(frozen=True, slots=True)
class Told:
    """How accesses were told to read or write.

    instruction: by the disassembler; watchpoint: by which of two watchpoints at their place they hit; remembered: by
    what these told of the same instruction.  compared: both ways; disagreed: of these.  hits, hit_ns: in typed windows,
    which have two watchpoints at each place.  differing: instructions, those with most disagreeing accesses first.
    """

    instruction: int
    watchpoint: int
    remembered: int
    untold: int
    compared: int
    disagreed: int
    windows: int
    hits: int
    hit_ns: int
    differing: tuple[Comparison, ...] = ()


@dataclass(frozen=True, slots=True)
class Watch:
    """How a line was watched, and what was seen besides its accesses.

    lock: id of the lock that the target is, 0: none.  type_from: how the structure is known.  budget: share of CPU
    time that watching was allowed, 0: unlimited.  hit_ns: cost of a hit, 0: not known.  Windows by time.  told: None of
    older recordings.
    """

    target: str
    lock: int
    lock_offset: int
    type: str
    type_offset: int
    type_from: str
    access_from: str
    budget: float
    begin_ns: int
    end_ns: int
    hit_ns: int
    ended: str
    windows: tuple[Window, ...]
    transfers: tuple[Transfer, ...]
    told: Told | None = None

    @property
    def span_ns(self) -> int:
        """From the first to the last moment that could be watched."""
        last = max((window.begin_ns + window.length_ns for window in self.windows), default=self.begin_ns)
        return max(self.end_ns, last, self.begin_ns) - self.begin_ns

    @property
    def watched_ns(self) -> int:
        """Time with any watchpoint set."""
        return sum(window.length_ns for window in self.windows)

    @property
    def hits(self) -> int:
        """All hits in the kernel."""
        return sum(window.hits for window in self.windows)

    @property
    def lost(self) -> int:
        """Hits without a record."""
        return sum(window.lost for window in self.windows)


@dataclass(frozen=True, slots=True)
class Rate:
    """What was seen, and what it stands for: per second over the whole time, with one standard error.

    error None: not known.  at_least: not all of the line was watched at once, so the rate is a lower bound.
    """

    seen: int
    per_second: float
    error: float | None
    at_least: bool = False
