# SPDX-License-Identifier: GPL-2.0-or-later
"""An investigation's story: kept and read again, on the screen, as a page, without names."""

import argparse
import ast
import html
import json
from dataclasses import replace
from pathlib import Path

import pytest

import lockline.investigation
from lockline.analysis.findings import Process, UserLock, fact
from lockline.analysis.user_space.user_evidence import Goroutines
from lockline.analysis.waitgraph import Flow, Node
from lockline.analysis.whatif import Bound
from lockline.base.errors import LocklineError
from lockline.base.text import Style
from lockline.cli import main as cli
from lockline.cli import why as why_command
from lockline.cli.why import redacted
from lockline.investigation import probes
from lockline.investigation.choice import judge
from lockline.investigation.hypotheses import hypotheses
from lockline.investigation.model import Investigation, Plan, Step, Target
from lockline.investigation.stops import Standing, Stop
from lockline.page.html import Writer
from lockline.page.why import make_page
from lockline.recording.writer import add_investigation
from lockline.render import why_screen, why_words
from lockline.render.documents import why as document
from recording_generator import RecordingBuilder
from schemas import validator_of
from test_finding_words import asked
from why_cases import (
    FUTEX_QUIET,
    MACHINE,
    MS,
    NOBODY_SLEEPS,
    PROGRAM,
    QUIET,
    USER_LOCK,
    S,
    busy,
    finding,
    known_of,
    lock,
    observation,
    stories,
    threads,
    user_busy,
    user_lock,
)


@pytest.mark.parametrize("known", stories())
def test_the_story_is_the_same_after_it_was_kept(known: Investigation) -> None:
    story = document.make(known, judge(known, "time"), MACHINE)
    text = document.as_json(story)
    validator_of("why").validate(json.loads(text))
    assert document.from_json(text) == story


def test_a_bound_of_a_lock_is_not_that_of_a_cpu_limit() -> None:
    bounds = (Bound(UserLock("table_mutex", ""), 2.0, 4, 2.5),)
    for delayed, more in ((0.9, True), (0.0, False)):
        seen = (observation("totals"), replace(user_busy(), bounds=bounds), threads(delayed=delayed))
        known = known_of(*seen)
        story = document.make(known, judge(known, "time"), MACHINE)
        assert (story.verdict.cause == "holder-no-cpu") == more
        assert story.what_if[0].words.endswith("More CPU for the holder may bring more than that") == more


def test_the_bound_of_another_lock_is_not_that_of_the_cause() -> None:
    """Names may have words in common; and a story that an older version kept does not say whose bound it is."""
    bounds = (Bound(UserLock("a sync.Mutex", ""), None, 4, 3.5, why_not="lockline sees no loop"),)
    for name, shown in (("a channel of Go", False), ("a sync.Mutex", True)):
        lock = UserLock(name, "")
        seen = replace(user_busy(), bounds=bounds, findings=(finding("user-lock", lock, 3.0),))
        known = known_of(observation("totals"), seen)
        story = document.make(known, judge(known, "time"), MACHINE)
        assert story.what_if[0].of_cause == shown
        text = why_screen.render(story, Style(), 100)
        assert ("IF GONE" in text) == shown
        kept = json.loads(document.as_json(story))
        del kept["what_if"][0]["of_cause"]
        assert "IF GONE" not in why_screen.render(document.from_json(json.dumps(kept)), Style(), 100)


@pytest.mark.parametrize(("probe", "who"), [("go", "goroutines"), ("futex", "threads")])
def test_who_waits_for_a_lock_of_goroutines(probe: str, who: str) -> None:
    """Before they were followed, what is known are the waits of threads."""
    found = replace(finding("user-lock", USER_LOCK, 3.0), claim=fact("hot-go-mutex", process=PROGRAM, lock=USER_LOCK))
    bounds = (Bound(USER_LOCK, 2.0, 8, 3.0, who=who),)
    known = known_of(observation("totals"), replace(user_busy(probe), bounds=bounds, findings=(found,)))
    story = document.make(known, judge(known, "time"), MACHINE)
    assert story.verdict.who == who
    text = " ".join(why_screen.render(story, Style(), 100).split())
    assert f"keeps 3.00 {who} waiting" in text
    assert f"its 8 {who} get at most +200% done" in text
    kept = json.loads(document.as_json(story))
    del kept["verdict"]["who"]
    assert document.from_json(json.dumps(kept)).verdict.who is None


