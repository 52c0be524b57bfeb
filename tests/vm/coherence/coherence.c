// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A qemu plugin that follows each cache line of an emulated guest: which vCPU left it modified, which have a copy.
 * So it knows of every access whether it found the line in its own cache, in another's, or in none.
 *
 *	qemu-system-x86_64 -accel tcg,thread=multi -plugin build/vm/coherence.so,out=FILE[,OPTION=VALUE...]
 *
 *	out=FILE	the table of all accesses, by phase, address, instruction and vCPU; written when the guest ends
 *	low=, high=	only accesses to these virtual addresses (hexadecimal, high is the first beyond)
 *	rows=N		rows of the table for each vCPU (1048576); accesses that find none are counted as lost
 *	memory=MIB	physical memory whose lines are followed (1024)
 *	marks=off	count from the beginning, as phase 1, not between marks
 *
 * Marks: a program in the guest maps a page at MARKS (tests/workloads/marks.h) and writes to the Nth byte of it: then
 * phase N begins with nothing known of any line; with N = 0 it ends.
 *
 * The caches are perfect ones: a line stays until another vCPU takes it.  Lines are distinguished by physical
 * address, since one has several virtual ones (the kernel's own mapping of a page and the user's); the
 * table has the virtual address, by which perf and people know them.
 *
 * With a thread for each vCPU, accesses to one line that race with one another may be followed in another
 * order than the guest saw; what the guest itself orders (a lock, a turn) is followed in that order, as
 * a vCPU's call comes before its next access.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "qemu_plugin.h"
#include "../../workloads/marks.h"

#define LINE_SHIFT   6
#define LINE_SIZE    (1u << LINE_SHIFT)
#define MOST_VCPUS   31
#define MODIFIED     (1u << MOST_VCPUS)
#define DEFAULT_ROWS (1u << 20)
#define MEBIBYTE     (1ull << 20)

/* What an access found: in its own cache; modified in another's; clean in others'; nowhere but in memory. */
enum found { OWN, MODIFIED_ELSEWHERE, CLEAN_ELSEWHERE, NOWHERE, FOUND_KINDS };

struct row {
	uint64_t address;
	uint64_t instruction;
	uint64_t line;  /* physical address / 64 */
	uint32_t phase; /* 0: a free row */
	uint32_t loads[FOUND_KINDS];
	uint32_t stores[FOUND_KINDS];
	uint32_t atomics; /* loads and stores that were one access: with a lock prefix, xchg */
};

/* Each is written by its vCPU's thread alone, and read when all have stopped. */
static struct vcpu {
	struct row *rows;
	struct row no_row; /* stands in where none was free */
	uint64_t used;
	uint64_t followed;
	uint64_t lost;     /* no row was free */
	uint64_t io;       /* no line: memory of a device */
	uint64_t outside;  /* of the memory that is followed */
	uint64_t unplaced; /* the emulator did not tell the physical address */
} vcpus[MOST_VCPUS];

/* Of each line MODIFIED, and a bit for each vCPU that has it. */
static _Atomic uint32_t *lines;
static uint64_t line_count;
static uint64_t rows_of_vcpu = DEFAULT_ROWS;
static uint64_t low, high = UINT64_MAX;
static _Atomic uint32_t phase;
static bool no_marks;
static const char *path;

EXPORTED int qemu_plugin_version;

__attribute__((constructor)) static void choose_version(void)
{
	qemu_plugin_version = qemu_plugin_num_vcpus ? 2 : 1;
}

