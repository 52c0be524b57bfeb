#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes perf.data files of memory samples whose true figures are known, as a command and for tests.

tests/c2c/perfdata_generator.py futex-bucket OUT.data --recording OUT.lockline --kallsyms OUT.kallsyms --truth OUT.json
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from c2c import patterns, sharing_patterns, user_patterns
from c2c.description import Counts, Description, Truth
from c2c.lock_recording import write_lock_recording
from c2c.perfdata_format import COMPRESSED, COMPRESSED2

MAKERS: tuple[Callable[[], Description], ...] = (
    patterns.futex_bucket,
    patterns.futex_bucket_ibs,
    sharing_patterns.lock_word,
    sharing_patterns.true_sharing,
    sharing_patterns.adjacent_lines,
    sharing_patterns.read_mostly,
    sharing_patterns.fill_buffer_only,
    sharing_patterns.stores_without_level,
    sharing_patterns.peer_snoops,
    sharing_patterns.every_kind,
    sharing_patterns.level_2_hitm,
    user_patterns.user_sharing,
    user_patterns.user_sharing_by_build_id,
)
DESCRIPTIONS = {maker.__name__.replace("_", "-"): maker for maker in MAKERS}


def counts_as_json(counts: Counts) -> dict[str, object]:
    """The counts under the names of struct c2c_stats, CPUs as a sorted list, weights as [sum, number]."""
    return {**dict(sorted(counts.stats.items())), "cpus": sorted(counts.cpus), "weights": counts.weights}


def truth_as_json(truth: Truth) -> dict[str, object]:
    """The truth of a file: totals, lines with their offsets; addresses as hexadecimal text."""
    lines = []
    for key, counts in sorted(truth.lines.items(), key=lambda item: (-item[1]["tot_hitm"], item[0].address)):
        offsets = [
            {"offset": offset, **counts_as_json(found)}
            for (owner, offset), found in sorted(truth.offsets.items(), key=lambda item: item[0][1])
            if owner == key
        ]
        line = {"address": hex(truth.first[key]), "user": key.user, "pid": key.pid, "mapped": key.mapped}
        lines.append({**line, **counts_as_json(counts), "offsets": offsets})
    return {"total": counts_as_json(truth.total), "lines": lines}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write a perf.data file with known truth.")
    parser.add_argument("description", choices=sorted(DESCRIPTIONS))
    parser.add_argument("output", type=Path)
    parser.add_argument("--repeat", type=int, default=1, help="the samples so many times, time going on")
    parser.add_argument("--big-endian", action="store_true")
    parser.add_argument("--pipe", action="store_true", help="as `perf record -o -` writes it")
    parser.add_argument("--compressed", type=int, choices=(1, 2), help="records of zstd, first or second version")
    parser.add_argument("--kallsyms", type=Path, help="write the kernel's symbols there")
    parser.add_argument("--vmlinux", type=Path, help="write the kernel's symbols there, as an ELF file")
    parser.add_argument("--recording", type=Path, help="write lock waits of the same time there")
    parser.add_argument("--truth", type=Path, help="write what must be counted there, as JSON")
    arguments = parser.parse_args()
    description = DESCRIPTIONS[arguments.description]()
    compressed = {None: 0, 1: COMPRESSED, 2: COMPRESSED2}[arguments.compressed]
    changed = description.changed(big_endian=arguments.big_endian, pipe=arguments.pipe, compressed=compressed)
    changed.write(arguments.output, arguments.repeat)
    if arguments.kallsyms and description.kernel:
        arguments.kallsyms.write_text(description.kernel.kallsyms(), encoding="utf-8")
    if arguments.vmlinux and description.kernel:
        description.kernel.write_elf(arguments.vmlinux, description.shift)
    if arguments.recording:
        arguments.recording.unlink(missing_ok=True)
        write_lock_recording(description, arguments.recording)
    if arguments.truth:
        text = json.dumps(truth_as_json(description.truth(arguments.repeat)), indent=1)
        arguments.truth.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
