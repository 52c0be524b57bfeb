# SPDX-License-Identifier: GPL-2.0-or-later
"""From values to JSON by the fields of a document's dataclasses.

A document is described once, by frozen dataclasses that are never made: each field has a name, a type and what it
means, and says where its value is in the analysis' value: the attribute of its own name, unless told otherwise.
walk() reads the values by them, and render/schema.py makes the JSON schemas from them.

Rules of all documents: text that looks like a kernel address is replaced unless addresses are wanted; a value that
is None is null; a tuple is an array; of several dataclasses that one is taken whose made_from is the value's type.
Types are looked at when a document is first asked for, not at import.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from lockline.base.late import Late
from lockline.base.text import hide_addresses, may_show
from lockline.base.values import dataclass, field, fields, is_dataclass

if TYPE_CHECKING:
    import json
    from json.encoder import encode_basestring_ascii as _quoted
else:
    # Loading all of it takes as long as the JSON of ten lines; entries() need its quotes alone.
    from _json import encode_basestring_ascii as _quoted

    json = Late("json")


@dataclass(frozen=True, slots=True)
class At:
    """Where the walk is: whether addresses are wanted, how many entries of long lists, and what encloses the value.

    report: the value that the document is of.  space: of the line that encloses the value, "kernel" or "user".
    names: the JSON of names, and texts: that of what stands in entry after entry, for encoders that write text.
    """

    addresses: bool
    top: int | None
    report: Any
    space: str = "kernel"
    names: Mapping[str, str] = field(default_factory=dict)
    texts: dict[Any, str] = field(default_factory=dict)

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
    """How a value becomes JSON where its type alone does not say it.

    made: the type of what encode() gives, where it is simpler than any JSON, or one of the classes below that say so.
    """

    encode: Callable[[Any, "At"], Any]
    made: Any = None


@dataclass(frozen=True, slots=True)
class Sum:
    """As a source: numbers added up, by attributes with dots; None counts as 0.  known: the sum of none is None."""

    names: tuple[str, ...]
    known: bool = False

    def code(self, value: str) -> str:
        """Code for the sum of a value's."""
        every = [f"{value}.{name}" for name in self.names]
        added = " + ".join(f"({one} or 0)" for one in every)
        none = " and ".join(f"{one} is None" for one in every)
        return f"(None if {none} else {added})" if self.known else f"({added})"


Source = str | Sum | Callable[[Any, At], Any]


@dataclass(frozen=True, slots=True)
class Place:
    """What a field adds to its name and type."""

    about: str
    source: Source | None
    name: str | None
    inline: bool
    where: Callable[[Any, At], bool] | None
    again: bool = False


_KEY = "lockline"

# As a source: the enclosing value.
ITSELF = "."


class Plain:
    """Stands for text that has no address in it any more."""


class Word:
    """Stands for text that stands in entry after entry, with no address in it any more."""


class TextIfAny:
    """Stands for text that is null where it is ''."""


class WordIfAny:
    """Stands for one of some words that is null where it is ''."""


class NumberIfAny:
    """Stands for a number that is null where it is 0."""


def shown(
    about: str = "",
    source: Source | None = None,
    *,
    name: str | None = None,
    where: Callable[[Any, At], bool] | None = None,
) -> Any:
    """A field of a document.

    about: what it means.  source: where the value is: attributes with dots, ITSELF, a Sum, or a function of the
    enclosing value; None: the attribute of the field's name.  name: in JSON, if that is no name in Python.  where:
    without it the field is left out.
    """
    return field(metadata={_KEY: Place(about, source, name, False, where)})


def inline(source: Source | None = None, *, again: bool = False) -> Any:
    """A field whose own fields stand in its place; source: as of shown(), None: the enclosing value itself.

    again: the same few values, which can be keys, stand in entry after entry: the text of each is made once.
    """
    return field(metadata={_KEY: Place("", source, None, True, None, again)})


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


