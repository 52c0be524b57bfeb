/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SQLite maps the index of its journal (FILE-shm), and writes there without asking for room.  A file system that writes
 * to a new place each time (btrfs) needs room for that; where it has none, or a quota is used up, the write is a SIGBUS.
 * Then the page becomes memory of this process alone, until there is room again.  Readers see what was committed before.
 */
#ifndef LOCKLINE_SHM_PAGES_H
#define LOCKLINE_SHM_PAGES_H

#include <stdbool.h>

/* From now on.  A SIGBUS elsewhere ends the process as before.  Returns 0 or negative errno. */
int shm_pages_guard(void);

/* Some page is memory of this process alone.  No journal may be folded meanwhile: a reader's mark may not be seen. */
bool shm_pages_are_aside(void);

/* Writes such pages into their file and maps them again, where there is room. */
void shm_pages_return(void);

#endif /* LOCKLINE_SHM_PAGES_H */
