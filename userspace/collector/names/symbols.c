// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel's symbols.  The text of kallsyms is read into one buffer and
 * packed in place: names stay, addresses go to a sorted table of 16 bytes each.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "names/lock_functions.h"
#include "names/symbols.h"

#define READ_STEP   (1u << 20)
#define MODULES_MAX 0xffff

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
	size_t text_size;
	struct entry *entries;
	size_t count;
	__u32 *modules; /* offsets in text */
	size_t module_count;
	size_t image_variables;
	__u64 lock_text[2]; /* .spinlock.text; 0: unknown */
	__u64 sched_text[2];
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

static int read_all(const char *path, char **out, size_t *out_size)
{
	size_t size = 0, capacity = 8 * READ_STEP;
	char *text = malloc(capacity), *larger;
	ssize_t n;
	int fd, err = 0;

	if (!text)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		goto out;
	}
	for (;;) {
		if (capacity - size < READ_STEP) {
			larger = realloc(text, capacity * 2);
			if (!larger) {
				err = -ENOMEM;
				goto out;
			}
			text = larger;
			capacity *= 2;
		}
		n = read(fd, text + size, READ_STEP - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err = -errno;
			goto out;
		}
		if (!n)
			break;
		size += n;
	}
	text[size] = 0;
	*out = text;
	*out_size = size;
out:
	if (fd >= 0)
		close(fd);
	if (err)
		free(text);
	return err;
}

static char *parse_hex(char *p, __u64 *out)
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

static int module_index(struct symbols *symbols, const char *name, size_t length, char **write, __u16 *out)
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
	memmove(*write, name, length);
	(*write)[length] = 0;
	symbols->modules[symbols->module_count++] = *write - symbols->text;
	*write += length + 1;
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

/* Packs the names to the front of the text while it reads; what it writes is always shorter than what it has read. */
static int parse(struct symbols *symbols, size_t lines)
{
	char *read = symbols->text, *end = symbols->text + symbols->text_size, *write = read;
	bool any_address = false;
	int err;

	symbols->entries = malloc((lines + 1) * sizeof(*symbols->entries));
	if (!symbols->entries)
		return -ENOMEM;
	while (read < end) {
		struct entry *entry = &symbols->entries[symbols->count];
		char *line_end = memchr(read, '\n', end - read), *name, *name_end, *module;
		__u64 address;

		if (!line_end)
			line_end = end;
		name = parse_hex(read, &address);
		if (name == read || line_end - name < 4 || name[0] != ' ' || name[2] != ' ' ||
		    !type_is_known(name[1]) || is_padding(name + 3)) {
			read = line_end + 1;
			continue;
		}
		*entry = (struct entry){.address = address, .type = name[1], .name = write - symbols->text};
		name += 3;
		name_end = memchr(name, '\t', line_end - name);
		module = name_end;
		if (!name_end)
			name_end = line_end;
		memmove(write, name, name_end - name);
		write += name_end - name;
		*write++ = 0;
		if (module && line_end - module > 3 && module[1] == '[' && line_end[-1] == ']') {
			err = module_index(symbols, module + 2, line_end - module - 3, &write, &entry->module);
			if (err)
				return err;
		}
		entry->rank = rank_name(symbols->text + entry->name, entry->type);
		any_address |= address != 0;
		if (!entry->module && !is_text(entry->type))
			symbols->image_variables++;
		symbols->count++;
		read = line_end + 1;
	}
	symbols->hidden = symbols->count && !any_address;
	symbols->text_size = write - symbols->text;
	return 0;
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

static bool is_sorted(const struct symbols *symbols)
{
	for (size_t i = 1; i < symbols->count; i++)
		if (compare_entries(&symbols->entries[i - 1], &symbols->entries[i]) > 0)
			return false;
	return true;
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
	size_t lines = 0;
	int err;

	if (!symbols)
		return -ENOMEM;
	err = read_all(path, &symbols->text, &symbols->text_size);
	if (err)
		goto out;
	for (const char *p = symbols->text; (p = strchr(p, '\n')); p++)
		lines++;
	err = parse(symbols, lines);
	if (err)
		goto out;
	shrink((void **)&symbols->text, symbols->text_size);
	shrink((void **)&symbols->entries, symbols->count * sizeof(*symbols->entries));
	if (!is_sorted(symbols))
		qsort(symbols->entries, symbols->count, sizeof(*symbols->entries), compare_entries);
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
	size_t low = 0, high = symbols->count;
	const struct entry *entry;

	*out = (struct symbol){.name = "", .module = ""};
	if (symbols->hidden)
		return -ENOENT;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (symbols->entries[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return -ENOENT;
	/* The best of the names that share the address comes first. */
	entry = &symbols->entries[low - 1];
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

int symbols_address(const struct symbols *symbols, const char *name, __u64 *out)
{
	for (size_t i = 0; i < symbols->count; i++) {
		const struct entry *entry = &symbols->entries[i];

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
	return sizeof(*symbols) + symbols->text_size + symbols->count * sizeof(*symbols->entries) +
	       symbols->module_count * sizeof(*symbols->modules);
}

bool symbols_is_lock_internal(const struct symbols *symbols, const struct symbol *symbol)
{
	__u64 address = symbol->address;

	return (address >= symbols->lock_text[0] && address < symbols->lock_text[1]) ||
	       (address >= symbols->sched_text[0] && address < symbols->sched_text[1]) ||
	       symbol_is_lock_internal(symbol->name);
}