# A word that stands in entry after entry.
Repeated = Annotated[str, Policy(lambda value, at: at.text(value), Word)]
# '' and 0 are how a recording says that something is not known.
Name = Annotated[
    str | None,
    Policy(lambda value, at: at.text(value) if value else None, TextIfAny),
    Limits({"minLength": 1}),
]
# Beside the type of such a word.
WORD_IF_ANY = Policy(lambda value, _: value or None, WordIfAny)
Known = Annotated[int | None, Policy(lambda value, _: value or None, NumberIfAny)]
KnownCount = Annotated[int | None, Policy(lambda value, _: value or None, NumberIfAny), Limits({"minimum": 1})]
# What is infinite, or no number, is null.
Finite = Annotated[float | None, Policy(_finite)]
FiniteAmount = Annotated[float | None, Policy(_finite), Limits({"minimum": 0})]
Address = Annotated[
    str, Policy(lambda value, _: f"{value & (1 << 64) - 1:#x}", Plain), Limits({"pattern": "^0x[0-9a-f]{1,16}$"})
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
        for field in fields(shape)
    ]


class _Source:
    """The code of an encoder that is being made: names that it uses, and how many variables it has."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.variables = 0

    def name(self, value: Any) -> str:
        """A name for the value."""
        name = f"n{len(self.names)}"
        self.names[name] = value
        return name

    def variable(self) -> str:
        """A new variable."""
        self.variables += 1
        return f"v{self.variables}"


def _part(place: Place, attribute: str, value: str, at: str, source: _Source) -> str:
    """Code for what a field shows of a value."""
    if isinstance(place.source, Sum):
        return place.source.code(value)
    if callable(place.source):
        return f"{source.name(place.source)}({value}, {at})"
    if place.source == ITSELF or (place.source is None and place.inline):
        return value
    return f"{value}.{place.source or attribute}"


def _one_of(kinds: Sequence[Any]) -> _Encode:
    """Of several documents that which is made from the value's type; of several values a tuple."""
    by_type: dict[type, _Encode] = {}
    for kind in kinds:
        encode = _encoder(kind)
        assert encode is not None
        by_type[tuple if get_origin(kind) is tuple else kind.made_from] = encode
    return lambda value, at: by_type[type(value)](value, at)


def _entered(shape: Any, value: str, at: str, source: _Source) -> tuple[list[str], str, str]:
    """Code that runs before a value's fields are looked at; and what then stands for the value, and for where it is."""
    before = []
    if not value.replace(".", "").isalnum():
        variable = source.variable()
        before.append(f"{variable} := {value}")
        value = variable
    enter = getattr(shape, "enter", None)
    if enter is not None:
        inner = source.variable()
        before.append(f"{inner} := {source.name(enter)}({value}, {at})")
        at = inner
    return before, value, at


def _object(shape: Any, value: str, at: str, source: _Source, inside: tuple[Any, ...]) -> str:
    """Code for a dict of the fields of a value; those of inlined ones stand in their place."""
    before, value, at = _entered(shape, value, at, source)
    items: list[str] = []
    for one in fields_of(shape):
        part = _part(one.place, one.attribute, value, at, source)
        if one.place.inline:
            items.append(f"**{_object(one.type, part, at, source, inside)}")
            continue
        item = f"{one.name!r}: {_code(one.type, part, at, source, inside) or part}"
        if one.place.where is not None:
            item = f"**({{{item}}} if {source.name(one.place.where)}({value}, {at}) else {{}})"
        items.append(item)
    # Inlined ones without a value of their own are a part of this display.
    code = ", ".join(item[3:-1] if item.startswith("**{") else item for item in items)
    return f"({', '.join(before)}, {{{code}}})[{len(before)}]" if before else f"{{{code}}}"


def _code(kind: Any, value: str, at: str, source: _Source, inside: tuple[Any, ...]) -> str | None:
    """Code for the JSON of a value, which is given as code; None: the value is JSON."""
    if is_dataclass(kind):
        if kind in inside:
            return f"{source.name(lambda part, where: _encoder(kind)(part, where))}({value}, {at})"  # type: ignore[misc, arg-type]
        return _object(kind, value, at, source, (*inside, kind))
    if kind is str:
        return f"{at}.text({value})"
    origin, arguments = get_origin(kind), get_args(kind)
    variable = source.variable()
    if origin is Annotated:
        for note in arguments[1:]:
            if isinstance(note, Policy):
                return f"{source.name(note.encode)}({value}, {at})"
        return _code(arguments[0], value, at, source, inside)
    if origin in (Union, UnionType):
        some = [argument for argument in arguments if argument is not NoneType]
        if len(some) == 1:
            inner = _code(some[0], variable, at, source, inside)
        else:
            inner = f"{source.name(_one_of(some))}({variable}, {at})"
        return inner and f"(None if ({variable} := {value}) is None else {inner})"
    if origin is tuple:
        inner = _code(arguments[0], variable, at, source, inside)
        return f"[{inner} for {variable} in {value}]" if inner else f"list({value})"
    if origin is dict:
        inner, key = _code(arguments[1], variable, at, source, inside), source.variable()
        return f"{{{key}: {inner} for {key}, {variable} in {value}.items()}}" if inner else f"dict({value})"
    if origin is Literal or kind in (int, float, bool, NoneType):
        return None
    raise TypeError(f"{kind!r} has no form in JSON")


