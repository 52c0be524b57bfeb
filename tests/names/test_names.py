# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of kernel symbols, locks and user functions."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from programs import TOP, make

HERE = Path(__file__).resolve().parent

CASES = (
    "of_several_names_the_global_one",
    "very_many_names_of_one_address",
    "modules_in_any_order",
    "nothing_is_named_after_a_marker",
    "addresses_by_name",
    "hidden_addresses",
    "an_empty_file",
    "bytes_that_are_no_text",
    "lines_longer_than_one_read",
    "modules_below_the_kernel",
    "variables_with_kallsyms_all",
    "variables_whose_type_says_text",
    "functions_that_are_no_call_site",
    "sections_mark_what_waits",
    "members_are_walked",
    "parts_of_an_rt_lock_have_its_name",
    "the_kind_tells_a_semaphore_from_its_spinlock",
    "what_is_no_lock_is_refused",
    "a_path_that_does_not_fit_is_refused",
    "lookups_by_name",
    "per_cpu_variables",
    "objects_of_the_waiter",
    "locks_by_code",
    "slab_objects_by_the_cache_name",
    "slab_objects_behind_a_red_zone",
    "slabs_smaller_than_usual",
    "kmalloc_objects_by_a_parameter",
    "semaphores_at_the_end_of_their_set",
    "merged_caches_are_not_believed",
    "table_of_pages_arm64",
    "futex_buckets",
    "call_sites",
    "variables",
)

# Prints the addresses of a function of the C library, of anonymous executable memory and of the vDSO,
# then waits; on a line, it becomes another program.
TARGET = """
import ctypes, mmap, os, sys
memory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
maps = open("/proc/self/maps").read().splitlines()
vdso = next((int(line.split("-")[0], 16) for line in maps if line.endswith("[vdso]")), 0)
function = ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p).value
print(function, ctypes.addressof(ctypes.c_char.from_buffer(memory)), vdso, flush=True)
sys.stdin.readline()
os.execvp("cat", ["cat"])
"""


@pytest.fixture(scope="module")
def programs() -> Path:
    """Directory of the test programs, made."""
    make(HERE)
    return TOP / "build" / "tests"


def test_every_case_is_listed(programs: Path) -> None:
    listed = subprocess.run([programs / "names_test"], capture_output=True, text=True, check=True).stdout.split()
    assert tuple(listed) == CASES


