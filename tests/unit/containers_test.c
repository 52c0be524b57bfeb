// SPDX-License-Identifier: GPL-2.0-or-later
/* Trees as the container runtimes leave them, made in a directory that stands for the root. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>

#include "containers/containers.h"
#include "tap.h"

#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID   "11111111-2222-3333-4444-555555555555"
#define UID_  "11111111_2222_3333_4444_555555555555"
#define POD   "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice"

static char root[64];
static struct containers *containers;
static struct container got;

static int remove_one(const char *path, const struct stat *stat_of, int flag, struct FTW *ftw)
{
	return remove(path);
}

static void begin(void)
{
	strcpy(root, "/tmp/containers_test.XXXXXX");
	if (!mkdtemp(root) || containers_open(&containers, root))
		abort();
}

static void end(void)
{
	containers_close(containers);
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *place(const char *path)
{
	static char full[4096];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(full, 0755);
		*at = '/';
	}
	return full;
}

static void put_file(const char *path, const char *text)
{
	FILE *file = fopen(place(path), "w");

	if (!file)
		abort();
	fputs(text, file);
	fclose(file);
}

static void put_link(const char *path)
{
	if (symlink("/nowhere", place(path)))
		abort();
}

static void paths(void)
{
	static const struct {
		const char *path, *runtime, *id, *pod_uid, *unit, *slice, *name;
	} cases[] = {
		{"/", "", "", "", "", "", ""},
		{"", "", "", "", "", "", ""},
		/* systemd driver */
		{"/system.slice/docker-" ID ".scope", "docker", ID, "", "docker-" ID ".scope", "system.slice", ""},
		{POD "/cri-containerd-" ID ".scope", "containerd", ID, UID, "cri-containerd-" ID ".scope",
		 "kubepods-burstable-pod" UID_ ".slice", ""},
		{POD "/crio-" ID ".scope/container", "cri-o", ID, UID, "crio-" ID ".scope",
		 "kubepods-burstable-pod" UID_ ".slice", ""},
		{POD "/crio-conmon-" ID ".scope", "", "", UID, "crio-conmon-" ID ".scope",
		 "kubepods-burstable-pod" UID_ ".slice", ""},
		{POD, "", "", UID, "", "kubepods-burstable-pod" UID_ ".slice", ""},
		{"/machine.slice/libpod-" ID ".scope/container", "podman", ID, "", "libpod-" ID ".scope",
		 "machine.slice", ""},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", "podman", ID, "",
		 "libpod-" ID ".scope", "user.slice", ""},
		{"/machine.slice/libpod-conmon-" ID ".scope", "", "", "", "libpod-conmon-" ID ".scope", "machine.slice",
		 ""},
		/* cgroupfs driver */
		{"/docker/" ID, "docker", ID, "", "", "", ""},
		{"/libpod_parent/libpod-" ID, "podman", ID, "", "", "", ""},
		{"/kubepods/besteffort/pod" UID "/" ID, "", ID, UID, "", "", ""},
		{"/kubepods/pod0123456789abcdef0123456789abcdef/" ID, "", ID, "0123456789abcdef0123456789abcdef", "",
		 "", ""},
		{"/kubepods/pod" UID "/crio-" ID, "cri-o", ID, UID, "", "", ""},
		/* a driver of systemd's that containerd did not know of */
		{"/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID,
		 "containerd", ID, UID, "containerd.service", "system.slice", ""},
		/* a cluster inside a container: the inner one */
		{"/docker/" OTHER "/kubelet/kubepods/pod" UID "/" ID, "", ID, UID, "", "", ""},
		{"/lxc.payload.web/system.slice/nginx.service", "lxc", "", "", "nginx.service", "system.slice", "web"},
		{"/lxc/db", "lxc", "", "", "", "", "db"},
		{"/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt", "machine", "", "",
		 "machine-qemu\\x2d1\\x2dvm.scope", "machine.slice", "qemu-1-vm"},
		{"/system.slice/ssh.service", "", "", "", "ssh.service", "system.slice", ""},
		/* what only looks like one */
		{"/docker/buildkit/abc", "", "", "", "", "", ""},
		{"/docker/" ID "0", "", "", "", "", "", ""},
		{"/system.slice/docker-0123.scope", "", "", "", "docker-0123.scope", "system.slice", ""},
		{"/podxyz/podium", "", "", "", "", "", ""},
		{"/.slice/.service", "", "", "", "", "", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		container_of_path(cases[i].path, &got);
		CHECK_TEXT(got.runtime, cases[i].runtime);
		CHECK_TEXT(got.id, cases[i].id);
		CHECK_TEXT(got.pod_uid, cases[i].pod_uid);
		CHECK_TEXT(got.unit, cases[i].unit);
		CHECK_TEXT(got.slice, cases[i].slice);
		CHECK_TEXT(got.name, cases[i].name);
	}
}

