// SPDX-License-Identifier: GPL-2.0-or-later
/* Which programs are loaded: a program can stand in several choices. */
#include "probes/probes.h"
#include "tap.h"

static void any_choice_loads_a_program(void)
{
	struct bpf_program *one = (void *)1, *other = (void *)2, *third = (void *)3;
	const struct choice choices[] = {
		{one, true, SIGNAL_SPINLOCK_HOLDERS, "_raw_spin_unlock"},
		{one, true, SIGNAL_SPINLOCK_HOLDERS, "_raw_spin_unlock_irqrestore"},
		{one, false, SIGNAL_SPINLOCK_HOLDERS, "_raw_spin_unlock_bh"}, /* not in this kernel */
		{other, false, SIGNAL_LOCK_WAITS, NULL},
		{third, false, SIGNAL_LOCK_WAITS, NULL},
		{third, true, SIGNAL_LOCK_WAITS, NULL},
	};

	CHECK(program_wanted(choices, 6, one), "the last of its choices is not the only one");
	CHECK(!program_wanted(choices, 6, other), "no choice wants it");
	CHECK(program_wanted(choices, 6, third), "the last wants it");
	CHECK(!program_wanted(choices, 5, third), "none of the first five does");
}

int main(void)
{
	static const struct test tests[] = {TEST(any_choice_loads_a_program)};

	return RUN_TESTS(tests);
}
