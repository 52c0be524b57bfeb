# SPDX-License-Identifier: GPL-2.0-or-later
"""Every perf.data file that the fuzzer kept is read or refused, under the sanitizers and by the command itself.

And files of other processes, by what the naming helper reads them with.
"""

import subprocess
from pathlib import Path

import pytest

from programs import TOP, make

CORPUS = Path(__file__).parent / "corpus" / "perfdata"
FILES = sorted(CORPUS.iterdir())


@pytest.mark.laboratory
@pytest.mark.parametrize("name", ["perfdata", "helper"])
def test_the_sanitizers_find_nothing(name: str) -> None:
    make(Path(__file__).parent)
    fuzzer, corpus = TOP / "build" / "tests" / f"{name}_fuzz", CORPUS.parent / name
    command = [fuzzer, "-runs=0", "-close_fd_mask=2", "-rss_limit_mb=1024", corpus]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name[:12])
def test_a_file_of_the_corpus_is_imported_or_refused(path: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.lockline"
    command = [TOP / "build" / "bin" / "lockline-collect", "import", path, "-o", output, "--decoder", "native", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done
    assert output.exists() == (done.returncode == 0)
    assert done.stderr or done.returncode == 0


def test_there_is_a_corpus() -> None:
    assert len(FILES) > 20
