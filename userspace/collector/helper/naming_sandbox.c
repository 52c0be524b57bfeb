// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "helper/naming_protocol.h"
#include "helper/naming_sandbox.h"

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define SOMEBODY 65534 /* nobody */

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Third argument of mmap() and mprotect(): what the memory may be used for. */
#define ALLOW_WITHOUT_EXECUTION(call)                                                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 4),                                                           \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),                          \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

/*
 * Whatever else is called fails with EPERM.  It is not fatal: the C library may
 * ask for this or that and do without it.
 */
static struct sock_filter filter[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	ALLOW(SYS_recvmsg),
	ALLOW(SYS_sendto),
	ALLOW(SYS_sendmsg),
	ALLOW(SYS_read),
	ALLOW(SYS_pread64),
	ALLOW(SYS_lseek),
	ALLOW(SYS_fstat),
#ifdef SYS_newfstatat
	ALLOW(SYS_newfstatat),
#endif
	ALLOW(SYS_close),
	ALLOW(SYS_brk),
	ALLOW(SYS_munmap),
	ALLOW(SYS_mremap),
	ALLOW(SYS_madvise),
	ALLOW(SYS_futex),
	ALLOW(SYS_clock_gettime),
	ALLOW(SYS_setitimer),
	ALLOW(SYS_rt_sigreturn),
	ALLOW(SYS_exit),
	ALLOW(SYS_exit_group),
	ALLOW_WITHOUT_EXECUTION(SYS_mmap),
	ALLOW_WITHOUT_EXECUTION(SYS_mprotect),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
};

static int limit(int what, rlim_t most)
{
	const struct rlimit value = {most, most};

	return setrlimit(what, &value) ? -errno : 0;
}

static int set_limits(void)
{
	int err = limit(RLIMIT_DATA, NAMING_MEMORY_BYTES);

	err = err ?: limit(RLIMIT_CORE, 0);
	err = err ?: limit(RLIMIT_FSIZE, 0);
	err = err ?: limit(RLIMIT_NOFILE, 4 * NAMING_OBJECTS);
	return err ?: limit(RLIMIT_MSGQUEUE, 0);
}

/* An own directory of /proc that holds nothing to open; it vanishes with the process. */
static void leave_files(void)
{
	/* Without the privilege for it, the missing open() has to do. */
	if (!chroot("/proc/self/fdinfo"))
		(void)!chdir("/");
}

static int drop_privileges(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {};

	for (int capability = 0; capability <= 63; capability++)
		prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	/* A user who is not root stays who he is, without capabilities. */
	if (!geteuid() &&
	    (setgroups(0, NULL) || setresgid(SOMEBODY, SOMEBODY, SOMEBODY) ||
	     setresuid(SOMEBODY, SOMEBODY, SOMEBODY)) &&
	    errno != EPERM && errno != EINVAL)
		return -errno;
	if (syscall(SYS_capset, &header, none))
		return -errno;
	/* Nobody reads our memory, the other processes of this user included. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return 0;
}

int naming_sandbox_enter(void)
{
	const struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
	int err = set_limits();

	if (err)
		return err;
	leave_files();
	err = drop_privileges();
	if (err)
		return err;
	/* The collector may be killed in the midst of a request. */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) ? -errno : 0;
}
