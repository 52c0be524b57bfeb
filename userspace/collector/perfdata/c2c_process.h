/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `perf c2c record` as a child: started with its events off, turned on and off
 * by perf's own control pipe, and never left behind: it gets SIGTERM when the
 * collector dies.
 */
#ifndef LOCKLINE_C2C_PROCESS_H
#define LOCKLINE_C2C_PROCESS_H

#include <limits.h>
#include <sys/types.h>

#define C2C_ARGUMENTS 24
#define C2C_TEXT      384

struct c2c_request {
	const char *perf;  /* a path, or a name looked for in PATH */
	const char *file;  /* what it writes */
	const char *cpus;  /* "0,3", or NULL: all */
	const char *ldlat; /* cycles, or NULL: perf's default */
};

struct c2c_process {
	pid_t pid;   /* 0: none */
	int control; /* commands to perf; -1: none */
	int answers; /* its "ack" */
	int output;  /* what it printed, in memory */
	char control_option[64];
	char command[PATH_MAX + C2C_TEXT]; /* as it would be typed */
	char why[C2C_TEXT];                /* of the last failure, for people */
};

/* The arguments for execvp(), NULL last; they point into request and process. */
void c2c_arguments(const struct c2c_request *request, struct c2c_process *process, const char *out[C2C_ARGUMENTS]);

/*
 * Starts perf and waits until its events are open, though off.  Negative errno
 * with the reason in why, and no child then.
 */
int c2c_process_start(struct c2c_process *process, const struct c2c_request *request);
/* From here on it samples. */
int c2c_process_enable(struct c2c_process *process);
/* It samples no more, and begins to finish its file. */
void c2c_process_end(struct c2c_process *process);
/* Waits until the file is whole.  Negative errno, with why, if perf failed or had ended before it was told to. */
int c2c_process_wait(struct c2c_process *process);
/* At any time: ends one that still runs, and frees. */
void c2c_process_close(struct c2c_process *process);

#endif /* LOCKLINE_C2C_PROCESS_H */
