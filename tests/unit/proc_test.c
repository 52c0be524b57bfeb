// SPDX-License-Identifier: GPL-2.0-or-later
/* What is read of /proc: of ourselves, of a child, of nobody. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/proc_mapping.h"
#include "base/small_file.h"
#include "tap.h"

/* PID_MAX_LIMIT is 2^22. */
#define NOBODY 4194305

#define STAT(state, threads) "12 (a) b) (c) " state " 1 2 3 4 -1 5 6 7 8 9 10 11 12 13 20 0 " threads " 0 7788 99 1\n"

static void who_a_process_is(void)
{
	struct process_stat found;

	CHECK(!process_stat_parse(STAT("S", "1"), &found), "parsed");
	CHECK(found.start_time == 7788 && !found.ended, "%llu", found.start_time);
	CHECK(found.cpu_ticks == 10 + 11 + 12 + 13, "%llu", found.cpu_ticks);
	CHECK(!process_stat_parse(STAT("Z", "1"), &found) && found.ended, "a zombie");
	CHECK(!process_stat_parse(STAT("Z", "3"), &found) && !found.ended, "others of it go on");
	CHECK(process_stat_parse("", &found) && process_stat_parse("1 (x) S 1 2", &found), "cut short");
	CHECK(!process_stat_read(getpid(), &found) && found.start_time, "ourselves");
	CHECK(process_stat_read(NOBODY, &found), "there is no such id");
}

static void fields_of_stat(void)
{
	struct process_stat found;

	CHECK(!process_stat_parse(
		      "7 (a) S 6 1 1 0 -1 4 5 6 7 8 9 10 11 12 -51 0 1 0 99 1 2 3 4 5 6 7 8 9 10 11 12 13 14 "
		      "15 16 2 50 1 0\n",
		      &found),
	      "whole");
	CHECK(found.state == 'S' && found.parent == 6 && found.start_time == 99, "%c %u", found.state, found.parent);
	CHECK(found.priority == 49 && found.policy == SCHED_FIFO, "%d %d", found.priority, found.policy);
	CHECK(!process_stat_parse(STAT("S", "1"), &found) && found.policy == -1, "no policy: %d", found.policy);
	CHECK(found.priority == 120, "%d", found.priority);
	CHECK(!process_stat_parse("7 (a)\nb) S 6 1 1 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 99 1\n", &found) &&
		      found.parent == 6,
	      "a name of two lines");
	CHECK(process_stat_parse("7 (a) S 6 1 1 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 x 1\n", &found), "no number");
}

static void a_child(void)
{
	char text[64];
	__u32 leader = 0;
	int ends[2];
	pid_t child;

	if (pipe(ends))
		return;
	child = fork();
	if (!child) {
		prctl(PR_SET_NAME, "two words");
		if (write(ends[1], "", 1) == 1)
			pause();
		_exit(0);
	}
	CHECK(read(ends[0], text, 1) == 1, "it runs");
	CHECK(!proc_comm(child, text, sizeof(text)), "comm");
	CHECK_TEXT(text, "two words");
	CHECK(!proc_line(child, "comm", text, 4), "cut");
	CHECK_TEXT(text, "two");
	CHECK(proc_read(child, "comm", text, sizeof(text)) == 10, "whole: %s", text);
	CHECK_TEXT(text, "two words\n");
	CHECK(!proc_thread_status(child, child, "Tgid", text, sizeof(text)) && atoi(text) == child, "%s", text);
	CHECK(!task_leader(child, &leader) && leader == (__u32)child, "%u", leader);
	CHECK(!task_gone(child), "it lives");
	kill(child, SIGKILL);
	waitid(P_PID, child, NULL, WEXITED | WNOWAIT);
	CHECK(task_gone(child) && task_state(child) == 'Z', "a zombie");
	waitpid(child, NULL, 0);
	CHECK(task_gone(child) && !task_state(child), "gone");
	close(ends[0]);
	close(ends[1]);
}

