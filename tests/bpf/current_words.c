// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "current_words.h"
#include "lockline.skel.h"
#include "names/btf_members.h"
#include "names/lock_names.h"

/* By the programs that are run for the collector and never attached. */
static int read_current_words(struct lockline_bpf *bpf, __u64 *words, int cpus)
{
	struct bpf_program *program;
	struct lock_names *names;
	struct symbols *symbols;
	struct types *types;
	int err;

	bpf_object__for_each_program(program, bpf->obj)
		bpf_program__set_autoload(program, !strncmp(bpf_program__name(program), "resolve_", 8));
	err = lockline_bpf__load(bpf) ?: symbols_open(&symbols);
	if (err)
		return err;
	err = types_open(&types);
	if (err)
		types = NULL;
	err = lock_names_open(&names, symbols, types, bpf);
	if (!err) {
		for (int cpu = 0; cpu < cpus; cpu++)
			words[cpu] = lock_names_current_task(names, cpu);
		lock_names_close(names);
	}
	types_close(types);
	symbols_close(symbols);
	return err;
}

const __u64 *find_current_words(void)
{
	int cpus = libbpf_num_possible_cpus(), err = 0;
	struct lockline_bpf *bpf = lockline_bpf__open();
	__u64 *words = calloc(cpus, sizeof(*words));

	if (!bpf || !words)
		err = -ENOMEM;
	err = err ?: read_current_words(bpf, words, cpus);
	lockline_bpf__destroy(bpf);
	if (!err)
		return words;
	free(words);
	errno = -err;
	return NULL;
}
