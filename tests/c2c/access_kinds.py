# SPDX-License-Identifier: GPL-2.0-or-later
"""Kinds of memory accesses: the data source word that a PMU gives, and what perf c2c counts for it.

The counts are written down by hand, by the names of struct c2c_stats (tools/perf/util/mem-events.h, Linux 6.1), so that
neither perf nor lockline is asked what is true.  Bits of the word: union perf_mem_data_src of
include/uapi/linux/perf_event.h.
"""

from collections.abc import Mapping
from dataclasses import dataclass

OP_NA, OP_LOAD, OP_STORE, OP_PREFETCH = 0x1, 0x2, 0x4, 0x8


def _level(bits: int) -> int:
    return bits << 5


NA, HIT, MISS = _level(0x1), _level(0x2), _level(0x4)
L1, FILL_BUFFER, L2, L3 = _level(0x8), _level(0x10), _level(0x20), _level(0x40)
LOCAL_RAM, REMOTE_RAM = _level(0x80), _level(0x100)
REMOTE_CACHE, REMOTE_CACHE_2 = _level(0x400), _level(0x800)
IO, UNCACHED = _level(0x1000), _level(0x2000)
SNOOP_NA, SNOOP_NONE, SNOOP_HIT, SNOOP_MISS, SNOOP_HITM = (bit << 19 for bit in (1, 2, 4, 8, 16))
LOCK_NA, LOCKED = 1 << 24, 2 << 24
TLB_NA, TLB_HIT = 1 << 26, 0x1A << 26
REMOTE = 1 << 37
PEER = 2 << 38
BLOCK_NA, BLOCK_DATA, BLOCK_ADDRESS = 1 << 40, 2 << 40, 4 << 40


def _number(level: int) -> int:
    return level << 33


def _hops(hops: int) -> int:
    return hops << 43


NUMBER_L1, NUMBER_L2, NUMBER_L3 = _number(1), _number(2), _number(3)
NUMBER_ANY, NUMBER_FILL_BUFFER, NUMBER_RAM, NUMBER_NA = _number(0xB), _number(0xC), _number(0xD), _number(0xF)

LOAD = OP_LOAD | LOCK_NA | TLB_HIT | BLOCK_NA
STORE = OP_STORE | LOCK_NA | TLB_HIT | BLOCK_NA | SNOOP_NA
IBS_LOAD = OP_LOAD | TLB_HIT | BLOCK_NA | LOCK_NA


@dataclass(frozen=True)
class Kind:
    """One kind of access: its word, what it counts as, and its usual latency in cycles."""

    name: str
    word: int
    counts: tuple[str, ...]
    weight: int = 0

    @property
    def store(self) -> bool:
        """Whether it is a store, and so of the file's event for stores."""
        return "store" in self.counts

    def locked(self) -> "Kind":
        """The same by an instruction with the lock prefix."""
        return Kind(f"{self.name}, locked", self.word & ~LOCK_NA | LOCKED, (*self.counts, "locks"), self.weight + 20)


def _kinds(*kinds: Kind) -> Mapping[str, Kind]:
    return {kind.name: kind for kind in kinds}


# Intel before the encodings that came with Skylake's remote bit, and what all of them share.
INTEL = _kinds(
    Kind("L1", LOAD | HIT | L1 | NUMBER_L1 | SNOOP_NONE, ("load", "ld_l1hit"), 6),
    Kind("fill buffer", LOAD | HIT | FILL_BUFFER | NUMBER_FILL_BUFFER | SNOOP_NONE, ("load", "ld_fbhit"), 90),
    Kind("L2", LOAD | HIT | L2 | NUMBER_L2 | SNOOP_NONE, ("load", "ld_l2hit"), 16),
    Kind("L2, modified by another", LOAD | HIT | L2 | NUMBER_L2 | SNOOP_HITM, ("load", "lcl_hitm", "tot_hitm"), 60),
    Kind("LLC", LOAD | HIT | L3 | NUMBER_L3 | SNOOP_NONE, ("load", "ld_llchit"), 70),
    Kind("LLC, snoop hit", LOAD | HIT | L3 | NUMBER_L3 | SNOOP_HIT, ("load", "ld_llchit"), 95),
    Kind("local HITM", LOAD | HIT | L3 | NUMBER_L3 | SNOOP_HITM, ("load", "lcl_hitm", "tot_hitm"), 180),
    Kind("remote HITM", LOAD | HIT | REMOTE_CACHE | SNOOP_HITM, ("load", "rmt_hitm", "tot_hitm"), 420),
    Kind(
        "remote HITM, remote bit",
        LOAD | HIT | REMOTE | NUMBER_ANY | SNOOP_HITM,
        ("load", "rmt_hitm", "tot_hitm", "rmt_dram", "ld_excl"),
        430,
    ),
    Kind("remote hit", LOAD | HIT | REMOTE_CACHE | SNOOP_HIT, ("load", "rmt_hit"), 300),
    Kind("remote hit, two hops", LOAD | HIT | REMOTE_CACHE_2 | SNOOP_HIT, ("load", "rmt_hit"), 390),
    Kind("local DRAM", LOAD | HIT | LOCAL_RAM | NUMBER_RAM | SNOOP_NONE, ("load", "lcl_dram", "ld_excl"), 250),
    Kind("local DRAM, shared", LOAD | HIT | LOCAL_RAM | NUMBER_RAM | SNOOP_HIT, ("load", "lcl_dram", "ld_shared"), 260),
    Kind("remote DRAM", LOAD | HIT | REMOTE_RAM | SNOOP_NONE, ("load", "rmt_dram", "ld_excl"), 500),
    Kind(
        "remote DRAM, remote bit",
        LOAD | HIT | REMOTE | NUMBER_RAM | SNOOP_NONE,
        ("load", "rmt_dram", "ld_excl"),
        510,
    ),
    Kind("uncached", LOAD | HIT | UNCACHED | SNOOP_NONE, ("load", "ld_uncache"), 800),
    Kind("I/O", LOAD | HIT | IO | SNOOP_NONE, ("load", "ld_io"), 900),
    Kind("miss", LOAD | MISS | L3 | SNOOP_NA, ("load", "ld_miss"), 300),
    Kind("blocked by data", LOAD & ~BLOCK_NA | BLOCK_DATA | HIT | L1 | NUMBER_L1, ("load", "ld_l1hit", "blk_data"), 40),
    Kind(
        "blocked by address",
        LOAD & ~BLOCK_NA | BLOCK_ADDRESS | HIT | L1 | NUMBER_L1,
        ("load", "ld_l1hit", "blk_addr"),
        45,
    ),
    Kind("store, L1 hit", STORE | HIT | L1, ("store", "st_l1hit")),
    Kind("store, L1 miss", STORE | MISS | L1, ("store", "st_l1miss")),
    Kind("store, uncached", STORE | HIT | UNCACHED, ("store", "st_uncache")),
    Kind("store, no level", STORE | NA, ("store", "st_na")),
    Kind("prefetch", OP_PREFETCH | HIT | L2 | LOCK_NA, ("noparse",)),
)

