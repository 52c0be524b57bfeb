// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spelling.h"
#include "base/values.h"
#include "cli/message.h"
#include "filter/lock_filter.h"
#include "names/btf_members.h"
#include "names/code_locks.h"
#include "names/lock_hints.h"

/* Letters that may be wrong in a word for another one to be offered. */
#define WRONG_LETTERS 3
/* A variable that is the last before a gap is not as long as the gap. */
#define LONGEST_VARIABLE (1u << 20)
#define KERNEL_HALF      (1ull << 63)

/* What the words are looked up in. */
struct known {
	struct lock_filter *filter;
	const struct symbols *symbols;
	struct types *types; /* NULL: not read yet, or the kernel has none */
	__u64 percpu_begin;  /* what lies in this section is no variable's address */
	__u64 percpu_end;
};

/* One word among the symbols. */
struct search {
	const struct known *known;
	const char *word;
	bool take; /* the variables' addresses */
	__u32 variables;
	bool percpu;
	bool function;
	struct spelling spelling;
};

static bool is_pattern(const char *word)
{
	return word[strcspn(word, "*?[")];
}

bool lock_word_matches(const char *word, const char *name)
{
	const char *last = strrchr(name, '.');
	size_t length = strlen(word);

	if (is_pattern(word))
		return !fnmatch(word, name, 0);
	if (!strcmp(word, name))
		return true;
	if (strchr(word, '.'))
		return false;
	return (!strncmp(word, name, length) && (name[length] == '.' || name[length] == ' ')) ||
	       (last && !strcmp(word, last + 1));
}

bool lock_filter_names(const struct lock_filter *filter, const char *name)
{
	for (__u32 i = 0; i < filter->name_count; i++)
		if (lock_word_matches(filter->names[i], name))
			return true;
	return false;
}

static bool is_text(const struct symbol *symbol)
{
	return strchr("tTwW", symbol->type);
}

static bool is_percpu(const struct known *known, const struct symbol *symbol)
{
	return symbol->address < KERNEL_HALF ||
	       (symbol->address >= known->percpu_begin && symbol->address < known->percpu_end);
}

static int refuse(const char *option, const char *word, const char *why, const char *meant)
{
	char shown[VALUE_SHOWN];

	message("%s %s: %s%s%s%s", option, show(word, shown), why, *meant ? "; did you mean " : "", meant,
		*meant ? "?" : "");
	return -EINVAL;
}

static int add_range(struct lock_filter *filter, const char *word, __u64 begin, __u64 end)
{
	if (filter->range_count == LOCK_RANGES)
		return refuse("-L", word, "too many addresses and variables: 16 at most", "");
	filter->ranges[filter->range_count++] = (struct address_range){begin, end};
	return 0;
}

static int add_name(struct lock_filter *filter, const char *word)
{
	if (filter->name_count == FILTER_NAMES)
		return refuse("-L", word, "too many names: 64 at most", "");
	filter->names[filter->name_count++] = word;
	return 0;
}

static int look_at_symbol(const struct symbol *symbol, __u64 end, void *data)
{
	struct search *search = data;

	if (strcmp(symbol->name, search->word))
		return 0;
	if (is_text(symbol)) {
		search->function = true;
	} else if (is_percpu(search->known, symbol)) {
		search->percpu = true;
	} else {
		search->variables++;
		if (end > symbol->address + LONGEST_VARIABLE)
			end = symbol->address + LONGEST_VARIABLE;
		if (search->take)
			return add_range(search->known->filter, search->word, symbol->address, end);
	}
	return 0;
}

static int offer_variable(const struct symbol *symbol, __u64 end, void *data)
{
	struct search *search = data;

	(void)end;
	if (!is_text(symbol))
		spelling_offer(&search->spelling, symbol->name);
	return 0;
}

static void offer_name(const char *name, void *data)
{
	spelling_offer(data, name);
}

struct equal {
	const char *word;
	bool found;
};

static void compare(const char *name, void *data)
{
	struct equal *equal = data;

	equal->found |= !strcmp(name, equal->word);
}

/* All names but those of symbols: structures, per-CPU variables, members, and locks that are known by who takes them. */
static void each_name(const struct known *known, void (*visit)(const char *name, void *data), void *data)
{
	if (known->types)
		types_each_name(known->types, true, visit, data);
	hint_each_static_lock(visit, data);
	code_locks_each_name(visit, data);
}

static bool is_name(const struct known *known, const char *word)
{
	struct equal equal = {.word = word};

	each_name(known, compare, &equal);
	return equal.found;
}

