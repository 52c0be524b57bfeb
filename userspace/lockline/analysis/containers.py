# SPDX-License-Identifier: GPL-2.0-or-later
"""What runs in the waiters' cgroups, and who waits by cgroup."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from lockline.analysis.model import CgroupWaits, Task
from lockline.base.errors import LocklineError
from lockline.recording import rows
from lockline.recording.reader import Recording

# What the runtimes print of an id, and the least that --container takes.
SHORT_ID = 12


def container_name(row: rows.Container) -> str:
    """A container or pod in one word; "" for a cgroup that is neither.

    "NAMESPACE/POD/CONTAINER", "NAMESPACE/POD" for a pod's own cgroup, the name that docker, podman or lxc gave, or the
    first digits of the id.
    """
    if row.pod:
        pod = f"{row.namespace}/{row.pod}"
        return f"{pod}/{row.name or row.container[:SHORT_ID]}" if row.container else pod
    if row.name:
        return row.name
    if row.container:
        return f"{row.runtime or 'container'} {row.container[:SHORT_ID]}"
    return f"pod {row.pod_uid}" if row.pod_uid else ""


def read_containers(recording: Recording) -> dict[int, rows.Container]:
    """By the id of their cgroup; none in recordings before schema 5."""
    return {row.cgroup: row for row in recording.table(rows.Container)}


def _matches(row: rows.Container, container: str | None, pod: str | None) -> bool:
    if pod is not None and f"{row.namespace}/{row.pod}" != pod:
        return False
    if container is None:
        return True
    return row.name == container or (len(container) >= SHORT_ID and row.container.startswith(container))


def select_waiters(
    waiters: Mapping[int, rows.Waiter],
    containers: Mapping[int, rows.Container],
    container: str | None,
    pod: str | None,
) -> frozenset[int] | None:
    """The waiters in this container and pod ("NAMESPACE/NAME"); None: without either, all.

    Raises LocklineError if nothing in the recording has that name.
    """
    if container is None and pod is None:
        return None
    chosen = {cgroup for cgroup, row in containers.items() if _matches(row, container, pod)}
    if not chosen:
        known = sorted({name for row in containers.values() if (name := container_name(row))})
        there = f"there are {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}" if known else "there is none"
        option = f"--pod {pod}" if container is None else f"--container {container}"
        raise LocklineError(f"{option}: nothing of that name waited; {there}")
    return frozenset(waiter for waiter, who in waiters.items() if who.cgroup_id in chosen)


def by_cgroup(tasks: Sequence[Task], paths: Mapping[str, rows.Container], total_ns: int) -> tuple[CgroupWaits, ...]:
    """Who waits by cgroup, longest first; paths: what runs in a cgroup, total_ns: of all samples."""
    grouped: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        grouped[task.cgroup].append(task)
    found = []
    for path, of_path in grouped.items():
        wait_ns = sum(task.wait_ns for task in of_path)
        found.append(
            CgroupWaits(
                path=path,
                name=of_path[0].container,
                container=paths.get(path),
                tasks=len({(task.tgid, task.tid) for task in of_path}),
                waits=sum(task.waits for task in of_path),
                wait_ns=wait_ns,
                share=wait_ns / total_ns if total_ns else None,
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.wait_ns, one.path)))
