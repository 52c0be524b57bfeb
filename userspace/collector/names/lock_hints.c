// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A hint is a guess that the kernel's types must confirm: a struct named here
 * counts only if it fits the object and a lock lies at the address in question.
 */
#include <string.h>

#include "names/lock_hints.h"

static const struct {
	const char *cache, *type, *module;
} cache_types[] = {
	{"AF_VSOCK", "vsock_sock", "vsock"},
	{"TCP", "tcp_sock", ""},
	{"TCPv6", "tcp6_sock", "ipv6"},
	{"UDP", "udp_sock", ""},
	{"UDPv6", "udp6_sock", "ipv6"},
	{"UNIX", "unix_sock", "unix"},
	{"UNIX-STREAM", "unix_sock", "unix"},
	{"RAW", "raw_sock", ""},
	{"RAWv6", "raw6_sock", "ipv6"},
	{"MPTCP", "mptcp_sock", ""},
	{"bdev_cache", "bdev_inode", ""},
	{"blkdev_ioc", "io_context", ""},
	{"btrfs_extent_buffer", "extent_buffer", "btrfs"},
	{"btrfs_inode", "btrfs_inode", "btrfs"},
	{"cifs_inode_cache", "cifsInodeInfo", "cifs"},
	{"dax_cache", "dax_device", ""},
	{"eventpoll_epi", "epitem", ""},
	{"ext4_inode_cache", "ext4_inode_info", "ext4"},
	{"filp", "file", ""},
	{"fuse_inode", "fuse_inode", "fuse"},
	{"fuse_request", "fuse_req", "fuse"},
	{"jbd2_journal_head", "journal_head", "jbd2"},
	{"jbd2_transaction_s", "transaction_s", "jbd2"},
	{"key_jar", "key", ""},
	{"kvm_vcpu", "vcpu_vmx", "kvm_intel"},
	{"mnt_cache", "mount", ""},
	{"net_namespace", "net", ""},
	{"nf_conntrack", "nf_conn", "nf_conntrack"},
	{"nfs_inode_cache", "nfs_inode", "nfs"},
	{"ovl_inode", "ovl_inode", "overlay"},
	{"posix_timers_cache", "k_itimer", ""},
	{"radix_tree_node", "xa_node", ""},
	{"skbuff_head_cache", "sk_buff", ""},
	{"sock_inode_cache", "socket_alloc", ""},
	{"uid_cache", "user_struct", ""},
	{"xfs_buf", "xfs_buf", "xfs"},
	{"xfs_inode", "xfs_inode", "xfs"},
};

