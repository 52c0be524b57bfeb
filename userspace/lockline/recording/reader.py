# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a recording (the tables of userspace/collector/recording/recording.sql), and nothing but what is asked for.

A recording is data from elsewhere: it may be truncated, corrupted or made to harm.  Every value is checked
for its type where it is read, unless our own collector has just made it, and every fault becomes one RecordingError.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from lockline.base.errors import RecordingError
from lockline.base.files import plain_path
from lockline.base.late import Late
from lockline.recording.conditions import Condition, among, between, where
from lockline.recording.connection import FAULTS, check_header, check_tables, connected, damaged, schema_of
from lockline.recording.tables import Row, accepted_types, table_of

if TYPE_CHECKING:
    import sqlite3
    import struct

    from lockline.recording import rows
else:
    rows = Late("lockline.recording.rows")
    struct = Late("struct")

_MAX_INTEGER = (1 << 63) - 1
_MAX_ROW_TYPES = 1024
_SAMPLE_POSSIBLE = "samples >= 0 AND waits >= 0 AND wait_ns >= 0"
_TASK_TOTAL = {"waiter": (int,), "samples": (int,), "waits": (int,), "wait_ns": (int,), "lock": (str,)}

MetaValue = str | int | float | None
Span = tuple[int, int]


def _within(span: Span | None) -> Condition | None:
    return None if span is None else between("interval", *span)


def _member(column: str, values: Sequence[int] | None) -> Condition | None:
    return None if values is None else among(column, values)


def _sample_table(span: Span | None) -> str:
    return "sample_total" if span is None else "sample_interval"


def _sample_filter(
    span: Span | None, locks: Sequence[int] | None, kinds: Sequence[int] | None, possible: str | None
) -> str:
    # To compare with the range of the locks is much faster than to look for each among them.
    near = None if not locks or len(locks) == 1 else between("+lock", min(locks), max(locks))
    sure = Condition(possible or "1")
    return where(sure, _within(span), near, _member("lock", locks), _member("kind", kinds))


