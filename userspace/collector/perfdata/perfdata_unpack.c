// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "perfdata/perfdata_format.h"
#include "perfdata/perfdata_unpack.h"

#define BUFFER (1u << 18)
/* 128 MiB, what zstd takes for its level 22: a header can claim any size. */
#define WINDOW_LOG 27

struct perfdata_unpacker {
	ZSTD_DStream *stream;
	size_t used;
	__u8 buffer[BUFFER];
};

int perfdata_unpacker_open(struct perfdata_unpacker **out)
{
	struct perfdata_unpacker *unpacker = malloc(sizeof(*unpacker));

	if (!unpacker)
		return -ENOMEM;
	unpacker->used = 0;
	unpacker->stream = ZSTD_createDStream();
	if (!unpacker->stream ||
	    ZSTD_isError(ZSTD_DCtx_setParameter(unpacker->stream, ZSTD_d_windowLogMax, WINDOW_LOG))) {
		perfdata_unpacker_close(unpacker);
		return -ENOMEM;
	}
	*out = unpacker;
	return 0;
}

void perfdata_unpacker_close(struct perfdata_unpacker *unpacker)
{
	if (!unpacker)
		return;
	ZSTD_freeDStream(unpacker->stream);
	free(unpacker);
}

static int hand_on(struct perfdata_unpacker *unpacker, bool big, __u64 place, perfdata_record_function *function,
		   void *context, const char **why)
{
	size_t at = 0;
	int err = 0;

	while (!err && unpacker->used - at >= 8) {
		const __u8 *header = unpacker->buffer + at;
		__u16 size = perfdata_u16(header + 6, big);
		struct perfdata_record_view record = {
			.type = perfdata_u32(header, big),
			.misc = perfdata_u16(header + 4, big),
			.body = header + 8,
			.size = size - 8u,
			.place = place,
		};

		if (size < 8) {
			*why = "holds a record without a size";
			return -EBADMSG;
		}
		if (size > unpacker->used - at)
			break;
		err = function(context, &record);
		at += size;
	}
	memmove(unpacker->buffer, unpacker->buffer + at, unpacker->used - at);
	unpacker->used -= at;
	return err;
}

int perfdata_unpack(struct perfdata_unpacker *unpacker, const __u8 *packed, size_t size, __u64 limit, bool big,
		    __u64 place, perfdata_record_function *function, void *context, __u64 *unpacked, const char **why)
{
	ZSTD_inBuffer in = {.src = packed, .size = size};
	__u64 total = 0;
	int err = 0;

	for (bool full = false; !err && (in.pos < in.size || full);) {
		ZSTD_outBuffer out = {.dst = unpacker->buffer, .size = BUFFER, .pos = unpacker->used};
		size_t result = ZSTD_decompressStream(unpacker->stream, &out, &in);

		if (ZSTD_isError(result)) {
			*why = ZSTD_getErrorName(result);
			return -EBADMSG;
		}
		total += out.pos - unpacker->used;
		*unpacked += out.pos - unpacker->used;
		if (total > limit) {
			*why = "holds more than perf puts into one";
			return -EBADMSG;
		}
		full = out.pos == out.size;
		unpacker->used = out.pos;
		err = hand_on(unpacker, big, place, function, context, why);
	}
	return err;
}

size_t perfdata_unpacker_rest(const struct perfdata_unpacker *unpacker)
{
	return unpacker ? unpacker->used : 0;
}
