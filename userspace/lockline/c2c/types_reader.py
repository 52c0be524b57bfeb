# SPDX-License-Identifier: GPL-2.0-or-later
"""Gets types from `lockline-collect types`: of a file, of the recording, or of the running kernel if it is the same."""

import os
from collections.abc import Sequence

from lockline.base.collector import ask_collector, find_collector
from lockline.base.errors import LocklineError
from lockline.base.files import is_regular
from lockline.base.values import dataclass
from lockline.c2c.members import NO_TYPES, ReadTypes, Types, parse_types
from lockline.recording.conditions import equal
from lockline.recording.memory_rows import Btf
from lockline.recording.reader import Recording

# The kernel takes no longer argument than 128 KiB.
MAX_ARGUMENT = 120_000
MAX_BTF_BYTES = 256 << 20
RUNNING_KERNEL = "/sys/kernel/btf/vmlinux"


@dataclass(frozen=True, slots=True)
class TypeSource:
    """Where types are from: a file, BTF of a recording, or the running kernel; none of them: none."""

    file: str | None = None
    stored: bytes | None = None
    running: bool = False
    foreign: str = ""
    note: str = ""

    def reader(self) -> ReadTypes | None:
        """What reads them; None if there are none."""
        if self.file is not None or self.running:
            return lambda *names: _read(self.file, self.foreign, *names)
        if self.stored is not None:
            return self._read_stored
        return None

    def _read_stored(self, functions: Sequence[str], structs: Sequence[str], variables: Sequence[str]) -> Types:
        import tempfile

        assert self.stored is not None
        with tempfile.NamedTemporaryFile(prefix="lockline-btf-") as file:
            file.write(self.stored)
            file.flush()
            return _read(file.name, self.foreign, functions, structs, variables)


def stored_btf(recording: Recording) -> bytes | None:
    """The kernel's BTF that a recording holds, or None.  Raises LocklineError if it is damaged."""
    for row in recording.table(Btf, equal("name", "vmlinux")):
        if not 0 < row.size <= MAX_BTF_BYTES:
            raise LocklineError(f"{recording.path}: the recording is damaged: BTF of {row.size} bytes")
        import zlib

        unpack = zlib.decompressobj()
        try:
            data = unpack.decompress(row.data, row.size)
        except zlib.error as error:
            raise LocklineError(f"{recording.path}: the recording is damaged: BTF: {error}") from error
        if len(data) != row.size:
            raise LocklineError(f"{recording.path}: the recording is damaged: BTF is cut off")
        return data
    return None


def find_types(recordings: Sequence[Recording], file: str | None) -> TypeSource:
    """The types of the kernel that the first of the recordings is of, best source first.

    The running kernel's are its own if it has the same release and architecture.  Else they are marked as foreign:
    structures differ between kernels.
    """
    if file is not None:
        return TypeSource(file=file)
    try:
        find_collector()
    except LocklineError as error:
        return TypeSource(note=f"members have no names: {error}")
    facts = [recording.meta() for recording in recordings]
    releases = [str(fact["kernel_release"]) for fact in facts if fact.get("kernel_release")]
    for recording, fact in zip(recordings, facts, strict=True):
        other = bool(releases) and fact.get("kernel_release") not in (None, releases[0])
        if not other and (stored := stored_btf(recording)) is not None:
            return TypeSource(stored=stored)
    architectures = {str(fact["architecture"]) for fact in facts if fact.get("architecture")}
    same = os.uname().release in releases[:1] and architectures <= {os.uname().machine}
    if same and is_regular(RUNNING_KERNEL):
        return TypeSource(running=True)
    kernel = f"kernel {releases[0]}" if releases else "recorded kernel"
    if is_regular(RUNNING_KERNEL) and architectures <= {os.uname().machine}:
        foreign = f"by types of the running kernel {os.uname().release}, not of the {kernel}"
        note = f"types of the {kernel} are not here: only objects of known locks have members, {foreign}; see --btf"
        return TypeSource(running=True, foreign=foreign, note=note)
    return TypeSource(note=f"members have no names: types of the {kernel} are not here; give them with --btf FILE")


def _joined(names: Sequence[str]) -> str:
    kept: list[str] = []
    size = 0
    for name in names:
        # Names come from files: what is no name is not asked for.
        if not name or not name.isascii() or not name.isprintable() or "," in name or len(name) > 512:
            continue
        size += len(name) + 1
        if size > MAX_ARGUMENT:
            break
        kept.append(name)
    return ",".join(kept)


def _read(
    file: str | None, foreign: str, functions: Sequence[str], structs: Sequence[str], variables: Sequence[str]
) -> Types:
    arguments = ["types"]
    if file is not None:
        arguments += ["--btf", os.fspath(file)]
    return _ask(arguments, foreign, functions, structs, variables)


def read_program(program: str, functions: Sequence[str], structs: Sequence[str], variables: Sequence[str]) -> Types:
    """Types of a program, from its debug information; none if it has none."""
    try:
        return _ask(["types", "--program", program], "", functions, structs, variables)
    except LocklineError:
        return NO_TYPES


def _ask(
    arguments: list[str], foreign: str, functions: Sequence[str], structs: Sequence[str], variables: Sequence[str]
) -> Types:
    fixed = len(arguments)
    for option, names in (("--function", functions), ("--struct", structs), ("--variable", variables)):
        joined = _joined(names)
        if joined:
            arguments += [f"{option}={joined}"]
    if len(arguments) == fixed:
        return NO_TYPES
    return parse_types(ask_collector(arguments)[0], foreign)
