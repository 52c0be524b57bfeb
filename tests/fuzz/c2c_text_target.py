# SPDX-License-Identifier: GPL-2.0-or-later
"""What every input is put through: the fuzzer's, and those of the corpus."""

from lockline.base.errors import LocklineError
from lockline.c2c.store import Memory
from lockline.c2c.text_import import memory_tables, parse

# A count that no text of a perf report can hold.
LARGEST = 1 << 64


def run(data: bytes) -> None:
    """Import the text; anything but tables or a LocklineError of one line is a fault."""
    text = data.decode("utf-8", "replace")
    try:
        tables = memory_tables(parse(text), "input")
    except LocklineError as refused:
        message = str(refused)
    else:
        message = ""
        check(tables)
    assert "\n" not in message


def check(tables: Memory) -> None:
    """The rows refer to one another, and hold numbers that a table can hold."""
    lines = {line.id for line in tables.lines}
    assert len(lines) == len(tables.lines)
    codes = {code.id for code in tables.codes} | {0}
    threads = {thread.id for thread in tables.threads} | {0}
    keys = set()
    for access in tables.accesses:
        assert access.line in lines
        assert access.code in codes
        assert access.thread in threads
        assert access.key not in keys
        keys.add(access.key)
        assert access.records is None or 0 <= access.records < LARGEST
    assert all(0 <= line.address < LARGEST for line in tables.lines)