/* A type by name of the kernel, or of a module that is loaded; *module is to be closed. */
static __u32 find_type(const struct types *types, const char *name, struct types **module)
{
	__u32 type = types_struct(types, name);
	DIR *directory;
	struct dirent *entry;

	*module = NULL;
	if (!type)
		type = types_percpu_type(types, name);
	directory = type ? NULL : opendir("/sys/kernel/btf");
	while (directory && !type && (entry = readdir(directory))) {
		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "vmlinux") ||
		    types_open_module(module, types, entry->d_name))
			continue;
		type = types_struct(*module, name);
		if (type)
			break;
		types_close(*module);
		*module = NULL;
	}
	if (directory)
		closedir(directory);
	return type;
}

/* Follows the members of a path, which is taken apart; refuses the first that the type before it lacks. */
static int check_members(const struct types *types, __u32 type, const char *word, char *path)
{
	char why[256];
	__u32 offset;

	for (char *part = strtok_r(NULL, ".", &path); part; part = strtok_r(NULL, ".", &path)) {
		struct spelling spelling = {.word = part, .limit = WRONG_LETTERS};

		type = types_element(types, type);
		if (types_member(types, type, part, &offset, &type))
			continue;
		types_each_member(types, type, offer_name, &spelling);
		snprintf(why, sizeof(why), "%s has no member %s", types_name(types, type), part);
		return refuse("-L", word, why, spelling.nearest);
	}
	return 0;
}

/* TYPE.MEMBER, or VARIABLE.MEMBER, of which the type may be unknown. */
static int check_path(const struct known *known, const char *word)
{
	struct search search = {.known = known};
	struct types *module = NULL;
	char path[256], why[320], *rest = path, *first;
	__u32 type;
	int err;

	if (snprintf(path, sizeof(path), "%s", word) >= (int)sizeof(path))
		return refuse("-L", word, "too long for a lock's name", "");
	first = strtok_r(NULL, ".", &rest);
	if (!first || !rest || !*rest)
		return refuse("-L", word, "write it as TYPE.MEMBER", "");
	/* Without types nothing can be checked. */
	if (!known->types)
		return 0;
	type = find_type(known->types, first, &module);
	if (type) {
		err = check_members(module ? module : known->types, type, word, rest);
		types_close(module);
		return err;
	}
	search.word = first;
	symbols_each(known->symbols, look_at_symbol, &search);
	if (search.variables || search.percpu)
		return 0;
	search.spelling = (struct spelling){.word = first, .limit = WRONG_LETTERS};
	types_each_name(known->types, false, offer_name, &search.spelling);
	snprintf(why, sizeof(why), "the kernel has no type or variable %s", first);
	return refuse("-L", word, why, search.spelling.nearest);
}

static bool is_slab_cache(const char *word)
{
	char path[512];

	return !strchr(word, '/') && snprintf(path, sizeof(path), "/sys/kernel/slab/%s", word) < (int)sizeof(path) &&
	       !access(path, F_OK);
}

/* A word without dots: a variable by its address, else part of a name. */
static int take_word(const struct known *known, const char *word)
{
	struct search search = {.known = known, .word = word, .take = true};
	int err = symbols_each(known->symbols, look_at_symbol, &search);

	if (err || search.variables)
		return err;
	if (search.percpu || search.function || is_name(known, word) || is_slab_cache(word))
		return add_name(known->filter, word);
	search.spelling = (struct spelling){.word = word, .limit = WRONG_LETTERS};
	symbols_each(known->symbols, offer_variable, &search);
	each_name(known, offer_name, &search.spelling);
	return refuse("-L", word,
		      symbols_have_data(known->symbols)
			      ? "the kernel has no variable, type, member or function of that name"
			      : "no type, member or function of that name, and this kernel tells no variables "
				"(CONFIG_KALLSYMS_ALL)",
		      search.spelling.nearest);
}

static int take_address(struct lock_filter *filter, const char *word)
{
	char *end;
	__u64 address;

	errno = 0;
	address = strtoull(word, &end, 16);
	if (errno || *end || end == word + 2 || address < KERNEL_HALF)
		return refuse("-L", word, "no address of the kernel", "");
	return add_range(filter, word, address, address + 1);
}

static int take_lock(struct known *known, const char *word)
{
	if (!strncmp(word, "0x", 2))
		return take_address(known->filter, word);
	if (is_pattern(word))
		return add_name(known->filter, word);
	if (!known->types && types_open(&known->types))
		known->types = NULL;
	if (!strchr(word, '.'))
		return take_word(known, word);
	return check_path(known, word) ?: add_name(known->filter, word);
}

