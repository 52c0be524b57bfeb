# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lockline c2c` reads, as a program of its own: files, standard input, packed texts, options that name files."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from c2c import patterns
from c2c.measure import LOCKLINE

TEXT = Path(__file__).with_name("reader_and_writer.txt")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A perf.data file."""
    return patterns.futex_bucket().write(tmp_path_factory.mktemp("inputs") / "perf.data")


def run(*arguments: str | Path, given: bytes = b"") -> tuple[int, str, str]:
    """Exit code, output and messages of lockline c2c."""
    command = [sys.executable, str(LOCKLINE), "c2c", *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def lines(output: str) -> object:
    """The lines of a report in JSON."""
    return json.loads(output)["lines"]


@pytest.mark.parametrize("kind", ["perf.data", "text", "recording"])
def test_standard_input_is_as_the_file(data: Path, kind: str, tmp_path: Path) -> None:
    path = TEXT if kind == "text" else data
    if kind == "recording":
        path = tmp_path / "recording"
        assert run("import", data, "-o", path)[0] == 0
    code, output, _ = run("report", path, "--format", "json")
    assert code == 0
    assert lines(output)
    code, piped, messages = run("report", "-", "--format", "json", given=path.read_bytes())
    assert (code, messages) == (0, "")
    assert lines(piped) == lines(output)
    assert json.loads(piped)["file"] == "standard input"


def test_standard_input_that_is_empty_is_one_line() -> None:
    assert run("report", "-") == (1, "", "lockline: standard input: empty\n")


def test_a_text_packed_with_zstd(tmp_path: Path) -> None:
    packed = tmp_path / "text.zst"
    packed.write_bytes(zstandard.compress(TEXT.read_bytes()))
    code, output, _ = run("report", packed, "--format", "json")
    assert code == 0
    assert lines(output) == lines(run("report", TEXT, "--format", "json")[1])
    packed.write_bytes(packed.read_bytes()[:60])
    code, output, messages = run("report", packed)
    assert (code, output) == (1, "")
    assert messages.count("\n") == 1
    assert "cannot be unpacked" in messages


@pytest.mark.parametrize("option", ["--kallsyms", "--system-map", "--symfs", "--btf"])
@pytest.mark.parametrize("wrong", ["missing", "noise", "empty"])
@pytest.mark.parametrize("kind", ["perf.data", "text"])
def test_a_wrong_file_of_an_option_is_one_line(data: Path, option: str, wrong: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / wrong
    if wrong != "missing":
        path.write_bytes(b"" if wrong == "empty" else bytes(range(256)) * 20)
    code, output, messages = run("report", data if kind == "perf.data" else TEXT, option, path)
    assert (code, output) == (1, "")
    assert messages.startswith(f"lockline: {option}")
    assert messages.count("\n") == 1


def test_an_ordinary_profile_of_an_amd_machine(tmp_path: Path) -> None:
    """cycles:P is IBS there: some samples are memory accesses, the others are no damaged ones."""
    whole = patterns.futex_bucket_ibs()
    events = [replace(event, name="cycles:P") for event in whole.file.events]
    code, output, _ = run("report", whole.changed(events=events).write(tmp_path / "data"), "--format", "json")
    assert code == 0
    report = json.loads(output)
    memory = sum("noparse" not in access.kind.counts for access in whole.accesses)
    assert report["coverage"]["unparsable"] is None
    assert report["coverage"]["missing"][0].startswith(
        f"an ordinary profile: {memory:,} of its {len(whole.accesses):,} samples are memory accesses"
    )
    assert report["lines"][0]["hitm"]["total"] == 160
