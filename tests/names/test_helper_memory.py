# SPDX-License-Identifier: GPL-2.0-or-later
"""The naming helper closes what was asked for longest ago before it holds too much, and is not started anew."""

import ctypes
import mmap
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

SYMBOLS, COPIES = 100_000, 40
# ENOUGH_BYTES of naming_client.c, and what one more file takes before an older one is closed.
ENOUGH, ONE_FILE = 64 << 20, 16 << 20


def make_library(directory: Path) -> Path:
    """A library whose table of symbols is long."""
    source, library = directory / "many.s", directory / "many.so"
    labels = "".join(f"f{number}:\n\tnop\n" for number in range(SYMBOLS))
    source.write_text(f"\t.text\n{labels}\t.section .note.GNU-stack\n", encoding="ascii")
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", library, source], check=True)
    return library


def place_of(library: Path, symbol: str) -> int:
    """Where in the file a symbol is: its segment begins where its address says."""
    told = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    (address,) = re.findall(rf"^([0-9a-f]+) t {symbol}$", told, re.MULTILINE)
    headers = subprocess.run(["readelf", "-lW", library], capture_output=True, text=True, check=True).stdout
    for offset, begin, size in re.findall(r"^ +LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", headers, re.MULTILINE):
        if 0 <= int(address, 16) - int(begin, 16) < int(size, 16):
            return int(address, 16) - int(begin, 16) + int(offset, 16)
    raise AssertionError(headers)


class Watch:
    """What the helpers of a process have in memory at most, looked at again and again."""

    def __init__(self, pid: int) -> None:
        self.most: dict[int, int] = {}
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._ended.wait(0.005):
            try:
                for child in Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split():
                    status = Path(f"/proc/{child}/status").read_text()
                    if "Name:\tlockline-names" in status:
                        (kib,) = re.findall(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
                        self.most[int(child)] = max(self.most.get(int(child), 0), int(kib) << 10)
            except (OSError, ValueError):
                continue

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def test_many_files_with_many_symbols(build: Path, tmp_path: Path) -> None:
    library = make_library(tmp_path)
    place = place_of(library, "f4711")
    maps = []
    for number in range(COPIES):
        copy = tmp_path / f"{number}.so"
        shutil.copyfile(library, copy)
        with copy.open("rb") as file:
            maps.append(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE))
    addresses = [ctypes.addressof(ctypes.c_char.from_buffer(one)) for one in maps]
    # Each twice, the second time when most have been closed.
    asked = "".join(f"{os.getpid()} {address + place:x}\n" for address in [*addresses, *addresses])
    command = [build / "bin/lockline-collect", "names"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        Watch(process.pid) as watch,
    ):
        told = process.communicate(asked, timeout=240)[0].splitlines()
    assert [line.split("\t")[2] for line in told] == ["f4711"] * 2 * COPIES
    assert len(watch.most) == 1, f"the helper was started anew: {watch.most}"
    (most,) = watch.most.values()
    # It holds several files, and not all of them.
    assert ENOUGH / 2 < most < ENOUGH + ONE_FILE, f"{most >> 20} MiB"
