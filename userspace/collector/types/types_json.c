// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "names/btf_members.h"
#include "cli/message.h"
#include "cli/options.h"
#include "types/types_json.h"

#define DEEPEST     32 /* of typedefs, qualifiers, pointers and arrays in a row */
#define NAME_SIZE   513
#define MAX_STRUCTS 16384

struct printer {
	struct json json;
	const struct btf *btf;
	const struct types *types;
	bool *seen; /* by type: printed, or in the queue */
	__u32 *queue;
	__u32 queued;
	__u32 type_count;
};

void types_key_name(struct json *json, const char *key, const char *name)
{
	char cut[NAME_SIZE];

	snprintf(cut, sizeof(cut), "%s", name);
	json_key_text(json, key, cut);
}

void types_open_document(struct json *json, size_t pointer_size)
{
	json_open(json, '{');
	json_key_text(json, "schema", "lockline-types/1");
	json_key_number(json, "pointer_size", pointer_size);
}

void types_close_document(struct json *json)
{
	json_close(json, '}');
	fputc('\n', json->out);
}

const char *next_name(const char **list, char *name, size_t size)
{
	while (*list && **list) {
		size_t length = strcspn(*list, ",");
		const char *begin = *list;

		*list += length + (begin[length] == ',');
		if (!length || length >= size)
			continue;
		memcpy(name, begin, length);
		name[length] = 0;
		return name;
	}
	return NULL;
}

static const struct btf_type *type_of(const struct printer *p, __u32 id)
{
	return id && id < p->type_count ? btf__type_by_id(p->btf, id) : NULL;
}

static const char *name_of(const struct printer *p, const struct btf_type *type)
{
	const char *name = btf__name_by_offset(p->btf, type->name_off);

	return name ? name : "";
}

/* The type without typedefs and qualifiers; 0: none, or too deep. */
static __u32 bare(const struct printer *p, __u32 id)
{
	for (int depth = 0; depth < DEEPEST; depth++) {
		const struct btf_type *type = type_of(p, id);

		if (!type)
			return 0;
		if (!btf_is_mod(type) && !btf_is_typedef(type) && btf_kind(type) != BTF_KIND_TYPE_TAG)
			return id;
		id = type->type;
	}
	return 0;
}

static __u32 size_of(const struct printer *p, __u32 id)
{
	__s64 size = btf__resolve_size(p->btf, id);

	return size > 0 && size <= UINT32_MAX ? size : 0;
}

/* The structure or union that a type is; 0: it is none.  It will be printed. */
static __u32 wanted_struct(struct printer *p, __u32 id)
{
	const struct btf_type *type;

	id = bare(p, id);
	type = type_of(p, id);
	if (!type || !btf_is_composite(type))
		return 0;
	if (!p->seen[id]) {
		if (p->queued == MAX_STRUCTS)
			return 0;
		p->seen[id] = true;
		p->queue[p->queued++] = id;
	}
	return id;
}

static __u32 pointed_struct(struct printer *p, __u32 id)
{
	const struct btf_type *type = type_of(p, bare(p, id));

	return type && btf_is_ptr(type) ? wanted_struct(p, type->type) : 0;
}

/* As C would write it, without what a function pointer takes and gives. */
static void write_type(const struct printer *p, FILE *text, __u32 id, int depth)
{
	const struct btf_type *type = type_of(p, id);
	const char *name = type ? name_of(p, type) : "";

	if (!type || depth > DEEPEST) {
		fputs(id ? "?" : "void", text);
		return;
	}
	switch (btf_kind(type)) {
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		fprintf(text, "%s%s%.*s", btf_is_struct(type) ? "struct" : "union", *name ? " " : "", NAME_SIZE, name);
		return;
	case BTF_KIND_FWD:
		fprintf(text, "%s %.*s", btf_kflag(type) ? "union" : "struct", NAME_SIZE, name);
		return;
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		fprintf(text, "enum%s%.*s", *name ? " " : "", NAME_SIZE, name);
		return;
	case BTF_KIND_PTR:
		write_type(p, text, type->type, depth + 1);
		fputs(" *", text);
		return;
	case BTF_KIND_FUNC_PROTO:
		fputs("function", text);
		return;
	case BTF_KIND_CONST:
		fputs("const ", text);
		write_type(p, text, type->type, depth + 1);
		return;
	case BTF_KIND_VOLATILE:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_TYPE_TAG:
		write_type(p, text, type->type, depth + 1);
		return;
	case BTF_KIND_ARRAY:
		write_type(p, text, btf_array(type)->type, depth + 1);
		fprintf(text, "[%u]", btf_array(type)->nelems);
		return;
	default:
		fprintf(text, "%.*s", NAME_SIZE, name);
	}
}

