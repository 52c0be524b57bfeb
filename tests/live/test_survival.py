# SPDX-License-Identifier: GPL-2.0-or-later
"""However a recording ends: what was committed can be read, and nothing stays behind."""

import errno
import os
import random
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import pytest

from lockline.analysis.selection import Selection
from lockline.base.text import Style
from lockline.recording.reader import open_recording
from lockline.render.text import render
from lockline.rules.report import make_report
from support import Collector, Recording, Workload, bpf_links, bpf_objects, planted, wait_for

# How long a recording is stopped; more waits than the rings of the least memory hold.
STOPPED_S = float(os.environ.get("LOCKLINE_STOPPED_S", "5"))
MOST_EVENTS = 2000
# How long a file system takes no writes; the queue in memory holds all events of that time, the rings a few.
FROZEN_S = float(os.environ.get("LOCKLINE_FROZEN_S", "10"))
KIND_MUTEX = 3
KILLS = 14
KILLS_AT_ONCE = 4
STYLE = Style(unicode=True)
KINDS_OF_OBJECTS = ("prog", "map", "link")

# What a profiler could be tempted to change.
SYSCTLS = (
    "kernel/bpf_stats_enabled",
    "kernel/kptr_restrict",
    "kernel/perf_event_paranoid",
    "kernel/perf_event_max_sample_rate",
    "kernel/sched_schedstats",
    "kernel/ftrace_enabled",
    "net/core/bpf_jit_enable",
)


@pytest.fixture
def load(live: Path, tmp_path: Path) -> Iterator[None]:
    """Contention while a test runs: threads that make files in one directory, and mostly rest."""
    (tmp_path / "files").mkdir()
    with planted(("incidents", "files-seldom", "8"), tmp_path / "files"):
        yield


def objects_of(pid: int) -> set[tuple[str, int]]:
    """BPF objects that a process holds, by kind and id."""
    objects = set()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text = info.read_text()
        except FileNotFoundError:
            continue  # closed meanwhile
        objects |= {
            (match[1], int(match[2])) for match in re.finditer(r"^(prog|map|link)_id:\s+(\d+)$", text, re.MULTILINE)
        }
    return objects


