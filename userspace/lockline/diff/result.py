# SPDX-License-Identifier: GPL-2.0-or-later
"""What a diff shows, whatever was compared."""

from dataclasses import dataclass

from lockline.diff.lines import LinesDiff
from lockline.diff.model import Comparison, Rule, Verdict
from lockline.diff.recordings import WaitsDiff
from lockline.diff.samples import Direction, Samples
from lockline.diff.watched import WatchedDiff


@dataclass(frozen=True, slots=True)
class SamplesDiff:
    """Two sides' benchmark samples, compared."""

    before: Samples
    after: Samples
    unit: str
    direction: Direction
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Diff:
    """Everything that a diff shows; warnings: what makes the two hard to compare."""

    before: str
    after: str
    rule: Rule
    warnings: tuple[str, ...]
    samples: SamplesDiff | None = None
    waits: WaitsDiff | None = None
    lines: LinesDiff | None = None
    watched: WatchedDiff | None = None

    @property
    def verdict(self) -> Verdict:
        """Of all together: regressed if anything did, else what the sums tell."""
        if self.samples is not None:
            return self.samples.comparison.judgement.verdict
        single: list[Verdict] = []
        sums: list[Verdict] = []
        if self.waits is not None:
            waits = [self.waits.total, *self.waits.kinds, *self.waits.locks]
            single += [wait.comparison.judgement.verdict for wait in waits if wait.comparison]
            total = self.waits.total.comparison
            # Without any waiting worth the name there is no difference in it.
            sums.append(total.judgement.verdict if total else "no difference")
        if self.lines is not None:
            lines = [self.lines.total, *self.lines.lines]
            single += [line.judgement.verdict for line in lines if line.judgement]
            judged = self.lines.total.judgement
            sums.append(judged.verdict if judged else "inconclusive")
        if self.watched is not None:
            judgements = [row.judgement for row in self.watched.differences if row.judgement]
            single += [judgement.verdict for judgement in judgements]
            whole = [row.judgement for row in self.watched.differences if not row.member]
            sums += [judgement.verdict if judgement else "inconclusive" for judgement in whole]
        for verdict in ("regressed", "inconclusive", "improved"):
            if verdict in (single if verdict == "regressed" else sums):
                return verdict
        return "no difference"
