# SPDX-License-Identifier: GPL-2.0-or-later
"""A profile in pprof's format: contentions/count and delay/nanoseconds, as Go and Abseil write it.

Numbers of fields are those of proto/profile.proto of github.com/google/pprof.
"""

import gzip
import io
from collections import defaultdict

from lockline.export.profile import KERNEL, Code, Entry, Profile
from lockline.export.protobuf import message, number, packed, text


class _Strings:
    """The table of strings; its first is empty."""

    def __init__(self) -> None:
        self._ids = {"": 0}

    def __getitem__(self, content: str) -> int:
        return self._ids.setdefault(content, len(self._ids))

    def encoded(self) -> bytes:
        return b"".join(text(6, each) for each in self._ids)


class _Code:
    """Mappings, functions and locations, each once; ids count from 1."""

    def __init__(self, strings: _Strings) -> None:
        self._strings = strings
        # pprof takes the first mapping for the program's.
        self._files = {KERNEL: 1}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[Code, int] = {}

    def location(self, code: Code) -> int:
        if code not in self._locations:
            self._files.setdefault(code.file or KERNEL, len(self._files) + 1)
            self._functions.setdefault((code.name, code.file), len(self._functions) + 1)
            self._locations[code] = len(self._locations) + 1
        return self._locations[code]

    def encoded(self) -> bytes:
        strings, parts = self._strings, []
        for file, mapping in self._files.items():
            # Its functions are known: pprof does not look for the file.
            parts.append(message(3, number(1, mapping) + number(5, strings[file]) + number(7, 1)))
        for code, location in self._locations.items():
            line = message(4, number(1, self._functions[code.name, code.file]))
            mapping = self._files[code.file or KERNEL]
            parts.append(message(4, number(1, location) + number(2, mapping) + number(3, code.address or 0) + line))
        for (name, file), function in self._functions.items():
            named = number(2, strings[name]) + number(3, strings[name])
            parts.append(message(5, number(1, function) + named + number(4, strings[file])))
        return b"".join(parts)


def _labels(entry: Entry, strings: _Strings) -> bytes:
    labels = {"lock": entry.lock, "kind": entry.kind, "comm": entry.comm, "cgroup": entry.cgroup}
    return b"".join(
        message(3, number(1, strings[key]) + number(2, strings[value])) for key, value in labels.items() if value
    )


def _value_type(strings: _Strings, kind: str, unit: str) -> bytes:
    return number(1, strings[kind]) + number(2, strings[unit])


def encode(profile: Profile) -> bytes:
    """The profile as a gzip'd protobuf: one sample for each stack and set of labels."""
    strings = _Strings()
    code = _Code(strings)
    types = [_value_type(strings, "contentions", "count"), _value_type(strings, "delay", "nanoseconds")]
    samples: defaultdict[tuple[tuple[Code, ...], bytes], list[int]] = defaultdict(lambda: [0, 0])
    for entry in profile.entries:
        sums = samples[entry.stack, _labels(entry, strings)]
        sums[0] += entry.count
        sums[1] += entry.ns
    content = [message(1, kind) for kind in types]
    for (stack, labels), values in samples.items():
        content.append(message(2, packed(1, map(code.location, stack)) + packed(2, values) + labels))
    content.append(code.encoded())
    content.append(number(9, profile.begin_unix_ns) + number(10, profile.duration_ns))
    # Each sample is scaled to the waits that it stands for: the period is 1.
    content.append(message(11, types[0]) + number(12, 1))
    content.append(packed(13, [strings[f"lockline: stacks of {profile.side}"]]))
    content.append(number(14, strings["delay"]))
    content.append(strings.encoded())
    buffer = io.BytesIO()
    # No name and no time in it: the same recording gives the same file.
    with gzip.GzipFile("", "wb", fileobj=buffer, mtime=0) as file:
        file.write(b"".join(content))
    return buffer.getvalue()
