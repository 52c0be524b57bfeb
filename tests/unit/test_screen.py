# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen: an answer always, within 24 lines of 80 columns."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lockline.analysis.answer import CONFIDENCE, by_impact, make_answer
from lockline.analysis.findings import Finding, Impact, Lock, fact, remedy
from lockline.analysis.model import TOTALS_DISAGREE, Figures, KindWaits, LockWaits, Report
from lockline.analysis.selection import Selection
from lockline.analysis.series import Slice, read_slices
from lockline.base.text import Style, width
from lockline.cli import main as cli
from lockline.cli import terminal
from lockline.cli.report import SECTIONS
from lockline.recording.reader import open_recording
from lockline.recording.rows import Cost, Loss
from lockline.render import screen
from lockline.rules.report import make_report
from rule_cases import MS, RWSEM_W, Made

UNICODE = Style(unicode=True)
SECOND = 1_000_000_000


def read(path: Path) -> tuple[Report, tuple[Slice, ...]]:
    with open_recording(path) as recording:
        report = make_report(recording, Selection(), 5)
        return report, read_slices(recording, report)


def figures(waits: int, wait_ns: int, max_ns: int) -> Figures:
    histogram = [0] * 128
    histogram[40] = waits
    return Figures(waits, wait_ns, max_ns, 0, tuple(histogram))


def lock(name: str, kind: str, waits: int, wait_ns: int, max_ns: int) -> LockWaits:
    return LockWaits((1,), name, kind, "symbol", 1, "", 0, None, figures(waits, wait_ns, max_ns), 0, wait_ns)


def report_of(report: Report, *locks: LockWaits) -> Report:
    """A report of four seconds with these locks and nothing else."""
    by_kind: dict[str, list[LockWaits]] = {}
    for one in locks:
        by_kind.setdefault(one.kind, []).append(one)

    def total(some: list[LockWaits]) -> Figures:
        return figures(
            sum(one.figures.waits for one in some),
            sum(one.figures.wait_ns for one in some),
            max((one.figures.max_ns for one in some), default=0),
        )

    begin = report.window.begin_ns
    window = replace(report.window, end_ns=begin + 4 * SECOND, recording_end_ns=begin + 4 * SECOND, cpus=4)
    return replace(
        report,
        window=window,
        totals=total(list(locks)),
        kinds=tuple(KindWaits(kind, None, total(some)) for kind, some in by_kind.items()),
        locks=tuple(locks),
        outliers=(),
        outlier_count=0,
        findings=(),
        futexes=None,
        loss=(),
    )


def lines_of(report: Report, slices: tuple[Slice, ...] = (), columns: int = 80) -> list[str]:
    return screen.render(report, slices, UNICODE, columns).splitlines()


def test_a_filtered_recording_says_what_it_is_of(example: Path) -> None:
    """What was not recorded is not said to be absent, waits or none."""
    report, slices = read(example)
    chosen = replace(report, window=replace(report.window, wait_filter="-L mmap_lock"))
    for shown in (chosen, report_of(chosen)):
        text = " ".join(" ".join(lines_of(shown, slices)).split())
        assert "Only of the waits that -L mmap_lock chose: " in text
        assert "every lock wait was counted" not in text
    assert "other waits were not recorded" in " ".join(screen.trust_words(report_of(chosen), False).split())
    seen = replace(report_of(report), probes=(), locks=())
    assert "every lock wait was counted" in screen.trust_words(seen, False)


def test_reads_that_did_not_end_are_told(example: Path) -> None:
    """A process whose memory never comes has no names."""
    report, _ = read(example)
    for reads, words in ((1, "1 read of a process's memory or files did not end"), (3, "3 reads of processes did not")):
        cost = replace(report.cost, collector=(Cost("reads_given_up", reads, "reads"),))
        assert words in screen.trust_words(replace(report, cost=cost), False)
    assert "did not end" not in screen.trust_words(report, False)


def test_waits_before_a_name_are_told(example: Path) -> None:
    report, _ = read(example)
    report = replace(report, loss=(Loss("unnamed", 1234, "", "info"),))
    assert "1,234 waits came before the lock had a name" in screen.trust_words(report, False)
    one = replace(report, loss=(Loss("unnamed", 1, "", "info"),))
    assert "1 wait came before the lock had a name" in screen.trust_words(one, False)


@pytest.mark.parametrize(("added", "words"), [(1, "1 CPU"), (3, "3 CPUs")])
def test_cpus_that_came_later_are_told(example: Path, added: int, words: str) -> None:
    """Whatever else was counted: how many waits these had is not known."""
    report, _ = read(example)
    losses = (Loss("cpus_added", added, "", "loss"), Loss("too_deep", 1, "", "loss"))
    report = replace(report_of(report), kinds=(KindWaits("spinlock", 10_000_000, figures(0, 0, 0)),), loss=losses)
    said = screen.trust_words(report, False)
    assert f"no waits on {words} that came later" in said
    assert "nearly complete" not in said


