// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>

#include "containers/cgroup_mounts.h"
#include "base/small_file.h"
#include "tap.h"

static struct cgroup_mounts got;

static void read_mounts(const char *text)
{
	FILE *file = fmemopen((void *)text, strlen(text), "r");
	int err = cgroup_mounts_parse(&got, file);

	fclose(file);
	CHECK(!err, "%d", err);
}

static void hybrid_machine(void)
{
	read_mounts("22 1 0:2 / / rw - ext4 /dev/vda rw\n"
		    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
		    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
		    "35 31 0:32 / /sys/fs/cgroup/memory rw shared:11 master:2 - cgroup cgroup rw,seclabel,memory\n"
		    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
		    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n");
	CHECK(got.count == 4, "%zu", got.count);
	CHECK(got.mounts[0].v2, "v2 comes first");
	CHECK_TEXT(got.mounts[0].directory, "/sys/fs/cgroup/unified");
	CHECK_TEXT(got.mounts[1].controllers, "cpu,cpuacct");
	CHECK_TEXT(got.mounts[1].controller, "cpu");
	CHECK_TEXT(got.mounts[2].controllers, "memory");
	CHECK_TEXT(got.mounts[3].controller, "");
	cgroup_mounts_free(&got);
}

static void v2_machine(void)
{
	read_mounts("30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 "
		    "rw,nsdelegate,memory_recursiveprot\n");
	CHECK(got.count == 1 && got.mounts[0].v2 && !got.mounts[0].controllers[0], "%zu", got.count);
	cgroup_mounts_free(&got);
}

static void odd_directories(void)
{
	read_mounts("30 24 0:26 / /mnt/a\\040b\\134c - cgroup2 none rw\n"
		    "31 24 0:26 / /mnt/\\999 - cgroup2 none rw\n");
	CHECK(got.count == 2, "%zu", got.count);
	CHECK_TEXT(got.mounts[0].directory, "/mnt/a b\\c");
	CHECK_TEXT(got.mounts[1].directory, "/mnt/\\999");
	cgroup_mounts_free(&got);
}

static void broken_lines(void)
{
	static char text[40000];
	size_t used = 0;

	read_mounts("\n - \n - cgroup2\n - cgroup2 x y\n1 2 3 4 - cgroup2 x y\n1 2 3 4 relative rw - cgroup2 x y\n"
		    "1 2 3 / /a rw - cgroup x\n- - - - - - -\n");
	CHECK(got.count == 0, "%zu", got.count);
	cgroup_mounts_free(&got);
	/* a directory longer than a path can be, and more mounts than are kept */
	used += snprintf(text, sizeof(text), "1 2 3 / /%0*d rw - cgroup2 x y\n", 5000, 0);
	while (used + 64 < sizeof(text))
		used += snprintf(text + used, sizeof(text) - used, "1 2 3 / /a rw - cgroup%s x rw,pids\n",
				 used & 1 ? "2" : "");
	read_mounts(text);
	CHECK(got.count == 64, "%zu", got.count);
	cgroup_mounts_free(&got);
	/* controllers without end */
	used = snprintf(text, sizeof(text), "1 2 3 / /a rw - cgroup x rw");
	while (used + 64 < sizeof(text))
		used += snprintf(text + used, sizeof(text) - used, ",controller%zu,,", used);
	read_mounts(text);
	CHECK(got.count == 1 && strlen(got.mounts[0].controllers) < sizeof(got.mounts[0].controllers), "%zu",
	      got.count);
	CHECK_TEXT(got.mounts[0].controller, "controller27");
	cgroup_mounts_free(&got);
}

static void small_files(void)
{
	char text[16] = "a\tb\001c\377 d \n", line[8], name[] = "/tmp/lockline-test-XXXXXX";
	int fd = mkstemp(name);
	FILE *file = fdopen(fd, "w");

	make_printable(text);
	CHECK_TEXT(text, "a b?c? d");
	CHECK(has_word("quiet nopvspin debug", "nopvspin"), "inside");
	CHECK(has_word("nopvspin", "nopvspin"), "alone");
	CHECK(!has_word("hv_nopvspin nopvspinx", "nopvspin"), "part of a word");
	CHECK(!has_word("", "nopvspin"), "nothing");
	fputs("model name\t: AMD EPYC\nCapEff:\t000001ff\nlonger than the buffer: x", file);
	fclose(file);
	CHECK(!first_line(name, line, sizeof(line)), "cut");
	CHECK_TEXT(line, "model n");
	CHECK(!value_of_key(name, "model name", text, sizeof(text)), "key");
	CHECK_TEXT(text, "AMD EPYC");
	CHECK(!value_of_key(name, "CapEff", text, sizeof(text)), "key");
	CHECK_TEXT(text, "000001ff");
	CHECK(value_of_key(name, "model", line, sizeof(line)) == 0, "a key may go on after a blank");
	CHECK(value_of_key(name, "Cap", text, sizeof(text)) < 0, "part of a key");
	remove(name);
	CHECK(first_line(name, line, sizeof(line)) < 0 && !line[0], "no such file");
}

static const struct test tests[] = {
	TEST(hybrid_machine), TEST(v2_machine), TEST(odd_directories), TEST(broken_lines), TEST(small_files),
};

int main(void)
{
	return RUN_TESTS(tests);
}
