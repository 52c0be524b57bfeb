# SPDX-License-Identifier: GPL-2.0-or-later
"""The command on files of samples: what it shows, refuses, and exits with."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from two_sides import LOAD, make_recording, numbers

Run = Callable[..., tuple[int, str, str]]
Json = Callable[..., tuple[int, dict[str, Any]]]

# Eight runs each that have the averages, medians, minima and maxima of the futex hash bucket patch's table.
BASELINE = [1_214_488, 1_330_000, 1_380_000, 1_420_012, 1_440_012, 1_441_000, 1_445_825, 1_488_167]
FIX = [1_501_741, 1_580_000, 1_600_000, 1_610_000, 1_624_144, 1_630_000, 1_657_629, 1_730_734]


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    lines = "Averaged {} operations/sec (+- 0.30%), total secs = 10\n"
    before, after = tmp_path / "baseline.txt", tmp_path / "fix.txt"
    before.write_text("".join(map(lines.format, BASELINE)))
    after.write_text("".join(map(lines.format, FIX)))
    return before, after


def test_table_of_a_patch(sides: tuple[Path, Path], run: Run) -> None:
    code, out, err = run(*sides, "--changelog", "--labels", "baseline,+fix")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 75
    table = [line.split() for line in out.splitlines()]
    assert table[0] == ["baseline", "+fix", "delta"]
    assert table[1] == ["average", "1,394,938", "1,616,781", "+15.9", "%"]
    assert table[2] == ["median", "1,430,012", "1,617,072", "+13.1", "%"]
    assert table[3] == ["min", "1,214,488", "1,501,741", "+23.7", "%"]
    assert table[4] == ["max", "1,488,167", "1,730,734", "+16.3", "%"]
    text = " ".join(out.split())
    assert "8 and 8 samples, ops/sec, higher is better. The distributions do not overlap." in text
    assert re.search(r"Mann-Whitney U, exact: p = 0\.0002; difference \+\d+\.\d %.*: improved\.", text)


def test_text(sides: tuple[Path, Path], run: Run) -> None:
    code, out, err = run(*sides)
    assert (code, err) == (0, "")
    for part in (
        "Samples    ops/sec, higher is better (ops/sec is a rate); taken: lines of perf bench futex, epoll",
        "Ranges     they do not overlap",
        "95 % confidence), Hodges-Lehmann",
        "Test       Mann-Whitney U, exact: U = 64, p = 0.0002",
        "Would show differences from about",
        "Verdict    improved: p < 0.05, and the difference reaches 2 %",
    ):
        assert part in out
    assert max(map(len, out.splitlines())) <= 120


def test_json(sides: tuple[Path, Path], as_json: Json) -> None:
    code, document = as_json(*sides)
    samples = document["samples"]
    assert (code, document["schema"], document["verdict"]) == (0, "lockline-diff/2", "improved")
    assert (document["waits"], document["lines"]) == (None, None)
    assert (samples["unit"], samples["higher_is_better"]) == ("ops/sec", True)
    assert samples["values"]["before"] == BASELINE
    assert samples["delta"]["median"]["relative"] == pytest.approx(0.1308, abs=1e-4)
    assert samples["overlap"] == {"ranges": False, "before_inside": 0, "after_inside": 0, "after_larger": 1.0}
    assert samples["p"] == samples["corrected_p"] == pytest.approx(2 / 12870)
    assert samples["correction"] is None
    assert 0 < samples["detectable"] < 0.2


def test_regression_exits_with_2(sides: tuple[Path, Path], run: Run) -> None:
    assert run(*reversed(sides))[0] == 2
    assert run(*sides, "--lower-is-better")[0] == 2
    assert run(*reversed(sides), "--lower-is-better")[0] == 0
    # 13 % are less than 50: known well, and no difference that matters.
    code, out, _ = run(*reversed(sides), "--threshold", "50")
    assert code == 0
    assert "Verdict    no difference" in out


def test_latency_is_better_low(tmp_path: Path, as_json: Json) -> None:
    before = numbers(tmp_path / "b", [10.1, 10.2, 10.3, 10.4, 10.5], "ms")
    after = numbers(tmp_path / "a", [8.1, 8.2, 8.3, 8.4, 8.5], "ms")
    code, document = as_json(before, after)
    assert (code, document["verdict"], document["samples"]["direction"]) == (0, "improved", "ms is a time")


def test_guessed_direction_is_told(tmp_path: Path, run: Run) -> None:
    before = numbers(tmp_path / "b", [1, 2, 3, 4, 5])
    _, out, _ = run(before, before)
    assert "Warning    higher is taken as better: there is no unit; --lower-is-better says otherwise" in out
    assert "Warning    both sides are the same file" in out
    _, out, err = run(before, before, "--changelog")
    assert "higher is taken as better" in err
    assert "no unit, higher is better" in out
    _, out, _ = run(before, before, "--unit", "ms")
    assert "higher" not in out
    assert "ms, lower is better" in out


def test_labels_and_small_numbers(tmp_path: Path, run: Run) -> None:
    before = numbers(tmp_path / "b", [0.300, 0.329, 0.266], "ms")
    after = numbers(tmp_path / "a", [0.292, 0.253, 0.270], "ms")
    code, out, _ = run(before, after, "--labels", "old,new")
    assert code == 0
    assert re.search(r"old +new +delta", out)
    assert re.search(r"average +0\.2983 +0\.2717 +-8\.9 %", out)
    assert "too few samples for an interval of 95 % confidence" in out
    assert "Would show no difference at all: too few samples" in out
    assert "Verdict    inconclusive: too few samples: whatever they are, p cannot be below 0.1" in out


@pytest.mark.parametrize("values", [[0, 0, 0, 0], [1e100, -1e100, 1e100, 5], [-1, -2, -3, -4], [1e-300, 2e-300, 0, 1]])
def test_odd_numbers_are_shown(tmp_path: Path, run: Run, as_json: Json, values: list[float]) -> None:
    before, after = numbers(tmp_path / "b", values), numbers(tmp_path / "a", [1, 2, 3, 4])
    for sides in ((before, after), (after, before)):
        assert run(*sides)[0] in (0, 2)
        code, out, _ = run(*sides, "--changelog")
        assert code in (0, 2)
        assert max(map(len, out.splitlines())) <= 75
        as_json(*sides)


def refused(run: Run, *arguments: str | Path) -> str:
    code, out, err = run(*arguments)
    assert (code, out) == (1, ""), (code, out, err)
    return err


def test_refusals(tmp_path: Path, run: Run, sides: tuple[Path, Path]) -> None:
    plain, timed = numbers(tmp_path / "plain", [1, 2]), numbers(tmp_path / "timed", [1, 2], "ms")
    recording = make_recording(tmp_path / "r.lockline", LOAD, 1)
    perf = tmp_path / "perf.data"
    perf.write_bytes(b"PERFILE2" + bytes(100))
    assert "different units: no unit and 'ms'; --unit overrides" in refused(run, plain, timed)
    assert "different benchmarks: lines of perf bench futex, epoll and the number that ends" in refused(
        run, sides[0], numbers(tmp_path / "ops", [5], "ops/sec")
    )
    assert "give two files of the same kind" in refused(run, plain, recording)
    assert "lockline c2c import" in refused(run, perf, recording)
    assert "No such file" in refused(run, tmp_path / "none", plain)
    assert "line 2: no finite number 'nan'" in refused(run, plain, numbers(tmp_path / "nan", [1, float("nan")]))
    assert "--pattern is for samples" in refused(run, recording, recording, "--pattern", "(x)")
    assert "--unit is for samples" in refused(run, recording, recording, "--unit", "ms")
    assert "less waiting is taken as better" in refused(run, recording, recording, "--higher-is-better")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required"),
        (("a", "b", "--threshold", "0"), "must be above 0"),
        (("a", "b", "--threshold", "x"), "'x' is not a percentage"),
        (("a", "b", "--threshold=-1"), "'-1' is not a percentage"),
        (("a", "b", "--pattern", "("), "not a regular expression"),
        (("a", "b", "--pattern", "x"), "has 0 groups; there must be one"),
        (("a", "b", "--labels", "x"), "two words"),
        (("a", "b", "--labels", "x,yyyyyyyyyyyyyyyyy"), "two words of up to 16 characters"),
        (("a", "b", "--top", "0"), "must be a number above 0"),
        (("a", "b", "--higher-is-better", "--lower-is-better"), "not allowed with"),
        (("a", "b", "--format", "json", "--changelog"), "not allowed with"),
        (("a", "b", "--no-such"), "no such option"),
    ],
)
def test_wrong_usage_is_no_regression(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert message in err


def test_help_tells_the_exit_code(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "Exit code 2: something got worse" in " ".join(out.split())


def test_inconclusive_fails_if_wanted(tmp_path: Path, run: Run, sides: tuple[Path, Path]) -> None:
    before, after = numbers(tmp_path / "b", [1, 2, 3], "ms"), numbers(tmp_path / "a", [1, 2, 4], "ms")
    for arguments in ((), ("--changelog",), ("--format", "json")):
        assert run(before, after, *arguments)[0] == 0
        assert run(before, after, "--fail-inconclusive", *arguments)[0] == 2
    assert run(*sides, "--fail-inconclusive")[0] == 0
    assert run(*reversed(sides), "--fail-inconclusive")[0] == 2
