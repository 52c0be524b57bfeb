# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots of guests: each runs all that is asked of one kernel in one mode, and what it brings is kept.

A boot is a kernel and how the emulator runs it; a section is one script that runs in such a boot.  What a section
left is kept in build/guests, under a hash of all that decides what it leaves: the kernel, the emulator and its options,
the programs in the guest and the script.  Only sections that ended well are kept.  LOCKLINE_BOOT=1 boots all the same.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

from guest import Guest

TOP = Path(__file__).resolve().parent.parent.parent
VM = TOP / "scripts" / "vm"
KEPT = TOP / "build" / "guests"
IN_TURNS = "tcg,thread=single"
# Of the kernel's log: a breakpoint at an address where no probe is, or a call whose target was not written yet, which
# goes to 0 (Boots._boot).
STALE_CODE = re.compile(r"Oops: int3|int3: 0000 \[#1\]|RIP: 0010:0x0\b")
STOOD_STILL = "stood still"
BUSY = "busy"  # a file of scripts/vm


@cache
def vm() -> Any:
    """scripts/vm as a module."""
    loader = SourceFileLoader("lockline_vm", str(VM))
    spec = spec_from_loader(loader.name, loader)
    assert spec
    module = module_from_spec(spec)
    sys.modules[loader.name] = module
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = writes
    return module


@cache
def have_kvm() -> bool:
    """Whether this machine runs guests of its own architecture by KVM."""
    return bool(vm().have_kvm(vm().X86))


@dataclass(frozen=True)
class Boot:
    """A kernel of scripts/kernels, and how the emulator runs it."""

    kernel: str
    cpus: int = 2
    possible: int = 0
    cpu: str = ""
    append: str = ""
    turns: bool = False  # emulated CPUs take turns on one thread
    threads: str = ""  # single, multi: for certain, with or without KVM
    # Of a plugin of the emulator: its file, and its options; {out} there is the directory of the boot.
    plugin: Path | None = None
    plugin_options: str = ""
    label: str = ""  # for a mode that the rest does not tell of

    def __str__(self) -> str:
        parts = [self.kernel, self.label, "turns" if self.turns else "", f"{self.cpus}cpus"]
        return "-".join(part for part in parts if part)

    @property
    def arm64(self) -> bool:
        """Whether it is not of x86-64."""
        return self.kernel.endswith("-arm64")

    @property
    def accel(self) -> str:
        """Of scripts/vm; empty: its own choice."""
        if self.threads:
            return f"tcg,thread={self.threads}"
        return IN_TURNS if self.turns and (self.arm64 or not have_kvm()) else ""

    def options(self, out: str) -> list[str]:
        """Of scripts/vm."""
        words = ["--kernel", self.kernel, "--cpus", str(self.cpus), "--append", self.append]
        words += ["--possible", str(self.possible)] if self.possible else []
        words += ["--cpu", self.cpu] if self.cpu else []
        words += ["--accel", self.accel] if self.accel else []
        if self.plugin:
            words += ["--qemu=-plugin", f"--qemu={self.plugin},{self.plugin_options.replace('{out}', out)}"]
        return words


@dataclass(frozen=True)
class Section:
    """A script that runs in a boot; what it leaves in its directory is judged outside."""

    boot: Boot
    name: str
    script: str
    programs: tuple[str, ...] = ()  # more than every guest has, by name or path; config: the kernel's
    order: int = 0  # in its boot: what leaves the guest changed goes last
    seconds: int = 900  # until it is killed: a busy machine may take ten times as long as a quiet one
    may_fail: bool = False  # how it ends is for its tests to judge

    def __str__(self) -> str:
        return f"{self.boot}:{self.name}"


@dataclass
class Run:
    """One boot, for the closing words."""

    name: str
    seconds: float
    busy_seconds: float  # of the emulator, on any processor
    sections: dict[str, tuple[float, float]]  # seconds in the guest, and of the emulator's processor time
    again: str = ""  # why it was needed once more


class UnavailableError(Exception):
    """A guest cannot be had on this machine; the message is the reason."""


