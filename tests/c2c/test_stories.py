# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts of programs that everybody knows: what their lines suffer from follows from what the programs do.

Figures are made up.  The layouts are those of perf, and of what people do to a text before others see it.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from c2c import report_text
from c2c.report_text import Line, Offset, Report, Style
from lockline.c2c.model import LineReport
from lockline.c2c.report import make_c2c_report
from lockline.c2c.text_import import import_text
from lockline.recording.reader import open_recording

KERNEL = "[kernel.kallsyms]"
IBS = ("ibs_op//",)
SPE = ("arm_spe_0/ts_enable=1,load_filter=1,store_filter=1,min_latency=30/", "dummy:u", "memory")
PLAIN, CPUS, NODES, THREADS = Style("6.1"), Style("6.1", node_info=2), Style("6.1", node_info=1), Style("6.1", tid=True)
PEER, BROWSER, OLD = Style("6.1", peer=True), Style("6.1", browser=True), Style("4.10", pid=True)


def row(
    offset: int, symbol: str, hitm: int, stores: int, loads: int, cpus: Sequence[int] | int, where: str = KERNEL
) -> Offset:
    """One row: a third of its HITM is local; cpus: which, or how many."""
    base = 0xFFFFFFFF81000000 if where == KERNEL else 0x400000
    code = base + (zlib.crc32(symbol.encode()) % 0x3FFF) * 0x200 + 4 * offset + 0x40 * (stores > 0)
    shown = tuple(range(cpus)) if isinstance(cpus, int) else tuple(cpus)
    return Offset(
        offset,
        code,
        remote=hitm - hitm // 3,
        local=hitm // 3,
        store_hit=stores,
        loads=max(loads, hitm),
        cycles=(420, 210, 160),
        cpus=shown,
        symbol=symbol,
        object=where,
        source=f"file.c:{100 + offset}",
    )


def text_of(rows: Sequence[Offset], style: Style, events: tuple[str, ...], neighbour: Sequence[Offset]) -> str:
    """The text of a report; neighbour: what is in the other half of the 128 bytes."""
    lines = [Line(0xFFFF888123456740, tuple(rows))]
    lines += [Line(0xFFFF888123456700, tuple(neighbour))] if neighbour else []
    return report_text.text(Report(tuple(lines), events) if events else Report(tuple(lines)), style)


def judged(text: str, tmp_path: Path) -> LineReport:
    """The first line of a text."""
    path = tmp_path / "text"
    path.write_text(text, encoding="utf-8", newline="")
    import_text(path, tmp_path / "recording")
    with open_recording(tmp_path / "recording") as recording:
        return make_c2c_report(recording, 5).lines[0]


TRUE, FALSE, LOCK, PAIR = "true sharing", "false sharing", "lock word", "adjacent line"
Story = tuple[set[str], Sequence[Offset], Style, tuple[str, ...], Sequence[Offset]]


def story(
    right: str,
    *rows: Offset,
    style: Style = PLAIN,
    events: tuple[str, ...] = (),
    neighbour: Sequence[Offset] = (),
) -> Story:
    """right: what is true of the line, with | between."""
    return set(right.split("|")), rows, style, events, neighbour


