# SPDX-License-Identifier: GPL-2.0-or-later
"""A command loads what it uses, and no more: names of modules, not times."""

import subprocess
import sys
from pathlib import Path

from example_recording import make_example

TOP = Path(__file__).resolve().parents[2]
# What main() is left with; the interpreter's own modules are not counted.
PROGRAM = """
import sys
before = set(sys.modules)
from lockline.cli.main import main
code = main(sys.argv[1:])
print("\\n".join(sorted(set(sys.modules) - before)), file=sys.stderr)
sys.exit(code)
"""


def modules(*arguments: str, program: str = PROGRAM) -> set[str]:
    """The modules that a command loads."""
    done = subprocess.run(
        # -S: what a machine's site-packages load at each start is not ours.
        [sys.executable, "-S", "-c", program, *arguments],
        cwd=TOP / "userspace",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def of_lockline(loaded: set[str]) -> set[str]:
    """Those of this package."""
    return {name for name in loaded if name.partition(".")[0] == "lockline"}


def test_the_version_loads_no_parser_and_opens_no_recording() -> None:
    loaded = modules("--version")
    assert "lockline.cli.version" in loaded
    assert not loaded & {"argparse", "sqlite3", "lockline.cli.report", "lockline.rules.report"}
    assert {name for name in of_lockline(loaded) if name.startswith("lockline.render.documents.")} == {
        "lockline.render.documents.schemas"
    }


def test_the_overview_opens_no_recording() -> None:
    loaded = modules("help")
    assert not loaded & {"argparse", "sqlite3", "lockline.cli.report"}


def test_a_small_report_loads_what_it_shows(tmp_path: Path) -> None:
    """The example has neither lines nor a self-check, and is shown as text."""
    loaded = modules("report", str(make_example(tmp_path / "example")))
    rooms = {name.split(".")[1] for name in of_lockline(loaded) if "." in name}
    assert rooms == {"base", "atlas", "recording", "watch", "analysis", "rules", "render", "cli"}
    assert {name for name in of_lockline(loaded) if name.startswith("lockline.cli.")} == {
        "lockline.cli.common",
        "lockline.cli.main",
        "lockline.cli.parser",
        "lockline.cli.report",
        "lockline.cli.terminal",
    }
    unused = {"render.watch_text", "render.c2c_text", "render.walker", "render.self_check", "render.episodes"}
    assert not loaded & {f"lockline.{name}" for name in unused}
    assert not loaded & {"lockline.base.statistics", "lockline.base.paired_test", "lockline.base.collector"}
    assert not loaded & {"subprocess", "statistics", "tempfile", "difflib", "importlib.resources"}


def test_a_report_of_cache_lines_loads_no_pathlib(tmp_path: Path) -> None:
    """The interpreter, its modules and ours take most of the time of a report of a million samples."""
    recording = str(make_example(tmp_path / "example"))
    for more in ([], ["--format", "json"]):
        loaded = modules("c2c", "report", recording, *more)
        assert "lockline.c2c.report" in loaded
        assert not loaded & {"pathlib", "urllib.parse", "ipaddress", "zlib", "argparse", "tempfile", "subprocess"}
        # What tells of lock waits takes a sixth of a report's CPU time to load.
        assert not [name for name in loaded if name.startswith(("lockline.analysis", "lockline.rules", "inspect"))]
    assert "textwrap" not in loaded
    assert not loaded & {"json", "sqlite3", "datetime", "signal", "select", "unicodedata"}


BEFORE_IMPORT = """
import os
import sys

def spawn(*arguments, **options):
    print("\\n".join(sys.modules), file=sys.stderr)
    raise SystemExit(0)

os.posix_spawn = spawn
from lockline.cli.main import main
main(["c2c", "report", sys.argv[1]])
"""


def test_the_import_of_samples_starts_before_what_takes_long_to_load(tmp_path: Path) -> None:
    """What typing, contextlib and collections load takes longer than Python's own start."""
    file = tmp_path / "perf.data"
    file.write_bytes(b"PERFILE2" + bytes(200))
    loaded = modules(str(file), program=BEFORE_IMPORT)
    assert "lockline.base.collector" in loaded
    assert not loaded & {"typing", "contextlib", "collections", "enum", "re", "importlib", "functools"}
