# SPDX-License-Identifier: GPL-2.0-or-later
"""Watchpoints on arm64: known transfers, what each kind of instruction did, a run queue, a futex bucket."""

import json
from collections.abc import Callable

import pytest
from boots import Boot, Section
from guest import Guest
from matrix import boot, chosen, kernel_of
from watched_line import BUCKET_MEMBERS, FIND_BUCKET, START_LOAD, check_run_queue, show_watched

COUNT = 60
EXCLUSIVES = 50
FEW = 2  # of some ten thousand hits one was counted neither by the kernel nor by lockline
ROUNDS = 50

START_PAIR = """
mkfifo /tmp/pairs /tmp/paired
ping_pong line tokens < /tmp/pairs > /tmp/paired &
exec 5> /tmp/pairs 6< /tmp/paired
read -r answer <&6
pair=$(echo "$answer" | sed 's/.*"pid": \\([0-9]*\\).*/\\1/')
"""

COMMAND = f"""
say() {{ echo "$(cut -d ' ' -f 1 /proc/uptime): $*" > /dev/console; }}  # where a guest that does not end has got to
say booted
mkdir /boot
cp /bin/config /boot/config-$(uname -r)
{START_PAIR}
mkfifo /tmp/single /tmp/done
a64_accesses < /tmp/single > /tmp/done &
exec 7> /tmp/single 8< /tmp/done
read -r answer <&8
echo "$answer" > accesses
single=$(echo "$answer" | sed 's/.*"pid": \\([0-9]*\\).*/\\1/')
say transfers
lockline-collect watch user:$pair:ping_pong_lines --full --offsets 0-7,24-31 -q -o user.lockline -- \\
    sh -c 'echo go {COUNT} 0 >&5; read -r answer <&6' || exit
say instructions
lockline-collect watch user:$single:a64_lines+64 --full --offsets 0-31 -q -o accesses.lockline -- sh -c '
    echo all {COUNT} >&7; read -r answer <&8
    echo kernel {COUNT} >&7; read -r answer <&8
    echo exclusive {EXCLUSIVES} >&7; read -r answer <&8; echo "$answer" > exclusives' || exit
say run queue
lockline-collect watch runqueues:0 --max-overhead 20 -q -o run.lockline -- \\
    sh -c 'echo go {COUNT} 1000 >&5; read -r answer <&6' || exit
say futex bucket
{START_LOAD}
{FIND_BUCKET}
lockline-collect watch --full -q -o bucket.lockline futex:$load:futex_word --offsets 0-23 -- \\
    sh -c 'echo futex {ROUNDS} 0 >&3; read -r answer <&4' || exit
exec 3>&- 5>&- 7>&-
wait
say over
"""

OLD = f"""
{START_PAIR}
lockline-collect watch user:$pair:ping_pong_lines --full --offsets 0-7,24-31 -q -o user.lockline -- \\
    sh -c 'echo go {COUNT} 0 >&5; read -r answer <&6' || exit
exec 5>&-
wait
"""

# A program that is refused to be watched runs on unharmed.
REFUSED = f"""
{START_PAIR}
for target in "user:$pair:ping_pong_lines --full" runqueues:0; do
    lockline-collect watch $target -d 1 -o refused.lockline >> output 2>> messages
    echo $? >> statuses
done
echo go {COUNT} 0 >&5
read -r answer <&6
echo "$answer" > told
exec 5>&-
wait
ls > files
ps > processes
grep -l prog_id /proc/[0-9]*/fdinfo/* > programs 2> /dev/null
ls -l /proc/[0-9]*/fd 2> /dev/null | grep perf_event > events
true  # nothing is found there
"""


# CPUs take turns: with a thread for each, qemu 7.2 lets atomic instructions pass watchpoints.
WATCHED = Section(boot("trixie-arm64", turns=True), "watch", COMMAND, ("config",))
WATCHED_ON_6_1 = Section(boot("bookworm-arm64"), "watch", OLD)
WITHOUT_LSE = Section(Boot("trixie-arm64", cpu="cortex-a57", label="cortex-a57"), "refused", REFUSED)


@pytest.fixture(scope="module", params=chosen(WATCHED), ids=kernel_of)
def guest(request: pytest.FixtureRequest, results: Callable[[Section], Guest]) -> Guest:
    """What the guest left."""
    return results(request.param)


def check_transfers(guest: Guest) -> None:
    """Of the two threads: each seen, or all but a few, and never more."""
    ((transfers, lost),) = guest.rows("user.lockline", "SELECT sum(transfers), sum(lost) FROM watch_window")
    assert 2 * COUNT - 1 - FEW <= transfers <= 2 * COUNT - 1
    assert lost == 0
    accesses = guest.rows("user.lockline", "SELECT offset, sum(loads), sum(stores) FROM memory_access GROUP BY offset")
    assert [offset for offset, *_ in accesses] == [0, 24]
    assert all(COUNT - FEW <= seen <= COUNT for _, *kinds in accesses for seen in kinds), accesses


def test_every_transfer_is_counted(guest: Guest) -> None:
    check_transfers(guest)


