// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * By libiberty, which limits its own recursion and, with these calls, allocates nothing.  A short name may stand for
 * one of gigabytes: it is left as soon as there is enough of it.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "elf/demangle.h"

/* Of what is mangled. */
#define LONGEST 4096

struct written {
	char *out;
	size_t size, length;
	jmp_buf enough;
};

static void write_part(const char *part, size_t length, void *context)
{
	struct written *written = context;
	const size_t room = written->size - 1 - written->length;
	const size_t taken = length < room ? length : room;

	memcpy(written->out + written->length, part, taken);
	written->length += taken;
	written->out[written->length] = 0;
	if (taken < length)
		longjmp(written->enough, 1);
}

static int by_language(const char *name, struct written *written)
{
	/* Older Rust names look like C++ ones. */
	if (rust_demangle_callback(name, DMGL_NO_OPTS, write_part, written))
		return 1;
	written->length = 0;
	return cplus_demangle_v3_callback(name, DMGL_ANSI, write_part, written);
}

/* The character that %XX stands for; 0: none, or one that a terminal obeys. */
static char printed(const char *escape)
{
	unsigned int byte;

	if (!isxdigit((unsigned char)escape[1]) || !isxdigit((unsigned char)escape[2]))
		return 0;
	sscanf(escape + 1, "%2x", &byte);
	return byte > ' ' && byte < 0x7f ? (char)byte : 0;
}

/* Go writes a dot in the last part of a package's path as %2e (cmd/internal/objabi: PathToPrefix()).
 * In a function with setjmp() GCC would find its variables clobbered. */
static __attribute__((noinline)) void without_escapes(const char *name, char *out, size_t size)
{
	size_t length = 0;

	for (; *name && length + 1 < size; length++) {
		const char meant = *name == '%' ? printed(name) : 0;

		out[length] = meant ?: *name;
		name += meant ? 3 : 1;
	}
	out[length] = 0;
}

void demangle(const char *name, char *out, size_t size)
{
	struct written written = {.out = out, .size = size};

	if ((!strncmp(name, "_Z", 2) || !strncmp(name, "_R", 2)) && strnlen(name, LONGEST) < LONGEST &&
	    (setjmp(written.enough) || by_language(name, &written)) && *out)
		return;
	without_escapes(name, out, size);
}
