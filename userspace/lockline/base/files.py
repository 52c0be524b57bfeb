# SPDX-License-Identifier: GPL-2.0-or-later
"""What a file is, by its first bytes and its path; without pathlib, which takes as long to load as a small report."""

import errno
import os
import stat

from lockline.base.late import Late

# Without typing: see cli/c2c_start.py.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
else:
    select = Late("select")

# https://sqlite.org/fileformat.html, 1.3: a recording is such a file.
SQLITE = b"SQLite format 3\0"
# By version and byte order: PERF_MAGIC of tools/perf/util/header.c.
PERF = (b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP")

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


def plain_path(path: str | os.PathLike[str]) -> str:
    """The path as pathlib writes it: without ".", and without "/" that say nothing."""
    text = os.fspath(path)
    begin = len(text) - len(text.lstrip("/"))
    # Two are a root of their own, says POSIX.
    root = "//" if begin == 2 else "/" if begin else ""
    return root + "/".join(part for part in text.split("/") if part not in ("", ".")) or "."


def is_regular(path: str) -> bool | None:
    """Whether it is a regular file; None if there is nothing.  Raises OSError if that cannot be known."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
    except ValueError:
        # No path has a zero byte.
        pass
    return None


def takes_changes(path: str, patience_s: float) -> bool:
    """Whether a change of a file ends in time; it changes nothing.

    A child makes it, which is left alone if it does not: who waits for a file system cannot be ended.
    """
    end, of_child = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setsid()  # Ctrl-C is for others
            # Whoever reads what we print must not wait for the child.
            os.closerange(0, of_child)
            os.closerange(of_child + 1, of_child + 256)
            os.fchown(os.open(path, os.O_RDONLY), -1, -1)
        finally:
            os._exit(0)
    os.close(of_child)
    try:
        ended = bool(select.select([end], [], [], patience_s)[0])
    finally:
        os.close(end)
    if ended:
        os.waitpid(child, 0)
    return ended
