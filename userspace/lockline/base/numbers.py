# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers for people: lengths of time, counts, parts, sizes."""


def duration(ns: float | None) -> str:
    """A length of time in at most 8 characters: "850 ns", "12.3 us", "1.23 ms", "45.6 s"."""
    if ns is None:
        return "-"
    for limit, unit, size in ((1e3, "ns", 1.0), (1e6, "us", 1e3), (1e9, "ms", 1e6)):
        # Compare what will be printed, or 999,999 ns would be "1000 us".
        if float(f"{abs(ns):.3g}") < limit:
            return f"{_three(ns / size, whole=unit == 'ns')} {unit}"
    seconds = ns / 1e9
    return f"{_three(seconds)} s" if seconds < 99_999.5 else f"{seconds / 86400:.0f} d"


def _three(value: float, whole: bool = False) -> str:
    if whole or abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"


def average(number: float, digits: int) -> str:
    """Threads or CPUs on average, with so many digits; from 100 on none matters."""
    return f"{number:.{digits}f}" if number < 99.95 else f"{number:,.0f}"


def count(number: int) -> str:
    """A count in at most 6 characters: exact to 99,999, then "123k", "1.23M"."""
    if abs(number) < 100_000:
        return f"{number:,}"
    for limit, unit in ((1e6, "k"), (1e9, "M"), (1e12, "G"), (1e15, "T")):
        if float(f"{abs(number):.3g}") < limit:
            return _three(number / (limit / 1e3)) + unit
    return f"{number:.0e}"


def counted(number: int, one: str) -> str:
    """A count of things, by what one of them is called: "1 CPU", "2 CPUs"."""
    return f"{count(number)} {one}{'' if number == 1 else 's'}"


def short_count(number: int) -> str:
    """A count in at most 4 characters."""
    if abs(number) < 10_000:
        return str(number)
    for limit, unit in ((1e6, "k"), (1e9, "M"), (1e12, "G")):
        if float(f"{number:.2g}") < limit:
            value = number / (limit / 1e3)
            return (f"{value:.1f}" if value < 9.95 else f"{value:.0f}") + unit
    return ">1T"


def percent(fraction: float | None) -> str:
    """A fraction in percent, at most 7 characters."""
    if fraction is None:
        return "-"
    value = fraction * 100
    if 0 < value < 0.01:
        return "<0.01%"
    return f"{value:.2f}%" if value < 10 else f"{value:.1f}%" if value < 1000 else f"{value:.0f}%"


def size(number: int) -> str:
    """Bytes with a binary unit."""
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{number} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def as_number(text: str) -> int | None:
    """The number that is written there, from 1 to 999999999; None if there is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0 else None
