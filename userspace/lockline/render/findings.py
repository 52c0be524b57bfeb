# SPDX-License-Identifier: GPL-2.0-or-later
"""Findings in words: the values of facts in their usual words, in sentences, and the section of the report."""

import re
from collections.abc import Callable, Iterable, Mapping

from lockline.analysis.findings import (
    Cpu,
    Fact,
    File,
    Finding,
    Function,
    Line,
    Lock,
    Machine,
    Measure,
    Process,
    Remedy,
    Task,
    Text,
    UserLock,
    Value,
    Values,
)
from lockline.analysis.model import Report
from lockline.base.numbers import average, count, duration, percent
from lockline.base.text import Style, clean, fill
from lockline.base.values import dataclass
from lockline.render.finding_sentences import REMEDIES, SENTENCES

_STATES = {"R": "it runs, or wants to", "S": "it sleeps", "D": "it sleeps in the kernel", "T": "it is stopped"}
_CLOCKS = {"hpet": "read_hpet()", "acpi_pm": "acpi_pm_read()", "pit": "the PIT"}
_EVENTS = {"waits": "waits for locks", "wake-ups": "late wake-ups"}


def _measure(measure: Measure) -> str:
    if measure.unit == "ns":
        return duration(measure.value)
    if measure.unit == "share":
        return percent(measure.value)
    return count(round(measure.value))


def _lock(lock: Lock) -> str:
    return (lock.name or "a lock") + (f" [{lock.instance}]" if lock.instance else "")


# As people call what the kernel names after a device.
_MAPPINGS = {"/dev/zero": "shared memory", "/dev/zero (deleted)": "shared memory"}


def value_words(value: Value) -> str:
    """A value in its usual words."""
    match value:
        case Measure():
            return _measure(value)
        case Task(comm, None):
            return comm or "tasks that are not known"
        case Task(comm, tid, container):
            return f"{comm or '?'} ({tid})" + (f" in {container}" if container else "")
        case Process(comm, None):
            return comm
        case Process(comm, tgid):
            return f"{comm} ({tgid})"
        case Lock():
            return _lock(value)
        case UserLock(name, mapping):
            return name or f"a lock in {_MAPPINGS.get(mapping, mapping) or 'its memory'}"
        case Function(name):
            return f"{name}()"
        case Cpu(number):
            return f"CPU {number}"
        case Line(lock, instance):
            return _lock(Lock(lock, "", instance))
        case File(path):
            return path
        case Machine(device):
            return device or "the machine"
        case Text(text):
            return text
        case _:
            return ", ".join(map(value_words, value))