/* What kmalloc gave out, by the code that locks it: prefix of the function, struct. */
static const struct {
	const char *prefix, *type;
} function_types[] = {
	{"pipe_", "pipe_inode_info"},
	{"anon_pipe_", "pipe_inode_info"},
	{"fifo_", "pipe_inode_info"},
	{"poll_freewait", "pipe_inode_info"},
	{"poll_freewait", "eventfd_ctx"},
	{"poll_freewait", "timerfd_ctx"},
	{"ep_", "eventpoll"},
	{"do_epoll_", "eventpoll"},
	{"eventpoll_", "eventpoll"},
	{"eventfd_", "eventfd_ctx"},
	{"timerfd_", "timerfd_ctx"},
	{"signalfd_", "sighand_struct"},
	{"inotify_", "fsnotify_group"},
	{"fsnotify_", "fsnotify_group"},
	{"fsnotify_", "fsnotify_mark_connector"},
	{"seq_", "seq_file"},
	{"kernfs_", "kernfs_open_file"},
	{"kernfs_", "kernfs_root"},
	{"tty_", "tty_struct"},
	{"tty_", "tty_port"},
	{"n_tty_", "tty_struct"},
	{"n_tty_", "tty_port"},
	{"pty_", "tty_port"},
	{"file_tty_write", "tty_struct"},
	{"flush_to_ldisc", "tty_port"},
	{"fuse_", "fuse_conn"},
	{"fuse_", "fuse_dev"},
	{"perf_", "perf_event_context"},
	{"perf_", "perf_buffer"},
	{"ring_buffer_", "ring_buffer_per_cpu"},
	{"blk_mq_", "blk_mq_hw_ctx"},
	{"blk_mq_", "blk_mq_tags"},
	{"__blk_mq_", "blk_mq_hw_ctx"},
	{"__blk_mq_", "blk_mq_tags"},
	{"virtio_queue_rq", "virtio_blk"},
	{"virtblk_", "virtio_blk"},
	{"nvme_", "nvme_queue"},
	{"loop_", "loop_device"},
	{"cgroup_", "cgroup"},
	{"futex_", "futex_private_hash"},
	{"__futex_", "futex_private_hash"},
	{"do_renameat2", "super_block"},
	{"lock_rename", "super_block"},
	{"start_renaming", "super_block"},
	{"evict", "super_block"},
	{"inode_sb_list_add", "super_block"},
	{"shmem_", "shmem_sb_info"},
	{"do_semtimedop", "sem_array"},
	{"__do_semtimedop", "sem_array"},
	{"semctl_", "sem_array"},
	{"do_msg", "msg_queue"},
	{"do_shmat", "shmid_kernel"},
	{"wb_", "bdi_writeback"},
	{"writeback_", "bdi_writeback"},
	{"__mark_inode_dirty", "bdi_writeback"},
	{"folio_lruvec_", "mem_cgroup_per_node"},
	{"list_lru_", "list_lru_memcg"},
	{"list_lru_", "list_lru_node"},
	{"__queue_work", "worker_pool"},
	{"worker_thread", "worker_pool"},
	{"process_one_work", "worker_pool"},
	{"__flush_work", "worker_pool"},
	{"__flush_workqueue", "workqueue_struct"},
	{"jbd2_", "journal_s"},
	{"start_this_handle", "journal_s"},
	{"raid5_", "r5conf"},
	{"md_", "mddev"},
	{"dm_", "mapped_device"},
	{"dev_queue_xmit", "Qdisc"},
	{"__dev_queue_xmit", "Qdisc"},
	{"__dev_queue_xmit", "netdev_queue"},
	{"netlink_", "netlink_sock"},
	{"packet_", "packet_sock"},
	{"acct_", "bsd_acct_struct"},
	{"blk_insert_flush", "blk_flush_queue"},
	{"blk_flush_", "blk_flush_queue"},
	{"mq_flush_data_end_io", "blk_flush_queue"},
	{"flush_end_io", "blk_flush_queue"},
	{"flock_lock_inode", "file_lock_context"},
	{"posix_lock_inode", "file_lock_context"},
	{"locks_", "file_lock_context"},
	{"sync_bdevs", "gendisk"},
	{"bdev_open", "gendisk"},
	{"bdev_release", "gendisk"},
	{"blkdev_get_", "gendisk"},
	{"blkdev_put", "gendisk"},
	{"sync_inodes_sb", "backing_dev_info"},
	{"sync_inodes_sb", "super_block"},
	{"ipcget", "ipc_namespace"},
	{"do_shmat", "ipc_namespace"},
	{"shm_", "ipc_namespace"},
	{"shmctl_", "ipc_namespace"},
	{"semctl_", "ipc_namespace"},
	{"msgctl_", "ipc_namespace"},
};

/* With PREEMPT_RT a spinlock is an rt-mutex. */
#define SPINLOCK (1u << KIND_SPINLOCK | 1u << KIND_RTMUTEX)
#define RWLOCK \
	(1u << KIND_RWLOCK_READ | 1u << KIND_RWLOCK_WRITE | 1u << KIND_RWLOCK_RT_READ | 1u << KIND_RWLOCK_RT_WRITE)
#define MUTEX        (1u << KIND_MUTEX | 1u << KIND_MUTEX_SPIN | 1u << KIND_RTMUTEX)
#define RWSEM        (1u << KIND_RWSEM_READ | 1u << KIND_RWSEM_WRITE)
#define PERCPU_RWSEM (1u << KIND_PERCPU_RWSEM_READ | 1u << KIND_PERCPU_RWSEM_WRITE)

