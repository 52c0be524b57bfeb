# SPDX-License-Identifier: GPL-2.0-or-later
"""The exporter records by itself, and is scraped under load."""

import re
import subprocess
import sys
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from support import Workload, wait_for

TOP = Path(__file__).resolve().parents[2]
ROUNDS = 20


def mutex_waits(port: int) -> float:
    """Waits for mutexes that the exporter has told so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "lockline_lock_waits_total" and sample.labels["kind"] == "mutex"
    )


def test_scraped_under_load(live: Path) -> None:
    command = [sys.executable, "-m", "lockline", "exporter", "--listen", "127.0.0.1:0", "--interval", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=TOP / "userspace")
    assert process.stderr
    try:
        found = re.search(r":(\d+)/metrics", process.stderr.readline())
        assert found
        port = int(found[1])
        with Workload(live, "uffd_mutex") as load:
            # One round is not enough where the collector began after it: the load goes on until it shows.
            def shows() -> bool:
                load.do(f"go {ROUNDS} 2000")
                return mutex_waits(port) >= ROUNDS

            wait_for(shows, "waits of the load in the metrics")
            before = mutex_waits(port)
            wait_for(lambda: (load.do(f"go {ROUNDS} 2000"), mutex_waits(port) > before)[1], "more waits")
    finally:
        process.terminate()
        process.wait()
        rest = process.stderr.read()
        process.stderr.close()
    assert rest == ""
