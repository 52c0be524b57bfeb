// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "kernel/lock_mode.h"

bool kernel_before(const struct lock_mode_evidence *evidence, unsigned int major, unsigned int minor)
{
	return evidence->major < major || (evidence->major == major && evidence->minor < minor);
}

static enum spinlock_mode because(char reason[PLAN_TEXT], enum spinlock_mode mode, const char *why)
{
	snprintf(reason, PLAN_TEXT, "%s", why);
	return mode;
}

/* arch/x86/kernel/kvm.c, kvm_spinlock_init() */
static enum spinlock_mode decide_kvm(const struct lock_mode_evidence *evidence, char reason[PLAN_TEXT])
{
	bool unwanted = evidence->kvm_realtime || evidence->nopvspin;

	if (evidence->possible_cpus == 1)
		return because(reason, SPINLOCK_NATIVE, "KVM guest with one possible CPU");
	if (!evidence->kvm_pv_unhalt && !unwanted)
		return because(reason, SPINLOCK_TEST_AND_SET,
			       "KVM guest, and the host offers no PV_UNHALT (CPUID 0x40000001)");
	/* Asked before PV_UNHALT since 6.18, after it till then; stable kernels took the change too. */
	if (!evidence->kvm_pv_unhalt && kernel_before(evidence, 6, 18))
		return because(reason, SPINLOCK_UNKNOWN,
			       "KVM guest without PV_UNHALT, with the realtime hint or nopvspin: native or "
			       "test-and-set by the kernel's patch level");
	if (evidence->kvm_realtime)
		return because(reason, SPINLOCK_NATIVE,
			       "KVM guest with the realtime hint (CPUID 0x40000001: dedicated CPUs)");
	if (evidence->nopvspin)
		return because(reason, SPINLOCK_NATIVE, "KVM guest, nopvspin on the kernel's command line");
	return because(reason, SPINLOCK_PARAVIRT, "KVM guest with PV_UNHALT (CPUID 0x40000001), no realtime hint");
}

/* arch/x86/xen/spinlock.c, xen_init_spinlocks() */
static enum spinlock_mode decide_xen(const struct lock_mode_evidence *evidence, char reason[PLAN_TEXT])
{
	if (evidence->possible_cpus == 1 || evidence->nopvspin)
		return because(reason, SPINLOCK_NATIVE, "Xen guest with one possible CPU or nopvspin");
	return because(reason, SPINLOCK_PARAVIRT, "Xen guest, paravirtual spinlocks not switched off");
}

/* arch/x86/hyperv/hv_spinlock.c, hv_init_spinlocks(): refused means test-and-set, whatever the reason */
static enum spinlock_mode decide_hyperv(const struct lock_mode_evidence *evidence, char reason[PLAN_TEXT])
{
	if (evidence->nopvspin)
		return because(reason, SPINLOCK_TEST_AND_SET,
			       "Hyper-V guest, hv_nopvspin on the kernel's command line");
	if (!evidence->hyperv_idle)
		return because(reason, SPINLOCK_TEST_AND_SET,
			       "Hyper-V guest, and the host does not offer the guest idle state");
	return because(reason, SPINLOCK_PARAVIRT, "Hyper-V guest with the guest idle state");
}

static enum spinlock_mode decide_x86(const struct lock_mode_evidence *evidence, char reason[PLAN_TEXT])
{
	if (evidence->hypervisor == HYPERVISOR_NONE) {
		/* Only the guest's key was switched off on bare metal, and only with paravirtual spinlocks built in. */
		if (evidence->functions_known && evidence->paravirt && !evidence->paravirt_spinlocks &&
		    kernel_before(evidence, 6, 11))
			return because(
				reason, SPINLOCK_UNKNOWN,
				"bare metal with CONFIG_PARAVIRT and without CONFIG_PARAVIRT_SPINLOCKS: before 6.11 "
				"test-and-set unless the fix was taken");
		return because(reason, SPINLOCK_NATIVE, "no hypervisor (CPUID)");
	}
	if (!evidence->functions_known)
		return because(reason, SPINLOCK_UNKNOWN,
			       "a guest, and neither BTF nor symbols tell how the kernel was built");
	if (!evidence->paravirt)
		return because(reason, SPINLOCK_NATIVE, "a guest, but the kernel has no CONFIG_PARAVIRT");
	if (!evidence->paravirt_spinlocks)
		return because(reason, SPINLOCK_TEST_AND_SET,
			       "a guest, and the kernel has no CONFIG_PARAVIRT_SPINLOCKS");
	if (evidence->hypervisor == HYPERVISOR_OTHER)
		return because(reason, SPINLOCK_TEST_AND_SET, "a guest of a hypervisor without paravirtual spinlocks");
	if (!evidence->hypervisor_locks)
		return because(reason, SPINLOCK_TEST_AND_SET,
			       "a guest, and the kernel was built without support of this hypervisor");
	switch (evidence->hypervisor) {
	case HYPERVISOR_KVM:
		return decide_kvm(evidence, reason);
	case HYPERVISOR_XEN:
		return decide_xen(evidence, reason);
	default:
		return decide_hyperv(evidence, reason);
	}
}

