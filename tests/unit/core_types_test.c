// SPDX-License-Identifier: GPL-2.0-or-later
/* Which of the kernel's types programs are fitted to, and what is left of the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "names/btf_members.h"
#include "names/core_types.h"
#include "tap.h"

#define OTHERS 500

static int number;

static void add_structure(struct btf *btf, const char *name, const char *member, int type)
{
	btf__add_struct(btf, name, 24);
	btf__add_field(btf, member, type, 64, 0);
}

/*
 * A kernel: a number, the type whose number is asked for, what nobody asks for, a task with what it holds and points
 * to, a typedef, an enum.
 */
static struct types *make_kernel(void)
{
	struct btf *btf = btf__new_empty();
	struct types *types = NULL;
	char name[32];
	int list, array, task, pointer, level;

	number = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	btf__add_struct(btf, "before", 4);
	btf__add_field(btf, "x", number, 0, 0);
	btf__add_struct(btf, "timespec64", 16);
	btf__add_field(btf, "tv_sec", number, 0, 0);
	for (int i = 0; i < OTHERS; i++) {
		snprintf(name, sizeof(name), "other_%d", i);
		add_structure(btf, name, "x", number);
	}
	list = btf__type_cnt(btf);
	add_structure(btf, "list", "next", number);
	pointer = btf__add_ptr(btf, list - 1); /* to other_499 */
	array = btf__add_array(btf, number, btf__add_typedef(btf, "list_t", btf__add_const(btf, list)), 3);
	task = btf__type_cnt(btf);
	btf__add_struct(btf, "task", 100);
	btf__add_field(btf, "lists", array, 0, 0);
	btf__add_field(btf, "other", pointer, 576, 0);
	btf__add_field(btf, "pid", number, 640, 0);
	btf__add_typedef(btf, "guard_t", btf__add_union(btf, NULL, 4));
	level = btf__add_enum(btf, "level", 4);
	btf__add_enum_value(btf, "HIGH", 7);
	/* A second of the name. */
	add_structure(btf, "task", "pid", number);
	CHECK(number > 0 && pointer > 0 && array > 0 && task > 0 && level > 0, "not made");
	if (types_open_btf(&types, btf))
		btf__free(btf);
	return types;
}

/* The programs': a task as it was before, and types that this kernel does not have. */
static struct btf *make_programs(void)
{
	struct btf *btf = btf__new_empty();
	int own = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);

	add_structure(btf, "timespec64", "tv_sec", own);
	add_structure(btf, "task___before_6_1", "pid", own);
	add_structure(btf, "missing", "x", own);
	btf__add_typedef(btf, "guard_t", own);
	btf__add_enum(btf, "level", 4);
	btf__add_enum_value(btf, "HIGH", 1);
	return btf;
}

static struct btf *few(void)
{
	struct types *kernel = make_kernel();
	struct btf *programs = make_programs(), *copy = NULL;
	int fd = memfd_create("few", 0), err = core_types_write(kernel, programs, fd);
	char path[64];

	CHECK(!err, "error %d", err);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	copy = btf__parse(path, NULL);
	close(fd);
	btf__free(programs);
	types_close(kernel);
	return copy;
}

static void what_is_asked_for_is_as_the_kernels(void)
{
	struct btf *btf = few();
	int id = btf__find_by_name_kind(btf, "task", BTF_KIND_STRUCT), enumeration;
	const struct btf_type *task = btf__type_by_id(btf, id);
	const struct btf_array *lists = btf_array(btf__type_by_id(btf, btf_members(task)[0].type));

	CHECK(id > 0 && task->size == 100 && btf_vlen(task) == 3, "task");
	CHECK_TEXT(btf__name_by_offset(btf, btf_members(task)[2].name_off), "pid");
	CHECK(btf_member_bit_offset(task, 2) == 640, "at %u", btf_member_bit_offset(task, 2));
	CHECK(btf__resolve_size(btf, btf_members(task)[0].type) == 72, "three lists");
	CHECK_TEXT(btf__name_by_offset(btf, btf__type_by_id(btf, btf__resolve_type(btf, lists->type))->name_off),
		   "list");
	CHECK(btf__find_by_name_kind(btf, "guard_t", BTF_KIND_TYPEDEF) > 0, "guard_t");
	enumeration = btf__find_by_name_kind(btf, "level", BTF_KIND_ENUM);
	CHECK(enumeration > 0 && btf_enum(btf__type_by_id(btf, enumeration))[0].val == 7, "HIGH");
	btf__free(btf);
}

static void the_rest_is_left_out(void)
{
	struct btf *btf = few();
	int tasks = 0;

	CHECK(btf__type_cnt(btf) < 20, "%u types", btf__type_cnt(btf));
	CHECK(btf__find_by_name_kind(btf, "other_499", BTF_KIND_STRUCT) < 0, "what a pointer points to");
	CHECK(btf__find_by_name_kind(btf, "before", BTF_KIND_STRUCT) < 0, "a place alone");
	CHECK(btf__find_by_name_kind(btf, "missing", BTF_KIND_STRUCT) < 0, "the programs' own");
	for (__u32 id = 1; id < btf__type_cnt(btf); id++)
		tasks += !strcmp(btf__name_by_offset(btf, btf__type_by_id(btf, id)->name_off), "task");
	CHECK(tasks == 2, "%d of the two types of one name", tasks);
	btf__free(btf);
}

static void the_number_that_is_asked_for_stays(void)
{
	struct btf *btf = few();

	CHECK(btf__find_by_name_kind(btf, "timespec64", BTF_KIND_STRUCT) == 3, "is %d",
	      btf__find_by_name_kind(btf, "timespec64", BTF_KIND_STRUCT));
	btf__free(btf);
}

static const struct test tests[] = {
	TEST(what_is_asked_for_is_as_the_kernels),
	TEST(the_rest_is_left_out),
	TEST(the_number_that_is_asked_for_stays),
};

int main(void)
{
	return RUN_TESTS(tests);
}