def test_all_bounds_are_told_where_they_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind the answer; the answer itself has that of the cause alone."""
    bounds = (Bound(UserLock("table_mutex", ""), 2.0, 4, 2.5), Bound(UserLock("log_mutex", ""), 0.5, 4, 1.0))
    known = known_of(observation("totals"), replace(user_busy(), bounds=bounds))
    story = document.make(known, judge(known, "time"), MACHINE)
    parser = argparse.ArgumentParser()
    why_command.add_parser(parser.add_subparsers())
    plain, whole = (why_command.shown(story, parser.parse_args(["why", *words])) for words in ([], ["--what-if"]))
    assert "log_mutex" not in plain
    assert whole.startswith(plain)
    added = whole[len(plain) :]
    assert added.count("Without waiting for") == 2
    assert "log_mutex its 4 threads get at most +50% done" in added
    path = tmp_path / "kept.lockline"
    RecordingBuilder(path).finish()
    add_investigation(path, document.as_json(story).strip())
    assert cli.main(["report", str(path), "--why", "--what-if"]) == 0
    assert added in capsys.readouterr().out


def test_what_the_budget_left_out_is_said() -> None:
    known = known_of(observation("totals"))
    dear = Step(2, "futex", (), fact("why-step-futex"), "not started", 500 * MS)
    known = replace(known, steps=(*known.steps, dear))
    text = why_screen.render(document.make(known, judge(known, "budget"), MACHINE), Style(), 120)
    assert "threads wait for locks of their own programs: not looked at (the budget is too small)" in text
    assert "ended: the budget (--max-overhead) pays no further step" in text
    assert text.count("futex not started") == 1


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_header_names_whom_it_is_about(columns: int) -> None:
    """Of the time as much as fits."""
    story = document.make(known_of(observation("totals")), judge(known_of(observation("totals")), "time"), MACHINE)
    header = why_screen.render(replace(story, target="process 31337"), Style(), columns).splitlines()[0]
    assert "process 31337" in header
    assert header.endswith("UTC")
    assert len(header) <= columns


@pytest.mark.parametrize("columns", [80, 100, 40])
@pytest.mark.parametrize("known", stories())
def test_the_screen_fits(known: Investigation, columns: int) -> None:
    story = document.make(known, judge(known, "time"), MACHINE)
    text = why_screen.render(story, Style(), columns, "why.data")
    assert all(len(line) <= columns for line in text.splitlines())
    if columns >= 80:
        assert len(text.splitlines()) <= 24
    assert story.verdict.confidence in text
    assert len(why_screen.line(story, Style(), columns)) <= columns


def test_all_of_a_story_is_told_where_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One screen leaves sentences out, and names the command that shows them."""
    proof = tuple(f"proof number {number} of what was seen, in a sentence that needs a line" for number in range(12))
    known = known_of(observation("totals"), user_busy())
    story = document.make(known, judge(known, "time"), MACHINE)
    story = replace(story, verdict=replace(story.verdict, proof=proof))
    parser = argparse.ArgumentParser()
    why_command.add_parser(parser.add_subparsers())
    screen, whole = (why_command.shown(story, parser.parse_args(["why", *words])) for words in ([], ["--long"]))
    assert proof[-1] not in " ".join(screen.split())
    assert "more with --long" in screen
    assert all(one in " ".join(whole.split()) for one in proof)
    assert " more with " not in whole
    path = tmp_path / "kept.lockline"
    RecordingBuilder(path).finish()
    add_investigation(path, document.as_json(story).strip())
    assert cli.main(["report", str(path), "--why"]) == 0
    assert "more with --why --all" in capsys.readouterr().out
    assert cli.main(["report", str(path), "--why", "--all"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert all(one in told for one in proof)


@pytest.mark.parametrize(
    ("waiters", "words"),
    [
        (3.0, "It keeps 3.00 threads waiting, "),
        (0.5, "It keeps 0.50 threads waiting, "),
        (0.27, "Its effect is small: it keeps 0.27 threads waiting, "),
        (0.001, "Its effect is small: it keeps under 0.01 threads waiting, "),
    ],
)
def test_how_sure_and_how_much_are_two_things(waiters: float, words: str) -> None:
    known = known_of(busy("totals"), FUTEX_QUIET)
    story = document.make(known, judge(known, "time"), MACHINE)
    story = replace(story, verdict=replace(story.verdict, waiters=waiters, confidence="high"))
    text = " ".join(why_screen.render(story, Style(), 80).split())
    assert words in text
    assert "SURE high;" in text


@pytest.mark.parametrize("known", stories())
def test_the_page_has_the_story(known: Investigation) -> None:
    story = document.make(known, judge(known, "time"), MACHINE)
    story = replace(story, hostname="<script>")
    page = make_page(story, Writer(Style(unicode=True)))
    assert "<script>, " not in page
    assert "&lt;script&gt;" in page
    assert all(html.escape(one.title) in page for one in story.hypotheses)


def test_a_redacted_page_names_nobody() -> None:
    """No name of a host, command, group, container or file is in the page's bytes; what is left is the same story."""
    stopped = replace(QUIET, throttled=0.6, throttled_group="/system.slice/zebra.service")
    mapped = replace(user_lock(), name="", mapping="/srv/walrus/libqueue.so")
    program = Process("ocelot", 100)
    asked = ("--container", "heron-7f", "--pod", "otter/vole")
    target = Target(("-G", "/pod/lemur"), "container heron-7f, pod otter/vole", asked=asked)
    dead = finding("deadlock", program, 2.0, "high")
    found = replace(dead, claim=fact("deadlock-with-itself", process=program))
    stories = [
        known_of(
            replace(busy("totals"), locks=(lock(process=program),)),
            replace(user_busy(counters=stopped), user_locks=(replace(mapped, comm="ocelot"),)),
            threads(delayed=0.9, comm="gibbon"),
        ),
        known_of(busy("totals", waiters=50), observation("futex", user_waiters=0.0, findings=(found,))),
        known_of(
            observation("totals"), observation("futex", user_waiters=0.0, goroutines=(Goroutines("ocelot", 7, 9),))
        ),
        known_of(
            observation("totals"),
            replace(user_busy(), findings=(finding("user-lock", UserLock("", mapped.mapping), 3.0, "high"),)),
        ),
    ]
    tracer = Stop("tracer", "ocelot", 100, 2.0, 2, 77, "gibbon")
    frozen = Stop("frozen", "ocelot", 100, 2.0, 2, frozen_group="/system.slice/zebra.service", whole=True)
    standing = Standing("once", "ocelot", 100, 0x7F00, 5, "configure", 9, "gibbon", "hrtimer_nanosleep")
    slept = observation("sleeps", sleeps=replace(NOBODY_SLEEPS, standing=(standing,)))
    stories += [
        known_of(observation("totals", stops=(frozen,))),
        known_of(observation("totals"), FUTEX_QUIET, observation("sleeps", stops=(tracer,))),
        known_of(observation("totals"), FUTEX_QUIET, slept),
    ]
    machine = replace(MACHINE, hostname="badger01")
    secrets = ("badger", "ocelot", "gibbon", "zebra", "walrus", "heron", "lemur", "otter", "vole", "capybara")
    named = set()
    for known in stories:
        steps = tuple(replace(step, message="capybara: no such thing", options=target.options) for step in known.steps)
        known = replace(known, target=target, steps=steps)
        verdict = judge(known, "time")
        plain = document.make(known, verdict, machine)
        hidden = redacted(known, verdict, machine)
        page = make_page(hidden, Writer(Style(unicode=True)))
        assert not [secret for secret in secrets if secret in page]
        assert not [secret for secret in secrets if secret in document.as_json(hidden)]
        named |= {secret for secret in secrets if secret in make_page(plain, Writer(Style(unicode=True)))}
        assert (hidden.verdict.cause, hidden.verdict.confidence) == (plain.verdict.cause, plain.verdict.confidence)
        assert "container-1" in page
    # Without redaction all but one are there, in some story.
    assert len(named) >= len(secrets) - 2, named


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}', "[" * 9999, '{"schema":"lockline-why/1"}'])
def test_a_damaged_story_is_one_clear_line(text: str) -> None:
    with pytest.raises(LocklineError, match="investigation cannot be read"):
        document.from_json(text)


def test_every_fact_has_words_and_no_words_are_left_over() -> None:
    stated: dict[str, set[str]] = {}
    for path in Path(lockline.investigation.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name(id="fact" | "remedy"), args=[ast.Constant(value=str(what))], keywords=keywords
                ):
                    names = {keyword.arg for keyword in keywords if keyword.arg}
                    stated[what] = stated.get(what, names) & names
    for what, names in stated.items():
        sentence = why_words.SENTENCES.get(what) or why_words.REMEDIES.get(what)
        if sentence is not None:
            assert asked(sentence) <= names, what
    composed = {f"why-step-{name}" for name in probes.PROBES}
    composed |= {f"why-step-{name}-again" for name, probe in probes.PROBES.items() if probe.steps > 1}
    told = {"why-holder-throttled", "why-holder-no-cpu"}
    known = set(stated) | composed | told
    assert set(why_words.SENTENCES) | set(why_words.REMEDIES) <= known
    assert {what for what in known if what.startswith("why-")} <= set(why_words.SENTENCES) | set(why_words.REMEDIES)


def test_why_the_first_step_failed_is_said_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What makes the whole command fail is its error: it was also said of the step."""
    step = Step(1, "totals", (), fact("why-locks"), "failed", 0, message="no process 7")
    monkeypatch.setattr(why_command, "make_step", lambda *_: why_command.Made(step, None))
    said: list[str] = []
    with pytest.raises(LocklineError, match="no process 7"):
        why_command.investigate(Plan(20, 0.01, 2), Target(("-p", "7"), "process 7"), tmp_path, said.append)
    assert len(said) == 1
    assert "no process 7" not in said[0]


def test_a_short_step_is_never_sure() -> None:
    """It ends early where events are so many that they cost too much: what it saw counts, as of a moment."""
    for seconds, sure in ((2, "high"), (0.15, "medium")):
        known = known_of(observation("totals"), user_busy(duration_ns=round(seconds * S)))
        assert {one.sure for one in hypotheses(known) if one.cause == "user-lock"} == {sure}


@pytest.mark.parametrize(("paid_ms", "cause"), [(20, "holder-no-cpu"), (900, "user-lock")])
def test_who_waits_for_lockline_itself_is_not_short_of_cpus(paid_ms: int, cause: str) -> None:
    """In two seconds the looks used 0.01 or 0.45 CPUs; the holder wants a CPU for nine tenths of the time."""
    seen = (observation("totals"), user_busy(), threads(delayed=0.9))
    known = known_of(*seen, paid_ms=paid_ms, plan=Plan(20, 0.6, 2))
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert verdict.cause.cause == cause
    told = [why_words.fact_words(one.fact) for found in hypotheses(known) for one in found.evidence]
    assert any("lockline used 0.45 CPUs itself" in words for words in told) == (paid_ms == 900)


@pytest.mark.parametrize(("asleep", "sure"), [(0.9, "medium"), (0.2, "high")])
def test_a_lock_whose_chain_ends_in_a_sleep_is_not_proven(asleep: float, sure: str) -> None:
    """The recording's few looks follow the lock to another one, whose holder mostly sleeps."""
    first, second = Node("user lock", "table_mutex", "100:7f00"), Node("user lock", "other", "100:7f40")
    holder, last = Node("holder", "table_mutex", "100:7f00"), Node("holder", "other", "100:7f40")
    passes = {(first, holder): 3.0, (holder, second): 3.0, (second, last): 3.0}
    for function in ("fsync", "rename"):
        passes[last, Node("sleep", function)] = 1.5 * asleep
    flow = Flow({first: 3.0}, passes, {last: 3 * (1 - asleep)})
    known = known_of(observation("totals"), user_busy(flow=flow), threads())
    verdict = judge(known, "nothing left to try")
    assert verdict.cause is not None
    assert (verdict.cause.cause, verdict.sure) == ("user-lock", sure)
