/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The records of a perf.data file or pipe in the order of the file, compressed
 * ones unpacked.  Nothing in a file is trusted: what does not fit ends the
 * reading, and is a problem with its place.
 */
#ifndef LOCKLINE_PERFDATA_READER_H
#define LOCKLINE_PERFDATA_READER_H

#include "memory/memory_problems.h"
#include "perfdata/perfdata_events.h"
#include "perfdata/perfdata_features.h"
#include "perfdata/perfdata_input.h"
#include "perfdata/perfdata_record.h"

struct perfdata_reader {
	struct perfdata_input input;
	struct perfdata_events events;
	struct perfdata_features features;
	struct memory_problems *problems;
	bool pipe;
	bool decoder_wanted; /* by trace data of Arm SPE: memory accesses are in there */
	bool cut;            /* the input ended too early */
	__u64 records;
	__u64 bytes; /* of records, unpacked */
	struct perfdata_unpacker *unpacker;
	__u64 packed; /* bytes of compressed records, and what was in them */
	__u64 unpacked;
	__u64 odd_trace; /* records by the number of trace data that are something else */
};

/* Reads the header.  Prints why it cannot; prints nothing for -EISDIR. */
int perfdata_reader_open(struct perfdata_reader *reader, const char *path, struct memory_problems *problems);
void perfdata_reader_close(struct perfdata_reader *reader);
/* All records.  Fails only with what function returns. */
int perfdata_reader_run(struct perfdata_reader *reader, perfdata_record_function *function, void *context);

#endif /* LOCKLINE_PERFDATA_READER_H */
