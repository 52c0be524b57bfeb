# SPDX-License-Identifier: GPL-2.0-or-later
"""Two recordings: by name and kind, per second, judged by their intervals."""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from two_sides import LOAD, MUTEX, SPINLOCK, Load, make_recording

from lockline.diff.recordings import resolution, shares
from recording_generator import SECOND, RecordingBuilder

Json = Callable[..., tuple[int, dict[str, Any]]]


def lock_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [lock for lock in document["waits"]["locks"] if lock["lock"] == name]
    assert isinstance(found, dict)
    return found


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return make_recording(tmp_path / "before.lockline", LOAD, seed=1)


def changed(factor: float) -> Load:
    kind, waits, middle = LOAD["futex_hash_bucket.lock"]
    return LOAD | {"futex_hash_bucket.lock": (kind, waits, middle * factor)}


def test_nothing_changed(before: Path, tmp_path: Path, as_json: Json) -> None:
    after = make_recording(tmp_path / "after.lockline", LOAD, seed=2, first_id=100)
    code, document = as_json(before, after, "--threshold", "10")
    assert (code, document["verdict"], document["warnings"]) == (0, "no difference", [])
    futex = lock_of(document, "futex_hash_bucket.lock")
    assert futex["judged"]["verdict"] == "no difference"
    assert futex["presence"] == "both"
    # Not enough waiting to be worth a verdict.
    pipe = lock_of(document, "pipe_inode_info.mutex")
    assert pipe["judged"] is None
    assert "below 0.1 %" in pipe["unjudged"]
    assert document["waits"]["locks_judged"] == 2


@pytest.mark.parametrize(("factor", "verdict", "code"), [(0.6, "improved", 0), (1.5, "regressed", 2)])
def test_one_lock_changed(before: Path, tmp_path: Path, as_json: Json, factor: float, verdict: str, code: int) -> None:
    after = make_recording(tmp_path / "after.lockline", changed(factor), seed=3)
    found, document = as_json(before, after)
    assert (found, document["verdict"]) == (code, verdict)
    first = document["waits"]["locks"][0]
    assert (first["lock"], first["kind"], first["judged"]["verdict"]) == ("futex_hash_bucket.lock", "spinlock", verdict)
    assert first["share"]["relative"] == pytest.approx(factor - 1, abs=0.05)
    assert first["after"]["p50_ns"] == pytest.approx(first["before"]["p50_ns"] * factor, rel=0.3)
    assert first["judged"]["tested"] == 2
    assert first["judged"]["correction"] == "Holm"
    assert first["judged"]["corrected_p"] >= first["judged"]["p"]
    other = lock_of(document, "runqueues.__lock")
    assert other["judged"]["verdict"] in ("no difference", "inconclusive")
    (kind,) = [kind for kind in document["waits"]["kinds"] if kind["kind"] == "spinlock"]
    assert kind["judged"]["verdict"] == verdict


def test_figures_are_per_second(before: Path, tmp_path: Path, as_json: Json) -> None:
    after = make_recording(tmp_path / "after.lockline", LOAD, seed=4, seconds=32)
    code, document = as_json(before, after, "--threshold", "10")
    assert (code, document["verdict"]) == (0, "no difference")
    total = document["waits"]["total"]
    assert total["before"]["waits_per_s"] == total["after"]["waits_per_s"] == 4 * (60 + 80 + 2)
    assert total["after"]["waits"] == 2 * total["before"]["waits"]
    assert total["before"]["share"] == pytest.approx(total["before"]["wait_ns"] / (16 * SECOND))
    (warning,) = document["warnings"]
    assert warning.startswith("different lengths: 16.0 s and 32.0 s; figures are per second")


def test_new_and_gone_locks(before: Path, tmp_path: Path, as_json: Json, run: Callable[..., Any]) -> None:
    load = {name: figures for name, figures in LOAD.items() if name != "runqueues.__lock"}
    after = make_recording(tmp_path / "after.lockline", load | {"tasklist_lock": (SPINLOCK, 40, 50_000)}, seed=5)
    code, document = as_json(before, after)
    assert code == 2
    new, gone = lock_of(document, "tasklist_lock"), lock_of(document, "runqueues.__lock")
    assert (new["presence"], new["judged"]["verdict"], new["before"]["p50_ns"]) == ("new", "regressed", None)
    assert new["share"]["relative"] is None
    assert (gone["presence"], gone["judged"]["verdict"], gone["after"]["waits"]) == ("gone", "improved", 0)
    code, out, _ = run(before, after)
    assert re.search(r"tasklist_lock .* new .* more waiting", out)
    assert re.search(r"runqueues\.__lock .* gone .* less waiting", out)
    assert "Verdict    regressed: more waiting or transfers: tasklist_lock spinlock" in out


