// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan_test.h"

/* What the kernel does at boot, statement by statement; pv_late: the order of 6.18. */
struct boot {
	bool virt_spin_lock_key;
	bool pv;
};

static void kvm_spinlock_init(struct boot *boot, const struct lock_mode_evidence *e, bool pv_late)
{
	if (!pv_late && !e->kvm_pv_unhalt)
		return;
	if (e->kvm_realtime || e->possible_cpus == 1 || e->nopvspin)
		goto out;
	if (pv_late && !e->kvm_pv_unhalt)
		return;
	boot->pv = true;
out:
	boot->virt_spin_lock_key = false;
}

static enum spinlock_mode boot(const struct lock_mode_evidence *e, bool pv_late)
{
	struct boot boot = {};

	if (!e->x86)
		return SPINLOCK_NATIVE;
	boot.virt_spin_lock_key = e->hypervisor != HYPERVISOR_NONE && e->paravirt;
	if (e->paravirt_spinlocks && e->hypervisor_locks) {
		if (e->hypervisor == HYPERVISOR_KVM) {
			kvm_spinlock_init(&boot, e, pv_late);
		} else if (e->hypervisor == HYPERVISOR_XEN) {
			boot.pv = e->possible_cpus != 1 && !e->nopvspin;
			if (!boot.pv)
				boot.virt_spin_lock_key = false;
		} else if (e->hypervisor == HYPERVISOR_HYPERV) {
			boot.pv = !e->nopvspin && e->hyperv_idle;
		}
	}
	return boot.pv ? SPINLOCK_PARAVIRT : boot.virt_spin_lock_key ? SPINLOCK_TEST_AND_SET : SPINLOCK_NATIVE;
}

/* Every machine there can be, against the kernel's own steps. */
static void lock_mode_of_every_machine(void)
{
	int machines = 0, unknown = 0;

	for (unsigned int bits = 0; bits < 1 << 11; bits++) {
		for (int hypervisor = HYPERVISOR_NONE; hypervisor <= HYPERVISOR_OTHER; hypervisor++) {
			struct lock_mode_evidence e = {
				.queued = true,
				.x86 = bits & 1,
				.realtime = bits & 2,
				.possible_cpus = bits & 4 ? 1 : 8,
				.functions_known = true,
				.paravirt = bits & 16,
				.paravirt_spinlocks = bits & 16 && bits & 32, /* Kconfig: depends on PARAVIRT */
				.hypervisor_locks = bits & 16 && bits & 64,
				.nopvspin = bits & 128,
				.kvm_pv_unhalt = bits & 256,
				.kvm_realtime = bits & 512,
				.hyperv_idle = bits & 1024,
				.hypervisor = hypervisor,
				.major = 6,
				.minor = bits & 8 ? 18 : 1,
			};
			char reason[PLAN_TEXT] = "";
			enum spinlock_mode is = lock_mode_decide(&e, reason), want = boot(&e, bits & 8);

			machines++;
			CHECK(reason[0] && strlen(reason) < PLAN_TEXT - 1, "%x: \"%s\"", bits, reason);
			if (is == SPINLOCK_UNKNOWN) {
				/* only where kernels of one release differ */
				unknown++;
				CHECK(e.x86 && e.minor == 1, "%x: %s", bits, reason);
				CHECK(e.hypervisor == HYPERVISOR_NONE || boot(&e, true) != boot(&e, false), "%x: %s",
				      bits, reason);
				continue;
			}
			/* one CPU never waits for another: the old order does not matter */
			if (e.hypervisor == HYPERVISOR_KVM && e.possible_cpus == 1)
				want = boot(&e, true);
			if (want == SPINLOCK_NATIVE && e.realtime)
				want = SPINLOCK_RT_NATIVE;
			CHECK(is == want, "%x, hypervisor %d: is %d, wanted %d (%s)", bits, hypervisor, is, want,
			      reason);
		}
	}
	CHECK(unknown < machines / 10, "%d of %d machines are not known", unknown, machines);
}

