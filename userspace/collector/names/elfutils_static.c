// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Debian 13's static libelf and libdw (elfutils 0.192) call a search tree that
 * no archive of theirs holds; the shared libraries have it inside.  These stand
 * in for it; weak, so that an archive that has them links too.
 *
 * The tree's root is the first member of elfutils' structure.  Its lock is left
 * alone: the collector uses elfutils from one thread.
 *
 * And libdw's way to debuginfod servers is closed: a profiler asks no network,
 * and a static program must not load shared libraries.
 */
#include <errno.h>
#include <search.h>
#include <stddef.h>

#define STAND_IN __attribute__((weak))

struct search_tree {
	void *root;
};

typedef int compare_function(const void *a, const void *b);

STAND_IN void eu_search_tree_init(struct search_tree *tree)
{
	tree->root = NULL;
}

STAND_IN void eu_tdestroy(struct search_tree *tree, void (*free_node)(void *))
{
	tdestroy(tree->root, free_node);
	tree->root = NULL;
}

STAND_IN void eu_search_tree_fini(struct search_tree *tree, void (*free_node)(void *))
{
	eu_tdestroy(tree, free_node);
}

STAND_IN void *eu_tsearch(const void *key, struct search_tree *tree, compare_function *compare)
{
	return tsearch(key, &tree->root, compare);
}

STAND_IN void *eu_tfind(const void *key, struct search_tree *tree, compare_function *compare)
{
	return tfind(key, &tree->root, compare);
}

STAND_IN void *eu_tdelete(const void *key, struct search_tree *tree, compare_function *compare)
{
	return tdelete(key, &tree->root, compare);
}

int __libdwfl_debuginfod_find_executable(void *dwfl, const unsigned char *build_id, size_t build_id_size)
{
	return -ENOSYS;
}

int __libdwfl_debuginfod_find_debuginfo(void *dwfl, const unsigned char *build_id, size_t build_id_size)
{
	return -ENOSYS;
}

void __libdwfl_debuginfod_end(void *client)
{
}
