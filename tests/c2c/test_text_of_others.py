# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts of the perf that is installed, of files with known truth; and texts that others published."""

import os
from pathlib import Path

import pytest

from c2c import perf_output
from c2c.description import Truth
from c2c.known_report import tables, total
from c2c.perfdata_generator import DESCRIPTIONS
from lockline.c2c.text_import import memory_tables
from lockline.c2c.text_parse import TextImportError, parse

OPTIONS = ("", "-N", "-NN", "-d peer", "-NN -c tid,pid,iaddr,dso", "-c tid", "-c pid", "-c dso", "--show-all")
STATS = {
    "local_hitm": "lcl_hitm",
    "remote_hitm": "rmt_hitm",
    "local_peer": "lcl_peer",
    "remote_peer": "rmt_peer",
    "store_l1_hit": "st_l1hit",
    "store_l1_miss": "st_l1miss",
    "fill_buffer": "ld_fbhit",
}


@pytest.fixture(scope="module", params=["futex_bucket", "peer_snoops", "user_sharing", "every_kind"])
def generated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    try:
        perf_output.version()
    except perf_output.PerfError as error:
        pytest.skip(f"no perf to make texts with: {error}")
    description = DESCRIPTIONS[request.param.replace("_", "-")]()
    path = tmp_path_factory.mktemp("perf") / "perf.data"
    description.write(path)
    return path, description.truth()


@pytest.mark.parametrize("options", OPTIONS)
def test_texts_of_real_perf(generated: tuple[Path, Truth], options: str) -> None:
    path, truth = generated
    parsed = parse(perf_output.run_report(path, options.split()))
    assert not parsed.problems
    memory = memory_tables(parsed, "text")
    assert not memory.problems
    by_address: dict[int, list[dict[str, int]]] = {}
    for key, counts in truth.lines.items():
        known = {name: counts[stat] for name, stat in STATS.items()}
        by_address.setdefault(truth.first[key], []).append(known)
    for line in memory.lines:
        rows = [access for access in memory.accesses if access.line == line.id]
        mine = {name: value for name in STATS if (value := total(rows, name)) is not None}
        assert any(mine.items() <= known.items() for known in by_address[line.address]), (hex(line.address), mine)


# name: lines, rows of offsets, local and remote HITM, local and remote peers; None: refused.
PUBLISHED: dict[str, tuple[int, ...] | None] = {
    "ampere-lts-issue90-dall-fragment": (2, 0, 0, 0, 0, 0),
    "arm-learning-java-baseline-row": (1, 0, 0, 0, 36, 0),
    "arm-learning-java-baseline-stats": (0, 0, 0, 0, 0, 0),
    "arm-neoverse-v2-sunflow-peer": (10, 0, 0, 0, 4643, 0),
    "arm-spe-n1-joemario-v3-pareto-misaligned": (1, 4, 0, 0, 4648, 0),
    "coffeebeforearch-spinlock2-tui": (1, 3, 15457, 0, 0, 0),
    "jdk-8180450-type-pollution-stats": (0, 0, 0, 0, 0, 0),
    "joemario-example-report-v1": (5, 28, 3392, 12695, 0, 0),
    "joemario-example-report-v2": (5, 28, 3392, 12695, 0, 0),
    "joemario-tugtest-arm-2node-peer": (5, 9, 0, 0, 141, 9),
    "kam3nev-cache-lectures-i7-4700HQ": (1, 2, 2, 0, 0, 0),
    "kernel-doc-false-sharing-tlb_flush1": (1, 5, 2374, 0, 0, 0),
    "leo-yan-v4-arm-spe-peer": (1, 2, 0, 0, 99, 0),
    "leo-yan-v4-x86-hitm": (2, 5, 381, 0, 0, 0),
    "lkml-2020-andres-misordered-table": (4, 0, 828, 699, 0, 0),
    "lkml-2020-feng-tang-will-it-scale-signal": (18, 5, 785, 0, 0, 0),
    "lkml-2020-leo-yan-all-display-hisilicon-d06": (15, 0, 0, 0, 0, 0),
    "lkml-2020-leo-yan-all-display-x86": (3, 8, 981, 0, 0, 0),
    "lkml-2020-leo-yan-llc-display-rfc": (7, 8, 570, 0, 0, 0),
    "lkml-2020-leo-yan-metrics-before": (3, 0, 6068, 0, 0, 0),
    "lkml-2021-feng-tang-mm-gup-mmap_lock": (13, 0, 2384, 1959, 0, 0),
    "perf-ninja-rs-pr3-stats-fragment": (0, 0, 0, 0, 0, 0),
    "perfgo-false-sharing-amd-ibs": (1, 2, 2092, 4, 0, 0),
    "report-mem-amd-ibs-manpage": None,
    "report-mem-namhyung-cache-fields-before": None,
    "script-data_src-amd-ibs": None,
    "script-data_src-arm-spe-7x-simd-before-after": None,
    "script-data_src-arm-spe-peer-before-after": None,
    "script-data_src-intel": None,
    "victoriametrics-pr8683-tui": (2, 0, 26136, 0, 0, 0),
    "zh-perf-notes-annotated-stats": (0, 0, 0, 0, 0, 0),
    "zickus-2014-prototype-table": None,
}


def _published(text: str) -> tuple[int, ...] | None:
    try:
        memory = tables(text)
    except TextImportError:
        return None
    rows = [access for access in memory.accesses if access.offset >= 0]
    sides = ("local_hitm", "remote_hitm", "local_peer", "remote_peer")
    return len(memory.lines), len(rows), *(total(memory.accesses, side) or 0 for side in sides)


def test_published_texts() -> None:
    """Other people's texts, which are not ours to copy, in a directory of their own."""
    directory = os.environ.get("LOCKLINE_C2C_TEXTS")
    if not directory:
        pytest.skip("LOCKLINE_C2C_TEXTS names no directory of published texts")
    texts = {name: (Path(directory) / f"{name}.txt").read_text(encoding="utf-8") for name in PUBLISHED}
    assert {name: _published(text) for name, text in texts.items()} == PUBLISHED