class _Word:
    """A value in a sentence."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def __format__(self, spec: str) -> str:
        value = self.value
        if not spec:
            return value_words(value)
        if isinstance(value, Measure):
            if spec == "s":
                return "s" if value.value > 1 else ""
            if "|" in spec:
                one, many = spec.split("|")
                return one if round(value.value) == 1 else many
            return average(value.value, int(spec[1])) if spec in (".1f", ".2f") else format(value.value, spec)
        if isinstance(value, Lock) and spec == "full":
            return f"{_lock(value)} ({value.kind})"
        if isinstance(value, UserLock) and spec == "short":
            return value.name or "a lock"
        if isinstance(value, Process) and spec == "id":
            return str(value.tgid)
        if isinstance(value, Function) and spec == "name":
            return value.name
        if isinstance(value, Task) and spec == "id":
            return str(value.tid)
        if isinstance(value, tuple) and spec == "and":
            names = [value_words(one) for one in value]
            return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
        raise ValueError(f"{value!r} has no form '{spec}'")


def say(sentence: str, values: Values) -> str:
    """A sentence with its values in their usual words; see the head of SENTENCES."""
    words = {name: _Word(value) for name, value in values}

    def optional(match: "re.Match[str]") -> str:
        return match[1] if all(name in words for name in re.findall(r"{(\w+)", match[1])) else ""

    if "[" in sentence:
        sentence = re.sub(r"\[([^\]]*)\]", optional, sentence)
    return sentence.format_map(words)


def functions_of(facts: Iterable[Fact]) -> list[str]:
    """The functions that facts speak of."""
    return [value.name for told in facts for _, value in told.values if isinstance(value, Function)]


def _measures(fact: Fact) -> dict[str, Measure]:
    return {name: value for name, value in fact.values if isinstance(value, Measure)}


def _beside(fact: Fact) -> Values:
    """The values of a claim about a line: what nobody has a name for lies beside the lock."""
    return (("members", (Text("what lies beside it"),)), *fact.values)


def _timeouts(fact: Fact) -> str:
    (waits,) = _measures(fact).values()
    return "a timeout ends " + ("one of these waits" if waits.value == 1 else f"{_measure(waits)} of them")


def _owner_state(fact: Fact) -> str:
    state = next(value.text for _, value in fact.values if isinstance(value, Text))
    return say(f"at the end {_STATES[state]}[, in {{function}}]", fact.values)


def _long_spins(fact: Fact) -> str:
    names = dict(fact.values)["names"]
    assert isinstance(names, tuple)
    more = ", ..." if _measures(fact)["locks"].value > len(names) else ""
    return (
        say(
            "{waits} spinlock waits of {limit} or more are kept, {waiting} in sum, for {locks} lock{locks:s}: {names}",
            fact.values,
        )
        + more
    )


def _shared_device(fact: Fact) -> str:
    device = dict(fact.values)["device"]
    assert isinstance(device, Machine)
    sentence = "the current clocksource is {device}: one device that {cpus:d} CPUs read in turn, through "
    return say(sentence, fact.values) + _CLOCKS[device.device]


def _line_sampled(fact: Fact) -> str:
    source = next((value.text for _, value in fact.values if isinstance(value, Text)), "samples")
    return f"{source}: " + say("{hitm:,} HITM and {peer:,} peer snoops on its line", fact.values)


def _line_moves(fact: Fact) -> str:
    measures = _measures(fact)
    rate, each, part = measures["rate"], measures["each"], measures["part"]
    least = "at least " if rate.bound == "at least" else ""
    error = f" +-{rate.error / rate.value:.0%}" if rate.error and rate.value else ""
    how = "which is much" if each.bound else "as measured between these CPUs"
    limit = "all" if part.value >= 1 else percent(part.value)
    return (
        f"its line moves between CPUs {least}{_measure(rate)}{error} times a second: at {_measure(each)} each, {how},"
        f" that is up to {limit} of this waiting"
    )


def _line_paid_by(fact: Fact) -> str:
    values = dict(fact.values)
    numbers = range(1, len(values) // 2 + 1)
    told = ", ".join(f"{{payer_{number}}} pays {{part_{number}:.0%}}" for number in numbers)
    return say("of the line's {events} " + told, fact.values)


def _watched(fact: Fact) -> str:
    measures = _measures(fact)
    low, high = _measure(measures["least"]), _measure(measures["most"])
    each = low if low == high else f"{low} to {high}"
    return say(
        f"watched in {{windows:,}} windows, each byte {each} of the time; {{hits:,}} accesses were seen", fact.values
    )


def _compared(fact: Fact) -> str:
    """What the self-check found: with and without the deeper probes."""
    measures = _measures(fact)
    events = next(value.text for _, value in fact.values if isinstance(value, Text))
    how = {"come-alone": "alone", "never-come": "never"}.get(fact.what)
    if how is None:
        ratio = measures["ratio"]
        high = "any number of" if ratio.high is None else f"{ratio.high:.2f}"
        how = (
            f"{ratio.value:.2f} times as often ({ratio.low:.2f} to {high}, {100 * (ratio.confidence or 0):g} %"
            " confidence)"
        )
    return f"{_EVENTS[events]} of " + say(
        f"{{limit}} and more come with the deeper probes {how}: {{with_probes:,}} in {{with_time:.0f}} s with,"
        " {without:,} in {without_time:.0f} s without them; p = {p:.2g} over {pairs:d} pairs of slices in random order",
        fact.values,
    )


# Facts of which one sentence is not enough.
TOLD: Mapping[str, Callable[[Fact], str]] = {
    "come-alone": _compared,
    "come-as-often": _compared,
    "line-moves": _line_moves,
    "line-paid-by": _line_paid_by,
    "line-sampled": _line_sampled,
    "line-shared-falsely": lambda fact: say(SENTENCES["line-shared-falsely"], _beside(fact)),
    "line-shared-truly": lambda fact: say(SENTENCES["line-shared-truly"], _beside(fact)),
    "long-spins": _long_spins,
    "never-come": _compared,
    "owner-state": _owner_state,
    "shared-device": _shared_device,
    "timeouts-end": _timeouts,
    "watched": _watched,
}


def fact_words(fact: Fact) -> str:
    """A fact in one sentence."""
    told = TOLD.get(fact.what)
    return told(fact) if told is not None else say(SENTENCES[fact.what], fact.values)


def remedy_words(remedy: Remedy) -> str:
    """A remedy in one sentence."""
    return say(REMEDIES[remedy.action], remedy.values)


@dataclass(frozen=True, slots=True)
class Worded:
    """A finding in words: its title, the evidence and what to do next, in the order of its facts and remedies."""

    title: str
    evidence: tuple[str, ...]
    next: tuple[str, ...]


def worded(finding: Finding) -> Worded:
    """The finding in words.  Names in it are as recorded: clean() them for a terminal."""
    return Worded(
        fact_words(finding.claim),
        tuple(fact_words(fact) for fact in finding.evidence),
        tuple(remedy_words(remedy) for remedy in finding.remedies),
    )


def _hanging(text: str, first: str, rest: str) -> list[str]:
    return fill(text, first, rest, cut_words=False)


def findings(report: Report, style: Style) -> list[str]:
    """The section of the report; empty if no rule found anything."""
    if not report.findings:
        return []
    lines = ["Findings (most impact first; docs/rules.md explains the rules)"]
    for number, finding in enumerate(report.findings, 1):
        label = f"  {number}. "
        indent = " " * len(label)
        words = worded(finding)
        lines += _hanging(
            f"{clean(words.title, style)}  [{finding.rule}, confidence {finding.confidence}]", label, indent
        )
        for evidence in words.evidence:
            lines += _hanging(clean(evidence, style), f"{indent}- ", f"{indent}  ")
        for step in words.next:
            lines += _hanging(clean(step, style), f"{indent}next: ", f"{indent}      ")
    return lines
