// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel's BTF is parsed once, whoever asks for it; libbpf's parser is played by this file. */
#include <stddef.h>

#include <bpf/btf.h>

#include "tap.h"

struct btf *__wrap_btf__load_vmlinux_btf(void);
void __wrap_btf__free(struct btf *btf);
struct btf *__real_btf__load_vmlinux_btf(void);
void __real_btf__free(struct btf *btf);

static char objects[4];
static int parsed, freed;
static bool refused;

static struct btf *parse(void)
{
	return refused ? NULL : (struct btf *)&objects[parsed++];
}

/* Of a file that could be mapped. */
struct btf *btf__new(const void *data, __u32 size)
{
	return parse();
}

struct btf *__real_btf__load_vmlinux_btf(void)
{
	return parse();
}

void __real_btf__free(struct btf *btf)
{
	freed++;
}

static void reset(void)
{
	parsed = freed = 0;
	refused = false;
}

static void parsed_once_for_all(void)
{
	struct btf *first, *second;

	reset();
	first = __wrap_btf__load_vmlinux_btf();
	second = __wrap_btf__load_vmlinux_btf();
	CHECK(first && first == second, "%p and %p", (void *)first, (void *)second);
	CHECK(parsed == 1, "parsed %d times", parsed);
	__wrap_btf__free(second);
	CHECK(!freed, "another still uses it");
	__wrap_btf__free(first);
	CHECK(freed == 1, "freed %d times", freed);
}

static void parsed_again_after_the_last_user(void)
{
	struct btf *first;

	reset();
	first = __wrap_btf__load_vmlinux_btf();
	__wrap_btf__free(first);
	CHECK(__wrap_btf__load_vmlinux_btf() != first, "what was freed is handed out");
	CHECK(parsed == 2, "parsed %d times", parsed);
	__wrap_btf__free((struct btf *)&objects[1]);
	CHECK(freed == 2, "freed %d times", freed);
}

static void others_are_freed_at_once(void)
{
	struct btf *kernel;

	reset();
	__wrap_btf__free(NULL);
	kernel = __wrap_btf__load_vmlinux_btf();
	freed = 0;
	__wrap_btf__free((struct btf *)&objects[3]);
	CHECK(freed == 1, "freed %d times", freed);
	__wrap_btf__free(kernel);
	CHECK(freed == 2, "freed %d times", freed);
}

static void no_user_of_what_is_not_there(void)
{
	reset();
	refused = true;
	CHECK(!__wrap_btf__load_vmlinux_btf(), "there is none");
	refused = false;
	CHECK(__wrap_btf__load_vmlinux_btf() == (struct btf *)&objects[0], "asked for again");
	__wrap_btf__free((struct btf *)&objects[0]);
	CHECK(freed == 1, "freed %d times", freed);
}

static const struct test tests[] = {
	TEST(parsed_once_for_all),
	TEST(parsed_again_after_the_last_user),
	TEST(others_are_freed_at_once),
	TEST(no_user_of_what_is_not_there),
};

int main(void)
{
	return RUN_TESTS(tests);
}
