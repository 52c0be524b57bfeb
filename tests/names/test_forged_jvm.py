# SPDX-License-Identifier: GPL-2.0-or-later
"""A process whose libjvm.so tells lies: its code has no names, nothing hangs, and a real JVM is named right after."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_hostile_files import helpers, program, users  # noqa: F401 - fixtures
from test_names import UserNames

SOURCE = """
#include <stdint.h>
#include <sys/mman.h>
#include <stdio.h>
#include <unistd.h>
#include <stdlib.h>
#include <string.h>
struct entry { const char *type, *field, *kind; uint64_t is_static, offset; void *address; };
#define NUMBER(name, value) uint64_t name = value
NUMBER(gHotSpotVMStructEntryArrayStride, STRIDE);
NUMBER(gHotSpotVMStructEntryTypeNameOffset, 0);
NUMBER(gHotSpotVMStructEntryFieldNameOffset, 8);
NUMBER(gHotSpotVMStructEntryOffsetOffset, 32);
NUMBER(gHotSpotVMStructEntryAddressOffset, 40);
NUMBER(gHotSpotVMTypeEntryArrayStride, 16);
NUMBER(gHotSpotVMTypeEntryTypeNameOffset, 0);
NUMBER(gHotSpotVMTypeEntrySizeOffset, 8);
NUMBER(gHotSpotVMIntConstantEntryArrayStride, 16);
NUMBER(gHotSpotVMIntConstantEntryNameOffset, 0);
NUMBER(gHotSpotVMIntConstantEntryValueOffset, 8);
void *gHotSpotVMStructs, *gHotSpotVMTypes, *gHotSpotVMIntConstants;
void *forge(void)
{
	const uint64_t size = 64ull << 20;
	uint64_t *table = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* Tables that do not end within them; each name is a page further. */
	for (uint64_t i = 0; i < size / 8; i++)
		table[i] = WORD;
	gHotSpotVMStructs = gHotSpotVMTypes = gHotSpotVMIntConstants = table;
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
"""
MAIN = """
#include <stdio.h>
void *forge(void);
int main(void) { printf("%lx\\n", (long)forge()); fflush(stdout); return getchar(); }
"""
# What each word of the tables is: a text without end, many texts far apart, no address.
LIES = {
    "no stride": ("0", "(uint64_t)table"),
    "names far apart": ("48", "(uint64_t)table + (i * 4096) % size"),
    "one name without end": ("48", "(uint64_t)table"),
    "no addresses": ("48", "i << 40"),
    "nothing": ("48", "0"),
}


@contextmanager
def forged(directory: Path, lie: str) -> Iterator[tuple[int, int]]:
    """The process, and an address of anonymous code in it."""
    stride, word = LIES[lie]
    (directory / "libjvm.c").write_text(SOURCE.replace("STRIDE", stride, 1).replace("WORD", word))
    (directory / "main.c").write_text(MAIN)
    library, main = directory / "libjvm.so", directory / "main"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, directory / "libjvm.c"], check=True)
    subprocess.run(["gcc", "-o", main, directory / "main.c", library], check=True)
    with subprocess.Popen([main], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline(), 16)
        process.communicate("\n")


@pytest.mark.parametrize("lie", LIES)
def test_a_forged_jvm_has_no_names(users: UserNames, tmp_path: Path, lie: str) -> None:  # noqa: F811
    with forged(tmp_path, lie) as (pid, address):
        assert users.lookup(pid, address, "java") == ("", 0, "[java]")
        before = helpers(users)
        assert users.lookup(pid, address + 8, "java") == ("", 0, "[java]")
        # The helper that read the lies lives, and the file's own functions are named.
        assert helpers(users) == before
        assert len(before) == 1
        line = next(line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "libjvm" in line)
        table = subprocess.run(["nm", tmp_path / "libjvm.so"], capture_output=True, text=True, check=True).stdout
        (forge,) = (int(line.split()[0], 16) for line in table.splitlines() if line.endswith(" T forge"))
        assert users.lookup(pid, int(line.split("-")[0], 16) + forge)[0] == "forge"
