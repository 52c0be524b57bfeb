/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which directory -G, --container and --pod name, for who looks at its tasks without a recording. */
#ifndef LOCKLINE_CGROUP_ASK_H
#define LOCKLINE_CGROUP_ASK_H

#include <stdbool.h>

/* lockline-collect group CGROUP CONTAINER POD: '' for what is not named. */
bool cgroup_ask_wanted(int argc, char **argv);
/* The directory, on stdout; on refusal one line on stderr says why.  The exit code. */
int cgroup_ask_main(char **argv);

#endif /* LOCKLINE_CGROUP_ASK_H */
