# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests of other kernels: booted once for all that is asked of them (boots.py), judged here."""

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from boots import TOP, Boot, Boots, FailedError, Section, UnavailableError, found_program
from guest import Guest
from matrix import CASES, Case, selected

WORKLOADS = ("slow_path_counter", "lock_load", "held_lock", "function_counter", "futex_mutex", "shared_lines")
WORKLOADS += ("no_fentry", "attach_often", "ping_pong", "reused_objects", "cause_load", "counted")


# Each has 1 GB and a thread for each of its CPUs, but mostly waits with one of them.
AT_ONCE = min(os.cpu_count() or 1, 4)
MAKES = threading.Lock()


def make(*words: object) -> None:
    """Make something that guests run.  Guests are booted side by side, and two makes would write the same files."""
    with MAKES:
        done = subprocess.run(["make", "-s", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FailedError(f"make {' '.join(map(str, words))}: {done.stdout}{done.stderr}")


@cache
def native_build() -> Path:
    """What guests of this machine's architecture run."""
    if not (TOP / "build" / "bin" / "lockline-collect").exists():
        raise FailedError("build/bin/lockline-collect is missing: run make first")
    for directory in ("tests/workloads", "tests/names", "tests/vm/coherence"):
        make("-C", TOP / directory)
    return TOP / "build"


@cache
def arm64_build() -> Path:
    """What guests of arm64 run."""
    if not shutil.which("aarch64-linux-gnu-gcc") or not Path("/usr/lib/aarch64-linux-gnu/libbpf.a").exists():
        raise UnavailableError(
            "no cross compiler and arm64 libraries: scripts/setup kernels installs them where apt has them"
        )
    for directory in (".", "tests/workloads"):
        make("-C", TOP / directory, "CROSS=arm64")
    return TOP / "build" / "arm64"


def programs(boot: Boot) -> list[Path]:
    """What every guest has: the collector, workloads and (on x86-64) stress-ng."""
    place = arm64_build() if boot.arm64 else native_build()
    found = [place / "bin" / "lockline-collect", *(place / "workloads" / name for name in WORKLOADS)]
    if boot.arm64:
        return [*found, place / "workloads" / "a64_accesses"]
    return [*found, place / "workloads" / "uffd_mutex", found_program("stress-ng")]


def courier(boot: Boot) -> Path:
    """What brings a guest's results."""
    return (arm64_build() if boot.arm64 else native_build()) / "workloads" / "courier"


BOOTS = pytest.StashKey[Boots]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Sections are the parameters of tests: those that this run will ask for."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")

    def say(line: str) -> None:
        if reporter:
            reporter.write_line(line)

    boots = Boots(programs, courier, int(os.environ.get("LOCKLINE_GUESTS", AT_ONCE)), say)
    for item in session.items:
        callspec = getattr(item, "callspec", None)
        for value in callspec.params.values() if callspec else ():
            parts = value if isinstance(value, tuple) else getattr(value, "sections", (value,))
            boots.want(part for part in parts if isinstance(part, Section))
    session.config.stash[BOOTS] = boots


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """All guests are booted before the first test: none of them has a test's time, nor its captured output."""
    boots = session.config.stash.get(BOOTS, None)
    if boots and not session.config.option.collectonly:
        boots.bring()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was booted, and what had to be booted again."""
    boots = config.stash.get(BOOTS, None)
    if not boots or not (boots.runs or boots.kept):
        return
    terminalreporter.section("guests")
    for run in sorted(boots.runs, key=lambda run: -run.seconds):
        parts = ", ".join(f"{name} {seconds:.0f}/{busy:.0f}" for name, (seconds, busy) in run.sections.items())
        why = f"; booted again, in turns: it {run.again}" if run.again else ""
        terminalreporter.write_line(
            f"{run.name}: {run.seconds:.0f} s, busy for {run.busy_seconds:.0f} s (in the guest/busy: {parts}){why}"
        )
    again = sum(bool(run.again) for run in boots.runs)
    busy = sum(run.busy_seconds for run in boots.runs)
    told = f"{len(boots.runs)} boots, {again} of them again, the emulators busy for {busy:.0f} s"
    terminalreporter.write_line(f"{told}; {boots.kept} sections kept from an earlier run")


@pytest.fixture(scope="session")
def boots(request: pytest.FixtureRequest) -> Boots:
    """The guests of this run."""
    return request.config.stash[BOOTS]


@pytest.fixture(scope="session")
def results(boots: Boots) -> Callable[[Section], Guest]:
    """What a section left; skips with the reason where its guest cannot be had."""

    def result(section: Section) -> Guest:
        try:
            return boots.result(section)
        except UnavailableError as error:
            pytest.skip(str(error))
        except FailedError as error:
            pytest.fail(str(error), pytrace=False)

    return result


@pytest.fixture(scope="session", params=[case for case in CASES if selected(case.kernel)], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    """A kernel of the matrix in one lock mode."""
    found: Case = request.param
    return found


@pytest.fixture(scope="session")
def guest(case: Case, results: Callable[[Section], Guest]) -> Guest:
    """What the case left: see guest_command()."""
    if not case.sections:
        pytest.skip("paravirtual spinlocks are KVM's: this processor runs no guests, and emulation has none")
    (section,) = case.sections
    return results(section)