static void nobody(void)
{
	struct proc_mapping mapping;
	char text[32] = "x";
	__u32 leader;

	CHECK(proc_comm(NOBODY, text, sizeof(text)) == -ENOENT && !*text, "comm");
	text[0] = 'x';
	CHECK(proc_read(NOBODY, "comm", text, sizeof(text)) == -ENOENT && !*text, "comm, whole");
	CHECK(proc_status(NOBODY, "State", text, sizeof(text)) && !*text, "status");
	CHECK(proc_status(getpid(), "NoSuchKey", text, sizeof(text)) == -ENOENT && !*text, "no such line");
	CHECK(task_leader(NOBODY, &leader), "leader");
	CHECK(!proc_open(NOBODY, "maps") && proc_open_fd(NOBODY, "mem") == -ENOENT, "open");
	CHECK(!proc_open_directory(NOBODY, "task"), "directory");
	CHECK(proc_mapping_at(NOBODY, 0, &mapping) == -ENOENT, "mapping");
}

static void mappings(void)
{
	struct proc_mapping code, anonymous;
	char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	__u64 address = (__u64)(unsigned long)mappings;

	CHECK(!proc_mapping_at(getpid(), address, &code), "code");
	CHECK(code.start <= address && address < code.end && code.inode, "%llx-%llx", code.start, code.end);
	CHECK(strstr(code.path, "/proc_test"), "%s", code.path);
	CHECK(!proc_mapping_at(getpid(), (unsigned long)page, &anonymous) && !anonymous.inode, "memory without a file");
	CHECK(proc_mapping_at(getpid(), 1, &code) == -ENOENT, "nothing is mapped there");
	munmap(page, 4096);
}

static struct proc_mapping mapping_of(int fd, int protection, int flags, void **memory)
{
	struct proc_mapping mapping = {};

	*memory = mmap(NULL, 4096, protection, flags, fd, 0);
	CHECK(*memory != MAP_FAILED && !proc_mapping_at(getpid(), (unsigned long)*memory, &mapping), "mapped");
	return mapping;
}

/* Who only reads a file, or writes a copy of it, can take no lock that another process has in it. */
static void memory_of_two(void)
{
	const int fd = memfd_create("lock", 0);
	struct proc_mapping mapping;
	void *memory, *written;

	CHECK(!ftruncate(fd, 4096), "a page");
	mapping = mapping_of(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE, &memory);
	CHECK(mapping.inode && !proc_shares_memory_of(getpid(), &mapping), "a copy");
	mapping_of(fd, PROT_READ | PROT_WRITE, MAP_SHARED, &written);
	CHECK(!proc_shares_memory_of(getpid(), &mapping), "a copy, whoever shares the file");
	munmap(written, 4096);
	munmap(memory, 4096);
	mapping = mapping_of(fd, PROT_READ, MAP_SHARED, &memory);
	CHECK(!proc_shares_memory_of(getpid(), &mapping), "nobody writes it");
	mapping_of(fd, PROT_READ | PROT_WRITE, MAP_SHARED, &written);
	CHECK(proc_shares_memory_of(getpid(), &mapping), "written through the other mapping");
	CHECK(!proc_shares_memory_of(NOBODY, &mapping), "no process");
	munmap(written, 4096);
	munmap(memory, 4096);
	close(fd);
}

static void names_of_tasks_alone(void)
{
	DIR *all = opendir("/proc"), *own = proc_open_directory(getpid(), "task");
	bool found = false;
	__u32 id;

	while ((id = proc_next(all)))
		found |= id == (__u32)getpid();
	CHECK(found, "among the processes");
	CHECK(proc_next(own) == (__u32)getpid() && !proc_next(own), "one thread");
	closedir(all);
	closedir(own);
}

static void paths_are_cut(void)
{
	char path[12];

	proc_path(path, sizeof(path), 12345, "task/%u/comm", 1);
	CHECK_TEXT(path, "/proc/12345");
	proc_path(path, sizeof(path), 1, "%s", "comm");
	CHECK_TEXT(path, "/proc/1/com");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(who_a_process_is), TEST(fields_of_stat),       TEST(a_child),       TEST(nobody), TEST(mappings),
		TEST(memory_of_two),    TEST(names_of_tasks_alone), TEST(paths_are_cut),
	};

	return RUN_TESTS(tests);
}
