// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>
#include <sys/auxv.h>

#include "watch/watch_machine.h"

#define HWCAP_LSE (1ul << 8) /* HWCAP_ATOMICS of arm64's uapi/asm/hwcap.h */

const char *watch_lse_refusal(bool processor, enum kernel_option kernel, bool kernel_target, bool full)
{
	if (!processor)
		return "this processor has no atomic instructions (LSE)";
	if (!kernel_target || kernel == OPTION_ON)
		return NULL;
	if (kernel == OPTION_OFF)
		return "this kernel was built without atomic instructions (CONFIG_ARM64_LSE_ATOMICS)";
	/* A window's limit of hits ends such a loop. */
	return full ? "whether this kernel was built with atomic instructions (CONFIG_ARM64_LSE_ATOMICS) is not known, "
		      "as neither /proc/config.gz nor /boot has its configuration: leave --full out"
		    : NULL;
}

const char *watch_machine_refusal(bool kernel_target, bool full)
{
#ifdef __aarch64__
	return watch_lse_refusal(getauxval(AT_HWCAP) & HWCAP_LSE, kernel_config("CONFIG_ARM64_LSE_ATOMICS"),
				 kernel_target, full);
#else
	(void)kernel_target;
	(void)full;
	return NULL;
#endif
}
