# SPDX-License-Identifier: GPL-2.0-or-later
"""record --host, with a shell in place of ssh and a script in place of the collector."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lockline.base.errors import LocklineError
from lockline.cli.remote import is_remote, parse

TOP = Path(__file__).resolve().parents[2]

# The other machine: a shell whose temporary directory is HERE.
SSH = """#!/bin/sh
for last; do :; done
export TMPDIR=HERE
FILTER exec sh -c "$last"
"""
# Says how it was called; records until SIGTERM if asked to.
COLLECTOR = """#!/bin/sh
printf '%s\\n' "$@" >CALLED
for word; do case $word in -o) next=1 ;; *) [ -z "$next" ] || output=$word; next= ;; esac; done
case "$*" in
*fail*) echo "lockline: refused" >&2; exit 1 ;;
*long*) trap 'kill $!; printf "SQLite format 3\\\\0stopped" >"$output"; exit 0' TERM
        sleep 1000 & echo started >&2; wait ;;
*) printf 'SQLite format 3\\0whole' >"$output" ;;
esac
case "$*" in *until*) exit 2 ;; esac
"""
CODE = """
import sys
from lockline.base import collector
from lockline.cli import remote
path = sys.argv.pop(1)
remote.find_collector = lambda: path
from lockline.cli.main import main
sys.exit(main())
"""


class Machines:
    """This one and the other one."""

    def __init__(self, directory: Path) -> None:
        self.there = directory / "there"
        self.there.mkdir()
        self.called = directory / "called"
        self.output = directory / "out.data"
        self.collector = directory / "collector"
        self.collector.write_text(COLLECTOR.replace("CALLED", str(self.called)))
        self.ssh = directory / "ssh"
        self.set_ssh()

    def set_ssh(self, change: str = "") -> None:
        self.ssh.write_text(SSH.replace("HERE", str(self.there)).replace("FILTER", change))
        self.ssh.chmod(0o755)

    def command(self, *options: str) -> list[str]:
        ours = ["--host", "me@there", "--ssh", str(self.ssh), "-o", str(self.output)]
        return [sys.executable, "-c", CODE, str(self.collector), "record", *ours, *options]

    def run(self, *options: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*options), capture_output=True, text=True, check=False, cwd=TOP / "userspace"
        )

    def nothing_left(self) -> bool:
        return not list(self.there.iterdir()) and not list(self.output.parent.glob(".out.data*"))


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


@pytest.mark.parametrize("options, code", [(["-d", "1"], 0), (["--until", "wait>1ms"], 2)])
def test_the_recording_comes_back(machines: Machines, options: list[str], code: int) -> None:
    done = machines.run(*options, "--", "echo", "a b", "$HOME", "'")
    assert done.returncode == code, done.stderr
    assert machines.output.read_bytes() == b"SQLite format 3\0whole"
    called = machines.called.read_text().splitlines()
    assert called[:2] == ["record", "-o"]
    assert called[3:] == [*options, "--", "echo", "a b", "$HOME", "'"]
    assert machines.nothing_left()


def test_a_refusal_is_passed_on(machines: Machines) -> None:
    done = machines.run("--fail")
    assert (done.returncode, done.stderr) == (1, "lockline: refused\n")
    assert not machines.output.exists()
    assert machines.nothing_left()


def test_a_collector_that_does_not_arrive_whole(machines: Machines) -> None:
    machines.set_ssh("head -c 100 |")
    done = machines.run("-d", "1")
    assert (done.returncode, done.stderr) == (1, "lockline: the collector did not arrive whole\n")
    assert not machines.called.exists()
    assert not machines.output.exists()
    assert machines.nothing_left()


def test_another_machine(machines: Machines) -> None:
    machines.collector.write_bytes(
        b"\x7fELF" + bytes(14) + (183 if os.uname().machine == "x86_64" else 62).to_bytes(2, "little")
    )
    done = machines.run("-d", "1")
    assert done.returncode == 1
    assert f"the server is {os.uname().machine}, this collector is for" in done.stderr
    assert machines.nothing_left()


def test_ssh_fails(machines: Machines) -> None:
    machines.ssh.write_text("#!/bin/sh\nexit 255\n")
    done = machines.run("-d", "1")
    assert (done.returncode, done.stderr) == (1, "lockline: --host me@there: ssh failed\n")
    machines.ssh.unlink()
    done = machines.run("-d", "1")
    assert done.returncode == 1
    assert "cannot be run" in done.stderr
    assert machines.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_the_recording_comes(machines: Machines, number: signal.Signals) -> None:
    process = subprocess.Popen(machines.command("--long"), stderr=subprocess.PIPE, text=True, cwd=TOP / "userspace")
    assert process.stderr
    assert process.stderr.readline() == "started\n"
    process.send_signal(number)
    assert process.wait() == 0, process.stderr.read()
    process.stderr.close()
    assert machines.output.read_bytes() == b"SQLite format 3\0stopped"
    assert machines.nothing_left()


@pytest.mark.parametrize(
    "arguments, remote",
    [
        (["record", "--host", "x"], True),
        (["record", "--host=x"], True),
        (["record", "--", "ping", "--host", "x"], False),
        (["record", "-d", "1"], False),
    ],
)
def test_is_remote(arguments: list[str], remote: bool) -> None:
    assert is_remote(arguments) is remote


def test_parse() -> None:
    request = parse(["--host=a", "-d", "1", "-ox", "--ssh", "ssh -p 22", "--", "-o", "y"])
    assert (request.host, request.output, request.ssh) == ("a", Path("x"), ("ssh", "-p", "22"))
    assert request.options == ("-d", "1", "--", "-o", "y")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--host"], "needs a value"),
        (["--host", "-oProxyCommand=x"], "not a name of a machine"),
        (["--host", "a", "--c2c"], "cannot be used together"),
        (["--host", "a", "--ssh", "'"], "No closing quotation"),
    ],
)
def test_wrong_arguments(arguments: list[str], words: str) -> None:
    with pytest.raises(LocklineError, match=words):
        parse(arguments)