/* Locks of the kernel image that their takers give away, for kernels without KALLSYMS_ALL. */
static const struct {
	const char *function;
	__u32 kinds;
	const char *name;
} static_locks[] = {
	{"ptrace_attach", RWLOCK, "tasklist_lock"},
	{"ptrace_check_attach", RWLOCK, "tasklist_lock"},
	{"ptrace_detach", RWLOCK, "tasklist_lock"},
	{"ptrace_traceme", RWLOCK, "tasklist_lock"},
	{"ptrace_stop", RWLOCK, "tasklist_lock"},
	{"__do_wait", RWLOCK, "tasklist_lock"},
	{"do_wait", RWLOCK, "tasklist_lock"},
	{"wait_task_zombie", RWLOCK, "tasklist_lock"},
	{"wait_consider_task", RWLOCK, "tasklist_lock"},
	{"release_task", RWLOCK, "tasklist_lock"},
	{"exit_notify", RWLOCK, "tasklist_lock"},
	{"do_exit", RWLOCK, "tasklist_lock"},
	{"copy_process", RWLOCK, "tasklist_lock"},
	{"de_thread", RWLOCK, "tasklist_lock"},
	{"begin_new_exec", RWLOCK, "tasklist_lock"},
	{"do_signal_stop", RWLOCK, "tasklist_lock"},
	{"do_notify_parent_cldstop", RWLOCK, "tasklist_lock"},
	{"get_signal", RWLOCK, "tasklist_lock"},
	{"kill_something_info", RWLOCK, "tasklist_lock"},
	{"mm_update_next_owner", RWLOCK, "tasklist_lock"},
	{"zap_pid_ns_processes", RWLOCK, "tasklist_lock"},
	{"kill_pgrp", RWLOCK, "tasklist_lock"},
	{"__kill_pgrp_info", RWLOCK, "tasklist_lock"},
	{"send_sigio", RWLOCK, "tasklist_lock"},
	{"send_sigurg", RWLOCK, "tasklist_lock"},
	{"disassociate_ctty", RWLOCK, "tasklist_lock"},
	{"ksys_setsid", RWLOCK, "tasklist_lock"},
	{"sys_setpgid", RWLOCK, "tasklist_lock"},
	{"sys_setpriority", RWLOCK, "tasklist_lock"},
	{"sys_getpriority", RWLOCK, "tasklist_lock"},
	{"sys_prlimit64", RWLOCK, "tasklist_lock"},
	{"sys_ptrace", RWLOCK, "tasklist_lock"},
	{"cgroup_enter_frozen", SPINLOCK, "css_set_lock"},
	{"cgroup_leave_frozen", SPINLOCK, "css_set_lock"},
	{"cgroup_post_fork", SPINLOCK, "css_set_lock"},
	{"cgroup_exit", SPINLOCK, "css_set_lock"},
	{"cgroup_free", SPINLOCK, "css_set_lock"},
	{"css_task_iter_end", SPINLOCK, "css_set_lock"},
	{"css_task_iter_next", SPINLOCK, "css_set_lock"},
	{"css_task_iter_start", SPINLOCK, "css_set_lock"},
	{"proc_cgroup_show", SPINLOCK, "css_set_lock"},
	{"cgroup_release", SPINLOCK, "css_set_lock"},
	{"copy_process", PERCPU_RWSEM, "cgroup_threadgroup_rwsem"},
	{"exit_signals", PERCPU_RWSEM, "cgroup_threadgroup_rwsem"},
	{"begin_new_exec", PERCPU_RWSEM, "cgroup_threadgroup_rwsem"},
	{"cgroup_procs_write_start", PERCPU_RWSEM, "cgroup_threadgroup_rwsem"},
	{"cgroup_attach_lock", PERCPU_RWSEM, "cgroup_threadgroup_rwsem"},
	{"flock_lock_inode", PERCPU_RWSEM, "file_rwsem"},
	{"posix_lock_inode", PERCPU_RWSEM, "file_rwsem"},
	{"__break_lease", PERCPU_RWSEM, "file_rwsem"},
	{"generic_setlease", PERCPU_RWSEM, "file_rwsem"},
	{"generic_add_lease", PERCPU_RWSEM, "file_rwsem"},
	{"locks_start", PERCPU_RWSEM, "file_rwsem"},
	{"proc_sys_call_handler", SPINLOCK, "sysctl_lock"},
	{"proc_sys_compare", SPINLOCK, "sysctl_lock"},
	{"proc_sys_getattr", SPINLOCK, "sysctl_lock"},
	{"proc_sys_lookup", SPINLOCK, "sysctl_lock"},
	{"proc_sys_make_inode", SPINLOCK, "sysctl_lock"},
	{"proc_sys_open", SPINLOCK, "sysctl_lock"},
	{"proc_sys_permission", SPINLOCK, "sysctl_lock"},
	{"proc_sys_readdir", SPINLOCK, "sysctl_lock"},
	{"sysctl_head_finish", SPINLOCK, "sysctl_lock"},
	{"sysctl_head_grab", SPINLOCK, "sysctl_lock"},
	{"rcu_gp_fqs_loop", SPINLOCK, "rcu_node.lock"},
	{"rcu_gp_init", SPINLOCK, "rcu_node.lock"},
	{"rcu_gp_cleanup", SPINLOCK, "rcu_node.lock"},
	{"force_qs_rnp", SPINLOCK, "rcu_node.lock"},
	{"rcu_report_qs_rdp", SPINLOCK, "rcu_node.lock"},
	{"note_gp_changes", SPINLOCK, "rcu_node.lock"},
	{"rcu_core", SPINLOCK, "rcu_node.lock"},
	{"start_poll_synchronize_rcu_common", SPINLOCK, "rcu_node.lock"},
	{"free_percpu", SPINLOCK, "pcpu_lock"},
	{"pcpu_alloc", SPINLOCK, "pcpu_lock"},
	{"pcpu_alloc", MUTEX, "pcpu_alloc_mutex"},
	{"pcpu_alloc_noprof", SPINLOCK, "pcpu_lock"},
	{"pcpu_alloc_noprof", MUTEX, "pcpu_alloc_mutex"},
	{"do_shmat", RWSEM, "ipc_ids.rwsem"},
	{"ipcget", RWSEM, "ipc_ids.rwsem"},
	{"msgctl_down", RWSEM, "ipc_ids.rwsem"},
	{"semctl_down", RWSEM, "ipc_ids.rwsem"},
	{"shm_close", RWSEM, "ipc_ids.rwsem"},
	{"shmctl_down", RWSEM, "ipc_ids.rwsem"},
	{"sysvipc_proc_start", RWSEM, "ipc_ids.rwsem"},
	{"__shm_close", RWSEM, "ipc_ids.rwsem"},
	{"exp_funnel_lock", MUTEX, "rcu_state.exp_mutex"},
	{"synchronize_rcu_expedited", MUTEX, "rcu_state.exp_mutex"},
	{"rcu_barrier", MUTEX, "rcu_state.barrier_mutex"},
	{"membarrier_private_expedited", MUTEX, "membarrier_ipi_mutex"},
	{"membarrier_global_expedited", MUTEX, "membarrier_ipi_mutex"},
	{"sync_runqueues_membarrier_state", MUTEX, "membarrier_ipi_mutex"},
	{"sys_membarrier", MUTEX, "membarrier_ipi_mutex"},
	{"text_poke_copy", MUTEX, "text_mutex"},
	{"text_poke_set", MUTEX, "text_mutex"},
	{"bpf_arch_text_poke", MUTEX, "text_mutex"},
	{"__bpf_arch_text_poke", MUTEX, "text_mutex"},
	{"arch_jump_label_transform", MUTEX, "text_mutex"},
	{"arch_jump_label_transform_apply", MUTEX, "text_mutex"},
	{"arch_jump_label_transform_queue", MUTEX, "text_mutex"},
	{"arch_static_call_transform", MUTEX, "text_mutex"},
	{"ftrace_arch_code_modify_prepare", MUTEX, "text_mutex"},
};

