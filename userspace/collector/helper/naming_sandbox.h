/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the naming helper gives up before it reads the first byte of anybody's file. */
#ifndef LOCKLINE_NAMING_SANDBOX_H
#define LOCKLINE_NAMING_SANDBOX_H

/*
 * No user, no capability, no file system, no new privileges, memory of
 * NAMING_MEMORY_BYTES, and no system call but those that reading open files
 * takes: no open(), no socket(), no fork(), no code that is made at run time.
 * 0, or negative errno: then nothing must be read.
 */
int naming_sandbox_enter(void);

#endif /* LOCKLINE_NAMING_SANDBOX_H */
