/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One question to the naming helper, and its answer.  Meanwhile the helper gets what it asks back for: pages of the
 * process that the question is about.
 */
#ifndef LOCKLINE_NAMING_EXCHANGE_H
#define LOCKLINE_NAMING_EXCHANGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <linux/types.h>

#include "helper/naming_protocol.h"
#include "naming/naming_process.h"

/* A request with what comes and goes besides. */
struct naming_question {
	struct naming_request request;
	struct naming_answer answer;
	const struct naming_stack *stack;
	void *found; /* what comes with its answer; NULL: nothing */
	size_t found_bytes;
	__u32 memory_of; /* the process whose memory it may want; 0: none's */
	__u32 pages;     /* that it had */
	__u64 until_ns;  /* it has more; set by its first page */
};

/* Whom to ask, and who may end it. */
struct naming_exchange {
	struct naming_process *process;
	const atomic_bool *given_up;
	int (*meanwhile)(
		void *context); /* called while an answer is waited for, ends that if not 0; NULL: nothing is */
	void *context;
};

/*
 * fd: goes with the request, -1: none.  Of the answer text is printable, and sizes are within their bounds.  Negative
 * errno: the helper is gone or has to go; -EIO: it waits for a file.
 */
int naming_exchange(const struct naming_exchange *exchange, struct naming_question *question, int fd);

#endif /* LOCKLINE_NAMING_EXCHANGE_H */