/* Functions of -S. */
struct callers {
	struct lock_filter *filter;
	const char *word;
	__u32 found;
	struct spelling spelling;
};

/* What the compiler appends (.cold, .isra.0) is the same function to whoever reads the source. */
static const char *source_name(const struct symbol *symbol, char name[128])
{
	snprintf(name, 128, "%.*s", (int)strcspn(symbol->name, "."), symbol->name);
	return name;
}

static int look_at_function(const struct symbol *symbol, __u64 end, void *data)
{
	struct callers *callers = data;
	struct lock_filter *filter = callers->filter;
	char name[128];

	if (!is_text(symbol) || end <= symbol->address)
		return 0;
	source_name(symbol, name);
	if (is_pattern(callers->word) ? fnmatch(callers->word, name, 0) : strcmp(callers->word, name))
		return 0;
	callers->found++;
	if (filter->caller_count == CALLER_RANGES)
		return -E2BIG;
	filter->callers[filter->caller_count++] = (struct address_range){symbol->address, end};
	return 0;
}

static int offer_function(const struct symbol *symbol, __u64 end, void *data)
{
	struct callers *callers = data;
	char name[128];

	(void)end;
	if (is_text(symbol))
		spelling_offer(&callers->spelling, source_name(symbol, name));
	return 0;
}

static int take_caller(struct lock_filter *filter, const struct symbols *symbols, const char *word)
{
	struct callers callers = {.filter = filter, .word = word};

	if (symbols_hidden(symbols))
		return refuse("-S", word, "the kernel hides its addresses (kptr_restrict, or no CAP_SYSLOG)", "");
	if (symbols_each(symbols, look_at_function, &callers))
		return refuse("-S", word, "too many functions: 1,024 at most", "");
	if (callers.found)
		return 0;
	callers.spelling = (struct spelling){.word = word, .limit = WRONG_LETTERS};
	if (!is_pattern(word))
		symbols_each(symbols, offer_function, &callers);
	return refuse("-S", word, "the kernel has no function of that name", callers.spelling.nearest);
}

static int by_begin(const void *a, const void *b)
{
	const struct address_range *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Several names of one address, and words that mean the same function, become one range. */
static void merge_callers(struct lock_filter *filter)
{
	__u32 merged = 0;

	qsort(filter->callers, filter->caller_count, sizeof(*filter->callers), by_begin);
	for (__u32 i = 1; i < filter->caller_count; i++) {
		struct address_range *last = &filter->callers[merged], *next = &filter->callers[i];

		if (next->begin > last->end)
			filter->callers[++merged] = *next;
		else if (next->end > last->end)
			last->end = next->end;
	}
	filter->caller_count = filter->caller_count ? merged + 1 : 0;
}

/* Calls take for each word of a list; the words stay in the copy at *list. */
static int each_word(const char *option, const char *text, char **list, int (*take)(void *data, const char *word),
		     void *data)
{
	char *rest, *word;
	int err = 0;

	*list = strdup(text);
	if (!*list)
		return -ENOMEM;
	rest = *list;
	while (!err && (word = strsep(&rest, ",")))
		err = *word ? take(data, word) : refuse(option, text, "a name is missing beside a comma", "");
	return err;
}

static int take_lock_word(void *known, const char *word)
{
	return take_lock(known, word);
}

static int take_caller_word(void *known, const char *word)
{
	return take_caller(((struct known *)known)->filter, ((struct known *)known)->symbols, word);
}

int lock_filter_make(struct lock_filter *filter, const struct options *options, const struct symbols *symbols)
{
	struct known known = {.filter = filter, .symbols = symbols};
	char *words = NULL;
	int err = 0;

	*filter = (struct lock_filter){.locks = options->locks, .callers_chosen = options->callers};
	if (symbols_address(symbols, "__per_cpu_start", &known.percpu_begin) ||
	    symbols_address(symbols, "__per_cpu_end", &known.percpu_end))
		known.percpu_begin = known.percpu_end = 0;
	if (options->locks)
		err = each_word("-L", options->locks, &filter->words, take_lock_word, &known);
	if (!err && options->callers) {
		filter->callers = calloc(CALLER_RANGES, sizeof(*filter->callers));
		err = filter->callers ? each_word("-S", options->callers, &words, take_caller_word, &known) : -ENOMEM;
		if (!err)
			merge_callers(filter);
	}
	if (err == -ENOMEM)
		message("out of memory while reading -L and -S");
	free(words);
	types_close(known.types);
	return err;
}

void lock_filter_free(struct lock_filter *filter)
{
	free(filter->words);
	free(filter->callers);
	*filter = (struct lock_filter){};
}
