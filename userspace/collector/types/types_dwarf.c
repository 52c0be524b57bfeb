// SPDX-License-Identifier: GPL-2.0-or-later
/* Types of a program, from its DWARF: what types_json.c prints of a kernel's BTF. */
#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <elfutils/libdwfl.h>

#include "base/hash_index.h"
#include "names/debug_files.h"
#include "base/regular_file.h"
#include "cli/message.h"
#include "cli/options.h"
#include "types/types_dwarf.h"
#include "types/types_json.h"

#define DEEPEST     32 /* of typedefs, qualifiers, pointers, arrays and name spaces in a row */
#define NAME_SIZE   513
#define MAX_STRUCTS 16384

struct printer {
	struct json json;
	Dwarf_Die *queue; /* structures, in the order of their numbers */
	uint32_t queued;
	struct hash_index index; /* of the queue, by offset in DWARF */
	struct memory_budget budget;
	const char *functions, *structs, *variables;
	struct json function_members, variable_members; /* each into a text of its own */
};

/* Whether a list "a,b" has this name. */
static bool listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = list; at && length && (at = strstr(at, name)); at += length)
		if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
			return true;
	return false;
}

static const char *name_of(Dwarf_Die *die)
{
	const char *name = dwarf_diename(die);

	return name ? name : "";
}

static bool type_of(Dwarf_Die *die, Dwarf_Die *type)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, DW_AT_type, &attribute) && dwarf_formref_die(&attribute, type);
}

/* Without typedefs and qualifiers; false: void, or too deep. */
static bool bare(Dwarf_Die *type)
{
	for (int depth = 0; depth < DEEPEST; depth++) {
		switch (dwarf_tag(type)) {
		case DW_TAG_typedef:
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_restrict_type:
		case DW_TAG_atomic_type:
			if (!type_of(type, type))
				return false;
			break;
		default:
			return true;
		}
	}
	return false;
}

static bool is_struct(Dwarf_Die *type)
{
	int tag = dwarf_tag(type);

	return (tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type) &&
	       !dwarf_hasattr(type, DW_AT_declaration);
}

/* Number + 1 of a structure, which will be printed; 0: the type is none. */
static uint32_t wanted_struct(struct printer *p, Dwarf_Die *of)
{
	Dwarf_Die type = *of;
	Dwarf_Off offset;
	__u32 hash;

	if (!bare(&type) || !is_struct(&type))
		return 0;
	offset = dwarf_dieoffset(&type);
	hash = hash_two(offset, 0);
	hash_index_for(&p->index, hash, number) if (dwarf_dieoffset(&p->queue[number]) == offset) return number + 1;
	if (p->queued == MAX_STRUCTS || hash_index_add(&p->index, &p->budget, hash, p->queued))
		return 0;
	p->queue[p->queued++] = type;
	return p->queued;
}

static uint32_t pointed_struct(struct printer *p, Dwarf_Die *type)
{
	Dwarf_Die pointer = *type, target;
	int tag;

	if (!bare(&pointer))
		return 0;
	tag = dwarf_tag(&pointer);
	if (tag != DW_TAG_pointer_type && tag != DW_TAG_reference_type && tag != DW_TAG_rvalue_reference_type)
		return 0;
	return type_of(&pointer, &target) ? wanted_struct(p, &target) : 0;
}

static uint64_t size_of(Dwarf_Die *type)
{
	Dwarf_Word size;

	return !dwarf_aggregate_size(type, &size) && size <= UINT32_MAX ? size : 0;
}

static void write_type(FILE *text, Dwarf_Die *type, int depth)
{
	const char *name = name_of(type);
	int tag = dwarf_tag(type);
	Dwarf_Die target;
	bool known = type_of(type, &target);

	if (depth > DEEPEST) {
		fputc('?', text);
		return;
	}
	switch (tag) {
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		fprintf(text, "%s%s%.*s", tag == DW_TAG_union_type ? "union" : "struct", *name ? " " : "", NAME_SIZE,
			name);
		return;
	case DW_TAG_enumeration_type:
		fprintf(text, "enum%s%.*s", *name ? " " : "", NAME_SIZE, name);
		return;
	case DW_TAG_subroutine_type:
		fputs("function", text);
		return;
	case DW_TAG_const_type:
		fputs("const ", text);
		break;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
	case DW_TAG_array_type:
	case DW_TAG_volatile_type:
	case DW_TAG_restrict_type:
	case DW_TAG_atomic_type:
		break;
	default:
		fprintf(text, "%.*s", NAME_SIZE, name);
		return;
	}
	if (known)
		write_type(text, &target, depth + 1);
	else
		fputs("void", text);
	if (tag == DW_TAG_array_type)
		fputs("[]", text);
	else if (tag == DW_TAG_pointer_type)
		fputs(" *", text);
	else if (tag == DW_TAG_reference_type || tag == DW_TAG_rvalue_reference_type)
		fputs(" &", text);
}

