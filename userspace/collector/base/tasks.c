// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <stdlib.h>

#include "base/small_file.h"
#include "base/tasks.h"

static int read_status(__u32 id, const char *key, char *out, size_t size)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%u/status", id);
	return value_of_key(path, key, out, size);
}

char task_state(__u32 id)
{
	char state[32];

	/* "S (sleeping)" */
	return read_status(id, "State", state, sizeof(state)) ? 0 : state[0];
}

bool task_gone(__u32 id)
{
	char state = task_state(id);

	return !state || state == 'Z' || state == 'X';
}

int task_leader(__u32 id, __u32 *tgid)
{
	char value[32];
	int err = read_status(id, "Tgid", value, sizeof(value));

	if (!err)
		*tgid = strtoul(value, NULL, 10);
	return err;
}
