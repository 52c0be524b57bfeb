# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases by their seed, and what lockline's verdicts on them are worth."""

import random
import re
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from c2c import imported, report_text
from c2c.report_text import Style
from lab import texts
from lab.caches import Machine, Program, moves_of_lines, play
from lab.pmus import Pmu, Sample, make_pmu, sample
from lab.programs import Truth, make_program
from lockline.base.errors import LocklineError
from lockline.c2c.model import C2cReport, LineReport
from lockline.c2c.report import make_c2c_report
from lockline.c2c.text_import import import_text
from lockline.c2c.users import named
from lockline.recording.reader import open_recording

# Functions whose names tell that there is a lock.
_LOCKS = re.compile("spin_lock|mutex_|down_write")
STEPS = 9000
# A line is costly if it comes from another core for so many of its accesses.
COSTLY = 0.01
KINDS = (
    *("perf.data", "default", "default", "-N", "-NN", "-c tid,iaddr", "-NN -c tid,iaddr", "-d lcl", "-d rmt"),
    *("perf 4.10", "perf 5.4", "perf 5.11", "perf 5.17", "-c pid,iaddr", "browser", "browser 5.4", "no symbols"),
    *("statistics", "table", "cut columns", "cut end", "rows alone", "mangled", "mangled", "mangled"),
    *("excerpt", "large rows"),
)


@dataclass(frozen=True)
class World:
    """A program, run and sampled.  gains: share of each line's moves that end when its variables are apart.

    costs: moves per access."""

    program: Program
    machine: Machine
    pmu: Pmu
    base: int
    samples: Sequence[Sample]
    truths: dict[int, Truth]
    gains: dict[int, float]
    costs: dict[int, float]


def make_world(seed: int) -> World:
    """A world of its own for each seed."""
    rng = random.Random(seed)
    program, truths, pairs = make_program(rng)
    cpus = max(4, program.threads + rng.choice((0, 2, 8)))
    machine = Machine(cpus, rng.choice((1, 1, 2)), adjacent=pairs)
    return world_of(program, truths, machine, make_pmu(rng), rng, seed)


def world_of(
    program: Program, truths: dict[int, Truth], machine: Machine, pmu: Pmu, rng: random.Random, seed: int
) -> World:
    """The world of this program."""
    before = play(program, machine, STEPS, seed)
    after = play(program, machine, STEPS, seed, apart=True)
    was, now = moves_of_lines(program, before), moves_of_lines(program, after, before)
    gains = {line: 1 - now[line] / was[line] if was[line] else 0.0 for line in was}
    base = (0xFFFF888100000000 if program.kernel else 0x7F1200000000) + 0x1000 * rng.randrange(1 << 16)
    return World(program, machine, pmu, base, sample(program, before.events, pmu, base, rng), truths, gains, was)


def right_verdicts(world: World, number: int, names: bool = True) -> set[str]:
    """The verdicts that are true of a line; one between both kinds of sharing may be called either.

    names: whether the input names functions: without names no lock can be told from other shared bytes.
    """
    truth, gain, cost = world.truths[number], world.gains[number], world.costs[number]
    quiet = {"read mostly", "none"} if cost < COSTLY else set()
    if truth == "lock":
        return {"lock word", "true sharing"} | quiet
    if truth == "both":
        named = names and any(_LOCKS.search(sample.function) for sample in world.samples)
        return {"lock word", "false sharing"} | (set() if named else {"true sharing"}) | quiet
    if truth == "adjacent":
        return {"adjacent line"} | quiet
    if truth in ("read mostly", "migrating", "quiet"):
        return {"read mostly", "none"}
    if gain > 0.45:
        return {"false sharing"} | quiet
    if truth == "true" and gain < 0.1:
        return {"true sharing"} | quiet
    return {"true sharing", "false sharing"} | quiet


@dataclass(frozen=True)
class Outcome:
    """One line's verdict against the truth; verdict: '' if the report does not have the line at all."""

    seed: int
    kind: str
    what: str
    truth: str
    verdict: str
    confidence: str
    result: str  # right | wrong | cannot tell | not listed
    stores: str  # sampled | not sampled, or hardly


@dataclass(frozen=True)
class Reading:
    """Rows of a text, and how many of them were read; told: whether the report says that some were not."""

    seed: int
    kind: str
    rows: int
    read: int
    told: bool