static void lock_mode_without_evidence(void)
{
	struct lock_mode_evidence e = {.x86 = true, .queued = true, .possible_cpus = 4, .major = 6, .minor = 1};
	char reason[PLAN_TEXT];

	e.hypervisor = HYPERVISOR_KVM;
	CHECK(lock_mode_decide(&e, reason) == SPINLOCK_UNKNOWN, "%s", reason);
	e.hypervisor = HYPERVISOR_NONE;
	CHECK(lock_mode_decide(&e, reason) == SPINLOCK_NATIVE, "%s", reason);
	e.queued = false;
	CHECK(lock_mode_decide(&e, reason) == SPINLOCK_UNKNOWN, "%s", reason);
}

static void guest_with_everything(void)
{
	struct evidence e = machine();
	static struct plan plan;

	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(plan.tp_btf_contention && plan.slab_kfunc && plan.clock == CLOCK_PRECISE, "plan");
	CHECK(plan.spinlock_mode == SPINLOCK_PARAVIRT && plan.possible_cpus == 4, "plan");
	state(&plan, "lock waits", PROBE_ON, "");
	state(&plan, "spinlock first waiter", PROBE_ON, "PV_UNHALT");
	state(&plan, "spinlock queued waiters", PROBE_ON, "");
	state(&plan, "rwlock readers in interrupt", PROBE_ON, "queued_read_lock_slowpath");
	state(&plan, "percpu-rwsem writers behind readers", PROBE_ON, "percpu_down_write");
	state(&plan, "static lock names", PROBE_ON, "");
	CHECK_TEXT(probe(&plan, "per-CPU lock names")->source, "symbol table and BTF");
	state(&plan, "slab lock names", PROBE_ON, "");
	CHECK_TEXT(probe(&plan, "slab lock names")->source, "bpf_get_kmem_cache()");
	state(&plan, "user stacks", PROBE_OFF, "--user-stacks");
	state(&plan, "process following", PROBE_OFF, "");
	/* The tracepoints see every entry. */
	CHECK_TEXT(probe(&plan, "spinlock first waiter")->source, "tp_btf contention_begin");
	CHECK(!plan.spin_slow_path && !plan.spin_kprobe && !plan.paravirt_slow_path && plan.read_slow_path, "plan");
}

/* Spinlocks seen by probes around their slow path. */
static void spinlocks_probed(const struct plan *plan, const char *source, const char *function)
{
	static const char *const signals[] = {"spinlock first waiter", "spinlock queued waiters"};

	CHECK(plan->spin_slow_path && !strcmp(plan->spin_slow_path, function), "%s", plan->spin_slow_path ?: "none");
	CHECK(plan->spin_kprobe == !strcmp(source, "kprobe"), "by %s", source);
	state(plan, signals[0], PROBE_ON, function);
	CHECK_TEXT(probe(plan, signals[0])->source, source);
}

static void bare_metal(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.lock.hypervisor = HYPERVISOR_NONE;
	plan_decide(&plan, &e);
	well_formed(&plan);
	spinlocks_probed(&plan, "fentry", "native_queued_spin_lock_slowpath");
	CHECK(!plan.paravirt_slow_path && plan.read_slow_path, "plan");
	state(&plan, "spinlock queued waiters", PROBE_ON, "queue");
}

static void arm64(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.lock.x86 = e.lock.paravirt = e.lock.paravirt_spinlocks = false;
	e.lock.hypervisor = HYPERVISOR_NONE;
	e.btf_native_slow_path = e.btf_paravirt_slow_path = false;
	e.btf_queued_slow_path = true;
	plan_decide(&plan, &e);
	well_formed(&plan);
	spinlocks_probed(&plan, "fentry", "queued_spin_lock_slowpath");
	/* Before 6.4. */
	e.fentry_error = -EOPNOTSUPP;
	plan_decide(&plan, &e);
	well_formed(&plan);
	spinlocks_probed(&plan, "kprobe", "queued_spin_lock_slowpath");
	CHECK(!plan.read_slow_path, "a reader in interrupt is probed by fentry alone");
	state(&plan, "rwlock readers in interrupt", PROBE_BLIND, "; fentry: refused: ");
}

