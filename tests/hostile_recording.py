# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording whose every name was chosen to do harm: to a terminal, a page, a spreadsheet, a query."""

from pathlib import Path

from recording_generator import BEGIN, SECOND, RecordingBuilder

MS = 1_000_000
ADDRESS = "ffff888012345678"
SCRIPT = "</script><script>alert(1)</script>"
BIDIRECTIONAL = "\u202e\u2066txt.exe\u2069"
NAMES = (
    SCRIPT,
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    '=HYPERLINK("http://example.com")',
    "a;b c 12\nfolded 99",
    f"lock at {ADDRESS}",
    BIDIRECTIONAL,
    "\x1b]0;title\x07\x1b[31m",
    "null\0byte",
    "-->",
    "${alert(1)}{{alert(1)}}",
    "'; DROP TABLE lock; --",
    "&lt;b&gt;",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \u0301 combining",
)
# None of these may be in anything that is shown.
FORBIDDEN = ("\x1b", "\x07", "\0", "\u202e", "\u2066", "\u2069", ADDRESS)


def make_hostile(path: Path) -> Path:
    """Each name once as a lock, a task, a cgroup, and a function with its module; waits of 1 ms, 2 ms, ..."""
    builder = RecordingBuilder(path, seconds=2, cpus=2, meta={"hostname": SCRIPT, "kernel_release": "<b>6.12"})
    builder.insert("cgroup", [(index, f"/{name}") for index, name in enumerate(NAMES, 1)])
    for index, name in enumerate(NAMES, 1):
        builder.lock(index, name, name)
        builder.waiter(index, name, cgroup=index)
        builder.stack(index, name, f"caller {name}", "entry")
        builder.waits(1 + index % 2, index % 2, index, 3, [index * MS])
        builder.insert("sample_total", [(index, index, 3, index, 0, 1, 1, index * MS)])
        begin = BEGIN + index * SECOND // 20
        builder.insert(
            "outlier", [(index, 1 + index % 2, begin, index * MS, index % 2, 0, index, index, 3, 0, index, 0)]
        )
        builder.insert("holder_total", [(index, 3, index, 1, 1, index * MS, index * MS)])
        builder.insert("release_stack", [(index, 3, index, index, 1, 1, index * MS)])
    return builder.finish()
