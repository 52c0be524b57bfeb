// SPDX-License-Identifier: GPL-2.0-or-later
/* What kernels of several ages tell of a kprobe's link. */
#include <errno.h>

#include <bpf/bpf.h>

#include "probes/kprobe_misses.h"
#include "tap.h"

/* include/uapi/linux/bpf.h: sizeof(struct bpf_link_info) in 6.1 to 6.6, and in 6.7. */
#define BYTES_6_6 48
#define BYTES_6_7 56

static __u32 kernel_bytes, link_type, event_type;

int bpf_obj_get_info_by_fd(int fd, void *info, __u32 *size)
{
	__u32 *words = info;
	__u64 values[64] = {};

	if (fd != 7) {
		errno = EBADF;
		return -errno;
	}
	*size = *size < kernel_bytes ? *size : kernel_bytes;
	values[6] = 41;
	memcpy(words, values, *size);
	words[0] = link_type;
	if (*size > 16)
		words[4] = event_type;
	return 0;
}

static int ask(__u32 bytes, __u32 link, __u32 event, __u64 *misses)
{
	kernel_bytes = bytes;
	link_type = link;
	event_type = event;
	return kprobe_misses(7, misses);
}

static void counted_since_6_7(void)
{
	__u64 misses;

	CHECK(!ask(BYTES_6_7, 7, 3, &misses) && misses == 41, "a kprobe: %llu", misses);
	CHECK(!ask(BYTES_6_7, 7, 4, &misses) && misses == 41, "a kretprobe: %llu", misses);
	CHECK(!ask(BYTES_6_7 + 8, 7, 3, &misses) && misses == 41, "of a later kernel: %llu", misses);
}

static void not_counted_before(void)
{
	__u64 misses;

	CHECK(ask(BYTES_6_6, 7, 0, &misses) == -EOPNOTSUPP && !misses, "6.1");
	CHECK(ask(BYTES_6_6, 7, 3, &misses) == -EOPNOTSUPP && !misses, "6.6");
	CHECK(ask(BYTES_6_7, 7, 6, &misses) == -EOPNOTSUPP && !misses, "an event that is no kprobe");
	CHECK(ask(BYTES_6_7, 2, 3, &misses) == -EOPNOTSUPP && !misses, "a link of another type");
	CHECK(kprobe_misses(8, &misses) == -EBADF && !misses, "no link");
}

int main(void)
{
	static const struct test tests[] = {TEST(counted_since_6_7), TEST(not_counted_before)};

	return RUN_TESTS(tests);
}
