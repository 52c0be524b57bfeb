// SPDX-License-Identifier: GPL-2.0-or-later
/* Kernel symbols.  By address alone they would be wrong for any other kernel, and for any other boot of this one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "names/build_id.h"
#include "memory/memory_symbols.h"
#include "memory/memory_symbols.h"
#include "cli/message.h"
#include "names/recorded_symbols.h"
#include "names/symbols.h"

#define NOTE_GNU_BUILD_ID 3

void memory_symbols_close(struct memory_symbols *symbols)
{
	if (!symbols)
		return;
	symbols_close(symbols->opened);
	recorded_symbols_close(symbols->recorded);
	free(symbols);
}

const char *memory_symbols_kernel_source(const struct memory_symbols *symbols)
{
	return symbols->kernel_source;
}

/* The build id of the running kernel, of /sys/kernel/notes. */
static size_t running_build_id(__u8 out[MEMORY_BUILD_ID])
{
	__u8 notes[4096];
	size_t at = 0;
	ssize_t length;
	int fd = open("/sys/kernel/notes", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	length = read(fd, notes, sizeof(notes));
	close(fd);
	while (length >= 0 && at + 12 <= (size_t)length) {
		__u32 head[3];
		size_t name = at + sizeof(head), data;

		memcpy(head, notes + at, sizeof(head));
		data = name + ((head[0] + 3ul) & ~3ul);
		if (head[1] > sizeof(notes) || data + head[1] > (size_t)length)
			return 0;
		if (head[2] == NOTE_GNU_BUILD_ID && head[0] == 4 && !memcmp(notes + name, "GNU", 4) &&
		    head[1] <= MEMORY_BUILD_ID) {
			memcpy(out, notes + data, head[1]);
			return head[1];
		}
		at = data + ((head[1] + 3ul) & ~3ul);
	}
	return 0;
}

/* How far the file's kernel lies from the table's; -EINVAL: it is not the same kernel, -ENODATA: not known. */
static int find_shift(const struct symbols *table, const struct memory_kernel *kernel, __u64 *shift)
{
	__u64 address;

	*shift = 0;
	if (!kernel->known || !kernel->reference || !*kernel->reference_name ||
	    symbols_address(table, kernel->reference_name, &address))
		return -ENODATA;
	*shift = kernel->reference - address;
	return *shift & 0xfff ? -EINVAL : 0;
}

/* A file that the user names: of this kernel by their word, moved as its reference symbol says. */
static int open_named(struct memory_symbols *symbols, const char *path, const char *option,
		      const struct memory_kernel *kernel)
{
	int err = symbols_open_file(&symbols->opened, path);

	if (err) {
		message("cannot read %s %s: %s", option, path, strerror(-err));
		return err;
	}
	if (symbols_hidden(symbols->opened)) {
		message("%s %s: all addresses are 0; copy /proc/kallsyms as root", option, path);
		return -EINVAL;
	}
	err = find_shift(symbols->opened, kernel, &symbols->shift);
	if (err == -EINVAL) {
		message("%s %s is of another kernel: %s is at another place in a page than in the file", option, path,
			kernel->reference_name);
		return -EINVAL;
	}
	snprintf(symbols->kernel_source, sizeof(symbols->kernel_source), "%s%s", option + 2,
		 err ? ", not checked: the file does not say at which address its kernel was" : "");
	return 0;
}

static bool same_build_id(const struct memory_kernel *kernel, const __u8 *id, size_t size)
{
	return size && kernel->build_id_size == size && !memcmp(kernel->build_id, id, size);
}

/* perf record keeps a copy of kallsyms by build id. */
static bool open_cached(struct memory_symbols *symbols, const struct memory_kernel *kernel)
{
	char path[4096];

	if (!kernel->build_id_size ||
	    build_id_cache_path(kernel->build_id, kernel->build_id_size, "kallsyms", path, sizeof(path)) ||
	    symbols_open_file(&symbols->opened, path))
		return false;
	if (!symbols_hidden(symbols->opened) && !find_shift(symbols->opened, kernel, &symbols->shift)) {
		snprintf(symbols->kernel_source, sizeof(symbols->kernel_source), "perf's build-id cache");
		return true;
	}
	symbols_close(symbols->opened);
	symbols->opened = NULL;
	return false;
}

static bool open_running(struct memory_symbols *symbols, const struct memory_kernel *kernel)
{
	__u8 id[MEMORY_BUILD_ID];
	const char *why;

	if (!kernel->build_id_size)
		why = "none: the file has no build id of its kernel";
	else if (!same_build_id(kernel, id, running_build_id(id)))
		why = "none: the file is of another kernel; give its symbols by --kallsyms or --system-map";
	else if (symbols_open(&symbols->opened))
		why = "none: /proc/kallsyms cannot be read";
	else if (symbols_hidden(symbols->opened))
		why = "none: /proc/kallsyms shows no addresses (kptr_restrict)";
	else if (find_shift(symbols->opened, kernel, &symbols->shift) || symbols->shift)
		why = "none: the file is of another boot of this kernel";
	else
		why = "running kernel";
	snprintf(symbols->kernel_source, sizeof(symbols->kernel_source), "%s", why);
	if (!strncmp(why, "none", 4)) {
		symbols_close(symbols->opened);
		symbols->opened = NULL;
	}
	return symbols->opened;
}

int memory_symbols_open(struct memory_symbols **out, const struct memory_symbol_sources *sources,
			const struct memory_kernel *kernel)
{
	struct memory_symbols *symbols = calloc(1, sizeof(*symbols));
	int err = 0;

	if (!symbols)
		return -ENOMEM;
	symbols->sources = *sources;
	if (sources->running)
		symbols->kernel = sources->running;
	else if (sources->kallsyms)
		err = open_named(symbols, sources->kallsyms, "--kallsyms", kernel);
	else if (sources->system_map)
		err = open_named(symbols, sources->system_map, "--system-map", kernel);
	else if (!open_cached(symbols, kernel))
		open_running(symbols, kernel);
	if (!sources->running)
		symbols->kernel = symbols->opened;
	/* What a recording has beside: names of the code that waited. */
	if (!err && sources->recording) {
		const struct recorded_boot boot = {
			.hostname = sources->hostname,
			.release = sources->release,
			.text_address = strcmp(kernel->reference_name, "_text") ? 0 : kernel->reference,
		};

		err = recorded_symbols_open(&symbols->recorded, sources->recording, &boot);
		if (!err && !symbols->kernel)
			snprintf(symbols->kernel_source, sizeof(symbols->kernel_source), "recording");
	}
	if (err) {
		memory_symbols_close(symbols);
		return err;
	}
	*out = symbols;
	return 0;
}

/* "[ext4]" or ".../ext4.ko.xz" against "ext4"; kallsyms has _ where file names may have -. */
static bool is_module(const char *object, const char *module)
{
	const char *name = strrchr(object, '/');
	size_t length;

	name = name ? name + 1 : object + (*object == '[');
	length = strcspn(name, ".]");
	if (strlen(module) != length)
		return false;
	for (size_t i = 0; i < length; i++)
		if ((name[i] == '-' ? '_' : name[i]) != (module[i] == '-' ? '_' : module[i]))
			return false;
	return true;
}

int memory_symbols_kernel(const struct memory_symbols *symbols, __u64 address, const char *object, struct symbol *out)
{
	if (symbols->kernel && !symbols_lookup(symbols->kernel, address - symbols->shift, out)) {
		/* Modules lie elsewhere in another boot. */
		if (!*out->module || (!symbols->shift && (!object || is_module(object, out->module))))
			return 0;
	}
	*out = (struct symbol){.name = "", .module = ""};
	return symbols->recorded ? recorded_symbols_lookup(symbols->recorded, address, out) : -ENOENT;
}
