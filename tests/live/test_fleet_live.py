# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of this kernel, made with many options, go through all of `lockline fleet`; tests/vm has guests'."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import registers
from cgroups import cgroup, cgroup_mounts
from lockline.fleet import gather
from support import DEADLINE_S, Collector, Workload, running, why
from whole_path import follow_whole_path, number

LENGTH = ("-d", "500ms")
AT_ONCE = 4
OPTIONS = (
    (),
    ("--sample", "1", "--kinds", "rwsem,spinlock,mutex"),
    ("--threshold", "50us", "-I", "100ms", "--user-stacks"),
    ("--holders", "--holds"),
    ("--holders", "--futex"),
    ("--futex", "--ptrace", "--clocksource"),
    ("--flight",),
    ("--self-check=250ms",),
)
EPISODES = ("--episodes", "--holders", "--sample", "1", "--threshold", "1ms")
HOLD_US = 30_000


def record(build: Path, path: Path, *options: str) -> Path:
    """A recording that ends by itself."""
    collector = Collector(build, path, *LENGTH, *options)
    status = collector.wait()
    assert status == 0, collector.errors()
    return path


def test_the_whole_path(live: Path, two_cpus: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = secrets.token_hex(32)
    # Where v2 has groups, a task's group is that of v2, also beside v1: this one sees to it, whatever others make.
    mounts = cgroup_mounts("memory")
    if not mounts:
        pytest.skip("no cgroup hierarchy is mounted")
    monkeypatch.setattr(gather, "LEAST", len(OPTIONS))
    with ExitStack() as stack:
        home = stack.enter_context(cgroup(mounts.get("v2") or mounts["v1"], f"docker-{identity}.scope"))
        # Its waits are long, and each is recorded: of a holder that sleeps, in a container.
        held = stack.enter_context(Workload(live, "uffd_mutex"))
        (home / f"docker-{identity}.scope" / "cgroup.procs").write_text(str(held.pid))
        stack.enter_context(running(live / "workloads" / "lock_load", "directory", "2", cwd=tmp_path, share=0.2))
        stack.enter_context(running(live / "workloads" / "lock_load", "futex", "2", share=0.2))
        pingers = stack.enter_context(Workload(live, "ping_pong", "line", "tokens"))
        pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        reason = pool.submit(why, tmp_path, "-d", "2", "-o", str(tmp_path / "why"))
        made = [
            pool.submit(record, live, tmp_path / f"{index}", "-a", *options) for index, options in enumerate(OPTIONS)
        ]
        line = (f"user:{pingers.pid}:ping_pong_lines", "--offsets", "0-7,24-31")
        # A step of `why` may watch lines, too, and there are four registers.
        reason.result(DEADLINE_S)
        with registers.held(), Collector(live, tmp_path / "watch", *line, command="watch"):
            pingers.do("go 200 100")
        with Collector(live, tmp_path / "episodes", *EPISODES, "-p", str(held.pid)):
            held.do(f"go 3 {HOLD_US}")
        recordings = [one.result(DEADLINE_S) for one in made]
    recordings += [tmp_path / name for name in ("watch", "episodes", "why")]
    fleet = follow_whole_path(recordings, tmp_path)
    for table in ("holders", "stacks", "episodes", "lines"):
        assert number(fleet, "count(*)", table) > 0, table
    assert number(fleet, f"sum(waits) FILTER (WHERE container LIKE '%{identity[:12]}%')", "containers") > 0
