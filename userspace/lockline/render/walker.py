# SPDX-License-Identifier: GPL-2.0-or-later
"""From values to JSON by the fields of a document's dataclasses.

A document is described once, by frozen dataclasses that are never made: each field has a name, a type and what it
means, and says where its value is in the analysis' value: the attribute of its own name, unless told otherwise.
walk() reads the values by them, and render/schema.py makes the JSON schemas from them.

Rules of all documents: text that looks like a kernel address is replaced unless addresses are wanted; a value that
is None is null; a tuple is an array; of several dataclasses that one is taken whose made_from is the value's type.
Types are looked at when a document is first asked for, not at import.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from lockline.base.text import hide_addresses, may_show


@dataclass(frozen=True, slots=True)
class At:
    """Where the walk is: whether addresses are wanted, how many entries of long lists, and what encloses the value.

    report: the value that the document is of.  space: of the line that encloses the value, "kernel" or "user".
    """

    addresses: bool
    top: int | None
    report: Any
    space: str = "kernel"

    def text(self, value: str) -> str:
        """Text as it may be shown."""
        return value if self.addresses else hide_addresses(value)

    def may_show(self, address: int) -> bool:
        """Whether an address on the enclosing line may be shown: the only place that decides it for JSON."""
        return may_show(address, self.addresses, self.space)


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """What a JSON schema says of a value beyond its type, in that schema's words."""

    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """How a value becomes JSON where its type alone does not say it."""

    encode: Callable[[Any, "At"], Any]


Source = str | Callable[[Any, At], Any]


@dataclass(frozen=True, slots=True)
class Place:
    """What a field adds to its name and type."""

    about: str
    source: Source | None
    name: str | None
    inline: bool
    where: Callable[[Any, At], bool] | None


_KEY = "lockline"


def shown(
    about: str = "",
    source: Source | None = None,
    *,
    name: str | None = None,
    where: Callable[[Any, At], bool] | None = None,
) -> Any:
    """A field of a document.

    about: what it means.  source: where the value is: attributes with dots, or a function of the enclosing value;
    None: the attribute of the field's name.  name: in JSON, if that is no name in Python.  where: without it the field
    is left out.
    """
    return dataclasses.field(metadata={_KEY: Place(about, source, name, False, where)})


def inline(source: Source | None = None) -> Any:
    """A field whose own fields stand in its place; source: as of shown(), None: the enclosing value itself."""
    return dataclasses.field(metadata={_KEY: Place("", source, None, True, None)})


def with_addresses(_: Any, at: At) -> bool:
    """For fields that are there with --addresses alone."""
    return at.addresses


# Types of values.
Count = Annotated[int, Limits({"minimum": 0})]
Positive = Annotated[int, Limits({"minimum": 1})]
Amount = Annotated[float, Limits({"minimum": 0})]
Fraction = Annotated[float, Limits({"minimum": 0, "maximum": 1})]


