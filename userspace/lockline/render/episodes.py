# SPDX-License-Identifier: GPL-2.0-or-later
"""Long waits as text: who held the lock meanwhile, what ended the wait, and a timeline with a column for each CPU."""

from collections.abc import Sequence

from lockline.analysis.episode_model import Doing, Episode, EpisodeHolder, Party, TimelineEvent
from lockline.analysis.model import Report
from lockline.base.numbers import count, duration, percent
from lockline.base.text import WIDTH, Style, beside, clean, cut, fill, pad, page, paragraphs
from lockline.recording.stacks import without_internals

COLUMNS = 3
TIME_WIDTH = 11
STACK_LINES = 7
HOLDERS = 4
LOOPS = 4
# Lines of a timeline: after the begin, and before the end.
HEAD_LINES = 8
TAIL_LINES = 16
STATES = {
    "R": "runs or is ready to",
    "S": "sleeps",
    "D": "sleeps without interruption",
    "T": "is stopped",
    "t": "is stopped by its tracer",
    "Z": "has ended",
    "I": "is idle",
}


def render(report: Report, style: Style, limit: int) -> str:
    """The first `limit` episodes of a report, ending in a line end."""
    shown = report.episodes[:limit]
    if not shown:
        return (
            "No long waits with what went on around them: none was over the threshold, or they were not recorded"
            " (lockline record --episodes, or --flight).\n"
        )
    parts = [[f"Long waits, with what went on around them: {len(shown)} of {clean(report.path, style)}"]]
    parts += [_episode(number, episode, style) for number, episode in enumerate(shown, 1)]
    return paragraphs(parts)


def _who(task: Party, style: Style) -> str:
    return f"{clean(task.comm, style) or '?'} {task.tid}"


def _short(task: Party | None, style: Style) -> str:
    if task is None:
        return "?"
    return "idle" if task.tid == 0 else f"{clean(task.comm, style) or '?'}/{task.tid}"


def _title(episode: Episode, style: Style) -> str:
    if episode.state == "moment":
        return f"what the CPUs did in the {duration(episode.duration_ns)} before the flight ended"
    lock = clean(episode.lock, style) or "a lock without a name"
    instance = f" of {clean(episode.instance, style)}" if episode.instance else ""
    length = duration(episode.duration_ns)
    waited = {
        "ended": f"waited {length}",
        "in progress": f"has been waiting for {length}",
        "was in progress": f"waited {length} at least",
    }.get(episode.state, f"waited {length}")
    return (
        f"{_who(episode.waiter, style)} {waited} for {lock}{instance}"
        f" ({clean(episode.kind, style)}) on CPU {episode.cpu}, from {episode.offset_ns / 1e9:.6f} s"
    )


def _wrapped(label: str, text: str) -> list[str]:
    return beside(f"     {pad(label, 11)}", text)


def _priority(episode: Episode) -> str:
    if episode.policy_name is None or episode.priority is None:
        return "priority not known"
    kind = "real time" if episode.real_time else "not real time"
    return f"{episode.policy_name}, priority {episode.priority} ({kind})"


def _doing(doing: Doing, total_ns: int) -> str:
    parts = [
        (doing.running_ns, "running"),
        (doing.preempted_ns, "ready but not running"),
        (doing.asleep_ns, "asleep"),
        (doing.stopped_ns, "stopped"),
        (doing.throttled_ns, "throttled"),
        (doing.unknown_ns, "not known"),
    ]
    told = [f"{percent(ns / total_ns)} {what}" for ns, what in parts if ns and total_ns]
    return ", ".join(told)


def _holder(holder: EpisodeHolder, episode: Episode, style: Style) -> str:
    share = percent(holder.held_ns / episode.duration_ns) if episode.duration_ns else "-"
    text = f"{_who(holder.task, style)}: {duration(holder.held_ns)} ({share})"
    if holder.holds > 1:
        text += f" in {count(holder.holds)} holds"
    doing = _doing(holder.doing, holder.held_ns)
    if doing:
        text += f"; meanwhile {doing}"
    if holder.source == "owner":
        text += "; by the lock's owner field"
    if holder.state:
        text += f"; at that moment it {STATES.get(holder.state, f'was in state {clean(holder.state, style)}')}"
    if holder.stack:
        names = [clean(frame.symbol, style) or "?" for frame in holder.stack[:STACK_LINES]]
        text += f"{' in' if holder.state else '; it released the lock in'} {' < '.join(names)}"
    return text


