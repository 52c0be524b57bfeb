// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel's BTF, read and parsed once for a process.  libbpf parses a copy of its own for each object that it loads;
 * so the linker puts these two functions in the place of libbpf's (--wrap in the Makefile).  Of one thread alone.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/btf.h>

struct btf *__real_btf__load_vmlinux_btf(void);
void __real_btf__free(struct btf *btf);
struct btf *__wrap_btf__load_vmlinux_btf(void);
void __wrap_btf__free(struct btf *btf);

static struct {
	struct btf *btf;
	unsigned int users;
} kernel;

/* Since 6.16 the file can be mapped (a539e2a6d51d), which spares 1,400 reads of 4 KiB; NULL: it cannot. */
static struct btf *parse_mapped(void)
{
	int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
	struct btf *btf = NULL;
	struct stat status;
	void *data;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &status) && status.st_size > 0) {
		data = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (data != MAP_FAILED) {
			btf = btf__new(data, status.st_size);
			munmap(data, status.st_size);
		}
	}
	close(fd);
	return btf;
}

struct btf *__wrap_btf__load_vmlinux_btf(void)
{
	if (!kernel.users)
		kernel.btf = parse_mapped() ?: __real_btf__load_vmlinux_btf();
	if (kernel.btf)
		kernel.users++;
	return kernel.btf;
}

void __wrap_btf__free(struct btf *btf)
{
	if (btf && btf == kernel.btf) {
		if (--kernel.users)
			return;
		kernel.btf = NULL;
	}
	__real_btf__free(btf);
}
