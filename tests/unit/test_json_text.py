# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of long lists are written as JSON text at once: it is the text of what walk() makes."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import pytest

from lockline.base.values import dataclass as described
from lockline.render.walker import (
    ITSELF,
    Address,
    Amount,
    Count,
    FiniteAmount,
    Known,
    KnownCount,
    Name,
    Pairs,
    entries,
    inline,
    shown,
    walk,
    with_addresses,
)


@dataclass(frozen=True)
class Inner:
    """A value inside another one."""

    count: int | None
    name: str


@dataclass(frozen=True)
class Value:
    """All kinds of values."""

    text: str
    name: str
    none: str | None
    count: int
    known: int
    zero: int
    share: float
    whole: float
    infinite: float
    yes: bool
    maybe: bool | None
    size: int
    word: str
    address: int
    inner: Inner
    inners: tuple[Inner, ...]
    texts: tuple[str, ...]
    numbers: tuple[int, ...]
    by_name: Mapping[str, tuple[str, ...]]
    counts: Mapping[str, int]
    pairs: tuple[tuple[int, int], ...]


@described(frozen=True)
class Part:
    """Of an inner value."""

    count: Count | None = shown("a count")
    name: Name = shown("a name")
    itself: str = shown("with 100 %", lambda inner, _: f"{inner.name}: 100 %")


@described(frozen=True)
class Beside:
    """Of an inner value, whose fields stand among its owner's."""

    inner_count: Count | None = shown("a count", "count")
    inner_name: Name = shown("a name", lambda inner, _: inner.name)


@described(frozen=True)
class Everything:
    """Of a value."""

    text: str = shown("text")
    name: Name = shown('a "name"', name="the name 100 %")
    none: str | None = shown("null")
    count: Count = shown("a count")
    known: Known = shown("known")
    zero: KnownCount = shown("not known")
    share: Amount = shown("a fraction")
    whole: Amount = shown("a whole number")
    infinite: FiniteAmount = shown("null")
    yes: bool = shown("true")
    maybe: bool | None = shown("true, false or null")
    size: Literal[32, 64] = shown("bytes")
    word: Literal["one", "two"] | None = shown("a word")
    address: Address = shown("an address")
    own: Part = shown("a part", "inner")
    beside: Beside = inline("inner")
    parts: tuple[Part, ...] = shown("parts", "inners")
    few: tuple[Part, ...] = shown("the first part", lambda value, _: value.inners[:1])
    texts: tuple[str, ...] = shown("texts")
    numbers: tuple[int, ...] = shown("numbers")
    by_name: dict[str, tuple[str, ...]] = shown("texts by name")
    counts: dict[str, int] = shown("counts by name")
    pairs: Pairs = shown("pairs")


@described(frozen=True)
class LeftOut:
    """A field is there with addresses alone."""

    name: Name = shown("a name")
    address: Address = shown("an address", where=with_addresses)
    whole: Everything = shown("all", ITSELF)


VALUE = Value(
    text='a "text" of ünicode at ffff888100000040\n',
    name="spin_lock at ffff888100000080",
    none=None,
    count=5,
    known=7,
    zero=0,
    share=0.1,
    whole=3,
    infinite=math.inf,
    yes=True,
    maybe=None,
    size=64,
    word="two",
    address=0xFFFF_8881_0000_00C0,
    inner=Inner(None, ""),
    inners=(Inner(1, "%s"), Inner(None, "one")),
    texts=("a", "ffff888100000040", ""),
    numbers=(1, 2),
    by_name={"r%": ("x", "y"), "s": ()},
    counts={"ld": 1},
    pairs=((1, 2), (3, 4)),
)


@pytest.mark.parametrize("addresses", [False, True])
@pytest.mark.parametrize("shape", [Everything, LeftOut])
def test_the_text_is_that_of_the_values(shape: type, addresses: bool) -> None:
    empty = replace(VALUE, inners=(), texts=(), numbers=(), by_name={}, counts={}, maybe=False, word="one")
    for value in (VALUE, empty):
        (text,) = entries(shape, [value], addresses)
        assert text == json.dumps(walk(shape, value, addresses), separators=(",", ":"), allow_nan=False)
        assert ("ffff888100000080" in text) == addresses


def test_what_is_no_number_has_no_text() -> None:
    with pytest.raises(ValueError, match="JSON"):
        list(entries(Everything, [replace(VALUE, share=math.nan)]))
