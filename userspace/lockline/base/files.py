# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kind of file this is, by its first bytes."""

# https://sqlite.org/fileformat.html, 1.3: a recording is such a file.
SQLITE = b"SQLite format 3\0"
# By version and byte order: PERF_MAGIC of tools/perf/util/header.c.
PERF = (b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP")