def test_same_name_of_other_kind_is_another_lock(tmp_path: Path, as_json: Json) -> None:
    before = make_recording(tmp_path / "b", {"inode.i_rwsem": (SPINLOCK, 50, 50_000)}, seed=1)
    after = make_recording(tmp_path / "a", {"inode.i_rwsem": (MUTEX, 50, 50_000)}, seed=1)
    _, document = as_json(before, after)
    presence = {lock["kind"]: lock["presence"] for lock in document["waits"]["locks"]}
    assert presence == {"spinlock": "gone", "mutex": "new"}


def test_instances_of_a_name_are_one(tmp_path: Path, as_json: Json) -> None:
    path = tmp_path / "two.lockline"
    builder = RecordingBuilder(path, 10, 2)
    for lock in (1, 2):
        builder.lock(lock, "dentry.d_lockref.lock", f"object {lock}", "slab")
        for interval in range(1, 11):
            builder.waits(interval, 0, lock, SPINLOCK, [SECOND // 100])
    builder.finish()
    one = make_recording(tmp_path / "one.lockline", {"dentry.d_lockref.lock": (SPINLOCK, 1, SECOND / 50)}, 1, 10, 1)
    _, document = as_json(path, one)
    (lock,) = document["waits"]["locks"]
    assert lock["before"]["waits"] == 20
    assert lock["judged"]["before"]["average"] == pytest.approx(0.02)


def test_too_few_intervals(tmp_path: Path, as_json: Json) -> None:
    before = make_recording(tmp_path / "b", LOAD, seed=1, seconds=2)
    after = make_recording(tmp_path / "a", changed(3), seed=2, seconds=2)
    code, document = as_json(before, after)
    assert (code, document["verdict"]) == (0, "inconclusive")
    assert "too few samples" in document["waits"]["total"]["judged"]["reason"]


def test_short_last_interval_is_no_sample(tmp_path: Path, as_json: Json) -> None:
    path = make_recording(tmp_path / "b", LOAD, seed=1, seconds=6)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE interval SET end_ns = begin_ns + 1000 WHERE id = 6")
    database.close()
    _, document = as_json(path, make_recording(tmp_path / "a", LOAD, seed=1, seconds=6))
    assert (document["waits"]["before"]["samples"], document["waits"]["after"]["samples"]) == (5, 6)


def test_what_makes_them_hard_to_compare(before: Path, tmp_path: Path, as_json: Json) -> None:
    after = make_recording(
        tmp_path / "after.lockline",
        LOAD,
        seed=1,
        cpus=2,
        hostname="lab2",
        kernel_release="6.13.0",
        spinlock_mode="paravirt",
        filter="-p 7",
        state="recording",
    )
    for path, state in ((before, "on"), (after, "unavailable")):
        with sqlite3.connect(path) as database:
            database.execute("INSERT INTO probe VALUES ('spinlock slow path', ?, '', '', '')", (state,))
            database.execute("INSERT INTO probe VALUES ('user stacks', 'off', '', '', '')")
            database.execute("INSERT INTO probe VALUES ('futex waits', 'on', '', '', '')")
        database.close()
    _, document = as_json(before, after)
    warnings = "\n".join(document["warnings"])
    for part in (
        "different hosts: lab1 and lab2",
        "different numbers of CPUs: 4 and 2",
        "different kernels: 6.12.0-lab and 6.13.0",
        "different kinds of spinlock: native and paravirt",
        "different filters: not known and -p 7",
        "after.lockline was cut off",
        "different signals, spinlock slow path: on and unavailable",
        "locks of programs are not compared",
    ):
        assert part in warnings
    assert "user stacks" not in warnings


def test_what_one_side_did_not_record_is_not_gone(before: Path, tmp_path: Path, as_json: Json) -> None:
    """Of recordings that chose different waits (-L, -S) nothing is judged, and no lock is new or gone."""
    name = "futex_hash_bucket.lock"
    only = {name: LOAD[name]}
    after = make_recording(tmp_path / "a", only, seed=1, wait_filter="-L futex_hash_bucket.lock")
    code, document = as_json(before, after)
    waits = document["waits"]
    assert {lock["lock"] for lock in waits["locks"]} == {name}
    assert {part["presence"] for part in (*waits["locks"], *waits["kinds"])} == {"both"}
    assert all(
        "chose different waits" in part["unjudged"] for part in (waits["total"], *waits["locks"], *waits["kinds"])
    )
    assert any("different waits were chosen, all waits and -L futex" in text for text in document["warnings"])
    same = make_recording(tmp_path / "s", only, seed=1, wait_filter="-L futex_hash_bucket.lock")
    _, document = as_json(same, after)
    assert not any("chosen" in text for text in document["warnings"])
    assert not document["waits"]["locks"][0]["unjudged"]
    assert code == 0


def test_lock_option(before: Path, as_json: Json, run: Callable[..., Any]) -> None:
    _, document = as_json(before, before, "--lock", "futex*")
    assert [lock["lock"] for lock in document["waits"]["locks"]] == ["futex_hash_bucket.lock"]
    assert document["waits"]["total"]["before"]["waits"] == document["waits"]["locks"][0]["before"]["waits"]
    assert document["warnings"] == ["both sides are the same file"]
    code, out, err = run(before, before, "--lock", "nothing")
    assert (code, out) == (1, "")
    assert "--lock: no lock of either recording" in err


def test_min_share(before: Path, as_json: Json) -> None:
    _, document = as_json(before, before, "--min-share", "90")
    assert all(lock["judged"] is None for lock in document["waits"]["locks"])
    assert document["verdict"] == "no difference"


def test_many_locks_are_not_all_judged(tmp_path: Path, as_json: Json) -> None:
    load = {f"lock_{i}": (SPINLOCK, 2, 600_000.0 + i) for i in range(60)}
    sides = [make_recording(tmp_path / str(seed), load, seed, seconds=5, cpus=1) for seed in (1, 2)]
    _, document = as_json(*sides)
    assert document["waits"]["locks_judged"] == 50
    assert len(document["waits"]["locks"]) == 60
    assert sum("beyond the 50 locks" in (lock["unjudged"] or "") for lock in document["waits"]["locks"]) == 10
    _, short = as_json(*sides, "--top", "3")
    assert len(short["waits"]["locks"]) == 3


def test_changelog_fits_a_commit_message(before: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    name = "a_very_long_name_of_a_structure_with.a_very_long_name_of_a_member.lock"
    after = make_recording(tmp_path / "a", changed(0.5) | {name: (SPINLOCK, 50, 50_000)}, seed=3, hostname="lab2")
    code, out, err = run(before, after, "--changelog", "--labels", "base,+fix")
    assert code == 2
    assert max(map(len, out.splitlines())) <= 75
    assert re.search(r"futex_hash_bu.*\.lock spinlock +\d.* ms +\d.* ms +-\d\d\.\d %", out)
    assert "different hosts: lab1 and lab2" in err
    assert "\n+" not in out.replace("+fix", "")


def test_text_says_less_waiting_not_faster(before: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    after = make_recording(tmp_path / "a", changed(0.5), seed=3)
    code, out, _ = run(before, after)
    assert code == 0
    assert "less waiting" in out
    assert "less waiting does not always mean" in out
    assert "not what another run would give" in out
    assert "p50" in out
    assert max(map(len, out.splitlines())) <= 120


def test_damaged_recording(before: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    path = make_recording(tmp_path / "bad", LOAD, seed=1)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE wait_interval SET wait_ns = 'x'")
    database.close()
    code, out, err = run(before, path)
    assert (code, out) == (1, "")
    assert "damaged" in err
    path.write_bytes(path.read_bytes()[:5000])
    code, out, err = run(before, path)
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_impossible_rows_are_no_samples(before: Path, tmp_path: Path, as_json: Json) -> None:
    path = make_recording(tmp_path / "odd", LOAD, seed=1)
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO wait_interval VALUES (1, 9, 1, 0, 1, 9000000000000000000, 9000000000000000000, 0, x'')"
        )
    database.close()
    _, document = as_json(before, path)
    assert document["waits"]["total"]["judged"]["after"]["maximum"] < 1


def test_intervals_are_joined_to_samples_of_one_length() -> None:
    # As the collector writes them: short ones first.
    lengths = {1: 100, 2: 100, 3: 100, 4: 200, 5: 200, 6: 200, 7: 200, 8: 200, 9: 200, 10: 200, 11: 40}
    assert resolution(lengths) == resolution(lengths, {1: 50}) == 200
    assert resolution({}) == 0
    found = shares(lengths, {1: 100, 2: 100, 5: 50, 11: 40}, 200)
    assert found == [1.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0]


@given(st.lists(st.integers(0, SECOND), min_size=1, max_size=40), st.integers(1, 8))
@settings(deadline=None)
def test_shares_are_of_whole_samples(waited: list[int], size: int) -> None:
    lengths = dict.fromkeys(range(len(waited)), SECOND)
    found = shares(lengths, dict(enumerate(waited)), size * SECOND)
    whole = max(1, -(-size * 3 // 4))
    assert len(found) == len(waited) // whole
    assert sum(found) * whole * SECOND == pytest.approx(sum(waited[: len(found) * whole]), abs=1)
