// SPDX-License-Identifier: GPL-2.0-or-later
/* What `lockline watch` refuses, keeps and looks at, without a debug register. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "base/files_limit.h"
#include "kernel/kernel_config.h"
#include "base/online_cpus.h"
#include "watch/watch_forbidden.h"
#include "watch/watch_machine.h"
#include "watch/watch_queue.h"
#include "tap.h"

static const char *names[CACHE_LINE];

/* The variables of a line: nothing but these bytes of this one. */
static __u32 forbidden(const char *name, int first, int bytes, const char **why)
{
	memset(names, 0, sizeof(names));
	for (int i = first; i < first + bytes; i++)
		names[i] = name;
	return watch_forbidden_places(names, why);
}

static void a_byte_is_enough(void)
{
	const char *why;

	for (int byte = 0; byte < CACHE_LINE; byte++) {
		__u32 mask = forbidden("hardirq_stack_inuse", byte, 1, &why);

		CHECK(mask == 1u << byte / 8, "mask %#x of byte %d", mask, byte);
	}
	CHECK(forbidden("nmi_cr2", 20, 8, &why) == 0xc, "it lies in two eighths");
	CHECK_TEXT(why, "the entry of non-maskable interrupts uses it");
}

static void a_hot_line_is_refused_whole(void)
{
	static const char *const hot[] = {"current_task", "__preempt_count",   "cpu_current_top_of_stack",
					  "pcpu_hot",     "fixed_percpu_data", "__stack_chk_guard"};
	const char *why;

	for (size_t i = 0; i < sizeof(hot) / sizeof(*hot); i++) {
		CHECK(forbidden(hot[i], 60, 4, &why) == 0xff, "%s", hot[i]);
		CHECK_TEXT(why, "the entry code uses its line");
	}
}

static void others_may_be_watched(void)
{
	const char *why;

	CHECK(!forbidden("runqueues", 0, CACHE_LINE, &why), "a run queue");
	CHECK(!forbidden(NULL, 0, CACHE_LINE, &why), "nothing known");
	CHECK_TEXT(why, "");
}

/* A window with so many records, each of its own time from 0 on. */
static struct watch_window *window_of(__u64 records, __u64 begin_ns, __u64 end_ns, bool goes_on)
{
	const struct watch_window seen = {
		.line = 3, .places = 1, .begin_ns = begin_ns, .end_ns = end_ns, .goes_on = goes_on};
	struct watch_window *window = watch_window_new(&seen, records);

	if (!window)
		exit(1);
	for (__u64 i = 0; i < records; i++)
		window->records[i] = (struct watch_record){.ns = i};
	return watch_window_fit(window, records);
}

static void free_all(struct watch_window *window)
{
	for (struct watch_window *next; window; window = next) {
		next = window->next;
		free(window);
	}
}

static void what_is_outside_is_left_out(void)
{
	struct watch_window *window = window_of(10, 2, 7, false);

	CHECK(window->record_count == 5, "%llu", window->record_count);
	CHECK(window->records[0].ns == 2 && window->records[4].ns == 6, "from begin on, before end");
	free(window);
}

static void what_waits_is_bounded(void)
{
	struct watch_queue queue = {};
	size_t kept = 0;

	while (watch_queue_has_room(&queue, 1000) && kept < 1000) {
		watch_queue_put(&queue, window_of(1000, 0, 1000, true));
		kept++;
	}
	CHECK(kept * 1000 * sizeof(struct watch_record) <= WATCH_WAITING_MOST, "%zu windows", kept);
	CHECK(kept > 200, "%zu windows", kept);
	CHECK(!watch_queue_has_room(&queue, ~0ull / 2 / sizeof(struct watch_record)), "as many as there can be");
	free_all(watch_queue_take(&queue));
	CHECK(watch_queue_has_room(&queue, 1000), "they were taken");
}

