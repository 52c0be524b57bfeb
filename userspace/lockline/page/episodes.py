# SPDX-License-Identifier: GPL-2.0-or-later
"""Long waits with what went on around them, as lanes by CPU."""

from collections import defaultdict

from lockline.analysis.episode_model import Episode
from lockline.analysis.model import Report
from lockline.page import svg
from lockline.page.document import Section, figure
from lockline.page.html import Markup, Writer, joined
from lockline.render import episodes as words

EPISODES, LANES, EVENTS = 20, 16, 400


def _lanes(episode: Episode) -> list[tuple[str, list[svg.Bar]]]:
    """The waiter, who held the lock, and each CPU with what happened there."""
    begin, end = episode.begin_ns, episode.begin_ns + episode.duration_ns
    name = f"{episode.waiter.comm} ({episode.waiter.tid})"
    found = [("waiter", [svg.Bar(begin, end, "wait", f"{name} waits for {episode.lock}")])]
    held, since = [], begin
    for event in sorted(episode.events, key=lambda event: event.time_ns):
        if event.type == "release" and since < event.time_ns <= end:
            held.append(svg.Bar(since, event.time_ns, "hold", f"{event.task.comm} ({event.task.tid}) holds it"))
            since = event.time_ns
    if held:
        found.append(("holders", held))
    by_cpu: defaultdict[int, list[svg.Bar]] = defaultdict(list)
    for event in episode.events[:EVENTS]:
        who = f"{event.task.comm} ({event.task.tid})"
        other = f", {event.other.comm} ({event.other.tid})" if event.other is not None else ""
        what = f"{event.type}{f' {event.name}' if event.name else ''}: {who}{other}"
        # An event's time is its begin, but for an acquired lock, whose length lies before.
        first = event.time_ns - (event.length_ns if event.type == "acquired" else 0)
        kind = "busy" if event.length_ns else "event"
        by_cpu[event.cpu].append(svg.Bar(first, first + event.length_ns, kind, what))
    cpus = sorted(sorted(by_cpu), key=lambda cpu: -len(by_cpu[cpu]))[:LANES]
    return found + [(f"CPU {cpu}", by_cpu[cpu]) for cpu in sorted(cpus)]


def _episode(number: int, episode: Episode, text: list[str], write: Writer) -> Markup:
    name = f"episode-{number}"
    rows = _lanes(episode) if episode.state != "moment" else []
    begin, end = episode.begin_ns, episode.begin_ns + max(1, episode.duration_ns)
    margin = (end - begin) / 50
    drawing = svg.lanes(write, f"What went on during wait {number}, by CPU", rows, begin - margin, end + margin)
    lines = write.lines(text)
    title = f"{number}. {episode.waiter.comm} ({episode.waiter.tid}) waits for {episode.lock or 'nothing: a moment'}"
    caption = "From the begin of the wait to its end: who waits, who holds, and what each CPU did."
    return write("div", write("h3", title), figure(write, name, caption, drawing, lines, chart=False), id=name)


def episodes_section(report: Report, write: Writer) -> Section:
    """The longest waits that were recorded with their context."""
    shown = report.episodes[:EPISODES]
    text = words.render(report, write.style, len(shown)).split("\n")
    # Each begins with its number in three columns; what is above is about all of them.
    starts = [index for index, line in enumerate(text) if line[:3].strip().isdigit() and line[3:5] == "  "]
    starts.append(len(text))
    parts = [
        _episode(number, episode, text[starts[number - 1] : starts[number]] if number < len(starts) else [], write)
        for number, episode in enumerate(shown, 1)
    ]
    more = len(report.episodes) - len(shown)
    note = write("p", f"{more} more are in the recording.", class_="note") if more > 0 else Markup("")
    return Section("episodes", "Long waits in detail", joined((*parts, note)))
