/* SPDX-License-Identifier: GPL-2.0-or-later */
/* No power is lost in these tests: nothing waits for a disk, neither here nor in SQLite. */
#ifndef UNSYNCED_H
#define UNSYNCED_H

int fdatasync(int fd);
int fsync(int fd);

int fdatasync(int fd)
{
	return 0;
}

int fsync(int fd)
{
	return 0;
}

#endif /* UNSYNCED_H */
