// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "lockline.skel.h"
#include "names/resolver.h"

/* linux/bpf.h calls it so since 5.10 */
#ifndef BPF_F_TEST_RUN_ON_CPU
#define BPF_F_TEST_RUN_ON_CPU (1U << 0)
#endif

void resolver_open(struct resolver *resolver, struct lockline_bpf *bpf)
{
	void *memory;

	*resolver = (struct resolver){.cpu_fd = -1, .slab_fd = -1, .read_fd = -1};
	if (!bpf || bpf_map__fd(bpf->maps.resolve_result) < 0)
		return;
	memory = mmap(NULL, sizeof(*resolver->result), PROT_READ | PROT_WRITE, MAP_SHARED,
		      bpf_map__fd(bpf->maps.resolve_result), 0);
	if (memory == MAP_FAILED)
		return;
	resolver->result = memory;
	resolver->cpu_fd = bpf_program__fd(bpf->progs.resolve_cpu);
	resolver->slab_fd = bpf_program__fd(bpf->progs.resolve_slab);
	resolver->read_fd = bpf_program__fd(bpf->progs.resolve_read);
}

void resolver_close(struct resolver *resolver)
{
	if (resolver->result)
		munmap(resolver->result, sizeof(*resolver->result));
	resolver->result = NULL;
}

static int run(const struct resolver *resolver, int fd, __u64 first, __u64 second, __u32 flags, __u32 cpu)
{
	__u64 arguments[2] = {first, second};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = sizeof(arguments), .flags = flags,
		    .cpu = cpu);

	if (!resolver->result || fd < 0)
		return -ENOSYS;
	return bpf_prog_test_run_opts(fd, &options);
}

int resolver_read(const struct resolver *resolver, __u64 address, void *out, size_t size)
{
	int err;

	if (size > RESOLVE_BYTES)
		return -E2BIG;
	err = run(resolver, resolver->read_fd, address, size, 0, 0);
	if (!err)
		err = resolver->result->error;
	if (!err)
		memcpy(out, resolver->result->bytes, size);
	return err;
}

int resolver_rq(const struct resolver *resolver, unsigned int cpu, __u64 *out)
{
	int err;

	err = run(resolver, resolver->cpu_fd, cpu, 0, 0, 0);
	/* Only if this CPU's task does not lead to the others: an interrupt on the CPU asked for. */
	if (!err && !resolver->result->rq)
		err = run(resolver, resolver->cpu_fd, cpu, 0, BPF_F_TEST_RUN_ON_CPU, cpu);
	if (err)
		return err;
	*out = resolver->result->rq;
	return *out ? 0 : -ENOENT;
}

int resolver_task(const struct resolver *resolver, __u64 *out)
{
	int err = run(resolver, resolver->cpu_fd, 0, 0, 0, 0);

	if (err)
		return err;
	*out = resolver->result->task;
	return *out ? 0 : -ENOENT;
}

int resolver_slab(const struct resolver *resolver, __u64 address, struct slab_cache *out)
{
	int err = run(resolver, resolver->slab_fd, address, 0, 0, 0);

	if (err)
		return err;
	*out = resolver->result->slab;
	out->name[sizeof(out->name) - 1] = 0;
	return out->cache ? 0 : -ENOENT;
}
