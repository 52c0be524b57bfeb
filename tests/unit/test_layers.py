# SPDX-License-Identifier: GPL-2.0-or-later
"""The layers of the package, as pyproject.toml has them for `make lint`: kept, and a violation fails."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
LINT = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package; lint() is for the directory that it lies in."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TOP / "userspace" / "lockline", tmp_path / "lockline", ignore=ignored)
    return tmp_path


def lint(directory: Path) -> "subprocess.CompletedProcess[str]":
    """The command of `make lint`, in another directory."""
    command = [sys.executable, "-c", LINT, "--config", str(TOP / "pyproject.toml"), "--no-cache"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_the_layers_are_kept(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "planted", "shown"),
    [
        ("base/numbers.py", "from lockline.render import text", "lockline.base.numbers -> lockline.render.text"),
        ("c2c/join.py", "import lockline.analysis.waits", "lockline.c2c.join -> lockline.analysis.waits"),
        ("watch/cost.py", "from lockline import cli", "lockline.watch.cost -> lockline.cli"),
        ("c2c/store.py", "import sqlite3", "lockline.c2c.store -> sqlite3"),
    ],
)
def test_a_violation_fails(copy: Path, module: str, planted: str, shown: str) -> None:
    file = copy / "lockline" / module
    file.write_text(f"{file.read_text()}\n\n{planted}\n")
    done = lint(copy)
    assert done.returncode == 1
    assert shown in done.stdout


def test_a_layer_that_is_not_listed_fails(copy: Path) -> None:
    (copy / "lockline" / "other").mkdir()
    (copy / "lockline" / "other" / "__init__.py").write_text("")
    done = lint(copy)
    assert done.returncode == 1
    assert "other" in done.stdout