# AMD IBS op of Zen 4: arch/x86/events/amd/ibs.c.  An op that is neither load nor store has no word.
IBS = _kinds(
    Kind("L1", IBS_LOAD | HIT | L1 | NUMBER_L1 | SNOOP_NA, ("load", "ld_l1hit"), 0),
    Kind("L2", IBS_LOAD | HIT | L2 | NUMBER_L2 | SNOOP_NA, ("load", "ld_l2hit"), 15),
    Kind("LLC", IBS_LOAD | HIT | L3 | NUMBER_L3 | SNOOP_HIT, ("load", "ld_llchit"), 60),
    Kind("local HITM", IBS_LOAD | HIT | L3 | NUMBER_L3 | SNOOP_HITM, ("load", "lcl_hitm", "tot_hitm"), 190),
    Kind(
        "near HITM",
        IBS_LOAD | HIT | REMOTE_CACHE | NUMBER_ANY | REMOTE | _hops(1) | SNOOP_HITM,
        ("load", "rmt_hitm", "tot_hitm"),
        380,
    ),
    Kind(
        "remote HITM",
        IBS_LOAD | HIT | REMOTE_CACHE | NUMBER_ANY | REMOTE | _hops(2) | SNOOP_HITM,
        ("load", "rmt_hitm", "tot_hitm"),
        520,
    ),
    Kind("local DRAM", IBS_LOAD | HIT | LOCAL_RAM | NUMBER_RAM | SNOOP_NA, ("load", "lcl_dram", "ld_excl"), 300),
    Kind("store, L1 hit", OP_STORE | HIT | L1 | NUMBER_L1 | TLB_HIT | LOCK_NA | BLOCK_NA, ("store", "st_l1hit"), 0),
    Kind("store, no level", OP_STORE | NA | NUMBER_NA | TLB_HIT | LOCK_NA | BLOCK_NA, ("store", "st_na"), 0),
    Kind("not a memory op", OP_NA | NA | NUMBER_NA | SNOOP_NA | LOCK_NA | TLB_NA | BLOCK_NA, ("noparse",), 0),
)

# Arm SPE as perf's decoder makes samples of it: tools/perf/util/arm-spe.c; no HITM, peer snoops instead.
SPE = _kinds(
    Kind("L1", OP_LOAD | HIT | L1 | NUMBER_L1 | SNOOP_NONE, ("load", "ld_l1hit"), 8),
    Kind("L2", OP_LOAD | HIT | L2 | NUMBER_L2 | SNOOP_NONE, ("load", "ld_l2hit"), 24),
    Kind("local peer, L2", OP_LOAD | HIT | L2 | NUMBER_L2 | PEER, ("load", "ld_l2hit", "lcl_peer", "tot_peer"), 70),
    Kind("local peer", OP_LOAD | HIT | L3 | NUMBER_L3 | PEER, ("load", "ld_llchit", "lcl_peer", "tot_peer"), 120),
    Kind(
        "remote peer",
        OP_LOAD | HIT | REMOTE_CACHE | NUMBER_ANY | REMOTE | PEER,
        ("load", "rmt_dram", "ld_excl", "rmt_hit", "rmt_peer", "tot_peer"),
        400,
    ),
    Kind("local DRAM", OP_LOAD | HIT | LOCAL_RAM | NUMBER_RAM | SNOOP_NONE, ("load", "lcl_dram", "ld_excl"), 280),
    Kind("store, L1 hit", OP_STORE | HIT | L1 | NUMBER_L1, ("store", "st_l1hit"), 9),
    Kind("store, no level", OP_STORE | NA, ("store", "st_na"), 10),
)

# Loads and stores that have no address are counted, and read no further.
NO_ADDRESS = {"load": ("load", "ld_noadrs"), "store": ("store", "st_noadrs")}
