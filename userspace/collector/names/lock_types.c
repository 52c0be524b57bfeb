// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <string.h>

#include "names/lock_types.h"

static struct types *module_types(struct lock_names *names, const char *module)
{
	struct module_types *slot = names->modules;

	if (!*module || !names->types)
		return NULL;
	for (int i = 0; i < names->module_count; i++, slot++)
		if (!strcmp(slot->module, module))
			return slot->types;
	if (names->module_count == MODULE_TYPES || strlen(module) >= sizeof(slot->module))
		return NULL;
	/* A module that is built in or has no BTF is remembered too. */
	snprintf(slot->module, sizeof(slot->module), "%s", module);
	if (types_open_module(&slot->types, names->types, module))
		slot->types = NULL;
	names->module_count++;
	return slot->types;
}

struct kernel_type names_struct(struct lock_names *names, const char *type, const char *module)
{
	struct kernel_type found = {.types = names->types};

	if (!found.types)
		return found;
	found.id = types_struct(found.types, type);
	if (found.id)
		return found;
	found.types = module_types(names, module);
	if (found.types)
		found.id = types_struct(found.types, type);
	return found;
}

struct kernel_type names_function(struct lock_names *names, const struct symbol *function)
{
	struct kernel_type found = {.types = *function->module ? module_types(names, function->module) : names->types};

	if (found.types)
		found.id = types_function(found.types, function->name);
	return found;
}

int names_member(const struct kernel_type *type, const char *prefix, __u32 offset, enum lock_kind kind,
		 struct lock_name *out)
{
	char path[96];
	int index, err;

	err = types_lock_path(type->types, type->id, offset, kind, path, sizeof(path), &index);
	if (err)
		return err;
	snprintf(out->name, sizeof(out->name), "%s%s", prefix, path);
	if (index >= 0)
		snprintf(out->instance, sizeof(out->instance), "[%d]", index);
	return 0;
}

void names_object(const struct kernel_type *type, __u64 object, struct lock_name *out)
{
	snprintf(out->type, sizeof(out->type), "%s", types_name(type->types, types_resolve(type->types, type->id)));
	out->object = object;
}
