# SPDX-License-Identifier: GPL-2.0-or-later
"""The structures made from recording.sql: what fits its column compiles, what does not is an error of the compiler."""

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent.parent
MAKE = TOP / "scripts" / "make-put-functions"

FITS = {
    "texts and numbers": '.name = "x", .count = 3, .meaning = "m", .severity = "info"',
    "columns in any order, some left out": ".count = unsigned_number, .name = text",
}
DOES_NOT = {
    "a number for a text": '.name = 7, .meaning = "m"',
    "a text for a number": '.name = "x", .count = "3"',
    "a pointer for a number": ".count = &unsigned_number",
    "a column of another table": '.name = "x", .unit = "ns"',
    "a column twice": ".count = 1, .count = 2",
    "more values than columns": '"x", 3, "m", "info", 5',
}
OTHER_TABLES = {
    "a number where NULL may stand": ("program, .runs = unsigned_number", False),
    "a known number where NULL may stand": ("program, .runs = recorded(unsigned_number)", True),
    "a text for a blob": ("btf, .data = text", False),
    "a blob": ("btf, .data = {text, 3}", True),
    "an id that SQLite gives": ("outlier, .id = 1", False),
    "no such table": ("locks, .id = 1", False),
}


def make_header(directory: Path, schema: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, MAKE, schema], capture_output=True, text=True, check=False)
    (directory / "recording_put.h").write_text(done.stdout)
    return done


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("put")
    done = make_header(directory, TOP / "userspace" / "collector" / "recording" / "recording.sql")
    assert done.returncode == 0, done.stderr
    return directory


def compiles(headers: Path, row: str) -> tuple[bool, str]:
    source = f"""#include "recording/recording_rows.h"
int put(struct recording *recording, const char *text, unsigned long long unsigned_number);
int put(struct recording *recording, const char *text, unsigned long long unsigned_number)
{{
\treturn recording_put(recording, {row});
}}
"""
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", f"-I{headers}", f"-I{TOP}"]
    flags += [f"-I{TOP}/userspace/collector", "-fsyntax-only", "-xc", "-"]
    done = subprocess.run(["gcc", *flags], input=source, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", FITS)
def test_what_fits_compiles(headers: Path, what: str) -> None:
    done, complaints = compiles(headers, f"loss, {FITS[what]}")
    assert done, complaints


@pytest.mark.parametrize("what", DOES_NOT)
def test_what_does_not_fit_does_not_compile(headers: Path, what: str) -> None:
    done, complaints = compiles(headers, f"loss, {DOES_NOT[what]}")
    assert not done
    assert "error:" in complaints


@pytest.mark.parametrize("what", OTHER_TABLES)
def test_types_of_other_columns(headers: Path, what: str) -> None:
    row, right = OTHER_TABLES[what]
    done, complaints = compiles(headers, row)
    assert done == right, complaints


def test_a_column_without_a_type_in_c_is_refused(tmp_path: Path) -> None:
    schema = tmp_path / "schema.sql"
    schema.write_text("CREATE TABLE odd (id INTEGER PRIMARY KEY, name TEXT);\n")
    done = make_header(tmp_path, schema)
    assert done.returncode == 1
    assert done.stderr == "odd.name: no type in C for TEXT that may be NULL\n"