static void without_fentry(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.lock.hypervisor = HYPERVISOR_NONE;
	e.fentry_error = -EPERM;
	plan_decide(&plan, &e);
	well_formed(&plan);
	spinlocks_probed(&plan, "kprobe", "native_queued_spin_lock_slowpath");
	/* What blinds stays the reason, and why no probe helps follows. */
	e.kprobe_source = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(!plan.spin_slow_path && !plan.spin_kprobe && !plan.read_slow_path, "plan");
	state(&plan, "spinlock first waiter", PROBE_BLIND, "native queued spinlocks: ");
	state(&plan, "spinlock first waiter", PROBE_BLIND, "; fentry: refused: Operation not permitted; kprobe: no ");
	state(&plan, "spinlock queued waiters", PROBE_ON, "queue");
	state(&plan, "rwlock readers in interrupt", PROBE_BLIND, "spins before the tracepoint; fentry: ");
}

static void without_slow_path_in_btf(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.lock.hypervisor = HYPERVISOR_NONE;
	e.btf_native_slow_path = e.btf_paravirt_slow_path = e.btf_read_slow_path = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(!plan.spin_slow_path && !plan.spin_kprobe && !plan.read_slow_path, "plan");
	/* Both lack the same: it is said once. */
	const char *said = strstr(probe(&plan, "spinlock first waiter")->reason, "no such function");
	CHECK(said && !strstr(said + 1, "no such function"), "%s", probe(&plan, "spinlock first waiter")->reason);
}

static void guest_with_test_and_set(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.lock.kvm_pv_unhalt = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(plan.spinlock_mode == SPINLOCK_TEST_AND_SET, "%d", plan.spinlock_mode);
	spinlocks_probed(&plan, "fentry", "native_queued_spin_lock_slowpath");
	state(&plan, "spinlock queued waiters", PROBE_ON, "native_queued_spin_lock_slowpath");
	CHECK_TEXT(probe(&plan, "spinlock queued waiters")->source, "fentry");
	CHECK(!plan.paravirt_slow_path, "never called here");
	e.fentry_error = -EPERM;
	e.kprobe_source = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "spinlock first waiter", PROBE_BLIND, "test-and-set");
	state(&plan, "spinlock queued waiters", PROBE_BLIND, "test-and-set");
	state(&plan, "mutex, rwsem, semaphore, rtmutex", PROBE_ON, "");
}

/* A guest of which nobody can tell which of the two functions it calls. */
static void guest_with_unknown_spinlocks(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.lock.minor = 1;
	e.lock.kvm_pv_unhalt = false;
	e.lock.nopvspin = true;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(plan.spinlock_mode == SPINLOCK_UNKNOWN, "%d", plan.spinlock_mode);
	spinlocks_probed(&plan, "fentry", "native_queued_spin_lock_slowpath");
	CHECK(plan.paravirt_slow_path, "both are probed");
	/* The paravirtual one passes the tracepoints: it needs no kprobe. */
	e.fentry_error = -EPERM;
	plan_decide(&plan, &e);
	well_formed(&plan);
	spinlocks_probed(&plan, "kprobe", "native_queued_spin_lock_slowpath");
	CHECK(!plan.paravirt_slow_path, "not without fentry");
	e.kprobe_source = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(!plan.spin_slow_path && !plan.paravirt_slow_path, "plan");
	state(&plan, "spinlock first waiter", PROBE_BLIND, "not known which kind");
	state(&plan, "spinlock queued waiters", PROBE_BLIND, "; fentry: refused: ");
}

