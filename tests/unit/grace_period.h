/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A machine of ONLINE_CPUS, and its grace periods, for what is linked with --wrap=syscall,--wrap=sysconf.  The test
 * defines ONLINE_CPUS before it includes this, and programs_end() after.
 */
#ifndef LOCKLINE_TEST_GRACE_PERIOD_H
#define LOCKLINE_TEST_GRACE_PERIOD_H

#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tap.h"

/* The programs that run get to their end. */
static void programs_end(void);

long __wrap_syscall(long number, ...);
long __wrap_sysconf(int name);
long __real_sysconf(int name);

/* membarrier(): MEMBARRIER_CMD_QUERY (0), then MEMBARRIER_CMD_GLOBAL. */
long __wrap_syscall(long number, ...)
{
	va_list arguments;
	int command;

	va_start(arguments, number);
	command = va_arg(arguments, int);
	va_end(arguments);
	CHECK(number == SYS_membarrier, "system call %ld", number);
	if (!command)
		return 1;
	programs_end();
	return 0;
}

long __wrap_sysconf(int name)
{
	return name == _SC_NPROCESSORS_ONLN ? ONLINE_CPUS : __real_sysconf(name);
}

#endif /* LOCKLINE_TEST_GRACE_PERIOD_H */
