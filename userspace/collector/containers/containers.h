/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of containers and pods, from the files that container runtimes keep on the host: no socket is asked. */
#ifndef LOCKLINE_CONTAINERS_H
#define LOCKLINE_CONTAINERS_H

#include <limits.h>

#include "containers/container_path.h"

/* Whose JSON a text is. */
enum container_file {
	CONTAINER_FILE_BUNDLE, /* config.json of an OCI bundle: annotations of containerd, CRI-O and nerdctl */
	CONTAINER_FILE_DOCKER, /* config.v2.json */
	CONTAINER_FILE_PODMAN, /* containers.json, of all of them */
};

struct containers;

/* root: "/", or the directory that the tests take for it. */
int containers_open(struct containers **out, const char *root);
void containers_close(struct containers *containers);

/*
 * What runs in the cgroup of that path.  What the path says comes first, the files
 * fill in what is missing; a file that is damaged, too large or gone says nothing.
 */
void container_find(struct containers *containers, const char *path, struct container *out);

/* Fills what is empty in a container from a text; out->id is set.  -EINVAL: it is not JSON, or not of that container. */
int container_from_json(struct containers *containers, enum container_file file, const char *text, size_t length,
			struct container *out);

/*
 * The directory of the cgroup of a container (a name, or the first 12 digits of an
 * id or more), of a pod ("NAMESPACE/NAME"), or of a container in a pod; either may
 * be NULL.  On refusal one line on stderr says why: -ENOENT, -ENOTUNIQ.
 */
int container_resolve(const char *name, const char *pod, char directory[PATH_MAX]);

#endif /* LOCKLINE_CONTAINERS_H */
