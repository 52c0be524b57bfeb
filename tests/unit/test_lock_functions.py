# SPDX-License-Identifier: GPL-2.0-or-later
"""No wrapper of a lock is taken for who uses it: the collector and the reports agree, for the kernels' own names."""

import subprocess
from pathlib import Path

import pytest

from lockline.recording.rows import Frame
from lockline.recording.stacks import is_lock_internal, is_wrapper, without_internals

TOP = Path(__file__).parent.parent.parent
LIST = Path(__file__).with_name("lock_functions.txt")
LINES = [line.split() for line in LIST.read_text().splitlines() if not line.startswith("#")]
# That begin like a lock's function and are none.
USERS = ("__update_load_avg_se", "__upgrade_something", "downgrade_something_else", "scheduler_tick", "completed")
USERS += (
    "futex_wake",
    "release_task",
    "free_unref_page",
    "read_hpet",
    "uprobe_mmap",
    "raw_sendmsg",
    "write_cache_pages",
)
SUFFIXES = ("", ".isra.0", ".constprop.0", ".part.0")


def by_reports(name: str) -> bool:
    frame = Frame(0, name, 0, "")
    return is_lock_internal(frame) or is_wrapper(frame)


@pytest.fixture(scope="module")
def by_collector(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """What symbol_is_lock_internal() says of each name of the list."""
    directory = tmp_path_factory.mktemp("functions")
    (directory / "ask.c").write_text(
        """#include <stdio.h>
#include <string.h>
#include "names/lock_functions.h"
int main(void)
{
	char name[256];

	while (fgets(name, sizeof(name), stdin)) {
		name[strcspn(name, "\\n")] = 0;
		printf("%d %s\\n", symbol_is_lock_internal(name), name);
	}
	return 0;
}
"""
    )
    collector = TOP / "userspace" / "collector"
    sources = [str(directory / "ask.c"), str(collector / "names" / "lock_functions.c")]
    subprocess.run(["gcc", "-std=gnu11", f"-I{collector}", "-o", str(directory / "ask"), *sources], check=True)
    names = [name + suffix for _, name in LINES for suffix in SUFFIXES] + list(USERS)
    said = subprocess.run([directory / "ask"], input="\n".join(names), capture_output=True, text=True, check=True)
    return {line.split()[1]: line.startswith("1") for line in said.stdout.splitlines()}


def test_the_list_is_decided() -> None:
    """scripts/lock-functions adds names with a "?": whoever adds a kernel says what they are."""
    assert {what for what, _ in LINES} == {"internal", "user"}
    assert sum(what == "internal" for what, _ in LINES) >= 160
    names = {name for _, name in LINES}
    # Of PREEMPT_RT, of paravirt guests and of the newest kernels.
    assert {"rt_spin_unlock", "rt_read_unlock", "native_queued_spin_unlock_traced", "rwsem_wake", "up_write"} <= names


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_reports_know_each_of_them(suffix: str) -> None:
    wrong = [name for what, name in LINES if by_reports(name + suffix) != (what == "internal")]
    assert wrong == []


def test_the_collector_knows_each_of_them(by_collector: dict[str, bool]) -> None:
    wrong = [
        name + suffix
        for what, name in LINES
        for suffix in SUFFIXES
        if by_collector[name + suffix] != (what == "internal")
    ]
    assert wrong == []


def test_users_are_no_wrappers(by_collector: dict[str, bool]) -> None:
    assert [name for name in USERS if by_reports(name) or by_collector[name]] == []


@pytest.mark.parametrize(
    "wrapper", ["rt_spin_unlock", "rt_read_unlock", "queued_write_unlock", "__wake_up_common_lock"]
)
def test_the_callers_caller_is_named(wrapper: str) -> None:
    frames = tuple(Frame(0, name, 0, "") for name in (wrapper, "release_task", "do_exit"))
    assert without_internals(frames)[0].symbol == "release_task"


@pytest.mark.parametrize(("trampoline", "module"), [("", ""), ("bpf_trampoline_6442536468", "bpf")])
def test_a_trampoline_within_the_locks_functions_hides_nothing(trampoline: str, module: str) -> None:
    frames = (
        Frame(0, "rwsem_down_write_slowpath", 0x3A4, ""),
        Frame(0, trampoline, 0x54, module),
        Frame(0, "rwsem_down_write_slowpath", 8, ""),
        Frame(0, "down_write", 0x7C, ""),
        Frame(0, "do_unlinkat", 0x128, ""),
    )
    assert without_internals(frames)[0].symbol == "do_unlinkat"
    # Who calls the lock's user is no trampoline.
    assert without_internals((*frames[4:], Frame(0, "", 0, "")))[0].symbol == "do_unlinkat"
    # A program that takes a lock is its user.
    program = Frame(0, "bpf_prog_6deef7357e7b4530_map_update", 0x40, "bpf")
    assert without_internals((frames[0], program, frames[4]))[0] == program
