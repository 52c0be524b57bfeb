/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of code that was made at run time, as its process wrote them: lines "begin size name".  Runs in the helper. */
#ifndef LOCKLINE_NAMING_MAP_H
#define LOCKLINE_NAMING_MAP_H

#include <linux/types.h>

struct naming_map;

/* Takes the descriptor.  Bounded: of a larger file the end alone is in it.  NULL: no memory, or no such line. */
struct naming_map *naming_map_open(int fd);
void naming_map_close(struct naming_map *map);
/* Of several at the address the one that was written last; NULL: none. */
const char *naming_map_find(const struct naming_map *map, __u64 address, __u64 *offset);

#endif /* LOCKLINE_NAMING_MAP_H */
