// SPDX-License-Identifier: GPL-2.0-or-later
/* The rings of relief records, as --episodes writes them. */
#include "wait_test.h"

#include <string.h>
#include <unistd.h>

void context_records_tell_who_and_when(struct bench *bench)
{
	const struct context_record *first = &bench->contexts[0], *second = &bench->contexts[1];

	run_context(bench, CONTEXT_SOFTIRQ_ENTRY, 7, false);
	run_context(bench, CONTEXT_WAKEUP, 3, true);
	CHECK_EQUAL(bench->context_state->records, 2);
	CHECK_EQUAL(first->sequence, 1);
	CHECK_EQUAL(first->type, CONTEXT_SOFTIRQ_ENTRY);
	CHECK_EQUAL(first->value, 7);
	CHECK_EQUAL(first->tid, gettid());
	CHECK_EQUAL(first->other_tid, 0);
	CHECK(!strcmp(first->comm, "wait_test"), "%.16s", first->comm);
	CHECK_EQUAL(first->name[0], 0);
	CHECK_EQUAL(second->sequence, 2);
	CHECK_EQUAL(second->time_ns - first->time_ns, 1000);
	CHECK_EQUAL(second->value, 3);
	CHECK_EQUAL(second->other_tid, gettid());
	CHECK(!strcmp(second->name, "wait_test"), "%.16s", second->name);
}

void context_overwrites_the_oldest(struct bench *bench)
{
	for (int i = 0; i < TEST_CONTEXT + 5; i++)
		run_context(bench, i % 2 ? CONTEXT_SWITCH : CONTEXT_IPI_SENT, i, i % 2);
	CHECK_EQUAL(bench->context_state->records, TEST_CONTEXT + 5);
	for (int i = 0; i < TEST_CONTEXT; i++) {
		__u64 position = i < 5 ? TEST_CONTEXT + i : i;

		CHECK_EQUAL(bench->contexts[i].sequence, position + 1);
		CHECK_EQUAL(bench->contexts[i].value, position);
		/* Nothing is left of the record that was there before. */
		CHECK_EQUAL(bench->contexts[i].other_tid, position % 2 ? gettid() : 0);
		CHECK_EQUAL(!bench->contexts[i].name[0], !(position % 2));
	}
}

void context_of_ipis_to_several(struct bench *bench)
{
	run_ipis(bench, 0);
	CHECK_EQUAL(bench->context_state->records, 0);
	run_ipis(bench, 1);
	CHECK_EQUAL(bench->context_state->records, 1);
	CHECK_EQUAL(bench->contexts[0].type, CONTEXT_IPIS_SENT);
	CHECK_EQUAL(bench->contexts[0].sequence, 1);
	CHECK_EQUAL(bench->contexts[0].tid, gettid());
	for (int i = 0; i < (int)sizeof(bench->contexts[0].name); i++)
		CHECK_EQUAL(bench->contexts[0].name[i], 0);
	run_ipis(bench, 2);
	CHECK(!strcmp(bench->contexts[1].name, "wait_test"), "%.16s", bench->contexts[1].name);
}

/* The running kernel's mask is of 256 CPUs at least. */
void context_of_ipis_to_many(struct bench *bench)
{
	__u64 *mask = bench->skeleton->bss->ipi_mask;

	mask[0] = 5;
	mask[2] = 9;     /* CPUs 128 and 131 */
	mask[4] = ~0ull; /* CPUs that are not possible */
	run_ipis(bench, 3);
	CHECK_EQUAL(bench->contexts[0].value, 0);
	CHECK(!memcmp(bench->contexts[0].name, (__u64[]){5, 0}, 16), "the first of them");
	CHECK_EQUAL(bench->context_state->records, 2);
	CHECK_EQUAL(bench->contexts[1].type, CONTEXT_IPIS_SENT);
	CHECK_EQUAL(bench->contexts[1].value, IPI_CPUS);
	CHECK_EQUAL(bench->contexts[1].sequence, 2);
	CHECK(!memcmp(bench->contexts[1].name, (__u64[]){9, 0}, 16), "those beyond");
	/* Beyond the first record an empty part of a mask has none. */
	mask[2] = 0;
	run_ipis(bench, 3);
	CHECK_EQUAL(bench->context_state->records, 3);
}

void shallow_slices_have_no_context(struct bench *bench)
{
	bench->state->flags |= STATE_SHALLOW;
	run_context(bench, CONTEXT_SWITCH, 0, true);
	run_ipis(bench, 2);
	CHECK_EQUAL(bench->context_state->records, 0);
}

/* What relieves a wait may come from a CPU that -C leaves out. */
void context_is_recorded_on_every_cpu(struct bench *bench)
{
	bench->state->begin_kinds = 0;
	run_context(bench, CONTEXT_WAIT_TASK, 0, true);
	CHECK_EQUAL(bench->context_state->records, 1);
}

void context_keeps_to_its_ring(struct bench *bench)
{
	run_context(bench, CONTEXT_SWITCH, 0, true);
	run_wait(bench, LOCK(1), KIND_SPINLOCK, 5000);
	CHECK_EQUAL(bench->context_state->records, 1);
	CHECK_EQUAL(waits_of_all(bench), 1);
	CHECK_EQUAL(bench->releases->holdings, 0);
}
