# SPDX-License-Identifier: GPL-2.0-or-later
"""The import of perf.data files as a command: inputs, outputs, budgets, and records in the order of their time."""

import os
import sqlite3
import stat
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from c2c import imported, patterns, sharing_patterns
from c2c import perfdata_format as perfdata
from c2c.access_kinds import INTEL
from c2c.description import Builder, Description, Thread, intel_events
from c2c.imported import COLLECTOR, threads_of
from c2c.perfdata_format import File, Machine, Mapping, Packer
from c2c.perfdata_sample import Sample, maker

MACHINE = Machine(cpus=4)
EVENT = intel_events(MACHINE.cpus)[0]
HITM = INTEL["local HITM"].word
PID, TEXT, HEAP = 700, 0x40_0000, 0x7F00_0000_0000


def import_to(path: Path | str, output: Path, *options: str, data: bytes | None = None) -> str:
    """An import that has to work; what it said."""
    command = [str(COLLECTOR), "import", str(path), "-o", str(output), *options]
    done = subprocess.run(command, capture_output=True, input=data, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.decode()


def refused(*arguments: str, data: bytes = b"") -> str:
    """The one line that an import that must fail ends with."""
    done = subprocess.run([str(COLLECTOR), "import", *arguments], capture_output=True, input=data, check=False)
    assert done.returncode == 1, done
    (line,) = done.stderr.decode().splitlines()
    return line


def losses(path: Path) -> dict[str, int]:
    """What a recording says that it lacks."""
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT name, count FROM loss").fetchall())


class Stream:
    """A pipe of records, one by one, in the order of the calls."""

    def __init__(self) -> None:
        file = File(MACHINE, [EVENT], pipe=True)
        self.packer = Packer(file)
        attribute = perfdata.attribute(file, EVENT) + struct.pack(f"<{len(EVENT.ids)}Q", *EVENT.ids)
        self.make = maker("<", file.fields, [EVENT.ids], [EVENT.period])
        self.data = bytearray(struct.pack("<8sQ", b"PERFILE2", 16) + self.packer.record(perfdata.ATTR, 0, attribute))

    def sample(self, time: int, address: int, tid: int = PID, cpu: int = 0, pid: int = PID) -> "Stream":
        """A HITM of user code."""
        values = Sample(0, TEXT, pid, tid, time, address, cpu, 0, HITM, 10, True)
        return self.add(self.make(values))

    def add(self, record: bytes) -> "Stream":
        """Any record."""
        self.data += record
        return self

    def mapping(self, time: int, pid: int, start: int, name: str, inode: int = 0) -> "Stream":
        """Two pages."""
        return self.add(self.packer.mapping(Mapping(pid, start, 0x2000, 0, name, inode, (8, 1), 3, data=True), time))

    def comm(self, time: int, text: str, pid: int = PID, exec_: bool = False) -> "Stream":
        """A COMM record."""
        record = self.packer.comm(pid, pid, text, time)
        kind, misc, size = struct.unpack_from("<IHH", record)
        return self.add(struct.pack("<IHH", kind, misc | (0x2000 if exec_ else 0), size) + record[8:])

    def finished_round(self) -> "Stream":
        """All that is earlier than the largest time of the round before has come."""
        return self.add(self.packer.record(perfdata.FINISHED_ROUND, 0, b""))

    def write(self, path: Path) -> Path:
        """Into a file."""
        path.write_bytes(self.data)
        return path


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    """What a recording answers."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def comms(path: Path) -> list[tuple[str, int]]:
    """The names of tasks, with their samples."""
    sums: Counter[str] = Counter()
    with closing(sqlite3.connect(path)) as connection:
        names = dict(connection.execute("SELECT id, comm FROM memory_thread"))
        query = "SELECT thread, records, threads, thread_set, thread_records FROM memory_access"
        found = connection.execute(query).fetchall()
    for thread, records, *several in found:
        shares = threads_of(*several) or [(thread, records)]
        assert sum(count for _, count in shares) == records
        for id_, count in shares:
            sums[names[id_]] += count
    return sorted(sums.items())


OBJECTS = "SELECT object, SUM(records) FROM memory_access JOIN memory_line ON line = id GROUP BY object ORDER BY object"


def test_a_name_counts_from_its_time_on(tmp_path: Path) -> None:
    stream = Stream().comm(0, "first")
    # The buffers of the CPUs follow one another: the change comes last, in the middle of the time.
    stream.sample(100, HEAP).sample(300, HEAP).sample(400, HEAP).comm(200, "second")
    import_to(stream.finished_round().write(tmp_path / "data"), tmp_path / "out")
    assert comms(tmp_path / "out") == [("first", 1), ("second", 2)]


def test_rounds_hold_back_what_may_be_too_late(tmp_path: Path) -> None:
    stream = Stream().comm(0, "first").sample(100, HEAP).sample(500, HEAP).finished_round()
    # Up to 100 may go on now, not 500: this change is earlier.
    stream.comm(450, "second").sample(600, HEAP).finished_round().sample(700, HEAP)
    import_to(stream.write(tmp_path / "data"), tmp_path / "out")
    assert comms(tmp_path / "out") == [("first", 1), ("second", 3)]
    assert "late_changes" not in losses(tmp_path / "out")


def test_what_comes_later_than_a_round_allows_is_counted(tmp_path: Path) -> None:
    stream = Stream().comm(0, "first").sample(500, HEAP).finished_round().sample(600, HEAP).finished_round()
    stream.comm(450, "second").sample(700, HEAP)
    import_to(stream.write(tmp_path / "data"), tmp_path / "out")
    assert losses(tmp_path / "out")["late_changes"] == 1
    assert comms(tmp_path / "out") == [("first", 1), ("second", 2)]


@pytest.mark.parametrize("size", [16, 40, 56])
@pytest.mark.parametrize("told", [0, 24, 1 << 20, (1 << 64) - 8])
def test_a_record_by_the_number_of_trace_data_takes_nothing_along(tmp_path: Path, size: int, told: int) -> None:
    """Private versions of perf have used its number, 71, for records of their own."""
    description = sharing_patterns.true_sharing()
    path = description.write(tmp_path / "data")
    data = bytearray(path.read_bytes())
    place, length = struct.unpack_from("<QQ", data, 40)
    record = struct.pack("<IHHQ", 71, 0, 8 + size, told) + bytes(size - 8)
    # Before the first record; the header's parts behind the data move along.
    struct.pack_into("<QQ", data, 40, place, length + len(record))
    data[place:place] = record
    at = place + len(record) + length
    for _ in range(sum(bin(word).count("1") for word in struct.unpack_from("<4Q", data, 72))):
        offset, part = struct.unpack_from("<QQ", data, at)
        struct.pack_into("<QQ", data, at, offset + len(record), part)
        at += 16
    path.write_bytes(data)
    import_to(path, tmp_path / "out")
    assert rows(tmp_path / "out", "SELECT SUM(count) FROM memory_count WHERE name = 'nr_entries'") == [
        (len(description.accesses),)
    ]
    fits = size == 40 and not told
    assert rows(tmp_path / "out", "SELECT count(*) FROM memory_problem") == [(0 if fits else 1,)]


def test_a_mapping_takes_the_place_of_another(tmp_path: Path) -> None:
    stream = Stream().mapping(0, PID, HEAP, "/one", 1).sample(100, HEAP).sample(101, HEAP + 0x1000)
    stream.mapping(200, PID, HEAP + 0x1000, "/two", 2).sample(300, HEAP).sample(301, HEAP + 0x1000)
    import_to(stream.write(tmp_path / "data"), tmp_path / "out")
    assert rows(tmp_path / "out", OBJECTS) == [("/one", 3), ("/two", 1)]


def test_a_mapping_in_the_middle_leaves_both_ends(tmp_path: Path) -> None:
    wide = Mapping(PID, HEAP, 0x9000, 0, "/wide", 1, (8, 1), 3, data=True)
    stream = Stream()
    stream.add(stream.packer.mapping(wide, 0)).mapping(10, PID, HEAP + 0x3000, "/middle", 2)
    for number, page in enumerate(range(9)):
        stream.sample(100 + number, HEAP + page * 0x1000)
    import_to(stream.write(tmp_path / "data"), tmp_path / "out")
    assert rows(tmp_path / "out", OBJECTS) == [("/middle", 2), ("/wide", 7)]


def test_a_fork_has_the_mappings_and_an_exec_none(tmp_path: Path) -> None:
    child = PID + 1
    stream = Stream().comm(0, "parent").mapping(0, PID, HEAP, "/one", 1)
    stream.add(stream.packer.fork(child, PID, 100)).sample(200, HEAP, child, pid=child)
    # What the child maps is not the parent's.
    stream.mapping(300, child, HEAP, "/child", 2).sample(310, HEAP, child, pid=child).sample(320, HEAP)
    stream.comm(400, "other", child, exec_=True).sample(500, HEAP, child, pid=child)
    import_to(stream.write(tmp_path / "data"), tmp_path / "out")
    assert comms(tmp_path / "out") == [("other", 1), ("parent", 3)]
    assert rows(tmp_path / "out", OBJECTS) == [("", 1), ("/child", 1), ("/one", 2)]


def test_many_mappings_are_found_again(tmp_path: Path) -> None:
    count = 700
    stream = Stream()
    order = [number * 331 % count for number in range(count)]
    for number in order:
        stream.mapping(0, PID, HEAP + number * 0x4000, f"/file-{number}", number + 1)
    for number in range(count):
        stream.sample(1000 + number, HEAP + number * 0x4000 + 0x1FC0)
    import_to(stream.write(tmp_path / "data"), tmp_path / "out")
    expected = sorted((f"/file-{number}", 1) for number in range(count))
    assert rows(tmp_path / "out", OBJECTS) == expected


def test_a_stream_that_stops_inside_a_round_may_be_cut_off(tmp_path: Path) -> None:
    stream = Stream().sample(100, HEAP)
    import_to(stream.write(tmp_path / "data"), tmp_path / "out")
    ((problem,),) = rows(tmp_path / "out", "SELECT problem FROM memory_problem")
    assert "may be cut off" in str(problem)
    import_to(stream.finished_round().write(tmp_path / "data"), tmp_path / "out")
    assert rows(tmp_path / "out", "SELECT problem FROM memory_problem") == []


def test_names_of_any_bytes_are_readable(tmp_path: Path) -> None:
    stream = Stream().comm(0, "tab\there\x1b[2J\u00e9").mapping(0, PID, HEAP, "/f\x07\u00e9\nx", 1).sample(100, HEAP)
    import_to(stream.write(tmp_path / "data"), tmp_path / "out")
    assert comms(tmp_path / "out") == [("tab here?[2J??", 1)]
    assert rows(tmp_path / "out", OBJECTS) == [("/f???", 1)]


@pytest.mark.parametrize("filling", [bytes(8), struct.pack("<IHH", 60, 0, 8)])
def test_a_bomb_is_put_out(filling: bytes, tmp_path: Path) -> None:
    # One record that unpacks to 128 MiB: of records without a size, and of empty ones.
    packed = zstandard.ZstdCompressor(level=1).compress(filling * (16 << 20))
    assert len(packed) < 60_000
    stream = Stream().sample(1, HEAP)
    stream.add(stream.packer.record(perfdata.COMPRESSED, 0, packed)).sample(2, HEAP)
    begin = len(Stream().sample(1, HEAP).data)
    import_to(stream.write(tmp_path / "data"), tmp_path / "out")
    (problem,) = rows(tmp_path / "out", "SELECT place, problem FROM memory_problem")
    assert problem[0] == begin
    assert "a compressed record cannot be unpacked: holds" in str(problem[1])
    assert imported.read(tmp_path / "out").counts["nr_entries"] == 1


def test_a_cpu_that_cannot_be_is_no_cpu(tmp_path: Path) -> None:
    stream = Stream().sample(1, HEAP, cpu=3).sample(2, HEAP, cpu=0x7FFFFFFF).sample(3, HEAP, cpu=0xFFFFFFFF)
    import_to(stream.write(tmp_path / "data"), tmp_path / "out")
    assert rows(tmp_path / "out", "SELECT records, cpus, cpu_count FROM memory_access") == [(3, b"\x08", 1)]
    assert {"impossible_cpus", "samples_without_cpu"} <= losses(tmp_path / "out").keys()


def two_lines() -> Description:
    """Two lines of one pair, and one far away."""
    builder = Builder(MACHINE, range(4), [Thread(PID, PID + cpu, "worker") for cpu in range(4)])
    base = 0xFFFF_8881_0000_0000
    for address, count in ((base, 50), (base + 64, 30), (base + 0x1000, 4)):
        builder.add(address, INTEL["local HITM"], patterns.TEXT, count)
    return Description("two-lines", File(MACHINE, intel_events(MACHINE.cpus)), builder.accesses)


def test_lines_of_128_bytes(tmp_path: Path) -> None:
    path = two_lines().write(tmp_path / "data")
    import_to(path, tmp_path / "out", "--line-size", "128")
    query = "SELECT size, offset, SUM(records) FROM memory_access JOIN memory_line ON line = id GROUP BY line, offset"
    assert rows(tmp_path / "out", query) == [(128, 0, 50), (128, 64, 30), (128, 0, 4)]


def test_the_best_lines_are_kept_and_the_others_counted(tmp_path: Path) -> None:
    description = patterns.futex_bucket()
    path = description.write(tmp_path / "data")
    import_to(path, tmp_path / "all", "--accesses", "0")
    everything = imported.read(tmp_path / "all")
    import_to(path, tmp_path / "few", "--accesses", "500")
    few = imported.read(tmp_path / "few")
    assert few.counts == everything.counts
    assert 0 < len(few.lines) < len(everything.lines)
    lost = losses(tmp_path / "few")
    assert lost["lines_left_out"] == len(everything.lines) - len(few.lines)
    kept = sum(line.total.counts["records"] for line in few.lines)
    assert lost["records_left_out"] == everything.counts["nr_entries"] - kept
    # perf lists no line with less than a thousandth of all HITM; all others are here.
    listed = [line for line in everything.lines if line.total.counts["local_hitm"] + line.total.counts["remote_hitm"]]
    assert {line.address for line in listed} <= {line.address for line in few.lines}
    first = max(everything.lines, key=lambda line: line.total.counts["local_hitm"])
    assert few.lines[0] == first


def test_a_budget_drops_lines_and_says_so(tmp_path: Path) -> None:
    stream = Stream()
    count = 40_000
    for number in range(count):
        stream.data += stream.make(Sample(0, TEXT, PID, PID, number, HEAP + number * 64, 0, 0, HITM, 10, True))
    stream.write(tmp_path / "data")
    said = import_to(tmp_path / "data", tmp_path / "out", "--memory", "3M", "--accesses", "0")
    found = imported.read(tmp_path / "out")
    refused_samples = losses(tmp_path / "out")["refused_samples"]
    assert found.counts["nr_entries"] == count
    assert sum(line.total.counts["records"] for line in found.lines) == count - refused_samples
    assert 0 < refused_samples < count
    assert f"{refused_samples} samples are in no line" in said


def samples_of_threads(path: Path, line: int) -> Counter[int]:
    """Samples by thread of the only access to the line of this address, as its row has them."""
    columns = "thread, records, threads, thread_set, thread_records"
    ((thread, records, *several),) = rows(
        path, f"SELECT {columns} FROM memory_access JOIN memory_line ON line = id WHERE address = {line}"
    )
    pairs = threads_of(*several) or [(thread, records)]
    tids = dict(rows(path, "SELECT id, tid FROM memory_thread"))
    assert [thread for thread, _ in pairs] == sorted({thread for thread, _ in pairs})
    return Counter({tids[thread]: count for thread, count in pairs})


@pytest.mark.parametrize("threads", [3, 5, 48, 300])
def test_samples_are_counted_by_thread_however_many_there_are(tmp_path: Path, threads: int) -> None:
    """Many threads are kept as a list, few as a table: back to it for a count above 16 bits, or a far thread."""
    stream = Stream()
    truth: Counter[int] = Counter()

    samples: list[bytes] = []

    def add(tid: int, address: int = HEAP, times: int = 1) -> None:
        for _ in range(times):
            sample = Sample(0, TEXT, PID, tid, len(samples) + 1, address, tid % 4, 0, HITM, 10, True)
            samples.append(stream.make(sample))
        if address == HEAP:
            truth[tid] += times

    for turn in range(3):
        for number in range(threads):
            add(PID + number, times=1 + (number + turn) % 3)
    add(PID + 1, times=66_000)
    for number in range(5000):
        add(10_000 + number, HEAP + 4096)
    add(14_999, times=2)
    for number in range(threads):
        add(PID + number)
    add(PID + 1, times=2)
    stream.data += b"".join(samples)
    stream.write(tmp_path / "data")
    import_to(tmp_path / "data", tmp_path / "out")
    assert samples_of_threads(tmp_path / "out", HEAP) == truth


def test_standard_input_may_be_a_pipe_or_a_file(tmp_path: Path) -> None:
    pipe = sharing_patterns.lock_word().changed(pipe=True).write(tmp_path / "pipe.data")
    import_to("-", tmp_path / "out", data=pipe.read_bytes())
    expected = imported.read(tmp_path / "out").counts
    file = sharing_patterns.lock_word().write(tmp_path / "file.data")
    with file.open("rb") as source:
        command = [str(COLLECTOR), "import", "-", "-o", str(tmp_path / "again")]
        subprocess.run(command, stdin=source, check=True, capture_output=True)
    assert imported.read(tmp_path / "again").counts == expected
    assert "give the file's name" in refused("-", "-o", str(tmp_path / "no"), data=file.read_bytes())
    assert not (tmp_path / "no").exists()


# How a recording begins.
EARLIER = b"SQLite format 3\0earlier"


def test_what_is_no_recording_is_not_replaced(tmp_path: Path) -> None:
    path = two_lines().write(tmp_path / "data")
    for output in (path, tmp_path / "notes", tmp_path / "short"):
        if output != path:
            output.write_text("what somebody wrote down" if output.name == "notes" else "x")
        before = output.read_bytes()
        assert "it exists and is not a recording; choose another place" in refused(str(path), "-o", str(output))
        assert output.read_bytes() == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"data", "notes", "short"}
    # As of mktemp.
    (tmp_path / "new").touch()
    import_to(path, tmp_path / "new")
    assert (tmp_path / "new").read_bytes().startswith(EARLIER[:16])


def test_the_output_is_private_and_the_earlier_one_is_kept(tmp_path: Path) -> None:
    path = two_lines().write(tmp_path / "data")
    output = tmp_path / "out"
    output.write_bytes(EARLIER)
    old_mask = os.umask(0)
    try:
        import_to(path, output)
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert (tmp_path / "out.old").read_bytes() == EARLIER
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "out", "out.old"]


def test_a_failed_import_leaves_all_as_it_was(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_bytes(EARLIER)
    (tmp_path / "data").write_bytes(b"no perf.data file, but long enough for its header " * 4)
    assert "it is not a perf.data file" in refused(str(tmp_path / "data"), "-o", str(output))
    assert output.read_bytes() == EARLIER
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "out"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "needs one perf.data file"),
        (["a", "b", "-o", "c"], "not several"),
        (["a"], "needs -o FILE"),
        (["/none/such", "-o", "c"], "No such file"),
        (["a", "-o", "c", "--kallsyms", "d", "--system-map", "e"], "cannot be used together"),
        (["a", "-o", "c", "--decoder", "magic"], "not native, perf or auto"),
        (["a", "-o", "c", "--line-size", "48"], "not a power of two"),
        (["a", "-o", "c", "-d", "1"], "is not an option of `import`"),
    ],
)
def test_wrong_command_lines_are_told_in_one_line(arguments: Sequence[str], expected: str) -> None:
    assert expected in refused(*arguments)


def test_facts_of_the_recording(tmp_path: Path) -> None:
    path = patterns.futex_bucket().write(tmp_path / "data")
    import_to(path, tmp_path / "out")
    meta = imported.read(tmp_path / "out").meta
    image = patterns.kernel()
    assert meta["state"] == "complete"
    assert meta["clock_id"] == "monotonic"
    assert meta["kernel_text_address"] == hex(image.text[0])
    assert meta["kernel_build_id"] == image.build_id.hex()
    assert (meta["cpus_possible"], meta["node_0_cpus"], meta["node_1_cpus"]) == (176, "0-87", "88-175")
    assert meta["perf_command"] == "perf c2c record -a sleep 5"
    begin, end = meta["begin_ns"], meta["end_ns"]
    assert isinstance(begin, int)
    assert isinstance(end, int)
    assert 0 < begin < end
    assert rows(tmp_path / "out", "SELECT count(*) > 0 FROM kind") == [(1,)]
