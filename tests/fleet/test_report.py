# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lockline fleet` says of fleets whose truth is known."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import duckdb
import pytest

from fleet_command import run
from fleet_generator import FIRST_HOUR, KERNELS, MODELS, InMemory, Truth, host_days, lock_name, record
from lockline.base.text import Style
from lockline.cli import progress
from lockline.cli.main import main
from lockline.diff.model import Rule
from lockline.fleet import document, text
from lockline.fleet.add import Told, add
from lockline.fleet.analysis import Question, report_of
from lockline.fleet.choose import known_of, moment, parse_moment, parse_span
from lockline.fleet.compare import compare_groups, compare_times, corrected, spread
from lockline.fleet.difference import Comparison, diff_of, parse_side
from lockline.fleet.engine import SQL, VIEWS
from lockline.fleet.model import FleetDiff, FleetReport
from lockline.fleet.spark import translated
from lockline.fleet.store import MARKER, places
from lockline.fleet.tables import TABLES
from lockline.page.fleet import make_fleet_page
from lockline.page.html import Writer
from lockline.page.redact import Redactor
from programs import TOP
from schemas import validator_of

ASCII = Style()
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TOP / "userspace")}
# As many as CI has time for.
SEEDS = 24
A_DAY = Question(span=24)
SMALL = {"hosts": 24, "locks": 6}


def report(truth: Truth, question: Question = A_DAY) -> FleetReport:
    with closing(InMemory(truth)) as engine:
        return report_of(known_of(engine, engine.places), Path("fleet"), engine, question)


def difference(truth: Truth, before: str, after: str) -> FleetDiff:
    with closing(InMemory(truth)) as engine:
        known = known_of(engine, engine.places)
        return diff_of(known, Path("fleet"), engine, Comparison(parse_side(before), parse_side(after)))


def alarms(found: FleetReport) -> int:
    """Things that a report says are worse or different."""
    return len(found.worse) + len(found.effects) + len(found.missing) + len(found.partial)


