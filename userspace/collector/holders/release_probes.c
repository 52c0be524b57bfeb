// SPDX-License-Identifier: GPL-2.0-or-later
/* The programs of --holders and --holds: which function each of them probes. */
#include <string.h>

#include <bpf/libbpf.h>

#include "lockline.skel.h"
#include "cli/message.h"
#include "holders/release_probes.h"

static enum signal signal_of(enum release_function function)
{
	__u32 bit = 1u << function;

	return bit & SPIN_LOCKS         ? SIGNAL_HOLD_TIMES
	       : bit & SLEEPING_UNLOCKS ? SIGNAL_SLEEPING_HOLDERS
					: SIGNAL_SPINLOCK_HOLDERS;
}

int release_choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count)
{
	struct bpf_program *const programs[RELEASE_FUNCTIONS] = {
		[UNLOCK_SPIN] = bpf->progs.spin_unlock,
		[UNLOCK_SPIN_IRQRESTORE] = bpf->progs.spin_unlock_irqrestore,
		[UNLOCK_SPIN_IRQ] = bpf->progs.spin_unlock_irq,
		[UNLOCK_SPIN_BH] = bpf->progs.spin_unlock_bh,
		[UNLOCK_READ] = bpf->progs.read_unlock,
		[UNLOCK_READ_IRQRESTORE] = bpf->progs.read_unlock_irqrestore,
		[UNLOCK_READ_IRQ] = bpf->progs.read_unlock_irq,
		[UNLOCK_READ_BH] = bpf->progs.read_unlock_bh,
		[UNLOCK_WRITE] = bpf->progs.write_unlock,
		[UNLOCK_WRITE_IRQRESTORE] = bpf->progs.write_unlock_irqrestore,
		[UNLOCK_WRITE_IRQ] = bpf->progs.write_unlock_irq,
		[UNLOCK_WRITE_BH] = bpf->progs.write_unlock_bh,
		[UNLOCK_MUTEX] = bpf->progs.mutex_unlocks,
		[UNLOCK_RWSEM_WRITE] = bpf->progs.rwsem_write_unlock,
		[UNLOCK_RWSEM_READ] = bpf->progs.rwsem_read_unlock,
		[UNLOCK_RT_SPIN] = bpf->progs.rt_spin_unlocks,
		[LOCK_SPIN] = bpf->progs.spin_lock,
		[LOCK_SPIN_IRQSAVE] = bpf->progs.spin_lock_irqsave,
		[LOCK_SPIN_IRQ] = bpf->progs.spin_lock_irq,
		[LOCK_SPIN_BH] = bpf->progs.spin_lock_bh,
		[LOCK_SPIN_TRY] = bpf->progs.spin_trylock,
	};

	/* Unlocks before locks: a hold whose release was not seen would be one without an end. */
	for (int i = 0; i < RELEASE_FUNCTIONS; i++)
		choices[count++] = (struct choice){
			programs[i],
			plan->release_functions >> i & 1 && !(plan->release_kprobe && SPIN_UNLOCKS >> i & 1),
			signal_of(i),
			NULL,
		};
	for (int i = UNLOCK_SPIN; i <= UNLOCK_SPIN_BH; i++)
		choices[count++] = (struct choice){
			bpf->progs.spin_kprobe_unlock,
			plan->release_kprobe && plan->release_functions >> i & 1,
			signal_of(i),
			release_function_names[i],
		};
	choices[count++] =
		(struct choice){bpf->progs.contended_release, plan->contended_release, SIGNAL_SLEEPING_HOLDERS, NULL};
	return count;
}

int release_cost(const struct probes *probes, struct probe_cost *cost)
{
	return probe_cost_measure(
		probes, 1ull << SIGNAL_SPINLOCK_HOLDERS | 1ull << SIGNAL_SLEEPING_HOLDERS | 1ull << SIGNAL_HOLD_TIMES,
		cost);
}

void release_cost_tell(const struct probe_cost *cost, int err, const struct plan *plan, bool holds, long cpus)
{
	const char *option = holds ? "--holds" : "--holders";
	const char *what = holds ? "locks and unlocks" : plan->release_functions ? "unlocks" : "contended releases";
	double seconds = cost->window_ns / 1e9;

	if (err)
		message("%s probes %s; what that costs cannot be measured: %s", option, what, strerror(-err));
	else if (!cost->runs)
		message("%s: nothing ran the probes of %s in %.0f ms", option, what, cost->window_ns / 1e6);
	else
		message("%s: %.0f %s a second, %.0f ns each in the probe: %.1f %% of the time of %ld CPUs, and about "
			"as much again to enter and leave the probes",
			option, cost->runs / seconds, what, (double)cost->run_ns / cost->runs,
			100.0 * cost->run_ns / (cost->window_ns * (double)cpus), cpus);
}
