/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An instruction, and the memory that it touches. */
#ifndef LOCKLINE_WATCH_INSTRUCTION_H
#define LOCKLINE_WATCH_INSTRUCTION_H

#include <stdbool.h>
#include <linux/types.h>

#define ACCESS_READ   (1u << 0)
#define ACCESS_WRITE  (1u << 1)
#define ACCESS_LOCKED (1u << 2)

#define WATCH_OPERANDS 3

/* Memory that an instruction touches.  Its place is known by the low bytes of registers alone, which is enough in a line. */
struct watch_operand {
	__u8 access; /* ACCESS_* */
	__u8 size;   /* bytes */
	__s8 base;   /* number of a register in struct watch_record; -1: none */
	__s8 index;
	__u8 scale;
	__u8 at;      /* WATCH_AT_* that a record of it has; 0: not known */
	bool lost;    /* a register of it does not hold what it held, or is not known */
	__u64 offset; /* to be added to the registers */
};

struct watch_instruction {
	__u64 address;
	__u8 length; /* 0: not known */
	__u8 operand_count;
	struct watch_operand operands[WATCH_OPERANDS];
};

#endif /* LOCKLINE_WATCH_INSTRUCTION_H */