static void print_type(struct printer *p, __u32 id)
{
	char *text = NULL;
	size_t size = 0;
	FILE *memory = open_memstream(&text, &size);

	if (memory) {
		write_type(p, memory, id, 0);
		fclose(memory);
	}
	types_key_name(&p->json, "type", text ? text : "?");
	free(text);
}

static void print_struct_id(struct printer *p, __u32 id)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", id);
	if (id)
		json_key_text(&p->json, "struct", number);
}

/* Of an array its elements are described: how many, how far apart, and their structure. */
static __u32 element(const struct printer *p, __u32 id, __u64 *count)
{
	const struct btf_type *type;

	*count = 1;
	for (int depth = 0; depth < DEEPEST; depth++) {
		id = bare(p, id);
		type = type_of(p, id);
		if (!type || !btf_is_array(type))
			return id;
		if (*count > UINT32_MAX)
			return 0;
		*count *= btf_array(type)->nelems;
		id = btf_array(type)->type;
	}
	return 0;
}

static void print_member(struct printer *p, const struct btf_type *parent, int index)
{
	const struct btf_member *member = btf_members(parent) + index;
	const char *name = btf__name_by_offset(p->btf, member->name_off);
	__u32 bits = btf_member_bitfield_size(parent, index), first = btf_member_bit_offset(parent, index);
	__u32 size = size_of(p, member->type), inner;
	__u64 count;

	if (bits)
		size = (first % 8 + bits + 7) / 8;
	json_open(&p->json, '{');
	types_key_name(&p->json, "name", name ? name : "");
	json_key_number(&p->json, "offset", first / 8);
	json_key_number(&p->json, "size", size);
	print_type(p, member->type);
	if (bits) {
		json_key_number(&p->json, "bit_offset", first % 8);
		json_key_number(&p->json, "bit_size", bits);
	}
	inner = element(p, member->type, &count);
	if (inner != bare(p, member->type)) {
		json_key_number(&p->json, "count", count);
		json_key_number(&p->json, "stride", size_of(p, inner));
	}
	print_struct_id(p, wanted_struct(p, inner));
	json_close(&p->json, '}');
}

static void print_structs(struct printer *p)
{
	char number[16];

	json_newline(&p->json);
	json_key(&p->json, "structs");
	json_open(&p->json, '{');
	/* Printing one may queue others. */
	for (__u32 i = 0; i < p->queued; i++) {
		const struct btf_type *type = type_of(p, p->queue[i]);

		snprintf(number, sizeof(number), "%u", p->queue[i]);
		json_newline(&p->json);
		json_key(&p->json, number);
		json_open(&p->json, '{');
		json_key_text(&p->json, "kind", btf_is_struct(type) ? "struct" : "union");
		types_key_name(&p->json, "name", name_of(p, type));
		json_key_number(&p->json, "size", type->size);
		json_key(&p->json, "members");
		json_open(&p->json, '[');
		for (int index = 0; index < btf_vlen(type); index++)
			print_member(p, type, index);
		json_close(&p->json, ']');
		json_close(&p->json, '}');
	}
	json_close(&p->json, '}');
}

