# SPDX-License-Identifier: GPL-2.0-or-later
"""One line as the rules of verdicts see it: what is known of it, in words, and what confidence that allows."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from lockline.c2c.model import Access, Confidence, Coverage, Judgement, Line, Part, Role, Verdict
from lockline.c2c.parts import COST_LOADS, cost, cost_word
from lockline.c2c.sharing_model import LONGER, MEMBER, RECORD_STORES, THREADS, WHOLE_TEXT
from lockline.c2c.watched import doubts as doubts_of_watching
from lockline.watch.estimate import transfer_rate

# A line that moves less often than this costs less than 0.01 % of a CPU, at 1 us for each time.
QUIET_PER_SECOND = 100
# From fewer windows nothing can be told of what happens in bursts, as of threads that seldom run at once.
FEW_WINDOWS = 30
SURE_TRANSFERS = 100
SOME_TRANSFERS = 20
# Of a line's stores and cost, what must be told by offset for a member without stores to be one that is not written.
TOLD = 0.95
FEW_STORES = 20
# A kind of source.
TEXT = "c2c text"
# Of an access's records, what rounding makes of percentages that were typed by hand.
ROUNDED = 0.01


def actors(accesses: Iterable[Access]) -> int:
    """At least so many threads or CPUs make these accesses."""
    threads = cpus = most = 0
    for access in accesses:
        threads |= access.threads
        cpus |= access.cpus or 0
        if access.cpu_count > most:
            most = access.cpu_count
    return max(threads.bit_count(), cpus.bit_count(), most)


def percent(share: float) -> str:
    """A share in words."""
    return f"{share:.0%}"


def _by(functions: tuple[str, ...]) -> str:
    shown = [name for name in functions if name != "?"]
    return f" by {', '.join(shown[:3])}" if shown else ""


_DOES: tuple[tuple[Role, str], ...] = (
    ("waiter", "taken or waited for"),
    ("unlock", "released"),
    ("holder", "used under the lock"),
    ("lockless reader", "read without the lock"),
    ("atomic", "changed atomically"),
    ("writer", "written"),
    ("reader", "read"),
)


@lru_cache(4096)
def _doing(roles: tuple[tuple[Role, tuple[str, ...]], ...]) -> str:
    """Who does what, in words: the same functions stand in line after line."""
    known = dict(roles)
    return "; ".join([f"{text}{_by(known[role])}" for role, text in _DOES if role in known])


def describe(part: Part, word: str, counted: bool = True, share: float | None = None) -> str:
    """One member in words: its share, and who does what to it.

    counted: whether its stores are a count; share: where it is another one than the member's own.
    """
    stores = part.counts.stores or 0
    writes = f", {stores:,} stores" if stores and counted else ""
    name = part.name if not part.member else f"{part.member} (+{max(0, part.begin):#x})"
    of_all = percent(part.share if share is None else share)
    return f"{name}: {of_all} of the {word}{writes}; {_doing(tuple(part.roles.items()))}"


def amount(line: Line) -> str:
    """What was sampled of a line, in words."""
    counts = line.counts
    if line.shares:
        return "shares alone: how many HITM, peer snoops and stores they are of is not told"
    if line.watch is not None:
        told = f"{counts.loads or 0:,} reads, {counts.stores or 0:,} writes"
        text = f"{counts.transfers:,} transfers between CPUs in {counts.records or 0:,} accesses ({told})"
        return text + ("; by member, as if all bytes had been watched for the same time:" if line.weighted else "")
    words = [f"{counts.hitm:,} HITM ({counts.local_hitm or 0:,} local, {counts.remote_hitm or 0:,} remote)"]
    if counts.peer:
        words.append(
            f"{counts.peer:,} peer snoops ({counts.local_peer or 0:,} local, {counts.remote_peer or 0:,} remote)"
        )
        if not counts.hitm:
            words.pop(0)
    if counts.loads is not None:
        words.append(f"{counts.loads:,} loads")
    if counts.stores is not None:
        words.append(f"{counts.stores:,} stores")
    return ", ".join(words)


_ABOUT_WRITES: tuple[Verdict, ...] = ("false sharing", "true sharing", "read mostly")


def _contradict_themselves(accesses: Iterable[Access]) -> bool:
    """Whether one of them has more stores than records, or finds the line modified more often than it loads."""
    for access in accesses:
        counts = access.counts
        records, loads, stores = counts[:3]
        if records is None:
            continue
        rounding = ROUNDED * records
        if stores and stores - records > rounding:
            return True
        if loads is not None and access.transfers - (counts.watched or 0) - loads > rounding:
            return True
    return False


class Case:
    """One line, and what the rules ask of it."""

    def __init__(
        self,
        line: Line,
        parts: Sequence[Part],
        kind: str,
        coverage: Coverage,
        buddy: Line | None,
        sure: bool,
        spins: float,
    ) -> None:
        self.line = line
        self.rows = line.located
        self.parts = parts
        self.kind = kind
        self.word = cost_word(line, kind)
        self.coverage = coverage
        self.buddy = buddy
        self.sure = sure
        self.spins = spins if line.watch is not None else 0.0
        self.transfers = line.counts.transfers
        self.stores = line.counts.stores or 0
        self.loads = line.counts.loads or 0
        whole = cost(line.counts, kind)
        self.located = sum([part.cost for part in parts]) / whole if whole else 1.0
        self.proven = False
        self._stores_told: bool | None = None
        self.fought = [part for part in parts if part.share >= MEMBER]

    @property
    def stores_told(self) -> bool:
        """Whether a member without a sampled store is one that nobody writes."""
        if self._stores_told is None:
            self._stores_told = _stores_told(self)
        return self._stores_told

    @property
    def told_in_part(self) -> str:
        """That the cost is not known by offset, and what would tell."""
        # Rows of an older perf have no count of their accesses, in the whole text neither.
        if self.kind == COST_LOADS and all(access.counts.records is None for access in self.rows):
            return "the text does not tell how many loads are at each offset; `lockline c2c report perf.data` tells it"
        return f"offsets are known of {percent(self.located)} of the line's {self.word} alone; {WHOLE_TEXT}"

    def describe(self, part: Part) -> str:
        """One member in words."""
        return describe(part, self.word, not self.line.shares, part.share * min(1.0, self.located))

    def judge(
        self,
        verdict: Verdict,
        evidence: Sequence[str],
        members: Sequence[Part] = (),
        doubts: Sequence[str] = (),
        weak: int = 0,
    ) -> Judgement:
        """A judgement with the confidence that the data allow."""
        every = [*doubts, *self._doubts(verdict, "".join(doubts))]
        # Accesses that did not move the line show that nothing moves.
        samples = (self.line.counts.records or 0) if verdict == "none" else cost(self.line.counts, self.kind)
        few = samples < SOME_TRANSFERS
        some = samples < SURE_TRANSFERS
        weight = 2 * len(doubts) + len(every) - len(doubts) + 2 * few + some + weak + 3 * bool(self.line.shares)
        confidence: Confidence = "high" if weight == 0 else "medium" if weight <= 2 else "low"
        if verdict == "too little evidence":
            confidence = "low"
        told = [amount(self.line), *evidence]
        return Judgement(verdict, confidence, tuple(told), tuple(members), tuple(every))

    def _doubts(self, verdict: Verdict, asked: str) -> list[str]:
        """What is not known; asked: the doubts that the rule itself has, with their commands."""
        doubts = doubts_of_watching(self.line)
        if self.line.contradicted or _contradict_themselves(self.rows):
            contradict = "figures of the line contradict each other, as where a text was typed by hand"
            doubts.append(f"{contradict}; `perf c2c report --stdio` prints them anew from the perf.data file")
        if self.line.shares:
            doubts.append(f"only shares are known, not how many accesses they are of; {WHOLE_TEXT}")
        watch = self.line.watch
        if verdict == "none" and watch and len(watch.windows) < FEW_WINDOWS and watch.watched_ns < watch.span_ns / 2:
            doubts.append(f"what happens in bursts can be missed by {len(watch.windows)} windows")
        if watch and self.spins >= QUIET_PER_SECOND:
            rate = transfer_rate(watch, {access.offset for access in self.line.located})
            if self.spins > rate.per_second + 2 * (rate.error or 0.0):
                doubts.append(
                    f"CPUs spin for its lock {self.spins:,.0f} times a second, and each time it moves: the windows"
                    " saw less, as watching slows who uses it, or they missed its bursts"
                )
        if self.parts and self.located < TOLD:
            doubts.append(self.told_in_part.replace(WHOLE_TEXT, WHOLE_TEXT.replace("tells it", "tells the rest")))
        paid = cost(self.line.counts, self.kind)
        if verdict in _ABOUT_WRITES[:2] and paid < SOME_TRANSFERS and not self.line.shares and not watch:
            doubts.append(f"it rests on {paid:,} samples of {self.word}; {LONGER}")
        if (self.coverage.unparsable or 0) >= 0.2:
            unread = f"{percent(self.coverage.unparsable or 0)} of all records could not be read by perf"
            doubts.append(f"{unread}; `perf c2c report` of a newer perf may read them, from the same perf.data")
        if verdict in _ABOUT_WRITES and RECORD_STORES not in asked and (unseen := self._unseen_stores()):
            doubts.append(unseen)
        if not self.sure and verdict == "false sharing":
            doubts.append("the members' names are inferred, see Type")
        if self.kind == COST_LOADS:
            untold = "at which offsets CPUs waited for the line is not known; loads are used instead"
            doubts.append(f"{untold}; `perf c2c report --stdio -d tot -NN -c tid,iaddr` shows HITM of each offset")
        if verdict in ("false sharing", "true sharing") and not self.proven and actors(self.line.accesses) < 2:
            doubts.append(f"it is not known that more than one CPU or thread uses the line; {THREADS}")
        return doubts

    def _unseen_stores(self) -> str:
        """What is not known of the line's stores, or ''."""
        if self.coverage.stores_seen is not True and not self.stores:
            return f"stores were not sampled, so who writes is not seen; {RECORD_STORES}"
        if self.coverage.stores_seen is None and not (self.line.shares and self.stores):
            return f"stores were sampled in part at most; {RECORD_STORES}"
        if self.stores and not self.line.shares and not self.stores_told:
            return f"at which offsets the line is written is known in part; {WHOLE_TEXT}"
        return ""


def _stores_told(case: Case) -> bool:
    if case.coverage.exact:
        return True
    if case.line.shares:
        return case.stores > 0 and not any(access.offset < 0 for access in case.line.accesses)
    if not case.stores or case.coverage.stores_seen is None or case.line.counts.stores is None:
        return False
    located = sum([access.counts.stores or 0 for access in case.rows])
    enough = case.stores >= FEW_STORES or case.coverage.stores_seen is True
    return enough and located >= TOLD * case.stores and case.located >= TOLD


def hides_own_loads(case: Case) -> bool:
    """Whether loads of members that are shown may have no row: of offsets cut off, or of threads that did not wait."""
    return case.located < TOLD or (case.line.source == TEXT and any(access.threads for access in case.rows))


def fetched_beside(case: Case, parts: Sequence[Part]) -> int:
    """So many loads came from a clean copy elsewhere at other bytes than these members' shown rows."""
    here = 0
    for part in parts:
        for access in part.accesses:
            counts = access.counts
            if counts.llc_hit is not None:
                here += access.clean
            elif counts.loads is None:
                return 0
            else:
                here += max(0, counts.loads - access.transfers)
    return case.line.counts.clean - here