static void realtime(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.lock.hypervisor = HYPERVISOR_NONE;
	e.lock.realtime = true;
	e.btf_read_slow_path = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(plan.spinlock_mode == SPINLOCK_RT_NATIVE, "%d", plan.spinlock_mode);
	spinlocks_probed(&plan, "fentry", "native_queued_spin_lock_slowpath");
	CHECK(!plan.read_slow_path, "rwlocks are rt-mutexes");
	CHECK(!plan.rwsem_slow_path && !plan.rwsem_kprobe, "and so are rwsems");
	CHECK(plan.percpu_slow_path, "percpu-rwsems are not");
	state(&plan, "rwlock readers in interrupt", PROBE_ON, "PREEMPT_RT");
	state(&plan, "rwsem writers that win by spinning", PROBE_ON, "PREEMPT_RT");
	state(&plan, "mutex, rwsem, semaphore, rtmutex", PROBE_ON, "spinlock_t");
	e.fentry_error = -EPERM;
	e.kprobe_source = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "spinlock first waiter", PROBE_BLIND, "spinlock_t is an rt-mutex and is seen");
}

static void bpf_locks(void)
{
	struct evidence e = machine();
	static struct plan plan;

	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "BPF's own spinlocks", PROBE_ON, "came with 6.15");
	CHECK(!plan.resilient_text, "plan");
	e.btf_resilient = true;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "BPF's own spinlocks", PROBE_BLIND, "cannot be told from others");
	e.resilient_text = 0xffffffff81000000;
	e.resilient_text_size = 0x400;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "BPF's own spinlocks", PROBE_BLIND, "the first one");
	CHECK(plan.resilient_text == e.resilient_text && plan.resilient_text_size == 0x400, "plan");
}

/* Sleeping locks' slow paths: probed where a tracepoint misses waits, and only there. */
static void writers(void)
{
	struct evidence e = machine();
	static struct plan plan;

	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(plan.rwsem_slow_path && !plan.rwsem_kprobe && plan.percpu_slow_path, "both by fentry");
	state(&plan, "rwsem writers that win by spinning", PROBE_ON, "rwsem_down_write_slowpath() is probed");
	state(&plan, "percpu-rwsem writers behind readers", PROBE_ON, "percpu_down_write() is probed");
	e.fentry_error = -EPERM;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(!plan.rwsem_slow_path && plan.rwsem_kprobe && !plan.percpu_slow_path, "the rwsem by kprobe");
	CHECK_TEXT(probe(&plan, "rwsem writers that win by spinning")->source, "kprobe");
	state(&plan, "percpu-rwsem writers behind readers", PROBE_BLIND, "; fentry: refused: ");
	e.kprobe_source = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(!plan.rwsem_slow_path && !plan.rwsem_kprobe, "not at all");
	state(&plan, "rwsem writers that win by spinning", PROBE_BLIND, "CONFIG_KPROBE_EVENTS");
	e = machine();
	e.lock.minor = 1;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(plan.rwsem_slow_path && !plan.percpu_slow_path, "6.1's tracepoint spans the wait for readers");
}

static void without_btf(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.btf_error = -ENOENT;
	e.btf_contention = e.btf_fork = e.btf_slab = e.btf_percpu = e.btf_slab_pages = false;
	e.btf_native_slow_path = e.btf_paravirt_slow_path = e.btf_read_slow_path = false;
	e.btf_rwsem_slow_path = e.btf_percpu_slow_path = false;
	e.load_error = e.fentry_error = -ENOENT;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK(!plan.tp_btf_contention && !plan.slab_kfunc, "plan");
	state(&plan, "lock waits", PROBE_UNAVAILABLE, "CONFIG_DEBUG_INFO_BTF");
	state(&plan, "per-CPU lock names", PROBE_UNAVAILABLE, "BTF");
	CHECK(!plan.spin_slow_path && !plan.read_slow_path, "plan");
	CHECK_TEXT(probe(&plan, "spinlock first waiter")->reason, probe(&plan, "lock waits")->reason);
}