@cache
def _encoder(kind: Any) -> _Encode | None:
    """How values of a type become JSON; None: they are JSON.

    It is compiled, with its parts in it: long reports have tens of thousands.
    """
    source = _Source()
    code = _code(kind, "value", "at", source, ())
    if code is None:
        return None
    made: _Encode = eval(f"lambda value, at: {code}", source.names)
    return made


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _amount(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError("a number that is none has no form in JSON")
    return repr(value)


class _Names(dict[str, str]):
    """The JSON of names as they may be shown: the same ones stand in line after line."""

    def __init__(self, addresses: bool) -> None:
        super().__init__()
        self._addresses = addresses

    def __missing__(self, name: str) -> str:
        found = self[name] = _quoted(name if self._addresses else hide_addresses(name))
        return found


class _Template:
    """Text with places, and code for what stands in each."""

    def __init__(self) -> None:
        self.text = ""
        self.codes: list[str] = []

    def add(self, text: str, code: str | None = None) -> None:
        """More text, and a place behind it."""
        self.text += text.replace("%", "%%") + ("" if code is None else "%s")
        if code is not None:
            self.codes.append(code)

    def code(self) -> str:
        """Code for the whole."""
        return f"({self.text!r} % ({''.join(code + ', ' for code in self.codes)}))"


def _remembered(shape: type, template: _Template, source: _Source) -> Callable[[Any, At], str]:
    """Gives a value's text by the template, which is filled in when the value is first met in its space."""
    make: Callable[[Any, At], str] = eval(f"lambda value, at: {template.code()}", source.names)

    def text(value: Any, at: At) -> str:
        key = shape, at.space, value
        found = at.texts.get(key)
        if found is None:
            found = at.texts[key] = make(value, at)
        return found

    return text


def _write_object(shape: Any, value: str, at: str, source: _Source, inside: tuple[Any, ...], out: _Template) -> bool:
    """The fields of a value, without the braces; False: some may be left out, which no template can."""
    before, value, at = _entered(shape, value, at, source)
    first = len(out.codes)
    between = ""
    for one in fields_of(shape):
        part = _part(one.place, one.attribute, value, at, source)
        if one.place.where is not None:
            return False
        if one.place.inline:
            out.add(between)
            if one.place.again:
                inner = _Template()
                if not _write_object(one.type, "value", "at", source, inside, inner):
                    return False
                out.add("", f"{source.name(_remembered(one.type, inner, source))}({part}, {at})")
            elif not _write_object(one.type, part, at, source, inside, out):
                return False
        else:
            out.add(f"{between}{_quoted(one.name)}:")
            if is_dataclass(one.type) and one.type not in inside:
                # A part of the same text.
                out.add("{")
                if not _write_object(one.type, part, at, source, (*inside, one.type), out):
                    return False
                out.add("}")
            else:
                out.add("", _text_code(one.type, part, at, source, inside))
        between = ","
    if before and len(out.codes) > first:
        out.codes[first] = f"({', '.join(before)}, {out.codes[first]})[{len(before)}]"
    return True


def _text_code(kind: Any, value: str, at: str, source: _Source, inside: tuple[Any, ...]) -> str:
    """Code for the JSON text of a value, or for a value whose text is its JSON."""
    if is_dataclass(kind) and kind not in inside:
        template = _Template()
        template.add("{")
        if _write_object(kind, value, at, source, (*inside, kind), template):
            template.add("}")
            return template.code()
    if kind is str:
        return f"{source.name(_quoted)}({at}.text({value}))"
    if kind is Plain:
        return f"{source.name(_quoted)}({value})"
    if kind is int:
        return value
    if kind is bool:
        return f"('true' if {value} else 'false')"
    if kind is float:
        return f"{source.name(_amount)}({value})"
    origin, arguments = get_origin(kind), get_args(kind)
    variable = source.variable()
    if origin is Annotated:
        policy = next((note for note in arguments[1:] if isinstance(note, Policy)), None)
        if policy is None:
            return _text_code(arguments[0], value, at, source, inside)
        if policy.made is Word:
            return f"{at}.names[{value}]"
        if policy.made is TextIfAny:
            return f"({at}.names[{variable}] if ({variable} := {value}) else 'null')"
        if policy.made is NumberIfAny:
            return f"({value} or 'null')"
        if policy.made is WordIfAny:
            return f"({source.name(_quoted)}({variable}) if ({variable} := {value}) else 'null')"
        if policy.made is not None:
            made = f"{source.name(policy.encode)}({value}, {at})"
            return _text_code(policy.made, made, at, source, inside)
    if origin in (Union, UnionType):
        some = [argument for argument in arguments if argument is not NoneType]
        if len(some) == 1:
            inner = _text_code(some[0], variable, at, source, inside)
            return f"('null' if ({variable} := {value}) is None else {inner})"
    if origin is tuple:
        inner = _text_code(arguments[0], variable, at, source, inside)
        texts = f"[{inner} for {variable} in {value}]"
        return f"'[' + ','.join({texts if inner != variable else f'map(str, {value})'}) + ']'"
    if origin is Literal and all(isinstance(argument, str) for argument in arguments):
        return f"{source.name(_quoted)}({value})"
    if origin is Literal and {type(argument) for argument in arguments} == {int}:
        return value
    if origin is dict and arguments[0] is not int:
        inner, key = _text_code(arguments[1], variable, at, source, inside), source.variable()
        pair = f"{source.name(_quoted)}({key}) + ':' + str({inner})"
        pairs = f"[{pair} for {key}, {variable} in {value}.items()]"
        return f"'{{' + ','.join({pairs}) + '}}'"
    plain = _code(kind, value, at, source, inside) or value
    return f"{source.name(_compact)}({plain})"


@cache
def _text_encoder(kind: Any) -> Callable[[Any, At], str]:
    """How values of a type become JSON text at once, compiled likewise."""
    source = _Source()
    made: Callable[[Any, At], str] = eval(
        f"lambda value, at: {_text_code(kind, 'value', 'at', source, ())}", source.names
    )
    return made


def walk(shape: type, value: Any, addresses: bool = False, top: int | None = None) -> dict[str, Any]:
    """A document as JSON values; addresses: with kernel addresses; top: entries of long lists, None for all."""
    encode = _encoder(shape)
    assert encode is not None
    found = encode(value, At(addresses, top, value))
    assert isinstance(found, dict)
    return found


@cache
def _field_encoder(field: Field) -> _Encode:
    """How a field of a document becomes JSON text, or a value whose text is its JSON."""
    source = _Source()
    part = _part(field.place, field.attribute, "value", "at", source)
    made: _Encode = eval(f"lambda value, at: {_text_code(field.type, part, 'at', source, ())}", source.names)
    return made


def entries(shape: type, values: Iterable[Any], addresses: bool = False) -> Iterator[str]:
    """The JSON of each of these parts of a document, for pieces()."""
    at, encode = At(addresses, None, None, names=_Names(addresses)), _text_encoder(shape)
    for value in values:
        yield encode(value, at)


def prepare(shape: type, long: str, entry: type) -> None:
    """Compile what entries() of these entries and pieces() need, while nobody waits for them."""
    _text_encoder(entry)
    for one in fields_of(shape):
        if one.name != long:
            _field_encoder(one)


def pieces(shape: type, value: Any, long: str, listed: Iterable[str], addresses: bool = False) -> Iterator[str]:
    """One JSON object on one line, piece by piece: of the list in the field `long` one entry at a time.

    listed: these, from entries(); the value itself lacks them.
    """
    at = At(addresses, None, value, names=_Names(addresses))
    before = "{"
    for one in fields_of(shape):
        assert not one.place.inline
        assert one.place.where is None
        yield f"{before}{_quoted(one.name)}:"
        before = ","
        if one.name != long:
            yield str(_field_encoder(one)(value, at))
            continue
        between = "["
        for entry in listed:
            yield between + entry
            between = ","
        yield "]" if between == "," else "[]"
    yield "}\n"


def as_line(document: Mapping[str, Any]) -> str:
    """One JSON object on one line."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"