def test_totals_that_disagree_are_a_length(example: Path) -> None:
    """It said "lost: 3.00G of report: totals disagree": nothing was lost, and that is no count."""
    report, _ = read(example)
    kinds = (KindWaits("spinlock", 10_000_000, figures(0, 0, 0)),)
    report = replace(report_of(report), kinds=kinds, loss=(Loss(TOTALS_DISAGREE, 3 * SECOND, "", "loss"),))
    said = screen.trust_words(report, False)
    assert "totals of locks and of CPUs differ by 3.00 s: one of them is wrong" in said
    assert "lost" not in said


@pytest.mark.parametrize(
    ("name", "meaning", "told"),
    [
        ("futex_not_looked", "threads", "lost: perhaps waits that began before, of 374 threads not looked at"),
        ("memory_nested", "memory samples {skipped}: they came", "lost: 374 memory samples {skipped}"),
        ("new_one", "", "lost: 374 of new one"),
    ],
)
def test_a_loss_is_told_in_words(example: Path, name: str, meaning: str, told: str) -> None:
    """Without words here, in those of the recording: "374 of futex not looked" was none of a reader's."""
    report, _ = read(example)
    report = replace(report_of(report), kinds=(), loss=(Loss(name, 374, meaning, "loss"),))
    assert told in screen.trust_words(report, False)


def test_the_answer_stands_on_the_third_line(example: Path) -> None:
    lines = lines_of(*read(example))
    assert lines[2].startswith("ANSWER  ")
    assert len(lines) <= 24


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120])
@pytest.mark.parametrize("name", ["example", "generated"])
def test_no_line_is_wider_than_the_terminal(name: str, columns: int, request: pytest.FixtureRequest) -> None:
    report, slices = read(request.getfixturevalue(name))
    lines = lines_of(report, slices, columns)
    assert max(map(width, lines)) <= columns
    if columns >= 80:
        assert len(lines) <= 24


