/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of a source could not be read: the first ones in words, all by number. */
#ifndef LOCKLINE_MEMORY_PROBLEMS_H
#define LOCKLINE_MEMORY_PROBLEMS_H

#include <stdarg.h>
#include <stdio.h>
#include <linux/types.h>

#define MEMORY_PROBLEMS 100

struct memory_problems {
	struct {
		__u64 place;
		char text[200];
	} list[MEMORY_PROBLEMS];
	__u64 count;
};

__attribute__((format(printf, 3, 4))) static inline void memory_problem(struct memory_problems *problems, __u64 place,
									const char *format, ...)
{
	va_list arguments;

	if (problems->count++ >= MEMORY_PROBLEMS)
		return;
	problems->list[problems->count - 1].place = place;
	va_start(arguments, format);
	vsnprintf(problems->list[problems->count - 1].text, sizeof(problems->list[0].text), format, arguments);
	va_end(arguments);
}

#endif /* LOCKLINE_MEMORY_PROBLEMS_H */