static void print_functions(struct printer *p, const char *names)
{
	char name[NAME_SIZE];

	json_newline(&p->json);
	json_key(&p->json, "functions");
	json_open(&p->json, '{');
	while (next_name(&names, name, sizeof(name))) {
		const struct btf_type *type = type_of(p, types_function(p->types, name));
		const struct btf_param *parameter;

		type = type ? type_of(p, type->type) : NULL;
		if (!type || !btf_is_func_proto(type))
			continue;
		json_newline(&p->json);
		json_key(&p->json, name);
		json_open(&p->json, '{');
		json_key(&p->json, "parameters");
		json_open(&p->json, '[');
		parameter = btf_params(type);
		for (int i = 0; i < btf_vlen(type); i++, parameter++) {
			const char *word = btf__name_by_offset(p->btf, parameter->name_off);

			json_open(&p->json, '{');
			types_key_name(&p->json, "name", word ? word : "");
			print_type(p, parameter->type);
			print_struct_id(p, pointed_struct(p, parameter->type));
			json_close(&p->json, '}');
		}
		json_close(&p->json, ']');
		json_key(&p->json, "returns");
		json_open(&p->json, '{');
		print_type(p, type->type);
		print_struct_id(p, pointed_struct(p, type->type));
		json_close(&p->json, '}');
		json_close(&p->json, '}');
	}
	json_close(&p->json, '}');
}

static void print_variables(struct printer *p, const char *names)
{
	char name[NAME_SIZE];

	json_newline(&p->json);
	json_key(&p->json, "variables");
	json_open(&p->json, '{');
	while (next_name(&names, name, sizeof(name))) {
		int id = btf__find_by_name_kind(p->btf, name, BTF_KIND_VAR);
		const struct btf_type *type = id > 0 ? type_of(p, id) : NULL;

		if (!type)
			continue;
		json_newline(&p->json);
		json_key(&p->json, name);
		json_open(&p->json, '{');
		json_key_number(&p->json, "size", size_of(p, type->type));
		print_type(p, type->type);
		print_struct_id(p, wanted_struct(p, type->type));
		json_close(&p->json, '}');
	}
	json_close(&p->json, '}');
}

/* Structures by name: their tag, or the typedef of one that has none. */
static void want_structs(struct printer *p, const char *names)
{
	char name[NAME_SIZE];

	while (next_name(&names, name, sizeof(name))) {
		int id = types_struct(p->types, name);

		if (!id)
			id = btf__find_by_name_kind(p->btf, name, BTF_KIND_TYPEDEF);
		if (id > 0)
			wanted_struct(p, id);
	}
}

static struct btf *open_btf(const char *path)
{
	char why[128];
	struct stat status;
	struct btf *btf;

	/* A device may have any effect when it is read. */
	if (path && (stat(path, &status) || !S_ISREG(status.st_mode))) {
		message("%s: not a file that can be read; give a vmlinux, or a file as /sys/kernel/btf/vmlinux", path);
		return NULL;
	}
	btf = path ? btf__parse(path, NULL) : btf__load_vmlinux_btf();
	if (btf)
		return btf;
	libbpf_strerror(errno, why, sizeof(why));
	if (path)
		message("%s: no BTF in it (%s); give a vmlinux with .BTF, or a file as /sys/kernel/btf/vmlinux", path,
			why);
	else
		message("this kernel has no BTF (%s); give that of the recorded kernel with --btf FILE", why);
	return NULL;
}

static int print_btf(const struct options *options)
{
	struct printer p = {.json = {.out = stdout}};
	struct types *types = NULL;
	struct btf *btf = open_btf(options->btf);
	int err;

	if (!btf)
		return -EINVAL;
	err = types_open_btf(&types, btf);
	if (err) {
		btf__free(btf);
		goto out;
	}
	p.btf = btf;
	p.types = types;
	p.type_count = btf__type_cnt(btf);
	p.seen = calloc(p.type_count, sizeof(*p.seen));
	p.queue = calloc(MAX_STRUCTS, sizeof(*p.queue));
	if (!p.seen || !p.queue) {
		err = -ENOMEM;
		goto out;
	}
	want_structs(&p, options->structs);
	types_open_document(&p.json, btf__pointer_size(btf));
	print_functions(&p, options->functions);
	print_variables(&p, options->variables);
	print_structs(&p);
	types_close_document(&p.json);
out:
	if (err == -ENOMEM)
		message("out of memory while reading types");
	free(p.queue);
	free(p.seen);
	types_close(types);
	return err;
}

static int silent(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return 0;
}

int types_print_json(const struct options *options)
{
	libbpf_set_print(silent);
	return print_btf(options);
}
