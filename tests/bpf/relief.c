// SPDX-License-Identifier: GPL-2.0-or-later
/* The rings of relief records, as --episodes writes them. */
#include "wait_test.h"

#include <string.h>
#include <unistd.h>

void relief_records_tell_who_and_when(struct bench *bench)
{
	const struct relief_record *first = &bench->reliefs[0], *second = &bench->reliefs[1];

	run_relief(bench, RELIEF_SOFTIRQ_ENTRY, 7, false);
	run_relief(bench, RELIEF_WAKEUP, 3, true);
	CHECK_EQUAL(bench->relief_state->records, 2);
	CHECK_EQUAL(first->sequence, 1);
	CHECK_EQUAL(first->type, RELIEF_SOFTIRQ_ENTRY);
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

void relief_overwrites_the_oldest(struct bench *bench)
{
	for (int i = 0; i < TEST_RELIEF + 5; i++)
		run_relief(bench, i % 2 ? RELIEF_SWITCH : RELIEF_IPI_SENT, i, i % 2);
	CHECK_EQUAL(bench->relief_state->records, TEST_RELIEF + 5);
	for (int i = 0; i < TEST_RELIEF; i++) {
		__u64 position = i < 5 ? TEST_RELIEF + i : i;

		CHECK_EQUAL(bench->reliefs[i].sequence, position + 1);
		CHECK_EQUAL(bench->reliefs[i].value, position);
		/* Nothing is left of the record that was there before. */
		CHECK_EQUAL(bench->reliefs[i].other_tid, position % 2 ? gettid() : 0);
		CHECK_EQUAL(!bench->reliefs[i].name[0], !(position % 2));
	}
}

void relief_of_ipis_to_several(struct bench *bench)
{
	run_ipis(bench, 0);
	CHECK_EQUAL(bench->relief_state->records, 0);
	run_ipis(bench, 1);
	CHECK_EQUAL(bench->relief_state->records, 1);
	CHECK_EQUAL(bench->reliefs[0].type, RELIEF_IPIS_SENT);
	CHECK_EQUAL(bench->reliefs[0].sequence, 1);
	CHECK_EQUAL(bench->reliefs[0].tid, gettid());
	for (int i = 0; i < (int)sizeof(bench->reliefs[0].name); i++)
		CHECK_EQUAL(bench->reliefs[0].name[i], 0);
	run_ipis(bench, 2);
	CHECK(!strcmp(bench->reliefs[1].name, "wait_test"), "%.16s", bench->reliefs[1].name);
}

/* What relieves a wait may come from a CPU that -C leaves out. */
void relief_is_recorded_on_every_cpu(struct bench *bench)
{
	bench->state->begin_kinds = 0;
	run_relief(bench, RELIEF_WAIT_TASK, 0, true);
	CHECK_EQUAL(bench->relief_state->records, 1);
}

void relief_keeps_to_its_ring(struct bench *bench)
{
	run_relief(bench, RELIEF_SWITCH, 0, true);
	run_wait(bench, LOCK(1), KIND_SPINLOCK, 5000);
	CHECK_EQUAL(bench->relief_state->records, 1);
	CHECK_EQUAL(waits_of_all(bench), 1);
	CHECK_EQUAL(bench->releases->turns, 0);
}
