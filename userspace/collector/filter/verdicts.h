/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Answers the programs' questions about locks: named, compared with the words of -L, and told by a word in a map. */
#ifndef LOCKLINE_VERDICTS_H
#define LOCKLINE_VERDICTS_H

#include "probes/subsystem.h"

struct verdicts;

int verdicts_open(struct verdicts **out, struct lockline_bpf *bpf, const struct ground *ground);
void verdicts_close(struct verdicts *verdicts);
/* Reads what was asked, and lets the programs ask again. */
int verdicts_answer(struct verdicts *verdicts);
/* Forgets unwanted locks where there are many, or after a minute: their memory may have become another lock. */
void verdicts_age(struct verdicts *verdicts);

#endif /* LOCKLINE_VERDICTS_H */
