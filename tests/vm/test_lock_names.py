# SPDX-License-Identifier: GPL-2.0-or-later
"""Lock names on kernels without bpf_get_kmem_cache (6.13), and with KALLSYMS_ALL."""

from collections.abc import Callable

import pytest
from boots import TOP, Section
from guest import Guest
from matrix import boot, chosen, kernel_of

# Of each lock that tests/names/live_names.c finds: its name, and how it was found.
NAMES = {
    "run queue 0": ("runqueues.__lock", "per-CPU symbol"),
    "run queue 1": ("runqueues.__lock", "per-CPU symbol"),
    "variable": ("tasklist_lock", "symbol"),
    "zone lock": ("pglist_data.node_zones.lock", "symbol"),
    "task pi_lock": ("task_struct.pi_lock", "slab"),
    "mm mmap_lock": ("mm_struct.mmap_lock", "slab"),
    "mm mmap_lock inner": ("mm_struct.mmap_lock.wait_lock", "slab"),
    "owner mmap_lock": ("mm_struct.mmap_lock", "owner object"),
    "owner siglock": ("sighand_struct.siglock", "owner object"),
    "owner cred_guard_mutex": ("signal_struct.cred_guard_mutex", "owner object"),
    "owner file_lock": ("files_struct.file_lock", "owner object"),
    "pipe mutex": ("pipe_inode_info.mutex", "slab"),
    "pipe rd_wait": ("pipe_inode_info.rd_wait.lock", "slab"),
    "pipe rd_wait, polled": ("pipe_inode_info.rd_wait.lock", "slab"),
    "eventfd, polled": ("eventfd_ctx.wqh.lock", "slab"),
    "inodes of a file system": ("super_block.s_inode_list_lock", "slab"),
    "tmpfs": ("shmem_sb_info.stat_lock", "slab"),
    "pages of a cgroup": ("mem_cgroup_per_node.lruvec.lru_lock", "slab"),
    "dentry lock": ("dentry.d_lockref.lock", "slab"),
    "epoll mutex": ("eventpoll.mtx", "slab"),
    "unix socket": ("unix_sock.lock", "slab"),
}


LIVE_NAMES = str(TOP / "build" / "tests" / "live_names")
SECTIONS = chosen(*(Section(boot(kernel), "names", "live_names", (LIVE_NAMES,)) for kernel in ("bookworm", "trixie")))


@pytest.fixture(scope="module", params=SECTIONS, ids=kernel_of)
def rows(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> dict[str, tuple[str, str, str]]:
    """Name, instance and source of each lock, as the guest printed them."""
    guest = results(request.param)
    lines = [line.split("\t") for line in guest.text("stdout").splitlines()]
    return {line[0]: (line[1], line[2], line[3]) for line in lines}


def test_names_and_their_sources(rows: dict[str, tuple[str, str, str]]) -> None:
    assert {what: (rows[what][0], rows[what][2]) for what in NAMES} == NAMES


def test_instances(rows: dict[str, tuple[str, str, str]]) -> None:
    assert rows["run queue 0"][1] == "CPU 0"
    assert rows["run queue 1"][1] == "CPU 1"
    assert rows["zone lock"][1] == "node 0 [0]"
    # The mm's own idea of its process, and the waiter's.
    assert rows["mm mmap_lock"][1] == rows["owner mmap_lock"][1]
    assert rows["directory inode"][1] == "inode 1 rootfs"
