# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples that `perf script` printed with their data address and data source, counted as perf c2c counts them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lockline.c2c.text_lines import Line

# Fields of union perf_mem_data_src, include/uapi/linux/perf_event.h.  The words behind the hexadecimal number
# differ between versions of perf for the same number, and are cut off: the number alone is read.
_LOAD, _STORE = 0x02, 0x04
_NA, _HIT, _MISS, _L1, _LFB, _L2, _L3, _LOCAL_RAM = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80
_REMOTE_RAM, _REMOTE_CACHE = 0x300, 0xC00
_SNOOP_HIT, _SNOOP_HITM, _PEER, _LOCKED = 0x04, 0x10, 0x02, 0x02
_BLOCKED = 0x02 | 0x04

_LEVELS = (
    *("fill_buffer", "l1_hit", "l2_hit", "llc_hit", "local_hitm"),
    *("remote_hit", "remote_hitm", "local_dram", "remote_dram"),
)
_STORE_LEVELS = ("store_l1_hit", "store_l1_miss", "store_unknown")

_ACCESS = re.compile(r"(?:^|\s)([0-9a-f]{1,16}) \|OP ")
_FIELD_END = re.compile(r"(?:N/A|No|Yes|N|Y|Ye|Data Addr|Data|Addr|PRED SG|PRED|SG)?(?=\s|$)")
_BEGIN = re.compile(
    r"\s*(?P<comm>\S.*?)\s+(?:(?P<pid>-?\d{1,10})/)?(?P<tid>-?\d{1,10})\s+(?:\[(?P<cpu>\d{1,5})\]\s+)?[\d.]+:"
)
_BARE_BEGIN = re.compile(r"\s*(?P<comm>\S.*?)\s+[\d.]+:")
_HEX = re.compile(r"[0-9a-f]{1,16}")
_DECIMAL = re.compile(r"\d{1,10}")
_FRAME = re.compile(r"\s+([0-9a-f]{1,16})(?:\s+(.*))?$")
_PLACE = re.compile(r"(.*?)(?:\+0x([0-9a-f]{1,15}))?(?: \(([^()]*(?:\([^()]*\))?)\))?$")

# Arm SPE makes up to six samples of one record (tools/perf/util/arm-spe.c); `memory` has each once.
_SPE_EVENTS = {"l1d-miss", "l1d-access", "llc-miss", "llc-access", "tlb-miss", "tlb-access", "remote-access"}
_MAX_COMM, _MAX_BEGIN, _MAX_PLACE = 64, 256, 1024


@dataclass(frozen=True)
class Sample:
    """One access: line is its number in the text, data_src the number of union perf_mem_data_src."""

    line: int
    address: int
    data_src: int
    event: str
    comm: str
    pid: int
    tid: int | None
    cpu: int | None
    weight: int | None
    ip: int | None
    symbol: str
    symbol_offset: int
    object: str


@dataclass(frozen=True)
class SampleList:
    """The samples of a text; no_address: how many are without one; left_out: that another event has too."""

    samples: tuple[Sample, ...]
    no_address: int
    left_out: int
    problems: tuple[tuple[int, str], ...]


def _place(text: str) -> tuple[str, int, str]:
    """Symbol, offset in it and object of 'name+0x1f (object)'."""
    match = _PLACE.fullmatch(text.strip()[:_MAX_PLACE])
    if not match:
        return "", 0, ""
    name = match[1].strip()
    return "" if name == "[unknown]" else name, int(match[2] or "0", 16), match[3] or ""


def _tail(text: str) -> str:
    """What follows the words of the data source: weight, instruction, symbol, object."""
    last = text.rpartition("|")[2]
    name, _, rest = last.partition(" ")
    if not name.isalpha():
        return ""
    match = _FIELD_END.match(rest.lstrip())
    return rest.lstrip()[match.end() :].strip() if match else ""


def _begin(text: str) -> tuple[str, int, int | None, int | None]:
    """Command, process, thread and CPU."""
    match = _BEGIN.match(text)
    if match:
        pid = int(match["pid"]) if match["pid"] else 0
        cpu = int(match["cpu"]) if match["cpu"] else None
        return match["comm"][:_MAX_COMM], pid, int(match["tid"]), cpu
    match = _BARE_BEGIN.match(text)
    return (match["comm"][:_MAX_COMM] if match else ""), 0, None, None


def _event_and_address(text: str) -> tuple[str, int | None]:
    """The event, and the data address between it and the data source."""
    words = text.split()
    colon = max((i for i, word in enumerate(words) if word.endswith(":")), default=-1)
    event = words[colon].rstrip(":") if colon >= 0 else ""
    if re.fullmatch(r"[\d.]*", event):
        event = ""
    following = words[colon + 1 :]
    if following and _HEX.fullmatch(following[0]):
        return event, int(following[0], 16)
    return event, None