static void print_type(struct json *json, Dwarf_Die *type)
{
	char *text = NULL;
	size_t size = 0;
	FILE *memory = open_memstream(&text, &size);

	if (memory) {
		if (type)
			write_type(memory, type, 0);
		else
			fputs("void", memory);
		fclose(memory);
	}
	types_key_name(json, "type", text ? text : "?");
	free(text);
}

static void print_struct_id(struct json *json, uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	if (number)
		json_key_text(json, "struct", text);
}

static bool number_of(Dwarf_Die *die, unsigned int name, Dwarf_Word *value)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, name, &attribute) && !dwarf_formudata(&attribute, value);
}

/* Of an array the type of its elements, others as they are. */
static bool element(Dwarf_Die *type)
{
	for (int depth = 0; depth < DEEPEST; depth++) {
		if (!bare(type))
			return false;
		if (dwarf_tag(type) != DW_TAG_array_type)
			return true;
		if (!type_of(type, type))
			return false;
	}
	return false;
}

static void print_member(struct printer *p, Dwarf_Die *member)
{
	Dwarf_Word offset = 0, bits = 0, first;
	Dwarf_Die type, inner;
	uint64_t size, stride;

	/* A static member of a class, or one whose place is computed. */
	if (dwarf_hasattr(member, DW_AT_external) || !type_of(member, &type))
		return;
	if (dwarf_hasattr(member, DW_AT_data_member_location) &&
	    !number_of(member, DW_AT_data_member_location, &offset))
		return;
	if (offset > UINT32_MAX)
		return;
	size = size_of(&type);
	json_open(&p->json, '{');
	types_key_name(&p->json, "name", dwarf_tag(member) == DW_TAG_inheritance ? "" : name_of(member));
	if (number_of(member, DW_AT_bit_size, &bits) && bits && bits <= 64) {
		first = 0;
		number_of(member, DW_AT_data_bit_offset, &first);
		first = first > 8ull * UINT32_MAX ? 0 : first;
		offset += first / 8;
		size = (first % 8 + bits + 7) / 8;
		json_key_number(&p->json, "bit_offset", first % 8);
		json_key_number(&p->json, "bit_size", bits);
	}
	json_key_number(&p->json, "offset", offset);
	json_key_number(&p->json, "size", size);
	print_type(&p->json, &type);
	inner = type;
	if (element(&inner)) {
		stride = size_of(&inner);
		if (bare(&type) && dwarf_tag(&type) == DW_TAG_array_type && stride) {
			json_key_number(&p->json, "count", size / stride);
			json_key_number(&p->json, "stride", stride);
		}
		print_struct_id(&p->json, wanted_struct(p, &inner));
	}
	json_close(&p->json, '}');
}

static void print_structs(struct printer *p)
{
	char number[16];

	json_newline(&p->json);
	json_key(&p->json, "structs");
	json_open(&p->json, '{');
	/* Printing one may queue others. */
	for (uint32_t i = 0; i < p->queued; i++) {
		Dwarf_Die type = p->queue[i], child;

		snprintf(number, sizeof(number), "%u", i + 1);
		json_newline(&p->json);
		json_key(&p->json, number);
		json_open(&p->json, '{');
		json_key_text(&p->json, "kind", dwarf_tag(&type) == DW_TAG_union_type ? "union" : "struct");
		types_key_name(&p->json, "name", name_of(&type));
		json_key_number(&p->json, "size", size_of(&type));
		json_key(&p->json, "members");
		json_open(&p->json, '[');
		if (!dwarf_child(&type, &child)) {
			do {
				int tag = dwarf_tag(&child);

				if (tag == DW_TAG_member || tag == DW_TAG_inheritance)
					print_member(p, &child);
			} while (!dwarf_siblingof(&child, &child));
		}
		json_close(&p->json, ']');
		json_close(&p->json, '}');
	}
	json_close(&p->json, '}');
}

static void key_of(struct json *json, Dwarf_Die *die)
{
	char name[NAME_SIZE];

	snprintf(name, sizeof(name), "%s", name_of(die));
	json_newline(json);
	json_key(json, name);
}