static void long_paths(void)
{
	static char path[20000];
	size_t used = 0;

	while (used + 600 < sizeof(path))
		used += sprintf(path + used, "/%0500d.service", 0);
	container_of_path(path, &got);
	CHECK(strlen(got.unit) < sizeof(got.unit), "%zu", strlen(got.unit));
}

static void containerd(void)
{
	begin();
	put_file("run/containerd/io.containerd.runtime.v2.task/k8s.io/" ID "/config.json",
		 "{\"ociVersion\":\"1\",\"annotations\":{\"io.kubernetes.cri.container-name\":\"nginx\","
		 "\"io.kubernetes.cri.image-name\":\"docker.io/library/nginx:1.27\","
		 "\"io.kubernetes.cri.sandbox-name\":\"web-7d\",\"io.kubernetes.cri.sandbox-namespace\":\"shop\","
		 "\"io.kubernetes.cri.sandbox-uid\":\"" UID "\"}}");
	container_find(containers, POD "/cri-containerd-" ID ".scope", &got);
	CHECK_TEXT(got.runtime, "containerd");
	CHECK_TEXT(got.name, "nginx");
	CHECK_TEXT(got.image, "docker.io/library/nginx:1.27");
	CHECK_TEXT(got.pod, "web-7d");
	CHECK_TEXT(got.space, "shop");
	CHECK_TEXT(got.source, "config.json");
	container_find(containers, "/kubepods/burstable/pod" UID "/" ID, &got);
	CHECK_TEXT(got.runtime, "containerd");
	CHECK_TEXT(got.pod, "web-7d");
	end();
}

static void crio(void)
{
	begin();
	put_file("run/containers/storage/overlay-containers/" ID "/userdata/config.json",
		 "{\"annotations\":{\"io.kubernetes.container.name\":\"db\",\"io.kubernetes.pod.name\":\"pg-0\","
		 "\"io.kubernetes.pod.namespace\":\"data\",\"io.kubernetes.cri-o.ImageName\":\"quay.io/pg:16\"}}");
	container_find(containers, POD "/crio-" ID ".scope", &got);
	CHECK_TEXT(got.runtime, "cri-o");
	CHECK_TEXT(got.name, "db");
	CHECK_TEXT(got.pod, "pg-0");
	CHECK_TEXT(got.space, "data");
	CHECK_TEXT(got.image, "quay.io/pg:16");
	CHECK_TEXT(got.pod_uid, UID);
	end();
}

static void docker(void)
{
	begin();
	put_file("var/lib/docker/containers/" ID "/config.v2.json",
		 "{\"ID\":\"" ID "\",\"Name\":\"/web\",\"Config\":{\"Image\":\"nginx:1\",\"Labels\":{}}}");
	put_file("var/lib/docker/containers/" OTHER "/config.v2.json",
		 "{\"ID\":\"" OTHER "\",\"Name\":\"/k8s_x\",\"Config\":{\"Image\":\"i\",\"Labels\":{"
		 "\"io.kubernetes.container.name\":\"app\",\"io.kubernetes.pod.name\":\"p\","
		 "\"io.kubernetes.pod.namespace\":\"n\"}}}");
	container_find(containers, "/docker/" ID, &got);
	CHECK_TEXT(got.name, "web");
	CHECK_TEXT(got.image, "nginx:1");
	CHECK_TEXT(got.pod, "");
	container_find(containers, POD "/docker-" OTHER ".scope", &got);
	CHECK_TEXT(got.name, "app");
	CHECK_TEXT(got.pod, "p");
	CHECK_TEXT(got.space, "n");
	end();
}

