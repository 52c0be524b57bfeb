# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that only perf can decode: what perf script prints comes to the same tables as what lockline reads itself."""

import os
import sqlite3
import stat
import struct
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from c2c import perfdata_format as perfdata
from c2c import sharing_patterns, user_patterns
from c2c.description import Description
from c2c.imported import COLLECTOR

AUXTRACE_INFO, SPE = 70, 4
TABLES = {
    "lines": "SELECT address, size, space, pid, object, nodes, pages FROM memory_line ORDER BY 1, 3, 4",
    "counts": "SELECT name, count FROM memory_count ORDER BY name",
    "accesses": """
        SELECT memory_line.address, memory_line.space, memory_line.pid, memory_access.offset, memory_code.address, tid,
            comm, records, loads, stores, locked, local_hitm, remote_hitm, local_peer, remote_peer, l1_hit, l2_hit,
            llc_hit, no_map, no_parse, remote_hitm_weight, local_hitm_weight, load_weight, load_weights, cpus
        FROM memory_access JOIN memory_line ON memory_access.line = memory_line.id
            JOIN memory_code ON code = memory_code.id
            JOIN memory_thread ON thread = memory_thread.id
        ORDER BY 1, 2, 3, 4, 5, 6""",
}


def run(path: Path, output: Path, *options: str, search: str | None = None) -> subprocess.CompletedProcess[str]:
    """An import; search: where programs are looked for."""
    environment = os.environ if search is None else {**os.environ, "PATH": search}
    command = [str(COLLECTOR), "import", str(path), "-o", str(output), "--accesses", "0", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """What both ways have to agree on."""
    with closing(sqlite3.connect(path)) as connection:
        return {name: connection.execute(query).fetchall() for name, query in TABLES.items()}


@pytest.mark.parametrize(
    "describe",
    [
        sharing_patterns.lock_word,
        sharing_patterns.peer_snoops,
        sharing_patterns.every_kind,
        user_patterns.user_sharing,
        user_patterns.user_sharing_by_build_id,
    ],
)
def test_perf_and_lockline_read_the_same(describe: Callable[[], Description], tmp_path: Path) -> None:
    path = describe().write(tmp_path / "perf.data")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert run(path, ours, "--decoder", "native").returncode == 0
    done = run(path, theirs, "--decoder", "perf")
    assert done.returncode == 0, done.stderr
    assert tables(ours) == tables(theirs)
    with closing(sqlite3.connect(theirs)) as connection:
        facts = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        events = {event for (event,) in connection.execute("SELECT event FROM memory_source")}
    with closing(sqlite3.connect(ours)) as connection:
        assert events == {event for (event,) in connection.execute("SELECT event FROM memory_source")}
    assert facts["imported_by"] == "perf script"
    assert facts["hostname"]


def spe_file(path: Path) -> Path:
    """A file that says it has trace data of Arm SPE, and none of its samples."""
    data = sharing_patterns.lock_word().changed(pipe=True).write(path).read_bytes()
    at = 16
    while struct.unpack_from("<I", data, at)[0] not in (perfdata.COMM, perfdata.MMAP):
        at += struct.unpack_from("<H", data, at + 6)[0]
    path.write_bytes(data[:at] + struct.pack("<IHHII", AUXTRACE_INFO, 0, 16, SPE, 0))
    return path


def fake_perf(path: Path, lines: str) -> Path:
    """A perf that prints these lines for the options that are expected of lockline, and else fails."""
    path.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--itrace=M*phys_addr*) echo "no phys_addr" >&2; exit 129;; *--itrace=M*) ;; *) exit 3;; esac\n'
        f"cat <<'END'\n{lines}END\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


