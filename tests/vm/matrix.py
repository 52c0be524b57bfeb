# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels that guests boot, in which lock mode, and what runs in every one of them.

KERNELS="trixie bookworm-rt" in the environment selects by the names of scripts/kernels.
"""

import os
import shlex
from dataclasses import dataclass

import pytest
from boots import Boot, Section, have_kvm

# In a guest whose hypervisor offers no paravirtual locks a kernel uses test-and-set ones; without
# the hypervisor's mark it takes itself to be on bare metal.  arm64 has the one kind.
NATIVE, TEST_AND_SET, PARAVIRT = "native", "test-and-set", "paravirt"
CPU = {NATIVE: "max,-hypervisor", TEST_AND_SET: "max,kvm=off", PARAVIRT: "host"}

# One after the other, so that each has its own figure.
LOADS = {
    "futex": "stress-ng --futex 4 --pipe 2 --quiet --timeout {seconds}",
    "dentry": "stress-ng --dentry 2 --mmap 2 --mmap-bytes 16M --quiet --timeout {seconds}",
    "ptrace": "stress-ng --ptrace 2 --fork 2 --quiet --timeout {seconds}",
    "futex word": "timeout {seconds} lock_load futex 4",
}
STATIC_LOADS = {  # stress-ng is of this machine's architecture
    "futex word": "timeout {seconds} lock_load futex 4",
    "directory": "timeout {seconds} lock_load directory 4",
    "fork": "timeout {seconds} lock_load fork 4",
}
SECONDS = 3

# Guests have no PMU with memory events: the program that takes their samples runs by a clock's, which it finds empty.
CLOCK_SAMPLES = "--hitm --hitm-event software/config=0/"

# BPF statistics on for good: switching them patches code that every unlock runs through where unlocks are probed, and
# with a thread for each CPU the emulator may run what it translated from the middle of a patch (boots.py).
STATISTICS_ON = "echo 1 > /proc/sys/kernel/bpf_stats_enabled"

# Locks held for a known time, of which a wait passes no tracepoint on some kernels.  Above the threshold of
# outliers, so that each wait is kept.
HOLDS = 50
HOLD_US = 2000
HELD_LOCKS = ("inode-rwsem", "percpu-rwsem")
# Held likewise, for its name: on a busy machine no load may have to wait for it.
NAMED_LOCK = "futex-bucket"


@dataclass(frozen=True)
class Case:
    """A kernel, what it is booted with, and what lockline must find there."""

    kernel: str
    release: str
    spinlocks: str = NATIVE
    cpus: int = 2
    append: str = "tsc=reliable"
    clock: str = "precise"
    source: str = "fentry"  # of the waits that pass no tracepoint
    variables: bool = True  # in its symbol table: CONFIG_KALLSYMS_ALL

    def __str__(self) -> str:
        parts = [self.kernel, self.spinlocks, f"{self.cpus}cpus"]
        return "-".join(parts if self.clock == "precise" else [*parts, self.clock])

    @property
    def arm64(self) -> bool:
        """Whether it is not of x86-64."""
        return self.kernel.endswith("arm64")

    @property
    def realtime(self) -> bool:
        """Whether spinlock_t is an rt-mutex."""
        return self.kernel.endswith("-rt")

    @property
    def spinlock_mode(self) -> str:
        """In the doctor's words."""
        return (
            "native (raw spinlocks; spinlock_t is an rt-mutex)"
            if self.realtime and self.spinlocks == NATIVE
            else self.spinlocks
        )

    @property
    def sections(self) -> tuple[Section, ...]:
        """What runs there; nothing where it cannot."""
        if self.spinlocks == PARAVIRT and not have_kvm():
            return ()
        return (Section(boot(self.kernel, self.spinlocks, self.cpus, self.append), "matrix", guest_command(self)),)

    @property
    def loads(self) -> dict[str, str]:
        """The commands of each load."""
        loads = STATIC_LOADS if self.arm64 else LOADS
        return {name: command.format(seconds=SECONDS) for name, command in loads.items()}