SPIN, TAKE, FREE = "native_queued_spin_lock_slowpath", "_raw_spin_lock", "_raw_spin_unlock"
EITHER = f"{LOCK}|{FALSE}"
UNTOLD = "too little evidence"
STORIES: dict[str, Story] = {
    "counters of two threads": story(
        FALSE, row(0, "run", 210, 5200, 900, (3,), "app"), row(8, "run", 198, 5100, 880, (12,), "app"), style=CPUS
    ),
    "counters of two threads, numbers of CPUs": story(
        f"{FALSE}|{UNTOLD}", row(0, "run", 210, 5200, 900, 1, "app"), row(8, "run", 198, 5100, 880, 1, "app")
    ),
    "slots of threads that migrate over all CPUs": story(
        f"{FALSE}|{UNTOLD}", *(row(8 * n, "run", 90 + n, 2000, 300, 8, "app") for n in range(8)), style=CPUS
    ),
    "slots of threads on two CPUs each": story(
        f"{FALSE}|{UNTOLD}",
        *(row(8 * n, "run", 90 + n, 2000, 300, (2 * n, 2 * n + 1), "app") for n in range(8)),
        style=CPUS,
    ),
    "spinlock alone": story(LOCK, row(0, SPIN, 1300, 300, 2500, 32), row(0, TAKE, 290, 1200, 400, 32)),
    "spinlock and its data": story(
        EITHER,
        *(row(0, SPIN, 1300, 300, 2500, 32), row(0, TAKE, 290, 1200, 400, 32)),
        *(row(16, "list_lru_add", 420, 900, 700, 32), row(24, "list_lru_add", 90, 800, 200, 32)),
    ),
    "zone lock and free lists": story(
        EITHER,
        *(row(0, SPIN, 2300, 700, 5000, 64), row(0, "_raw_spin_lock_irqsave", 400, 1000, 700, 64)),
        *(row(32, "rmqueue_bulk", 700, 800, 1100, 64), row(40, "free_pcppages_bulk", 610, 700, 1000, 64)),
    ),
    "run queue lock and clock": story(
        EITHER,
        *(row(0, "raw_spin_rq_lock_nested", 420, 600, 800, 20), row(0, SPIN, 200, 50, 300, 20)),
        *(row(32, "update_rq_clock", 130, 700, 300, 20), row(8, "update_sg_lb_stats", 390, 0, 900, 20)),
    ),
    "lockref": story(
        f"{LOCK}|{TRUE}",
        *(row(24, "lockref_get_not_dead", 630, 900, 1200, 24), row(24, "lockref_put_return", 570, 800, 1100, 24)),
        style=BROWSER,
    ),
    "lockref and fields that lookups read": story(
        f"{EITHER}|{TRUE}",
        *(row(24, "lockref_get_not_dead", 630, 900, 1200, 24), row(24, "dput", 570, 800, 1100, 24)),
        *(row(0, "__d_lookup_rcu", 330, 0, 900, 24), row(8, "__d_lookup_rcu", 150, 0, 500, 24)),
    ),
    "reference count of a page": story(
        TRUE, row(52, "try_grab_folio", 770, 2100, 1500, 48), row(52, "folio_put", 730, 2000, 1400, 48)
    ),
    "reference count beside a field of lookups": story(
        FALSE,
        *(row(0, "dst_release", 450, 1200, 900, 40), row(0, "dst_hold", 450, 1300, 900, 40)),
        row(32, "ip_route_output_key", 400, 0, 900, 40),
    ),
    "reference count of an address space, Arm": story(
        TRUE,
        *(row(0, "mmgrab_lazy_tlb", 180, 600, 300, 16), row(0, "mmdrop_lazy_tlb", 190, 620, 310, 16)),
        style=PEER,
        events=SPE,
    ),
    "load_avg of a task group": story(
        f"{TRUE}|{FALSE}",
        *(row(0, "update_load_avg", 950, 1900, 1800, 60), row(0, "update_cfs_group", 650, 0, 1300, 60)),
    ),
    "shares beside load_avg": story(
        FALSE, row(0, "update_load_avg", 950, 1900, 1800, 60), row(24, "update_cfs_group", 650, 0, 1300, 60)
    ),
    "statistics of a zone": story(
        f"{TRUE}|{UNTOLD}", *(row(8 * n, "zone_page_state_add", 90 + n, 400, 160, 40) for n in range(4)), style=OLD
    ),
    "futex hash bucket": story(
        EITHER,
        *(row(4, SPIN, 900, 200, 1800, 30), row(4, TAKE, 70, 300, 200, 30)),
        *(row(0, "futex_q_lock", 310, 600, 500, 30), row(0, "futex_wake", 260, 20, 500, 30)),
        row(8, "plist_add", 160, 300, 300, 30),
    ),
    "clock with a sequence count": story(
        TRUE,
        *(row(0, "ktime_get", 420, 0, 900, 40), row(0, "timekeeping_advance", 0, 200, 10, 1)),
        *(row(8, "ktime_get", 30, 0, 600, 40), row(8, "timekeeping_advance", 0, 180, 10, 1)),
    ),
    "rwsem": story(
        LOCK,
        *(row(0, "rwsem_down_read_slowpath", 400, 500, 700, 30), row(0, "up_read", 290, 800, 500, 30)),
        *(row(8, "rwsem_spin_on_owner", 120, 0, 300, 12), row(16, "osq_lock", 80, 100, 150, 12)),
    ),
    "rwsem and what stands behind it": story(
        EITHER,
        *(row(0, "rwsem_down_read_slowpath", 400, 500, 700, 30), row(0, "up_read", 290, 800, 500, 30)),
        *(row(44, "vma_link", 220, 300, 300, 12), row(48, "find_vma", 430, 0, 800, 30)),
    ),
    "mutex": story(
        LOCK,
        *(row(0, "mutex_spin_on_owner", 700, 0, 1500, 24), row(0, "__mutex_lock.constprop.0", 400, 500, 700, 24)),
        *(row(0, "mutex_unlock", 70, 600, 200, 24), row(12, "osq_lock", 80, 200, 200, 24)),
    ),
    "qrwlock": story(
        LOCK,
        *(row(0, "queued_read_lock_slowpath", 400, 500, 700, 30), row(0, "_raw_read_unlock", 150, 300, 250, 30)),
        row(4, "queued_write_lock_slowpath", 120, 200, 200, 10),
    ),
    "pthread mutex": story(
        LOCK,
        row(0, "pthread_mutex_lock@@GLIBC_2.2.5", 600, 900, 1200, 16, "libc.so.6"),
        row(0, "__pthread_mutex_unlock_usercnt", 60, 900, 200, 16, "libc.so.6"),
        row(8, "pthread_mutex_lock@@GLIBC_2.2.5", 3, 800, 20, 16, "libc.so.6"),
    ),
    "pthread mutex and its data": story(
        EITHER,
        row(0, "pthread_mutex_lock@@GLIBC_2.2.5", 600, 900, 1200, 16, "libc.so.6"),
        row(0, "__pthread_mutex_unlock_usercnt", 60, 900, 200, 16, "libc.so.6"),
        *(row(40, "do_work", 310, 800, 600, 16, "app"), row(48, "do_work", 60, 800, 200, 16, "app")),
    ),
    "mutex of an arena": story(
        LOCK,
        row(0, "malloc_mutex_lock_slow", 440, 500, 900, 20, "libjemalloc.so.2"),
        row(0, "malloc_mutex_unlock", 30, 500, 100, 20, "libjemalloc.so.2"),
    ),
    "Go mutex and the counter under it": story(
        EITHER,
        *(row(0, "sync.(*Mutex).lockSlow", 450, 400, 900, 16, "svc"), row(0, "sync.(*Mutex).Lock", 99, 500, 200, 16)),
        row(8, "main.(*Counter).Inc", 130, 450, 300, 16, "svc"),
    ),
    "Java card table": story(
        FALSE,
        *(
            row(at, "[JIT] tid 4711", 60 + at, 500, 200, (2 * n,), "perf-4711.map")
            for n, at in enumerate((3, 9, 22, 40))
        ),
        style=CPUS,
    ),
    "ends of a ring": story(
        f"{FALSE}|{TRUE}",
        *(row(0, "enqueue", 310, 800, 900, (2,), "app"), row(32, "enqueue", 290, 0, 800, (2,), "app")),
        *(row(32, "dequeue", 10, 790, 900, (9,), "app"), row(0, "dequeue", 300, 0, 800, (9,), "app")),
        style=CPUS,
    ),
    "reader and writer": story(
        FALSE, row(0, "reader", 820, 0, 1800, 4, "app"), row(32, "writer", 40, 9000, 400, 4, "app")
    ),
    "reader and writer by thread": story(
        FALSE,
        *(replace(row(0, "reader", 190, 0, 400, 1, "app"), tid=20 + n) for n in range(4)),
        *(replace(row(32, "writer", 8, 3000, 40, 1, "app"), tid=30 + n) for n in range(4)),
        style=THREADS,
    ),
    "slots of CPUs, IBS without stores": story(
        FALSE, *(row(16 * n, "account", 60, 0, 120, (n,)) for n in range(4)), style=CPUS, events=IBS
    ),
    "counter, IBS without stores": story(f"{TRUE}|{UNTOLD}", row(8, "stat_add", 360, 0, 700, 24), events=IBS),
    "lines of one pair": story(
        PAIR, row(0, "reader", 290, 0, 600, 12, "app"), neighbour=[row(0, "writer", 130, 4000, 900, 2, "app")]
    ),
    "lines of one pair, each with its CPU": story(
        PAIR,
        row(0, "run", 290, 4000, 600, (3,), "app"),
        neighbour=[row(0, "run", 280, 3900, 590, (5,), "app")],
        style=CPUS,
    ),
    "few samples of a reader and a writer": story(
        FALSE, row(0, "reader", 6, 0, 14, (1, 2), "app"), row(32, "writer", 0, 30, 4, (5,), "app"), style=CPUS
    ),
    "flag that is polled": story(
        f"{TRUE}|{UNTOLD}",
        *(row(8, "wait_for_start", 150, 0, 9000, 30, "app"), row(8, "set_start", 0, 40, 5, 1, "app")),
        neighbour=[row(0, "other", 50, 900, 600, 8, "app"), row(8, "other", 50, 900, 600, 8, "app")],
    ),
}
# What people do to a text.
CHANGES: dict[str, Callable[[str], str]] = {
    "mail": lambda text: "\n".join("> " + line for line in text.split("\n")),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "NBSP": lambda text: text.replace("  ", "\u00a0 "),
    "colours": lambda text: re.sub(r"(\d+\.\d+%)", "\x1b[31m\\1\x1b[m", text),
    "fence": lambda text: "Hi all,\n\n```\n" + text[text.rfind("Pareto") :].split("\n", 2)[2] + "\n```\n\nIdeas?\n",
    "tabs": lambda text: re.sub(" {2,}", "\t", text),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_programs_do_is_what_is_told(name: str, tmp_path: Path) -> None:
    right, *given = STORIES[name]
    found = judged(text_of(*given), tmp_path)
    told = found.judgement
    assert told.verdict in right, told
    # What is not decided, and each doubt about the samples, has a command that would tell.
    for doubt in [*told.doubts, *(one for one in told.evidence if one.startswith("not decided"))]:
        if "names are inferred" not in doubt and "is false sharing" not in doubt:
            assert "`" in doubt, doubt
    if found.advice:
        locks = {part.name for part in found.parts if part.is_lock}
        assert not locks & set(found.advice.members), found.advice


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_text_has_the_same_verdict(change: str, tmp_path: Path) -> None:
    for number, name in enumerate(("spinlock and its data", "counters of two threads", "reader and writer")):
        right, *given = STORIES[name]
        directory = tmp_path / str(number)
        directory.mkdir()
        assert judged(CHANGES[change](text_of(*given)), directory).judgement.verdict in right, name


def test_slots_without_stores_go_each_to_a_line_of_its_own(tmp_path: Path) -> None:
    _, *given = STORIES["slots of CPUs, IBS without stores"]
    advice = judged(text_of(*given), tmp_path).advice
    assert advice is not None
    assert "each to a cache line of its own" in advice.text


def test_loads_that_a_cut_has_taken_are_not_absent(tmp_path: Path) -> None:
    """Without the columns behind the code's address the number of loads is not known."""
    _, *given = STORIES["reader and writer by thread"]
    text = "\n".join(line[:150] for line in text_of(*given).split("\n"))
    assert judged(text, tmp_path).judgement.verdict == FALSE


def test_a_word_of_a_spinlock_and_a_count_is_a_lock(tmp_path: Path) -> None:
    rows = [row(0, "lockref_put_return", 60, 80, 60, 6), row(0, "native_queued_spin_lock_slowpath", 40, 0, 40, 6)]
    assert judged(text_of(rows, CPUS, (), ()), tmp_path).judgement.verdict == LOCK


def two_halves(*rows: Offset) -> str:
    """The text of --double-cl: a line of 128 bytes."""
    return text_of(rows, CPUS, (), ()).replace("456740", "456700")


def test_two_lines_that_a_text_shows_as_one_are_no_false_sharing(tmp_path: Path) -> None:
    apart = two_halves(row(0x8, "rx_poll", 400, 300, 900, [1]), row(0x48, "tx_clean", 380, 310, 880, [2]))
    found = judged(apart, tmp_path).judgement
    assert found.verdict == PAIR
    assert found.confidence != "high"
    assert any("getconf LEVEL1_DCACHE_LINESIZE" in doubt for doubt in found.doubts)


def test_a_half_of_two_lines_that_a_text_shows_as_one_is_judged_by_itself(tmp_path: Path) -> None:
    rows = [row(0x8, "rx_poll", 400, 300, 900, [1]), row(0x10, "tx_clean", 380, 310, 880, [2])]
    found = judged(two_halves(*rows, row(0x48, "account", 90, 310, 880, [2])), tmp_path).judgement
    assert found.verdict == FALSE
    assert [part.begin for part in found.members] == [0x8, 0x10]
