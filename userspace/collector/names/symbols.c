// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel's symbols.  The text of kallsyms is packed as it is read: names go to one
 * buffer, addresses to a sorted table of 16 bytes each.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sorted.h"
#include "names/lock_functions.h"
#include "names/symbols.h"

/* Many lines, and what is read is still in the processor's cache when it is parsed. */
#define READ_BYTES  (64u << 10)
#define MODULES_MAX 0xffff
/* More than functions of the kernel have. */
#define NAMES_OF_ADDRESS 16

/* A module's last function has no successor to end it, nor has the image's last variable. */
#define LONGEST_FUNCTION (256u << 10)
#define LONGEST_VARIABLE (64u << 20)

/* Without KALLSYMS_ALL there are a few dozen section markers of type D, R and B. */
#define FEWEST_VARIABLES 1000

/* Which of several names for one address is shown: lowest first. */
enum rank { RANK_GLOBAL, RANK_WEAK, RANK_LOCAL, RANK_ALIAS, RANK_MARKER, RANK_END };

struct entry {
	__u64 address;
	__u32 name;
	__u16 module; /* index; 0: the kernel image */
	char type;
	__u8 rank;
};

struct symbols {
	char *text;
	size_t text_size, text_capacity;
	struct entry *entries;
	size_t count, capacity;
	unsigned char *marks; /* mark_of() each entry's name */
	__u32 *modules;       /* offsets in text */
	size_t module_count;
	size_t image_variables;
	__u64 lock_text[2]; /* .spinlock.text; 0: unknown */
	__u64 sched_text[2];
	bool any_address;
	bool hidden;
};

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static bool is_text(char type)
{
	return type == 't' || type == 'T' || type == 'w' || type == 'W';
}

/* The linker's marks around a section: they name a place, not a thing. */
static enum rank rank_marker(const char *name)
{
	static const char *const ends[] = {"_end",         "_edata",     "_etext",         "_einittext",
					   "__bss_stop",   "__init_end", "__init_begin",   "__brk_limit",
					   "__end_rodata", "_sinittext", "__exittext_end", "__init_scratch_end"};
	static const char *const starts[] = {"_text",
					     "_stext",
					     "_sdata",
					     "__bss_start",
					     "__pi__text",
					     "__lock_text_start",
					     "__sched_text_start",
					     "__cpuidle_text_start",
					     "__kprobes_text_start",
					     "__softirqentry_text_start",
					     "__irqentry_text_start",
					     "__entry_text_start",
					     "__noinstr_text_start"};

	if (name[0] != '_')
		return RANK_GLOBAL;
	if (starts_with(name, "__stop_"))
		return RANK_END;
	if (starts_with(name, "__start_"))
		return RANK_MARKER;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (!strcmp(name, ends[i]))
			return RANK_END;
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (!strcmp(name, starts[i]))
			return RANK_MARKER;
	return RANK_GLOBAL;
}

static enum rank rank_name(const char *name, char type)
{
	enum rank marker = rank_marker(name);

	if (marker != RANK_GLOBAL)
		return marker;
	if (starts_with(name, "__pi_"))
		return RANK_ALIAS;
	if (type == 'w' || type == 'W' || type == 'v' || type == 'V')
		return RANK_WEAK;
	return type >= 'a' ? RANK_LOCAL : RANK_GLOBAL;
}

/* Makes room for as much again until `wanted` elements fit. */
static int reserve(void **memory, size_t *capacity, size_t wanted, size_t element)
{
	size_t larger = *capacity ?: READ_BYTES;
	void *moved;

	if (wanted <= *capacity)
		return 0;
	while (larger < wanted)
		larger *= 2;
	moved = realloc(*memory, larger * element);
	if (!moved)
		return -ENOMEM;
	*memory = moved;
	*capacity = larger;
	return 0;
}

