/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many files may be open: raised for events of many CPUs, and not for COMMAND. */
#ifndef LOCKLINE_FILES_LIMIT_H
#define LOCKLINE_FILES_LIMIT_H

/* As many as the hard limit lets. */
void files_limit_raise(void);
/* As it was before the first call of files_limit_raise(); in a child before it becomes another program. */
void files_limit_restore(void);

#endif /* LOCKLINE_FILES_LIMIT_H */
