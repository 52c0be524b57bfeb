# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline c2c report`: scenario S4, the documented schema, texts with known conclusions, bad input."""

import json
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from c2c import patterns, report_text
from c2c.kernel_types import types
from c2c.known_report import REPORT
from c2c.lock_recording import write_lock_recording
from c2c.memory_recording import MemoryBuilder, write_memory_recording
from c2c.report_text import Report
from c2c.sharing_patterns import adjacent_lines, lock_word, read_mostly, true_sharing
from lockline.base.text import Style
from lockline.c2c.report import make_c2c_report
from lockline.c2c.types_reader import find_types
from lockline.cli.main import main
from lockline.recording.reader import open_recording
from lockline.render import c2c_text
from lockline.render.documents.lines import document
from recording_generator import RecordingBuilder

TOP = Path(__file__).resolve().parents[2]
Files = tuple[Path, Path]


@pytest.fixture(scope="module")
def futex(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """S4: the accesses, and the lock waits of the same seconds."""
    directory = tmp_path_factory.mktemp("futex")
    description = patterns.futex_bucket()
    lines = write_memory_recording(description, directory / "lines.lockline")
    return lines, write_lock_recording(description, directory / "waits.lockline").path


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads((TOP / "docs" / "c2c-schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def json_of(lines: Path, waits: Path | None, addresses: bool = False, private: bool = True) -> dict[str, Any]:
    kernel = types(private)
    with open_recording(lines) as recording:
        if waits is None:
            return document(make_c2c_report(recording, 100, lambda *names: kernel), addresses)
        with open_recording(waits) as locks:
            return document(make_c2c_report(recording, 100, lambda *names: kernel, locks), addresses)


@pytest.mark.parametrize("private", [True, False], ids=["6.18", "6.1"])
@pytest.mark.parametrize("with_waits", [True, False], ids=["with waits", "by the code"])
def test_the_line_of_the_futex_bucket(futex: Files, with_waits: bool, private: bool) -> None:
    first = json_of(futex[0], futex[1] if with_waits else None, private=private)["lines"][0]
    assert first["type"] == "futex_hash_bucket"
    assert first["type_source"] == ("lock" if with_waits else "code")
    assert first["hitm"] == {"total": 160, "local": 129, "remote": 31}
    assert (first["cpus"], first["cpus_exact"], first["cpu_list"]) == (156, True, "0-38,44-82,88-126,132-170")
    assert (first["verdict"], first["confidence"]) == ("false sharing", "low")
    assert {entry["offset"]: entry["member"] for entry in first["offsets"]} == {
        0: "waiters",
        4: "lock",
        8: "chain.next",
        0x10: "chain.prev",
    }
    assert {part["member"] for part in first["members"]} == {"waiters", "lock", "chain"}
    roles = {part["member"]: part["roles"] for part in first["members"]}
    assert roles["waiters"]["lockless reader"] == ["futex_wake"]
    assert roles["lock"]["waiter"] == ["native_queued_spin_lock_slowpath", "_raw_spin_lock"]
    assert roles["lock"]["unlock"] == ["_raw_spin_unlock"]
    assert {"plist_add", "__futex_unqueue"} <= set(roles["chain"]["holder"])
    advice = first["advice"]
    assert advice["members"] == ["chain"]
    assert (advice["bytes_per_object"], advice["size_before"], advice["size_after"]) == (56, 64, 128)
    # 256 for each of 176 CPUs, as a power of two.
    assert (advice["objects"], advice["bytes_total"]) == (65536, 4 << 20)
    assert "own cache line" in advice["text"]
    assert advice["own_effect"] == pytest.approx(30 / 160)
    assert advice["largest_effect"] == pytest.approx(86 / 160)
    assert "padding does not change that" in advice["warning"]
    assert any("chain" in line and "____cacheline_aligned_in_smp" in line for line in advice["layout"])
    (lock,) = first["locks"]
    assert (lock["name"], lock["offset"]) == ("futex_hash_bucket.lock", 4)
    assert (lock["join"], lock["waits"]) == (("address", 126) if with_waits else ("code", None))


def test_the_answer_comes_first_and_in_words(futex: Files) -> None:
    with open_recording(futex[0]) as recording, open_recording(futex[1]) as locks:
        report = make_c2c_report(recording, 3, lambda *names: types(), locks)
    text = c2c_text.render(report, Style())
    lines = text.splitlines()
    assert all(len(line) <= 120 for line in lines)
    assert text.isascii()
    answer = " ".join(lines[: lines.index("Cache lines (HITM and peer snoops first; N+: at least N CPUs)")])
    for words in ("futex_hash_bucket", "156 CPUs", "129 local, 31 remote", "false sharing", "Move chain", "56 bytes"):
        assert words in answer
    assert "ffff" not in text
    assert "0xffff88a0c0d4a3c0" in c2c_text.render(report, Style(addresses=True))


def test_sums_are_those_of_the_file(futex: Files) -> None:
    value = json_of(*futex)
    truth = patterns.futex_bucket().truth().total
    assert value["totals"]["transfers"] == truth["lcl_hitm"] + truth["rmt_hitm"]
    assert [line["rank"] for line in value["lines"]] == list(range(1, value["totals"]["lines"] + 1))
    scores = [line["score"] for line in value["lines"]]
    assert scores == sorted(scores, reverse=True)
    for line in value["lines"]:
        for count in ("records", "loads", "stores"):
            assert sum(entry[count] for entry in line["offsets"]) == line[count]
        for kind in ("total", "local", "remote"):
            assert sum(entry["hitm"][kind] for entry in line["offsets"]) == line["hitm"][kind]


@pytest.mark.parametrize("addresses", [True, False])
@pytest.mark.parametrize("make", [patterns.futex_bucket, lock_word, true_sharing, adjacent_lines, read_mostly])
def test_output_follows_the_schema(
    tmp_path: Path, validator: jsonschema.Draft202012Validator, make: Any, addresses: bool
) -> None:
    value = json_of(write_memory_recording(make(), tmp_path / "lines.lockline"), None, addresses)
    validator.validate(value)
    assert ("0xffff" in json.dumps(value)) is addresses


def test_the_schema_refuses_what_it_does_not_name(futex: Files, validator: jsonschema.Draft202012Validator) -> None:
    value = json_of(*futex)
    value["lines"][0]["colour"] = "red"
    assert not validator.is_valid(value)


def test_a_recording_without_memory_accesses(tmp_path: Path, validator: jsonschema.Draft202012Validator) -> None:
    path = RecordingBuilder(tmp_path / "waits.lockline").finish()
    value = json_of(path, None)
    validator.validate(value)
    assert value["lines"] == []
    with open_recording(path) as recording:
        assert "Nothing was measured" in c2c_text.render(make_c2c_report(recording, 3), Style())


@pytest.mark.parametrize(
    ("make", "verdict"),
    [
        (lock_word, "lock word"),
        (true_sharing, "true sharing"),
        (read_mostly, "read mostly"),
    ],
)
def test_patterns_with_known_truth(tmp_path: Path, make: Any, verdict: str) -> None:
    first = json_of(write_memory_recording(make(), tmp_path / "lines.lockline"), None)["lines"][0]
    assert first["verdict"] == verdict


def test_the_second_half_of_a_pair(tmp_path: Path) -> None:
    lines = json_of(write_memory_recording(adjacent_lines(), tmp_path / "lines.lockline"), None)["lines"]
    assert "adjacent line" in [line["verdict"] for line in lines]


# What `perf c2c report --stdio` prints of a program with one thread that reads and one that writes.
TEXT = Path(__file__).with_name("reader_and_writer.txt")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["c2c", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_text_in_one_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "report.txt"
    text.write_text(TEXT.read_text())
    status, out, _ = run(capsys, "report", str(text), "--format", "json")
    assert status == 0
    (line,) = json.loads(out)["lines"]
    assert (line["verdict"], line["address"], line["hitm"]["total"]) == ("false sharing", "0x55c8971f0080", 252)
    assert line["advice"]["members"] == ["+0x20"]
    status, again, _ = run(capsys, "report", "-i", str(text), "--format", "json")
    assert (status, again) == (0, out)
    # And in two.
    recording = tmp_path / "report.lockline"
    assert run(capsys, "import", str(text), "-o", str(recording))[0] == 0
    status, again, _ = run(capsys, "report", str(recording), "--format", "json")
    assert status == 0
    assert json.loads(again)["lines"] == [line]
    status, _, err = run(capsys, "import", str(recording), "-o", str(tmp_path / "other"))
    assert status == 1
    assert "already" in err


def test_the_generated_perf_data_in_one_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")
    description = patterns.futex_bucket()
    data = description.write(tmp_path / "perf.data")
    waits = write_lock_recording(description, tmp_path / "waits.lockline").path
    assert description.kernel
    symbols = tmp_path / "kallsyms"
    symbols.write_text(description.kernel.kallsyms())
    options = ["--recording", str(waits), "--btf", "/sys/kernel/btf/vmlinux", "--format", "json"]
    # Names of kernel code are from the symbols, or from the recording of the same boot as far as it has them.
    for more in (["--kallsyms", str(symbols)], []):
        status, out, err = run(capsys, "report", str(data), *options, *more)
        assert status == 0, err
        value = json.loads(out)
        first = value["lines"][0]
        assert (first["type"], first["type_source"]) == ("futex_hash_bucket", "lock")
        assert (first["verdict"], first["confidence"], first["cpus"]) == ("false sharing", "low", 156)
        assert first["hitm"] == {"total": 160, "local": 129, "remote": 31}
        assert [entry["member"] for entry in first["offsets"]] == ["waiters", "lock", "chain.next", "chain.prev"]
        assert first["advice"]["members"] == ["chain"]
        assert first["advice"]["bytes_per_object"] == 56
        assert first["locks"][0]["join"] == "address"
        assert value["totals"] == {"lines": 21, "other_lines": 2000, "transfers": 220}


def test_samples_beside_a_recording_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    description = patterns.futex_bucket()
    waits = write_lock_recording(description, tmp_path / "waits.lockline").path
    connection = sqlite3.connect(waits)
    connection.execute("INSERT INTO meta VALUES ('memory_samples_file', '/nowhere/waits.perf.data')")
    connection.commit()
    connection.close()
    status, _, err = run(capsys, "report", str(waits))
    assert status == 1
    assert "/nowhere/waits.perf.data" in err
    # Both were moved together.
    description.write(tmp_path / "waits.perf.data")
    status, out, _ = run(capsys, "report", str(waits), "--format", "json")
    assert status == 0
    assert json.loads(out)["lines"][0]["locks"][0]["name"] == "futex_hash_bucket.lock"


def test_of_totals_alone_no_line_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "stats.txt"
    text.write_text(
        "=================================================\n"
        "            Trace Event Information\n"
        "=================================================\n"
        "  Total records                     :     148076\n"
        "  Load Operations                   :      70418\n"
        "  Load Fill Buffer Hit              :      70200\n"
        "  Load Local HITM                   :         19\n"
        "  Store Operations                  :      77658\n"
    )
    status, out, _ = run(capsys, "report", str(text))
    assert status == 0
    # The answer is wrapped.
    words = " ".join(out.split())
    assert "19 HITM" in words
    assert "70,200 fill buffer hits" in words
    assert "totals alone" in words


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty", b"", "empty"),
        ("noise", bytes(range(256)) * 20, "nor a text"),
        ("prose", b"Dear all,\nnothing here.\n", "perf c2c"),
        ("other.sqlite", None, "not a lockline recording"),
        ("cut.lockline", b"SQLite format 3\0", "truncated"),
        ("perf.data", b"PERFILE2" + bytes(8), "perf.data"),
    ],
)
def test_other_files_are_refused_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, content: bytes | None, words: str
) -> None:
    path = tmp_path / name
    if content is None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (a)")
        connection.commit()
        connection.close()
    else:
        path.write_bytes(content)
    assert main(["c2c", "report", str(path)]) == 1
    err = capfd.readouterr().err
    assert words in err
    assert len([line for line in err.splitlines() if "failed, exit code" not in line]) == 1


@pytest.mark.parametrize(
    "arguments",
    [["report", "no such file"], ["report", "/"], ["report", "/dev/null"], ["import", "/dev/zero", "-o", "x"]],
)
def test_what_is_no_file_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    status, _, err = run(capsys, *arguments)
    assert status == 1
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE memory_access SET loads = 'many' WHERE offset = 4",
        "UPDATE memory_line SET address = 'here'",
        "UPDATE memory_access SET cpus = 17",
        "UPDATE memory_code SET symbol = x'00'",
        "UPDATE memory_access SET loads = 9223372036854775807",
        "DROP TABLE memory_line",
    ],
)
def test_a_damaged_recording_is_one_line(
    futex: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    path = tmp_path / "damaged.lockline"
    path.write_bytes(futex[0].read_bytes())
    connection = sqlite3.connect(path)
    connection.execute(damage)
    connection.commit()
    connection.close()
    status, _, err = run(capsys, "report", str(path))
    assert status == 1
    assert "damaged" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE memory_access SET loads = -5, local_hitm = -7 WHERE offset = 4",
        "UPDATE memory_access SET offset = 1000000",
        "UPDATE memory_line SET size = -3",
        "DELETE FROM memory_code",
        "DELETE FROM memory_thread",
        "DELETE FROM memory_source",
        "DELETE FROM meta",
        "UPDATE memory_line SET symbol = 'a' || char(27) || '[31m', object = 'b,c' || char(10)",
        "UPDATE memory_code SET symbol = 'x,y' || char(10)",
    ],
)
def test_odd_values_do_not_stop_a_report(
    futex: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    path = tmp_path / "odd.lockline"
    path.write_bytes(futex[0].read_bytes())
    connection = sqlite3.connect(path)
    connection.execute(damage)
    connection.commit()
    connection.close()
    for arguments in (["report", str(path)], ["report", str(path), "--format", "json"]):
        status, out, err = run(capsys, *arguments)
        assert status == 0, err
        assert "\x1b" not in out


def test_btf_that_a_recording_holds_is_used(tmp_path: Path) -> None:
    builder = MemoryBuilder(meta={"kernel_release": "6.1.0-lab"})
    builder.add(builder.line(0xFFFF888000000000), 0, builder.code("f"), loads=1, local_hitm=1)
    path = builder.write(tmp_path / "lines.lockline")
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO btf VALUES ('vmlinux', 5, ?)", (zlib.compress(b"types"),))
    connection.commit()
    with open_recording(path) as recording:
        assert find_types([recording], None).stored == b"types"
        assert find_types([recording], "given").file == "given"
    connection.execute("UPDATE btf SET data = x'1234'")
    connection.commit()
    connection.close()
    with open_recording(path) as recording, pytest.raises(Exception, match="damaged"):
        find_types([recording], None)


def test_another_kernels_types_are_marked(futex: Files, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")
    status, out, _ = run(capsys, "report", str(futex[0]), "--recording", str(futex[1]), "--format", "json")
    assert status == 0
    value = json.loads(out)
    first = value["lines"][0]
    assert [entry["member"] for entry in first["offsets"]] == ["waiters", "lock", "chain.next", "chain.prev"]
    assert first["confidence"] == "low"
    assert any("not of the kernel 6.12.0-lab" in evidence for evidence in first["type_evidence"])
    assert any("--btf" in note for note in value["notes"])


def test_a_report_reads_the_lines_that_it_shows(tmp_path: Path) -> None:
    """Memory stays small whatever the number of lines: of most, sums alone are read."""
    builder = MemoryBuilder()
    code = builder.code("f")
    for number in range(20_000):
        line = builder.line(0xFFFF888000000000 + number * 64)
        builder.add(line, 0, code, loads=2, local_hitm=int(number % 100 == 0))
    path = builder.write(tmp_path / "many.lockline")
    measure = (
        "import resource, sys; from lockline.cli.main import main;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; status = main(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", measure, "c2c", "report", str(path), "--top", "5", "--all"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(TOP / "userspace"), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "(195 more lines move" in done.stdout
    assert "(19,800 more lines were sampled" in done.stdout
    assert int(done.stderr.split()[-1]) < 32 << 10


def test_lines_that_do_not_move_are_not_said_to(tmp_path: Path) -> None:
    builder = MemoryBuilder(kind="c2c text")
    for number in range(7):
        line = builder.line(0xFFFF888000000000 + number * 64)
        builder.add(line, 0, builder.code("f"), cpus=[3], loads=1)
    with open_recording(builder.write(tmp_path / "still.lockline")) as recording:
        text = c2c_text.render(make_c2c_report(recording, 5), Style())
    assert "1 CPU uses it, 0 HITM" in " ".join(text.split())
    assert "(2 more lines; --top shows them)" in text


def test_lines_have_the_numbers_of_perfs_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines are ranked anew; perf's own number leads back to the text."""
    path = tmp_path / "text"
    report = Report(tuple(reversed(REPORT.lines)))
    path.write_text(report_text.text(report, report_text.Style("6.1")), encoding="utf-8")
    assert main(["c2c", "report", "--format", "json", str(path)]) == 0
    found = {line["rank"]: line["perf_index"] for line in json.loads(capsys.readouterr().out)["lines"]}
    assert found == {1: 1, 2: 0}
    assert main(["c2c", "report", "--lines", str(path)]) == 0
    head, first, second = capsys.readouterr().out.splitlines()[1:4]
    assert head.split()[:3] == ["#", "perf's", "line"]
    assert first.split()[:2] == ["1", "1"]
    assert second.split()[:2] == ["2", "0"]


def test_no_number_where_there_is_no_text(futex: Files) -> None:
    found = json_of(futex[0], None)
    assert {line["perf_index"] for line in found["lines"]} == {None}