def test_what_each_instruction_did(guest: Guest) -> None:
    truth = guest.json("accesses")
    sums = "sum(records), sum(loads), sum(stores), sum(locked)"
    accesses = f"SELECT memory_access.offset, {sums} FROM memory_access, memory_code"
    for access in truth["accesses"]:
        name = access["function"]
        where = f"WHERE code = id AND symbol = '{name}' GROUP BY 1"
        seen = guest.rows("accesses.lockline", f"{accesses} {where}")
        if name == "a64_zero_line":
            assert truth["zeroed_bytes"] == 64
            # At which of the watched bytes it is seen the architecture leaves open.
            seen = [(access["offset"], *found[1:]) for found in seen]
        ((offset, records, *kinds),) = seen
        assert offset == access["offset"], name
        assert COUNT - FEW <= records <= COUNT, name
        assert kinds == [records * access[kind] for kind in ("reads", "writes", "locked")], name


def test_the_kernels_own_accesses_to_a_process_are_not_seen(guest: Guest) -> None:
    symbols = {name for (name,) in guest.rows("accesses.lockline", "SELECT symbol FROM memory_code WHERE id > 0")}
    functions = {access["function"] for access in guest.json("accesses")["accesses"]}
    assert symbols == functions | {"a64_add_exclusively"}


def test_exclusive_instructions_succeed_again(guest: Guest) -> None:
    """A watched load-exclusive loses its reservation: the watch ends when it sees such a loop."""
    assert guest.json("exclusives")["sum"] == EXCLUSIVES
    loads = "SELECT sum(loads), sum(locked) FROM memory_access, memory_code WHERE code = id AND symbol = "
    ((read, locked),) = guest.rows("accesses.lockline", f"{loads} 'a64_add_exclusively'")
    assert read == locked > EXCLUSIVES
    ((ended,),) = guest.rows("accesses.lockline", "SELECT ended FROM watch")
    assert "exclusive" in ended
    assert "--full" in ended


def test_a_run_queue(guest: Guest) -> None:
    check_run_queue(guest, least_told=0.99)  # arm64 reports the instruction itself


def test_the_members_of_a_futex_bucket(guest: Guest) -> None:
    line = show_watched(guest.directory / "bucket.lockline")
    assert line["line"]["type"] == "futex_hash_bucket"
    # The kernel's hash of the address gives what a kprobe saw.
    ((address,),) = guest.rows("bucket.lockline", "SELECT address FROM memory_line")
    assert address & (1 << 64) - 1 == int(guest.text("bucket"), 16)
    # Its lock is known by its waits: where CPUs take turns there may be none, while others wait for other locks.
    of_lock = f"SELECT count(*) FROM lock_total JOIN lock ON lock.id = lock WHERE address = {address + 4}"
    ((waits,),) = guest.rows("bucket.lockline", of_lock)
    named = [("futex_hash_bucket.lock", 4)] if waits else []
    assert [(lock["name"], lock["offset"]) for lock in line["locks"]] == named
    offsets = {part["offset"]: part for part in line["offsets"]}
    assert {at: offsets[at]["member"] for at in BUCKET_MEMBERS} == BUCKET_MEMBERS
    functions = {part["member"]: {code["symbol"] for code in part["instructions"]} for part in offsets.values()}
    assert {"futex_q_lock", "futex_q_unlock", "futex_wake"} <= functions["waiters"]
    # The lock's operations are inlined.
    assert {"futex_q_lock", "futex_q_unlock", "futex_wake"} <= functions["lock"]
    assert {"futex_wake", "plist_add"} <= functions["chain.next"]
    assert "plist_del" in functions["chain.prev"]
    assert offsets[4]["writes"] > 2 * (2 * ROUNDS + ROUNDS // 8)
    assert offsets[0]["transfers"] > 0
    assert offsets[0]["cpus"] == offsets[4]["cpus"] == [0, 1]


def test_the_kernel_has_no_complaint(guest: Guest) -> None:
    assert "WARNING:" not in guest.text("dmesg")
    assert "BUG:" not in guest.text("dmesg")


@pytest.mark.parametrize("section", chosen(WATCHED_ON_6_1), ids=kernel_of)
def test_transfers_on_6_1(results: Callable[[Section], Guest], section: Section) -> None:
    """Its stable series has what lets a program be behind a watchpoint since 6.6 (d11a69873d9a)."""
    guest = results(section)
    check_transfers(guest)
    assert "WARNING:" not in guest.text("dmesg")
    assert "BUG:" not in guest.text("dmesg")


@pytest.mark.parametrize("section", chosen(WITHOUT_LSE), ids=kernel_of)
def test_refused_without_atomic_instructions(results: Callable[[Section], Guest], section: Section) -> None:
    guest = results(section)
    assert guest.text("statuses").split() == ["1", "1"]
    assert guest.text("output") == ""
    messages = guest.text("messages").splitlines()
    assert len(messages) == 2, messages
    assert all("no atomic instructions (LSE)" in message for message in messages), messages
    # Nobody hangs, and nothing is left.
    assert json.loads(guest.text("told"))["writes"] == COUNT
    assert "lockline-collect" not in guest.text("processes")
    assert "refused.lockline" not in guest.text("files").split()
    assert guest.text("programs") == guest.text("events") == ""
    assert "WARNING:" not in guest.text("dmesg")
    assert "BUG:" not in guest.text("dmesg")
