/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CURRENT_WORDS_H
#define CURRENT_WORDS_H

#include <linux/types.h>

/* cpu_state.found_word of each possible CPU, as the collector finds it; NULL and errno if that cannot be looked for. */
const __u64 *find_current_words(void);

#endif /* CURRENT_WORDS_H */
