/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What /proc says of a process or a thread: the one place that builds these paths.
 *
 * id is a process or a thread unless a function takes both.  Texts are printable
 * (see base/small_file.h) and "" where they cannot be read.  Negative errno on
 * failure; -ENOENT or -ESRCH: there is no such task.
 */
#ifndef LOCKLINE_PROC_H
#define LOCKLINE_PROC_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <linux/types.h>

#define PROC_PATH 64
/* The longest path of a mapping that is read whole. */
#define PROC_MAPPED_PATH 4096

struct process_stat {
	char state;       /* R, S, D, T, ... */
	__u32 parent;     /* process */
	int priority;     /* as task_struct.prio: below 100 real time, below 0 deadline */
	int policy;       /* SCHED_*; -1: the kernel does not say */
	__u64 start_time; /* clock ticks since boot */
	__u64 cpu_ticks;  /* clock ticks on CPUs, of its threads and of children that it has waited for */
	bool ended;       /* a zombie without other threads: its memory is gone */
};

/* "/proc/ID/" and what the format gives, cut to size. */
__attribute__((format(printf, 4, 5))) void proc_path(char *out, size_t size, __u32 id, const char *format, ...);
/* Opens /proc/ID/NAME to read: a stream, a descriptor, a directory.  NULL or negative errno. */
FILE *proc_open(__u32 id, const char *name);
int proc_open_fd(__u32 id, const char *name);
DIR *proc_open_directory(__u32 id, const char *name);
/* The next process or thread of a directory of /proc; 0: that was the last. */
__u32 proc_next(DIR *directory);

/* As it stands there, with a 0 behind; how many bytes. */
ssize_t proc_read(__u32 id, const char *name, char *out, size_t size);
/* The first line of /proc/ID/NAME. */
int proc_line(__u32 id, const char *name, char *out, size_t size);
/* A line "key: value" of /proc/ID/status, or of that of a thread of the process. */
int proc_status(__u32 id, const char *key, char *out, size_t size);
/* The last of a line of numbers: of "NSpid" the task's id in its own namespace. */
__u32 proc_last_number(const char *text);
/* A thread's id in its own namespace; 0: it is gone. */
__u32 proc_own_id(__u32 tgid, __u32 tid);
/* Of a line of /proc/PID/syscall: where the stack is, and where the thread goes on; false: it has none. */
bool proc_call_place(const char *line, __u64 *sp, __u64 *pc);
int proc_thread_status(__u32 tgid, __u32 tid, const char *key, char *out, size_t size);
/* What it is called now. */
int proc_comm(__u32 id, char *out, size_t size);

/* text: of /proc/ID/stat; -EINVAL. */
int process_stat_parse(const char *text, struct process_stat *out);
int process_stat_read(__u32 id, struct process_stat *out);

/* Whether it runs a program: threads of the kernel do not. */
bool proc_has_program(__u32 id);
/* Whether ids here are the kernel's own: in another pid namespace tasks have others. */
bool proc_has_kernel_ids(void);
/* Whether it has ended; a zombie has. */
bool task_gone(__u32 id);
/* The same without reading a file: nothing has that id any more, also not a zombie.  No, where ids are not the kernel's. */
bool task_ended(__u32 id);
/* Threads of the machine now; 0 if /proc does not say. */
__u32 proc_threads(void);
/* R, S, D, T...; 0: it is gone. */
char task_state(__u32 id);
/* The process that a thread belongs to. */
int task_leader(__u32 id, __u32 *tgid);

/* A line of /proc/PID/maps, whose end is cut off; path: in the line, "" if it has none.  False: it is no such line. */
struct proc_map_line {
	__u64 start;
	__u64 end;
	__u64 offset;
	__u64 inode;
	__u32 major;
	__u32 minor;
	char access[5]; /* "rwxp" */
	const char *path;
};

bool proc_map_line_parse(char *line, struct proc_map_line *out);
#endif /* LOCKLINE_PROC_H */