def _relief(episode: Episode, style: Style) -> str:
    relief = episode.relief
    if relief is None:
        return "what ended the wait is not known"
    name = clean(relief.name, style)
    what = {
        "interrupt": f"interrupt {name}",
        "vector": f"{name} interrupt",
        "ipi": f"IPI ({name})",
        "switch": f"{_who(relief.task, style)} got the CPU",
        "wakeup": f"wake-up of {_who(relief.task, style)}"
        if relief.side == "holder"
        else f"wake-up by {_who(relief.task, style)}",
    }.get(relief.type, clean(relief.type, style))
    side = "the other side" if relief.side == "holder" else "the waiter"
    return f"{what} on CPU {relief.cpu} ({side}), {duration(relief.before_end_ns)} before the end"


def _facts(episode: Episode, style: Style) -> list[str]:
    if episode.state == "moment":
        return []
    lines = _wrapped("waiter", f"{_priority(episode)}; interrupts {episode.interrupts} ({episode.interrupts_from})")
    doing = _doing(episode.doing, episode.duration_ns)
    if episode.events and doing:
        lines += _wrapped("", f"it was {doing}")
    frames = without_internals(episode.stack)
    if frames:
        lines += _wrapped("in", " < ".join(clean(frame.symbol, style) or "?" for frame in frames[:STACK_LINES]))
    for holder in episode.holders[:HOLDERS]:
        lines += _wrapped("held by", _holder(holder, episode, style))
    if len(episode.holders) > HOLDERS:
        lines += _wrapped("", f"and {len(episode.holders) - HOLDERS} more")
    if episode.handoff_ns is not None:
        lines += _wrapped("hand-off", f"{duration(episode.handoff_ns)} from the last release to the wait's end")
    if episode.bypass is not None:
        about = "" if episode.complete and not episode.left_out else "about "
        lines += _wrapped("overtaken", f"{about}{count(episode.bypass)} times by others that came later")
    for loop in episode.loops[:LOOPS]:
        text = f"{_who(loop.task, style)} on CPU {loop.cpu} turned {count(loop.turns)} times in wait_task_inactive()"
        lines += _wrapped("loop", f"{text} for {_who(loop.other, style)} to stop running")
    if not episode.in_progress:
        lines += _wrapped("relief", _relief(episode, style))
    if episode.chain:
        links = [f"{_who(link.waiter, style)} waits for {clean(link.lock, style) or '?'}" for link in episode.chain]
        last = episode.chain[-1].holder
        if last is not None:
            links.append(f"that is held by {_who(last, style)}")
        lines += _wrapped("chain", "; ".join(links))
    missing = []
    if not episode.complete:
        missing.append("records of that time were overwritten before they were read")
    if episode.left_out:
        missing.append(f"{count(episode.left_out)} records from its middle are left out")
    if missing:
        lines += _wrapped("incomplete", "; ".join(missing))
    return lines


def _cell(event: TimelineEvent, episode: Episode, style: Style) -> str:
    """What a CPU did, in few words."""
    name = clean(event.name, style)
    length = f" {duration(event.length_ns)}" if event.length_ns else ""
    match event.type:
        case "interrupt":
            return f"*IRQ* {name or event.value}{length}"
        case "vector":
            return f"*{name}*{length}"
        case "ipi":
            return f"*IPI* {name}{length}"
        case "ipi sent":
            to = f"CPUs {name}" if name else f"CPU {event.value}"
            return f"{_short(event.task, style)} sends IPI to {to}"
        case "softirq":
            return f"softirq {event.value}{length}"
        case "switch":
            throttled = " (throttled)" if name == "throttled" else ""
            return f"{_short(event.task, style)}{throttled} -> {_short(event.other, style)}"
        case "waking" | "wakeup":
            return f"{_short(event.task, style)} wakes {_short(event.other, style)}"
        case "wait task":
            times = f"{count(event.value)} turns" if event.value > 1 else "turn"
            return f"{_short(event.task, style)} {times} for {_short(event.other, style)}{length}"
        case "release":
            return f"{_short(event.task, style)} releases the lock"
        case "acquired":
            mine = event.task.tid == episode.waiter.tid and event.time_ns == episode.begin_ns + episode.duration_ns
            return f"{_short(event.task, style)} {'<lock acquired>' if mine else 'gets the lock'}{length}"
    return clean(event.type, style)


