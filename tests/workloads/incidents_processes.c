// SPDX-License-Identifier: GPL-2.0-or-later
/* Planted causes among several processes: what they share, and what stays locked when one of them ends or is stopped. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <unistd.h>

#include "incidents.h"
#include "workload.h"

static struct shared {
	pthread_mutex_t mutex, other;
	int semaphores;
} * shared;

/* What several processes share.  The set of semaphores is removed when all of them are gone: it would stay for ever. */
static void make_shared(bool semaphores)
{
	pthread_mutexattr_t attributes;
	int alive[2];
	char none;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(shared != MAP_FAILED, "mmap");
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->mutex, &attributes);
	pthread_mutex_init(&shared->other, &attributes);
	if (!semaphores)
		return;
	shared->semaphores = semget(IPC_PRIVATE, 1, 0600);
	must(shared->semaphores >= 0 && !semctl(shared->semaphores, 0, SETVAL, 1), "semget");
	must(!pipe(alive), "pipe");
	if (!fork()) {
		setsid();
		close(alive[1]);
		while (read(alive[0], &none, 1) > 0)
			continue;
		_exit(semctl(shared->semaphores, 0, IPC_RMID) < 0);
	}
	close(alive[0]);
}

static void prepare_mutexes(long threads)
{
	make_shared(false);
}

static void prepare_semaphores(long threads)
{
	make_shared(true);
}

/* Two processes, each with one mutex in shared memory. */
static void deadlock_of_processes_once(long thread)
{
	must(!pthread_mutex_lock(thread % 2 ? &shared->mutex : &shared->other), "lock");
	sleep_us(300000);
	must(!pthread_mutex_lock(thread % 2 ? &shared->other : &shared->mutex), "lock");
	die("no deadlock");
}

static void deadlock_of_processes(long thread)
{
	as_process(thread, deadlock_of_processes_once);
}

/* Who had the mutex of several processes has ended. */
static void orphaned_once(long thread)
{
	if (thread)
		sleep_us(300000);
	must(!pthread_mutex_lock(&shared->mutex), "lock");
	_exit(0);
}

static void orphaned(long thread)
{
	if (thread)
		as_process(thread, orphaned_once);
	if (!fork())
		orphaned_once(thread);
	for (;;)
		pause();
}

/* The semaphore of several processes was taken by one that has ended, without SEM_UNDO. */
static void leak_shared_once(long thread)
{
	struct sembuf take = {.sem_op = -1};

	if (thread)
		sleep_us(300000);
	must(!semop(shared->semaphores, &take, 1), "semop");
	_exit(0);
}

static void leak_shared(long thread)
{
	if (thread)
		as_process(thread, leak_shared_once);
	if (!fork())
		leak_shared_once(thread);
	for (;;)
		pause();
}

static void lock_file_once(long thread)
{
	static int locked = -1;

	if (locked < 0)
		locked = open("incident.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(locked >= 0 && !flock(locked, LOCK_EX), "flock");
	sleep_us(thread ? 500 : 40000);
	must(!flock(locked, LOCK_UN), "flock");
	sleep_us(300);
}

static void lock_file(long thread)
{
	as_process(thread, lock_file_once);
}

/* A lock of a part of a file, which nobody waits for: who does not get it sleeps for a moment, and asks again. */
static void ask_once(long thread)
{
	static const useconds_t naps_us[] = {1000, 2000, 5000, 10000, 15000, 20000, 25000};
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	static int file = -1;
	unsigned int asked;

	if (file < 0)
		file = open("asked.db", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(file >= 0, "asked.db");
	for (asked = 0; fcntl(file, F_SETLK, &all); asked++)
		sleep_us(naps_us[asked < 6 ? asked : 6]);
	sleep_us(thread ? 1000 : 60000);
	all.l_type = F_UNLCK;
	must(!fcntl(file, F_SETLK, &all), "unlock");
	sleep_us(thread ? 1000 : 3000);
}

static void ask_for_lock(long thread)
{
	as_process(thread, ask_once);
}

/* One leads, for as long as it has the lock; the others stand by, and have nothing to do until it ends. */
static void stand_by_once(long thread)
{
	int file = open("leader.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	must(file >= 0, "leader.lock");
	sleep_us(thread ? 200000 : 0);
	while (flock(file, LOCK_EX | LOCK_NB))
		sleep_us(900000);
	for (;;)
		sleep_us(5000);
}

static void stand_by(long thread)
{
	as_process(thread, stand_by_once);
}

static void take_semaphore_once(long thread)
{
	struct sembuf take = {.sem_op = -1, .sem_flg = SEM_UNDO}, give = {.sem_op = 1, .sem_flg = SEM_UNDO};

	must(!semop(shared->semaphores, &take, 1), "semop");
	sleep_us(thread ? 500 : 40000);
	must(!semop(shared->semaphores, &give, 1), "semop");
	sleep_us(300);
}

static void take_semaphore(long thread)
{
	as_process(thread, take_semaphore_once);
}

/* The one who has the mutex of several processes was stopped, as by Ctrl-Z or a debugger. */
static void stopped_once(long thread)
{
	if (thread)
		sleep_us(300000);
	must(!pthread_mutex_lock(&shared->mutex), "lock");
	if (!thread)
		raise(SIGSTOP);
	pthread_mutex_unlock(&shared->mutex);
}

static void stopped(long thread)
{
	as_process(thread, stopped_once);
}

const struct incident process_incidents[] = {
	{"file-lock", lock_file, NULL},
	{"asked-lock", ask_for_lock, NULL},
	{"stand-by", stand_by, NULL},
	{"semaphore", take_semaphore, prepare_semaphores},
	{"stopped", stopped, prepare_mutexes},
	{"deadlock-of-processes", deadlock_of_processes, prepare_mutexes},
	{"orphaned", orphaned, prepare_mutexes},
	{"leaked-sysv", leak_shared, prepare_semaphores},
	{NULL, NULL, NULL},
};
