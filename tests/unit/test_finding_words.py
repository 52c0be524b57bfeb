# SPDX-License-Identifier: GPL-2.0-or-later
"""The words of findings: every fact that a rule can state has them, and with its own values."""

import ast
import string
from functools import cache
from pathlib import Path

import pytest

import lockline.rules
from lockline.analysis.findings import Cpu, Fact, Lock, Measure, Process, Task, Text, fact, ns, part, remedy
from lockline.base.numbers import counted
from lockline.render import finding_sentences, findings, why_words

RULES = sorted(Path(lockline.rules.__file__).parent.glob("*.py"))


@cache
def stated(function: str) -> list[tuple[str, str, set[str]]]:
    """Each fact("...", name=...) or remedy(...) of the rules: where, what, and the names of its values."""
    return [(where, what, names) for name, where, what, names in _calls() if name == function]


@cache
def _calls() -> list[tuple[str, str, str, set[str]]]:
    """Calls of functions by their names, with a text as first argument."""
    found = []
    for path in RULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(what)), *_], keywords=keywords):
                    given = {keyword.arg for keyword in keywords if keyword.arg is not None}
                    found.append((name, path.name, what, given))
    return found


def asked(sentence: str) -> set[str]:
    """The values that a sentence names, but for those that may be missing."""
    mandatory = sentence
    while "[" in mandatory:
        begin = mandatory.index("[")
        mandatory = mandatory[:begin] + mandatory[mandatory.index("]") + 1 :]
    return {name for _, name, _, _ in string.Formatter().parse(mandatory) if name}


@pytest.mark.parametrize(("path", "what", "names"), stated("fact"))
def test_a_fact_has_words(path: str, what: str, names: set[str]) -> None:
    assert what in finding_sentences.SENTENCES or what in findings.TOLD, path
    assert asked(finding_sentences.SENTENCES.get(what, "")) <= names | ({"members"} if what in findings.TOLD else set())


@pytest.mark.parametrize(("path", "action", "names"), stated("remedy"))
def test_a_remedy_has_words(path: str, action: str, names: set[str]) -> None:
    assert asked(finding_sentences.REMEDIES[action]) <= names, path


def test_no_words_are_left_over() -> None:
    """A sentence that no rule states is a sentence that nobody reads."""
    known = {what for _, what, _ in stated("fact")} | set(lockline.rules.shared_line._CLAIMS.values())
    known |= {*lockline.rules.user_lock._CLAIMS.values(), *lockline.rules.user_lock._SELDOM.values()}
    assert set(finding_sentences.SENTENCES) | set(findings.TOLD) <= known
    told = {action for _, action, _ in stated("remedy")} | {"who-holds", "who-hold"}
    assert set(finding_sentences.REMEDIES) == told


def test_rules_have_no_words_of_their_own() -> None:
    """They import nothing that formats."""
    for path in RULES:
        text = path.read_text(encoding="utf-8")
        assert "lockline.render" not in text
        assert "lockline.base.numbers" not in text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (fact("waits", waits=Measure(1234, "waits"), average=ns(5600)), "1,234 waits of 5.60 us on average"),
        (fact("most-by", process=Process("db", 7)), "most of it by db (7)"),
        (fact("cpu-starved", cpu=Cpu(3)), "CPU 3 waits far longer than the others"),
        (fact("convoy", lock=Lock("a_lock", "mutex")), "Tasks queue for a_lock (mutex)"),
        (fact("stolen", part=part(0.125, "x")), "the host took 12.5% of the CPUs' time away while it was recorded"),
        (fact("nature", why=Text("{braces} [stay]")), "{braces} [stay]"),
        (fact("owners-seen", owners=(Task("a", 1), Task("", 2))), "seen as its owner: a (1), ? (2)"),
    ],
)
def test_values_in_words(value: Fact, words: str) -> None:
    assert findings.fact_words(value) == words


def test_what_is_missing_is_left_out() -> None:
    waiter, lock = Task("w", 1), Lock("l")
    told = fact(
        "loop-during-wait",
        waiter=waiter,
        waited=ns(5),
        lock=lock,
        looper=waiter,
        cpu=Cpu(0),
        turns=Measure(60, "turns"),
    )
    assert findings.fact_words(told) == "w (1) waited 5 ns for l, while w (1) on CPU 0 made 60 turns"
    assert findings.remedy_words(remedy("see-where-taken", process=Process("", 7))).startswith("`gdb -p 7 ")


@pytest.mark.parametrize(
    ("what", "many", "words"),
    [
        ("why-not-posted", 1, "1 thread of server (7) waits for a semaphore, which nobody posts"),
        ("why-not-posted", 2, "2 threads of server (7) wait for a semaphore, which nobody posts"),
        ("woken-in-vain", 1, "Each wake-up wakes 1 thread of server (7), and it sleeps again at once"),
    ],
)
def test_one_thread_is_no_threads(what: str, many: int, words: str) -> None:
    values = (("threads", Measure(many, "threads")), ("process", Process("server", 7)))
    assert findings.say({**finding_sentences.SENTENCES, **why_words.SENTENCES}[what], values) == words


def test_one_thing_is_not_counted_as_several() -> None:
    assert [counted(number, "CPU") for number in (0, 1, 2, 123_456)] == ["0 CPUs", "1 CPU", "2 CPUs", "123k CPUs"]