static void without_rights(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.load_error = e.fentry_error = e.statistics_error = -EPERM;
	e.symbols = SYMBOLS_HIDDEN;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "lock waits", PROBE_UNAVAILABLE, "run as root");
	state(&plan, "own cost", PROBE_UNAVAILABLE, "CAP_SYS_ADMIN");
	state(&plan, "static lock names", PROBE_UNAVAILABLE, "CAP_SYSLOG");
}

static void old_kernel(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.lock.minor = 1;
	e.btf_slab = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "slab lock names", PROBE_ON, "struct page");
	CHECK_TEXT(probe(&plan, "slab lock names")->source, "table of pages");
	CHECK(!plan.slab_kfunc, "plan");
	state(&plan, "percpu-rwsem writers behind readers", PROBE_ON, "");
	e.btf_slab_pages = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "slab lock names", PROBE_UNAVAILABLE, "it came with 6.13; table of pages: BTF does not say");
	e.page_table = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "slab lock names", PROBE_UNAVAILABLE,
	      "it came with 6.13; table of pages: needs arm64, or x86-64 ");
	e.lock.major = 5;
	e.lock.minor = 15;
	e.btf_contention = false;
	e.load_error = -ENOENT;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "lock waits", PROBE_UNAVAILABLE, "5.19");
	/* Nothing that needs a recording is promised. */
	state(&plan, "spinlock first waiter", PROBE_UNAVAILABLE, "5.19");
	state(&plan, "rwlock readers in interrupt", PROBE_UNAVAILABLE, "5.19");
	CHECK(!plan.spin_slow_path && !plan.read_slow_path, "plan");
}

static void fewer_names(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.symbols = SYMBOLS_TEXT;
	plan_decide(&plan, &e);
	state(&plan, "static lock names", PROBE_UNAVAILABLE, "CONFIG_KALLSYMS_ALL");
	CHECK_TEXT(probe(&plan, "per-CPU lock names")->source, "BTF and run queues");
	state(&plan, "kernel stacks", PROBE_ON, "");
	e.symbols = SYMBOLS_NONE;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "kernel stacks", PROBE_BLIND, "kallsyms");
}

static void clocks(void)
{
	static const struct {
		const char *clocksource;
		enum lockline_clock clock;
	} cases[] = {{"tsc", CLOCK_PRECISE},
		     {"kvm-clock", CLOCK_PRECISE},
		     {"arch_sys_counter", CLOCK_PRECISE},
		     {"hyperv_clocksource_tsc_page", CLOCK_PRECISE},
		     {"hpet", CLOCK_COARSE},
		     {"acpi_pm", CLOCK_COARSE},
		     {"refined-jiffies", CLOCK_COARSE},
		     {"", CLOCK_PRECISE}};
	struct evidence e = machine();
	static struct plan plan;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(e.clocksource, sizeof(e.clocksource), "%s", cases[i].clocksource);
		plan_decide(&plan, &e);
		well_formed(&plan);
		CHECK(plan.clock == cases[i].clock, "%s", cases[i].clocksource);
		state(&plan, "clock", cases[i].clock == CLOCK_COARSE ? PROBE_BLIND : PROBE_ON, cases[i].clocksource);
	}
}
static const struct test tests[] = {
	TEST(lock_mode_of_every_machine),
	TEST(lock_mode_without_evidence),
	TEST(guest_with_everything),
	TEST(bare_metal),
	TEST(arm64),
	TEST(without_fentry),
	TEST(without_slow_path_in_btf),
	TEST(guest_with_test_and_set),
	TEST(guest_with_unknown_spinlocks),
	TEST(realtime),
	TEST(writers),
	TEST(bpf_locks),
	TEST(without_btf),
	TEST(without_rights),
	TEST(old_kernel),
	TEST(fewer_names),
	TEST(clocks),
};

int main(void)
{
	return RUN_TESTS(tests);
}
