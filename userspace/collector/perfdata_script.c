// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "message.h"
#include "perfdata_import.h"
#include "perfdata_script.h"

int perfdata_script(struct perfdata_import *import, const char *why)
{
	message("cannot read %s: %s", import->options->input, why);
	return -ENOTSUP;
}
