// SPDX-License-Identifier: GPL-2.0-or-later
/* Whether a waiter had interrupts off, by the functions on its stack. */
#include "episodes/snapshot.h"
#include "tap.h"

#define INFER(kind, ...)                                              \
	interrupts_inferred(kind, (const char *const[]){__VA_ARGS__}, \
			    sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), &from)

static const char *from;

static void by_the_locker(void)
{
	CHECK_TEXT(INFER(KIND_SPINLOCK, "native_queued_spin_lock_slowpath", "_raw_spin_lock_irqsave", "f"), "off");
	CHECK(strstr(from, "inferred"), "%s", from);
	CHECK_TEXT(INFER(KIND_SPINLOCK, "queued_spin_lock_slowpath", "_raw_spin_lock_irq.isra.0"), "off");
	CHECK_TEXT(INFER(KIND_RWLOCK_WRITE, "queued_write_lock_slowpath", "_raw_write_lock_irq"), "off");
}

/* Who takes a lock without a word on interrupts may have them off already. */
static void not_told(void)
{
	CHECK_TEXT(INFER(KIND_SPINLOCK, "native_queued_spin_lock_slowpath", "_raw_spin_lock", "futex_wake"), "unknown");
	CHECK_TEXT(INFER(KIND_SPINLOCK, "_raw_spin_lock_bh", "tcp_sendmsg"), "unknown");
	CHECK_TEXT(INFER(KIND_SPINLOCK, "_raw_spin_lock_irqsave_nested_thing", "f"), "unknown");
	CHECK_TEXT(interrupts_inferred(KIND_SPINLOCK, NULL, 0, &from), "unknown");
	CHECK_TEXT(from, "no stack");
}

static void in_a_handler(void)
{
	CHECK_TEXT(INFER(KIND_SPINLOCK, "_raw_spin_lock", "try_to_wake_up", "hrtimer_interrupt",
			 "sysvec_apic_timer_interrupt"),
		   "off");
	CHECK_TEXT(INFER(KIND_SPINLOCK, "_raw_spin_lock", "scheduler_tick", "el1h_64_irq"), "off");
	/* A softirq runs with them on, though it may run at the end of an interrupt. */
	CHECK_TEXT(INFER(KIND_SPINLOCK, "_raw_spin_lock", "net_rx_action", "handle_softirqs", "irq_exit_rcu",
			 "sysvec_apic_timer_interrupt"),
		   "unknown");
}

static void sleeping_locks(void)
{
	CHECK_TEXT(INFER(KIND_MUTEX, "__mutex_lock", "f"), "on");
	CHECK_TEXT(INFER(KIND_RTMUTEX, "rtlock_slowlock_locked", "f"), "on");
	CHECK_TEXT(INFER(KIND_SEMAPHORE, "__down", "f"), "on");
	CHECK_TEXT(INFER(KIND_UNKNOWN, "f"), "unknown");
	CHECK_TEXT(INFER(KIND_RQSPINLOCK, "resilient_queued_spin_lock_slowpath"), "unknown");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(by_the_locker),
		TEST(not_told),
		TEST(in_a_handler),
		TEST(sleeping_locks),
	};

	return RUN_TESTS(tests);
}
