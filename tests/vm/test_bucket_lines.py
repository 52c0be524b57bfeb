# SPDX-License-Identifier: GPL-2.0-or-later
"""The line of a futex bucket watched live on other kernels: its members by name, and who touches them.

Of a load of our own, which uses all of them, and of `perf bench futex hash`, whose calls queue nobody.
"""

import shutil
from collections.abc import Callable

import pytest
from boots import Section
from guest import Guest
from matrix import boot, chosen, kernel_of
from watched_line import BUCKET_MEMBERS, FIND_BUCKET, FIND_SHARED_BUCKET, START_LOAD, show_watched

KERNELS = ("bookworm", "trixie", "sid")
ROUNDS = 100

COMMAND = f"""
cp /sys/kernel/btf/vmlinux btf
{START_LOAD}
{FIND_BUCKET}
lockline-collect watch -q -d 0.1 -o hashed.lockline futex:$load:futex_word || exit
lockline-collect watch --full -q -o watch.lockline $bucket --offsets 0-23 -- \\
    sh -c 'echo futex {ROUNDS} 0 >&3; read -r answer <&4' || exit
exec 3>&-
wait
"""

# So many futexes of each thread that some of the 512 buckets have futexes of both.  Shared ones: of private futexes
# a process has 16 buckets of its own from 6.16 on, which would be hit all the time.
FUTEXES = 256
# It rests while others work: it takes both CPUs of an emulator.
BENCH = f"""
perf bench futex hash -S -t 2 -f {FUTEXES} -r 100000 > bench 2>&1 &
bench=$!
{FIND_SHARED_BUCKET}
lockline-collect watch --full -q -o perf.lockline $bucket --offsets 0-31 -- \\
    sh -c "kill -CONT $bench; sleep 2; kill -STOP $bench" || exit
kill -KILL $bench
wait $bench || true
"""


def section(kernel: str) -> Section:
    """CPUs take turns: with a thread for each, qemu 7.2 lets atomic instructions pass watchpoints."""
    perf = shutil.which("perf")
    script = COMMAND + (BENCH if perf else "")
    return Section(boot(kernel, turns=True), "bucket", script, (perf,) if perf else ())


SECTIONS = chosen(*map(section, KERNELS))


@pytest.fixture(scope="module", params=SECTIONS, ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """What the watched bucket left."""
    return results(request.param)


def test_the_bucket_is_found_by_the_futex(guest: Guest) -> None:
    """What a kprobe saw, and what the kernel's hash of the address gives, are the same."""
    seen = int(guest.text("bucket"), 16)
    query = "SELECT address, lock_offset, type_offset, type FROM memory_line JOIN watch ON watch.line = memory_line.id"
    ((line, lock, offset, kind),) = guest.rows("hashed.lockline", query)
    assert (line & (1 << 64) - 1, lock, offset, kind) == (seen, 4, 0, "futex_hash_bucket")


def test_the_members_of_a_futex_bucket(guest: Guest) -> None:
    line = show_watched(guest.directory / "watch.lockline", guest.directory / "btf")
    assert line["line"]["type"] == "futex_hash_bucket"
    assert [(lock["name"], lock["offset"]) for lock in line["locks"]] == [("futex_hash_bucket.lock", 4)]
    offsets = {part["offset"]: part for part in line["offsets"]}
    assert {at: part["member"] for at, part in offsets.items()} == BUCKET_MEMBERS
    functions = {part["member"]: {code["symbol"] for code in part["instructions"]} for part in offsets.values()}
    assert {"futex_q_lock", "futex_q_unlock", "futex_wake"} <= functions["waiters"]
    assert {"_raw_spin_lock", "_raw_spin_unlock"} <= functions["lock"]
    assert {"futex_wake", "plist_add"} <= functions["chain.next"]
    assert "plist_del" in functions["chain.prev"]
    # Each round of both threads takes the lock twice, and every eighth once more; a few accesses may be missed.
    locked = 2 * (2 * ROUNDS + ROUNDS // 8)
    assert offsets[4]["writes"] > locked
    assert offsets[0]["transfers"] > 0
    assert offsets[0]["cpus"] == offsets[4]["cpus"] == [0, 1]
    print(f"\n{line['hits']} hits, {line['transfers']} transfers, verdict {line['verdict']}")


def test_perf_bench_futex_hash(guest: Guest) -> None:
    """Two threads wait for values that their words do not have: they count themselves in, take the lock, and leave."""
    if not (guest.directory / "perf.lockline").exists():
        pytest.skip("perf is not installed: scripts/setup kernels")
    line = show_watched(guest.directory / "perf.lockline", guest.directory / "btf")
    assert line["line"]["type"] == "futex_hash_bucket"
    assert [(lock["name"], lock["offset"]) for lock in line["locks"]] == [("futex_hash_bucket.lock", 4)]
    assert line["comms"] == ["futex-hash"]
    offsets = {part["offset"]: part for part in line["offsets"]}
    members = {at: part["member"] for at, part in offsets.items()}
    # From 6.16 to 7.1 each call looks whether the bucket is of the process's own hash.
    assert {at: member for at, member in members.items() if member != "priv"} == {0: "waiters", 4: "lock"}
    functions = {part["member"]: {code["symbol"] for code in part["instructions"]} for part in offsets.values()}
    assert {"futex_q_lock", "futex_q_unlock"} <= functions["waiters"]
    assert {"_raw_spin_lock", "_raw_spin_unlock"} <= functions["lock"]
    assert offsets[0]["cpus"] == offsets[4]["cpus"] == [0, 1]
    assert offsets[0]["transfers"] > 0
    # In and out, on the counter and on the lock; where a window begins and ends half of it may be missed.
    assert abs(offsets[0]["writes"] - offsets[4]["writes"]) <= 0.1 * offsets[0]["writes"] + 4
    assert "Running 'futex/hash' benchmark" in guest.text("bench")
    print(f"\n{line['hits']} hits, {line['transfers']} transfers, verdict {line['verdict']}, members {members}")