def read_samples(lines: Sequence[Line]) -> SampleList | None:
    """The samples of a text, or None if it has no line with a data source."""
    found = [(i, match) for i, line in enumerate(lines) if (match := _ACCESS.search(line.text))]
    if not found:
        return None
    single = [_tail(lines[i].text[match.end() :]).split() for i, match in found]
    # A lone number is an instruction's address if one in the text cannot be anything else.
    lone_is_ip = any(len(words) == 1 and not _DECIMAL.fullmatch(words[0]) for words in single)
    samples: list[Sample] = []
    problems: list[tuple[int, str]] = []
    no_address = 0
    for i, match in found:
        line = lines[i]
        event, address = _event_and_address(line.text[: match.start(1)])
        if address is None:
            no_address += 1
            continue
        following = lines[i + 1].text if i + 1 < len(lines) else ""
        weight, ip, place = _instruction(_tail(line.text[match.end() :]), lone_is_ip, following)
        comm, pid, tid, cpu = _begin(line.text[: min(match.start(), _MAX_BEGIN)])
        symbol, symbol_offset, name = _place(place)
        samples.append(
            Sample(
                *(line.number, address, int(match[1], 16), event, comm, pid, tid, cpu),
                *(weight, ip, symbol, symbol_offset, name),
            )
        )
    left_out = 0
    if {sample.event for sample in samples} & _SPE_EVENTS and any(sample.event == "memory" for sample in samples):
        kept = [sample for sample in samples if sample.event not in _SPE_EVENTS]
        left_out = len(samples) - len(kept)
        samples = kept
    return SampleList(tuple(samples), no_address, left_out, tuple(problems))


def _instruction(tail: str, lone_is_ip: bool, following: str) -> tuple[int | None, int | None, str]:
    """Weight, instruction's address, and its place, of what follows the data source or of the first frame below."""
    words = tail.split()
    weight: int | None = None
    lone = len(words) == 1
    if words and _DECIMAL.fullmatch(words[0]) and (not lone_is_ip if lone else _HEX.fullmatch(words[1])):
        weight = int(words[0])
        words = words[1:]
    if words and _HEX.fullmatch(words[0]):
        return weight, int(words[0], 16), " ".join(words[1:])
    frame = _FRAME.fullmatch(following) if not words else None
    if frame:
        return weight, int(frame[1], 16), frame[2] or ""
    return weight, None, ""


def is_sample_list(lines: Sequence[Line]) -> bool:
    """Whether the text is of perf script, even without what an import needs."""
    head = [line.text[:_MAX_BEGIN] for line in lines if line.text.strip()][:100]
    return sum(1 for text in head if _BEGIN.match(text)) * 2 > len(head)


def decode(data_src: int) -> dict[str, int]:
    """Counts of one sample: c2c_decode_stats() of tools/perf/util/mem-events.c, Linux 6.12 and 7.2.

    The address must not be 0: perf counts such samples as accesses without an address, and nothing more.
    """
    operation, level, snoop = data_src & 0x1F, data_src >> 5 & 0x3FFF, data_src >> 19 & 0x1F
    peer = data_src >> 38 & _PEER
    remote = data_src >> 37 & 1 and not data_src >> 43 & 7
    counts: dict[str, int] = {}

    def add(name: str, when: object = True) -> None:
        if when:
            counts[name] = counts.get(name, 0) + 1

    add("locked", data_src >> 24 & _LOCKED)
    add("blocked", data_src >> 40 & _BLOCKED)
    if operation & _LOAD:
        if level & _HIT:
            add("fill_buffer", level & _LFB)
            add("l1_hit", level & _L1)
            for bit, name in ((_L2, "l2_hit"), (_L3, "llc_hit")):
                if level & bit:
                    add("local_hitm" if snoop & _SNOOP_HITM else name)
                    add("local_peer", peer)
            add("local_dram", level & _LOCAL_RAM)
            add("remote_dram", level & _REMOTE_RAM or remote)
        if level & _REMOTE_CACHE or remote:
            if snoop & _SNOOP_HIT:
                add("remote_hit")
            elif snoop & _SNOOP_HITM:
                add("remote_hitm")
            elif peer:
                add("remote_hit")
                add("remote_peer")
    elif operation & _STORE:
        add("stores")
        add("store_l1_hit", level & _HIT and level & _L1)
        add("store_l1_miss", level & _MISS and level & _L1)
        add("store_unknown", level & _NA)
    else:
        add("no_parse")
    # total_loads() and total_records() of builtin-c2c.c: what has no level is not in them.
    if loads := sum(counts.get(name, 0) for name in _LEVELS):
        counts["loads"] = loads
    counts["records"] = loads + sum(counts.get(name, 0) for name in _STORE_LEVELS)
    return counts