static const char *parse_hex(const char *p, __u64 *out)
{
	__u64 value = 0;

	for (;; p++) {
		unsigned char c = *p;

		if (c >= '0' && c <= '9')
			value = value << 4 | (c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (c - 'a' + 10);
		else
			break;
	}
	*out = value;
	return p;
}

/* Where it begins in the text; there is room. */
static __u32 add_text(struct symbols *symbols, const char *text, size_t length)
{
	__u32 begin = symbols->text_size;

	memcpy(symbols->text + begin, text, length);
	symbols->text[begin + length] = 0;
	symbols->text_size += length + 1;
	return begin;
}

static int module_index(struct symbols *symbols, const char *name, size_t length, __u16 *out)
{
	__u32 *larger;
	const char *known;

	/* A module's symbols come in one run. */
	known = symbols->module_count ? symbols->text + symbols->modules[symbols->module_count - 1] : "";
	if (strlen(known) == length && !memcmp(known, name, length)) {
		*out = symbols->module_count;
		return 0;
	}
	if (symbols->module_count == MODULES_MAX)
		return -E2BIG;
	if (!(symbols->module_count & (symbols->module_count + 1))) {
		larger = realloc(symbols->modules, (2 * symbols->module_count + 1) * sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		symbols->modules = larger;
	}
	symbols->modules[symbols->module_count++] = add_text(symbols, name, length);
	*out = symbols->module_count;
	return 0;
}

static bool type_is_known(char type)
{
	return type && strchr("tTwWdDbBrRvVaAgGsS", type);
}

/* Padding before a function, where no code runs: it would be nearly half of the table. */
static bool is_padding(const char *name)
{
	return starts_with(name, "__pfx_") || starts_with(name, "__cfi_");
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

/*
 * Adds an entry; the kernel's own come by address, but those of one address in any order.  Of more than a few at one
 * address, as where all are hidden, the order is sort_entries()'s.
 */
static void add_entry(struct symbols *symbols, const struct entry *entry)
{
	struct entry *place = &symbols->entries[symbols->count++], *first = place;

	for (; place > symbols->entries && first - place < NAMES_OF_ADDRESS; place--) {
		if (place[-1].address != entry->address || compare_entries(&place[-1], entry) <= 0)
			break;
		place[0] = place[-1];
	}
	*place = *entry;
}

static int add_line(struct symbols *symbols, const char *line, const char *end)
{
	const char *name, *name_end, *module;
	struct entry entry = {};
	int err;

	name = parse_hex(line, &entry.address);
	if (name == line || end - name < 4 || name[0] != ' ' || name[2] != ' ' || !type_is_known(name[1]) ||
	    is_padding(name + 3))
		return 0;
	err = reserve((void **)&symbols->entries, &symbols->capacity, symbols->count + 1, sizeof(*symbols->entries));
	err = err ?: reserve((void **)&symbols->text, &symbols->text_capacity, symbols->text_size + (end - line), 1);
	if (err)
		return err;
	entry.type = name[1];
	name += 3;
	module = memchr(name, '\t', end - name);
	name_end = module ?: end;
	entry.name = add_text(symbols, name, name_end - name);
	if (module && end - module > 3 && module[1] == '[' && end[-1] == ']') {
		err = module_index(symbols, module + 2, end - module - 3, &entry.module);
		if (err)
			return err;
	}
	entry.rank = rank_name(symbols->text + entry.name, entry.type);
	symbols->any_address |= entry.address != 0;
	if (!entry.module && !is_text(entry.type))
		symbols->image_variables++;
	add_entry(symbols, &entry);
	return 0;
}

/* Adds the whole lines at the front of the buffer and moves what is left of it there. */
static int add_lines(struct symbols *symbols, char *buffer, size_t *held)
{
	char *line = buffer, *end = buffer + *held, *line_end;
	int err = 0;

	while (!err && (line_end = memchr(line, '\n', end - line))) {
		err = add_line(symbols, line, line_end);
		line = line_end + 1;
	}
	*held = end - line;
	memmove(buffer, line, *held);
	return err;
}

/* The bytes that are read more are followed by a 0. */
static int read_more(int fd, char *buffer, size_t capacity, size_t *held)
{
	ssize_t n;

	do
		n = read(fd, buffer + *held, capacity - *held - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	*held += n;
	buffer[*held] = 0;
	return n > 0;
}

static int read_lines(struct symbols *symbols, int fd)
{
	size_t capacity = 0, held = 0;
	char *buffer = NULL;
	int more;

	do {
		more = reserve((void **)&buffer, &capacity, held + 2, 1) ?: read_more(fd, buffer, capacity, &held);
		if (more > 0)
			more = add_lines(symbols, buffer, &held) ?: more;
	} while (more > 0);
	if (!more)
		more = add_line(symbols, buffer, buffer + held);
	free(buffer);
	return more;
}

static int read_file(struct symbols *symbols, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = read_lines(symbols, fd);
	close(fd);
	return err;
}

/* The kernel's own come sorted; those of modules, behind them, do not. */
static void sort_entries(struct symbols *symbols)
{
	struct entry *entries = symbols->entries;
	size_t sorted = 1;

	while (sorted < symbols->count && compare_entries(&entries[sorted - 1], &entries[sorted]) <= 0)
		sorted++;
	if (sorted >= symbols->count)
		return;
	qsort(entries + sorted, symbols->count - sorted, sizeof(*entries), compare_entries);
	if (compare_entries(&entries[sorted - 1], &entries[sorted]) > 0)
		qsort(entries, symbols->count, sizeof(*entries), compare_entries);
}

/* A byte that tells most names apart; they share their beginnings. */
static unsigned char mark_of(const char *name)
{
	size_t length = strlen(name);

	return length ? length * 37 + name[length / 2] * 11 + name[length * 3 / 4] * 5 + name[length - 1] : 0;
}

static int mark_names(struct symbols *symbols)
{
	symbols->marks = malloc(symbols->count + 1);
	if (!symbols->marks)
		return -ENOMEM;
	for (size_t i = 0; i < symbols->count; i++)
		symbols->marks[i] = mark_of(symbols->text + symbols->entries[i].name);
	return 0;
}

static void shrink(void **memory, size_t size)
{
	void *smaller = realloc(*memory, size ? size : 1);

	if (smaller)
		*memory = smaller;
}

static void find_sections(struct symbols *symbols)
{
	static const struct {
		const char *name;
		size_t end;
		bool sched;
	} marks[] = {{"__lock_text_start", 0, false},
		     {"__lock_text_end", 1, false},
		     {"__sched_text_start", 0, true},
		     {"__sched_text_end", 1, true}};

	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		symbols_address(symbols, marks[i].name,
				&(marks[i].sched ? symbols->sched_text : symbols->lock_text)[marks[i].end]);
}

/* Since 7.x the types of .data say text: seen in Debian's 7.2 and 7.3, where `_sdata` is of type T. */
static void mark_variables(struct symbols *symbols)
{
	__u64 begin, end;

	if (symbols_address(symbols, "_sdata", &begin) || symbols_address(symbols, "_edata", &end))
		return;
	for (size_t i = 0; i < symbols->count; i++) {
		struct entry *entry = &symbols->entries[i];

		if (entry->module || !is_text(entry->type) || entry->address < begin || entry->address >= end)
			continue;
		entry->type = entry->type >= 'a' ? 'd' : 'D';
		symbols->image_variables++;
	}
}

int symbols_open_file(struct symbols **out, const char *path)
{
	struct symbols *symbols = calloc(1, sizeof(*symbols));
	int err;

	if (!symbols)
		return -ENOMEM;
	err = read_file(symbols, path);
	if (err)
		goto out;
	symbols->hidden = symbols->count && !symbols->any_address;
	shrink((void **)&symbols->text, symbols->text_size);
	shrink((void **)&symbols->entries, symbols->count * sizeof(*symbols->entries));
	sort_entries(symbols);
	err = mark_names(symbols);
	if (err)
		goto out;
	find_sections(symbols);
	mark_variables(symbols);
	*out = symbols;
out:
	if (err)
		symbols_close(symbols);
	return err;
}

int symbols_open(struct symbols **out)
{
	return symbols_open_file(out, "/proc/kallsyms");
}

void symbols_close(struct symbols *symbols)
{
	if (!symbols)
		return;
	free(symbols->text);
	free(symbols->entries);
	free(symbols->marks);
	free(symbols->modules);
	free(symbols);
}

static void describe(const struct symbols *symbols, const struct entry *entry, __u64 address, struct symbol *out)
{
	*out = (struct symbol){
		.name = symbols->text + entry->name,
		.module = entry->module ? symbols->text + symbols->modules[entry->module - 1] : "",
		.address = entry->address,
		.offset = address - entry->address,
		.type = entry->type,
	};
}

int symbols_lookup(const struct symbols *symbols, __u64 address, struct symbol *out)
{
	const struct entry *entry;
	size_t upto;

	*out = (struct symbol){.name = "", .module = ""};
	if (symbols->hidden)
		return -ENOENT;
	upto = SORTED_UPTO(symbols->entries, symbols->count, address, address);
	if (!upto)
		return -ENOENT;
	/* The best of the names that share the address comes first. */
	entry = &symbols->entries[upto - 1];
	while (entry > symbols->entries && entry[-1].address == entry->address)
		entry--;
	if (entry->rank == RANK_END)
		return -ENOENT;
	if (is_text(entry->type) ? address - entry->address > LONGEST_FUNCTION
				 : !symbols_have_data(symbols) || address - entry->address > LONGEST_VARIABLE)
		return -ENOENT;
	describe(symbols, entry, address, out);
	return 0;
}

/* Looks at the bytes of marks alone until one fits. */
int symbols_address(const struct symbols *symbols, const char *name, __u64 *out)
{
	const unsigned char *end = symbols->marks + symbols->count, mark = mark_of(name);

	for (const unsigned char *at = symbols->marks; (at = memchr(at, mark, end - at)); at++) {
		const struct entry *entry = &symbols->entries[at - symbols->marks];

		if (entry->module || strcmp(symbols->text + entry->name, name))
			continue;
		if (symbols->hidden)
			return -EPERM;
		*out = entry->address;
		return 0;
	}
	return -ENOENT;
}

int symbols_each(const struct symbols *symbols, int (*visit)(const struct symbol *symbol, __u64 end, void *data),
		 void *data)
{
	size_t next = 0;
	int err = 0;

	for (size_t i = 0; !err && i < symbols->count; i++) {
		const struct entry *entry = &symbols->entries[i];
		struct symbol symbol;

		while (next < symbols->count && symbols->entries[next].address <= entry->address)
			next++;
		describe(symbols, entry, entry->address, &symbol);
		err = visit(&symbol, next < symbols->count ? symbols->entries[next].address : entry->address + 1, data);
	}
	return err;
}

bool symbols_have_data(const struct symbols *symbols)
{
	return symbols->image_variables >= FEWEST_VARIABLES;
}

bool symbols_hidden(const struct symbols *symbols)
{
	return symbols->hidden;
}

size_t symbols_bytes(const struct symbols *symbols)
{
	return sizeof(*symbols) + symbols->text_size + symbols->count * (sizeof(*symbols->entries) + 1) +
	       symbols->module_count * sizeof(*symbols->modules);
}

bool symbols_is_lock_internal(const struct symbols *symbols, const struct symbol *symbol)
{
	__u64 address = symbol->address;

	return (address >= symbols->lock_text[0] && address < symbols->lock_text[1]) ||
	       (address >= symbols->sched_text[0] && address < symbols->sched_text[1]) ||
	       symbol_is_lock_internal(symbol->name);
}
