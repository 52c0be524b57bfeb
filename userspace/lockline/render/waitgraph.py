# SPDX-License-Identifier: GPL-2.0-or-later
"""Who waits for whom in the end, as a section of a report."""

from lockline.analysis.waitgraph import WaitGraph
from lockline.base.text import Style, clean, fill
from lockline.render.documents.waitgraph import critical_words, end_words, knot_words, made

_MOST = 5
# An end with less of all waiting is left out.
_LEAST = 0.01


def render(graph: WaitGraph, style: Style, columns: int) -> str:
    """The section: ends, knots and the critical path."""
    document = made(graph)
    if not document.threads:
        return "Who waits for whom in the end: nobody waits\n"
    lines = [f"Who waits for whom in the end ({document.threads:.2f} threads wait)"]
    texts = [knot_words(one) for one in document.knots[:_MOST]]
    texts += [end_words(one) for one in document.ends[:_MOST] if one.part >= _LEAST]
    texts += [critical_words(one) for one in document.critical[:_MOST]]
    for text in texts:
        lines += fill(clean(text, style), "  ", "    ", columns)
    return "\n".join(lines) + "\n"
