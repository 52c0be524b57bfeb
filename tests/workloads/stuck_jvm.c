// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A libjvm.so whose tables are wherever the program says: stuck_memory has them on a page that never comes.  The names
 * are those that HotSpot exports.
 */
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#define TABLE(name)         const void *name = &name
#define NUMBER(name, value) unsigned long name = value

TABLE(gHotSpotVMStructs);
TABLE(gHotSpotVMTypes);
TABLE(gHotSpotVMIntConstants);
NUMBER(gHotSpotVMStructEntryArrayStride, 48);
NUMBER(gHotSpotVMStructEntryTypeNameOffset, 0);
NUMBER(gHotSpotVMStructEntryFieldNameOffset, 8);
NUMBER(gHotSpotVMStructEntryOffsetOffset, 32);
NUMBER(gHotSpotVMStructEntryAddressOffset, 40);
NUMBER(gHotSpotVMTypeEntryArrayStride, 40);
NUMBER(gHotSpotVMTypeEntryTypeNameOffset, 0);
NUMBER(gHotSpotVMTypeEntrySizeOffset, 32);
NUMBER(gHotSpotVMIntConstantEntryArrayStride, 16);
NUMBER(gHotSpotVMIntConstantEntryNameOffset, 0);
NUMBER(gHotSpotVMIntConstantEntryValueOffset, 8);

/* Called by code that lies in no file. */
void Unsafe_Park(unsigned int *word)
{
	const struct timespec time = {.tv_nsec = 5000000};

	syscall(SYS_futex, word, FUTEX_WAIT, 0, &time);
}
