/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the command line asks for; command_line.h fills it. */
#ifndef LOCKLINE_OPTIONS_H
#define LOCKLINE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "base/values.h"
#include "bpf/lockline.h"

#define INTERVAL_NS 1000000000ull

enum command { COMMAND_RECORD, COMMAND_DOCTOR, COMMAND_TYPES, COMMAND_IMPORT, COMMAND_WATCH };

/* How `watch` tells reads from writes. */
enum watch_access_from {
	ACCESS_FROM_EITHER, /* by the instruction; where that fails for too many, by watchpoints too */
	ACCESS_FROM_INSTRUCTION,
	ACCESS_FROM_WATCHPOINT,
};

/* Who decodes a perf.data file. */
enum decoder { DECODER_AUTO, DECODER_NATIVE, DECODER_PERF };

struct options {
	enum command command;
	const char *output;    /* -o; default lockline.data */
	bool all;              /* -a: the default without -p, -t, -G and COMMAND; true then too */
	struct id_list pids;   /* -p: processes, their children, and what they fork */
	struct id_list tids;   /* -t: threads alone */
	struct id_list cpus;   /* -C 0-3,7 */
	const char *cgroup;    /* -G: path below the cgroup mount, or absolute; v1 or v2 */
	const char *container; /* --container: a name or an id */
	const char *pod;       /* --pod: NAMESPACE/NAME */
	const char *locks;     /* -L: words of lock_filter.h; NULL: all */
	const char *callers;   /* -S: functions of the kernel; NULL: all */
	__u32 kinds;           /* --kinds: mask of 1 << enum lock_kind; all by default */
	__u64 max_cost_ns;     /* --max-cost TIME; 0: whatever it costs */
	__u64 duration_ns;     /* -d SECONDS; 0: until Ctrl-C or the end of COMMAND */
	__u64 interval_ns;     /* -I SECONDS, at least 0.1 s; 0: up to INTERVAL_NS, shorter at first */
	__u64 keep_ns;         /* --keep TIME; 0: all intervals as they are */
	__u64 max_bytes;       /* --max-size SIZE; 0: no bound */
	__u64 threshold_ns;    /* --threshold TIME (suffix ns, us, ms, s); default 1 ms */
	__u32 sample_period; /* --sample N: one wait in N of a row; power of two; 0: by the rate of waits, the default */
	__u64 memory_bytes;  /* --memory SIZE (K, M, G); 0: 64M, or more where the CPUs need it */
	__u32 possible_cpus;    /* --possible-cpus N, for sizing tests; 0: those there are */
	bool user_stacks;       /* --user-stacks */
	bool holders;           /* --holders, or --holds */
	bool holds;             /* --holds */
	bool episodes;          /* --episodes, or --flight */
	bool flight;            /* --flight */
	const char *until;      /* --until CONDITION; NULL: none */
	__u64 save_last_ns;     /* --save-last TIME; 0: the condition ends the recording */
	__u32 saves;            /* --saves N: parts to keep */
	bool futex;             /* --futex */
	bool go;                /* --go */
	bool ptrace;            /* --ptrace */
	bool clocksource;       /* --clocksource */
	bool c2c;               /* --c2c */
	bool deep;              /* --deep */
	__u64 self_check_ns;    /* --self-check[=SLICE]: length of a slice; 0: none */
	const char *perf;       /* --perf PATH; default perf */
	__u32 ldlat;            /* --ldlat CYCLES; 0: perf's default */
	bool hitm;              /* --hitm */
	__u32 futex_stacks;     /* --futex-stacks N; in a second; 0: as many as usual */
	__u32 go_traps;         /* --go-traps PERCENT; 0: as usual */
	__u32 hitm_rate;        /* --hitm-rate N; samples per second, event and CPU */
	const char *hitm_event; /* --hitm-event EVENT; NULL: the PMU's own memory events */
	bool l3_misses;         /* --l3-misses */
	bool sizes_only;        /* --sizes: only print, as JSON, how the memory would be used; record nothing */
	__u32 end_with;         /* --end-with PID; 0: of no process */
	bool temporary;         /* --temporary */
	bool quiet;             /* -q */
	int verbose;            /* -v */
	/* of `types` */
	const char *btf;       /* --btf: a vmlinux or raw BTF; NULL: of the running kernel */
	const char *program;   /* --program: of this file's DWARF instead */
	const char *functions; /* --function NAME,... */
	const char *structs;   /* --struct NAME,... */
	const char *variables; /* --variable NAME,... */
	/* of `import` */
	const char *input;      /* a perf.data file; "-": standard input */
	const char *kallsyms;   /* --kallsyms FILE */
	const char *system_map; /* --system-map FILE */
	const char *recording;  /* --recording FILE: of the same boot */
	const char *symfs;      /* --symfs DIR */
	__u32 accesses;         /* --accesses N: to keep; 0: all */
	__u32 line_size;        /* --line-size BYTES; 0: 64 */
	const char *decoder_name;
	enum decoder decoder; /* --decoder */
	bool no_source;       /* --no-source: no file:line */
	/* of `watch` */
	const char *watch_target;  /* NULL: --auto */
	const char *watch_input;   /* -i: a recording that the target is a lock of */
	__u32 watch_auto;          /* --auto[=N]: so many lines; 0: of the target alone */
	const char *watch_offsets; /* --offsets LIST */
	__u32 watch_places;        /* of these the mask of the line's eighths; 0: all */
	const char *max_overhead;  /* --max-overhead PERCENT */
	double watch_share;        /* of these the share of CPU time; 0 with --full */
	bool watch_full;           /* --full */
	const char *watch_access_name;
	enum watch_access_from watch_access_from; /* --access */
	char **command_argv;                      /* COMMAND and its arguments, or NULL */
};

/* Whether a container or a pod chooses the cgroup. */
static inline bool options_name_container(const struct options *options)
{
	return options->container || options->pod;
}

#endif /* LOCKLINE_OPTIONS_H */
