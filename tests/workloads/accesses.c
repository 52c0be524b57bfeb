// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads, writes, and reads and writes a few bytes each of one line, as often as
 * asked, by instructions that no disassembler can tell for sure: they are
 * code made at run time, without a symbol, right behind memory that cannot be
 * read; and a byte 0x0f makes another instruction of each that ends where it ends.
 *
 *	accesses [CPU]
 *
 * "read COUNT", "write COUNT" and "change COUNT" do so at 0, 8 and 24 of the
 * line; "all COUNT" does all three in turn.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workload.h"

#define PAGE 4096

struct accesses_line {
	__u64 read;
	__u64 written;
	__u64 unused;
	__u64 changed;
	__u64 rest[4];
};

struct accesses_line accesses_line __attribute__((aligned(64)));

#ifdef __x86_64__
/* mov $0xf,%al; sub (%rdi),%eax: from the byte before on movntps %xmm0,(%rdi) */
static const unsigned char reads[] = {0xb0, 0x0f, 0x2b, 0x07, 0xc3};
/* mov $0xf,%al; movlps %xmm0,(%rdi): from its second byte on adc (%rdi),%eax */
static const unsigned char writes[] = {0xb0, 0x0f, 0x0f, 0x13, 0x07, 0xc3};
/* mov $0xf,%al; add %eax,(%rdi): from the byte before on sgdt (%rdi) */
static const unsigned char changes[] = {0xb0, 0x0f, 0x01, 0x07, 0xc3};
#define HAVE_CODE 1
#else
static const unsigned char reads[1], writes[1], changes[1];
#define HAVE_CODE 0
#endif

typedef void access_function(__u64 *);

static access_function *make(const unsigned char *code, size_t size)
{
	char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		die("no memory");
	memcpy(page + PAGE, code, size);
	if (munmap(page, PAGE) || mprotect(page + PAGE, PAGE, PROT_READ | PROT_EXEC))
		die("code cannot be made at run time");
	return (access_function *)(page + PAGE);
}

int main(int argc, char **argv)
{
	access_function *read_it, *write_it, *change_it;
	struct command command;

	if (!HAVE_CODE)
		die("there is such code for x86-64 alone");
	commands_open();
	pin_to_cpu(argc > 1 ? atoi(argv[1]) : 0);
	read_it = make(reads, sizeof(reads));
	write_it = make(writes, sizeof(writes));
	change_it = make(changes, sizeof(changes));
	printf("{\"event\": \"ready\", \"pid\": %d, \"line\": %lu}\n", getpid(), (unsigned long)&accesses_line);
	fflush(stdout);
	while (next_command(&command)) {
		bool all = !strcmp(command.word, "all");

		for (__u64 i = 0; i < command.count; i++) {
			if (all || !strcmp(command.word, "read"))
				read_it(&accesses_line.read);
			if (all || !strcmp(command.word, "write"))
				write_it(&accesses_line.written);
			if (all || !strcmp(command.word, "change"))
				change_it(&accesses_line.changed);
		}
		printf("{\"event\": \"done\", \"times\": %llu}\n", command.count);
		fflush(stdout);
	}
	return 0;
}
