// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "cli/kinds.h"
#include "cli/until.h"
#include "base/values.h"

#define MAX_PID 4194304 /* PID_MAX_LIMIT */
#define MOST_NS (3600 * 1000000000ull)

static int parse_condition(struct until_case *found, char *word, char *why)
{
	char shown[VALUE_SHOWN];
	__u64 pid;
	int err;

	if (!strcmp(word, "marker")) {
		found->marker = true;
		return 0;
	}
	if (!strncmp(word, "wait>", 5))
		return parse_time(word + 5, false, 1, MOST_NS, &found->wait_ns, why);
	if (!strncmp(word, "kind=", 5)) {
		found->kinds = 0;
		return parse_kinds(word + 5, &found->kinds, why);
	}
	if (!strncmp(word, "pid=", 4)) {
		err = parse_count(word + 4, 1, MAX_PID, &pid, why);
		if (!err)
			found->pid = pid;
		return err;
	}
	if (!strncmp(word, "lock~", 5) && word[5] && strlen(word + 5) < sizeof(found->lock)) {
		strcpy(found->lock, word + 5);
		return 0;
	}
	snprintf(why, VALUE_WHY, "`%s` is not a condition; write wait>TIME, kind=KIND, lock~PATTERN, pid=PID or marker",
		 show(word, shown));
	return -EINVAL;
}

int until_parse(struct until *until, const char *text, char *why)
{
	char copy[1024], *rest, *word;
	bool wanted = true; /* a condition, not `and` or `or` */
	int err;

	*until = (struct until){.count = 1};
	if (strlen(text) >= sizeof(copy)) {
		snprintf(why, VALUE_WHY, "too long");
		return -EINVAL;
	}
	strcpy(copy, text);
	for (word = strtok_r(copy, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
		bool and = !strcmp(word, "and"), or = !strcmp(word, "or");

		if (wanted == (and || or)) {
			snprintf(why, VALUE_WHY,
				 wanted ? "a condition is missing before `%s`"
					: "`and` or `or` is missing before `%.64s`",
				 word);
			return -EINVAL;
		}
		if (or &&until->count == UNTIL_ALTERNATIVES) {
			snprintf(why, VALUE_WHY, "more than %d alternatives", UNTIL_ALTERNATIVES);
			return -EINVAL;
		}
		until->count += or ;
		err = wanted ? parse_condition(&until->cases[until->count - 1], word, why) : 0;
		if (err)
			return err;
		wanted = !wanted;
	}
	if (wanted) {
		snprintf(why, VALUE_WHY, "a condition is missing at the end");
		return -EINVAL;
	}
	for (int i = 0; i < until->count; i++) {
		const struct until_case *one = &until->cases[i];

		if (one->marker && (one->wait_ns || one->kinds || one->pid || one->lock[0])) {
			snprintf(why, VALUE_WHY, "`marker` says nothing about a wait: join it with `or`");
			return -EINVAL;
		}
	}
	return 0;
}

static bool lock_matches(const char *pattern, const char *name)
{
	return strpbrk(pattern, "*?[") ? !fnmatch(pattern, name, 0) : strstr(name, pattern) != NULL;
}

int until_matches(const struct until *until, const struct until_wait *wait)
{
	for (int i = 0; i < until->count; i++) {
		const struct until_case *one = &until->cases[i];

		if (one->marker || wait->wait_ns <= one->wait_ns)
			continue;
		if (one->kinds && !(one->kinds >> wait->kind & 1))
			continue;
		if (one->pid && one->pid != wait->tid && one->pid != wait->tgid)
			continue;
		if (!one->lock[0] || lock_matches(one->lock, wait->lock))
			return i + 1;
	}
	return 0;
}

bool until_has_marker(const struct until *until)
{
	for (int i = 0; i < until->count; i++)
		if (until->cases[i].marker)
			return true;
	return false;
}

bool until_has_wait(const struct until *until)
{
	for (int i = 0; i < until->count; i++)
		if (!until->cases[i].marker)
			return true;
	return false;
}

__u64 until_least_wait(const struct until *until)
{
	__u64 least = ~0ull;

	for (int i = 0; i < until->count; i++)
		if (!until->cases[i].marker && until->cases[i].wait_ns && until->cases[i].wait_ns < least)
			least = until->cases[i].wait_ns;
	return least;
}
