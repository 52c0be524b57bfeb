# SPDX-License-Identifier: GPL-2.0-or-later
"""First screens of recordings made here: of a process that waits for nothing, of a heavy lock, of a watched line."""

import signal
import subprocess
from pathlib import Path

import pytest

from lockline.base.text import width
from lockline.cli import main as cli
from support import DEADLINE_S, Collector, Recording, Workload, planted, wait_for


def screen(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of a first screen; it fits 24 lines of 80 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)
    capsys.readouterr()
    assert cli.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(width, lines)) <= 80
    return lines


def of(lines: list[str]) -> str:
    """The screen without its line breaks."""
    return " ".join(" ".join(lines).split())


def test_nothing_is_found_where_nobody_waits(
    live: Path, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Threads that sleep: the answer is a sentence, with what was counted, and no advice follows."""
    with (
        planted(("sleep", "1000"), tmp_path) as idle,
        Collector(live, recording, "-p", str(idle.pid)) as collector,
        Recording(recording) as result,
    ):
        wait_for(lambda: (result.number("SELECT count(*) FROM interval") or 0) >= 2, "intervals")
        collector.stop()
    lines = screen(["report", str(recording)], monkeypatch, capsys)
    assert lines[2].startswith("ANSWER  Waiting for the kernel's locks is negligible: "), lines
    assert f"sleep ({idle.pid}) used 0.00 CPUs. Of 1 thread: 1.0 sleep on a timer." in of(lines)
    assert not any(line.startswith(("FINDINGS", "LOCKS")) or line.strip().startswith("do ") for line in lines), lines


def test_a_heavy_lock_with_lost_samples(
    live: Path, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The collector stands still beside a storm: the cause stays the first finding, and TRUST says what was lost."""
    lost = "SELECT sum(count) FROM loss WHERE name = 'events_overwritten'"
    with planted(("incidents", "mmap-storm", "8"), tmp_path) as load:
        # Each wait is an event, and the rings hold 512 for each CPU.
        options = ("-p", str(load.pid), "-I", "0.2", "--threshold", "1us", "--memory", "4M")
        with Collector(live, recording, *options) as collector, Recording(recording) as result:

            def two_intervals_more() -> None:
                now = result.number("SELECT count(*) FROM interval") or 0
                wait_for(lambda: (result.number("SELECT count(*) FROM interval") or 0) >= now + 2, "intervals")

            two_intervals_more()
            # On a busy machine the collector takes long to go on: what is lost is then a small part.  And not each
            # switch of a thread is a wait for the map.
            more = 10_000
            waits = "SELECT sum(waits) FROM lock_total"
            while (result.number(lost) or 0) < max(1, 0.01 * (result.number(waits) or 0)):
                stand_still(collector, Path(f"/proc/{load.pid}/status"), more)
                two_intervals_more()
                more *= 2
            collector.stop()
    lines = screen(["report", str(recording)], monkeypatch, capsys)
    text = of(lines)
    assert "One lock makes" in lines[2]
    assert "mm_struct.mmap_lock" in of(lines[2:4]), lines
    first = text.partition("FINDINGS")[2].partition(" 2 ")[0]
    assert "mm_struct.mmap_lock" in first, lines
    assert f"incidents ({load.pid})" in first, lines
    assert "do let the allocator keep memory" in text, lines
    trust = text.partition("TRUST")[2].partition("MORE")[0]
    assert "lost: " in trust, lines
    assert "samples of waits" in trust, lines


def stand_still(collector: Collector, status: Path, more: int) -> None:
    """Stop the collector until the threads of a process have switched `more` times, and let it go on."""
    collector.process.send_signal(signal.SIGSTOP)
    before = switches(status)
    # A wait for the map is a switch of its thread.
    wait_for(lambda: switches(status) > before + more, "waits while the collector stands still")
    collector.process.send_signal(signal.SIGCONT)


def switches(status: Path) -> int:
    """Context switches of all threads of a process that lives."""
    total = 0
    for task in (status.parent / "task").iterdir():
        for line in (task / "status").read_text().splitlines():
            total += int(line.split()[1]) if "ctxt_switches" in line else 0
    return total


@pytest.mark.alone
@pytest.mark.usefixtures("debug_registers")
def test_the_first_lines_of_a_watch(live: Path, recording: Path) -> None:
    """While it is shown at its end, and again from its file: the verdict, and whether it is worth acting on."""
    with Workload(live, "ping_pong", "line", "free") as load:
        target = f"user:{load.pid}:ping_pong_lines"
        command = [str(live / "bin" / "lockline"), "watch", target, "-d", "3", "-o", str(recording)]
        command += ["--offsets", "0-7,24-31"]
        watch = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        wait_for(lambda: recording.exists() or watch.poll() is not None, "watch")
        while watch.poll() is None:
            load.do("go 3000 50")
        assert watch.stdout is not None
        shown = watch.stdout.read()
        assert watch.wait(DEADLINE_S) == 0, shown
    again = subprocess.run(
        [live / "bin" / "lockline", "watch", "-i", recording], capture_output=True, text=True, check=True
    ).stdout
    for text in (shown, again):
        lines = text.splitlines()
        assert len(lines) <= 24, text
        assert max(map(width, lines)) <= 80, text
        assert "worth acting on" in lines[2].lower(), text
        assert "false sharing in ping_pong_line" in of(lines[2:5]), text
        assert any(line.startswith("DO ") for line in lines[3:12]), text
