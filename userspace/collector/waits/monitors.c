// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdbool.h>

#include "recording/recording_rows.h"
#include "waits/monitors.h"

#define PLACES (2 * MONITOR_ROWS)

static __u64 mix(__u64 hash, __u64 value)
{
	hash = (hash ^ value) * 0xff51afd7ed558ccdull;
	return hash ^ hash >> 32;
}

static __u64 mix_text(__u64 hash, const char *text)
{
	while (*text)
		hash = mix(hash, (unsigned char)*text++);
	return mix(hash, 0);
}

/* Whether the row is there, or may be added. */
static bool has_room(struct monitors *monitors, __u64 hash)
{
	__u32 place = hash % PLACES;

	hash |= 1;
	while (monitors->rows[place] && monitors->rows[place] != hash)
		place = (place + 1) % PLACES;
	if (monitors->rows[place])
		return true;
	if (monitors->count == MONITOR_ROWS)
		return false;
	monitors->count++;
	monitors->rows[place] = hash;
	return true;
}

static int put_thread(struct monitors *monitors, struct recording *recording, __u32 tgid, __u64 address,
		      const char *role, __u32 tid, const char *name)
{
	const __u64 hash = mix_text(mix_text(mix(mix(mix(2, tgid), address), tid), role), name);

	if (!has_room(monitors, hash))
		return 0;
	return recording_put(recording, java_monitor_thread, .tgid = tgid, .address = address, .role = role, .tid = tid,
			     .name = name, .looks = 1);
}

int monitors_put(struct monitors *monitors, struct recording *recording, const struct monitor_look *look)
{
	const struct hotspot_monitors *found = &look->monitors;
	/* Each thread that was looked at stands for so many. */
	const double weight = found->looked_at ? (double)found->threads / found->looked_at : 0;
	double untold = found->untold * weight;
	bool told[HOTSPOT_MONITORS];
	int err = 0;

	if (!has_room(monitors, mix(0, look->tgid)))
		return 0;
	for (__u32 i = 0; !err && i < found->count; i++) {
		const struct hotspot_monitor *monitor = &found->list[i];

		told[i] = has_room(monitors, mix_text(mix(mix(1, look->tgid), monitor->address), monitor->class));
		if (!told[i]) {
			untold += monitor->waiting * weight;
			continue;
		}
		err = recording_put(recording, java_monitor, .tgid = look->tgid, .address = monitor->address,
				    .class = monitor->class, .looks = 1, .waiting = monitor->waiting * weight);
		if (!err && (monitor->owner || *monitor->owner_name))
			err = put_thread(monitors, recording, look->tgid, monitor->address, "owner", monitor->owner,
					 monitor->owner_name);
	}
	for (__u32 i = 0; !err && i < found->waiters; i++)
		if (told[found->waiter[i].monitor])
			err = put_thread(monitors, recording, look->tgid, found->list[found->waiter[i].monitor].address,
					 "waiter", found->waiter[i].tid, "");
	return err ?: recording_put(recording, java_look, .tgid = look->tgid, .looks = 1, .untold = untold);
}
