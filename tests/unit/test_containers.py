# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of containers in reports."""

import json
from pathlib import Path

import pytest

from lockline.analysis.containers import container_name
from lockline.cli.main import main
from lockline.recording import rows
from recording_generator import RecordingBuilder
from schemas import validator_of

ID = "0123456789abcdef" * 4
EMPTY = rows.Container(1, "", "", "", "", "", "", "", "", "", "")


@pytest.mark.parametrize(
    "row, name",
    [
        (EMPTY, ""),
        (EMPTY._replace(unit="ssh.service", slice="system.slice"), ""),
        (EMPTY._replace(container=ID, pod="web", namespace="shop", name="nginx"), "shop/web/nginx"),
        (EMPTY._replace(container=ID, pod="web", namespace="shop"), "shop/web/0123456789ab"),
        (EMPTY._replace(pod="web", namespace="shop", pod_uid="1-2"), "shop/web"),
        (EMPTY._replace(container=ID, name="web", runtime="docker"), "web"),
        (EMPTY._replace(container=ID, runtime="docker"), "docker 0123456789ab"),
        (EMPTY._replace(container=ID), "container 0123456789ab"),
        (EMPTY._replace(pod_uid="1-2"), "pod 1-2"),
    ],
)
def test_name(row: rows.Container, name: str) -> None:
    assert container_name(row) == name


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    builder = RecordingBuilder(tmp_path / "containers.data")
    builder.insert("cgroup", [(1, "/"), (2, f"/kubepods/podx/{ID}"), (3, f"/docker/{ID[::-1]}")])
    builder.insert(
        "container",
        [
            (2, "containerd", ID, "nginx", "nginx:1.27", "web-7d", "shop", "", "", "", "config.json"),
            (3, "docker", ID[::-1], "cache", "", "", "", "", "", "", "config.v2.json"),
        ],
    )
    builder.lock(1, "rtnl_mutex")
    for waiter, (comm, cgroup) in enumerate([("init", 1), ("nginx", 2), ("redis", 3)], 1):
        builder.waiter(waiter, comm, cgroup=cgroup)
        builder.insert("sample_total", [(waiter, 1, 3, 0, 0, 1, waiter, waiter * 1_000_000)])
    return builder.finish()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_the_table_names_containers(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "report", str(recording), "--cgroups")
    assert code == 0
    assert "container or cgroup" in out
    lines = out.splitlines()
    first = next(index for index, line in enumerate(lines) if "cache" in line)
    assert "shop/web-7d/nginx (nginx:1.27)" in lines[first + 1]


def test_json(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "report", str(recording), "--format", "json")
    document = json.loads(out)
    validator_of("report").validate(document)
    assert [(one["name"], one["wait_ns"], one["tasks"]) for one in document["cgroups"]] == [
        ("cache", 3_000_000, 1),
        ("shop/web-7d/nginx", 2_000_000, 1),
        (None, 1_000_000, 1),
    ]
    assert document["cgroups"][1]["container"] == {
        "runtime": "containerd",
        "id": ID,
        "name": "nginx",
        "image": "nginx:1.27",
        "pod": "web-7d",
        "namespace": "shop",
        "pod_uid": None,
        "unit": None,
        "slice": None,
        "source": "config.json",
    }
    assert document["cgroups"][2]["container"] is None
    assert {task["comm"]: task["container"] for task in document["tasks"]} == {
        "init": None,
        "nginx": "shop/web-7d/nginx",
        "redis": "cache",
    }


@pytest.mark.parametrize(
    "options, comms",
    [
        (["--container", "nginx"], ["nginx"]),
        (["--container", ID[:12]], ["nginx"]),
        (["--container", "cache"], ["redis"]),
        (["--pod", "shop/web-7d"], ["nginx"]),
        (["--pod", "shop/web-7d", "--container", "nginx"], ["nginx"]),
    ],
)
def test_filters(recording: Path, capsys: pytest.CaptureFixture[str], options: list[str], comms: list[str]) -> None:
    _, out, _ = run(capsys, "report", str(recording), "--format", "json", *options)
    document = json.loads(out)
    validator_of("report").validate(document)
    assert [task["comm"] for task in document["tasks"]] == comms
    assert len(document["cgroups"]) == 1
    _, out, _ = run(capsys, "report", str(recording), *options)
    assert "Who waits" in out
    assert "init" not in out


@pytest.mark.parametrize(
    "options",
    [["--container", "web"], ["--container", ID[:11]], ["--pod", "shop/x"], ["--pod", "x", "--container", "nginx"]],
)
def test_a_name_that_is_not_there(recording: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    code, out, err = run(capsys, "report", str(recording), *options)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "cache, shop/web-7d/nginx" in err
