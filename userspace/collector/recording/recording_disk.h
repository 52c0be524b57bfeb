/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Brings what was committed onto the disk, in a thread of its own: whoever reads the rings waits for no disk.
 *
 * After each commit the journal is synced, so that a power cut costs the interval in progress and what the disk had
 * not finished.  A long journal goes into the file, and the next commits write over it; a reader that does not go on
 * prevents that.  The thread has a connection of its own, which only makes checkpoints.
 */
#ifndef LOCKLINE_RECORDING_DISK_H
#define LOCKLINE_RECORDING_DISK_H

#include <stdbool.h>
#include <linux/types.h>

struct recording_disk;

/* Starts the thread; path: of the recording. */
int recording_disk_open(struct recording_disk **out, const char *path);
/* Ends it once it is done with what it has; may be NULL. */
void recording_disk_close(struct recording_disk *disk);
/* There is a commit; fold: its journal should go into the file.  Does not wait. */
void recording_disk_ask(struct recording_disk *disk, bool fold);
/* Waits until all that was asked for is done, for so long at most. */
void recording_disk_wait(struct recording_disk *disk, __u32 most_ms);
/* Whether a reader kept the journal from going into the file, when that was last tried. */
bool recording_disk_is_held(struct recording_disk *disk);

#endif /* LOCKLINE_RECORDING_DISK_H */
