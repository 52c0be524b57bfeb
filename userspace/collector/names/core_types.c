// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "names/btf_members.h"
#include "names/core_types.h"

/* Whose number programs ask for (word_by_cast()): up to it all types keep their numbers. */
#define NUMBERED_TYPE "timespec64"

struct core_types {
	const struct btf *kernel;
	struct btf *copy;
	__u32 *ids; /* in the copy, by the kernel's; 0: not in it */
};

/* What libbpf looks at when it compares a member: never what a pointer points to. */
static bool is_end(const struct btf_type *type)
{
	return btf_is_ptr(type) || btf_is_func_proto(type);
}

static bool has_one_type(const struct btf_type *type)
{
	return !is_end(type) && (btf_is_mod(type) || btf_is_typedef(type) || btf_is_type_tag(type));
}

static void want(__u32 id, void *data)
{
	struct core_types *core = data;
	const struct btf_type *type = btf__type_by_id(core->kernel, id);

	if (!id || core->ids[id])
		return;
	core->ids[id] = id;
	if (has_one_type(type))
		want(type->type, core);
	else if (btf_is_array(type))
		want(btf_array(type)->type, core);
	else if (btf_is_composite(type))
		for (int i = 0; i < btf_vlen(type); i++)
			want(btf_members(type)[i].type, core);
}

/* "rq" of "rq___before_6_1": libbpf takes what follows three underscores for a version of the type. */
static int essential_name(const char *name, char *out, size_t size)
{
	const char *flavor = strstr(name, "___");
	size_t length = flavor && flavor > name ? (size_t)(flavor - name) : strlen(name);

	if (length >= size)
		return -ENAMETOOLONG;
	memcpy(out, name, length);
	out[length] = 0;
	return 0;
}

static int want_names(struct core_types *core, const struct types *kernel, const struct btf *programs)
{
	char name[256];

	for (__u32 id = 1; id < btf__type_cnt(programs); id++) {
		const struct btf_type *type = btf__type_by_id(programs, id);
		int err = type->name_off
				  ? essential_name(btf__name_by_offset(programs, type->name_off), name, sizeof(name))
				  : 0;

		if (err)
			return err;
		if (type->name_off && (btf_is_composite(type) || btf_is_any_enum(type) || btf_is_typedef(type)))
			types_each_of_name(kernel, name, want, core);
	}
	return 0;
}

/* What a type refers to, by the copy's numbers. */
static void renumber(const struct core_types *core, struct btf_type *type)
{
	struct btf_member *member = btf_members(type);

	if (is_end(type))
		type->type = 0;
	else if (has_one_type(type))
		type->type = core->ids[type->type];
	else if (btf_is_composite(type))
		for (int i = 0; i < btf_vlen(type); i++)
			member[i].type = core->ids[member[i].type];
	else if (btf_is_array(type)) {
		btf_array(type)->type = core->ids[btf_array(type)->type];
		btf_array(type)->index_type = core->ids[btf_array(type)->index_type];
	}
}

static int copy_types(struct core_types *core, __u32 numbered)
{
	__u32 count = btf__type_cnt(core->kernel), next = numbered + 1;
	int id = 0;

	for (__u32 from = numbered + 1; from < count; from++)
		if (core->ids[from])
			core->ids[from] = next++;
	for (__u32 from = 1; id >= 0 && from < count; from++) {
		if (core->ids[from]) {
			id = btf__add_type(core->copy, core->kernel, btf__type_by_id(core->kernel, from));
			if (id > 0)
				renumber(core, (struct btf_type *)btf__type_by_id(core->copy, id));
		} else if (from <= numbered) {
			/* Keeps the place. */
			id = btf__add_ptr(core->copy, 0);
		}
	}
	return id < 0 ? id : 0;
}

int core_types_write(const struct types *kernel, const struct btf *programs, int fd)
{
	struct core_types core = {.kernel = types_btf(kernel), .copy = btf__new_empty()};
	const void *data;
	__u32 size;
	int err;

	core.ids = calloc(btf__type_cnt(core.kernel), sizeof(*core.ids));
	err = core.copy && core.ids ? want_names(&core, kernel, programs) : -ENOMEM;
	err = err ?: copy_types(&core, types_struct(kernel, NUMBERED_TYPE));
	if (!err) {
		data = btf__raw_data(core.copy, &size);
		err = !data ? -ENOMEM : write(fd, data, size) == size ? 0 : -EIO;
	}
	btf__free(core.copy);
	free(core.ids);
	return err;
}
