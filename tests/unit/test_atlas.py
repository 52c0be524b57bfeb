# SPDX-License-Identifier: GPL-2.0-or-later
"""The atlas of kernel locks: whole, plain, and found by the names that reports print."""

import json
import re

import pytest

from lockline.atlas import Atlas, KnownLock, atlas
from lockline.cli.main import main
from lockline.render.atlas import render

LOCKS = atlas().locks


def test_there_are_eighty_locks_and_each_name_once() -> None:
    names = [name for lock in LOCKS for name in lock.names]
    assert len(LOCKS) >= 80
    assert len(names) == len(set(names))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.names[0])
def test_an_entry_is_whole(lock: KnownLock) -> None:
    assert all((lock.title, lock.kind, lock.protects, lock.contended_by, lock.confirm, lock.helps, lock.sources))
    assert all(
        re.fullmatch(
            r"(Documentation|arch|block|drivers|fs|include|io_uring|ipc|kernel|lib|mm|net|security|virt)/\S+", source
        )
        for source in lock.sources
    )
    assert set(lock.only_in) <= set(lock.names)
    assert set().union(*lock.only_in.values()) <= set(atlas().kernels)


# System calls that arm64 and newer architectures have by another name; perf trace refuses what is none.
LEGACY = {
    *("access", "dup2", "epoll_create", "epoll_wait", "eventfd", "fork", "getdents", "inotify_init", "link", "lstat"),
    *("mkdir", "open", "pipe", "poll", "rename", "rmdir", "select", "signalfd", "stat", "symlink", "unlink", "vfork"),
}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.names[0])
def test_what_confirms_works_on_every_architecture(lock: KnownLock) -> None:
    calls = re.findall(r"perf trace .*?-e (?:'([^']*)'|(\S+))", lock.confirm)
    named = {name for quoted, plain in calls for name in (quoted or plain).split(",")}
    assert named & LEGACY == set()
    assert not any("*" in plain for _, plain in calls)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.names[0])
def test_advice_of_a_place_is_there(lock: KnownLock) -> None:
    assert all(0 <= index < len(lock.helps) for index in (*lock.where.values(), *lock.on.values()))


def test_the_file_system_matters_more_than_the_function() -> None:
    lock = atlas().find("inode.i_rwsem")
    assert lock
    assert lock.helps_in(["do_rmdir"], "inode 1 cgroup2")[0].startswith("keep control groups")
    assert lock.helps_in(["do_rmdir"], "inode 4711 vda")[0].startswith("spread files")
    assert lock.helps_in(["do_rmdir"])[0].startswith("spread files")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("mm_struct.mmap_lock", "mm_struct.mmap_lock"),
        ("mmap_lock", "mm_struct.mmap_lock"),
        ("mm_struct.mmap_lock.wait_lock", "mm_struct.mmap_lock"),
        ("runqueues.__lock [CPU 3]", "runqueues.__lock"),
        ("runqueues.__lock[CPU 3]", "runqueues.__lock"),
        ("rtnl_lock", "rtnl_mutex"),
        ("siglock", "sighand_struct.siglock"),
        ("ext4_inode_info.vfs_inode.i_rwsem", "inode.i_rwsem"),
        ("ext4_inode_info.vfs_inode.i_data.i_mmap_rwsem", "address_space.i_mmap_rwsem"),
        ("shmem_inode_info.vfs_inode.i_lock", "inode.i_lock"),
        ("xfs_inode.i_lock", "xfs_inode.i_lock"),
        ("ext4_inode_info.vfs_inode.i_data.i_pages.xa_lock", "address_space.i_pages.xa_lock"),
        ("tcp_sock.inet_conn.icsk_inet.sk.sk_lock.slock", "sock.sk_lock.slock"),
        ("mem_cgroup_per_node.lruvec.lru_lock", "lruvec.lru_lock"),
    ],
)
def test_a_lock_is_found_by_the_names_people_have_for_it(given: str, found: str) -> None:
    lock = atlas().find(given)
    assert lock
    assert lock.names[0] == found


@pytest.mark.parametrize(
    "given",
    [
        "",
        "lock",
        "?",
        "kmalloc-192 in vfs_write",
        "no_such_lock",
        ".wait_lock",
        "driver_data.queue.lock",
        "driver_data.state.mutex",
        "driver_data.work.list_lock",
    ],
)
def test_a_name_that_could_be_many_locks_is_none(given: str) -> None:
    assert atlas().find(given) is None


def test_no_line_is_wider_but_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    for lock in LOCKS:
        for line in render(lock, atlas().kernels, 80).splitlines():
            assert len(line) <= 80 or lock.confirm in line or " " not in line.strip(), line


def test_explain_says_what_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "tasklist_lock"]) == 0
    shown = capsys.readouterr().out
    assert "stop the tracer" in shown
    assert main(["explain", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(LOCKS)
    assert main(["explain", "tasklist_lock", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "lockline-explain/1"
    assert [lock["names"] for lock in document["locks"]] == [["tasklist_lock"]]


def test_an_unknown_lock_is_one_line_with_what_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "tasklist_lok"]) == 1
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.count("\n") == 1
    assert "tasklist_lock" in shown.err
    assert main(["explain", "\x1b[31m" + "x" * 5000]) == 1
    shown = capsys.readouterr()
    assert "\x1b" not in shown.err
    assert len(shown.err) < 300


def test_an_atlas_of_two_members_of_one_name_asks_for_the_type() -> None:
    known = KnownLock(("a.lock",), "t", "spinlock", "p", ("c",), "x", ("h",), ("kernel/fork.c",))
    other = KnownLock(("b.lock",), "t", "spinlock", "p", ("c",), "x", ("h",), ("kernel/fork.c",))
    both = Atlas(("6.1",), (known, other))
    assert both.find("lock") is None
    assert both.find("a.lock") is known
