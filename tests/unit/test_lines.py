# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines that were watched, from accesses of known truth to verdict, text and JSON."""

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from c2c.kernel_types import types
from c2c.memory_recording import MemoryBuilder
from lockline.analysis.selection import Selection
from lockline.base.text import Style
from lockline.c2c.live import LiveReport, make_live_report
from lockline.c2c.report import make_c2c_report
from lockline.cli.main import main
from lockline.cli.watch import parse
from lockline.recording.reader import open_recording
from lockline.render import c2c_text, watch_text
from lockline.render.documents import lines as c2c_json
from lockline.render.documents import watch as watch_json
from lockline.rules.report import make_report, with_lines
from recording_generator import BEGIN, SECOND, RecordingBuilder
from schemas import validator_of
from watched_lines import (
    ALL,
    HIGH,
    LOW,
    MS,
    US,
    Event,
    Seen,
    Stretch,
    Target,
    add_watch,
    alone,
    futex_bucket,
    in_windows,
    look,
    ping_pong,
    whole,
    write_watch,
)

GOLDEN = Path(__file__).with_name("golden")
BUCKET = Target("futex_hash_bucket.lock", 0xFFFF_8880_0000_1000, "kernel", 0, "", 1, 4, "futex_hash_bucket", 0, "slab")


def sampled(events: Sequence[Event]) -> Seen:
    return look(events, in_windows(SECOND, MS, 10 * MS))


def report_of(path: Path) -> LiveReport:
    kernel = types()
    with open_recording(path) as recording:
        return make_live_report(recording, 100, lambda *names: kernel)


def bucket_recording(
    path: Path, events: Sequence[Event], windows: Sequence[Stretch] = (), spins: int = 0, kind: int = 0
) -> Path:
    """A futex bucket's line, with waits for its lock on CPUs between which a line takes some 90 ns."""
    builder = RecordingBuilder(path, 1, 4)
    builder.lock(1, "futex_hash_bucket.lock", "", "slab")
    builder.connection.execute("UPDATE lock SET address = ? WHERE id = 1", (0xFFFF_8880_0000_1004 - (1 << 64),))
    builder.waits(1, 0, 1, 0, [5000, 7000, 9000])
    builder.waits(1, 1, 1, 0, [4000])
    if spins:
        builder.waits(1, 1, 1, kind, [1000] * spins)
    pairs = [(0, 1, 91.5, 70.0, 0, 10000), (1, 0, 92.5, 71.0, 0, 10000), (0, 2, 300.0, 250.0, 12, 10000)]
    builder.insert("cpu_pair", pairs)
    builder.insert("fairness", [(1, 0, 3, 5, 0, 0, 0, 0, 4, 1400, 800, 0, 0, 0, b"")])
    add_watch(builder, look(events, windows) if windows else sampled(events), BUCKET)
    return builder.finish()


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bucket_recording(tmp_path_factory.mktemp("bucket") / "bucket.lockline", futex_bucket(9_000))


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    return validator_of("watch")


@pytest.mark.parametrize(
    ("events", "verdict", "members"),
    [
        (lambda: ping_pong((0, 8), 10_000, 100 * US), "false sharing", ["+0x0", "+0x8"]),
        (lambda: ping_pong((16,), 10_000, 100 * US), "true sharing", ["+0x10"]),
        (lambda: alone(16, 10_000, 100 * US), "none", []),
        (lambda: [one._replace(write=False, locked=False) for one in ping_pong((0, 8), 10_000, 100 * US)], "none", []),
        (lambda: ping_pong((0, 8), 50, 20 * MS), "too little evidence", []),
        (lambda: ping_pong((0, 8), 0), "too little evidence", []),
    ],
    ids=["two members", "one member", "one thread", "read alone", "next to never", "untouched"],
)
def test_the_verdict_of_known_truth(
    tmp_path: Path,
    validator: jsonschema.Draft202012Validator,
    events: Callable[[], list[Event]],
    verdict: str,
    members: list[str],
) -> None:
    report = report_of(write_watch(tmp_path / "watch.lockline", sampled(events())))
    (line,) = report.lines
    assert line.report.judgement.verdict == verdict
    assert sorted(part.name for part in line.report.judgement.members) == members
    validator.validate(watch_json.document(report))
    text = watch_text.render(report, Style())
    assert f"Verdict: {verdict}" in text