def still_there(objects: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those that the kernel still has."""
    return objects & {(kind, number) for kind in KINDS_OF_OBJECTS for number in bpf_objects(kind)}


def intervals(path: Path) -> int:
    """Committed intervals of a recording that is being written; 0 if there is none yet."""
    try:
        with Recording(path) as result:
            return result.number("SELECT count(*) FROM interval")
    except sqlite3.OperationalError:
        return 0


def assert_whole(path: Path, at_least: int) -> None:
    """The file opens, holds the intervals, agrees with itself, and can be reported."""
    with Recording(path) as result:
        assert result.integrity() == "ok"
        assert result.number("SELECT count(*) FROM interval") >= at_least
        by_lock = result.rows("SELECT sum(waits), sum(wait_ns), sum(failed) FROM lock_total")
        for table in ("cpu_total", "cell_total", "wait_interval"):
            assert result.rows(f"SELECT sum(waits), sum(wait_ns), sum(failed) FROM {table}") == by_lock, table
    with open_recording(path) as opened:
        assert render(make_report(opened, Selection(), 0), STYLE)


def test_sigkill_at_any_time(live: Path, tmp_path: Path, load: None) -> None:
    """Several recordings at once: each mostly waits."""
    randomness = random.Random(20)
    turns = [(turn, randomness.randrange(1, 4), randomness.random() * 0.1) for turn in range(KILLS)]

    def kill(turn: tuple[int, int, float]) -> None:
        number, committed, wait = turn
        path = tmp_path / f"killed-{number}.lockline"
        collector = Collector(live, path, "-a", "-I", "0.1").attached()
        objects = objects_of(collector.process.pid)
        assert {kind for kind, _ in objects} == set(KINDS_OF_OBJECTS), objects
        wait_for(lambda: intervals(path) >= committed, "interval")
        # Anywhere in the interval that follows; not a wait for anything.
        subprocess.run(["sleep", f"{wait:.4f}"], check=True)
        assert collector.stop(signal.SIGKILL) == -signal.SIGKILL
        wait_for(lambda: not still_there(objects), "release of the BPF objects")
        assert_whole(path, committed)

    with ThreadPoolExecutor(KILLS_AT_ONCE) as pool:
        assert len(list(pool.map(kill, turns))) == KILLS


def test_sigkill_of_one_that_keeps_a_part(live: Path, recording: Path, load: None) -> None:
    """Intervals are rolled up and removed when it is killed, and what is left can be read, before and after."""

    def removed() -> bool:
        with Recording(recording) as result:
            return bool(result.rows("SELECT value FROM meta WHERE name = 'removed_until_ns'"))

    collector = Collector(live, recording, "-a", "-I", "0.1", "--keep", "2", "--max-size", "16M").attached()
    wait_for(lambda: intervals(recording) >= 1, "interval")
    wait_for(removed, "interval that was removed")
    report = live / "bin" / "lockline"
    last = subprocess.run([report, "report", recording, "--last", "1"], capture_output=True, text=True, check=False)
    assert (last.returncode, last.stderr) == (0, "")
    part = recording.with_name("part")
    saved = subprocess.run([report, "save", "-1s", recording, "-o", part], capture_output=True, text=True, check=False)
    assert saved.returncode == 0, saved.stderr
    assert_whole(part, 1)
    assert collector.stop(signal.SIGKILL) == -signal.SIGKILL
    with Recording(recording) as result:
        assert result.integrity() == "ok"
        assert result.number("SELECT max(end_ns) - min(begin_ns) FROM interval") < 60_000_000_000
        kept = result.number("SELECT sum(waits) FROM wait_interval")
        assert 0 < kept < result.number("SELECT sum(waits) FROM lock_total")
        # Follow each other without gaps, some of them longer.
        gaps = (
            "SELECT count(*) FROM interval a JOIN interval b ON b.id = (SELECT min(id) FROM interval WHERE id > a.id)"
        )
        assert result.number(f"{gaps} WHERE a.end_ns <> b.begin_ns") == 0
        assert result.number("SELECT count(*) FROM interval WHERE end_ns - begin_ns > 500000000") > 0
    done = subprocess.run([report, "report", recording], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "only totals" in done.stdout


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3])
def test_sigkill_while_starting(live: Path, recording: Path, moment: float) -> None:
    collector = Collector(live, recording, "-a")
    subprocess.run(["sleep", str(moment)], check=True)
    objects = objects_of(collector.process.pid)
    assert collector.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_for(lambda: not still_there(objects), "release of the BPF objects")
    if recording.exists() and recording.stat().st_size:
        # Killed while the file was made: its journal is undone by whoever may write.
        with closing(sqlite3.connect(recording)) as database:
            database.execute("PRAGMA schema_version").fetchone()
        with Recording(recording) as result:
            assert result.integrity() == "ok"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_recording(live: Path, recording: Path, load: None, number: signal.Signals) -> None:
    collector = Collector(live, recording, "-a", "-I", "0.1").attached()
    wait_for(lambda: intervals(recording) >= 2, "interval")
    objects = objects_of(collector.process.pid)
    assert collector.stop(number) == 0, collector.errors()
    wait_for(lambda: not still_there(objects), "release of the BPF objects")
    assert_whole(recording, 2)
    with Recording(recording) as result:
        assert result.waits() > 0
        assert result.begins() == result.begins_accounted()
    # One file: nothing beside it.
    assert [path for path in recording.parent.glob(f"{recording.name}*") if path != recording] == []


def test_recording_is_private(live: Path, recording: Path) -> None:
    with Collector(live, recording, "-a"):
        assert stat.S_IMODE(recording.stat().st_mode) == 0o600
    assert stat.S_IMODE(recording.stat().st_mode) == 0o600


def sysctls() -> dict[str, str]:
    """The values of SYSCTLS that this kernel has."""
    return {name: (Path("/proc/sys") / name).read_text() for name in SYSCTLS if (Path("/proc/sys") / name).exists()}


def test_sysctls_stay(live: Path, recording: Path) -> None:
    before = sysctls()
    assert "kernel/bpf_stats_enabled" in before
    with Collector(live, recording, "-a", "-I", "0.1"):
        wait_for(lambda: intervals(recording) >= 3, "interval")
        assert sysctls() == before
    assert sysctls() == before


def refused(build: Path, *arguments: str | Path, prefix: tuple[str, ...] = ()) -> str:
    """Run the collector, which must exit with 1; the one line that it says."""
    done = subprocess.run(
        [*prefix, build / "bin" / "lockline-collect", "record", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if not line.startswith("lockline: recording")]
    assert done.returncode == 1, done
    assert len(lines) == 1, lines
    return lines[0]


def test_output_that_cannot_be_made(live: Path, tmp_path: Path) -> None:
    device = tmp_path / "null"
    os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    directory = tmp_path / "directory"
    directory.mkdir()
    for path in (tmp_path / "missing" / "x.lockline", directory, device, Path("/proc/x.lockline")):
        line = refused(live, "-a", "-d", "1", "-o", path)
        assert str(path) in line
    assert {path.name for path in tmp_path.iterdir()} == {"null", "directory"}
    assert stat.S_ISCHR(device.stat().st_mode)
    assert directory.is_dir()


TMPFS = 'mount -t tmpfs -o "$2" tmpfs "$1"'
# A file system whose quotas this kernel has; $2 is a file that holds it.
QUOTA = (
    'mount -o loop "$2" "$1.whole" && btrfs quota enable "$1.whole" && btrfs -q subvolume create "$1.whole/part"'
    ' && mount --bind "$1.whole/part" "$1" && btrfs qgroup limit 6M "$1"'
)


class PrivateMount:
    """A small file system on a directory, in a mount namespace of its own: a tmpfs, or what the command mounts."""

    def __init__(self, directory: Path, options: str | Path, command: str = TMPFS) -> None:
        self._process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", f"{{ {command}; }} >&2 && echo mounted && cat", "sh", directory, options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "mounted\n":
            _, errors = self._process.communicate()
            pytest.skip(f"cannot mount it in a namespace: {errors.strip()}")
        self.enter = ("nsenter", "-t", str(self._process.pid), "-m")
        self.inside = Path(f"/proc/{self._process.pid}/root") / str(directory).lstrip("/")

    def intervals(self, path: Path) -> int:
        """As intervals(), in the namespace: SQLite follows /proc/PID/root back out of it."""
        query = "SELECT count(*) FROM interval"
        script = (
            f"import sqlite3; print(sqlite3.connect('file:{path}?mode=ro', uri=True).execute('{query}').fetchone()[0])"
        )
        done = subprocess.run([*self.enter, sys.executable, "-c", script], capture_output=True, text=True, check=False)
        return int(done.stdout) if done.returncode == 0 else 0

    def report(self, build: Path, path: Path) -> None:
        """It can be read, though nothing can be written there, not even a reader's mark."""
        command = [*self.enter, build / "bin" / "lockline", "report", path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done
        assert "TRUST" in done.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def fill(directory: Path) -> None:
    """Take the last byte of a file system."""
    with (directory / "filler").open("wb", buffering=0) as filler:
        size = 1 << 16
        while size:
            try:
                if filler.write(b"\1" * size) < size:
                    size >>= 1
            except OSError:
                size >>= 1


@contextmanager
def full_disk(live: Path, tmp_path: Path) -> Iterator[tuple[PrivateMount, Path, Collector]]:
    """A recording whose file system has become full, and that has said so."""
    directory = tmp_path / "small"
    directory.mkdir()
    with PrivateMount(directory, "size=4m") as small:
        path = directory / "x.lockline"
        collector = Collector(live, path, "-a", "-I", "0.1", prefix=small.enter).attached()
        wait_for(lambda: small.intervals(path) >= 2, "interval")
        fill(small.inside)
        line = collector.says("space")
        assert "x.lockline" in line
        assert "in memory" in line
        yield small, path, collector


def test_an_answer_is_told_though_its_recording_cannot_be_kept(live: Path, tmp_path: Path) -> None:
    """The steps are paid for by then.  Nothing of the file is left."""
    directory = tmp_path / "small"
    directory.mkdir()
    with PrivateMount(directory, "size=64k") as small:
        command = [*small.enter, live / "bin" / "lockline", "why", "-q", "-d", "3", "-o", directory / "x.lockline"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert list(small.inside.iterdir()) == []
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"lockline: {directory / 'x.lockline'}: cannot be written: No space left on device"
    ]
    assert "\nSURE " in done.stdout
    assert "lockline report" not in done.stdout


def test_who_watches_is_told_of_tmpdir(live: Path, tmp_path: Path) -> None:
    """Nobody has named the file, so that -o is no way out; nor is it one of c2c report, which has no -o."""
    directory = tmp_path / "small"
    directory.mkdir()
    with PrivateMount(directory, "size=200k") as small:
        command = [*small.enter, "env", f"TMPDIR={directory}", live / "bin" / "lockline", "watch", "runqueues:0"]
        done = subprocess.run([*command, "-d", "1"], capture_output=True, text=True, timeout=60, check=False)
        assert list(small.inside.iterdir()) == []
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("; free some space, or name another directory by TMPDIR")


def goes_on_from(before: int, small: PrivateMount, path: Path, collector: Collector, copy: Path) -> None:
    """With space again: it says so, more intervals come, and a copy of the file outlives the mount."""
    assert "nothing was lost" in collector.says("space")
    wait_for(lambda: small.intervals(path) > before + 10, "intervals after it")
    assert collector.stop() == 0
    shutil.copytree(small.inside, copy)


@contextmanager
def whole_copy(live: Path, copy: Path, least: int) -> Iterator[Recording]:
    """The copied recording: so many intervals at least, and each begin accounted for."""
    assert_whole(copy / "x.lockline", least)
    with Recording(copy / "x.lockline") as result:
        assert result.begins() == result.begins_accounted()
        yield result


def test_full_disk(live: Path, tmp_path: Path, load: None) -> None:
    """While the disk is full the recording goes on in memory; with space again nothing is missing."""
    with full_disk(live, tmp_path) as (small, path, collector):
        before = small.intervals(path)
        # It holds several intervals: none of them is in the file.
        time.sleep(1)
        assert small.intervals(path) == before
        (small.inside / "filler").unlink()
        goes_on_from(before, small, path, collector, tmp_path / "copy")
    with whole_copy(live, tmp_path / "copy", before + 10) as result:
        (gaps,) = result.rows(
            "SELECT count(*) FROM interval a JOIN interval b ON b.id = a.id + 1 WHERE a.end_ns <> b.begin_ns"
        )[0]
        assert not gaps
        assert result.number("SELECT count(*) - max(id) + min(id) - 1 FROM interval") == 0


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A file with an empty file system of 128 MiB."""
    if not shutil.which("mkfs.btrfs"):
        pytest.skip("btrfs-progs is not installed")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(128 << 20)
    subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True)
    return image


def states(pid: int) -> dict[int, str]:
    """The state of each thread, as in /proc/PID/stat."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[int(task.name)] = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return found


def reader_ends_while_it_is_frozen(build: Path, path: Path, small: PrivateMount) -> None:
    """One line, or Ctrl-C; SQLite itself would stand still, as root, where no signal ends it."""
    command = [*small.enter, build / "bin" / "lockline", "report", path]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (said.returncode, said.stdout) == (1, "")
    assert re.fullmatch(r"lockline: .*x\.lockline: its file system takes no changes.*\n", said.stderr), said.stderr
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for(lambda: process.poll() is not None or children.read_text(), "one who asks the file system")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) in (130, -signal.SIGINT)


def test_frozen_file_system(live: Path, tmp_path: Path, image: Path, load: None) -> None:
    """Writes stand still for a while (fsfreeze, a snapshot of the storage): nothing is lost, and the report tells."""
    directory = tmp_path / "small"
    directory.mkdir()
    with PrivateMount(directory, image, 'mount -o loop "$2" "$1"') as small, Workload(live, "uffd_mutex") as waiters:
        path = directory / "x.lockline"
        # Each wait is an event; the rings are small.
        options = ("-a", "-I", "0.1", "--threshold", "100us", "--memory", "4M")
        collector = Collector(live, path, *options, prefix=small.enter).attached()
        pid = collector.process.pid
        wait_for(lambda: small.intervals(path) >= 2, "interval")
        freeze = [*small.enter, "fsfreeze"]
        subprocess.run([*freeze, "--freeze", directory], check=True)
        rounds = 0
        try:
            wait_for(lambda: "D" in states(pid).values(), "a write that stands still")
            stood = time.monotonic()
            while rounds < MOST_EVENTS or time.monotonic() - stood < FROZEN_S:
                waiters.do("go 100 1000")
                rounds += 100
                # Who reads the rings never waits for the file system.
                assert states(pid)[pid] != "D"
            assert "x.lockline" in collector.says("does not answer")
            reader_ends_while_it_is_frozen(live, path, small)
        finally:
            subprocess.run([*freeze, "--unfreeze", directory], check=True)
        assert "nothing was lost" in collector.says("answers again")
        before = small.intervals(path)
        wait_for(lambda: small.intervals(path) > before + 2, "intervals after it")
        # Ctrl-C while it stands still once more: the file has to wait, the machine does not.
        subprocess.run([*freeze, "--freeze", directory], check=True)
        try:
            wait_for(lambda: "D" in states(pid).values(), "a write that stands still")
            assert bpf_links(pid)
            collector.process.send_signal(signal.SIGINT)
            wait_for(lambda: not bpf_links(pid), "that nothing is attached")
            assert "nothing is measured" in collector.says("any more")
        finally:
            subprocess.run([*freeze, "--unfreeze", directory], check=True)
        assert collector.stop() == 0, collector.errors()
        copy = tmp_path / "copy"
        shutil.copytree(small.inside, copy)
    assert_whole(copy / "x.lockline", before + 2)
    with Recording(copy / "x.lockline") as result:
        assert result.begins() == result.begins_accounted()
        # More than the rings hold was kept in memory.
        assert result.loss("events_overwritten") == 0
        assert result.number("SELECT value FROM cost WHERE name = 'commit_longest_ns'") >= FROZEN_S * 1e9
        # The pause is one interval, and none is made up; of its single waits the longest are kept.
        pause, length_ns = result.rows("SELECT id, end_ns - begin_ns FROM interval ORDER BY 2 DESC LIMIT 1")[0]
        assert length_ns >= FROZEN_S * 1e9
        kept = result.number("SELECT count(*) FROM outlier WHERE interval = ?", pause)
        assert kept + result.loss("outliers_dropped") >= rounds
    report = [live / "bin/lockline", "report", copy / "x.lockline"]
    for options in ((), ("--trust",)):
        said = subprocess.run([*report, *options], capture_output=True, text=True, check=True)
        assert "did not answer" in said.stdout


def test_quota(live: Path, tmp_path: Path, image: Path, load: None) -> None:
    """EDQUOT, of a file system with space: the recording goes on in memory until the quota is lifted."""
    directory = tmp_path / "small"
    for made in (directory, tmp_path / "small.whole"):
        made.mkdir()
    with PrivateMount(directory, image, QUOTA) as small:
        path = directory / "x.lockline"
        collector = Collector(live, path, "-a", "-I", "0.1", prefix=small.enter).attached()
        wait_for(lambda: small.intervals(path) >= 2, "interval")
        with pytest.raises(OSError, match=os.strerror(errno.EDQUOT)):
            (small.inside / "filler").write_bytes(b"\1" * (16 << 20))
        line = collector.says("space")
        assert "x.lockline" in line
        assert "in memory" in line
        before = small.intervals(path)
        small.report(live, path)
        # btrfs may have no space within the quota for that itself, until its next transaction.
        lift = [*small.enter, "btrfs", "qgroup", "limit", "none", "0/256", tmp_path / "small.whole"]
        wait_for(lambda: subprocess.run(lift, capture_output=True, check=False).returncode == 0, "end of the quota")
        goes_on_from(before, small, path, collector, tmp_path / "copy")
    with whole_copy(live, tmp_path / "copy", before + 10) as result:
        assert result.number("SELECT count(*) - max(id) + min(id) - 1 FROM interval") == 0


def test_stopped_for_a_while(live: Path, recording: Path, tmp_path: Path) -> None:
    """SIGSTOP beside a load that the rings do not hold: the report says what is lost; totals have every wait."""
    # Each wait is an event; the rings are small.
    options = ("-a", "-I", "0.2", "--threshold", "100us", "--memory", "4M")
    collector = Collector(live, recording, *options).attached()
    rounds = 0
    with Workload(live, "uffd_mutex") as waiters:
        wait_for(lambda: intervals(recording) >= 2, "interval")
        collector.process.send_signal(signal.SIGSTOP)
        stat_file = Path(f"/proc/{collector.process.pid}/stat")
        wait_for(lambda: stat_file.read_text().rpartition(")")[2].split()[0] == "T", "a collector that is stopped")
        stood = time.monotonic()
        while rounds < MOST_EVENTS or time.monotonic() - stood < STOPPED_S:
            waiters.do("go 100 1000")
            rounds += 100
        collector.process.send_signal(signal.SIGCONT)
        done = intervals(recording)
        wait_for(lambda: intervals(recording) > done + 1, "intervals after it")
        assert collector.stop() == 0, collector.errors()
    assert_whole(recording, done + 1)
    with Recording(recording) as result:
        assert result.begins() == result.begins_accounted()
        assert result.loss("events_overwritten") > 0
        assert result.number("SELECT sum(waits) FROM lock_total WHERE kind = ?", KIND_MUTEX) >= rounds
        # The pause is one interval, and none is made up.
        assert result.number("SELECT max(end_ns - begin_ns) FROM interval") >= (STOPPED_S - 1) * 1e9
    said = subprocess.run([live / "bin/lockline", "report", recording], capture_output=True, text=True, check=False)
    assert "lost" in said.stdout + said.stderr


def test_full_disk_up_to_the_end(live: Path, tmp_path: Path, load: None) -> None:
    """What was written before the disk became full opens; the end says whether the rest found room in the journal."""
    with full_disk(live, tmp_path) as (small, path, collector):
        before = small.intervals(path)
        status = collector.stop()
        said = "stays readable" if status else "nothing was lost"
        assert [line for line in collector.errors() if "x.lockline" in line and said in line], status
        # What can be read must not depend on room for a journal's recovery.
        (small.inside / "filler").unlink()
        copy = tmp_path / "copy"
        shutil.copytree(small.inside, copy)
    assert_whole(copy / "x.lockline", before + (0 if status else 1))


def test_full_disk_from_the_start(live: Path, tmp_path: Path) -> None:
    directory = tmp_path / "small"
    directory.mkdir()
    with PrivateMount(directory, "size=64k") as small:
        fill(small.inside)
        line = refused(live, "-a", "-d", "1", "-o", directory / "x.lockline", prefix=small.enter)
    assert "x.lockline" in line


def test_read_only_path(live: Path, tmp_path: Path) -> None:
    directory = tmp_path / "fixed"
    directory.mkdir()
    with PrivateMount(directory, "size=4m,ro") as fixed:
        line = refused(live, "-a", "-d", "1", "-o", directory / "x.lockline", prefix=fixed.enter)
    assert "x.lockline" in line
    assert "ead-only" in line or "EROFS" in line, line


def test_not_root(live: Path) -> None:
    """Without the right to load programs: one line that says what is needed."""
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    line = refused(live, "-a", "-d", "1", "-o", "/tmp/lockline-not-root.lockline", prefix=prefix)
    assert "root" in line or "CAP_BPF" in line or "permi" in line.lower(), line
