# SPDX-License-Identifier: GPL-2.0-or-later
"""Whatever a process has mapped, names of other files are found right after it."""

import ctypes
import mmap
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_names import UserNames

from hostile_files import HOSTILE, PAGE, elf
from programs import TOP, make

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def program() -> Path:
    make(HERE)
    return TOP / "build" / "tests" / "user_names"


@pytest.fixture
def users(program: Path) -> Iterator[UserNames]:
    """A new one for each test: mappings that are known are not read again at once."""
    names = UserNames(program)
    yield names
    names.process.communicate(timeout=60)
    assert names.process.returncode == 0


@contextmanager
def mapped(path: Path, access: int = mmap.PROT_READ, pages: int = 1) -> Iterator[int]:
    """The address at which this process has mapped the file; the mapping is kept for good, so that no other has it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    fd = os.open(path, os.O_RDONLY)
    try:
        yield libc.mmap(None, pages * PAGE, access, mmap.MAP_PRIVATE, fd, 0)
    finally:
        os.close(fd)


def libc_function(name: str) -> int:
    value = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    assert value
    return value


def helpers(users: UserNames) -> list[int]:
    pid = users.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_symbols_of_the_c_library(users: UserNames) -> None:
    line = next(line for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    base, path = int(line.split("-")[0], 16), line.split()[-1]
    table = subprocess.run(["nm", "-D", "-S", path], capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in table.splitlines()]
    words = [w for w in words if len(w) == 4 and w[2] in "TtWwDdBb"]
    symbols = [(int(w[0], 16), int(w[1], 16), w[3].split("@")[0]) for w in words]
    # Below the code are offsets of thread-local variables, which are no addresses.
    code = min(int(w[0], 16) for w in words if w[2] in "TW")
    symbols = [symbol for symbol in symbols if symbol[0] >= code]
    assert len(symbols) > 1000
    for begin, size, _ in symbols[::10]:
        address = begin + size // 2
        there = {name for at, length, name in symbols if at <= address < at + length}
        name, offset, _ = users.lookup(os.getpid(), base + address)
        assert name.split("@")[0] in there
        assert any(at + offset == address for at, _, other in symbols if other == name.split("@")[0])


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_costs_no_other_name(users: UserNames, tmp_path: Path, what: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(HOSTILE[what](Path("/bin/sh").resolve()))
    with mapped(path) as address:
        name, _, module = users.lookup(os.getpid(), address + 64)
    assert module == str(path)
    assert name.isprintable()
    # The file was read.
    assert name == "?[2Jname" or what != "many symbols"
    assert "getppid" in users.lookup(os.getpid(), libc_function("getppid"))[0]


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_costs_no_other_frame(users: UserNames, tmp_path: Path, what: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(HOSTILE[what](Path("/bin/sh").resolve()))
    with mapped(path, mmap.PROT_READ | mmap.PROT_EXEC) as address:
        assert users.frames(os.getpid(), address + 64) in (0, 1)
    assert users.frames(os.getpid(), libc_function("getppid")) == 1


def test_a_file_that_is_cut_short_while_its_frames_are_read(users: UserNames, tmp_path: Path) -> None:
    """The helper has mapped it, and a read behind its end is a SIGBUS."""
    getppid = libc_function("getppid")
    for line in Path("/proc/self/maps").read_text().splitlines():
        words = line.split()
        begin, end = (int(word, 16) for word in words[0].split("-"))
        if begin <= getppid < end:
            offset, library = getppid - begin + int(words[2], 16), Path(words[5])
    path = tmp_path / "file"
    path.write_bytes(library.read_bytes())
    with mapped(path, mmap.PROT_READ | mmap.PROT_EXEC, offset // PAGE + 1) as address:
        assert users.frames(os.getpid(), address + offset) == 1
        (before,) = helpers(users)
        os.truncate(path, 0)
        assert users.frames(os.getpid(), address + offset) == 0
    assert users.frames(os.getpid(), getppid) == 1
    (after,) = helpers(users)
    assert after != before


def test_an_object_of_eight_tebibytes(users: UserNames, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(elf())
    try:
        os.truncate(path, 1 << 43)
    except OSError:
        os.truncate(path, 1 << 40)
    with mapped(path) as address:
        assert users.lookup(os.getpid(), address + 64) == ("", 0, str(path))
    assert "getppid" in users.lookup(os.getpid(), libc_function("getppid"))[0]


def test_a_helper_that_dies_is_started_again(users: UserNames) -> None:
    # Each name is asked for once: the cache has it then.
    assert "geteuid" in users.lookup(os.getpid(), libc_function("geteuid"))[0]
    (helper,) = helpers(users)
    os.kill(helper, signal.SIGKILL)
    assert "getpgid" in users.lookup(os.getpid(), libc_function("getpgid"))[0]
    (after,) = helpers(users)
    assert after != helper


def test_the_helper_has_no_rights(users: UserNames) -> None:
    assert "getsid" in users.lookup(os.getpid(), libc_function("getsid"))[0]
    (helper,) = helpers(users)
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{helper}/status").read_text().splitlines())
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"], status["Threads"]) == ("1", "2", "1")
    if os.geteuid() == 0:
        assert set(status["Uid"].split()) == {"65534"}
        assert int(status["CapBnd"], 16) == 0
        assert str(Path(f"/proc/{helper}/root").readlink()) == f"/proc/{helper}/fdinfo"
