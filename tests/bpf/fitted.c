// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fitted: a line for each of the product's programs: its name, how many instructions the verifier walked, and the
 * kernel's hash of its code as fitted to the kernel's own BTF and to the few types of core_types.h.  Not those of
 * functions, which not every kernel has.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "lockline.skel.h"
#include "names/btf_members.h"
#include "names/core_types.h"

static bool has_place(const struct types *types, const struct bpf_program *program)
{
	const char *section = bpf_program__section_name(program), *slash = strchr(section, '/');
	char name[128];

	if (strstr(section, "fentry") || strstr(section, "fexit"))
		return false;
	if (!strstr(section, "tp_btf/"))
		return true;
	snprintf(name, sizeof(name), "btf_trace_%s", slash + 1);
	return types_of_kind(types, name, BTF_KIND_TYPEDEF);
}

static struct lockline_bpf *load(const struct types *types, int core)
{
	LIBBPF_OPTS(bpf_object_open_opts, options);
	struct bpf_program *program;
	struct lockline_bpf *bpf;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", core);
	if (core >= 0)
		options.btf_custom_path = path;
	bpf = lockline_bpf__open_opts(&options);
	if (!bpf)
		return NULL;
	bpf_object__for_each_program(program, bpf->obj) bpf_program__set_autoload(program, has_place(types, program));
	if (core >= 0 && core_types_write(types, bpf_object__btf(bpf->obj), core))
		return NULL;
	return lockline_bpf__load(bpf) ? NULL : bpf;
}

static struct bpf_prog_info info_of(const struct bpf_program *program)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size);
	return info;
}

static void print_hash(const struct bpf_program *program)
{
	struct bpf_prog_info info = info_of(program);

	for (size_t i = 0; i < sizeof(info.tag); i++)
		printf("%02x", info.tag[i]);
}

int main(void)
{
	struct lockline_bpf *by_all, *by_few;
	struct bpf_program *one, *other;
	struct types *types;

	if (types_open(&types)) {
		fprintf(stderr, "no BTF of the kernel's\n");
		return 1;
	}
	by_all = load(types, -1);
	by_few = load(types, memfd_create("types", MFD_CLOEXEC));
	if (!by_all || !by_few) {
		fprintf(stderr, "cannot load the programs: %s\n", strerror(errno));
		return 1;
	}
	other = bpf_object__next_program(by_few->obj, NULL);
	bpf_object__for_each_program(one, by_all->obj)
	{
		if (bpf_program__autoload(one)) {
			printf("%s %u ", bpf_program__name(one), info_of(one).verified_insns);
			print_hash(one);
			printf(" ");
			print_hash(other);
			printf("\n");
		}
		other = bpf_object__next_program(by_few->obj, other);
	}
	lockline_bpf__destroy(by_all);
	lockline_bpf__destroy(by_few);
	types_close(types);
	return 0;
}
