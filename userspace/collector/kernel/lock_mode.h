/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which spinlock slow path this kernel runs, told from outside: it decides
 * which waiters pass a tracepoint.  The kernel log would say it, but it is
 * overwritten on a machine that is up for long; the inputs of the kernel's own
 * decision at boot stay.
 */
#ifndef LOCKLINE_LOCK_MODE_H
#define LOCKLINE_LOCK_MODE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

enum spinlock_mode { SPINLOCK_UNKNOWN, SPINLOCK_NATIVE, SPINLOCK_PARAVIRT, SPINLOCK_TEST_AND_SET, SPINLOCK_RT_NATIVE };

/* Bytes of a reason, or of another text of the plan. */
#define PLAN_TEXT 384

enum hypervisor {
	HYPERVISOR_NONE,
	HYPERVISOR_KVM,
	HYPERVISOR_XEN,
	HYPERVISOR_HYPERV,
	HYPERVISOR_OTHER, /* VMware, emulation, ...: no paravirt locks in Linux */
};

struct lock_mode_evidence {
	bool x86;    /* else an architecture whose spinlocks have one form, as arm64's */
	bool queued; /* x86-64 and arm64 have queued spinlocks */
	bool realtime;
	unsigned int possible_cpus;
	unsigned int major, minor; /* of the kernel; 0.0 if not known */
	enum hypervisor hypervisor;
	bool functions_known;    /* symbols or BTF could be read: the four below mean something */
	bool paravirt;           /* CONFIG_PARAVIRT: else a guest is as bare metal */
	bool paravirt_spinlocks; /* CONFIG_PARAVIRT_SPINLOCKS */
	bool hypervisor_locks;   /* the hypervisor's own part of them is built in */
	bool nopvspin;           /* on the kernel's command line, in any of its spellings */
	bool kvm_pv_unhalt;      /* CPUID 0x40000001, eax bit 7 */
	bool kvm_realtime;       /* CPUID 0x40000001, edx bit 0 */
	bool hyperv_idle;        /* CPUID: cluster IPIs recommended, guest idle state available */
};

bool kernel_before(const struct lock_mode_evidence *evidence, unsigned int major, unsigned int minor);

/* The reason names the evidence. */
enum spinlock_mode lock_mode_decide(const struct lock_mode_evidence *evidence, char reason[PLAN_TEXT]);

/* What CPUID says of the hypervisor; HYPERVISOR_NONE and "" but on x86.  signature: 12 characters and a 0. */
void lock_mode_cpuid(struct lock_mode_evidence *evidence, char signature[13]);

#endif /* LOCKLINE_LOCK_MODE_H */
