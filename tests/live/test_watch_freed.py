# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the object of a watched line was freed: objects that are closed, and others that live among such."""

from pathlib import Path

import pytest

from support import Collector, Recording, Workload, wait_for

# What the lock's waits are, and what of its line is watched; of an eventfd a free object's link lies there too.
KINDS = {"pipe": ("mutex%", "0-31"), "eventfd": ("spinlock", "8-15,32-39"), "socket": ("spinlock", "")}
OTHERS = 2000
# Of the threads that use the object: they need not keep both CPUs busy to wait for each other.
REST_US = "500"


pytestmark = pytest.mark.usefixtures("debug_registers")


def lock_in_use(live: Path, workload: Workload, kind: str, path: Path) -> str:
    """The lock that the workload's threads wait for, as a target."""
    query = (
        "SELECT lock.name, instance FROM lock JOIN lock_total ON lock.id = lock JOIN kind ON kind.id = kind"
        " WHERE address AND kind.name LIKE ? AND source = 'slab' AND lock.name NOT LIKE 'kmem_cache%'"
        " GROUP BY lock.id HAVING sum(waits) > 5 ORDER BY sum(waits) DESC"
    )
    with Collector(live, path, "-p", str(workload.pid)):

        def named() -> list[tuple[str, str]]:
            with Recording(path) as found:
                return found.rows(query, KINDS[kind][0])

        name, instance = wait_for(lambda: path.exists() and named(), f"wait for the lock of a {kind}")[0]
    return f"lock:{name}[{instance}]" if instance else f"lock:{name}"


def windows(path: Path, condition: str = "1") -> int:
    """How many there are so far."""
    with Recording(path) as found:
        return found.number(f"SELECT count(*) FROM watch_window WHERE {condition}")


def ended(path: Path) -> str:
    """Why the watch ended, "" if it did not."""
    with Recording(path) as found:
        return str(found.rows("SELECT ended FROM watch")[0][0])


def more_windows(path: Path) -> None:
    """Waits until the collector has looked at what happened up to now."""
    before = windows(path)
    wait_for(lambda: windows(path) > before + 2, "windows of the watch")


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_is_closed(live: Path, recording: Path, tmp_path: Path, kind: str) -> None:
    """Objects of its kind come and go all the time; only when it goes itself that is said."""
    offsets = ("--offsets", KINDS[kind][1]) if KINDS[kind][1] else ()
    with Workload(live, "reused_objects", kind, REST_US) as workload:
        workload.do("use 0")
        target = lock_in_use(live, workload, kind, tmp_path / "waits.lockline")
        options = ("-i", str(tmp_path / "waits.lockline"), target, "--full", *offsets)
        with Collector(live, recording, *options, command="watch"):
            wait_for(lambda: recording.exists() and windows(recording), "window of the watch")
            workload.do(f"reuse {OTHERS}")
            more_windows(recording)
            assert (ended(recording), windows(recording, "changed = 1")) == ("", 0)
            workload.do("close 0")
            workload.do(f"reuse {OTHERS}")
            wait_for(lambda: "the object is gone" in ended(recording), "word that it is gone")
    with Recording(recording) as found:
        assert found.number("SELECT min(begin_ns) FROM watch_window WHERE changed = 1") > found.number(
            "SELECT max(begin_ns) FROM watch_window WHERE changed != 1"
        )
        # Our own looks at the object are no accesses to tell of.
        ours = "SELECT count(*) FROM memory_access JOIN memory_code ON code = memory_code.id JOIN memory_thread ON"
        ours += " thread = memory_thread.id WHERE symbol = 'copy_from_kernel_nofault' AND comm LIKE 'lockline%'"
        assert found.number(ours) == 0


def test_one_that_lives_among_those_that_go(live: Path, recording: Path, tmp_path: Path) -> None:
    """Its neighbour is closed, and so are thousands of its kind."""
    with Workload(live, "reused_objects", "eventfd", REST_US) as workload:
        workload.do("use 1")
        target = lock_in_use(live, workload, "eventfd", tmp_path / "waits.lockline")
        options = ("-i", str(tmp_path / "waits.lockline"), target, "--full", "--offsets", KINDS["eventfd"][1])
        with Collector(live, recording, *options, command="watch"):
            wait_for(lambda: recording.exists() and windows(recording), "window of the watch")
            workload.do("close 0")
            workload.do(f"reuse {OTHERS}")
            more_windows(recording)
    assert (ended(recording), windows(recording, "changed = 1")) == ("", 0)


def test_seen_seldom(live: Path, recording: Path, tmp_path: Path) -> None:
    """At the default budget nearly all of it happens between windows: the list of free objects tells."""
    with Workload(live, "reused_objects", "pipe", REST_US) as workload:
        workload.do("use 0")
        target = lock_in_use(live, workload, "pipe", tmp_path / "waits.lockline")
        options = ("-i", str(tmp_path / "waits.lockline"), target)
        with Collector(live, recording, *options, command="watch"):
            wait_for(lambda: recording.exists() and windows(recording), "window of the watch")
            assert ended(recording) == ""
            workload.do("close 0")

            def gone() -> str:
                # Who takes it from there has it listed again when he is done.
                workload.do("reuse 1")
                return ended(recording)

            assert "the object is gone" in wait_for(gone, "word that it is gone")