def _text(world: World, kind: str, rng: random.Random) -> tuple[str, str, str]:
    """A text of this kind, the name of the kind, and what was done to it."""
    how = ""
    display = "peer" if world.pmu.family == "spe" else "tot"
    style = texts.STYLES.get(kind, Style("6.1"))
    if display == "peer":
        style = Style("6.1", True, "", style.browser, style.node_info, style.pid, style.tid)
    if kind in ("-d lcl", "-d rmt") and display != "peer":
        display = kind[3:]
    threads = style.tid
    if kind == "mangled":
        style = Style("6.1", display == "peer", node_info=rng.choice((0, 1, 2)), pid=rng.random() < 0.3)
        how = rng.choice(list(texts.LOSSLESS))
    report, _ = texts.report_of(
        world.samples, world.program, world.machine, world.pmu, threads, display, kind != "no symbols"
    )
    if kind == "statistics":
        text = report_text.statistics(report, style)
    elif kind == "table":
        text = report_text.statistics(report, style) + "\n" + report_text.table(report, style)
    else:
        text = report_text.text(report, style)
    changes = {"cut columns": texts.cut_columns, "cut end": texts.cut_lines, "rows alone": texts.rows_alone}
    changes |= {"excerpt": texts.excerpt, "large rows": texts.large_rows}
    if kind in changes:
        text = changes[kind](text, rng)
    if how:
        text = texts.LOSSLESS[how](text, rng)
    return text, f"mangled: {how}" if how else kind, how


def _report(
    world: World, kind: str, rng: random.Random, directory: Path
) -> tuple[C2cReport | None, str, Reading | None]:
    recording = directory / "recording"
    rows = 0
    if kind == "perf.data":
        path = directory / "perf.data"
        symbols = texts.perf_data(world.samples, world.program, world.machine, world.pmu, path)
        done = imported.run(path, recording, ["--kallsyms", str(symbols)] if symbols else [])
        if done.returncode:
            raise RuntimeError(done.stderr)
        name = kind
    else:
        text, name, how = _text(world, kind, rng)
        path = directory / "text"
        path.write_text(text, encoding="utf-8")
        rows = texts.pareto_rows(text) if not how.startswith("wrapped") else 0
        try:
            import_text(path, recording)
        except LocklineError:
            return None, name, Reading(0, name, rows, 0, True)
    with open_recording(recording) as opened:
        report = make_c2c_report(opened, 30)
    with closing(sqlite3.connect(recording)) as connection:
        (read,) = connection.execute("SELECT count(*) FROM memory_access WHERE offset >= 0").fetchone()
    return report, name, Reading(0, name, rows, read, bool(report.problems))


def _result(verdict: str, right: set[str]) -> str:
    if verdict == "too little evidence":
        return "cannot tell"
    return "right" if verdict in right else "wrong"


def run_case(seed: int, kinds: Sequence[str] = KINDS, each: int = 3) -> Iterator[Outcome | Reading]:
    """The outcomes of one world, in some kinds of input."""
    yield from judge_world(make_world(seed), seed, kinds, each)


def judge_world(world: World, seed: int, kinds: Sequence[str], each: int) -> Iterator[Outcome | Reading]:
    """The outcomes of this world."""
    rng = random.Random(seed * 7919 + 1)
    chosen = dict.fromkeys(rng.choice(kinds) for _ in range(each))
    for kind in chosen:
        with tempfile.TemporaryDirectory() as directory:
            report, name, reading = _report(world, kind, rng, Path(directory))
        if reading is not None and kind != "perf.data":
            yield Reading(seed, name, reading.rows, reading.read, reading.told)
        lines = {line.line.address: line for line in report.lines} if report else {}
        for number in sorted(world.truths):
            yield outcome(world, seed, name, number, lines.get(world.base + 64 * number))


def outcome(world: World, seed: int, kind: str, number: int, line: LineReport | None) -> Outcome:
    """What the verdict on one line is worth."""
    # A column of functions may have been cut off.
    names = line is not None and any(named(access) for access in line.line.accesses)
    right = right_verdicts(world, number, names)
    truth = f"{world.truths[number]} ({world.gains[number]:.2f})"
    sampled = sum(sample.kind.store for sample in world.samples)
    stores = "sampled" if 50 * sampled > len(world.samples) else "not sampled, or hardly"
    if line is None:
        return Outcome(seed, kind, world.program.name, truth, "", "", "not listed", stores)
    judgement = line.judgement
    result = _result(judgement.verdict, right)
    return Outcome(seed, kind, world.program.name, truth, judgement.verdict, judgement.confidence, result, stores)


RESULTS = ("right", "wrong", "cannot tell")


def table(outcomes: Iterable[Outcome], by: str) -> str:
    """A table of Markdown: how many lines by one of an outcome's members, and the shares of each result."""
    groups: dict[str, Counter[str]] = {}
    for one in outcomes:
        if one.result == "not listed":
            continue
        kind = "mangled" if one.kind.startswith("mangled") else one.kind
        keys = {"verdict": f"{one.verdict} | {one.confidence}", "kind": f"{kind} | {one.stores}"}
        key = keys.get(by) or str(getattr(one, by))
        groups.setdefault(key, Counter())[one.result] += 1
    head = {"verdict": "verdict | confidence", "kind": "kind of input | stores"}.get(by, by)
    lines = [f"| {head} | lines | right | wrong | cannot tell |", "| --- " * (head.count("|") + 5) + "|"]
    for key in sorted(groups):
        counts = groups[key]
        every = sum(counts.values())
        lines.append(f"| {key} | {every} | " + " | ".join(f"{counts[name] / every:.0%}" for name in RESULTS) + " |")
    return "\n".join(lines)


def note(text: str) -> None:
    """A word about the progress."""
    print(text, file=sys.stderr)
