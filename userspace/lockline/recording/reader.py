# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a recording (the tables of userspace/collector/recording/recording.sql), and nothing but what is asked for.

A recording is data from elsewhere: it may be truncated, corrupted or made to harm.  Every value is checked
for its type where it is read, and every fault becomes one RecordingError.
"""

import os
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints
from urllib.parse import quote

from lockline.base.errors import RecordingError
from lockline.recording import rows

APPLICATION_ID = 0x6C6F636B
SCHEMA_VERSION = 4
OLDEST_SCHEMA = 1

# No text or blob of a true recording comes near this.
MAX_VALUE_BYTES = 4 << 20
_MAGIC = b"SQLite format 3\0"

# The columns that are read, by table.
_COLUMNS: dict[str, str] = {
    "meta": "name value",
    "probe": "signal state source reason lost",
    "program": "name signal runs measured_runs measured_ns recursion_misses",
    "cost": "name value unit",
    "loss": "name count meaning severity",
    "begin_count": "kind begins",
    "kind": "id name",
    "lock": "id address name instance source",
    "interval": "id begin_ns end_ns",
    "lock_total": "lock kind waits wait_ns max_ns failed worst_cpu worst_cpu_ns histogram",
    "cpu_total": "cpu kind waits wait_ns max_ns failed histogram",
    "cell_total": "lock kind cpu waits wait_ns max_ns failed histogram",
    "wait_interval": "interval cpu lock kind waits wait_ns max_ns failed histogram",
    "cgroup": "id path",
    "waiter": "id tid tgid comm cgroup",
    "stack": "id tgid frames",
    "frame": "tgid address symbol offset module",
    "sample_total": "waiter lock kind stack user_stack samples waits wait_ns",
    "sample_interval": "interval waiter lock kind stack user_stack samples waits wait_ns",
    "outlier": "id interval begin_ns wait_ns cpu begin_cpu waiter lock kind result stack user_stack",
    "open_wait": "tid tgid comm cpu lock kind begin_ns age_ns",
}

# Tables that schema 2 added: contended releases, long waits, futexes, memory accesses.  Of schema 1 they read as empty.
_SCHEMA_2_COLUMNS: dict[str, str] = {
    "holder_total": "lock kind holder releases waits caused_ns max_caused_ns",
    "release_stack": "lock kind holder stack samples releases caused_ns",
    "fairness": (
        "lock kind waits releases retakes overtaken bypasses max_bypasses handoffs handoff_ns max_handoff_ns"
        " holds hold_ns max_hold_ns hold_histogram"
    ),
    "episode": (
        "id outlier state tid waiter lock kind begin_ns wait_ns begin_cpu cpu policy priority interrupts"
        " interrupts_from stack from_ns to_ns cpus complete left_out holder holder_state holder_stack holder_from"
    ),
    "timeline": "time_ns cpu type sequence length_ns task other lock value name stack",
    "futex": "id tgid comm address shared name object",
    "futex_total": (
        "futex ops calls slept wait_ns max_ns timed_out timed_out_ns again interrupted failed timed value_2 wakes"
        " wakes_empty tasks_woken latency_ns max_latency_ns waiters wakers both owner_samples owners threads"
        " open_waits oldest_ns histogram latency_histogram"
    ),
    "futex_sample": "futex role task stack samples waits wait_ns",
    "futex_bucket": "lock futex waits wait_ns max_ns",
    "clock_total": "cpu reads read_ns max_ns histogram",
    "clock_sample": "task stack samples reads read_ns",
    "inactive_wait": (
        "tid tgid comm target_tid target_tgid target_comm calls turns max_turns traced failed wait_ns max_ns"
    ),
    "inactive_cpu": "cpu histogram turns",
    "memory_source": "id kind name event",
    "memory_count": "source name count",
    "memory_line": "id source address size space pid object symbol symbol_offset nodes pages",
    "memory_thread": "id pid tid comm",
    "memory_code": "id address space symbol offset object line",
    "memory_access": (
        "line offset code thread records loads stores locked local_hitm remote_hitm local_peer remote_peer"
        " fill_buffer l1_hit l2_hit llc_hit remote_hit local_dram remote_dram store_l1_hit store_l1_miss"
        " store_unknown blocked no_map no_parse remote_hitm_weight local_hitm_weight load_weight load_weights"
        " in_wait cpus cpu_count nodes"
    ),
    "memory_problem": "source place problem",
    "btf": "name bytes data",
}
# Tables that schema 3 added: watched lines, links of live memory samples, the hardware's limits.
_SCHEMA_3_COLUMNS: dict[str, str] = {
    "memory_interrupts": "line offset code thread records off",
    "memory_wait": "line lock kind records transfers",
    "watch": (
        "line target lock lock_offset type type_offset type_from access_from budget begin_ns end_ns hit_ns ended"
    ),
    "watch_window": "line begin_ns length_ns offsets hits lost transfers cut changed",
    "watch_transfer": "line from_cpu from_offset from_code cpu offset code write transfers",
    "futex_semaphore": "futex calls",
    "ptrace_attach": "tid tgid comm target_tid target_tgid target_comm attaches attach_ns max_ns",
    "ptrace_attach_cpu": "cpu histogram",
    "cpu_pair": "first second transfer_ns least_transfer_ns warp_ns rounds",
    "self_check": (
        "slice pair begin_ns end_ns deeper waits wait_ns wait_histogram wakeups max_late_ns wakeup_histogram switches"
    ),
}
# Tables that schema 4 added: who waits for whom, how the accesses of watched lines were told to read or write.
_SCHEMA_4_COLUMNS: dict[str, str] = {
    "futex_owned_wait": "futex tid tgid comm age_ns timed owner owned_ns owner_comm owner_state owner_in",
    "watch_told": (
        "line instruction watchpoint remembered untold compared disagreed typed_windows typed_hits typed_hit_ns"
    ),
    "watch_comparison": "line code decoded only_read wrote",
}
_ADDED_COLUMNS = {2: _SCHEMA_2_COLUMNS, 3: _SCHEMA_3_COLUMNS, 4: _SCHEMA_4_COLUMNS}
_ALL_COLUMNS = _COLUMNS | _SCHEMA_2_COLUMNS | _SCHEMA_3_COLUMNS | _SCHEMA_4_COLUMNS

# What a damaged file makes SQLite raise; its messages may quote bytes that are no text.
_FAULTS = (sqlite3.Error, OverflowError, UnicodeDecodeError)

_MAX_INTEGER = (1 << 63) - 1
_MAX_ROW_TYPES = 1024
# 65,536 CPUs.
_MAX_CPU_BYTES = 8192
_SAMPLE_POSSIBLE = "samples >= 0 AND waits >= 0 AND wait_ns >= 0"

MetaValue = str | int | float | None
Span = tuple[int, int]
Row = TypeVar("Row", bound=tuple[Any, ...])


def _damaged(path: str, why: object) -> RecordingError:
    return RecordingError(f"{path}: the recording is damaged: {why}")


def _sql_list(values: Sequence[int]) -> str:
    return "(" + ",".join(str(int(value)) for value in values) + ")"


def _where(*conditions: str | None) -> str:
    present = [condition for condition in conditions if condition]
    return " WHERE " + " AND ".join(present) if present else ""


def _within(span: Span) -> str:
    return f"interval BETWEEN {int(span[0])} AND {int(span[1])}"


def _sample_table(span: Span | None) -> str:
    return "sample_total" if span is None else "sample_interval"


def _sample_filter(span: Span | None, locks: Sequence[int] | None, kinds: Sequence[int] | None) -> str:
    return _where("1", None if span is None else _within(span), _member("lock", locks), _member("kind", kinds))


def _member(column: str, values: Sequence[int] | None) -> str | None:
    return None if values is None else f"{column} IN {_sql_list(values)}"


class Recording:
    """An open recording, read in one transaction, so that all tables are of one moment.

    Selections are optional: a sequence of lock ids, kinds or CPUs, or a span of interval ids (first, last).
    Every method raises RecordingError if what it reads is damaged.
    """

    def __init__(self, path: str, connection: sqlite3.Connection, schema: int) -> None:
        self.path = path
        self.schema = schema
        self._connection = connection

    def _raw(self, query: str) -> Iterator[tuple[Any, ...]]:
        try:
            # Not "yield from": that closes the cursor of a reader that gave up, maybe after the connection.
            for row in self._connection.execute(query):  # noqa: UP028
                yield row
        except _FAULTS as error:
            raise _damaged(self.path, error) from error

    def _rows(self, row_type: type[Row], table: str, query: str) -> Iterator[Row]:
        """The rows of a query as NamedTuples, each value of exactly the annotated type."""
        hints = get_type_hints(row_type)
        choices = [get_args(hint) if isinstance(hint, UnionType) else (hint,) for hint in hints.values()]
        accepted: set[tuple[type, ...]] = set()
        make: Any = getattr(row_type, "_make")  # noqa: B009 - not known of a type variable
        for row in self._raw(query):
            types = tuple(map(type, row))
            if types not in accepted:
                for name, value, choice in zip(hints, row, choices, strict=True):
                    if type(value) not in choice:
                        raise _damaged(self.path, f"{table}.{name} holds {type(value).__name__}")
                # Rows differ little in what they leave open.
                if len(accepted) < _MAX_ROW_TYPES:
                    accepted.add(types)
            yield make(row)

    def table(self, row_type: type[Row], table: str, condition: str = "", order: str = "") -> Iterator[Row]:
        """All rows of a table as NamedTuples, columns in the order of the schema; none if its schema lacks the table.

        condition and order are SQL made of constants and integers, never of text from elsewhere.
        """
        if any(self.schema < schema and table in added for schema, added in _ADDED_COLUMNS.items()):
            return iter(())
        query = f"SELECT {_columns(table)} FROM {table}" + _where(condition) + (f" ORDER BY {order}" if order else "")
        return self._rows(row_type, table, query)

    def select(self, row_type: type[Row], table: str, query: str) -> Iterator[Row]:
        """The rows of a query, which is SQL made of constants and integers; table: what a fault is said to be in."""
        return self._rows(row_type, table, query)

    def meta(self) -> dict[str, MetaValue]:
        """All facts of the host, the options and the run, by name."""
        facts: dict[str, MetaValue] = {}
        for name, value in self._raw("SELECT name, value FROM meta ORDER BY name"):
            if not isinstance(name, str) or isinstance(value, bytes):
                raise _damaged(self.path, "meta holds a value that is neither text nor number")
            facts[name] = value
        return facts

    def probes(self) -> list[rows.Probe]:
        """The plan, by signal."""
        query = "SELECT signal, state, source, reason, lost FROM probe ORDER BY signal"
        return list(self._rows(rows.Probe, "probe", query))

    def programs(self) -> list[rows.Program]:
        """Run counts and run times of the BPF programs."""
        query = f"SELECT {_columns('program')} FROM program ORDER BY name"
        return list(self._rows(rows.Program, "program", query))

    def costs(self) -> list[rows.Cost]:
        """Own cost of the collector."""
        return list(self._rows(rows.Cost, "cost", "SELECT name, value, unit FROM cost ORDER BY name"))

    def losses(self) -> list[rows.Loss]:
        """What was seen and did not become a wait."""
        query = "SELECT name, count, meaning, severity FROM loss ORDER BY name"
        return list(self._rows(rows.Loss, "loss", query))

    def begins(self) -> dict[int, int]:
        """Begins by kind, before any filter."""
        query = "SELECT kind, begins FROM begin_count ORDER BY kind"
        return {row.kind: row.begins for row in self._rows(rows.Begins, "begin_count", query)}

    def kinds(self) -> dict[int, str]:
        """Names of the kinds by id."""
        query = "SELECT id, name FROM kind ORDER BY id"
        return {row.id: row.name for row in self._rows(rows.Kind, "kind", query)}

    def locks(self) -> dict[int, rows.Lock]:
        """All locks by id."""
        query = "SELECT id, address, name, instance, source FROM lock"
        return {row.id: row for row in self._rows(rows.Lock, "lock", query)}

    def intervals(self) -> list[rows.Interval]:
        """The intervals, oldest first."""
        query = "SELECT id, begin_ns, end_ns FROM interval ORDER BY id"
        return list(self._rows(rows.Interval, "interval", query))

    def lock_totals(self, kinds: Sequence[int] | None = None) -> Iterator[rows.LockTotal]:
        """Whole run, by lock and kind."""
        query = f"SELECT {_columns('lock_total')} FROM lock_total" + _where(_member("kind", kinds))
        return self._rows(rows.LockTotal, "lock_total", query)

    def cpu_totals(self, kinds: Sequence[int] | None = None) -> Iterator[rows.CpuTotal]:
        """Whole run, by CPU and kind."""
        query = f"SELECT {_columns('cpu_total')} FROM cpu_total" + _where(_member("kind", kinds))
        return self._rows(rows.CpuTotal, "cpu_total", query)

    def cells(
        self,
        span: Span | None = None,
        locks: Sequence[int] | None = None,
        cpus: Sequence[int] | None = None,
        kinds: Sequence[int] | None = None,
    ) -> Iterator[rows.Cell]:
        """By lock, kind and CPU: of the whole run, or one row per interval of a span."""
        table = "cell_total" if span is None else "wait_interval"
        query = f"SELECT {_columns('cell_total')} FROM {table}" + _where(
            None if span is None else _within(span),
            _member("lock", locks),
            _member("cpu", cpus),
            _member("kind", kinds),
        )
        return self._rows(rows.Cell, table, query)

    def interval_sums(self, longest_ns: int | None) -> Iterator[rows.IntervalSum]:
        """By interval, lock and kind, over the CPUs; without rows that have a wait longer than longest_ns."""
        longest = _MAX_INTEGER if longest_ns is None else min(longest_ns, _MAX_INTEGER)
        query = f"""
            SELECT interval, lock, kind, SUM(waits), SUM(wait_ns) FROM wait_interval
            WHERE waits >= 0 AND wait_ns >= 0 AND max_ns BETWEEN 0 AND {int(longest)}
            GROUP BY interval, lock, kind"""
        return self._rows(rows.IntervalSum, "wait_interval", query)

    def line_sums(self) -> Iterator[rows.LineSum]:
        """Accesses by cache line; figures that the source does not tell are None."""
        query = """
            SELECT line, SUM(records), SUM(loads), SUM(stores), SUM(local_hitm), SUM(remote_hitm), SUM(local_peer),
                SUM(remote_peer), MAX(cpu_count)
            FROM memory_access GROUP BY line"""
        return self._rows(rows.LineSum, "memory_access", query) if self.schema >= 2 else iter(())

    def line_functions(self, lines: Sequence[int]) -> Iterator[rows.LineFunction]:
        """Which functions access these lines; weight: HITM and peer snoops, or records where there are none."""
        query = f"""
            SELECT memory_access.line, symbol, SUM(ifnull(local_hitm, 0) + ifnull(remote_hitm, 0)
                + ifnull(local_peer, 0) + ifnull(remote_peer, 0)), SUM(ifnull(records, 0))
            FROM memory_access JOIN memory_code ON memory_code.id = code
            WHERE {_member("memory_access.line", lines)} GROUP BY memory_access.line, symbol"""
        return self._rows(rows.LineFunction, "memory_access", query) if self.schema >= 2 else iter(())

    def line_cpus(self, lines: Sequence[int]) -> dict[int, int]:
        """The CPUs that access each of these lines, as a bit set; none where only their number is known."""
        sets: dict[int, int] = {}
        if self.schema < 2:
            return sets
        query = f"SELECT line, cpus FROM memory_access WHERE {_member('line', lines)} AND cpus IS NOT NULL"
        for line, cpus in self._raw(query):
            if not isinstance(line, int) or not isinstance(cpus, bytes) or len(cpus) > _MAX_CPU_BYTES:
                raise _damaged(self.path, "memory_access.cpus is no bit set")
            sets[line] = sets.get(line, 0) | int.from_bytes(cpus, "little")
        return sets

    def task_weights(
        self,
        span: Span | None = None,
        locks: Sequence[int] | None = None,
        kinds: Sequence[int] | None = None,
    ) -> list[rows.TaskWeight]:
        """What the samples of each task stand for, and the lock and kind that it waited longest for."""
        query = f"""
            SELECT waiter, SUM(samples), SUM(waits), SUM(wait_ns), lock, kind, MAX(wait_ns) FROM (
                SELECT waiter, lock, kind, SUM(samples) AS samples, SUM(waits) AS waits, SUM(wait_ns) AS wait_ns
                FROM {_sample_table(span)}{_sample_filter(span, locks, kinds)} AND {_SAMPLE_POSSIBLE}
                GROUP BY waiter, lock, kind)
            GROUP BY waiter"""
        return list(self._rows(rows.TaskWeight, _sample_table(span), query))

    def stack_weights(self, locks: Sequence[int], span: Span | None = None) -> list[rows.StackWeight]:
        """What the samples of these locks stand for, by lock, kind and stack (0: samples without one)."""
        query = f"""
            SELECT lock, kind, stack, SUM(samples), SUM(waits), SUM(wait_ns)
            FROM {_sample_table(span)}{_sample_filter(span, locks, None)} AND {_SAMPLE_POSSIBLE}
            GROUP BY lock, kind, stack"""
        return list(self._rows(rows.StackWeight, _sample_table(span), query))

    def impossible_samples(
        self,
        span: Span | None = None,
        locks: Sequence[int] | None = None,
        kinds: Sequence[int] | None = None,
    ) -> int:
        """Rows of samples with negative figures, which the weights leave out."""
        filtered = _sample_filter(span, locks, kinds)
        query = f"SELECT count(*) FROM {_sample_table(span)}{filtered} AND NOT ({_SAMPLE_POSSIBLE})"
        return sum(count for (count,) in self._raw(query))

    def outliers(
        self,
        limit: int,
        longest_ns: int | None,
        span: Span | None = None,
        locks: Sequence[int] | None = None,
        cpus: Sequence[int] | None = None,
        kinds: Sequence[int] | None = None,
    ) -> tuple[list[rows.Outlier], int, int]:
        """The longest `limit` waits over the threshold, longest first, of those no longer than longest_ns.

        Also gives how many of them there are in all, and how many are longer or negative.
        """
        where = _where(
            None if span is None else _within(span),
            _member("lock", locks),
            _member("cpu", cpus),
            _member("kind", kinds),
        )
        possible = f"wait_ns BETWEEN 0 AND {_MAX_INTEGER if longest_ns is None else min(longest_ns, _MAX_INTEGER)}"
        counts = list(self._raw(f"SELECT count(*), ifnull(SUM({possible}), 0) FROM outlier{where}"))
        every, kept = counts[0]
        columns = "id, begin_ns, wait_ns, cpu, begin_cpu, waiter, lock, kind, result, stack, user_stack"
        query = (
            f"SELECT {columns} FROM outlier{where or ' WHERE 1'} AND {possible}"
            f" ORDER BY wait_ns DESC, id LIMIT {int(limit)}"
        )
        return list(self._rows(rows.Outlier, "outlier", query)), kept, every - kept

    def open_waits(self) -> list[rows.OpenWait]:
        """Waits in progress when the last interval ended, oldest first."""
        query = f"SELECT {_columns('open_wait')} FROM open_wait ORDER BY age_ns DESC, tid"
        return list(self._rows(rows.OpenWait, "open_wait", query))

    def waiters(self) -> dict[int, rows.Waiter]:
        """All tasks that waited in a sample or an outlier, by id."""
        query = """
            SELECT waiter.id, tid, tgid, comm, ifnull(path, '')
            FROM waiter LEFT JOIN cgroup ON cgroup.id = waiter.cgroup"""
        return {row.id: row for row in self._rows(rows.Waiter, "waiter", query)}

    def stacks(self, ids: Sequence[int]) -> dict[int, tuple[rows.Frame, ...]]:
        """The frames of the stacks of these ids, leaf first; ids without a stack are left out."""
        addresses: dict[int, tuple[int, tuple[int, ...]]] = {}
        query = f"SELECT id, tgid, frames FROM stack WHERE id IN {_sql_list(ids)}"
        for stack in self._rows(rows.Stack, "stack", query):
            if len(stack.frames) % 8:
                raise _damaged(self.path, f"stack of {len(stack.frames)} bytes, not a multiple of 8")
            frames = struct.unpack(f"<{len(stack.frames) // 8}q", stack.frames)
            addresses[stack.id] = (stack.tgid, frames)
        known: dict[tuple[int, int], rows.Frame] = {}
        for tgid in {tgid for tgid, _ in addresses.values()}:
            wanted = sorted({address for owner, frames in addresses.values() if owner == tgid for address in frames})
            members = f"tgid = {tgid} AND address IN {_sql_list(wanted)}"
            query = f"SELECT address, symbol, offset, module FROM frame WHERE {members}"
            for frame in self._rows(rows.Frame, "frame", query):
                known[tgid, frame.address] = frame
        return {
            stack: tuple(known.get((tgid, address), rows.Frame(address, "", 0, "")) for address in frames)
            for stack, (tgid, frames) in addresses.items()
        }


def _columns(table: str) -> str:
    return ", ".join(_ALL_COLUMNS[table].split())


def _connect(path: Path, parameters: str) -> sqlite3.Connection:
    # An absolute path after an empty authority: nothing in it can pass for a part of the URI.
    location = b"/" + os.fsencode(path.absolute()).lstrip(b"/")
    uri = f"file://{quote(location)}?{parameters}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        # A schema is code: it must not call functions, and reading it must not trust its sizes.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _check_header(path: Path) -> None:
    """Tell what is no SQLite file, or a truncated one, before SQLite says less clearly."""
    try:
        if not path.is_file():
            if path.exists():
                raise RecordingError(f"{path}: not a file")
            raise RecordingError(f"{path}: no such file; make one with `lockline record -o {path}`")
        with path.open("rb") as file:
            header = file.read(100)
            size = file.seek(0, os.SEEK_END)
    except (OSError, ValueError) as error:
        raise RecordingError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from error
    if not header:
        raise RecordingError(f"{path}: empty, not a recording")
    if not header.startswith(_MAGIC[: len(header)]):
        raise RecordingError(f"{path}: not a lockline recording")
    pages = int.from_bytes(header[28:32], "big")
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    if len(header) < 100 or (size < pages * page_bytes and not _has_wal(path)):
        raise RecordingError(f"{path}: truncated, {size} bytes of {max(pages * page_bytes, 100)}")


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _has_wal(path: Path) -> bool:
    try:
        return _wal(path).stat().st_size > 0
    except OSError:
        return False


@contextmanager
def _connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection, also where SQLite cannot make its index of the write-ahead log.

    That is so in a directory that cannot be written to.  No collector is at work there (it would have made
    the index), so that a copy is consistent; without a log the file alone is complete.
    """
    try:
        connection = _connect(path, "mode=ro")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
    else:
        try:
            yield connection
        finally:
            connection.close()
        return
    with tempfile.TemporaryDirectory(prefix="lockline-") as directory:
        if _has_wal(path):
            copy = Path(directory) / "recording"
            shutil.copyfile(path, copy)
            shutil.copyfile(_wal(path), _wal(copy))
            connection = _connect(copy, "mode=ro")
        else:
            connection = _connect(path, "mode=ro&immutable=1")
        try:
            yield connection
        finally:
            connection.close()


