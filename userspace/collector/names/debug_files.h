/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where debug information comes from. */
#ifndef LOCKLINE_DEBUG_FILES_H
#define LOCKLINE_DEBUG_FILES_H

#include <elfutils/libdwfl.h>

/* Installed debug files alone: libdwfl's standard search would ask debuginfod servers too. */
int find_installed_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
			     const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc,
			     char **debuginfo_file_name);

#endif /* LOCKLINE_DEBUG_FILES_H */
