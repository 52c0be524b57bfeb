# SPDX-License-Identifier: GPL-2.0-or-later
"""The layers of the package, as pyproject.toml has them for `make lint`: kept, and a violation fails."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
LINT = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"


def copy_to(directory: Path) -> Path:
    """A copy of the package; lint() is for the directory that it lies in."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TOP / "userspace" / "lockline", directory / "lockline", ignore=ignored)
    return directory


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package."""
    return copy_to(tmp_path)


def lint(directory: Path) -> "subprocess.CompletedProcess[str]":
    """The command of `make lint`, in another directory."""
    command = [sys.executable, "-c", LINT, "--config", str(TOP / "pyproject.toml"), "--no-cache"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_the_layers_are_kept(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


# By module: a line that breaks the order, and how the command names that.
PLANTED = {
    "base/numbers.py": ("from lockline.render import text", "lockline.base.numbers -> lockline.render.text"),
    "c2c/join.py": ("import lockline.analysis.waits", "lockline.c2c.join -> lockline.analysis.waits"),
    "watch/cost.py": ("from lockline import cli", "lockline.watch.cost -> lockline.cli"),
    "c2c/store.py": ("import sqlite3", "lockline.c2c.store -> sqlite3"),
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> "subprocess.CompletedProcess[str]":
    """What is said of a package with all of them: it tells each, and takes seconds."""
    directory = copy_to(tmp_path_factory.mktemp("planted"))
    for module, (line, _) in PLANTED.items():
        file = directory / "lockline" / module
        file.write_text(f"{file.read_text()}\n\n{line}\n")
    return lint(directory)


@pytest.mark.parametrize("module", PLANTED)
def test_a_violation_fails(planted: "subprocess.CompletedProcess[str]", module: str) -> None:
    assert planted.returncode == 1
    assert PLANTED[module][1] in planted.stdout


def test_a_layer_that_is_not_listed_fails(copy: Path) -> None:
    (copy / "lockline" / "other").mkdir()
    (copy / "lockline" / "other" / "__init__.py").write_text("")
    done = lint(copy)
    assert done.returncode == 1
    assert "other" in done.stdout
