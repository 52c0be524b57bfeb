# SPDX-License-Identifier: GPL-2.0-or-later
"""Every input that the fuzzers kept still does no harm."""

from pathlib import Path

import pytest

from fuzz import c2c_text_target

CORPUS = Path(__file__).parent / "corpus"
TEXTS = sorted((CORPUS / "c2c_text").iterdir())


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_text_of_the_corpus_is_imported_or_refused(path: Path) -> None:
    c2c_text_target.run(path.read_bytes())


def test_there_is_a_corpus() -> None:
    assert len(TEXTS) >= 15