SPE_LINES = """\
          worker  2000/2000  [000] E         0.000000000: PERF_RECORD_COMM exec: worker:2000/2000
          worker  2000/2000  [000] UM        0.000000000: PERF_RECORD_MMAP2 2000/2000: [0xaaaa0000(0x1000) @ 0x2000 \
08:01 77 0]: rw-p /opt/a name
          worker  2000/2001  [000]           0.000000000: PERF_RECORD_FORK(2000:2001):(2000:2000)
    odd :1/2 [0]  2000/2001  [003] U    5000.000000100:                     memory:         aaaa0040 \
      8688000842 |OP LOAD|LVL L3 hit|SNP Peer|TLB Walker hit|LCK No|BLK  N/A                        0         aaaa0008
          worker  2000/2001  [002] K    5000.000000200:                     memory: ffff800012345678 \
      8688000842 |OP LOAD|LVL L3 hit|SNP Peer|TLB Walker hit|LCK No|BLK  N/A                       17 ffff800010000000
          worker  2000/2001  [002]      5000.000000300: PERF_RECORD_SWITCH OUT
this is no line of perf script at all
"""


def test_trace_data_of_spe_goes_through_perf(tmp_path: Path) -> None:
    path = spe_file(tmp_path / "perf.data")
    perf = fake_perf(tmp_path / "perf", SPE_LINES)
    done = run(path, tmp_path / "out", "--perf", str(perf))
    assert done.returncode == 0, done.stderr
    found = tables(tmp_path / "out")
    assert found["lines"] == [
        (0xFFFF_8000_1234_5640 - (1 << 64), 64, "kernel", 0, "", "", 0),
        (0xAAAA_0040, 64, "user", 0, "/opt/a name", "", 0),
    ]
    counts = dict(found["counts"])
    assert (counts["nr_entries"], counts["lcl_peer"], counts["load"]) == (2, 2, 2)
    with closing(sqlite3.connect(tmp_path / "out")) as connection:
        assert connection.execute("SELECT event FROM memory_source").fetchall() == [("memory",)]
        assert connection.execute("SELECT SUM(load_weight), group_concat(hex(cpus)) FROM memory_access").fetchone() == (
            17,
            "08,04",
        )
        (problem,) = connection.execute("SELECT place, problem FROM memory_problem").fetchall()
    assert problem[0] == 7
    assert "this is no line" in problem[1]


def test_without_perf_it_says_so_in_one_line(tmp_path: Path) -> None:
    path = spe_file(tmp_path / "perf.data")
    done = run(path, tmp_path / "out", search=str(tmp_path / "nothing"))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "Arm SPE" in line
    assert "install perf" in line
    assert not (tmp_path / "out").exists()


def test_a_perf_that_fails_is_told_with_its_words(tmp_path: Path) -> None:
    path = spe_file(tmp_path / "perf.data")
    perf = tmp_path / "perf"
    perf.write_text("#!/bin/sh\necho 'incompatible file' >&2\nexit 1\n")
    perf.chmod(0o755)
    done = run(path, tmp_path / "out", "--perf", str(perf))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith("failed: incompatible file")


def test_a_directory_of_threads_goes_through_perf(tmp_path: Path) -> None:
    directory = tmp_path / "perf.data"
    directory.mkdir()
    perf = tmp_path / "perf"
    # Without the trace data's own option, and so with all fields: the last one is the physical address.
    lines = SPE_LINES.replace("aaaa0008\n", "aaaa0008 123040\n")
    perf.write_text(f"#!/bin/sh\ncat <<'END'\n{lines}END\n")
    perf.chmod(0o755)
    done = run(directory, tmp_path / "out", "--perf", str(perf))
    assert done.returncode == 0, done.stderr
    assert [row[-1] for row in tables(tmp_path / "out")["lines"]] == [1]
    done = run(directory, tmp_path / "native", "--decoder", "native")
    assert done.returncode == 1
    assert "is a directory" in done.stderr


def test_native_alone_leaves_trace_data_out(tmp_path: Path) -> None:
    path = spe_file(tmp_path / "perf.data")
    done = run(path, tmp_path / "out", "--decoder", "native")
    assert done.returncode == 0
    assert "only perf can decode it" in done.stderr


def test_a_stream_cannot_go_through_perf(tmp_path: Path) -> None:
    path = spe_file(tmp_path / "perf.data")
    command = [str(COLLECTOR), "import", "-", "-o", str(tmp_path / "out")]
    done = subprocess.run(command, input=path.read_bytes(), capture_output=True, check=False)
    assert done.returncode == 1
    assert b"perf wants a file for that" in done.stderr
