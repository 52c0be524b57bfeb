# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline why --pod` with control groups as kubelet makes them, by both of its drivers."""

import os
import secrets
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from cgroups import cgroup_mounts, remove
from lockline.base.collector import ask_group
from lockline.base.errors import LocklineError
from lockline.cli.why_sleeps import threads_wanted
from lockline.investigation.model import Target
from support import TOP, planted, wait_for, why

pytestmark = pytest.mark.usefixtures("live")

# kubelet makes a directory for each pod there: NAMESPACE_POD_UID.
LOGS = Path("/var/log/pods")
INCIDENTS = TOP / "build" / "workloads" / "incidents"
SPACE = f"lockline-test-{os.getpid()}"


@dataclass(frozen=True)
class Pod:
    """group: of the pod; container: one of its containers', in which processes run."""

    name: str
    group: Path
    container: Path


class Node:
    """Pods below one hierarchy, which are removed at the end."""

    def __init__(self, mount: Path, stack: ExitStack) -> None:
        self._mount, self._stack = mount, stack

    def _group(self, path: str) -> Path:
        at = self._mount
        for part in path.split("/"):
            at = at / part
            if not at.exists():
                at.mkdir()
                self._stack.callback(wait_for, lambda at=at: remove(at), f"removal of {at}")
        return at

    def pod(self, name: str, driver: str, level: str = "burstable") -> Pod:
        """A pod with a container and the one that holds its namespaces; guaranteed pods have no level."""
        uid = str(uuid.uuid4())
        logs = LOGS / f"{SPACE}_{name}_{uid}"
        for directory in (LOGS, logs):
            if not directory.exists():
                directory.mkdir()
                self._stack.callback(directory.rmdir)
        if driver == "systemd":
            levels = ["kubepods", level] if level else ["kubepods"]
            slices = ["-".join(levels[: number + 1]) + ".slice" for number in range(len(levels))]
            slices.append("-".join([*levels, f"pod{uid.replace('-', '_')}.slice"]))
            path, container = "/".join(slices), "cri-containerd-{}.scope"
        else:
            path, container = "/".join(["kubepods", *([level] if level else []), f"pod{uid}"]), "{}"
        found = [self._group(f"{path}/{container.format(secrets.token_hex(32))}") for _ in range(2)]
        return Pod(f"{SPACE}/{name}", self._mount / path, found[0])


@pytest.fixture
def node() -> Iterator[Node]:
    """Of the hierarchy that a machine with both versions has its containers in first."""
    mounts = cgroup_mounts()
    if not mounts:
        pytest.skip("no cgroup hierarchy is mounted")
    with ExitStack() as stack:
        yield Node(next(iter(mounts[name] for name in ("v2", "v1") if name in mounts)), stack)


def run_in(stack: ExitStack, group: Path, tmp_path: Path, *words: str) -> int:
    """A program in a control group, until the stack is closed; its number.

    It begins there: what it has started before it is moved would stay outside.
    """
    members = group / "cgroup.procs"
    join = ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(members), str(INCIDENTS), *words)
    load = stack.enter_context(planted(join, tmp_path))
    wait_for(lambda: load.poll() is not None or str(load.pid) in members.read_text().split(), f"a task of {group}")
    if load.poll() is not None:
        raise OSError(f"{group} takes no processes")
    return load.pid


@pytest.mark.parametrize("level", ["burstable", "besteffort", ""])
@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
def test_the_tasks_of_a_pod_are_those_of_its_groups(node: Node, tmp_path: Path, driver: str, level: str) -> None:
    """All containers of it, and nothing of a pod with a longer name, or of another one of the same level."""
    wanted, longer = node.pod("web", driver, level), node.pod("web-2", driver, level)
    with ExitStack() as stack:
        of_pod = run_in(stack, wanted.container, tmp_path, "idle", "2")
        for group in (longer.container, wanted.group.parent):
            with suppress(OSError):
                # A group with controllers below it takes no processes of its own.
                run_in(stack, group, tmp_path, "idle", "2")
        assert ask_group("", "", wanted.name) == str(wanted.group)
        assert {tgid for tgid, _ in threads_wanted(Target(("-G", str(wanted.group)), ""))} == {of_pod}


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
def test_a_pod_that_is_not_one(node: Node, driver: str) -> None:
    first = node.pod("web", driver)
    second = node.pod("web", driver, "besteffort")
    for name, words in (
        (f"{SPACE}/webs", f"--pod {SPACE}/webs: no cgroup of that name; does the pod run on this node?"),
        ("web", "--pod web: no cgroup of that name"),
        (f"{SPACE}/web", f"--pod {SPACE}/web: several have that name: "),
    ):
        with pytest.raises(LocklineError) as refused:
            ask_group("", "", name)
        assert str(refused.value).startswith(words)
    assert sum(one.group.name in str(refused.value) for one in (first, second)) == 2


@pytest.mark.alone
@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
def test_a_pod_is_asked_about(node: Node, tmp_path: Path, driver: str) -> None:
    """All steps are of it: the recordings, and the looks in /proc that find who waits for a file."""
    wanted, other = node.pod("db", driver), node.pod("web", driver)
    with ExitStack() as stack:
        run_in(stack, wanted.container, tmp_path, "file-lock", "4")
        run_in(stack, other.container, tmp_path, "sleep-in-section", "4")
        story = why(tmp_path, "--pod", wanted.name, "-d", "10")
    assert story["verdict"]["cause"] == "file-lock"
    assert "incident.lock" in story["verdict"]["title"]
    assert story["target"] == f"pod {wanted.name}"
    assert "table_mutex" not in str(story)


def test_a_group_is_named_by_its_path(node: Node, tmp_path: Path) -> None:
    """In the hierarchy that has it, wherever that is mounted."""
    pod = node.pod("web", "systemd")
    with ExitStack() as stack:
        load = run_in(stack, pod.container, tmp_path, "idle", "2")
        (path,) = [
            line.partition("::")[2] or line.split(":", 2)[2]
            for line in Path(f"/proc/{load}/cgroup").read_text().splitlines()
            if "kubepods" in line
        ][:1]
        assert ask_group(path, "", "") == str(pod.container)
        assert ask_group(str(pod.container), "", "") == str(pod.container)
    command = [sys.executable, "-m", "lockline", "why", "-G", f"no/{SPACE}", "-d", "10"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(TOP / "userspace")}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"lockline: -G no/{SPACE}: no such cgroup")
