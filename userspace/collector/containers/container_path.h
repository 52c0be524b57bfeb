/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the path of a cgroup says about its container, pod and systemd unit. */
#ifndef LOCKLINE_CONTAINER_PATH_H
#define LOCKLINE_CONTAINER_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define CONTAINER_ID   64 /* hex digits */
#define CONTAINER_TEXT 256

/* "" where nothing is known. */
struct container {
	char runtime[16];          /* docker, containerd, cri-o, podman, lxc, machine (systemd's) */
	char id[CONTAINER_ID + 1]; /* hex */
	char name[CONTAINER_TEXT];
	char image[CONTAINER_TEXT];
	char pod[CONTAINER_TEXT];
	char space[CONTAINER_TEXT]; /* namespace of the pod */
	char pod_uid[64];           /* with '-', or hex digits alone for a static pod */
	char unit[CONTAINER_TEXT];  /* systemd's, as systemctl takes it */
	char slice[CONTAINER_TEXT];
	char source[64]; /* the files that gave names */
};

/* path: below the mount of the hierarchy.  The innermost container, unit and slice count.  Reads nothing else. */
void container_of_path(const char *path, struct container *out);
bool container_is_known(const struct container *container);
/* CONTAINER_ID lower-case hex digits, no more and no fewer. */
bool is_container_id(const char *text, size_t length);

#endif /* LOCKLINE_CONTAINER_PATH_H */