/* Locks of objects that neither a symbol nor a slab cache leads to, by functions that take no other of that kind. */
static const struct {
	const char *function;
	__u32 kinds;
	const char *name;
} object_locks[] = {
	{"free_pcppages_bulk", SPINLOCK, "zone.lock"},
	{"free_one_page", SPINLOCK, "zone.lock"},
	{"rmqueue_bulk", SPINLOCK, "zone.lock"},
};

static const struct {
	const char *variable, *type;
} variable_types[] = {
	{"contig_page_data", "pglist_data"},
	{"init_files", "files_struct"},
	{"init_mm", "mm_struct"},
	{"init_net", "net"},
	{"init_pid_ns", "pid_namespace"},
	{"init_sighand", "sighand_struct"},
	{"init_signals", "signal_struct"},
	{"init_task", "task_struct"},
	{"init_user_ns", "user_namespace"},
	{"root_task_group", "task_group"},
};

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

const char *hint_cache_type(const char *cache, const char **module)
{
	for (size_t i = 0; i < COUNT(cache_types); i++) {
		if (strcmp(cache, cache_types[i].cache))
			continue;
		*module = cache_types[i].module;
		return cache_types[i].type;
	}
	return NULL;
}

const char *hint_function_type(const char *function, unsigned int index)
{
	for (size_t i = 0; i < COUNT(function_types); i++) {
		const char *prefix = function_types[i].prefix;

		if (!strncmp(function, prefix, strlen(prefix)) && !index--)
			return function_types[i].type;
	}
	return NULL;
}