def test_many_findings_leave_room_for_the_locks(generated: Path) -> None:
    report, slices = read(generated)
    subject = Lock("a_lock_of_a_very_long_name_that_does_not_end", "spinlock")
    found = Finding(
        "convoy",
        subject,
        "high",
        fact("convoy", lock=subject),
        (fact("held-by-nobody-known"),)[:0],
        (remedy("take-less-often"),),
        Impact(report.totals.wait_ns // 2),
    )
    lines = lines_of(replace(report, findings=(found,) * 9), slices)
    assert len(lines) <= 24
    assert any(line.startswith("LOCKS") for line in lines)
    assert any(line.startswith(" 1 high") for line in lines)


@pytest.mark.parametrize(
    ("wait_ns", "small"), [(1_080_000_000, ", a small effect: 0.27 threads)"), (4_000_000_000, "")]
)
def test_a_sure_cause_of_a_small_effect(example: Path, wait_ns: int, small: str) -> None:
    """Of four seconds; that a cause is sure does not say that it matters."""
    report, _ = read(example)
    subject = Lock("gil", "mutex")
    found = Finding(
        "gil-bound", subject, "high", fact("convoy", lock=subject), (), (remedy("take-less-often"),), Impact(wait_ns)
    )
    one = replace(report_of(report, lock("gil", "mutex", 9_000, wait_ns, 900_000)), findings=(found,))
    text = " ".join(" ".join(lines_of(one)).split())
    assert " 1 high " in text
    assert ("a small effect" in text) == bool(small)
    assert small in text


def test_quiet_is_an_answer(example: Path) -> None:
    report, _ = read(example)
    quiet = report_of(report, lock("rq", "spinlock", 21, 89_000, 9_000))
    assert make_answer(quiet).kind == "negligible"
    text = " ".join(" ".join(lines_of(quiet)).split())
    assert "negligible: 21 waits, 89.0 us in 4.00 s" in text
    assert "under 1% of one thread's time" in text
    assert make_answer(report_of(report)).kind == "negligible"


def test_one_short_wait_is_one(example: Path) -> None:
    report, _ = read(example)
    text = " ".join(" ".join(lines_of(report_of(report, lock("a_lock", "mutex", 1, 1000, 1000)))).split())
    assert "is negligible: 1 wait of 1.00 us in" in text


def test_one_long_wait_is_not_negligible(example: Path) -> None:
    report, _ = read(example)
    one = report_of(report, lock("mmap_lock", "rwsem:W", 1, 12_000_000, 12_000_000))
    assert make_answer(one).kind == "one lock"
    assert "Single waits are long" in " ".join(" ".join(lines_of(one)).split())


def test_one_lock_and_what_it_costs(example: Path) -> None:
    report, _ = read(example)
    hot = report_of(
        report,
        lock("tasklist_lock", "rwlock:W", 800_000, 3 * SECOND, 90_000),
        lock("other", "mutex", 100, SECOND // 10, 5_000_000),
    )
    answer = make_answer(hot)
    assert (answer.kind, answer.locks[0].name) == ("one lock", "tasklist_lock")
    assert answer.cost.spinning_cpus == pytest.approx(0.75)
    assert answer.cost.sleeping_threads == pytest.approx(0.025)
    assert answer.cost.machine == pytest.approx(0.75 / 4)
    text = " ".join(" ".join(lines_of(hot)).split())
    assert "One lock makes 97% of all lock waiting: tasklist_lock (rwlock:W)" in text
    assert "lockline explain tasklist_lock" in text
    assert "Spinning burns 75.0% of one CPU (18.8% of 4 CPUs)" in text


def test_several_locks_are_named(example: Path) -> None:
    report, _ = read(example)
    several = report_of(report, *(lock(f"lock{n}", "mutex", 50, SECOND, 30_000_000) for n in range(3)))
    answer = make_answer(several)
    assert answer.kind == "several"
    assert {one.name for one in answer.locks} == {"lock0", "lock1", "lock2"}
    many = report_of(report, *(lock(f"lock{n}", "mutex", 50, SECOND, 30_000_000) for n in range(30)))
    assert make_answer(many).locks == ()
    assert "Many locks share the waiting: none of 30" in " ".join(lines_of(many))


def test_too_short_a_recording_says_so(example: Path) -> None:
    report, _ = read(example)
    short = report_of(report, lock("rq", "spinlock", 5, 1000, 500))
    short = replace(short, window=replace(short.window, end_ns=short.window.begin_ns + 1_000_000))
    assert make_answer(short).kind == "not enough recorded"
    assert "Not enough recorded" in " ".join(lines_of(short))


def test_a_short_recording_of_many_waits_says_something(example: Path) -> None:
    """A step of `lockline why` ends early where events are so many that they cost too much."""
    report, _ = read(example)

    def kind(waits: int, ms: int) -> str:
        short = report_of(report, lock("rq", "spinlock", waits, 30_000_000, 1_000_000))
        short = replace(short, window=replace(short.window, end_ns=short.window.begin_ns + ms * 1_000_000))
        return make_answer(short).kind

    assert kind(90, 150) == "one lock"
    assert kind(40, 150) == kind(90, 40) == "not enough recorded"
    assert kind(40, 250) == "one lock"


def test_findings_come_by_impact_times_confidence() -> None:
    def found(rule: str, confidence: str, wait_ns: int) -> Finding:
        subject = Lock(rule)
        return Finding(rule, subject, confidence, fact("convoy", lock=subject), (), (), Impact(wait_ns))  # type: ignore[arg-type]

    trivial, huge, sure = found("trivial", "high", 10), found("huge", "medium", 1000), found("sure", "high", 900)
    assert [one.rule for one in by_impact((trivial, huge, sure))] == ["sure", "huge", "trivial"]
    assert CONFIDENCE["high"] > CONFIDENCE["medium"] > CONFIDENCE["low"] > 0


def test_lengths_below_the_trusted_one_are_marked(example: Path) -> None:
    report, _ = read(example)
    short = report_of(report, lock("rq", "spinlock", 5000, SECOND, 500))
    handoff = replace(report.trust.spinning, trusted_ns=100_000)
    text = " ".join(" ".join(lines_of(replace(short, trust=replace(report.trust, spinning=handoff)))).split())
    assert "500 ns~" in text
    assert "; ~ times may be over 10% off; see --trust" in text
    handoff = replace(report.trust.spinning, trusted_ns=100)
    assert "~" not in "\n".join(lines_of(replace(short, trust=replace(report.trust, spinning=handoff))))


def test_a_terminal_without_unicode_gets_ascii(generated: Path) -> None:
    report, slices = read(generated)
    assert screen.render(report, slices, Style(), 80).isascii()


def test_hostile_names_are_harmless(example: Path) -> None:
    report, _ = read(example)
    hot = report_of(report, lock("\x1b[31mred\n\u202e", "mutex", 100, 3 * SECOND, 30_000_000))
    text = "\n".join(lines_of(hot))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_worst_interval_can_be_zoomed_into(generated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(generated), "--time"]) == 0
    command = capsys.readouterr().out.splitlines()[-1].strip().removeprefix("worst: ")
    assert cli.main([*shlex.split(command)[1:], "--format", "json"]) == 0
    assert '"intervals": 1' in capsys.readouterr().out.replace('"intervals":1', '"intervals": 1')


def test_slices_add_up_to_the_totals(generated: Path) -> None:
    report, slices = read(generated)
    assert sum(part.waits for part in slices) == report.totals.waits
    assert sum(part.wait_ns for part in slices) == report.totals.wait_ns
    with open_recording(generated) as recording:
        chosen = make_report(recording, Selection(kinds=("spinlock",)), 5)
        spinning = read_slices(recording, chosen)
    assert sum(part.wait_ns for part in spinning) == chosen.totals.wait_ns
    assert all(part.spinning_ns == part.wait_ns for part in spinning)


def test_each_slice_names_the_heaviest_lock_of_its_name_and_kind(generated: Path) -> None:
    """Added up here row by row, as the database does it."""
    sums: dict[int, dict[tuple[str, str], int]] = {}
    with open_recording(generated) as recording:
        _, slices = read(generated)
        locks, kinds = recording.locks(), recording.kinds()
        for row in recording.interval_sums(None):
            by_lock = sums.setdefault(row.interval, {})
            key = locks[row.lock].name, kinds[row.kind]
            by_lock[key] = by_lock.get(key, 0) + row.wait_ns
    assert sums
    for interval, part in enumerate(slices, 1):
        assert part.wait_ns == sum(sums[interval].values())
        assert part.heaviest_ns == max(sums[interval].values())
        assert sums[interval][part.heaviest, part.heaviest_kind] == part.heaviest_ns


def test_of_a_long_recording_some_intervals_are_read(generated: Path) -> None:
    report, slices = read(generated)
    with open_recording(generated) as recording:
        some = read_slices(recording, report, 1)
        every = read_slices(recording, report, 1 << 40)
    # The bars of the first screen name no locks.
    bars = [replace(part, spinning_ns=0, heaviest="", heaviest_kind="", heaviest_ns=0) for part in slices]
    assert list(every) == bars
    assert 0 < len(some) < len(slices)
    assert set(some) <= set(bars)
    lines = lines_of(report, slices[::2])
    (line,) = [line for line in lines if line.startswith("TIME")]
    assert "1 of 2 intervals; all: --time" in line
    assert "worst" not in line


@pytest.mark.parametrize("section", [name for name in SECTIONS if name not in ("all", "time")])
def test_each_section_stands_alone(section: str, example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(example), f"--{section}"]) == 0
    shown = capsys.readouterr().out
    assert shown.strip()
    assert "ANSWER" not in shown