@pytest.mark.parametrize("case", CASES)
def test_names(programs: Path, case: str) -> None:
    done = subprocess.run([programs / "names_test", case], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def live_names(programs: Path, bpf_machine: None) -> dict[str, tuple[str, str, str, str]]:
    """What the locks of a process and its files are called on this kernel: name, instance, source, pid."""
    with subprocess.Popen([programs / "live_names"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        stdout, stderr = run.communicate(timeout=60)
        assert run.returncode == 0, stderr
        rows = [line.split("\t") for line in stdout.splitlines()]
        return {row[0]: (row[1], row[2], row[3], str(run.pid)) for row in rows}


def has_slab_kfunc() -> bool:
    return b"\0bpf_get_kmem_cache\0" in Path("/sys/kernel/btf/vmlinux").read_bytes()


def test_run_queue_of_each_cpu(live_names: dict[str, tuple[str, str, str, str]]) -> None:
    queues = {what: row for what, row in live_names.items() if what.startswith("run queue ")}
    assert len(queues) == os.sysconf("SC_NPROCESSORS_ONLN")
    for what, (name, instance, source, _) in queues.items():
        assert (name, instance, source) == ("runqueues.__lock", "CPU " + what.split()[-1], "per-CPU symbol")


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("owner mmap_lock", "mm_struct.mmap_lock"),
        ("owner mmap_lock inner", "mm_struct.mmap_lock.wait_lock"),
        ("owner siglock", "sighand_struct.siglock"),
        ("owner cred_guard_mutex", "signal_struct.cred_guard_mutex"),
        ("owner file_lock", "files_struct.file_lock"),
    ],
)
def test_objects_of_the_waiter(live_names: dict[str, tuple[str, str, str, str]], what: str, name: str) -> None:
    pid = live_names[what][3]
    assert live_names[what] == (name, f"pid {pid}", "owner object", pid)


def test_task_of_the_waiter(live_names: dict[str, tuple[str, str, str, str]]) -> None:
    pid = live_names["owner pi_lock"][3]
    assert live_names["owner pi_lock"] == ("task_struct.pi_lock", f"tid {pid}", "owner object", pid)


@pytest.mark.parametrize(
    ("what", "name", "instance"),
    [
        ("task pi_lock", "task_struct.pi_lock", "tid {pid}"),
        ("mm mmap_lock", "mm_struct.mmap_lock", None),
        ("mm mmap_lock inner", "mm_struct.mmap_lock.wait_lock", None),
        ("pipe mutex", "pipe_inode_info.mutex", ""),
        ("pipe rd_wait", "pipe_inode_info.rd_wait.lock", ""),
        ("pipe rd_wait, polled", "pipe_inode_info.rd_wait.lock", ""),
        ("eventfd, polled", "eventfd_ctx.wqh.lock", ""),
        ("inodes of a file system", "super_block.s_inode_list_lock", "tmpfs"),
        ("tmpfs", "shmem_sb_info.stat_lock", ""),
        ("dentry lock", "dentry.d_lockref.lock", ""),
        ("epoll mutex", "eventpoll.mtx", ""),
        ("unix socket", "unix_sock.lock", ""),
    ],
)
def test_slab_objects(
    live_names: dict[str, tuple[str, str, str, str]], what: str, name: str, instance: str | None
) -> None:
    if not has_slab_kfunc():
        pytest.skip("this kernel has no bpf_get_kmem_cache (6.13)")
    found, found_instance, source, pid = live_names[what]
    assert (found, source) == (name, "slab")
    if instance is not None:
        assert found_instance == instance.format(pid=pid)


def test_an_inode_is_told_by_its_number(live_names: dict[str, tuple[str, str, str, str]]) -> None:
    if not has_slab_kfunc():
        pytest.skip("this kernel has no bpf_get_kmem_cache (6.13)")
    name, instance, source, _ = live_names["directory inode"]
    assert source == "slab"
    assert name.endswith("inode.i_rwsem")
    assert instance.startswith(f"inode {Path('/').stat().st_ino}")


class UserNames:
    """The program that looks user symbols up, kept running so that its cache is at work."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def lookup(self, pid: int, address: int, how: str = "") -> tuple[str, int, str]:
        """Name, offset and module; how: "again", with maps read again at once."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{pid} {address:x} {how}\n")
        self.process.stdin.flush()
        name, offset, module = self.process.stdout.readline().rstrip("\n").split("\t")
        return name, int(offset), module

    def frames(self, pid: int, address: int) -> int:
        """How many frames a stack of zeros has whose leaf is there: 1 where a frame table tells of it, else 0."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{pid} {address:x} frames\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture
def users(programs: Path) -> Iterator[UserNames]:
    names = UserNames(programs / "user_names")
    yield names
    names.process.communicate(timeout=60)
    assert names.process.returncode == 0


@contextmanager
def target(program: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A running process and its addresses: a libc function, anonymous memory, the vDSO."""
    process = subprocess.Popen(
        [program, "-c", TARGET], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout is not None
    try:
        yield process, [int(word) for word in process.stdout.readline().split()]
    finally:
        process.kill()
        process.communicate()


def test_user_functions(users: UserNames) -> None:
    with target(sys.executable) as (process, (function, anonymous, vdso)):
        name, offset, module = users.lookup(process.pid, function)
        assert "getppid" in name
        assert offset == 0
        assert "libc" in module
        assert users.lookup(process.pid, function + 4)[1] == 4
        assert users.lookup(process.pid, anonymous) == ("", 0, "[anon]")
        assert users.lookup(process.pid, 0x1000) == ("", 0, "")
        if vdso:
            assert users.lookup(process.pid, vdso + 0x40)[2] == "[vdso]"


@contextmanager
def map_of(pid: int, text: str) -> Iterator[Path]:
    """What a process says of the code that it made."""
    path = Path(f"/tmp/perf-{pid}.map")
    path.write_text(text)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def test_code_made_at_run_time(users: UserNames) -> None:
    with target(sys.executable) as (process, (_, anonymous, _)):
        lines = (
            f"{anonymous:x} 80 void Threads.underMonitor(java.lang.Object)",
            "no line of a map",
            f"{anonymous + 0x20:x} 10 inner\x1b[2J",
            f"0x{anonymous + 0x40:x} 0x10 written first",
            f"{anonymous + 0x40:x} 10 written last",
            f"{anonymous + 0x60:x} 10 half a li",
        )
        with map_of(process.pid, "\n".join(lines)) as path:
            at = {offset: users.lookup(process.pid, anonymous + offset) for offset in (4, 0x24, 0x41, 0x64, 0x100)}
            assert at[4] == ("void Threads.underMonitor(java.lang.Object)", 4, str(path))
            assert at[0x24] == ("inner?[2J", 4, str(path))
            assert at[0x41] == ("written last", 1, str(path))
            # A line without an end is still being written.
            assert at[0x64][0] == "void Threads.underMonitor(java.lang.Object)"
            assert at[0x100] == ("", 0, "[anon]")
            with path.open("a") as more:
                more.write(f"ne\n{anonymous + 0x100:x} 10 compiled later\n")
            deadline = time.monotonic() + 60
            while users.lookup(process.pid, anonymous + 0x100)[0] != "compiled later":
                assert time.monotonic() < deadline, "the file is not read again"
                time.sleep(0.1)
            assert users.lookup(process.pid, anonymous + 0x64) == ("half a line", 4, str(path))


def test_a_map_that_is_written_when_the_recording_ends(users: UserNames) -> None:
    """As Java writes it at its exit: the last look reads it, however lately it was not there."""
    with target(sys.executable) as (process, (_, anonymous, _)):
        assert users.lookup(process.pid, anonymous) == ("", 0, "[anon]")
        with map_of(process.pid, f"{anonymous:x} 80 void Threads.run()\n"):
            assert users.lookup(process.pid, anonymous, "again")[0] == "void Threads.run()"


def test_what_is_no_map_of_the_process(users: UserNames, tmp_path: Path) -> None:
    """A link, a FIFO, a file that is older than the process: none is read, and no other name is lost."""
    real = tmp_path / "map"
    for what in ("link", "fifo", "old"):
        with target(sys.executable) as (process, (function, anonymous, _)):
            line = f"{anonymous:x} 80 a lie\n"
            path = Path(f"/tmp/perf-{process.pid}.map")
            real.write_text(line)
            try:
                if what == "link":
                    path.symlink_to(real)
                elif what == "fifo":
                    os.mkfifo(path)
                else:
                    path.write_text(line)
                    os.utime(path, (1_000_000_000, 1_000_000_000))
                assert users.lookup(process.pid, anonymous) == ("", 0, "[anon]"), what
            finally:
                path.unlink()
            assert "getppid" in users.lookup(process.pid, function)[0]


def test_of_a_large_map_the_end_is_read(users: UserNames) -> None:
    with target(sys.executable) as (process, (_, anonymous, _)):
        before = f"{anonymous:x} 80 {'x' * (1 << 20)}\n"
        with map_of(process.pid, before * 100 + f"{anonymous:x} 80 made last\n"):
            assert users.lookup(process.pid, anonymous)[0] == "made last"


def test_a_process_that_is_gone(users: UserNames) -> None:
    with target(sys.executable) as (process, (function, _, _)):
        assert "getppid" in users.lookup(process.pid, function)[0]
        pid = process.pid
    # It was met while it lived; one that never was has no name.
    assert "getppid" in users.lookup(pid, function)[0]
    assert users.lookup(2**22 + 1, function) == ("", 0, "")
    assert users.lookup(0, function) == ("", 0, "")


def test_a_process_that_became_another_program(users: UserNames) -> None:
    with target(sys.executable) as (process, (function, _, _)):
        assert "getppid" in users.lookup(process.pid, function)[0]
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while Path(f"/proc/{process.pid}/comm").read_text() != "cat\n":
            assert time.monotonic() < deadline, "the target did not become cat"
            time.sleep(0.01)
        assert "python" not in users.lookup(process.pid, function)[2]
        maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        start = int(next(line for line in maps if line.endswith("/cat")).split("-")[0], 16)
        assert users.lookup(process.pid, start)[2].endswith("/cat")


def test_a_program_that_was_deleted(users: UserNames, programs: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a deleted file is read through /proc/PID/map_files")
    program = tmp_path / "removed"
    shutil.copy(programs / "user_names", program)
    table = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    main = int(next(line.split()[0] for line in table.splitlines() if line.endswith(" T main")), 16)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("0 0\n")
        process.stdin.flush()
        process.stdout.readline()
        maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        start = next(int(line.split("-")[0], 16) for line in maps if line.endswith(str(program)))
        program.unlink()
        assert users.lookup(process.pid, start + main) == ("main", 0, str(program))
        process.communicate()


def test_lookups_of_many_processes_stay_bounded(users: UserNames) -> None:
    # The cache of the program holds two: the third pushes out the first, which is then met again.
    with target(sys.executable) as first, target(sys.executable) as second, target(sys.executable) as third:
        for _ in range(2):
            for process, (function, _, _) in (first, second, third):
                assert "getppid" in users.lookup(process.pid, function)[0]
