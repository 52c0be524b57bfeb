# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline record --host USER@SERVER`: records on another machine by ssh, and leaves nothing there.

One connection does it all.  The static collector goes there on standard input, is checked by its checksum and run in a
directory of its own; the recording comes back on standard output.  Whatever ends the connection ends the recording,
and the directory is removed.
"""

import hashlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from lockline.base.collector import find_collector
from lockline.base.errors import LocklineError
from lockline.base.files import SQLITE

_MACHINES = {62: "x86_64", 183: "aarch64"}
# More files than the recording, or a process here.
_ONLY_HERE = ("--c2c", "--end-with", "--sizes")

# Run there by sh; the words in capitals are filled in.  Input: the collector, then nothing until a line or the end of
# input stops the recording.  125: nothing was recorded.
_SCRIPT = """\
umask 077
if [ -n "MACHINE" ] && [ "$(uname -m)" != "MACHINE" ]; then
  echo "lockline: the server is $(uname -m), this collector is for MACHINE" >&2; exit 125
fi
d=$(mktemp -d "${TMPDIR:-/tmp}/lockline-XXXXXX") || exit 125
trap 'rm -rf "$d"' EXIT
trap 'kill $pid 2>/dev/null; exit 125' HUP INT TERM
head -c BYTES >"$d/lockline-collect"
if ! echo "CHECKSUM  $d/lockline-collect" | sha256sum -c --status -; then
  echo "lockline: the collector did not arrive whole" >&2; exit 125
fi
chmod 700 "$d/lockline-collect"
exec 3<&0
"$d/lockline-collect" record -o "$d/recording" OPTIONS </dev/null >&2 3<&- &
pid=$!
( read -r line <&3; kill -TERM $pid ) >/dev/null 2>&1 &
stop=$!
wait $pid
code=$?
kill $stop 2>/dev/null
if [ -f "$d/recording" ]; then cat "$d/recording"; fi
exit $code
"""
# Root, or who may become root without a password, records; what others may do the collector says.
_AS_ROOT = """\
if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null </dev/null; then exec sudo -n sh -c "$0"; else exec sh -c "$0"; fi"""


# What `record` takes beside the collector's options: metavar and help.
OPTIONS = {
    "--host": ("USER@SERVER", "record on that machine by ssh, and bring the recording back; nothing stays there"),
    "--ssh": ("COMMAND", "with --host: the command to run in place of ssh"),
}


@dataclass(frozen=True)
class Request:
    """What to record where: options are the collector's."""

    host: str
    ssh: tuple[str, ...]
    output: Path
    options: tuple[str, ...]


def is_remote(arguments: Sequence[str]) -> bool:
    """Whether the arguments of `record` name another machine."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(word == "--host" or word.startswith("--host=") for word in ours)


def parse(arguments: Sequence[str]) -> Request:
    """Of the arguments behind `record`.  Raises LocklineError."""
    values = {"--host": "", "--ssh": "ssh", "--output": "lockline.data"}
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
            break
        name, equals, value = word.partition("=")
        if word.startswith("-o") and not word.startswith("--"):
            name, equals, value = "--output", word[2:], word[2:]
        if name in values:
            value = value if equals else next(words, "")
            if not value:
                raise LocklineError(f"{name}: needs a value")
            values[name] = value
        elif name in _ONLY_HERE:
            raise LocklineError(f"{name} and --host cannot be used together: only the recording comes back")
        else:
            rest.append(word)
    if values["--host"].startswith("-"):
        raise LocklineError(f"--host {values['--host']}: not a name of a machine")
    try:
        ssh = tuple(shlex.split(values["--ssh"]))
    except ValueError as error:
        raise LocklineError(f"--ssh {values['--ssh']}: {error}") from error
    return Request(values["--host"], ssh, Path(values["--output"]), tuple(rest))


def script(collector: bytes, options: Sequence[str]) -> str:
    """The command for the shell of the other machine."""
    machine = _MACHINES.get(int.from_bytes(collector[18:20], "little"), "") if collector[:4] == b"\x7fELF" else ""
    filled = {
        "MACHINE": machine,
        "BYTES": str(len(collector)),
        "CHECKSUM": hashlib.sha256(collector).hexdigest(),
        "OPTIONS": shlex.join(options),
    }
    text = _SCRIPT
    for word, value in filled.items():
        text = text.replace(word, value)
    return f"exec sh -c {shlex.quote(_AS_ROOT)} {shlex.quote(text)}"


def _stop_on_signals(process: "subprocess.Popen[bytes]") -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        # The end of its input ends the recording; what was recorded still comes.
        with suppress(OSError):
            if process.stdin:
                process.stdin.close()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


def run(arguments: Sequence[str]) -> int:
    """Record there, bring the file here; gives the collector's exit code.  Raises LocklineError."""
    request = parse(arguments)
    collector = Path(find_collector()).read_bytes()
    fresh = request.output.with_name(f".{request.output.name}.{os.getpid()}")
    command = [*request.ssh, "-T", "--", request.host, script(collector, request.options)]
    try:
        with fresh.open("xb") as out:
            # Ctrl-C is for us: ssh goes on until the recording is here.  It keeps the terminal, to ask for a password.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out)
            except OSError as error:
                raise LocklineError(f"{request.ssh[0]} cannot be run: {error.strerror}") from error
            _stop_on_signals(process)
            with suppress(OSError, ValueError):
                assert process.stdin
                process.stdin.write(collector)
                process.stdin.flush()
            code = process.wait()
        with fresh.open("rb") as file:
            whole = file.read(len(SQLITE)) == SQLITE
        if code == 255 and not whole:
            raise LocklineError(f"--host {request.host}: ssh failed")
        if code not in (0, 2) or not whole:
            return code if 0 < code < 125 else 1
        fresh.replace(request.output)
        print(f"lockline: {request.output}, recorded on {request.host}", file=sys.stderr)
        return code
    except OSError as error:
        raise LocklineError(f"-o {request.output}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            fresh.unlink()
