// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/debug_files.h"

int find_installed_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
			     const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc,
			     char **debuginfo_file_name)
{
	return dwfl_build_id_find_debuginfo(module, userdata, name, base, file_name, debuglink_file, debuglink_crc,
					    debuginfo_file_name);
}