def _finite(value: float | None, _: At) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# '' and 0 are how a recording says that something is not known.
Name = Annotated[str | None, Policy(lambda value, at: at.text(value) if value else None), Limits({"minLength": 1})]
Known = Annotated[int | None, Policy(lambda value, _: value or None)]
KnownCount = Annotated[int | None, Policy(lambda value, _: value or None), Limits({"minimum": 1})]
# What is infinite, or no number, is null.
Finite = Annotated[float | None, Policy(_finite)]
FiniteAmount = Annotated[float | None, Policy(_finite), Limits({"minimum": 0})]
Address = Annotated[
    str, Policy(lambda value, _: f"{value & (1 << 64) - 1:#x}"), Limits({"pattern": "^0x[0-9a-f]{1,16}$"})
]
# Pairs of numbers, such as buckets of a histogram and what is in them.
Pairs = Annotated[
    tuple[Any, ...],
    Policy(lambda value, _: value),
    Limits(
        {
            "items": {
                "type": "array",
                "prefixItems": [{"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 1}],
                "items": False,
                "minItems": 2,
            }
        }
    ),
]

_Encode = Callable[[Any, At], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a document: its name in JSON, and the attribute that it is of, unless its place says otherwise."""

    name: str
    attribute: str
    type: Any
    place: Place


def fields_of(shape: type) -> list[Field]:
    """The fields of a document's dataclass."""
    return [
        Field(field.metadata[_KEY].name or field.name, field.name, field.type, field.metadata[_KEY])
        for field in dataclasses.fields(shape)
    ]


def _getter(place: Place, attribute: str) -> Callable[[Any, At], Any]:
    source = place.source
    if callable(source):
        return source
    if source is None and place.inline:
        return lambda value, _: value
    get = attrgetter(source or attribute)
    return lambda value, _: get(value)


def _text(value: str, at: At) -> str:
    return at.text(value)


def _optional(inner: _Encode | None) -> _Encode | None:
    return None if inner is None else lambda value, at: None if value is None else inner(value, at)


def _one_of(kinds: Sequence[Any]) -> _Encode:
    """Of several documents that which is made from the value's type; of several values a tuple."""
    by_type: dict[type, _Encode] = {}
    for kind in kinds:
        encode = _encoder(kind)
        assert encode is not None
        by_type[tuple if get_origin(kind) is tuple else kind.made_from] = encode
    return lambda value, at: by_type[type(value)](value, at)


def _list(item: _Encode | None) -> _Encode:
    return (lambda value, _: list(value)) if item is None else lambda value, at: [item(one, at) for one in value]


def _dict(item: _Encode | None) -> _Encode:
    if item is None:
        return lambda value, _: dict(value)
    return lambda value, at: {key: item(one, at) for key, one in value.items()}


@cache
def _encoder(kind: Any) -> _Encode | None:
    """How values of a type become JSON; None: they are JSON."""
    if dataclasses.is_dataclass(kind):
        return _object(kind)
    if kind is str:
        return _text
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        for note in arguments[1:]:
            if isinstance(note, Policy):
                return note.encode
        return _encoder(arguments[0])
    if origin in (Union, UnionType):
        some = [argument for argument in arguments if argument is not NoneType]
        return _optional(_encoder(some[0]) if len(some) == 1 else _one_of(some))
    if origin is tuple:
        return _list(_encoder(arguments[0]))
    if origin is dict:
        return _dict(_encoder(arguments[1]))
    if origin is Literal or kind in (int, float, bool, NoneType):
        return None
    raise TypeError(f"{kind!r} has no form in JSON")


def _steps(shape: type, before: Callable[[Any, At], Any] | None = None) -> list[tuple[Any, ...]]:
    """(name, get, encode, where) of each field; those of an inlined one in its place."""
    steps: list[tuple[Any, ...]] = []
    for field in fields_of(shape):
        get = _getter(field.place, field.attribute)
        if before is not None:
            get = _after(before, get)
        if field.place.inline:
            steps += _steps(field.type, get)
        else:
            steps.append((field.name, get, _encoder(field.type), field.place.where))
    return steps


def _after(before: Callable[[Any, At], Any], get: Callable[[Any, At], Any]) -> Callable[[Any, At], Any]:
    return lambda value, at: get(before(value, at), at)


def _object(shape: Any) -> _Encode:
    enter = getattr(shape, "enter", None)
    steps: list[tuple[Any, ...]] = []

    def encode(value: Any, at: At) -> dict[str, Any]:
        if not steps:
            # Not before, so that a document may have parts of its own kind.
            steps.extend(_steps(shape))
        if enter is not None:
            at = enter(value, at)
        found: dict[str, Any] = {}
        for name, get, inner, where in steps:
            if where is not None and not where(value, at):
                continue
            part = get(value, at)
            found[name] = part if inner is None else inner(part, at)
        return found

    return encode


def walk(shape: type, value: Any, addresses: bool = False, top: int | None = None) -> dict[str, Any]:
    """A document as JSON values; addresses: with kernel addresses; top: entries of long lists, None for all."""
    encode = _encoder(shape)
    assert encode is not None
    found = encode(value, At(addresses, top, value))
    assert isinstance(found, dict)
    return found


def pieces(shape: type, value: Any, long: str, entries: Iterable[Any], addresses: bool = False) -> Iterator[str]:
    """One JSON object on one line, piece by piece: of the list in the field `long` one entry at a time.

    entries: that list's values, which the value itself lacks.
    """
    at = At(addresses, None, value)
    before = "{"
    for field in fields_of(shape):
        assert not field.place.inline
        assert field.place.where is None
        yield f"{before}{json.dumps(field.name)}:"
        before = ","
        if field.name == long:
            yield from _entries(get_args(field.type)[0], entries, at)
            continue
        part, encode = _getter(field.place, field.attribute)(value, at), _encoder(field.type)
        yield json.dumps(part if encode is None else encode(part, at), separators=(",", ":"), allow_nan=False)
    yield "}\n"


def _entries(kind: Any, entries: Iterable[Any], at: At) -> Iterator[str]:
    encode = _encoder(kind)
    assert encode is not None
    between = "["
    for entry in entries:
        yield between + json.dumps(encode(entry, at), separators=(",", ":"), allow_nan=False)
        between = ","
    yield "]" if between == "," else "[]"


def as_line(document: Mapping[str, Any]) -> str:
    """One JSON object on one line."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"