def _columns(episode: Episode) -> list[int]:
    """CPUs worth a column: the other side's, the waiter's, then those with most to tell."""
    weight: dict[int, int] = {}
    others = {holder.task.tid for holder in episode.holders} | {loop.task.tid for loop in episode.loops}
    others.discard(episode.waiter.tid)
    for event in episode.events:
        weight.setdefault(event.cpu, 0)
        weight[event.cpu] += 1
        if event.task.tid in others or event.type in ("release", "wait task"):
            weight[event.cpu] += 1000
    if episode.state != "moment":
        weight[episode.cpu] = 1 << 40
    return sorted(sorted(weight, key=lambda cpu: (-weight[cpu], cpu))[:COLUMNS])


def _interesting(episode: Episode, cpus: Sequence[int]) -> list[TimelineEvent]:
    """Without what merely repeats: a wake-up follows its waking."""
    return [event for event in episode.events if event.cpu in cpus and event.type != "waking"]


def _timeline(episode: Episode, style: Style) -> list[str]:
    cpus = _columns(episode)
    events = _interesting(episode, cpus)
    if not events:
        return []
    cell_width = (min(WIDTH, page().columns) - 5 - TIME_WIDTH) // len(cpus) - 1
    end = episode.begin_ns + episode.duration_ns
    moments: list[tuple[int, int, str]] = [(event.time_ns, event.cpu, _cell(event, episode, style)) for event in events]
    if episode.state != "moment" and episode.begin_cpu in cpus:
        waits = f"{_short(episode.waiter, style)} begins to wait"
        moments.append((episode.begin_ns, episode.begin_cpu, waits))
    if episode.state == "ended" and not any(event.type == "acquired" and event.time_ns == end for event in events):
        moments.append((end, episode.cpu, f"{_short(episode.waiter, style)} <wait is over>"))
    moments.sort(key=lambda moment: moment[:2])
    first = next((index for index, moment in enumerate(moments) if moment[0] >= episode.begin_ns), 0)
    last = next((index for index, moment in enumerate(moments) if moment[0] > end), len(moments))
    head = moments[max(0, first - 2) : min(first + HEAD_LINES, last)]
    tail = moments[max(first + HEAD_LINES, last - TAIL_LINES) : last + 2]
    skipped = max(0, last - TAIL_LINES - (first + HEAD_LINES))
    heading = pad("", TIME_WIDTH) + " " + " ".join(pad(f"CPU {cpu}", cell_width) for cpu in cpus)
    lines = ["     " + heading.rstrip()]
    for part in (head, tail):
        for time, cpu, text in part:
            cells = [pad(cut(text, cell_width), cell_width) if cpu == one else pad(".", cell_width) for one in cpus]
            offset = time - episode.begin_ns
            sign = "-" if offset < 0 else "+"
            when = pad(sign + duration(abs(offset)), TIME_WIDTH, right=True)
            lines.append(f"     {when} {' '.join(cells)}".rstrip())
        if part is head and skipped:
            lines.append(f"     {pad('...', TIME_WIDTH, right=True)} ({count(skipped)} more)")
    shown = set(cpus)
    rest = sorted({event.cpu for event in episode.events} - shown)
    if rest:
        more = ", ..." if len(rest) > 16 else ""
        lines.append(f"     (other CPUs with records: {', '.join(map(str, rest[:16]))}{more})")
    return lines


def _episode(number: int, episode: Episode, style: Style) -> list[str]:
    title = fill(_title(episode, style), columns=min(WIDTH, page().columns) - 5)
    lines = [f"{number:3}  {title[0]}", *(f"     {line}" for line in title[1:])]
    return lines + _facts(episode, style) + _timeline(episode, style)