enum spinlock_mode lock_mode_decide(const struct lock_mode_evidence *evidence, char reason[PLAN_TEXT])
{
	enum spinlock_mode mode;

	if (!evidence->queued)
		return because(reason, SPINLOCK_UNKNOWN, "neither x86-64 nor arm64");
	if (evidence->x86)
		mode = decide_x86(evidence, reason);
	else
		mode = because(reason, SPINLOCK_NATIVE, "arm64 has native queued spinlocks, in guests too");
	return mode == SPINLOCK_NATIVE && evidence->realtime ? SPINLOCK_RT_NATIVE : mode;
}

#ifdef __x86_64__

#define HYPERVISOR_BIT      (1u << 31) /* leaf 1, ecx */
#define HYPERVISOR_LEAF     0x40000000u
#define HYPERVISOR_LEAF_END 0x40010000u
#define KVM_PV_UNHALT       (1u << 7)
#define KVM_REALTIME        (1u << 0)
#define HYPERV_CLUSTER_IPI  (1u << 10) /* base + 4, eax */
#define HYPERV_GUEST_IDLE   (1u << 10) /* base + 3, eax */

static const struct {
	const char *signature;
	enum hypervisor hypervisor;
} known[] = {
	{"KVMKVMKVM", HYPERVISOR_KVM},
	{"XenVMMXenVMM", HYPERVISOR_XEN},
	{"Microsoft Hv", HYPERVISOR_HYPERV},
};

void lock_mode_cpuid(struct lock_mode_evidence *evidence, char signature[13])
{
	unsigned int eax, ebx, ecx, edx;

	signature[0] = 0;
	evidence->hypervisor = HYPERVISOR_NONE;
	__cpuid(1, eax, ebx, ecx, edx);
	if (!(ecx & HYPERVISOR_BIT))
		return;
	evidence->hypervisor = HYPERVISOR_OTHER;
	/* A hypervisor that poses as another has the further one's leaves above: the kernel takes the highest. */
	for (unsigned int base = HYPERVISOR_LEAF; base < HYPERVISOR_LEAF_END; base += 0x100) {
		char found[13] = "";

		__cpuid(base, eax, ebx, ecx, edx);
		memcpy(found, &ebx, 4);
		memcpy(found + 4, &ecx, 4);
		memcpy(found + 8, &edx, 4);
		if (base == HYPERVISOR_LEAF)
			memcpy(signature, found, 13);
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			if (strcmp(found, known[i].signature))
				continue;
			memcpy(signature, found, 13);
			evidence->hypervisor = known[i].hypervisor;
			if (known[i].hypervisor == HYPERVISOR_KVM) {
				__cpuid(base + 1, eax, ebx, ecx, edx);
				evidence->kvm_pv_unhalt = eax & KVM_PV_UNHALT;
				evidence->kvm_realtime = edx & KVM_REALTIME;
			} else if (known[i].hypervisor == HYPERVISOR_HYPERV) {
				__cpuid(base + 3, eax, ebx, ecx, edx);
				evidence->hyperv_idle = eax & HYPERV_GUEST_IDLE;
				__cpuid(base + 4, eax, ebx, ecx, edx);
				evidence->hyperv_idle &= !!(eax & HYPERV_CLUSTER_IPI);
			}
		}
	}
}

#else

void lock_mode_cpuid(struct lock_mode_evidence *evidence, char signature[13])
{
	signature[0] = 0;
	evidence->hypervisor = HYPERVISOR_NONE;
}

#endif
