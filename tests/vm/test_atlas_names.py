# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of the atlas are in the kernels that it says, and in their modules; nothing is booted."""

import importlib.machinery
import importlib.util
import lzma
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from kallsyms import symbols_of

from lockline.atlas import atlas

TOP = Path(__file__).resolve().parents[2]
# The kernel that scripts/kernels fetches for each one of the atlas.
KERNELS = {"6.1": "bookworm", "6.12": "trixie", "7.3": "sid"}
UNPACKERS = {b"\xfd7zXZ\0": ("xz", "-dc"), b"(\xb5/\xfd": ("zstd", "-dcq"), b"\x02!L\x18": ("lz4", "-dc")}


def fetcher() -> ModuleType:
    """scripts/kernels, which has no suffix."""
    loader = importlib.machinery.SourceFileLoader("kernels", str(TOP / "scripts" / "kernels"))
    spec = importlib.util.spec_from_loader("kernels", loader)
    assert spec is not None
    sys.modules["kernels"] = module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def unpacked(data: bytes) -> bytes:
    """The program that is packed in a file, behind whatever stands before it."""
    if data.startswith(b"\x7fELF"):
        return data
    for magic, command in UNPACKERS.items():
        begin = data.find(magic)
        while begin >= 0:
            # Unpackers complain about what follows.
            out = subprocess.run(command, input=data[begin:], capture_output=True, check=False).stdout
            if out.startswith(b"\x7fELF"):
                return out
            begin = data.find(magic, begin + 1)
    raise AssertionError("no program is packed in it")


class Types:
    """Structures of BTF: in which of them, and of which type, each member is."""

    def __init__(self) -> None:
        self.members: dict[str, list[tuple[str, str]]] = {}
        self.behind: dict[str, str] = {}
        self.named: dict[str, list[str]] = {}

    def read(self, text: str) -> None:
        """What bpftool prints."""
        current = "0"
        for line in text.splitlines():
            if head := re.match(r"\[(\d+)\] (\w+) '([^']*)'(?:.*? type_id=(\d+))?", line):
                current = head[1]
                self.named.setdefault(head[3], []).append(current)
                if head[2] in ("STRUCT", "UNION"):
                    self.members[current] = []
                elif head[4]:
                    self.behind[current] = head[4]
            elif (member := re.match(r"\t'([^']*)' type_id=(\d+) bits_offset=", line)) and current in self.members:
                self.members[current].append((member[1], member[2]))

    def _find(self, where: str, name: str) -> Iterator[str]:
        while where not in self.members and where in self.behind:
            where = self.behind[where]
        for member, of in self.members.get(where, []):
            if member == name:
                yield of
            elif member == "(anon)":
                yield from self._find(of, name)

    def has(self, name: str) -> bool:
        """Whether it is TYPE.MEMBER, or a member of that."""
        first, *rest = name.split(".")
        found = self.named.get(first, [])
        for member in rest:
            found = [of for where in found for of in self._find(where, member)]
        return bool(rest and found)


def types_of(path: Path, base: Path | None = None) -> str:
    """Its BTF as text; base: of a module, the kernel's image."""
    command = ["bpftool", *(["--base-btf", str(base)] if base else []), "btf", "dump", "file", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# Members of variables, whose types are no structures of their own.
OF_VARIABLES = ("audit_queue.lock", "audit_backlog_wait.lock", "input_pool.lock", "base_crng.lock")
# Of a module that no entry of the atlas belongs to.
OF_MODULES = ("bfq_data.lock",)


def image_of(kernel: str, directory: Path) -> tuple[Path, bytes]:
    """The kernel's unpacked image, as a file and as bytes."""
    kernels = fetcher()
    (fetched,) = [one for one in kernels.KERNELS if one.name == KERNELS[kernel]]
    image = directory / "vmlinux"
    data = unpacked((kernels.fetch(fetched) / "vmlinuz").read_bytes())
    image.write_bytes(data)
    return image, data


def names_of(kernel: str, module: bool) -> list[tuple[str, str]]:
    """Names that the atlas says this kernel has, each with its module; of modules, or built in."""
    return [
        (name, lock.module)
        for lock in atlas().locks
        for name in lock.names
        if bool(lock.module) is module and kernel in lock.only_in.get(name, atlas().kernels)
    ]


@pytest.mark.parametrize("kernel", atlas().kernels)
def test_variables_are_in_the_kernel(kernel: str, tmp_path: Path) -> None:
    """By the table of symbols that the kernel itself has, of which BTF has no variables."""
    _, data = image_of(kernel, tmp_path)
    symbols = symbols_of(data)
    names = [name for name, _ in names_of(kernel, module=False)]
    variables = [name for name in names if "." not in name]
    variables += [name.partition(".")[0] for name in names if name in OF_VARIABLES]
    assert len(variables) > 50
    assert [name for name in variables if name not in symbols] == []
    assert "no_such_mutex" not in symbols


@pytest.mark.parametrize("kernel", atlas().kernels)
def test_names_of_modules_are_in_them(kernel: str, tmp_path: Path) -> None:
    """Types of modules by their own BTF, variables by their own symbols; some kernels have a module built in."""
    image, data = image_of(kernel, tmp_path)
    kernels = fetcher()
    (fetched,) = [one for one in kernels.KERNELS if one.name == KERNELS[kernel]]
    base = types_of(image)
    symbols = symbols_of(data)
    missing = {name for name, _ in names_of(kernel, module=True)}
    assert len(missing) > 30
    for packed in sorted(kernels.fetch_modules(fetched).iterdir()):
        file = tmp_path / packed.name.removesuffix(".xz")
        file.write_bytes(lzma.decompress(packed.read_bytes()) if packed.suffix == ".xz" else packed.read_bytes())
        types = Types()
        types.read(base)
        types.read(types_of(file, image))
        own = subprocess.run(["nm", str(file)], capture_output=True, text=True, check=True).stdout
        known = symbols | set(own.split())
        missing -= {name for name in missing if (types.has(name) if "." in name else name in known)}
        assert not types.has("no_such_type.lock")
    assert missing == set()


@pytest.mark.parametrize("kernel", atlas().kernels)
def test_members_and_functions_are_in_the_kernel(kernel: str, tmp_path: Path) -> None:
    """Members of built-in types, and functions, by BTF."""
    image, _ = image_of(kernel, tmp_path)
    types = Types()
    types.read(types_of(image))
    names = [name for name, _ in names_of(kernel, module=False)]
    members = [name for name in names if "." in name and name not in OF_VARIABLES + OF_MODULES]
    assert len(members) > 100
    assert [name for name in members if not types.has(name)] == []
    functions = [name for name in names if name.startswith("folio_lruvec_lock")]
    assert functions
    assert [name for name in functions if name not in types.named] == []
    assert not types.has("mm_struct.no_such_member")
    assert not types.has("no_such_type.lock")
