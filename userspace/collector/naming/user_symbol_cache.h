/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of addresses in files that several processes map: a server's backends have the same few hundred. */
#ifndef LOCKLINE_USER_SYMBOL_CACHE_H
#define LOCKLINE_USER_SYMBOL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "helper/naming_protocol.h"

struct user_symbol_cache;

/* NULL: no memory, and nothing is kept. */
struct user_symbol_cache *user_symbol_cache_open(void);
void user_symbol_cache_close(struct user_symbol_cache *cache);
/* By the object, of naming_client.h, and where in it; name "" is an answer too. */
bool user_symbol_cache_find(const struct user_symbol_cache *cache, __u64 object, const struct naming_place *place,
			    char *name, size_t size, __u64 *offset);
void user_symbol_cache_put(struct user_symbol_cache *cache, __u64 object, const struct naming_place *place,
			   const char *name, __u64 offset);

#endif /* LOCKLINE_USER_SYMBOL_CACHE_H */
