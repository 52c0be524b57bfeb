# SPDX-License-Identifier: GPL-2.0-or-later
"""What all tests share: their tiers, where the build is, and what this machine can do."""

import contextlib
import gc
import gettext
import importlib
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from programs import TOP, make

# The same examples each time, so that a change is judged by what it changed; LOCKLINE_RANDOM=1 looks for new ones.
# No example is judged by its time, which says nothing on a busy machine; a fixture's directory serves all examples.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.register_profile("same", UNTIMED, derandomize=True)
settings.register_profile("new", UNTIMED, print_blob=True)
settings.load_profile("new" if os.environ.get("LOCKLINE_RANDOM") else "same")

# argparse looks in the file system for a translation of each of its words, anew for each command: there is none.
gettext.find = lambda *_, **__: None  # type: ignore[assignment]

# A shell starts what runs in the background with Ctrl-C ignored, and programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).resolve().parent
# Tests that start emulated guests, or build what only those run.
KERNEL_FOLDERS = ("vm", "cross")
# Those with tests that attach BPF programs.
LIVE_FOLDERS = ("live", "names")
# None of their tests is pure.
UNPURE_FOLDERS = (*KERNEL_FOLDERS, "page", "spark", "live")
# They load BPF programs and run them by BPF_PROG_TEST_RUN: nothing is attached, so others may run beside them.
UNATTACHED_FOLDER = "bpf"
# Files of live tests that may run beside others, with less priority (scripts/run-tests).  They compare no times, which
# a wait for a CPU would change, and take no debug registers, of which a CPU has four.
BESIDE = (
    "test_aside",
    "test_c2c_record",
    "test_capabilities",
    "test_cross_check",
    "test_doctor",
    "test_experiment_live",
    "test_exporter",
    "test_filters",
    "test_first_screens_live",
    "test_futex_languages",
    "test_go",
    "test_hitm",
    "test_hitm_killed",
    "test_hitm_names",
    "test_hostile_looks",
    "test_hostile_neighbour",
    "test_java",
    "test_names",
    "test_notify",
    "test_privileges",
    "test_reused",
    "test_servers",
    "test_starts_and_ends",
    "test_sleepers_live",
    "test_survival",
    "test_terminal",
    "test_top_live",
    "test_watch_refused",
    "test_why_follow_live",
    "test_why_live",
)


# The objects of thousands of tests stay to the end: it is a waste to look for garbage among them again and again.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Of two workers the second loads the files from the last to the first: each compiles half of a fresh clone."""
    config = session.config
    if getattr(config, "workerinput", {}).get("workerid") != "gw1":
        return
    files = {file for name in config.args for file in (config.invocation_params.dir / name).rglob("test_*.py")}
    for file in sorted(files, reverse=True):
        top = TESTS / file.relative_to(TESTS).parts[0]
        if not (file.parent / "__init__.py").exists() and not pytest_ignore_collect(top, config):
            # As pytest does it, which tells what does not load when it comes to it.
            sys.path[:0] = [] if str(file.parent) in sys.path else [str(file.parent)]
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(file.stem)


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, among what the tests make alone."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of the pure tests alone: to load the others takes each process a second, the clients of Spark most of it."""
    top = collection_path.parent == TESTS and collection_path.name in UNPURE_FOLDERS
    return True if top and config.option.markexpr == "pure" else None


def tier(item: pytest.Item) -> str:
    """The marker of a test: by its folder, "live" where it attaches BPF programs, else "pure"."""
    folder = item.path.relative_to(TESTS).parts[0]
    if folder in KERNEL_FOLDERS:
        return "kernels"
    if folder in ("page", "spark"):
        return folder
    if folder != UNATTACHED_FOLDER and "bpf_machine" in getattr(item, "fixturenames", ()):
        if folder not in LIVE_FOLDERS:
            raise pytest.UsageError(f"{item.nodeid}: scripts/run-tests looks for live tests in {LIVE_FOLDERS} alone")
        return "live"
    return "live" if folder == "live" else "pure"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test with its tier, and live ones that run beside others: first, so that -m sees the markers."""
    for item in items:
        of = tier(item)
        if item.get_closest_marker("laboratory"):
            # In a tier of its own; what attaches programs runs alone there too.
            if of == "live":
                item.add_marker("attaches")
            continue
        item.add_marker(of)
        if of == "live" and item.path.stem in BESIDE and not item.get_closest_marker("alone"):
            item.add_marker("beside")


@pytest.fixture(scope="session")
def build() -> Path:
    """The build directory, with the workloads and the tests of the hot path made."""
    for directory in ("tests/workloads", "tests/bpf"):
        make(TOP / directory)
    return TOP / "build"


@pytest.fixture(scope="session")
def bpf_machine() -> None:
    """Skips without root, or on a kernel without BTF: no BPF program can be loaded then."""
    if os.geteuid() != 0:
        pytest.skip("needs root to load BPF programs")
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests read what a program reads; xdist gives its workers the width of the terminal."""
    monkeypatch.delenv("COLUMNS", raising=False)