@pytest.mark.laboratory
def test_the_command_says_nothing_but_its_report(tmp_path: Path) -> None:
    """DuckDB complains of objects that Python kept from it as the process ended."""
    [day, *_] = host_days(Truth(hosts=1, locks=2))
    record(tmp_path / "one.data", day)
    launcher = [sys.executable, TOP / "scripts/lockline-launcher", "fleet"]
    for words in (["add", tmp_path / "fleet", tmp_path / "one.data"], ["report", tmp_path / "fleet"]):
        done = subprocess.run([*launcher, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, [line for line in done.stderr.splitlines() if "recording" not in line]) == (0, [])
    assert "1 host of 1, 1 recording, 24 host-hours," in " ".join(done.stdout.split())


def test_quiet_fleets_are_quiet() -> None:
    """False alarms in 5 % of the fleets, as far as so many fleets can tell."""
    noisy = sum(alarms(report(Truth(seed=seed, **SMALL))) > 0 for seed in range(SEEDS))
    assert noisy <= SEEDS * 0.05 + 2 * (SEEDS * 0.05 * 0.95) ** 0.5


@pytest.mark.parametrize("seed", range(3))
def test_what_was_planted_is_found(seed: int) -> None:
    found = report(Truth(hosts=60, locks=6, seed=seed, regression=1.8, bad_batch=3.0, missing=2))
    assert [lock.name for lock in found.worse] == [lock_name(0)]
    batch = [(one.by, one.value, one.name) for one in found.different]
    assert ("cpu_model", MODELS[-1], lock_name(1)) in batch
    assert {name for by, _, name in batch if by == "cpu_model"} == {lock_name(1)}
    assert [silent.host for silent in found.missing] == ["web0000", "web0001"]
    assert found.expected == 60
    shown = text.render(found, ASCII)
    assert f"{lock_name(0)} +" in shown
    assert f"on CPU {MODELS[-1]}" in " ".join(shown.split())
    assert "Missing: web0000, web0001." in " ".join(shown.split())


def test_the_shares_are_those_of_the_rows() -> None:
    truth = Truth(**SMALL)
    found = report(truth)
    days = [day for day in host_days(truth) if day.period == 1]
    for lock in found.locks:
        number = int(lock.name.split("_")[1])
        by_host = {day.host: sum(day.waits[number]) / 86_400e9 for day in days}
        assert lock.share == pytest.approx(sum(by_host.values()) / len(by_host))
        assert lock.spread == spread(by_host, 3) or lock.spread.median == pytest.approx(spread(by_host, 3).median)
        assert lock.hosts == len(days)
    assert found.share == pytest.approx(sum(lock.share for lock in found.locks))
    assert found.locks == tuple(sorted(found.locks, key=lambda lock: -lock.share))


def test_the_screen_fits() -> None:
    long = report(Truth(hosts=60, locks=30, regression=1.8, bad_batch=3.0, missing=30))
    for found in (long, report(Truth(hosts=1, locks=1))):
        lines = text.render(found, ASCII).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
    lines = text.render_diff(difference(Truth(locks=30), f"kernel={KERNELS[0]}", "kernel=6.12*"), ASCII).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def times(truth: Truth) -> tuple[str, str]:
    first, second, end = (
        moment(FIRST_HOUR + hours).replace(" ", "T") for hours in (0, 24 * truth.days, 48 * truth.days)
    )
    return f"{first}..{second}", f"{second}..{end}"


def test_diff_of_two_times() -> None:
    truth = Truth(hosts=40, locks=6, regression=1.8)
    found = difference(truth, *times(truth))
    assert found.verdict == "regressed"
    [worse] = [one for one in found.locks if one.effect.judgement and one.effect.judgement.verdict == "regressed"]
    assert worse.name == lock_name(0)
    assert worse.effect.paired
    judgement = worse.effect.judgement
    assert judgement is not None
    assert judgement.relative_low is not None
    assert judgement.relative_high is not None
    # Two hosts of three run the last kernel.
    assert judgement.relative_low < 0.8 * 2 / 3 < judgement.relative_high
    assert difference(Truth(hosts=40, locks=6), *times(truth)).verdict != "regressed"


def test_diff_of_two_groups() -> None:
    found = difference(Truth(hosts=60, locks=6, bad_batch=3.0), "cpu-model=*[AB]", "cpu_model=Example CPU C")
    worse = [one.name for one in found.locks if one.effect.judgement and one.effect.judgement.verdict == "regressed"]
    assert lock_name(1) in worse
    assert not any(one.effect.paired for one in found.locks)


@pytest.mark.parametrize("side", ["", "x", "kernel=", "colour=red", "2026-01-02..2026-01-01", "a..b"])
def test_sides_that_are_none(side: str) -> None:
    with pytest.raises(ValueError, match=r"side|time|ends"):
        parse_side(side)


def test_moments() -> None:
    assert moment(parse_moment("2025-11-09")) == "2025-11-09 00:00"
    assert parse_moment("2025-11-09T14:59Z") == FIRST_HOUR + 14
    assert (parse_span("2d"), parse_span("2x")) == (48, None)
    with pytest.raises(ValueError, match="not a time"):
        parse_moment("soon")


def test_hosts_are_the_samples() -> None:
    """However large the difference, three hosts prove nothing."""
    few = {f"h{n}": 1.0 + n / 10 for n in range(3)}
    effect = compare_times(few, {host: 9 * share for host, share in few.items()}, Rule(0.1))
    assert effect.judgement is not None
    assert effect.judgement.verdict == "inconclusive"
    assert compare_groups({"a": 1.0}, few, Rule(0.1)).judgement is None
    many = {f"h{n}": 1.0 + n / 100 for n in range(30)}
    worse = {host: 2 * share for host, share in many.items()}
    for compare in (compare_times, compare_groups):
        judgement = compare(many, worse, Rule(0.1)).judgement
        assert judgement is not None
        assert judgement.verdict == "regressed"


def test_more_tests_need_more_evidence() -> None:
    before = {f"h{n}": 1.0 for n in range(8)}
    after = dict.fromkeys(before, 2.0)
    [one] = corrected([compare_times(before, after, Rule(0.1))], 1, Rule(0.1))
    [of_many] = corrected([compare_times(before, after, Rule(0.1))], 20, Rule(0.1))
    assert one.judgement is not None
    assert of_many.judgement is not None
    assert of_many.judgement.p == pytest.approx(min(1.0, 20 * one.judgement.p))
    assert (one.judgement.verdict, of_many.judgement.verdict) == ("regressed", "inconclusive")


def test_p_values_are_uniform_where_nothing_changed() -> None:
    """Of the same hosts at two times, whatever the hosts' sizes: p is below a limit as often as it says."""
    from random import Random

    generator, below, tries = Random(7), 0, 200
    for _ in range(tries):
        sizes = [generator.lognormvariate(0, 1) for _ in range(8)]
        sides = [{f"h{n}": size * generator.lognormvariate(0, 0.3) for n, size in enumerate(sizes)} for _ in range(2)]
        judgement = compare_times(sides[0], sides[1], Rule(0.0)).judgement
        assert judgement is not None
        below += judgement.test.p <= 0.25
    sigma = (0.25 * 0.75 * tries) ** 0.5
    assert abs(below - 0.25 * tries) < NormalDist().inv_cdf(0.9999) * sigma


def test_json_is_as_documented() -> None:
    truth = Truth(hosts=30, locks=6, regression=1.8, bad_batch=3.0, missing=1)
    made = json.loads(document.render(report(truth)))
    validator_of("fleet").validate(made)
    assert made["schema"] == "lockline-fleet/1"
    assert made["before"]["hosts"] == 30
    assert made["locks"][0]["change"]["paired"] is True
    validator_of("fleet").validate(json.loads(document.render(report(Truth(hosts=1, locks=1)))))
    made = json.loads(document.render_diff(difference(truth, *times(truth))))
    validator_of("fleet-diff").validate(made)
    assert made["verdict"] == "regressed"


def test_all_queries_can_be_translated() -> None:
    for path in sorted(SQL.glob("*.sql")):
        assert "SELECT" in translated(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with eight hosts and two days."""
    directory = tmp_path_factory.mktemp("fleet")
    truth = Truth(hosts=8, locks=2, regression=3.0)
    recordings = [record(directory / f"{n}.data", day) for n, day in enumerate(host_days(truth))]
    for told, half in (
        (Told(release="v1", role="web", intervals=True), recordings[::2]),
        (Told(release="v2", role="web", intervals=True), recordings[1::2]),
    ):
        assert {one.outcome for one in add(directory / "fleet", map(str, half), told, 1)} == {"added"}
    return directory / "fleet"


def test_the_whole_path(fleet: Path) -> None:
    code, shown, _ = run("report", fleet, "--since", "24h", "--group-by", "release,kernel")
    assert code == 0
    assert shown.startswith(f"{lock_name(0)} (spinlock) costs the fleet most: ")
    assert "8 hosts of 8, 8 recordings, 192 host-hours, 2025-11-10 00:00 to 2025-11-11 00:00 UTC." in " ".join(
        shown.split()
    )
    code, shown, _ = run("diff", fleet, "--before", "2025-11-09..2025-11-10", "--after", "2025-11-10..2025-11-11")
    assert code == 2
    assert shown.startswith("Worse: ")
    code, shown, _ = run("diff", fleet, "--before", "release=v1", "--after", "release=v2", "--format", "json")
    assert code in (0, 2)
    assert json.loads(shown)["before"]["period"]["hosts"] == 8
    code, shown, _ = run("report", fleet, "--format", "json", "--host", "web0001", "--until", "2025-11-10")
    assert json.loads(shown)["period"]["observed_ns"] == 24 * 3_600_000_000_000
    assert json.loads(shown)["locks"][0]["p50_ns"] > 0


def test_a_report_by_a_process_of_its_own(fleet: Path) -> None:
    command = [sys.executable, "-m", "lockline", "fleet", "report", fleet, "--since", "24h"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout == run("report", fleet, "--since", "24h")[1]


def test_expected_hosts(fleet: Path, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("web0001\nweb0099\n")
    code, shown, _ = run("report", fleet, "--expect", tmp_path / "hosts")
    assert code == 0
    assert "Missing: web0099." in " ".join(shown.split())


def test_the_page(fleet: Path, tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    assert run("report", fleet, "--since", "24h", "--html", page) == (0, "", "")
    made = page.read_text(encoding="utf-8")
    assert made.count("<section") == 5
    assert f'<th scope="row">{lock_name(1)} (mutex)</th>' in made
    assert "costs the fleet most" in made
    assert "src=" not in made
    hostile = Truth(hosts=3, locks=2)
    with closing(InMemory(hostile)) as engine:
        engine.connection.execute("UPDATE lock_hours SET lock = '</script><b>' || lock")
        found = report_of(known_of(engine, engine.places), Path("fleet"), engine, A_DAY)
    assert "<b>" not in make_fleet_page(found, Writer(ASCII))


def test_a_redacted_page_names_nobody(fleet: Path, tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    (tmp_path / "hosts").write_text("badger01.example\nbadger02.example\n")
    command = ("report", fleet, "--since", "24h", "--group-by", "kernel,host", "--expect", tmp_path / "hosts")
    secrets = (b"web0", b"badger", bytes(tmp_path), bytes(fleet))
    assert run(*command, "--html", page) == (0, "", "")
    assert all(name in page.read_bytes() for name in secrets[:2])
    assert run(*command, "--html", page, "--redact") == (0, "", "")
    made = page.read_bytes()
    assert not [name for name in secrets if name in made]
    # Locks and kernels stay, and a host has one name in all places.
    assert lock_name(0).encode() in made
    assert KERNELS[0].encode() in made
    truth = Truth(hosts=30, locks=6, regression=1.8, bad_batch=3.0, missing=3)
    found = report(truth, replace(A_DAY, group_by=("cpu_model", "host")))
    hidden = Redactor().fleet(found)
    words = {one.value: other.value for one, other in zip(found.groups, hidden.groups, strict=True) if one.by == "host"}
    assert len(set(words.values())) == len(words) == 27
    for lock, other in zip(found.locks, hidden.locks, strict=True):
        assert [(words[host], share) for host, share in lock.spread.worst] == list(other.spread.worst)
    assert [(one.value, one.effect) for one in hidden.effects] == [(one.value, one.effect) for one in found.effects]
    assert {one.host for one in hidden.missing}.isdisjoint(words.values())
    code, shown, told = run("report", fleet, "--redact")
    assert (code, shown, told) == (1, "", "lockline: --redact needs --html FILE\n")


def test_a_container_is_redacted() -> None:
    found = replace(report(Truth(**SMALL)), container="heron-7f")
    assert "heron-7f" in make_fleet_page(found, Writer(ASCII))
    assert "heron-7f" not in make_fleet_page(found, Writer(ASCII), redact=True)


@pytest.mark.parametrize(
    "options",
    [
        ("--host", "nobody"),
        ("--since", "2030-01-01"),
        ("--since", "2025-11-10", "--until", "2025-11-09"),
        ("--container", "none"),
        ("--expect", "/nonexistent"),
    ],
)
def test_what_cannot_be_answered_is_one_line(fleet: Path, options: tuple[str, ...]) -> None:
    code, shown, told = run("report", fleet, *options)
    assert (code, shown) == (1, "")
    assert told.startswith("lockline: ")
    assert told.count("\n") == 1


def test_sql(fleet: Path) -> None:
    code, shown, _ = run(
        "sql", fleet, "SELECT host, sum(waits) AS n FROM waits GROUP BY host ORDER BY 1", "--format", "csv"
    )
    assert code == 0
    assert shown.splitlines()[0] == "host,n"
    assert len(shown.splitlines()) == 9
    every = " UNION ALL ".join(f"SELECT '{view}', count(*) FROM {view}" for view in (*TABLES, *VIEWS))
    assert run("sql", fleet, every)[0] == 0
    code, shown, _ = run("sql", fleet, "SELECT sum(share) AS share FROM lock_shares", "--format", "csv")
    total = json.loads(run("report", fleet, "--format", "json")[1])["share"]
    assert float(shown.splitlines()[1]) == pytest.approx(total, rel=1e-6)


def test_sql_tells_where_no_intervals_were_kept(tmp_path: Path) -> None:
    [day, *_] = host_days(Truth(hosts=1, locks=1))
    assert run("add", tmp_path / "fleet", record(tmp_path / "a.data", day))[0] == 0
    code, shown, told = run("sql", tmp_path / "fleet", "SELECT count(*) AS n FROM waits", "--format", "csv")
    assert (code, shown) == (0, "n\n0\n")
    assert told.startswith("lockline: waits: ")
    assert "--intervals" in told
    assert run("sql", tmp_path / "fleet", "SELECT sum(waits) AS n FROM lock_hours")[2] == ""


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO 'DIR/new.csv'",
        "CREATE TABLE x AS SELECT 1",
        "SELECT 1; SELECT 2",
        "SET enable_external_access = true",
        "ATTACH 'DIR/x.db'",
        "INSTALL httpfs",
        "SELECT",
        "",
    ],
)
def test_sql_only_reads_the_fleet(fleet: Path, query: str) -> None:
    before = sorted(fleet.rglob("*"))
    code, shown, told = run("sql", fleet, query.replace("DIR", str(fleet)))
    assert (code, shown) == (1, "")
    assert told.startswith("lockline: sql: ")
    assert told.count("\n") == 1
    assert sorted(fleet.rglob("*")) == before


def test_long_commands_tell_on_a_terminal_what_they_do(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    @contextmanager
    def note(words: str | Callable[[], str]) -> Iterator[None]:
        told.append(words if isinstance(words, str) else words())
        yield
        told.extend([] if isinstance(words, str) else [words()])

    monkeypatch.setattr(progress, "progress", note)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    [day, *_] = host_days(Truth(hosts=1, locks=1))
    recording = record(tmp_path / "a.data", day)
    sides = "--before", "release=v1", "--after", "release=v2"
    commands = (
        ("add", tmp_path / "new", recording, recording),
        ("report", fleet),
        ("report", fleet, "--html", tmp_path / "page"),
        ("diff", fleet, *sides),
        ("sql", fleet, "SELECT 1"),
        ("migrate", fleet),
    )
    for command in commands:
        assert main(["fleet", *map(str, command)]) in (0, 2)
    assert told == [
        "adding recordings, 0 of 2",
        "adding recordings, 2 of 2",
        "reading the fleet",
        "making the page",
        "comparing hosts",
        "asking",
        "migrating",
    ]
    # What stderr gets is the line of progress alone.
    assert capfd.readouterr().err == ""


def as_schema_1(directory: Path) -> None:
    """The same directory as lockline made it before release and role."""
    for place in places(directory):
        file = place.path / "recordings.parquet"
        with duckdb.connect() as connection:
            relation = connection.read_parquet(str(file), hive_partitioning=False)
            columns = [name for name in relation.columns if name not in ("release", "role")]
            relation.project(", ".join(columns)).write_parquet(str(file) + ".old")
        Path(str(file) + ".old").replace(file)
    (directory / MARKER).write_text(json.dumps({"lockline-fleet": 1}))


def test_an_older_schema_is_migrated(tmp_path: Path) -> None:
    recordings = [record(tmp_path / f"{n}.data", day) for n, day in enumerate(host_days(Truth(hosts=2, locks=2)))]
    directory = tmp_path / "fleet"
    assert run("add", directory, *recordings)[0] == 0
    expected = run("report", directory)[1]
    as_schema_1(directory)
    for command in (("report", directory), ("sql", directory, "SELECT 1"), ("add", directory, recordings[0])):
        code, _, told = run(*command)
        assert code == 1
        assert "has schema 1; bring it to 2 with: lockline fleet migrate" in told
    # As after a migration that was stopped: one file is new, the marker is old.
    [first, *_] = places(directory)
    with duckdb.connect() as connection:
        from lockline.fleet.migrate import _STEPS

        _STEPS[1](connection, first)
    assert run("migrate", directory) == (0, "schema 1 is now 2\n", "")
    assert run("migrate", directory) == (0, "has schema 2 already\n", "")
    assert run("report", directory)[1] == expected
    with duckdb.connect() as connection:
        for place in places(directory):
            relation = connection.read_parquet(str(place.path / "recordings.parquet"), hive_partitioning=False)
            assert tuple(zip(relation.columns, map(str, relation.types), strict=True)) == TABLES["recordings"]
