# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of programs without a symbol table: Go's own table, and a compressed one (MiniDebugInfo)."""

import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_names import UserNames

from programs import TOP, make

HERE = Path(__file__).resolve().parent
# Debian's comes with its library compiled; any other has to compile it first.
GO = shutil.which("go", path="/usr/bin") or "go"
STRIPPED = "-ldflags=-s -w"

# Two functions, of which one has a name as C++ compilers make it.  Prints where they are, then waits.
C_PROGRAM = """
#include <stdio.h>

__attribute__((noinline)) static int plain(int a) { __asm__ volatile("nop\\nnop\\nnop"); return a; }
int method(int a) __asm__("_ZN4pool4workEi");
__attribute__((noinline)) int method(int a) { __asm__ volatile("nop\\nnop\\nnop"); return a; }

int main(void)
{
	printf("%lx plain\\n%lx pool::work\\nready\\n", (long)plain, (long)method);
	fflush(stdout);
	return getchar() == 'x' ? plain(1) + method(2) : 0;
}
"""


@pytest.fixture
def users() -> Iterator[UserNames]:
    make(HERE)
    names = UserNames(TOP / "build/tests/user_names")
    yield names
    names.process.communicate(timeout=60)
    assert names.process.returncode == 0


def symbols(path: Path) -> str:
    return subprocess.run(["nm", path], capture_output=True, text=True, check=False).stdout


def names_of(program: Path, users: UserNames) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """What the program says of its functions, and what is found two bytes behind where each begins."""
    said, found = [], []
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while (line := process.stdout.readline()) != "ready\n":
            address, name = line.split()
            said.append((name, 2))
            found.append(users.lookup(process.pid, int(address, 16) + 2)[:2])
        process.communicate("\n")
    return said, found


@pytest.mark.parametrize(
    ("how", "cgo"),
    [((), False), ((STRIPPED,), False), ((STRIPPED, "-buildmode=pie"), False), ((STRIPPED, "-buildmode=pie"), True)],
    ids=["with symbols", "stripped", "anywhere", "anywhere, by the C linker"],
)
def test_functions_of_go(users: UserNames, tmp_path: Path, how: tuple[str, ...], cgo: bool) -> None:
    source = (HERE / "functions.go").read_text()
    (tmp_path / "functions.go").write_text(source.replace("import (", 'import "C"\nimport (') if cgo else source)
    environment = os.environ | {"CGO_ENABLED": str(int(cgo)), "GO111MODULE": "off"}
    subprocess.run([GO, "build", *how, "functions.go"], cwd=tmp_path, env=environment, check=True)
    program = tmp_path / "functions"
    assert bool(symbols(program)) == (STRIPPED not in how)
    said, found = names_of(program, users)
    # From 1.21 on Go's runtime gives `[...]` for the types of a generic function, which the table has.
    assert [
        (name if "[...]" not in said_name else re.sub(r"\[.*\]", "[...]", name), offset)
        for (name, offset), (said_name, _) in zip(found, said, strict=True)
    ] == said
    assert {"main.main", "main.(*store).put", "sync.(*Mutex).Lock"} < {name for name, _ in said}


def test_a_compressed_symbol_table(users: UserNames, tmp_path: Path) -> None:
    whole, table = tmp_path / "whole", tmp_path / "table"
    subprocess.run(["gcc", "-O1", "-x", "c", "-", "-o", whole], input=C_PROGRAM, text=True, check=True)
    subprocess.run(["objcopy", "--only-keep-debug", whole, table], check=True)
    packed = tmp_path / "table.xz"
    packed.write_bytes(lzma.compress(table.read_bytes()))
    stripped, small = tmp_path / "stripped", tmp_path / "small"
    subprocess.run(["objcopy", "--strip-all", whole, stripped], check=True)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={packed}", stripped, small], check=True)
    assert not symbols(small)
    said, found = names_of(small, users)
    assert found == said
    # Else the table is not what the names come from.
    assert names_of(stripped, users)[1] != said