static void podman(void)
{
	begin();
	put_file("var/lib/containers/storage/overlay-containers/containers.json",
		 "[7,{\"id\":\"" OTHER "\",\"names\":[\"other\"]},{\"id\":\"" ID "\",\"names\":[\"cache\",\"x\"],"
		 "\"metadata\":\"{\\\"image-name\\\":\\\"docker.io/redis:7\\\"}\"}]");
	container_find(containers, "/machine.slice/libpod-" ID ".scope", &got);
	CHECK_TEXT(got.runtime, "podman");
	CHECK_TEXT(got.name, "cache");
	CHECK_TEXT(got.image, "docker.io/redis:7");
	container_find(containers, "/libpod_parent/libpod-" OTHER, &got);
	CHECK_TEXT(got.name, "other");
	CHECK_TEXT(got.image, "");
	end();
}

static void log_links(void)
{
	begin();
	put_link("var/log/containers/web-7d_shop_nginx-" ID ".log");
	put_link("var/log/containers/nonsense.log");
	put_link("var/log/containers/-" OTHER ".log");
	mkdir(place("var/log/pods/shop_web-7d_" UID), 0755);
	mkdir(place("var/log/pods/_"), 0755);
	container_find(containers, "/kubepods/pod" UID "/" ID, &got);
	CHECK_TEXT(got.pod, "web-7d");
	CHECK_TEXT(got.space, "shop");
	CHECK_TEXT(got.name, "nginx");
	CHECK_TEXT(got.source, "log link");
	/* of the pod's own cgroup, and of a container without a log, the pod is known */
	container_find(containers, POD, &got);
	CHECK_TEXT(got.pod, "web-7d");
	CHECK_TEXT(got.space, "shop");
	CHECK_TEXT(got.name, "");
	container_find(containers, "/kubepods/pod" UID "/" OTHER, &got);
	CHECK_TEXT(got.pod, "web-7d");
	CHECK_TEXT(got.name, "");
	end();
}

static void damaged(void)
{
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"null",
		"7",
		"{\"annotations\":7}",
		"{\"annotations\":{\"io.kubernetes.cri.container-name\":{\"a\":1}}}",
		"{\"annotations\":{\"io.kubernetes.cri.container-name\":null}}",
		"[{\"id\":7,\"names\":7}]",
		"[{\"id\":\"" ID "\",\"names\":\"x\",\"metadata\":\"{\"}]",
		"\xff\xfe",
	};
	static const char escape[] = "{\"Name\":\"/a\\u001b[1mb\"}";
	static char deep[200000];

	begin();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (int file = CONTAINER_FILE_BUNDLE; file <= CONTAINER_FILE_PODMAN; file++) {
			container_of_path("/docker/" ID, &got);
			container_from_json(containers, file, texts[i], strlen(texts[i]), &got);
			CHECK(!got.name[0], "%s: %s", texts[i], got.name);
		}
	memset(deep, '[', sizeof(deep) - 1);
	CHECK(container_from_json(containers, CONTAINER_FILE_PODMAN, deep, strlen(deep), &got) == -EINVAL, "deep");
	/* control characters do not reach a terminal */
	container_of_path("/docker/" ID, &got);
	container_from_json(containers, CONTAINER_FILE_DOCKER, escape, strlen(escape), &got);
	CHECK_TEXT(got.name, "a?[1mb");
	end();
}

static void not_files(void)
{
	begin();
	mkdir(place("var/lib/docker/containers/" ID "/config.v2.json"), 0755);
	if (mkfifo(place("run/containers/storage/overlay-containers/" ID "/userdata/config.json"), 0600))
		abort();
	put_link("run/containerd/io.containerd.runtime.v2.task/k8s.io/" ID "/config.json");
	put_file("var/lib/containers/storage/overlay-containers/containers.json", "");
	if (truncate(place("var/lib/containers/storage/overlay-containers/containers.json"), 1ll << 40))
		abort();
	container_find(containers, "/docker/" ID, &got);
	CHECK_TEXT(got.name, "");
	CHECK_TEXT(got.id, ID);
	end();
}

static const struct test tests[] = {
	TEST(paths),  TEST(long_paths), TEST(containerd), TEST(crio),      TEST(docker),
	TEST(podman), TEST(log_links),  TEST(damaged),    TEST(not_files),
};

int main(void)
{
	return RUN_TESTS(tests);
}
