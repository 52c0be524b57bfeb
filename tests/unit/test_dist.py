# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make dist` makes, from a small program in place of the collector.  `make test-dist` installs the real ones."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
VERSION = (TOP / "VERSION").read_text().strip()
FOLDERS = ("base", "cli", "recording", "render")


def make(directory: Path, stage: Path) -> Path:
    out = directory / "dist"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "COMMIT": "0123456789ab"}
    command = [TOP / "scripts" / "make-dist", "--out", out, stage, stage / "usr" / "bin" / "lockline-collect"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make install PREFIX=/usr` leaves it."""
    stage = tmp_path_factory.mktemp("stage")
    package = stage / "usr" / "lib" / "lockline" / "lockline"
    # Of the folders those that --version takes, and one with files of other kinds: to pack all twice takes seconds.
    left_out = {path.name for path in (TOP / "userspace" / "lockline").iterdir() if path.is_dir()} - set(FOLDERS)
    shutil.copytree(TOP / "userspace" / "lockline", package, ignore=shutil.ignore_patterns("__pycache__", *left_out))
    shutil.copy(TOP / "VERSION", package / "VERSION")
    programs = stage / "usr" / "bin"
    programs.mkdir()
    shutil.copy(TOP / "scripts" / "lockline-launcher", programs / "lockline")
    shutil.copy("/bin/true", programs / "lockline-collect")
    manual = stage / "usr" / "share" / "man" / "man1"
    manual.mkdir(parents=True)
    shutil.copy(TOP / "docs" / "lockline.1", manual)
    return stage


@pytest.fixture(scope="module")
def dist(stage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("first"), stage)


def wheel_of(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.mark.laboratory
def test_twice_the_same_bytes(stage: Path, dist: Path, tmp_path: Path) -> None:
    for path in stage.rglob("*"):
        os.utime(path, (1, 1))
    again = make(tmp_path, stage)
    assert sorted(path.name for path in again.iterdir()) == sorted(path.name for path in dist.iterdir())
    assert [path.name for path in again.iterdir() if path.read_bytes() != (dist / path.name).read_bytes()] == []


def test_checksums(dist: Path) -> None:
    lines = [line.split("  ") for line in (dist / "SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in lines} == {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    for digest, name in lines:
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest


def test_wheel(dist: Path) -> None:
    with zipfile.ZipFile(wheel_of(dist)) as wheel:
        record = wheel.read(f"lockline-{VERSION}.dist-info/RECORD").decode().splitlines()
        rows = {name: (digest, size) for name, digest, size in (line.split(",") for line in record)}
        assert set(rows) == set(wheel.namelist())
        for name, (digest, size) in rows.items():
            if digest:
                data = wheel.read(name)
                made = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, int(size)) == (f"sha256={made}", len(data))
        collector = wheel.getinfo(f"lockline-{VERSION}.data/scripts/lockline-collect")
        assert collector.external_attr >> 16 & 0o111
        metadata = wheel.read(f"lockline-{VERSION}.dist-info/METADATA").decode()
    assert f"\nVersion: {VERSION}\n" in metadata
    assert "\nProvides-Extra: exporter\n" in metadata
    assert "Provides-Extra: dev" not in metadata
    assert "lockline/recording/recording.sql" in rows
    assert "lockline/COMMIT" in rows


def test_the_tarball_runs_where_it_is_unpacked(dist: Path, tmp_path: Path) -> None:
    (tarball,) = dist.glob("*.tar.gz")
    with tarfile.open(tarball) as tar:
        assert {(entry.uid, entry.gid, entry.mtime) for entry in tar} == {(0, 0, 1700000000)}
        tar.extractall(tmp_path)
    program = tmp_path / f"lockline-{VERSION}" / "bin" / "lockline"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"lockline {VERSION}\ncommit     0123456789ab\n")
    assert f"collector  {program.parent}/lockline-collect" in done.stdout


def test_debian_package(dist: Path) -> None:
    (deb,) = dist.glob("*.deb")
    listing = subprocess.run(["dpkg-deb", "--contents", deb], capture_output=True, text=True, check=True).stdout
    entries = [line.split() for line in listing.splitlines()]
    assert {entry[1] for entry in entries} == {"root/root"}
    modes = {entry[5]: entry[0] for entry in entries}
    assert modes["./usr/bin/lockline-collect"] == "-rwxr-xr-x"
    assert modes["./usr/lib/systemd/system/lockline.service"] == "-rw-r--r--"
    assert modes["./usr/share/man/man1/lockline.1.gz"] == "-rw-r--r--"
    assert not [name for name in modes if name.startswith("./etc")]
    asked = subprocess.run(["dpkg-deb", "--field", deb, "Version"], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == VERSION


def test_sbom(dist: Path) -> None:
    (path,) = dist.glob("*.cdx.json")
    sbom = json.loads(path.read_text())
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.5")
    assert sbom["metadata"]["component"]["version"] == VERSION
    names = {component["name"] for component in sbom["components"]}
    # What the Makefile links, by the names of its libraries.
    words = (TOP / "Makefile").read_text().partition("COLLECTOR_LIBS := ")[2].partition("\n")[0].split()
    libraries = {"-lbpf": "libbpf", "-ldw": "elfutils-libdw", "-lelf": "elfutils-libelf", "-lsqlite3": "sqlite"}
    libraries |= {"-lz": "zlib", "-llzma": "xz", "-lbz2": "bzip2", "-lzstd": "zstd", "-lcapstone": "capstone"}
    libraries |= {"-liberty": "libiberty"}
    libraries |= {"-lm": "glibc", "-lpthread": "glibc", "-ldl": "glibc"}
    # Of headers alone.
    linked = {libraries[word] for word in words if not word.startswith("-Wl,")}
    assert linked | {"uthash"} == names