@pytest.mark.parametrize("turns", [0, 50], ids=["untouched", "next to never"])
def test_a_line_that_was_watched_for_long_and_hardly_touched(tmp_path: Path, turns: int) -> None:
    seen = look(ping_pong((0, 8), turns, 20 * MS), in_windows(SECOND, 9 * MS, 10 * MS))
    (line,) = report_of(write_watch(tmp_path / "watch.lockline", seen)).lines
    assert line.report.judgement.verdict == "none"


def test_few_transfers_that_come_in_bursts_are_not_none(tmp_path: Path) -> None:
    """Two threads that seldom run at once: most windows show one of them alone."""
    events = [event._replace(cpu=0) for event in ping_pong((0,), 10_000, 100 * US)]
    events[5000:5004] = [event._replace(cpu=number % 2) for number, event in enumerate(events[5000:5004])]
    windows = [Stretch(60 * MS * i, 10 * MS) for i in range(16)]
    (line,) = report_of(write_watch(tmp_path / "watch.lockline", look(events, windows))).lines
    seen = sum(window.transfers for window in line.watch.windows) if line.watch else 0
    assert line.report.judgement.verdict == ("too little evidence" if seen else "none")
    assert line.report.judgement.confidence != "high"


SPINLOCK, MUTEX_SPIN, MUTEX = 0, 4, 3


@pytest.mark.parametrize(
    ("spins", "kind", "transfers", "verdict"),
    [
        (50, SPINLOCK, 0, "none"),
        (5000, MUTEX, 0, "none"),
        (5000, SPINLOCK, 0, "too little evidence"),
        (5000, MUTEX_SPIN, 0, "too little evidence"),
        (5000, SPINLOCK, 12, "lock word"),
    ],
)
def test_spinning_moves_the_line_whatever_the_windows_saw(
    tmp_path: Path, spins: int, kind: int, transfers: int, verdict: str
) -> None:
    """Watching keeps threads from meeting: who spun for the lock took its line from another CPU all the same."""
    events = alone(4, 10_000, 100 * US)
    for turn in range(transfers):
        first = 400 * turn + 125
        events[first : first + 2] = [event._replace(cpu=number) for number, event in enumerate(events[first:][:2])]
    windows = list(in_windows(SECOND, 9 * MS, 10 * MS))
    path = bucket_recording(tmp_path / "watch.lockline", events, windows, spins, kind)
    report = report_of(path)
    (line,) = report.lines
    judgement = line.report.judgement
    assert judgement.verdict == verdict
    text = watch_text.render(report, Style())
    told = verdict != "none"
    assert ("as those spin for its lock" in text) == told
    assert any("the windows saw less" in doubt for doubt in judgement.doubts) == told
    assert judgement.confidence != "high" or not told


def test_a_glance_is_too_little(tmp_path: Path) -> None:
    seen = look(ping_pong((0, 8), 10_000, 100 * US), [Stretch(0, 500 * US)])
    (line,) = report_of(write_watch(tmp_path / "watch.lockline", seen)).lines
    assert line.report.judgement.verdict == "too little evidence"


def test_the_waiters_of_a_lock(tmp_path: Path) -> None:
    """All of it is on the lock's word."""
    events = [event for event in futex_bucket(9_000) if event.offset == 4]
    (line,) = report_of(bucket_recording(tmp_path / "watch.lockline", events)).lines
    assert line.report.judgement.verdict == "lock word"
    assert [lock.name for lock in line.report.locks] == ["futex_hash_bucket.lock"]


def test_the_line_of_a_futex_bucket(bucket: Path) -> None:
    (line,) = report_of(bucket).lines
    events = futex_bucket(9_000)
    truth = whole(events, SECOND)
    assert [(offset.offset, offset.member) for offset in line.offsets] == [
        (0, "waiters"),
        (4, "lock"),
        (8, "chain.next"),
        (0x10, "chain.prev"),
    ]
    assert line.transfers is not None
    assert line.transfers.error is not None
    assert abs(line.transfers.per_second - truth.transfer_count) < 4 * line.transfers.error
    roles = {
        instruction.access.code.symbol: instruction.role
        for offset in line.offsets
        for instruction in offset.instructions
    }
    assert roles == {
        "futex_wake": "lockless reader",
        "futex_q_lock": "atomic",
        "native_queued_spin_lock_slowpath": "waiter",
        "_raw_spin_lock": "waiter",
        "_raw_spin_unlock": "unlock",
        "plist_add": "holder",
    }
    assert line.report.judgement.verdict == "false sharing"
    assert line.report.advice is not None
    assert line.report.advice.members == ("chain",)
    assert (line.lock.name if line.lock else "") == "futex_hash_bucket.lock"
    assert [(wait.lock, wait.kind, wait.records) for wait in line.waits] == [
        ("futex_hash_bucket.lock", "spinlock", line.offsets[1].instructions[0].access.counts.in_wait)
    ]
    # Of two accesses to the lock by those who have interrupts off, the unlock is not one here.
    assert line.offsets[0].interrupts.off == 0
    assert line.offsets[1].interrupts.share == pytest.approx(1 / 3, abs=0.02)