static void complain(const char *format, ...)
{
	va_list arguments;

	fputs("coherence: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

/* Zeroes that take memory only where they are written. */
static void *map_zeroes(uint64_t bytes)
{
	void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return area == MAP_FAILED ? NULL : area;
}

static enum found follow_load(uint64_t line, uint32_t self)
{
	uint32_t state = atomic_load(&lines[line]);

	for (;;) {
		if (state & self)
			return OWN;
		if (atomic_compare_exchange_weak(&lines[line], &state, (state & ~MODIFIED) | self))
			return !state ? NOWHERE : state & MODIFIED ? MODIFIED_ELSEWHERE : CLEAN_ELSEWHERE;
	}
}

static enum found follow_store(uint64_t line, uint32_t self)
{
	uint32_t state = atomic_exchange(&lines[line], MODIFIED | self);

	if (state & ~(MODIFIED | self))
		return state & MODIFIED ? MODIFIED_ELSEWHERE : CLEAN_ELSEWHERE;
	return state & self ? OWN : NOWHERE;
}

static uint64_t hash(uint64_t address, uint64_t instruction, uint64_t line, uint32_t phase)
{
	uint64_t mixed = address * 0x9e3779b97f4a7c15ull ^ instruction * 0xc2b2ae3d27d4eb4full ^ line ^ phase;

	return (mixed ^ mixed >> 32) * 0x9e3779b97f4a7c15ull >> 20;
}

/* NULL if there is none and the table is full. */
static struct row *find_row(struct vcpu *vcpu, uint64_t address, uint64_t instruction, uint64_t line, uint32_t phase)
{
	uint64_t at = hash(address, instruction, line, phase);
	struct row *row;

	if (!vcpu->rows)
		return NULL;
	for (;; at++) {
		row = &vcpu->rows[at & (rows_of_vcpu - 1)];
		if (!row->phase)
			break;
		if (row->address == address && row->instruction == instruction && row->line == line &&
		    row->phase == phase)
			return row;
	}
	if (vcpu->used >= rows_of_vcpu / 8 * 7)
		return NULL;
	vcpu->used++;
	row->address = address;
	row->instruction = instruction;
	row->line = line;
	row->phase = phase;
	return row;
}

/* The part of an access that lies in one line. */
static void follow(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, uint64_t instruction,
		   uint32_t in_phase)
{
	struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(info, address);
	enum qemu_plugin_mem_rw rw = info >> 16 & QEMU_PLUGIN_MEM_RW;
	struct vcpu *vcpu = &vcpus[index];
	uint32_t self = 1u << index;
	struct row *row;
	uint64_t line;

	if (!place) {
		vcpu->unplaced++;
		return;
	}
	if (qemu_plugin_hwaddr_is_io(place)) {
		vcpu->io++;
		return;
	}
	line = qemu_plugin_hwaddr_phys_addr(place) >> LINE_SHIFT;
	if (line >= line_count) {
		vcpu->outside++;
		return;
	}
	vcpu->followed++;
	row = find_row(vcpu, address, instruction, line, in_phase);
	if (!row) {
		vcpu->lost++;
		row = &vcpu->no_row;
	}
	/* Of an atomic access there is one call: the interface tells a store, and the word itself both. */
	if (rw == QEMU_PLUGIN_MEM_RW)
		row->atomics++;
	if (rw == QEMU_PLUGIN_MEM_RW || !qemu_plugin_mem_is_store(info))
		row->loads[follow_load(line, self)]++;
	if (qemu_plugin_mem_is_store(info))
		row->stores[follow_store(line, self)]++;
}

static void mark(uint64_t number)
{
	if (number > MOST_PHASES)
		return;
	/* Private and anonymous: what is given back reads as zeroes. */
	if (number && madvise((void *)lines, line_count * sizeof(*lines), MADV_DONTNEED))
		complain("cannot forget the lines: %s", strerror(errno));
	atomic_store(&phase, number);
}

static void on_access(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	uint32_t in_phase = atomic_load_explicit(&phase, memory_order_relaxed);
	uint64_t last;

	if (address - MARKS < MARKS_SIZE) {
		if (!no_marks && qemu_plugin_mem_is_store(info))
			mark(address - MARKS);
		return;
	}
	if (!in_phase || address < low || address >= high || index >= MOST_VCPUS)
		return;
	follow(index, info, address, (uintptr_t)data, in_phase);
	last = address + (1ull << qemu_plugin_mem_size_shift(info)) - 1;
	if (last >> LINE_SHIFT != address >> LINE_SHIFT)
		follow(index, info, last & -(uint64_t)LINE_SIZE, (uintptr_t)data, in_phase);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	size_t count = qemu_plugin_tb_n_insns(block);
	struct qemu_plugin_insn *instruction;

	(void)id;
	for (size_t i = 0; i < count; i++) {
		instruction = qemu_plugin_tb_get_insn(block, i);
		qemu_plugin_register_vcpu_mem_cb(instruction, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
						 (void *)(uintptr_t)qemu_plugin_insn_vaddr(instruction));
	}
}

static void write_vcpu(FILE *out, unsigned int index)
{
	const struct vcpu *vcpu = &vcpus[index];

	fprintf(out, "vcpu\t%u\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", index,
		vcpu->followed, vcpu->lost, vcpu->io, vcpu->outside, vcpu->unplaced);
	for (const struct row *row = vcpu->rows; row && row < vcpu->rows + rows_of_vcpu; row++) {
		if (!row->phase)
			continue;
		fprintf(out, "row\t%" PRIu32 "\t%u\t%" PRIx64 "\t%" PRIx64 "\t%" PRIx64, row->phase, index,
			row->address, row->line << LINE_SHIFT | row->address % LINE_SIZE, row->instruction);
		for (int i = 0; i < FOUND_KINDS; i++)
			fprintf(out, "\t%" PRIu32, row->loads[i]);
		for (int i = 0; i < FOUND_KINDS; i++)
			fprintf(out, "\t%" PRIu32, row->stores[i]);
		fprintf(out, "\t%" PRIu32 "\n", row->atomics);
	}
}

static void on_exit_of_guest(qemu_plugin_id_t id, void *data)
{
	FILE *out = fopen(path, "we");
	bool failed;

	(void)id;
	(void)data;
	if (!out) {
		complain("%s: %s", path, strerror(errno));
		return;
	}
	fputs("coherence\t1\n", out);
	for (unsigned int i = 0; i < MOST_VCPUS; i++)
		if (vcpus[i].followed || vcpus[i].unplaced)
			write_vcpu(out, i);
	fputs("end\n", out);
	failed = ferror(out);
	if (fclose(out) || failed)
		complain("%s: cannot be written", path);
}

/* False with a message if it is none of ours. */
static bool parse_option(const char *argument)
{
	const char *equals = strchr(argument, '=');
	uint64_t number;
	char *end;

	if (!equals) {
		complain("%s: no value", argument);
		return false;
	}
	if (!strncmp(argument, "out=", 4)) {
		path = equals + 1;
		return true;
	}
	if (!strcmp(argument, "marks=off")) {
		no_marks = true;
		return true;
	}
	errno = 0;
	number = strtoull(equals + 1, &end, argument[0] == 'l' || argument[0] == 'h' ? 16 : 10);
	if (errno || *end || end == equals + 1) {
		complain("%s: not a number", argument);
		return false;
	}
	if (!strncmp(argument, "low=", 4)) {
		low = number;
	} else if (!strncmp(argument, "high=", 5)) {
		high = number;
	} else if (!strncmp(argument, "rows=", 5) && number >= 8 && number <= 1u << 30) {
		for (rows_of_vcpu = 8; rows_of_vcpu < number;)
			rows_of_vcpu *= 2;
	} else if (!strncmp(argument, "memory=", 7) && number && number < 1u << 20) {
		line_count = number * MEBIBYTE / LINE_SIZE;
	} else {
		complain("%s: not known, or out of range", argument);
		return false;
	}
	return true;
}

EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	line_count = 1024 * MEBIBYTE / LINE_SIZE;
	for (int i = 0; i < argc; i++)
		if (!parse_option(argv[i]))
			return -1;
	if (!path) {
		complain("out=FILE is missing");
		return -1;
	}
	lines = map_zeroes(line_count * sizeof(*lines));
	for (int i = 0; i < MOST_VCPUS; i++)
		vcpus[i].rows = map_zeroes(rows_of_vcpu * sizeof(*vcpus[i].rows));
	if (!lines || !vcpus[0].rows) {
		complain("no memory: %s", strerror(errno));
		return -1;
	}
	if (no_marks)
		atomic_store(&phase, 1);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_guest, NULL);
	return 0;
}