CASES = (
    Case("bookworm", "6.1."),
    Case("bookworm", "6.1.", TEST_AND_SET, append="tsc=unstable clocksource=hpet", clock="coarse"),
    Case("bookworm-rt", "6.1."),
    Case("bookworm-arm64", "6.1.", source="kprobe", variables=False),
    Case("trixie", "6.12."),
    Case("trixie", "6.12.", cpus=4),
    Case("trixie", "6.12.", TEST_AND_SET),
    Case("trixie", "6.12.", PARAVIRT, source="tp_btf contention_begin"),
    Case("trixie-rt", "6.12."),
    Case("trixie-arm64", "6.12."),
    Case("sid", "7."),
    Case("trixie-backports", "7."),
    Case("trixie-backports", "7.", TEST_AND_SET),
    Case("trixie-backports-rt", "7."),
)


def boot(
    kernel: str, spinlocks: str = NATIVE, cpus: int = 2, append: str = "tsc=reliable", turns: bool = False
) -> Boot:
    """A boot of a kernel in one lock mode.

    turns: where every unlock is probed, emulated CPUs take turns: none runs code while it is patched (boots.py).
    """
    if kernel.endswith("-arm64"):
        return Boot(kernel, cpus, turns=turns)
    label = spinlocks if append == "tsc=reliable" else f"{spinlocks}-{append.rpartition('=')[2]}"
    return Boot(kernel, cpus, cpu=CPU[spinlocks], append=append, turns=turns, label=label)


def chosen(*sections: Section) -> list[Section]:
    """Those whose kernels KERNELS asks for."""
    return [one for one in sections if selected(one.boot.kernel)]


def kernel_of(section: Section) -> str:
    """For the names of tests."""
    return section.boot.kernel


def selected(kernel: str) -> bool:
    """Whether KERNELS asks for it, or for none."""
    names = os.environ.get("KERNELS", "").split()
    unknown = set(names) - {"bullseye", "bookworm-rt-arm64", *(case.kernel for case in CASES)}
    if unknown:
        raise pytest.UsageError(f"KERNELS: no kernel named {', '.join(sorted(unknown))} in tests/vm/matrix.py")
    return not names or kernel in names


def guest_command(case: Case) -> str:
    """What runs in a guest: doctor, then a recording of the loads between two counters of slow path entries.

    Leaves doctor.json, run.lockline, one JSON line of the counters per reading in `outer` (from before
    the recording to after it) and `inner` (while it lasts; one reading after each load, and one after all), and what
    held_lock says of its holds in a file of each mode.
    """
    commands = case.loads | {
        mode: f"held_lock {mode} --hold-us {HOLD_US} --count {HOLDS} > {mode}" for mode in (*HELD_LOCKS, NAMED_LOCK)
    }
    rounds = "\n".join(f"echo {name} > /dev/console\n{command}\necho read >&3" for name, command in commands.items())
    inner = f"""
mkfifo /tmp/inner
slow_path_counter < /tmp/inner > inner &
exec 3> /tmp/inner
until grep -q ready inner || ! kill -0 $!; do sleep 0.1; done
{rounds}
exec 3>&-
wait
"""
    return f"""
say() {{ echo "$*" > /dev/console; }}  # where a guest that does not end has got to
lockline-collect doctor {CLOCK_SAMPLES} > doctor.json || exit
say doctor done
mkfifo /tmp/outer
slow_path_counter < /tmp/outer > outer &
exec 4> /tmp/outer
until grep -q ready outer || ! kill -0 $!; do sleep 0.1; done
say outer counter attached
lockline-collect record -a {CLOCK_SAMPLES} --hitm-rate 10 -o run.lockline -- sh -c {shlex.quote(inner)}
status=$?
say recorded: $status
exec 4>&-
wait
exit $status
"""