def test_sums_agree(bucket: Path) -> None:
    (line,) = report_of(bucket).lines
    transfers = sum(offset.transfers for offset in line.offsets)
    assert line.matrix is not None
    assert line.watch is not None
    assert line.transfers is not None
    assert transfers == line.transfers.seen == sum(map(sum, line.matrix.counts))
    assert transfers == sum(handover.transfers for handover in line.handovers)
    assert line.watch.hits == sum(offset.counts.records or 0 for offset in line.report.offsets)
    assert all(line.matrix.counts[cpu][cpu] == 0 for cpu in range(4))
    # Who wrote last before whom.
    pairs = {(handover.from_function, handover.function) for handover in line.handovers}
    assert ("plist_add", "futex_wake") in pairs
    assert ("_raw_spin_lock", "native_queued_spin_lock_slowpath") in pairs


def test_parts_watched_for_different_times_are_judged_alike(tmp_path: Path) -> None:
    """The member that is watched a third of the time has its true share of the line."""
    near = LOW | 0xFF << 32
    events = ping_pong((0, 32), 20_000, 50 * US)
    windows = list(in_windows(SECOND, MS, 4 * MS, sets=(near, LOW, LOW)))
    report = report_of(write_watch(tmp_path / "watch.lockline", look(events, windows)))
    (line,) = report.lines
    raw = {offset.offset: offset.reads or 0 for offset in line.offsets}
    assert raw[0] > 2.5 * raw[32]
    shares = {part.name: part.share for part in line.report.parts}
    assert shares["+0x20"] == pytest.approx(0.5, abs=0.02)
    stores = {part.name: part.counts.stores or 0 for part in line.report.parts}
    assert stores["+0x20"] == pytest.approx(stores["+0x0"], rel=0.05)
    rates = {offset.offset: offset.write_rate for offset in line.offsets}
    for rate in rates.values():
        assert rate is not None
        assert rate.per_second == pytest.approx(10_000, rel=0.05)


def test_what_watching_lacks_is_told(tmp_path: Path) -> None:
    events = ping_pong((0, 8), 10_000, 100 * US)
    seen = look(events, in_windows(SECOND, MS, 5 * MS, sets=(LOW,)))
    seen.windows[3] = (*seen.windows[3][:-1], 1)
    seen.windows[4] = (*seen.windows[4][:3], seen.windows[4][3] * 200, seen.windows[4][3] * 199, *seen.windows[4][5:])
    (line,) = report_of(write_watch(tmp_path / "watch.lockline", seen)).lines
    doubts = " ".join(line.report.judgement.doubts)
    assert "bytes 0x20..0x3f of the line were not watched" in doubts
    assert "hits have no record" in doubts
    assert "in 1 of 200 windows the object was freed or replaced" in doubts
    apart = look(ping_pong((0, 40), 10_000, 100 * US), in_windows(SECOND, MS, 5 * MS, sets=(LOW, HIGH)))
    (line,) = report_of(write_watch(tmp_path / "apart.lockline", apart)).lines
    assert "0x0 and 0x28 were not watched at the same time" in " ".join(line.report.judgement.doubts)


def test_lines_come_by_their_rate(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path / "two.lockline", 1, 2)
    # More was seen of the first, because it was watched for longer.
    add_watch(builder, look(ping_pong((0,), 2_000, 500 * US), in_windows(SECOND, 8 * MS, 10 * MS)), Target(), 1)
    target = Target("user:1000:0x55d000002000", 0x55D0_0000_2000, symbol="other")
    add_watch(builder, look(ping_pong((0, 8), 10_000, 100 * US), in_windows(SECOND, MS, 10 * MS)), target, 2)
    report = report_of(builder.finish())
    assert [line.report.line.symbol for line in report.lines] == ["other", "shared"]
    assert [line.report.judgement.verdict for line in report.lines] == ["false sharing", "true sharing"]
    seen = [line.transfers.seen for line in report.lines if line.transfers]
    assert seen[0] < seen[1]


