# SPDX-License-Identifier: GPL-2.0-or-later
"""The service, the DaemonSet and the plugin of kubectl."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
PACKAGING = TOP / "packaging"
SERVICE = (PACKAGING / "lockline.service").read_text()
PLUGIN = PACKAGING / "kubernetes" / "kubectl-lockline"
# Of systemd's own scale, from 0 to 10.
MOST_EXPOSED = 3.0

# A cluster: one pod on node-1, where the DaemonSet's pod is lockline-abc.  What runs there writes a recording.
KUBECTL = """#!/bin/sh
printf '%s\\n' "$*" >>LOG
case "$*" in
"get pod --namespace shop web "*) printf node-1 ;;
"get pods --namespace lockline "*spec.nodeName=node-1*) printf lockline-abc ;;
"get pods "*) ;;
"exec "*doctor*) echo '{}' ;;
"exec "*fail*) echo 'lockline: refused' >&2; exit 1 ;;
"exec "*until*) exit 2 ;;
"exec "*" record "*) ;;
"exec "*" cat "*) printf whole ;;
"exec "*" rm "*) ;;
*) echo "kubectl: $*: not expected" >&2; exit 9 ;;
esac
"""


def capabilities(words: str) -> set[str]:
    return {word.removeprefix("CAP_") for word in words.split()}


def service_capabilities() -> set[str]:
    found = re.search(r"^CapabilityBoundingSet=(.*)$", SERVICE, re.MULTILINE)
    assert found
    return capabilities(found[1])


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The service as it is, of a collector that is there."""
    path = tmp_path / "lockline.service"
    path.write_text(SERVICE.replace("/usr/bin/lockline-collect", "/bin/true").replace("man:lockline(1)", "man:true(1)"))
    return path


def test_systemd_takes_every_line(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_exposure(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", unit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.search(r"Overall exposure level.*: ([\d.]+)", done.stdout)
    assert found
    assert float(found[1]) <= MOST_EXPOSED


def test_the_service_is_off_until_it_is_asked_for() -> None:
    control = "".join(path.read_text() for path in sorted((PACKAGING / "debian").iterdir()))
    assert not re.search(r"systemctl|deb-systemd|invoke-rc\.d|update-rc\.d", control)
    assert "--keep 24h --max-size 512M" in SERVICE
    assert "MemoryMax=" in SERVICE
    assert "Type=notify\nWatchdogSec=" in SERVICE


def test_daemonset() -> None:
    space, daemonset = yaml.safe_load_all((PACKAGING / "kubernetes" / "daemonset.yaml").read_text())
    assert (space["kind"], daemonset["kind"]) == ("Namespace", "DaemonSet")
    spec = daemonset["spec"]["template"]["spec"]
    assert daemonset["spec"]["selector"]["matchLabels"] == daemonset["spec"]["template"]["metadata"]["labels"]
    assert spec["hostPID"] is True
    (container,) = spec["containers"]
    security = container["securityContext"]
    assert security["capabilities"]["drop"] == ["ALL"]
    assert set(security["capabilities"]["add"]) == service_capabilities()
    assert "privileged" not in security
    (node,) = container["env"]
    assert (node["name"], node["valueFrom"]["fieldRef"]["fieldPath"]) == ("LOCKLINE_HOST", "spec.nodeName")
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
    for mount in container["volumeMounts"]:
        assert mount.get("readOnly") or mount["name"] == "recordings"


class Cluster:
    """kubectl in PATH, and what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "log"
        kubectl = directory / "bin" / "kubectl"
        kubectl.parent.mkdir()
        kubectl.write_text(KUBECTL.replace("LOG", shlex.quote(str(self.log))))
        kubectl.chmod(0o755)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {"PATH": f"{self.directory / 'bin'}:/usr/bin:/bin"}
        return subprocess.run(
            [PLUGIN, *arguments], capture_output=True, text=True, check=False, env=environment, cwd=self.directory
        )

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize(
    "options, collector, code",
    [
        (["--pod", "shop/web"], "--pod shop/web -d 10", 0),
        (["--pod=shop/web", "-d", "3", "--futex"], "--pod shop/web -d 3 --futex", 0),
        (["--pod", "shop/web", "--all"], "-d 10", 0),
        (["--node", "node-1", "-d3"], "-d3", 0),
        (["--node=node-1", "--until", "wait>1ms"], "-d 10 --until wait>1ms", 2),
    ],
)
def test_a_recording_comes_back(cluster: Cluster, options: list[str], collector: str, code: int) -> None:
    done = cluster.run("record", *options, "-o", "web.data")
    assert done.returncode == code, done.stderr
    assert (cluster.directory / "web.data").read_text() == "whole"
    record, cat, rm = cluster.asked()[-3:]
    before = "exec --namespace lockline lockline-abc -- "
    found = re.fullmatch(rf"{before}/bin/lockline-collect record -q -o (/recordings/\S+) (.*)", record)
    assert found
    assert found[2] == collector
    assert cat == f"{before}/bin/busybox cat {found[1]}"
    assert rm.startswith(f"{before}/bin/busybox rm -f {found[1]} ")
    assert {path.name for path in cluster.directory.iterdir()} == {"bin", "log", "web.data"}


def test_a_refusal_leaves_nothing(cluster: Cluster) -> None:
    done = cluster.run("record", "--pod", "shop/web", "--fail")
    assert (done.returncode, done.stderr) == (1, "lockline: refused\n")
    assert " rm -f /recordings/" in cluster.asked()[-1]
    assert {path.name for path in cluster.directory.iterdir()} == {"bin", "log"}


def test_doctor(cluster: Cluster) -> None:
    assert cluster.run("doctor", "--node", "node-1").stdout == "{}\n"


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "usage"),
        (["list"], "unknown command"),
        (["record"], "--pod or --node is needed"),
        (["record", "--pod", "web"], "write it as NAMESPACE/NAME"),
        (["record", "--pod", "shop/web", "--node", "x"], "cannot be used together"),
        (["record", "--node", "node-2"], "no pod of the DaemonSet"),
        (["record", "--node"], "needs a value"),
    ],
)
def test_faults(cluster: Cluster, arguments: list[str], words: str) -> None:
    done = cluster.run(*arguments)
    assert done.returncode == 1
    assert words in done.stderr
