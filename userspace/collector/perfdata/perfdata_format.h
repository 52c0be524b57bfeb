/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a perf.data file is made of: numbers of tools/perf/Documentation/perf.data-file-format.txt,
 * tools/lib/perf/include/perf/event.h and include/uapi/linux/perf_event.h, Linux 7.2, with readers for either byte
 * order.  uapi headers of the build machine are not used: they may be older than the file.
 */
#ifndef LOCKLINE_PERFDATA_FORMAT_H
#define LOCKLINE_PERFDATA_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <linux/types.h>

#include "memory/perf_samples.h"

#define PERFDATA_MAGIC      0x32454c4946524550ull /* "PERFILE2", little-endian */
#define PERFDATA_MAGIC_OLD  "PERFFILE"
#define PERFDATA_HEADER     104 /* bytes: of a file; a pipe has the first 16 alone */
#define PERFDATA_PIPE       16
#define PERFDATA_RECORD_MAX 65535

enum perfdata_record {
	RECORD_MMAP = 1,
	RECORD_LOST = 2,
	RECORD_COMM = 3,
	RECORD_EXIT = 4,
	RECORD_THROTTLE = 5,
	RECORD_FORK = 7,
	RECORD_SAMPLE = 9,
	RECORD_MMAP2 = 10,
	RECORD_AUX = 11,
	RECORD_LOST_SAMPLES = 13,
	RECORD_KERNEL_LAST = 63,
	RECORD_HEADER_ATTR = 64,
	RECORD_HEADER_TRACING_DATA = 66,
	RECORD_HEADER_BUILD_ID = 67,
	RECORD_FINISHED_ROUND = 68,
	RECORD_AUXTRACE_INFO = 70,
	RECORD_AUXTRACE = 71,
	RECORD_EVENT_UPDATE = 78,
	RECORD_HEADER_FEATURE = 80,
	RECORD_COMPRESSED = 81,
	RECORD_COMPRESSED2 = 83,
	RECORD_TYPES = 256, /* far more than there are */
};

#define EVENT_UPDATE_NAME    2
#define AUXTRACE_TYPE_SPE    4 /* PERF_AUXTRACE_ARM_SPE of tools/perf/util/auxtrace.h */
#define AUXTRACE_RECORD_SIZE 48

#define MISC_CPUMODE       7
#define MISC_COMM_EXEC     (1 << 13) /* of COMM */
#define MISC_FORK_EXEC     (1 << 13) /* of FORK: perf's own, of a task that ran before */
#define MISC_MMAP_BUILD_ID (1 << 14)
#define MISC_BUILD_ID_SIZE (1 << 15)

enum perfdata_read_format {
	READ_TIME_ENABLED = 1 << 0,
	READ_TIME_RUNNING = 1 << 1,
	READ_ID = 1 << 2,
	READ_GROUP = 1 << 3,
	READ_LOST = 1 << 4,
};

#define BRANCH_HW_INDEX (1ull << 17)
#define BRANCH_COUNTERS (1ull << 19)

/* Numbers of the bit fields that follow read_format in struct perf_event_attr. */
#define ATTR_SAMPLE_ID_ALL 18
#define ATTR_USE_CLOCKID   25

enum perfdata_feature {
	FEATURE_BUILD_ID = 2,
	FEATURE_HOSTNAME,
	FEATURE_OSRELEASE,
	FEATURE_VERSION,
	FEATURE_ARCH,
	FEATURE_NRCPUS,
	FEATURE_CPUDESC,
	FEATURE_CPUID,
	FEATURE_TOTAL_MEM,
	FEATURE_CMDLINE,
	FEATURE_EVENT_DESC,
	FEATURE_CPU_TOPOLOGY,
	FEATURE_NUMA_TOPOLOGY,
	FEATURE_SAMPLE_TIME = 21,
	FEATURE_MEM_TOPOLOGY,
	FEATURE_CLOCKID,
	FEATURE_COMPRESSED = 27,
	FEATURE_CLOCK_DATA = 29,
	FEATURES = 256,
};

/* Bytes in the file's order; what is read past the end is 0, and cut tells of it. */
struct perfdata_bytes {
	const __u8 *at;
	const __u8 *end;
	bool big;
	bool cut;
};

static inline __u64 perfdata_u64(const __u8 *at, bool big)
{
	__u64 value;

	memcpy(&value, at, sizeof(value));
	return big ? __builtin_bswap64(value) : value;
}

static inline __u32 perfdata_u32(const __u8 *at, bool big)
{
	__u32 value;

	memcpy(&value, at, sizeof(value));
	return big ? __builtin_bswap32(value) : value;
}

static inline __u16 perfdata_u16(const __u8 *at, bool big)
{
	__u16 value;

	memcpy(&value, at, sizeof(value));
	return big ? __builtin_bswap16(value) : value;
}

static inline size_t perfdata_left(const struct perfdata_bytes *bytes)
{
	return bytes->end - bytes->at;
}

/* The next size bytes, NULL if there are fewer. */
static inline const __u8 *perfdata_take(struct perfdata_bytes *bytes, __u64 size)
{
	const __u8 *at = bytes->at;

	if (bytes->cut || perfdata_left(bytes) < size) {
		bytes->cut = true;
		return NULL;
	}
	bytes->at += size;
	return at;
}

static inline __u64 perfdata_take_u64(struct perfdata_bytes *bytes)
{
	const __u8 *at = perfdata_take(bytes, 8);

	return at ? perfdata_u64(at, bytes->big) : 0;
}

static inline __u32 perfdata_take_u32(struct perfdata_bytes *bytes)
{
	const __u8 *at = perfdata_take(bytes, 4);

	return at ? perfdata_u32(at, bytes->big) : 0;
}

/* count items of size bytes each. */
static inline void perfdata_skip(struct perfdata_bytes *bytes, __u64 count, __u64 size)
{
	if (size && count > perfdata_left(bytes) / size)
		bytes->cut = true;
	else
		perfdata_take(bytes, count * size);
}

#endif /* LOCKLINE_PERFDATA_FORMAT_H */