def test_output_follows_the_schema(bucket: Path, validator: jsonschema.Draft202012Validator) -> None:
    for addresses in (False, True):
        value = watch_json.document(report_of(bucket), addresses)
        validator.validate(value)
        assert ("0xffff" in json.dumps(value)) is addresses
    value["lines"][0]["colour"] = "red"
    assert not validator.is_valid(value)


def test_the_same_lines_as_c2c_data(bucket: Path) -> None:
    kernel = types()
    with open_recording(bucket) as recording:
        report = make_c2c_report(recording, 10, lambda *names: kernel)
    value = c2c_json.document(report)
    validator_of("c2c").validate(value)
    (line,) = value["lines"]
    assert (line["verdict"], line["source"], line["cost_is"]) == ("false sharing", "watchpoint", "transfers")
    assert line["transfers"] == value["totals"]["transfers"] == line["cost"]
    assert line["hitm"]["total"] is None
    text = c2c_text.render(report, Style())
    assert "HITM (" not in text.replace("HITM (and", "")
    assert f"{line['transfers']:,} transfers between them in 100 ms of watching" in " ".join(text.split())
    assert all(len(row) <= 120 for row in text.splitlines())


def golden(name: str, text: str) -> str:
    path = GOLDEN / name
    if os.environ.get("LOCKLINE_WRITE_GOLDEN"):
        path.write_text(text)
    return path.read_text()


def test_one_report_to_the_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bucket_recording(Path("bucket.lockline"), futex_bucket(9_000))
    report = report_of(Path("bucket.lockline"))
    text = watch_text.render(report, Style())
    assert all(len(line) <= 120 for line in text.splitlines())
    assert text.isascii()
    assert "ffff" not in text
    assert text == golden("watch.txt", text)
    value = json.dumps(watch_json.document(report), indent=1) + "\n"
    assert value == golden("watch.json", value)


def with_section(path: Path) -> Any:
    with open_recording(path) as recording:
        return with_lines(make_report(recording, Selection(), 5), recording)


def test_the_lines_in_a_report(bucket: Path) -> None:
    from lockline.render import text as report_text
    from lockline.render.documents import report as report_json

    report = with_section(bucket)
    value = report_json.document(report)
    validator_of("report").validate(value)
    (line,) = value["lines"]
    assert line["verdict"] == "false sharing"
    assert line["source"]["kind"] == "watchpoint"
    assert len(value["cpu_pairs"]) == 3
    assert value["locks"][0]["fairness"]["line_transfer_ns"] == 92.0
    text = report_text.render(report, Style())
    assert all(len(row) <= 120 for row in text.splitlines())
    assert "Cache lines (who takes them from whom" in text
    assert "Source: watchpoint on futex_hash_bucket.lock" in text
    with open_recording(bucket) as recording:
        part = with_lines(make_report(recording, Selection(cpus=(0,)), 5), recording)
    assert part.lines is None


def test_the_limit_of_the_hardware_beside_the_hand_off(tmp_path: Path) -> None:
    """Of the pairs of CPUs those count that waited for the lock: 0 and 1."""
    path = bucket_recording(tmp_path / "pairs.lockline", futex_bucket(100))

    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO holder_total VALUES (1, 0, 0, 3, 3, 9000, 4000)")
    connection.commit()
    connection.close()
    from lockline.render import text as report_text

    text = report_text.render(with_section(path), Style())
    assert "hand-off 350 ns on average, longest 800 ns; a cache line takes 92 ns between these CPUs" in text


def test_a_recording_of_before_schema_3(tmp_path: Path) -> None:
    path = RecordingBuilder(tmp_path / "old.lockline", 1).finish()
    connection = sqlite3.connect(path)
    for table in ("memory_interrupts", "memory_wait", "watch", "watch_window", "watch_transfer", "cpu_pair"):
        connection.execute(f"DROP TABLE {table}")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    report = report_of(path)
    assert report.lines == ()
    assert "No cache line was watched" in watch_text.render(report, Style())
    assert with_section(path).lines is None