def _check_schema(path: Path, connection: sqlite3.Connection) -> int:
    """Gives the schema's version, if all of its tables are there."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise RecordingError(f"{path}: not a lockline recording but some other SQLite file")
    if schema > SCHEMA_VERSION:
        raise RecordingError(
            f"{path}: schema {schema} is newer than this lockline reads ({SCHEMA_VERSION}); use a newer lockline"
        )
    if schema < OLDEST_SCHEMA:
        raise _damaged(str(path), f"schema {schema} does not exist")
    # A view or a computed column in a table's place could run for ever.
    tables = {
        name: sql
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
        if isinstance(sql, str) and sql.upper().startswith("CREATE TABLE")
    }
    expected = dict(_COLUMNS)
    for added_in, added in _ADDED_COLUMNS.items():
        expected |= added if schema >= added_in else {}
    for table, columns in expected.items():
        if table not in tables:
            raise _damaged(str(path), f"no table {table}")
        plain = {row[1] for row in connection.execute(f"PRAGMA table_xinfo({table})") if row[6] == 0}
        missing = set(columns.split()) - plain
        if missing:
            raise _damaged(str(path), f"no column {table}.{min(missing)}")
    return int(schema)


@contextmanager
def open_recording(path: str | os.PathLike[str]) -> Iterator[Recording]:
    """Open a recording for reading, finished or still being written.

    Raises RecordingError if it cannot be opened, is no recording, truncated, damaged, or of a newer schema.
    """
    file = Path(path)
    with ExitStack() as opened:
        # Only what opening raises is the recording's fault, not what the caller raises meanwhile.
        try:
            _check_header(file)
            connection = opened.enter_context(_connection(file))
            schema = _check_schema(file, connection)
        except _FAULTS as error:
            raise _damaged(str(file), error) from error
        except OSError as error:
            raise RecordingError(f"{file}: cannot be read: {error.strerror}") from error
        yield Recording(str(file), connection, schema)