/* As long as nobody looks, slices without records take no memory of their own. */
static void slices_of_nothing_are_one(void)
{
	struct watch_queue queue = {};
	struct watch_window *first, *slice;
	size_t bytes;

	watch_queue_put(&queue, window_of(2, 0, 10, false));
	bytes = queue.bytes;
	for (__u64 i = 1; i < 100; i++) {
		slice = window_of(0, 10 * i, 10 * i + 10, true);
		slice->lost = slice->hits = 5;
		watch_queue_put(&queue, slice);
	}
	CHECK(queue.bytes == bytes, "%zu of %zu bytes", queue.bytes, bytes);
	watch_queue_put(&queue, window_of(1, 0, 10, true));
	watch_queue_put(&queue, window_of(0, 0, 10, false));
	first = watch_queue_take(&queue);
	CHECK(first->end_ns == 1000 && first->lost == 495, "until %llu, %llu lost", first->end_ns, first->lost);
	CHECK(first->next && first->next->record_count == 1, "one with records is its own");
	CHECK(first->next && first->next->next && !first->next->next->goes_on, "so is one that begins anew");
	free_all(first);
	watch_queue_put(&queue, window_of(0, 0, 10, true));
	CHECK(queue.first && queue.first->end_ns == 10, "the one before was taken");
	free_all(watch_queue_take(&queue));
}

static void cpus_come_and_go(void)
{
	char path[] = "/tmp/lockline_online_XXXXXX";
	struct id_list wanted = {}, list;
	struct online_cpus online;
	__u32 two[] = {1, 9};
	int fd = mkstemp(path);

	CHECK(fd >= 0 && write(fd, "0-2\n", 4) == 4, "%s", path);
	CHECK(!online_cpus_open(&online, path), "opened");
	CHECK(!online_cpus_changed(&online), "the same");
	CHECK(pwrite(fd, "0,2\n", 4, 0) == 4, "written");
	CHECK(online_cpus_changed(&online), "CPU 1 went");
	CHECK(!online_cpus_changed(&online), "it is reported once");
	CHECK(!online_cpus_list(&online, &wanted, &list), "\"%s\"", online.text);
	CHECK(list.count == 2 && list.ids[0] == 0 && list.ids[1] == 2, "%zu of them", list.count);
	free(list.ids);
	CHECK(pwrite(fd, "0-9\n", 4, 0) == 4 && online_cpus_changed(&online), "all came");
	wanted = (struct id_list){.ids = two, .count = 2};
	CHECK(!online_cpus_list(&online, &wanted, &list), "\"%s\"", online.text);
	CHECK(list.count == 2 && list.ids[0] == 1 && list.ids[1] == 9, "%zu of them", list.count);
	free(list.ids);
	CHECK(!ftruncate(fd, 0) && !online_cpus_changed(&online), "what cannot be read changes nothing");
	online_cpus_close(&online);
	close(fd);
	unlink(path);
	CHECK(online_cpus_open(&online, path), "there is none");
}

static void cpus_of_a_list(void)
{
	char path[] = "/tmp/lockline_present_XXXXXX";
	int fd = mkstemp(path);
	__u32 end;

	CHECK(fd >= 0 && write(fd, "0-3,8-11\n", 9) == 9, "%s", path);
	CHECK(cpus_listed(path, 0, &end) == 8 && end == 12, "to %u", end);
	CHECK(cpus_listed(path, 4, &end) == 4 && end == 12, "to %u", end);
	CHECK(!cpus_listed(path, 12, &end) && end == 12, "to %u", end);
	CHECK(pwrite(fd, "0-b,8-11\n", 9, 0) == 9 && !cpus_listed(path, 0, &end) && !end, "no list: to %u", end);
	close(fd);
	unlink(path);
	CHECK(!cpus_listed(path, 0, &end) && !end, "there is none: to %u", end);
}