class Recording:
    """An open recording, read in one transaction, so that all tables are of one moment.

    Selections are optional: a sequence of lock ids, kinds or CPUs, or a span of interval ids (first, last).
    Every method raises RecordingError if what it reads is damaged.
    """

    def __init__(self, path: str, connection: "sqlite3.Connection", schema: int, made_here: bool = False) -> None:
        self.path = path
        self.schema = schema
        self.made_here = made_here
        self._connection = connection

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Reads inside are of the newest state of a recording that is being written, all of one moment.

        After it nothing is locked until the next one: the writer can clear its log.
        """
        try:
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")
            self._connection.execute("BEGIN")
            yield
        except FAULTS as error:
            raise damaged(self.path, error) from error
        finally:
            with suppress(*FAULTS):
                self._connection.execute("COMMIT")

    def raw(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a query as they are; for this package alone."""
        try:
            # Not "yield from": that closes the cursor of a reader that gave up, maybe after the connection.
            for row in self._connection.execute(query):  # noqa: UP028
                yield row
        except FAULTS as error:
            raise damaged(self.path, error) from error

    def checked(self, fields: Mapping[str, tuple[type, ...]], table: str, query: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, each value of exactly one of its field's types, if they need checks; for this package.

        query: SQL made of constants and integers.  table: what a fault is said to be in.
        """
        return self.raw(query) if self.made_here else self._checked(fields, table, query)

    def _checked(self, fields: Mapping[str, tuple[type, ...]], table: str, query: str) -> Iterator[tuple[Any, ...]]:
        accepted: set[tuple[type, ...]] = set()
        try:
            # Not by raw(): of tens of thousands of rows a generator in a generator is felt.
            for row in self._connection.execute(query):
                types = tuple(map(type, row))
                if types not in accepted:
                    for (name, choice), value in zip(fields.items(), row, strict=True):
                        if type(value) not in choice:
                            raise damaged(self.path, f"{table}.{name} holds {type(value).__name__}")
                    # Rows differ little in what they leave open.
                    if len(accepted) < _MAX_ROW_TYPES:
                        accepted.add(types)
                yield row
        except FAULTS as error:
            raise damaged(self.path, error) from error

    def select(self, row_type: type[Row], table: str, query: str) -> Iterator[Row]:
        """The rows of a query as NamedTuples, each value of the annotated type; see checked()."""
        make: Any = getattr(row_type, "_make")  # noqa: B009 - not known of a type variable
        return map(make, self.checked(accepted_types(row_type), table, query))

    def table(
        self, row_type: type[Row], *conditions: Condition | None, order: str = "", limit: int | None = None
    ) -> Iterator[Row]:
        """The rows of the table that this class describes; none if the recording's schema lacks the table.

        order: columns, as in "wait_ns DESC, id": a constant.
        """
        table = table_of(row_type)
        if self.schema < table.since:
            return iter(())
        query = f"SELECT {table.select(self.schema)} FROM {table.name}{where(*conditions)}"
        query += (f" ORDER BY {order}" if order else "") + (f" LIMIT {int(limit)}" if limit is not None else "")
        return self.select(row_type, table.name, query)

    def meta(self) -> dict[str, MetaValue]:
        """All facts of the host, the options and the run, by name."""
        facts: dict[str, MetaValue] = {}
        for name, value in self.raw("SELECT name, value FROM meta ORDER BY name"):
            if not isinstance(name, str) or isinstance(value, bytes):
                raise damaged(self.path, "meta holds a value that is neither text nor number")
            facts[name] = value
        return facts

    def probes(self) -> "list[rows.Probe]":
        """The plan, by signal."""
        return list(self.table(rows.Probe, order="signal"))

    def saw_futexes(self) -> bool:
        """Whether locks of programs were recorded, whatever was found of them."""
        # enum signal SIGNAL_FUTEX_WAITS of the collector (kernel/signals.h).
        return any(probe.signal == "futex waits" and probe.state == "on" for probe in self.table(rows.Probe))

    def programs(self) -> "list[rows.Program]":
        """Run counts and run times of the BPF programs."""
        return list(self.table(rows.Program, order="name"))

    def costs(self) -> "list[rows.Cost]":
        """Own cost of the collector."""
        return list(self.table(rows.Cost, order="name"))

    def losses(self) -> "list[rows.Loss]":
        """What was seen and did not become a wait."""
        return list(self.table(rows.Loss, order="name"))

    def begins(self) -> dict[int, int]:
        """Begins by kind, before any filter."""
        return {row.kind: row.begins for row in self.table(rows.Begins, order="kind")}

    def kinds(self) -> dict[int, str]:
        """Names of the kinds by id."""
        return {row.id: row.name for row in self.table(rows.Kind, order="id")}

    def has_locks(self) -> bool:
        """Whether any lock is in it."""
        return any(True for _ in self.raw("SELECT 1 FROM lock LIMIT 1"))

    def locks(self, span: Span | None = None) -> "dict[int, rows.Lock]":
        """All locks by id, or those that were waited for in these intervals."""
        waited = None if span is None else Condition(f"id IN (SELECT lock FROM wait_interval{where(_within(span))})")
        return {row.id: row for row in self.table(rows.Lock, waited)}

    def intervals(self, newest: int | None = None) -> "list[rows.Interval]":
        """The intervals, oldest first; or so many of the newest, newest first."""
        return list(self.table(rows.Interval, order="id" if newest is None else "id DESC", limit=newest))

    def lock_totals(self, kinds: Sequence[int] | None = None) -> "Iterator[rows.LockTotal]":
        """Whole run, by lock and kind."""
        return self.table(rows.LockTotal, _member("kind", kinds))

    def cpu_totals(self, kinds: Sequence[int] | None = None) -> "Iterator[rows.CpuTotal]":
        """Whole run, by CPU and kind."""
        return self.table(rows.CpuTotal, _member("kind", kinds))

    def cells(
        self,
        span: Span | None = None,
        locks: Sequence[int] | None = None,
        cpus: Sequence[int] | None = None,
        kinds: Sequence[int] | None = None,
    ) -> "Iterator[rows.Cell]":
        """By lock, kind and CPU: of the whole run, or one row per interval of a span."""
        table = "cell_total" if span is None else "wait_interval"
        query = f"SELECT {table_of(rows.Cell).select(self.schema)} FROM {table}" + where(
            _within(span),
            _member("lock", locks),
            _member("cpu", cpus),
            _member("kind", kinds),
        )
        return self.select(rows.Cell, table, query)

    def interval_sums(self, longest_ns: int | None) -> "Iterator[rows.IntervalSum]":
        """By interval, lock and kind, over the CPUs; without rows that have a wait longer than longest_ns."""
        longest = _MAX_INTEGER if longest_ns is None else min(longest_ns, _MAX_INTEGER)
        query = f"""
            SELECT interval, lock, kind, SUM(waits), SUM(wait_ns) FROM wait_interval
            WHERE waits >= 0 AND wait_ns >= 0 AND max_ns BETWEEN 0 AND {int(longest)}
            GROUP BY interval, lock, kind"""
        return self.select(rows.IntervalSum, "wait_interval", query)

    def interval_cells(self, span: Span) -> "Iterator[rows.IntervalCell]":
        """By interval, lock, kind and CPU, of the intervals of a span; rows that no recording can have are left out."""
        query = f"""
            SELECT interval, lock, kind, cpu, wait_ns FROM wait_interval
            {where(_within(span))} AND waits >= 0 AND wait_ns >= 0"""
        return self.select(rows.IntervalCell, "wait_interval", query)

    def task_weights(
        self,
        span: Span | None = None,
        locks: Sequence[int] | None = None,
        kinds: Sequence[int] | None = None,
        sound: bool = False,
    ) -> "list[rows.TaskWeight]":
        """What the samples of each task stand for, and the lock and kind that it waited longest for.

        sound: impossible_samples() found none, so that they need not be looked for again.
        """
        table, chosen = _sample_table(span), _sample_filter(span, locks, kinds, None if sound else _SAMPLE_POSSIBLE)
        if span is None:
            return self._task_totals(table, chosen)
        query = f"""
            SELECT waiter, SUM(samples), SUM(waits), SUM(wait_ns), lock, kind, MAX(wait_ns) FROM (
                SELECT waiter, lock, kind, SUM(samples) AS samples, SUM(waits) AS waits, SUM(wait_ns) AS wait_ns
                FROM {table}{chosen} GROUP BY waiter, lock, kind)
            GROUP BY waiter"""
        return list(self.select(rows.TaskWeight, table, query))

    def _task_totals(self, table: str, chosen: str) -> "list[rows.TaskWeight]":
        """The same of a table whose key begins with the task: nothing is sorted, where a large machine has much."""
        query = f"""
            SELECT waiter, samples, waits, wait_ns, (
                SELECT lock || ' ' || kind || ' ' || MAX(wait_ns) FROM (
                    SELECT lock, kind, SUM(wait_ns) AS wait_ns FROM {table}{chosen} AND waiter = every.waiter
                    GROUP BY lock, kind))
            FROM (
                SELECT waiter, SUM(samples) AS samples, SUM(waits) AS waits, SUM(wait_ns) AS wait_ns
                FROM {table}{chosen} GROUP BY waiter) AS every"""
        found = []
        for waiter, samples, waits, wait_ns, heaviest in self.checked(_TASK_TOTAL, table, query):
            try:
                lock, kind, lock_ns = map(int, heaviest.split())
            except ValueError:
                raise damaged(self.path, f"{table} holds a lock, kind or time that is not a number") from None
            found.append(rows.TaskWeight(waiter, samples, waits, wait_ns, lock, kind, lock_ns))
        return found

    def stack_weights(
        self, locks: Sequence[int], span: Span | None = None, sound: bool = False
    ) -> "list[rows.StackWeight]":
        """What the samples of these locks stand for, by lock, kind and stack (0: samples without one).

        sound: as of task_weights().
        """
        query = f"""
            SELECT lock, kind, stack, SUM(samples), SUM(waits), SUM(wait_ns)
            FROM {_sample_table(span)}{_sample_filter(span, locks, None, None if sound else _SAMPLE_POSSIBLE)}
            GROUP BY lock, kind, stack"""
        return list(self.select(rows.StackWeight, _sample_table(span), query))

    def stacks_through(self, part: str) -> list[int]:
        """The ids of kernel stacks through a function that has these letters, digits and underscores in its name."""
        symbols = Condition(f"instr(symbol, '{re.sub('[^0-9A-Za-z_]', '', part)}')")
        there = {
            frame.address.to_bytes(8, "little", signed=True)
            for frame in self.table(rows.FrameRow, among("tgid", [0]), symbols)
        }
        if not there:
            return []
        return [
            stack.id
            for stack in self.table(rows.Stack, among("tgid", [0]))
            if any(stack.frames[at : at + 8] in there for at in range(0, len(stack.frames), 8))
        ]

    def samples_of(self, stacks: Sequence[int]) -> "Iterator[rows.StackSample]":
        """What the samples with these kernel stacks stand for, of the whole run, by task, lock, kind and stack."""
        query = f"""
            SELECT waiter, lock, kind, stack, SUM(wait_ns) FROM sample_total
            {where(Condition(_SAMPLE_POSSIBLE), among("stack", stacks))} GROUP BY waiter, lock, kind, stack"""
        return self.select(rows.StackSample, "sample_total", query)

    def impossible_samples(
        self,
        span: Span | None = None,
        locks: Sequence[int] | None = None,
        kinds: Sequence[int] | None = None,
    ) -> int:
        """Rows of samples with negative figures, which the weights leave out."""
        filtered = _sample_filter(span, locks, kinds, f"NOT ({_SAMPLE_POSSIBLE})")
        query = f"SELECT count(*) FROM {_sample_table(span)}{filtered}"
        return sum(count for (count,) in self.raw(query))

    def outliers(
        self,
        limit: int,
        longest_ns: int | None,
        span: Span | None = None,
        locks: Sequence[int] | None = None,
        cpus: Sequence[int] | None = None,
        kinds: Sequence[int] | None = None,
        waiters: Sequence[int] | None = None,
    ) -> "tuple[list[rows.Outlier], int, int]":
        """The longest `limit` waits over the threshold, longest first, of those no longer than longest_ns.

        Also gives how many of them there are in all, and how many are longer or negative.
        """
        conditions = (
            _within(span),
            _member("lock", locks),
            _member("cpu", cpus),
            _member("kind", kinds),
            _member("waiter", waiters),
        )
        possible = between("wait_ns", 0, _MAX_INTEGER if longest_ns is None else min(longest_ns, _MAX_INTEGER))
        # Of all rows the database knows the number; of one that no recording can have, hardly any has one.
        [(every,)] = self.raw(f"SELECT count(*) FROM outlier{where(*conditions)}")
        wrong = Condition(f"({possible.sql}) IS NOT TRUE")
        [(left_out,)] = self.raw(f"SELECT count(*) FROM outlier{where(*conditions, wrong)}")
        longest = self.table(
            rows.Outlier, *conditions, possible if left_out else None, order="wait_ns DESC, id", limit=limit
        )
        return list(longest), every - left_out, left_out

    def open_waits(self) -> "list[rows.OpenWait]":
        """Waits in progress when the last interval ended, oldest first."""
        return list(self.table(rows.OpenWait, order="age_ns DESC, tid"))

    def investigation(self) -> str | None:
        """The story of the investigation that made the recording, as JSON; None if there was none."""
        return next((row.document for row in self.table(rows.Investigation, order="id", limit=1)), None)

    def waiters(self, ids: Sequence[int] | None = None) -> "dict[int, rows.Waiter]":
        """All tasks that waited in a sample or an outlier, or those of these ids, by id."""
        query = f"""
            SELECT waiter.id, tid, tgid, comm, ifnull(path, ''), waiter.cgroup
            FROM waiter LEFT JOIN cgroup ON cgroup.id = waiter.cgroup{where(_member("waiter.id", ids))}"""
        return {row.id: row for row in self.select(rows.Waiter, "waiter", query)}

    def stacks(self, ids: Sequence[int]) -> "dict[int, tuple[rows.Frame, ...]]":
        """The frames of the stacks of these ids, leaf first; ids without a stack are left out."""
        addresses: dict[int, tuple[int, tuple[int, ...]]] = {}
        for stack in self.table(rows.Stack, among("id", ids)):
            if len(stack.frames) % 8:
                raise damaged(self.path, f"stack of {len(stack.frames)} bytes, not a multiple of 8")
            frames = struct.unpack(f"<{len(stack.frames) // 8}q", stack.frames)
            addresses[stack.id] = (stack.tgid, frames)
        known: dict[tuple[int, int], rows.Frame] = {}
        for tgid in {tgid for tgid, _ in addresses.values()}:
            wanted = sorted({address for owner, frames in addresses.values() if owner == tgid for address in frames})
            for frame in self.table(rows.FrameRow, among("tgid", [tgid]), among("address", wanted)):
                known[tgid, frame.address] = rows.Frame(*frame[1:])
        return {
            stack: tuple(known.get((tgid, address), rows.Frame(address, "", 0, "")) for address in frames)
            for stack, (tgid, frames) in addresses.items()
        }


@contextmanager
def open_recording(path: str | os.PathLike[str], made_here: bool = False) -> Iterator[Recording]:
    """Open a recording for reading, finished or still being written.

    made_here: our own collector has just made it where nobody else can write, so that its values need no checks.

    Raises RecordingError if it cannot be opened, is no recording, truncated, damaged, or of a newer schema.
    """
    file = plain_path(path)
    with ExitStack() as opened:
        # Only what opening raises is the recording's fault, not what the caller raises meanwhile.
        try:
            check_header(file)
            connection = opened.enter_context(connected(file))
            schema = schema_of(file, connection)
            if not made_here:
                check_tables(file, connection, schema)
        except FAULTS as error:
            raise damaged(file, error) from error
        except OSError as error:
            raise RecordingError(f"{file}: cannot be read: {error.strerror}") from error
        yield Recording(file, connection, schema, made_here)
