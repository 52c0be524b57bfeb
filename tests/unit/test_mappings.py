# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of /proc/PID/maps."""

from lockline.base.mappings import Mapped, code_in, mappings

TEXT = """\
7f0000001000-7f0000003000 rw-s 00002000 fe:01 77                         /srv/a b
7f0000003000-7f0000004000 r-xp 00000000 00:00 0
no mapping
7f0000004000-7f00000050"""


def test_lines_are_read_and_a_cut_one_is_left_out() -> None:
    assert list(mappings(TEXT)) == [
        Mapped(
            "7f0000001000-7f0000003000", 0x7F0000001000, 0x7F0000003000, "rw-s", 0x2000, ("fe:01", "77"), "/srv/a b"
        ),
        Mapped("7f0000003000-7f0000004000", 0x7F0000003000, 0x7F0000004000, "r-xp", 0, ("00:00", "0"), ""),
    ]


def test_code_alone_is_found_without_the_rest() -> None:
    assert (
        code_in(TEXT)
        == [(one.begin, one.end) for one in mappings(TEXT) if "x" in one.access]
        == [(0x7F0000003000, 0x7F0000004000)]
    )


def test_code_is_told_by_the_access_and_not_by_a_path() -> None:
    text = (
        "7f0000001000-7f0000003000 rw-p 00002000 fe:01 77   /srv/7f0000001000-7f0000003000 r-xp 00000000\n"
        "7f0000003000-7f0000004000 --xs 00000000 fe:01 78   /srv/libxp 00000000.so\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\n"
    )
    assert code_in(text) == [(0x7F0000003000, 0x7F0000004000), (0xFFFFFFFFFF600000, 0xFFFFFFFFFF601000)]
