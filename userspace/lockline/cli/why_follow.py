# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline why --follow`: investigates, watches whether the picture changes, and tells the whole story at the end."""

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from lockline.base.errors import LocklineError
from lockline.base.text import clean
from lockline.cli import terminal
from lockline.cli.why import investigate, keep, machine_of, most_telling, plan_of, redacted, say, shown
from lockline.cli.why_counters import watched
from lockline.cli.why_steps import make_step
from lockline.investigation import follow as logic
from lockline.investigation import probes
from lockline.investigation.choice import choice_of, judge
from lockline.investigation.model import Investigation, Target, Verdict
from lockline.render import why_screen
from lockline.render.documents import why as document

# A glance's recording.
GLANCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Stories:
    """Of one investigation: as a recording keeps it, and as it is shown (--redact)."""

    kept: document.Document
    shown: document.Document


@dataclass(slots=True)
class _Found:
    """What goes on beside the state.  known, verdict: of the newest investigation.  recording: that is kept."""

    state: logic.Following[Stories]
    recording: Path
    has_recording: bool = False
    written: bool = False
    start_ns: int = 0
    known: Investigation | None = None
    probes: Sequence[str] = ()
    over: bool = False


def _start_ns(known: Investigation) -> int:
    return sum(step.cost.start_ns for step in known.steps if step.cost is not None)


