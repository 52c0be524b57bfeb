# SPDX-License-Identifier: GPL-2.0-or-later
"""In a stripped glibc, what stands beside a function that it does not export shows which one it is."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lockline.analysis.user_space.c_library_locks import MALLOC, TIME_ZONE, kind_of
from lockline.base.collector import ask_names

pytestmark = pytest.mark.usefixtures("build")

# In the order of the source; who calls where() with a number gets the address of a function without a name.
SOURCE = """
#define HERE __attribute__((noinline, noclone, used))
#define OUT __attribute__((visibility("default")))
static int HERE inner_malloc(int x) { return x + 1; }
OUT int __libc_malloc(int x) { return inner_malloc(x) * 3; }
OUT int unrelated(int x) { return x * 5; }
static int HERE slow_once(int x) { return x + 7; }
OUT int __pthread_once(int x) { return slow_once(x) * 11; }
static int HERE other(int x) { return x + 13; }
OUT int nothing(int x) { return other(x) * 17; }
OUT void tzset(void) { __asm__ volatile(""); }
static int HERE convert(int x) { return x + 19; }
OUT int getitimer(int x) { return convert(x) * 23; }
typedef int function(int);
OUT function *where(int which)
{
	return which == 0 ? inner_malloc : which == 1 ? slow_once : which == 2 ? other : convert;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Stripped, as glibc is without the package of its debug files."""
    directory = tmp_path_factory.mktemp("library")
    source, made = directory / "like_glibc.c", directory / "like_glibc.so"
    source.write_text(SOURCE)
    options = ("-shared", "-fPIC", "-O1", "-fno-toplevel-reorder", "-fvisibility=hidden", "-nostdlib", "-w")
    subprocess.run([shutil.which("cc") or "cc", *options, source, "-o", made], check=True)
    subprocess.run(["strip", "--strip-all", made], check=True)
    return ctypes.CDLL(str(Path(made)))


@pytest.mark.parametrize(
    ("which", "name"),
    [(0, "malloc"), (1, "pthread_once"), (2, ""), (3, "tzset")],
    ids=["malloc", "once", "unknown", "time zone"],
)
def test_what_stands_beside_tells(library: ctypes.CDLL, which: int, name: str) -> None:
    where = library.where
    where.restype = ctypes.c_void_p
    address = where(which)
    (found,) = ask_names([(os.getpid(), address + 1)])
    assert found is not None
    assert found[0] == name


def test_these_names_are_known() -> None:
    assert kind_of("malloc") == MALLOC
    assert kind_of("tzset") == TIME_ZONE