class FailedError(Exception):
    """A guest or a section of it failed; the message is what is known of it."""


@cache
def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def kernel_directory(name: str) -> Path:
    """Where a kernel of scripts/kernels is; UnavailableError with the reason if it cannot be fetched."""
    try:
        found: Path = vm().kernel_directory(name)
    except vm().VmError as error:
        raise UnavailableError(f"kernel {name} cannot be had: {error}") from error
    return found


def found_program(name: str) -> Path:
    """A program of this machine."""
    path = shutil.which(name)
    if not path:
        raise UnavailableError(f"{name} is not installed: scripts/setup kernels")
    return Path(path)


def run_vm(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run scripts/vm."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def busy_seconds(directory: Path) -> float:
    """What the emulator used of the processor for a boot or a section; 0 where it was given up."""
    told = directory / BUSY
    return float(told.read_text()) if told.exists() else 0.0


def in_order(sections: Iterable[Section]) -> list[Section]:
    """As they run in their boot."""
    return sorted(sections, key=lambda one: (one.order, one.name))


@dataclass
class Boots:
    """What was asked of guests, and what they brought."""

    programs: Callable[[Boot], list[Path]]  # that every guest has
    courier: Callable[[Boot], Path]  # that brings what they leave
    at_once: int = 1
    say: Callable[[str], None] = print
    wanted: list[Section] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    kept: int = 0
    _found: dict[Section, Path | Exception] = field(default_factory=dict)

    def want(self, sections: Iterable[Section]) -> None:
        """Sections that will be asked for: their boots run them along with what is asked for first."""
        self.wanted += [one for one in dict.fromkeys(sections) if one not in self.wanted]

    def bring(self) -> None:
        """Boot all that is wanted and not kept."""
        missing = [one for one in self.wanted if one not in self._found]
        if missing:
            boots: dict[Boot, list[Section]] = {}
            for one in missing:
                boots.setdefault(one.boot, []).append(one)
            # Those with most to do first, so that at the end no long one runs alone.
            ordered = sorted(boots.items(), key=lambda item: -len(item[1]))
            with ThreadPoolExecutor(self.at_once) as pool:
                list(pool.map(self._bring, *zip(*ordered, strict=True)))

    def result(self, section: Section) -> Guest:
        """What a section left."""
        self.want([section])
        self.bring()
        found = self._found[section]
        if isinstance(found, Exception):
            raise found
        return Guest(found)

    def _programs(self, sections: Sequence[Section]) -> list[Path]:
        boot = sections[0].boot
        named = dict.fromkeys(name for one in in_order(sections) for name in one.programs)
        common = self.programs(boot)  # makes the others, too
        own = [kernel_directory(boot.kernel) / name if name == "config" else found_program(name) for name in named]
        return [*common, *own]

    def place(self, section: Section) -> Path:
        """Where the results of a section are kept."""
        boot = section.boot
        directory = kernel_directory(boot.kernel)
        qemu = vm().machine_of(directory).qemu
        hashed = hashlib.sha256()

        def add(*words: object) -> None:
            hashed.update(json.dumps([str(word) for word in words]).encode() + b"\n")

        add(*boot.options("{out}"), section.script, section.seconds)
        files = [VM, directory / "vmlinuz", found_program(qemu), *([boot.plugin] if boot.plugin else [])]
        files += [file for one in self._programs([section]) for _, file in vm().with_libraries(one)]
        busybox = directory / "busybox"
        files.append(busybox if busybox.exists() else found_program("busybox"))
        add(*(f"{path.name} {_digest(path)}" for path in files))
        return KEPT / f"{boot}.{section.name}.{hashed.hexdigest()[:16]}"

    def _bring(self, boot: Boot, sections: list[Section]) -> None:
        places: dict[Section, Path] = {}
        for one in sections:
            try:
                place = places[one] = self.place(one)
            except (UnavailableError, FailedError) as error:
                self._found[one] = error
                continue
            if place.exists() and not os.environ.get("LOCKLINE_BOOT"):
                self._found[one] = place
                self.kept += 1
        missing = [one for one in in_order(sections) if one not in self._found]
        if missing:
            self._boot(boot, missing, places)

    def _boot(self, boot: Boot, sections: list[Section], places: dict[Section, Path]) -> None:
        """Boot until all sections have had their turn.

        Probes patch running code.  With a thread per CPU qemu 7.2 can run what it translated from the patch's
        intermediate state, long after the kernel is done with it: the guest dies of a breakpoint that nobody set,
        jumps to 0, or (6.1) tries it for ever and stands still (docs/kernels.md).  The sections that are missing
        then are run once more with CPUs that take turns, which cannot do that: what happens then too is the
        kernel's, or ours.
        """
        again = ""
        failure = self._run(boot, sections, places, again)
        missing = [one for one in sections if one not in self._found]
        if missing and (STALE_CODE.search(failure) or STOOD_STILL in failure) and boot.accel != IN_TURNS:
            again = "ran stale code" if STALE_CODE.search(failure) else "stood still"
            names = ", ".join(one.name for one in missing)
            warnings.warn(f"{boot}: the emulated guest {again}; booted again, CPUs in turns, for {names}", stacklevel=2)
            failure = self._run(replace(boot, turns=True, threads=""), missing, places, again)
            missing = [one for one in missing if one not in self._found]
        self._found.update((one, FailedError(failure)) for one in missing)

    def _run(self, boot: Boot, sections: list[Section], places: dict[Section, Path], again: str) -> str:
        """Boot once; keep what came.  What is known of the failure if not all came."""
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT, prefix=".boot-") as scratch:
            out = Path(scratch) / "out"
            out.mkdir()
            command = [str(VM), *boot.options(str(out)), "--timeout", "0", "--get", str(out)]
            command += ["--courier", str(self.courier(boot))]
            for number, one in enumerate(sections):
                script = Path(scratch) / f"{number}.sh"
                script.write_text(one.script)
                command += ["--section", f"{one.name}:{one.seconds}:{script}"]
            command += [word for path in self._programs(sections) for word in ("--add", str(path))]
            begin = time.monotonic()
            done = run_vm(command)
            seconds = time.monotonic() - begin
            files = [path for path in out.iterdir() if path.is_file()]  # of the boot: its console, a plugin's
            busy = busy_seconds(out)
            run = Run(str(boot), seconds, busy, {}, again)
            for one in sections:
                directory = out / one.name
                if not (directory / "uptime").exists():
                    continue
                begin, end = map(float, (directory / "uptime").read_text().split())
                run.sections[one.name] = (end - begin, busy_seconds(directory))
                for path in files:
                    if path.name != BUSY:
                        shutil.copy(path, directory / path.name)
                self._keep(one, directory, places[one])
            self.runs.append(run)
            self.say(
                f"{boot}: {seconds:.0f} s, busy for {busy:.0f} s" + (f" (booted again: it {again})" if again else "")
            )
            console = out / "console"
            text = console.read_text(errors="replace") if console.exists() else ""
            if len(run.sections) < len(sections):
                self.say(f"{boot}: {done.stderr.strip() or f'exit {done.returncode}'}; {text.strip()[-400:]}")
            return "\n".join([f"{boot}: exit {done.returncode}: {done.stderr}", text])[-6000:]

    def _keep(self, section: Section, directory: Path, place: Path) -> None:
        status = int((directory / "status").read_text())
        if status and not section.may_fail:
            told = (directory / "stderr").read_text(errors="replace")
            killed = directory / "killed"
            why = f"killed after {killed.read_text().strip()} s" if killed.exists() else f"exit {status}"
            console = (directory / "console").read_text(errors="replace")
            place = place.with_suffix(".failed")  # for who looks into it; it is never taken for a result
            self._found[section] = FailedError(f"{section}: {why}; see {place}\n{told[-3000:]}\n{console[-3000:]}")
        shutil.rmtree(place, ignore_errors=True)
        for old in place.parent.glob(f"{place.name.rpartition('.')[0]}.*"):
            shutil.rmtree(old)
        directory.rename(place)
        self._found.setdefault(section, place)