def test_the_command_shows_a_recording(
    bucket: Path, capsys: pytest.CaptureFixture[str], validator: jsonschema.Draft202012Validator
) -> None:
    assert main(["watch", "-i", str(bucket), "--format", "json"]) == 0
    validator.validate(json.loads(capsys.readouterr().out))
    assert main(["watch", "-i", str(bucket), "--all"]) == 0
    assert "Verdict: false sharing" in capsys.readouterr().out
    assert main(["watch"]) == 1
    assert "no target" in capsys.readouterr().err
    assert main(["watch", "-i", str(bucket), "-o", "other"]) == 1
    assert "name a target" in capsys.readouterr().err
    assert main(["watch", "-i", "/nowhere"]) == 1
    assert "no such file" in capsys.readouterr().err


def test_types_that_are_none_are_told_before_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def watched(*arguments: object) -> int:
        raise AssertionError(f"watched {arguments}")

    monkeypatch.setattr("lockline.cli.watch._watch", watched)
    (tmp_path / "types").write_text("none")
    for name in ("types", "missing"):
        assert main(["watch", "runqueues:0", "--btf", str(tmp_path / name)]) == 1
        assert "give a vmlinux" in capsys.readouterr().err


def test_what_is_the_collectors_is_passed_on() -> None:
    options, rest = parse(["user:1:0x10", "-d", "3", "--format", "json", "--", "sleep", "--top", "1"], int)
    assert options.format == "json"
    assert options.top is None
    assert rest == ["user:1:0x10", "-d", "3", "--", "sleep", "--top", "1"]
    options, rest = parse(["--auto", "--top", "2", "-o", "out"], int)
    assert (options.top, options.output, rest) == (2, "out", ["--auto"])


def test_times_lie_in_the_recording(bucket: Path) -> None:
    (line,) = report_of(bucket).lines
    assert line.watch is not None
    assert line.watch.begin_ns == BEGIN
    assert line.watch.windows[0].offsets == ALL
    assert line.cost is not None
    assert line.cost.cpu_ns == line.watch.hits * 1200
    assert line.cost.cpu_share == pytest.approx(line.watch.hits * 1200 / (4 * SECOND))


def test_lines_of_live_samples(tmp_path: Path, validator: jsonschema.Draft202012Validator) -> None:
    """Of the PMU: HITM by member, the waits that samples were taken in, interrupts off."""
    builder = MemoryBuilder(kind="PMU", event="cpu/mem-loads,ldlat=30/P")
    line = builder.line(0xFFFF_8880_0000_1000)
    lock = builder.code("native_queued_spin_lock_slowpath", 0x6A)
    chain = builder.code("plist_add", 0x51)
    builder.add(line, 4, lock, builder.thread(11), [0], loads=90, local_hitm=70, in_wait=85)
    builder.add(line, 8, chain, builder.thread(12), [1], loads=60, local_hitm=40)
    builder.add(line, 8, chain, builder.thread(12), [1], stores=50)
    path = builder.write(tmp_path / "pmu.lockline")
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO kind VALUES (20, 'spinlock')")
    connection.execute("INSERT INTO lock VALUES (3, ?, 'futex_hash_bucket.lock', '', 'slab')", (-0x777FFFFFEFFC,))
    connection.execute("INSERT INTO memory_wait VALUES (?, 3, 20, 85, 66)", (line,))
    connection.execute("INSERT INTO memory_interrupts VALUES (?, 4, ?, 1, 90, 90)", (line, lock))
    connection.commit()
    connection.close()
    report = report_of(path)
    value = watch_json.document(report)
    validator.validate(value)
    (told,) = value["lines"]
    assert told["source"] == {"kind": "PMU", "event": "cpu/mem-loads,ldlat=30/P"}
    assert (told["target"], told["windows"], told["hits"], told["transfer_rate"]) == (None, None, None, None)
    assert (told["hitm"], told["transfers"], told["verdict"]) == (110, 110, "false sharing")
    assert told["waits"] == [
        {
            "lock": "futex_hash_bucket.lock",
            "instance": None,
            "kind": "spinlock",
            "records": 85,
            "transfers": 66,
        }
    ]
    assert [offset["interrupts"]["share_off"] for offset in told["offsets"]] == [1.0, None]
    assert [offset["instructions"][0]["role"] for offset in told["offsets"]] == ["waiter", "holder"]
    text = watch_text.render(report, Style())
    assert "Source: PMU, cpu/mem-loads,ldlat=30/P: 200 samples, 110 HITM, 0 peer snoops" in text
    assert "85 samples, 66 of them HITM or peer snoops, were taken while waiting for futex_hash_bucket.lock" in text
    assert "moves/s" not in text