/* A system call's body is called so by one compiler and otherwise by another: __do_sys_ptrace, __x64_sys_ptrace. */
static const char *strip_syscall(const char *function)
{
	static const char *const prefixes[] = {"__do_", "__se_", "__x64_", "__arm64_"};

	for (size_t i = 0; i < COUNT(prefixes); i++) {
		size_t length = strlen(prefixes[i]);

		if (!strncmp(function, prefixes[i], length) && !strncmp(function + length, "sys_", 4))
			return function + length;
	}
	return function;
}

const char *hint_static_lock(const char *function, enum lock_kind kind)
{
	function = strip_syscall(function);
	for (size_t i = 0; i < COUNT(static_locks); i++)
		if (static_locks[i].kinds & 1u << kind && !strcmp(function, static_locks[i].function))
			return static_locks[i].name;
	return NULL;
}

const char *hint_object_lock(const char *function, enum lock_kind kind)
{
	for (size_t i = 0; i < COUNT(object_locks); i++)
		if (object_locks[i].kinds & 1u << kind && !strcmp(function, object_locks[i].function))
			return object_locks[i].name;
	return NULL;
}

void hint_each_static_lock(void (*visit)(const char *name, void *data), void *data)
{
	for (size_t i = 0; i < COUNT(static_locks); i++)
		visit(static_locks[i].name, data);
}

const char *hint_variable_type(const char *variable)
{
	for (size_t i = 0; i < COUNT(variable_types); i++)
		if (!strcmp(variable, variable_types[i].variable))
			return variable_types[i].type;
	return NULL;
}

bool hint_is_futex(const char *function, enum lock_kind kind)
{
	if (!(1u << kind & SPINLOCK))
		return false;
	return !strncmp(function, "futex_", 6) || !strncmp(function, "__futex_", 8) || !strcmp(function, "do_futex") ||
	       !strcmp(function, "handle_futex_death") || !strcmp(function, "unqueue_me_pi");
}

bool hint_is_semaphore(const char *function, enum lock_kind kind)
{
	if (!(1u << kind & SPINLOCK))
		return false;
	return strstr(function, "semtimedop") || !strncmp(function, "semctl_", 7) || !strcmp(function, "exit_sem");
}
