# SPDX-License-Identifier: GPL-2.0-or-later
"""Which function of a stack is the program's own."""

import pytest

from lockline.analysis.user_space.program_functions import innermost_own
from user_words import frame


@pytest.mark.parametrize(
    ("symbols", "own"),
    [
        # The class that the JVM makes for a lambda, as JDK 17 and JDK 21 call it.
        (("java.lang.Thread.yield", "Shop$$Lambda$12+0x00007fa654005000.run", "Shop.timed"), "Shop.timed"),
        (("Unsafe_Park", "Shop$$Lambda/0x00007f0a28003000.run", "Shop.lambda$sell$4"), "Shop.lambda$sell$4"),
        # What println!() calls; the same trait of a type of the program's.
        (("syscall", "<&std::io::stdio::Stdout as std::io::Write>::write_fmt", "shop::sell"), "shop::sell"),
        (("syscall", "<&shop::Till as std::io::Write>::write_all"), "<&shop::Till as std::io::Write>::write_all"),
    ],
)
def test_what_stands_between_the_wait_and_the_program(symbols: tuple[str, ...], own: str) -> None:
    assert innermost_own([frame(symbol) for symbol in symbols]) == own
