// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "perfdata/perfdata_changes.h"

#define MAP_SHARED_FLAG  0x01
#define MAP_HUGETLB_FLAG 0x40000
#define VDSO             "[vdso]"

static int apply_mmap(struct memory_tasks *tasks, const struct perfdata_record_view *record, bool big)
{
	struct perfdata_bytes bytes = {.at = record->body, .end = record->body + record->size, .big = big};
	__u8 mode = record->misc & MISC_CPUMODE;
	struct memory_file_id file = {};
	struct memory_mmap mmap = {};
	const __u8 *id = NULL;
	__u64 length;
	__u32 flags = 0;

	mmap.pid = perfdata_take_u32(&bytes);
	perfdata_take_u32(&bytes);
	mmap.mapping.start = perfdata_take_u64(&bytes);
	length = perfdata_take_u64(&bytes);
	mmap.mapping.offset = perfdata_take_u64(&bytes);
	if (record->type == RECORD_MMAP2) {
		id = perfdata_take(&bytes, 24);
		perfdata_take(&bytes, 4);
		flags = perfdata_take_u32(&bytes);
	}
	if (bytes.cut || !perfdata_left(&bytes))
		return -EBADMSG;
	if (id) {
		file.major = perfdata_u32(id, big);
		file.minor = perfdata_u32(id + 4, big);
		file.inode = perfdata_u64(id + 8, big);
		file.generation = perfdata_u64(id + 16, big);
		mmap.file = &file;
	}
	if (id && record->misc & MISC_MMAP_BUILD_ID) {
		mmap.build_id = id + 4;
		mmap.build_id_size = id[0];
	}
	mmap.kernel = mode == CPUMODE_KERNEL;
	/* Mappings of guests are not of this machine's processes. */
	if (mode == CPUMODE_GUEST_KERNEL || mode == CPUMODE_GUEST_USER)
		return 0;
	mmap.mapping.end = length > ~0ull - mmap.mapping.start ? ~0ull : mmap.mapping.start + length;
	mmap.mapping.shared = flags & MAP_SHARED_FLAG;
	mmap.name = (const char *)bytes.at;
	mmap.name_length = strnlen(mmap.name, perfdata_left(&bytes));
	if (flags & MAP_HUGETLB_FLAG)
		mmap.anonymous = true;
	if (mmap.name_length == strlen(VDSO) && !memcmp(mmap.name, VDSO, mmap.name_length))
		mmap.mapping.offset = 0;
	return memory_tasks_mmap(tasks, &mmap);
}

static int apply_comm(struct memory_tasks *tasks, const struct perfdata_record_view *record, bool big)
{
	struct perfdata_bytes bytes = {.at = record->body, .end = record->body + record->size, .big = big};
	__u32 pid = perfdata_take_u32(&bytes), tid = perfdata_take_u32(&bytes);

	if (bytes.cut)
		return -EBADMSG;
	return memory_tasks_comm(tasks, pid, tid, (const char *)bytes.at, perfdata_left(&bytes),
				 record->misc & MISC_COMM_EXEC);
}

static int apply_task(struct memory_tasks *tasks, const struct perfdata_record_view *record, bool big)
{
	struct perfdata_bytes bytes = {.at = record->body, .end = record->body + record->size, .big = big};
	__u32 pid = perfdata_take_u32(&bytes), parent_pid = perfdata_take_u32(&bytes);
	__u32 tid = perfdata_take_u32(&bytes), parent_tid = perfdata_take_u32(&bytes);

	if (bytes.cut)
		return -EBADMSG;
	if (record->type == RECORD_EXIT)
		return memory_tasks_exit(tasks, pid, tid);
	return memory_tasks_fork(tasks, pid, tid, parent_pid, parent_tid, record->misc & MISC_FORK_EXEC);
}

int perfdata_apply_change(struct memory_tasks *tasks, const struct perfdata_record_view *record, bool big)
{
	switch (record->type) {
	case RECORD_MMAP:
	case RECORD_MMAP2:
		return apply_mmap(tasks, record, big);
	case RECORD_COMM:
		return apply_comm(tasks, record, big);
	case RECORD_FORK:
	case RECORD_EXIT:
		return apply_task(tasks, record, big);
	}
	return 0;
}