def test_all_holds_every_section(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(example), "--all"]) == 0
    everything = capsys.readouterr().out
    for section in ("locks", "cpus", "tasks", "longest"):
        assert cli.main(["report", str(example), f"--{section}"]) == 0
        assert capsys.readouterr().out.splitlines()[0] in everything


def test_colours_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.wants_color("auto")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.wants_color("auto")
    assert terminal.wants_color("always")
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not terminal.wants_color("auto")


def test_the_c_locale_is_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", "C")
    assert not terminal.style().unicode


@pytest.mark.parametrize(("each_ms", "names_holder"), [(60, True), (100, False)])
def test_long_waits_of_seldom_waiters_ask_who_holds_it(
    made: Callable[..., Made], each_ms: int, names_holder: bool
) -> None:
    """Of one second: where nearly always somebody waits, who waits is who holds it too, and the atlas knows more."""
    recording = made()
    recording.builder.lock(1, "mm_struct.mmap_lock", "pid 7", "owner object")
    recording.waits(1, RWSEM_W, each_ms * MS // 10, 80)
    recording.builder.stack(1, "rwsem_down_write_slowpath", "vm_mmap_pgoff", "do_syscall_64")
    recording.sample(1, RWSEM_W, 1, 80, 80 * each_ms * MS // 10)
    report = recording.report()
    assert [found.rule for found in report.findings] == ["long-waits"]
    text = " ".join(screen.render(report, report.slices, Style(), 80).split())
    assert ("do `lockline record --episodes -d 30` shows who holds it" in text) == names_holder
    assert ("do let the allocator keep memory" in text) == (not names_holder)


@pytest.mark.parametrize(("beside_us", "one"), [(1, True), (200, False)])
def test_a_lock_with_all_the_waiting_of_its_name_is_one_lock(
    made: Callable[..., Made], beside_us: int, one: bool
) -> None:
    recording = made()
    for number, pid, length in ((1, 7, 10 * MS), (2, 9, beside_us * 1_000)):
        recording.builder.lock(number, "mm_struct.mmap_lock", f"pid {pid}", "owner object")
        recording.waits(number, RWSEM_W, length, 40)
    report = recording.report()
    text = " ".join(screen.render(report, report.slices, Style(), 80).split())
    assert ("One lock makes 100% of all lock waiting: mm_struct.mmap_lock [pid 7]" in text) == one
    assert ("2 locks of one name make 100%" in text) == (not one)