class Follower:
    """One run of `lockline why --follow`."""

    def __init__(self, arguments: argparse.Namespace, target: Target, directory: Path) -> None:
        self.arguments, self.target, self.directory = arguments, target, directory
        self.alive = watched(target)
        self.plan = plan_of(arguments)
        # Of CLOCK_MONOTONIC to the time of day.
        self.offset_ns = time.time_ns() - time.monotonic_ns()
        self.found = _Found(logic.begin(self.plan, time.monotonic_ns()), directory / "kept.lockline")

    def _document(self, story: document.Document, of_shown: bool) -> document.Document:
        """The newest story, with all that was found before it."""
        state = self.found.state
        chapters = tuple(
            document.Chapter(
                after_unix_ns=None if one.after_ns is None else one.after_ns + self.offset_ns,
                begin_unix_ns=one.begin_ns + self.offset_ns,
                seen_unix_ns=one.seen_ns + self.offset_ns,
                end_unix_ns=None if one.end_ns is None else one.end_ns + self.offset_ns,
                looks=one.investigations + one.glances,
                verdict=(one.story.shown if of_shown else one.story.kept).verdict,
            )
            for one in state.chapters
        )
        allowed = self.plan.allowed_ns + (state.at_ns - state.begun_ns) * state.rate
        return replace(
            story,
            followed=document.Followed(
                begin_unix_ns=state.begun_ns + self.offset_ns,
                end_unix_ns=state.at_ns + self.offset_ns,
                chapters=chapters,
                left_out=state.left_out,
                investigations=state.investigations,
                glances=state.glances,
                allowed_ns=round(allowed),
                paid_ns=state.paid_ns,
                start_ns=self.found.start_ns,
            ),
        )

    def _investigate(self, move: logic.Move) -> None:
        found = self.found
        directory = self.directory / "investigation"
        directory.mkdir()
        began, begin_unix_ns = time.monotonic_ns(), time.time_ns()
        plan = replace(self.plan, max_overhead=move.allowed_ns / (self.plan.seconds * 1e9 * self.plan.cpus))
        known, ended, recordings = investigate(
            plan, self.target, directory, lambda text: say(self.arguments, text), self.alive
        )
        found.start_ns += _start_ns(known)
        verdict = judge(known, ended)
        if ended == "interrupted" and found.state.chapters:
            # It was not looked at to the end: what is known stays as it is.
            found.over = True
        else:
            stories = self._stories(known, verdict, begin_unix_ns)
            picture = logic.picture_of(verdict)
            found.state = logic.investigated(found.state, began, time.monotonic_ns(), known.paid_ns, picture, stories)
            found.known, found.probes = known, logic.glance_probes(known, verdict)
            telling = most_telling(known, verdict, recordings)
            if telling is not None and (verdict.kind == "cause" or not found.has_recording):
                shutil.move(telling, found.recording)
                found.has_recording = True
            found.over = ended == "interrupted"
        shutil.rmtree(directory)

    def _stories(self, known: Investigation, verdict: Verdict, begin_unix_ns: int) -> Stories:
        machine = machine_of(known, begin_unix_ns)
        kept = document.make(known, verdict, machine)
        return Stories(kept, redacted(known, verdict, machine) if self.arguments.redact else kept)

    def _glance(self) -> None:
        found = self.found
        assert found.known is not None
        directory = self.directory / "glance"
        directory.mkdir()
        began = time.monotonic_ns()
        allowed = max(1, int(found.state.bucket_ns))
        plan = replace(self.plan, max_overhead=allowed / (self.plan.seconds * 1e9 * self.plan.cpus))
        empty = Investigation(self.target, plan)
        seen = empty
        for name in found.probes:
            usual = name in (probes.TOTALS, probes.FUTEX, probes.SLEEPS, probes.SPINS)
            choice = choice_of(name, empty if usual else found.known)
            made = make_step(replace(choice, seconds=min(GLANCE_S, choice.seconds)), seen, directory)
            seen = replace(seen, steps=(*seen.steps, made.step))
            if made.step.outcome == "interrupted":
                found.over = True
                break
        found.start_ns += _start_ns(seen)
        if not found.over and any(step.outcome != "failed" for step in seen.steps):
            glimpse = logic.glimpse_of(seen)
            found.state = logic.glanced(found.state, began, time.monotonic_ns(), seen.paid_ns, glimpse)
        elif not found.over and self.alive():
            raise LocklineError(seen.steps[0].message)
        shutil.rmtree(directory)

    def _publish(self, at_end: bool = False) -> None:
        """Print what is new, and bring the kept recording up to date."""
        arguments, state = self.arguments, self.found.state
        if not state.chapters:
            return
        last = state.chapters[-1]
        story = self._document(last.story.shown, True)
        assert story.followed is not None
        if arguments.output is not None and self.found.has_recording:
            kept = self._document(last.story.kept, False)
            keep(self.found.recording, Path(arguments.output), kept, self.found.written)
            self.found.written = True
        if arguments.html is not None or arguments.format == "json":
            text = shown(story, arguments)
        else:
            style, columns = terminal.style(arguments.addresses), terminal.columns()
            if at_end:
                text = "\n".join(why_screen.story(story.followed, style, columns)) + "\n"
            elif last.end_ns is not None:
                text = clean(f"ENDED    {why_screen.chapter_line(story.followed.chapters[-1])}", style) + "\n\n"
            else:
                text = shown(story, arguments) + "\n"
            text = terminal.painted(text, arguments.color) if at_end or last.end_ns is not None else text
        sys.stdout.write(text)
        sys.stdout.flush()

    def _identity(self) -> tuple[object, ...]:
        chapters = self.found.state.chapters
        return (len(chapters) + self.found.state.left_out, chapters[-1].end_ns if chapters else None)

    def run(self) -> None:
        """Go on until Ctrl-C or SIGTERM, or until nobody is left whom it is about.  Raises LocklineError."""
        with _until_asked():
            while not self.found.over:
                before = self._identity()
                move = logic.next_move(self.found.state, time.monotonic_ns())
                if not self.alive():
                    say(self.arguments, f"{self.target.words} is gone")
                    break
                if move.kind == "wait":
                    time.sleep(move.seconds)
                elif move.kind == "investigate":
                    self._investigate(move)
                else:
                    self._glance()
                if self._identity() != before and not self.found.over:
                    self._publish()
        self.found.state = logic.finished(self.found.state, time.monotonic_ns())
        with _undisturbed():
            self._publish(at_end=True)


@contextmanager
def _until_asked() -> Iterator[None]:
    """Ctrl-C and SIGTERM (see ended_by_signals()) end it, and the story follows; SIGHUP leaves, as nobody reads it."""
    try:
        with suppress(KeyboardInterrupt):
            yield
    except SystemExit as left:
        if left.code != 128 + signal.SIGTERM:
            raise


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C or SIGTERM does not leave the story half written."""

    def later(number: int, frame: FrameType | None) -> None:
        del number, frame

    before = {number: signal.signal(number, later) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(arguments: argparse.Namespace, target: Target, directory: Path) -> str:
    """Print each change as it comes, and the whole story at the end.  Raises LocklineError."""
    Follower(arguments, target, directory).run()
    return ""
