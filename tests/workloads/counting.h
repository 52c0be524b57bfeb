/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * By what a program in an emulated guest tells tests/vm/coherence/executed.c, the plugin that counts instructions, when
 * to count: a no-op with an operand that no compiler makes.  On a processor nothing happens.
 */
#ifndef COUNTING_H
#define COUNTING_H

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define COUNTED_PHASES      255
#define COUNTED_WITH_BLOCKS 127 /* of the phases above these there are sums alone */

/* Phase 1 to COUNTED_PHASES begins; 0: the one that lasts ends.  Negative errno. */
static inline int count_phase(unsigned char phase)
{
	/* nopl 0x72616dNN(%rax,%rax,1); ret */
	const unsigned char code[] = {0x0f, 0x1f, 0x84, 0x00, phase, 'm', 'a', 'r', 0xc3};
	void *page = mmap(NULL, sizeof(code), PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -errno;
	memcpy(page, code, sizeof(code));
#if defined(__x86_64__)
	((void (*)(void))page)();
#endif
	munmap(page, sizeof(code));
	return 0;
}

#endif /* COUNTING_H */