static void the_limit_of_files(void)
{
	struct rlimit was, now;

	CHECK(!getrlimit(RLIMIT_NOFILE, &was) && was.rlim_max > 64, "%llu", (unsigned long long)was.rlim_max);
	was.rlim_cur = 64;
	CHECK(!setrlimit(RLIMIT_NOFILE, &was), "lowered");
	files_limit_restore();
	CHECK(!getrlimit(RLIMIT_NOFILE, &now) && now.rlim_cur == 64, "never raised");
	files_limit_raise();
	files_limit_raise();
	CHECK(!getrlimit(RLIMIT_NOFILE, &now) && now.rlim_cur == was.rlim_max, "raised");
	files_limit_restore();
	CHECK(!getrlimit(RLIMIT_NOFILE, &now) && now.rlim_cur == 64 && now.rlim_max == was.rlim_max, "as before");
}

static void options_of_the_kernel(void)
{
	static const char text[] = "# comment\nCONFIG_A=y\nCONFIG_AB=m\n# CONFIG_B is not set\nCONFIG_C=y\n";
	char plain[] = "/tmp/lockline_config_XXXXXX", zipped[] = "/tmp/lockline_config_XXXXXX";
	int fd = mkstemp(plain), zfd = mkstemp(zipped);
	gzFile file = gzdopen(dup(zfd), "wb");
	off_t size;

	CHECK(write(fd, text, strlen(text)) > 0, "%s", plain);
	CHECK(gzputs(file, text) > 0 && gzclose(file) == Z_OK, "%s", zipped);
	for (int i = 0; i < 2; i++) {
		const char *path = i ? zipped : plain;

		CHECK(kernel_config_read(path, "CONFIG_A") == OPTION_ON, "%s", path);
		CHECK(kernel_config_read(path, "CONFIG_C") == OPTION_ON, "%s", path);
		CHECK(kernel_config_read(path, "CONFIG_AB") == OPTION_OFF, "%s", path);
		CHECK(kernel_config_read(path, "CONFIG_B") == OPTION_OFF, "%s", path);
		CHECK(kernel_config_read(path, "CONFIG_NO") == OPTION_OFF, "%s", path);
	}
	size = lseek(zfd, 0, SEEK_END);
	CHECK(!ftruncate(zfd, size - 12), "cut");
	CHECK(kernel_config_read(zipped, "CONFIG_NO") == OPTION_UNKNOWN, "cut short");
	CHECK(!ftruncate(zfd, 0) && kernel_config_read(zipped, "CONFIG_A") == OPTION_UNKNOWN, "empty");
	close(fd);
	close(zfd);
	unlink(plain);
	unlink(zipped);
	CHECK(kernel_config_read(plain, "CONFIG_A") == OPTION_UNKNOWN, "there is none");
}

static void atomics_of_arm64(void)
{
	CHECK(watch_lse_refusal(false, OPTION_ON, false, false), "the processor has none");
	CHECK(!watch_lse_refusal(true, OPTION_ON, true, true), "both have them");
	CHECK(watch_lse_refusal(true, OPTION_OFF, true, false), "the kernel has none");
	CHECK(!watch_lse_refusal(true, OPTION_OFF, false, true), "a process's memory");
	CHECK(watch_lse_refusal(true, OPTION_UNKNOWN, true, true), "not known, and nothing ends it");
	CHECK(!watch_lse_refusal(true, OPTION_UNKNOWN, true, false), "not known, but limited");
}

int main(void)
{
	static const struct test tests[] = {
		TEST(a_byte_is_enough),      TEST(a_hot_line_is_refused_whole),
		TEST(others_may_be_watched), TEST(what_is_outside_is_left_out),
		TEST(what_waits_is_bounded), TEST(slices_of_nothing_are_one),
		TEST(cpus_come_and_go),      TEST(cpus_of_a_list),
		TEST(the_limit_of_files),    TEST(options_of_the_kernel),
		TEST(atomics_of_arm64),
	};

	return RUN_TESTS(tests);
}
