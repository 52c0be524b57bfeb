// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/memory_topology.h"

int memory_node(const struct memory_topology *topology, __u64 physical)
{
	__u32 low = 0, high = topology->range_count;

	while (low < high) {
		__u32 middle = low + (high - low) / 2;

		if (topology->ranges[middle].start <= physical)
			low = middle + 1;
		else
			high = middle;
	}
	return low && physical < topology->ranges[low - 1].end ? (int)topology->ranges[low - 1].node : -1;
}
