// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memory_elf.h"
#include "memory/memory_names.h"
#include "memory/perf_samples.h"

/* Something of a file that wants a name. */
struct wanted {
	__u32 object;
	bool variable;
	__u64 unit;
	struct memory_name *name;
};

void memory_names_free(struct memory_names *names)
{
	for (__u32 i = 0; i < names->text_count; i++)
		free(names->texts[i]);
	free(names->texts);
	free(names->variables);
	free(names->codes);
	*names = (struct memory_names){};
}

/* A copy that lives with the names; "" for what is empty. */
static int keep(struct memory_names *names, const char *text, const char **out)
{
	char **larger, *copy;

	*out = "";
	if (!*text)
		return 0;
	if (names->text_count && !strcmp(names->texts[names->text_count - 1], text)) {
		*out = names->texts[names->text_count - 1];
		return 0;
	}
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	if (!(names->text_count & (names->text_count - 1))) {
		larger = realloc(names->texts, (names->text_count ? 2 * names->text_count : 1) * sizeof(*larger));
		if (!larger) {
			free(copy);
			return -ENOMEM;
		}
		names->texts = larger;
	}
	names->texts[names->text_count++] = copy;
	*out = copy;
	return 0;
}

static bool is_text(char type)
{
	return strchr("tTwW", type);
}

bool memory_name_kernel(const struct memory_write *write, __u64 address, __u32 object, bool variable,
			struct memory_name *name)
{
	const char *module = object == MEMORY_NO_OBJECT ? NULL : write->tasks->objects.list[object].name;
	struct symbol symbol;

	/* The table of symbols outlives the names. */
	if (memory_symbols_kernel(write->symbols, address, module, &symbol) || (variable && is_text(symbol.type)))
		return false;
	name->symbol = symbol.name;
	name->offset = symbol.offset;
	return true;
}

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	return x->unit < y->unit ? -1 : x->unit > y->unit;
}

static int name_one(struct memory_names *names, struct memory_elf *elf, const struct wanted *wanted)
{
	const char *symbol = "";
	char line[MEMORY_LINE_TEXT] = "";
	__u64 offset = 0;
	int err;

	if (wanted->variable)
		err = memory_elf_variable(elf, wanted->unit, &symbol, &offset);
	else
		err = memory_elf_code(elf, wanted->unit, &symbol, &offset, line, sizeof(line));
	wanted->name->offset = err ? 0 : offset;
	err = keep(names, err ? "" : symbol, &wanted->name->symbol);
	return err ?: keep(names, line, &wanted->name->line);
}

static int name_all(struct memory_names *names, const struct memory_write *write, struct wanted *list, __u32 count)
{
	struct memory_elf *elf = NULL;
	int err = 0;

	if (count)
		qsort(list, count, sizeof(*list), compare_wanted);
	for (__u32 i = 0; !err && i < count; i++) {
		if (!i || list[i].object != list[i - 1].object) {
			memory_elf_close(elf);
			elf = memory_elf_open(write->symbols, &write->tasks->objects.list[list[i].object]);
		}
		if (elf)
			err = name_one(names, elf, &list[i]);
	}
	memory_elf_close(elf);
	return err;
}

int memory_names_find(struct memory_names *names, const struct memory_write *write, const struct memory_rank *rank,
		      const __u8 *used)
{
	const struct memory_lines *lines = write->lines;
	struct wanted *list = malloc((rank->line_count + lines->code_count + 1ull) * sizeof(*list));
	__u32 count = 0;
	int err = 0;

	*names = (struct memory_names){
		.variables = calloc(rank->line_count + 1ull, sizeof(*names->variables)),
		.codes = calloc(lines->code_count + 1ull, sizeof(*names->codes)),
	};
	if (!list || !names->variables || !names->codes) {
		err = -ENOMEM;
		goto out;
	}
	for (__u32 i = 0; i < rank->line_count; i++) {
		const struct memory_line *line = &lines->lines[rank->lines[i]];
		struct memory_name *name = &names->variables[i];

		*name = (struct memory_name){.symbol = "", .line = ""};
		if (line->cpumode == CPUMODE_KERNEL)
			memory_name_kernel(write, line->address, line->object, true, name);
		else if (line->static_object != MEMORY_NO_OBJECT)
			list[count++] = (struct wanted){line->static_object, true, line->static_unit, name};
	}
	for (__u32 i = 0; i < lines->code_count; i++) {
		const struct memory_code *code = &lines->codes[i];
		struct memory_name *name = &names->codes[i];

		*name = (struct memory_name){.symbol = "", .line = ""};
		if (used[i] && code->cpumode == CPUMODE_KERNEL)
			memory_name_kernel(write, code->address, code->object, false, name);
		else if (used[i] && code->object != MEMORY_NO_OBJECT)
			list[count++] = (struct wanted){code->object, false, code->unit, name};
	}
	err = name_all(names, write, list, count);
out:
	free(list);
	return err;
}
