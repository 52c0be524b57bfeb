# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases by their seed, and what lockline's verdicts on them are worth."""

import random
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from c2c import imported, report_text
from c2c.report_text import Style
from lab import texts
from lab.caches import Machine, Program, moves_of_lines, play
from lab.odd_texts import CODES, ODD, TABLES
from lab.pmus import Pmu, Sample, make_pmu, make_wide_pmu, sample
from lab.programs import LINES, Truth, make_program
from lab.signs import Signs, signs_of
from lab.wide import WIDE_LINES, make_wide_program
from lockline.base.errors import LocklineError
from lockline.c2c.model import C2cReport, LineReport
from lockline.c2c.report import make_c2c_report
from lockline.c2c.text_import import import_text
from lockline.c2c.users import named
from lockline.recording.reader import open_recording

# Functions whose names tell that there is a lock.
_LOCKS = re.compile(
    "spin_lock|mutex_|down_write|down_read|_lock_slowpath|lockref_|lockSlow|lock_slow|_lock_wait|s_lock"
)
STEPS = 6000
# What padding brings is the mean of so many runs: in one of them it is an accident which threads meet, on which CPUs.
RUNS = 5
# A line is costly if it comes from another core for so many of its accesses.
COSTLY = 0.01
# Padding that ends so much of a line's moves says that it was false sharing, or true sharing; between them it is mixed.
MOSTLY_FALSE = 0.45
MOSTLY_TRUE = 0.1
# So much of a line's moves ends without the prefetch of the other half: they are its neighbour's.
PAIRED = 0.45
# Files live here for a moment only.
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
KINDS = (
    *("perf.data", "default", "default", "-N", "-NN", "-c tid,iaddr", "-NN -c tid,iaddr", "-d lcl", "-d rmt"),
    *("perf 4.10", "perf 5.4", "perf 5.11", "perf 5.17", "-c pid,iaddr", "browser", "browser 5.4", "no symbols"),
    *("statistics", "table", "cut columns", "cut end", "rows alone", "mangled", "mangled", "odd", "odd"),
    *("excerpt", "large rows"),
)


@dataclass(frozen=True)
class World:
    """A program, run and sampled.  gains: share of each line's moves that end when its variables are apart.

    costs: moves per access, in the run that was sampled; pairs: share of the moves that end where no halves of pairs
    are fetched together; own: of the moves that stay then, the share that ends when the variables are apart, None if
    next to none stay.  wide: one of the programs of wide.py."""

    program: Program
    machine: Machine
    pmu: Pmu
    base: int
    samples: Sequence[Sample]
    truths: dict[int, Truth]
    gains: dict[int, float]
    costs: dict[int, float]
    pairs: dict[int, float]
    own: dict[int, float | None]
    wide: bool = False


