/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the header of a perf.data file tells of the machine and of the recording. */
#ifndef LOCKLINE_PERFDATA_FEATURES_H
#define LOCKLINE_PERFDATA_FEATURES_H

#include <stdbool.h>
#include <linux/types.h>

#include "memory/memory_lines.h"
#include "memory/memory_maps.h"
#include "memory/memory_topology.h"
#include "perfdata/perfdata_events.h"

#define PERFDATA_TEXT    256
#define PERFDATA_COMMAND 4096
#define PERFDATA_RANGES  (1u << 18)  /* of physical memory */
#define PERFDATA_FEATURE (64u << 20) /* bytes of one; what is larger is no feature of perf's */

struct perfdata_build_id {
	bool kernel;
	__u8 id[MEMORY_BUILD_ID];
	__u8 size;
	char *name;
};

struct perfdata_features {
	char hostname[PERFDATA_TEXT];
	char release[PERFDATA_TEXT];
	char perf_version[PERFDATA_TEXT];
	char architecture[PERFDATA_TEXT];
	char cpu_model[PERFDATA_TEXT];
	char cpuid[PERFDATA_TEXT];
	char command[PERFDATA_COMMAND];
	__u32 cpus_possible; /* perf's "nrcpus avail" */
	__u32 cpus_online;
	__u64 memory_kib;
	__u64 first_ns; /* samples, by perf's own account; 0: not told */
	__u64 last_ns;
	__u64 clock_resolution_ns;
	bool clock_data;
	__s32 clockid;
	__u64 clock_wall_ns; /* time of day at clock_ns of the clock */
	__u64 clock_ns;
	__u32 compressed_length; /* most that one compressed record holds; 0: not told */
	struct memory_topology topology;
	char *nodes[MEMORY_NODES]; /* list of CPUs, by node; NULL: no such node */
	struct perfdata_build_id *build_ids;
	__u32 build_id_count;
};

void perfdata_features_close(struct perfdata_features *features);
/* -EBADMSG: not as perf writes it.  What is not known is left. */
int perfdata_feature(struct perfdata_features *features, struct perfdata_events *events, __u32 number,
		     struct perfdata_bytes bytes);
/* The body of a BUILD_ID record, in the header or a pipe. */
int perfdata_build_id(struct perfdata_features *features, __u16 misc, struct perfdata_bytes bytes);
const char *perfdata_feature_name(__u32 number);

#endif /* LOCKLINE_PERFDATA_FEATURES_H */
