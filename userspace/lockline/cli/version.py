# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline --version`: the version, the commit, what it reads and writes, and what is built in."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

import lockline
from lockline.base.collector import find_collector
from lockline.base.errors import LocklineError

# Packages of Python that a command may need, by the command.
EXTRAS = {"export": "duckdb", "exporter": "prometheus_client"}


def _commit() -> str:
    """What was built: the file that `make dist` leaves, or what git says of a clone; "" if neither."""
    package = Path(lockline.__file__).resolve().parent
    try:
        return (package / "COMMIT").read_text(encoding="utf-8").strip()
    except OSError:
        pass
    top = package.parents[1]
    if not (top / ".git").exists():
        return ""
    command = ["git", "-C", str(top), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _collector() -> str:
    try:
        path = find_collector()
    except LocklineError:
        return "not found"
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        return f"{path}: cannot be run: {error}"
    return f"{path}: " + ", ".join(done.stdout.splitlines())


def text() -> str:
    """Some lines; the first is "lockline VERSION" alone."""
    from lockline.recording.tables import OLDEST_SCHEMA, SCHEMA_VERSION
    from lockline.render.documents import schemas

    extras = [f"{name}: {'yes' if find_spec(package) else f'no ({package})'}" for name, package in EXTRAS.items()]
    documents = ", ".join((schemas.REPORT, schemas.LINES, schemas.WATCH, schemas.DIFF, schemas.WHY))
    told = [f"lockline {lockline.version()}"]
    told += [f"commit     {commit}"] if (commit := _commit()) else []
    told += [
        f"recording  schema {SCHEMA_VERSION}; reads {OLDEST_SCHEMA} to {SCHEMA_VERSION}",
        f"JSON       {documents}",
        f"collector  {_collector()}",
        f"extras     {', '.join(extras)}",
    ]
    return "\n".join(told) + "\n"