def make_world(seed: int, wide: bool = False) -> World:
    """A world of its own for each seed; wide: of the programs, machines and ways of sampling of the second set."""
    rng = random.Random(seed)
    if wide:
        program, truths, pairs = make_wide_program(rng)
        cpus = rng.choice((4, 8, 16, 32, 64, 128, 256))
        # Data of each CPU have a place for each.
        for role in program.roles:
            for step in (step for choice in role.choices for step in choice if step.who == "cpu"):
                cpus = min(cpus, len(step.variables))
        machine = Machine(cpus, min(cpus // 2, rng.choice((1, 2, 4, 8))), adjacent=pairs)
        return world_of(program, truths, machine, make_wide_pmu(rng), rng, seed, True)
    program, truths, pairs = make_program(rng)
    cpus = max(4, program.threads + rng.choice((0, 2, 8)))
    machine = Machine(cpus, rng.choice((1, 1, 2)), adjacent=pairs)
    return world_of(program, truths, machine, make_pmu(rng), rng, seed)


def _sum(runs: Iterable[Mapping[int, float]]) -> dict[int, float]:
    sums: dict[int, float] = {}
    for run in runs:
        for line, moves in run.items():
            sums[line] = sums.get(line, 0.0) + moves
    return sums


def world_of(
    program: Program,
    truths: dict[int, Truth],
    machine: Machine,
    pmu: Pmu,
    rng: random.Random,
    seed: int,
    wide: bool = False,
) -> World:
    """The world of this program."""
    runs = [play(program, machine, STEPS, seed + number) for number in range(RUNS)]
    costs = moves_of_lines(program, runs[0])

    def with_work_of_runs(where: Machine, apart: bool) -> dict[int, float]:
        again = (play(program, where, STEPS, seed + number, apart) for number in range(RUNS))
        return _sum(moves_of_lines(program, after, before) for after, before in zip(again, runs, strict=True))

    was, now = _sum(moves_of_lines(program, run) for run in runs), with_work_of_runs(machine, apart=True)
    alone = with_work_of_runs(replace(machine, adjacent=False), apart=False) if machine.adjacent else was
    gains = {line: 1 - now[line] / was[line] if was[line] else 0.0 for line in costs}
    pairs = {line: 1 - alone[line] / was[line] if was[line] else 0.0 for line in costs}
    own = {line: 1 - now[line] / alone[line] if alone[line] > RUNS * COSTLY else None for line in costs}
    base = (0xFFFF888100000000 if program.kernel else 0x7F1200000000) + 0x1000 * rng.randrange(1 << 16)
    samples = sample(program, runs[0].events, pmu, base, rng)
    return World(program, machine, pmu, base, samples, truths, gains, costs, pairs, own, wide)


def truth_of(world: World, number: int) -> str:
    """What a line is, by the program, or where that leaves it open by what padding and prefetching do in the model."""
    truth, gain = world.truths[number], world.gains[number]
    if world.costs[number] < COSTLY or truth in ("read mostly", "migrating", "quiet"):
        return "quiet"
    if truth in ("lock", "both"):
        return truth
    if truth == "adjacent" or world.pairs[number] > PAIRED:
        return "adjacent"
    if gain > MOSTLY_FALSE:
        return "false"
    return "true" if gain < MOSTLY_TRUE else "mixed"


def _right_of_lock(world: World, number: int, names: bool) -> set[str]:
    """The verdicts that are true of a line with a lock: what padding ends is false sharing, what stays is the lock's.

    Where no name tells that it is a lock, what stays is true sharing.
    """
    first = world.base + 64 * number
    functions = {one.function for one in world.samples if first <= one.address < first + 64}
    named = names and any(map(_LOCKS.search, functions))
    gain = world.gains[number]
    stays = {"lock word"} | (set() if named else {"true sharing"})
    if gain < MOSTLY_TRUE:
        return stays
    return {"false sharing"} if gain > MOSTLY_FALSE else {"false sharing"} | stays


def right_verdicts(world: World, number: int, names: bool = True) -> frozenset[str]:
    """The verdicts that are true of a line; one between both kinds of sharing may be called either.

    names: whether the input names functions: without names no lock can be told from other shared bytes.
    """
    truth = truth_of(world, number)
    quiet = {"read mostly", "none"} if world.costs[number] < COSTLY else set()
    if truth == "quiet" and world.truths[number] in ("read mostly", "migrating", "quiet"):
        return frozenset(quiet | {"read mostly", "none"})
    if truth == "quiet":
        # It moves seldom: what it would suffer from if it moved more is right as well.
        truth = str(world.truths[number])
        if truth == "by model":
            truth = "false" if world.gains[number] > MOSTLY_FALSE else "mixed"
    locked = {"lock word"} if any(one.lock and one.line == number for one in world.program.variables) else set()
    if truth in ("lock", "both"):
        return frozenset(_right_of_lock(world, number, names) | quiet)
    # What the line suffers from besides its pair is true of it too.
    own = world.own[number]
    besides = {"false sharing"} if own is not None and own >= MOSTLY_TRUE else set()
    besides |= {"true sharing"} | locked if own is not None and own <= MOSTLY_FALSE else set()
    right = {
        "adjacent": {"adjacent line"} | besides,
        "false": {"false sharing"},
        "true": {"true sharing"} | locked,
        "mixed": {"true sharing", "false sharing"} | locked,
    }[truth]
    return frozenset(right | quiet)


class Outcome(NamedTuple):
    """One line's verdict against the truth; verdict: '' if the report does not have the line at all.

    pattern: of the line, among those that the program, what, is made of; costly: whether the line moves often; right:
    the verdicts that are true; signs: what the input tells of the line.
    """

    seed: int
    kind: str
    what: str
    pattern: str
    wide: bool
    truth: str
    gain: float
    costly: bool
    verdict: str
    confidence: str
    right: frozenset[str]
    result: str  # right | wrong | cannot tell | not listed | not sampled
    stores: str  # sampled | not sampled, or hardly
    signs: Signs


@dataclass(frozen=True)
class Reading:
    """Rows of a text, and how many of them were read; told: whether the report says that some were not."""

    seed: int
    kind: str
    rows: int
    read: int
    told: bool


class _Text(NamedTuple):
    """A text of some kind; name: the kind, with what was done to it; rows: of offsets that it has."""

    content: bytes
    name: str
    rows: int


def _style(world: World, kind: str, rng: random.Random) -> Style:
    if kind in ("mangled", "odd"):
        peer = world.pmu.family == "spe"
        return Style("6.1", peer, node_info=rng.choice((0, 1, 2)), pid=rng.random() < 0.3, tid=rng.random() < 0.3)
    style = texts.STYLES.get(kind, Style("6.1"))
    if world.pmu.family == "spe":
        return Style("6.1", True, "", style.browser, style.node_info, style.pid, style.tid)
    return style


def _text(world: World, kind: str, rng: random.Random) -> _Text:
    """A text of this kind."""
    display = "peer" if world.pmu.family == "spe" else "tot"
    if kind in ("-d lcl", "-d rmt") and display != "peer":
        display = kind[3:]
    style = _style(world, kind, rng)
    report, _ = texts.report_of(
        world.samples, world.program, world.machine, world.pmu, style.tid, display, kind != "no symbols"
    )
    if kind == "statistics":
        text = report_text.statistics(report, style)
    elif kind == "table":
        text = report_text.statistics(report, style) + "\n" + report_text.table(report, style)
    else:
        text = report_text.text(report, style)
    cuts = {"cut columns": texts.cut_columns, "cut end": texts.cut_lines, "rows alone": texts.rows_alone}
    cuts |= {"excerpt": texts.excerpt, "large rows": texts.large_rows}
    if kind in cuts:
        text = cuts[kind](text, rng)
    rows, code = texts.pareto_rows(text), "utf-8"
    changes = {"mangled": texts.LOSSLESS, "odd": ODD}.get(kind)
    if changes is None:
        return _Text(text.encode(), kind, rows)
    tables = [*TABLES, *CODES] if kind == "odd" else []
    how = rng.choice([*changes, *tables])
    if how in TABLES:
        text = TABLES[how](report, style, rng)
    elif how in CODES:
        code = CODES[how]
    else:
        text = changes[how](text, rng)
    return _Text(text.encode(code, "replace"), f"{kind}: {how}", rows)


def _report(
    world: World, kind: str, rng: random.Random, directory: Path
) -> tuple[C2cReport | None, str, Reading | None]:
    recording = directory / "recording"
    name, rows = kind, 0
    if kind == "perf.data":
        path = directory / "perf.data"
        symbols = texts.perf_data(world.samples, world.program, world.machine, world.pmu, path)
        done = imported.run(path, recording, ["--kallsyms", str(symbols)] if symbols else [])
        if done.returncode:
            raise RuntimeError(done.stderr)
    else:
        content, name, rows = _text(world, kind, rng)
        path = directory / "text"
        path.write_bytes(content)
        try:
            import_text(path, recording)
        except LocklineError:
            return None, name, Reading(0, name, rows, 0, True)
    with open_recording(recording) as opened:
        report = make_c2c_report(opened, 30)
    with closing(sqlite3.connect(recording)) as connection:
        (read,) = connection.execute("SELECT count(*) FROM memory_access WHERE offset >= 0").fetchone()
    return report, name, Reading(0, name, rows, read, bool(report.problems))


def _result(verdict: str, right: frozenset[str]) -> str:
    if verdict == "too little evidence":
        return "cannot tell"
    return "right" if verdict in right else "wrong"


def run_case(seed: int, kinds: Sequence[str] = KINDS, each: int = 3, wide: bool = False) -> Iterator[Outcome | Reading]:
    """The outcomes of one world, in some kinds of input."""
    yield from judge_world(make_world(seed, wide), seed, kinds, each)


def judge_world(world: World, seed: int, kinds: Sequence[str], each: int) -> Iterator[Outcome | Reading]:
    """The outcomes of this world, in so many kinds of input that are chosen by lot."""
    rng = random.Random(seed * 7919 + 1)
    names = list(dict.fromkeys(kinds))
    weights = [kinds.count(name) for name in names]
    chosen: list[str] = []
    while len(chosen) < min(each, len(names)):
        (kind,) = rng.choices(names, weights)
        if kind not in chosen:
            chosen.append(kind)
    for kind in chosen:
        with tempfile.TemporaryDirectory(dir=_MEMORY) as directory:
            report, name, reading = _report(world, kind, rng, Path(directory))
        if reading is None:
            reading = Reading(0, name, 0, 0, True)
        yield replace(reading, seed=seed)
        lines = {line.line.address: line for line in report.lines} if report else {}
        for number in sorted(world.truths):
            yield outcome(world, seed, name, number, lines.get(world.base + 64 * number))


def pattern_of(world: World, number: int) -> str:
    """The name of what makes a line."""
    return world.program.name.split(" + ")[number // (WIDE_LINES if world.wide else LINES)]


def _shows(world: World, number: int) -> bool:
    """Whether any sample shows that the line moves."""
    first = world.base + 64 * number
    return any(
        first <= one.address < first + 64 and {"lcl_hitm", "rmt_hitm", "lcl_peer", "rmt_peer"} & set(one.kind.counts)
        for one in world.samples
    )


def outcome(world: World, seed: int, kind: str, number: int, line: LineReport | None) -> Outcome:
    """What the verdict on one line is worth."""
    # A column of functions may have been cut off.
    names = line is not None and any(named(access) for access in line.line.accesses)
    right = right_verdicts(world, number, names)
    sampled = sum(sample.kind.store for sample in world.samples)
    verdict = line.judgement.verdict if line else ""
    return Outcome(
        seed,
        kind,
        world.program.name,
        pattern_of(world, number),
        world.wide,
        truth_of(world, number),
        world.gains[number],
        world.costs[number] >= COSTLY,
        verdict,
        line.judgement.confidence if line else "",
        right,
        _result(verdict, right) if line else "not listed" if _shows(world, number) else "not sampled",
        "sampled" if 50 * sampled > len(world.samples) else "not sampled, or hardly",
        signs_of(line.line) if line else Signs(),
    )
