# SPDX-License-Identifier: GPL-2.0-or-later
"""perf.data files with wrong bytes are imported or refused: no crash, no hang, no memory without bounds."""

import errno
import os
import random
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from c2c import imported, sharing_patterns, user_patterns
from c2c import perfdata_format as perfdata
from c2c.description import Description

MEMORY = 512 << 20
# A shell that sets the limit, in KiB, and becomes the collector: to set it between fork() and exec() Python would copy
# the page tables of the tests' process each time.
LIMITED = ("/bin/sh", "-c", f'ulimit -v {MEMORY >> 10} && exec "$@"', "sh")
FILES = 40

Damage = Callable[[random.Random, bytearray], None]


def flip(generator: random.Random, data: bytearray) -> None:
    """Some bytes get other values."""
    for _ in range(generator.randrange(1, 12)):
        data[generator.randrange(len(data))] = generator.randrange(256)


def extreme(generator: random.Random, data: bytearray) -> None:
    """Some words of the header, the features or the records become very large or zero."""
    for _ in range(generator.randrange(1, 6)):
        at = generator.randrange(len(data) // 8) * 8
        value = generator.choice((0, 1, (1 << 63) - 1, (1 << 64) - 1, 1 << 32, 0xFFFF_FFFF, len(data), len(data) - 8))
        struct.pack_into("<Q", data, at, value)


def header(generator: random.Random, data: bytearray) -> None:
    """The same at the begin, where it hurts most."""
    at = generator.randrange(16) * 8
    struct.pack_into(
        "<Q", data, at, generator.choice((0, 1, 7, (1 << 64) - 1, len(data) - 1, generator.getrandbits(64)))
    )


def move(generator: random.Random, data: bytearray) -> None:
    """A piece is missing, or there twice."""
    at, length = generator.randrange(len(data)), generator.randrange(1, 4000)
    if generator.random() < 0.5:
        del data[at : at + length]
    else:
        data[at:at] = data[at : at + length]


DAMAGES: dict[str, Damage] = {"flip": flip, "extreme": extreme, "header": header, "move": move}
KINDS: dict[str, Description] = {
    "file": sharing_patterns.stores_without_level(),
    "mappings": user_patterns.user_sharing(),
    "pipe": sharing_patterns.stores_without_level().changed(pipe=True),
    "compressed": sharing_patterns.stores_without_level().changed(compressed=perfdata.COMPRESSED),
    "big-endian": sharing_patterns.stores_without_level().changed(big_endian=True),
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
@pytest.mark.parametrize(
    "kind", [kind if kind == "file" else pytest.param(kind, marks=pytest.mark.laboratory) for kind in sorted(KINDS)]
)
def test_a_damaged_file_does_no_harm(kind: str, damage: str, tmp_path: Path) -> None:
    whole = KINDS[kind].write(tmp_path / "whole.data").read_bytes()
    path, output = tmp_path / "damaged.data", tmp_path / "out.lockline"
    for seed in range(FILES):
        data = bytearray(whole)
        DAMAGES[damage](random.Random(f"{kind} {damage} {seed}"), data)
        path.write_bytes(data)
        output.unlink(missing_ok=True)
        command = [*LIMITED, str(imported.COLLECTOR), "import", str(path), "-o", str(output)]
        # The time is one that only an endless loop takes.
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=900,
            check=False,
        )
        assert done.returncode in (0, 1), (seed, done)
        assert os.strerror(errno.ENOMEM) not in done.stderr, (seed, done.stderr)
        if done.returncode:
            # One line says why not; before it, what was found wrong on the way.
            assert str(path) in done.stderr.splitlines()[-1], (seed, done.stderr)
            assert not output.exists()
        else:
            imported.read(output)