static void add_function(struct printer *p, Dwarf_Die *die)
{
	struct json *json = &p->function_members;
	Dwarf_Die child, type;

	key_of(json, die);
	json_open(json, '{');
	json_key(json, "parameters");
	json_open(json, '[');
	if (!dwarf_child(die, &child)) {
		do {
			if (dwarf_tag(&child) != DW_TAG_formal_parameter || !type_of(&child, &type))
				continue;
			json_open(json, '{');
			types_key_name(json, "name", name_of(&child));
			print_type(json, &type);
			print_struct_id(json, pointed_struct(p, &type));
			json_close(json, '}');
		} while (!dwarf_siblingof(&child, &child));
	}
	json_close(json, ']');
	json_key(json, "returns");
	json_open(json, '{');
	if (type_of(die, &type)) {
		print_type(json, &type);
		print_struct_id(json, pointed_struct(p, &type));
	} else {
		print_type(json, NULL);
	}
	json_close(json, '}');
	json_close(json, '}');
}

static void add_variable(struct printer *p, Dwarf_Die *die)
{
	struct json *json = &p->variable_members;
	Dwarf_Die type, inner;

	if (!type_of(die, &type))
		return;
	inner = type;
	key_of(json, die);
	json_open(json, '{');
	json_key_number(json, "size", size_of(&type));
	print_type(json, &type);
	/* Of an array, the first element's. */
	if (element(&inner))
		print_struct_id(json, wanted_struct(p, &inner));
	json_close(json, '}');
}

static void search(struct printer *p, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;

	if (depth > DEEPEST || dwarf_child(parent, &die))
		return;
	do {
		const char *name = name_of(&die);

		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			if (listed(p->functions, name))
				add_function(p, &die);
			break;
		case DW_TAG_variable:
			if (listed(p->variables, name))
				add_variable(p, &die);
			break;
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
			if (listed(p->structs, name))
				wanted_struct(p, &die);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
			search(p, &die, depth + 1);
			break;
		}
	} while (!dwarf_siblingof(&die, &die));
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = find_installed_debuginfo,
	.section_address = dwfl_offline_section_address,
};

static Dwfl_Module *open_program(const char *path, Dwfl **dwfl)
{
	int fd = regular_file_open(path, LINK_FOLLOWED, NULL);
	Dwfl_Module *module;

	if (fd < 0) {
		message("%s: not a file that can be read", path);
		return NULL;
	}
	*dwfl = dwfl_begin(&callbacks);
	module = *dwfl ? dwfl_report_offline(*dwfl, path, path, fd) : NULL;
	if (!module) {
		close(fd);
		message("%s: no program: %s", path, dwfl_errmsg(-1));
		return NULL;
	}
	dwfl_report_end(*dwfl, NULL, NULL);
	return module;
}

static void print_members(struct json *json, const char *key, const char *members)
{
	json_newline(json);
	json_key(json, key);
	json_open(json, '{');
	json_members(json, members);
	json_close(json, '}');
}

static void print_found(struct printer *p, const char *functions, const char *variables)
{
	types_open_document(&p->json, sizeof(void *));
	print_members(&p->json, "functions", functions);
	print_members(&p->json, "variables", variables);
	print_structs(p);
	types_close_document(&p->json);
}

int types_print_dwarf(const struct options *options)
{
	struct printer p = {
		.json = {.out = stdout},
		.functions = options->functions,
		.structs = options->structs,
		.variables = options->variables,
	};
	char *functions = NULL, *variables = NULL;
	size_t function_size = 0, variable_size = 0;
	Dwfl_Module *module;
	Dwarf_Die *unit = NULL;
	Dwfl *dwfl = NULL;
	Dwarf_Addr bias;
	int err = -EINVAL;

	module = open_program(options->program, &dwfl);
	if (!module)
		goto out;
	if (!dwfl_module_getdwarf(module, &bias)) {
		message("%s: no debug information: %s", options->program, dwfl_errmsg(-1));
		goto out;
	}
	p.queue = calloc(MAX_STRUCTS, sizeof(*p.queue));
	p.budget.limit = 4 * MAX_STRUCTS * sizeof(struct hash_slot);
	p.function_members.out = open_memstream(&functions, &function_size);
	p.variable_members.out = open_memstream(&variables, &variable_size);
	if (!p.queue || !p.function_members.out || !p.variable_members.out) {
		message("out of memory while reading types");
		err = -ENOMEM;
		goto out;
	}
	while ((unit = dwfl_module_nextcu(module, unit, &bias)))
		search(&p, unit, 0);
	fclose(p.function_members.out);
	fclose(p.variable_members.out);
	p.function_members.out = p.variable_members.out = NULL;
	print_found(&p, functions, variables);
	err = 0;
out:
	if (p.function_members.out)
		fclose(p.function_members.out);
	if (p.variable_members.out)
		fclose(p.variable_members.out);
	free(functions);
	free(variables);
	free(p.index.slots);
	free(p.queue);
	dwfl_end(dwfl);
	return err;
}
