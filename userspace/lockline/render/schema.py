# SPDX-License-Identifier: GPL-2.0-or-later
"""JSON schemas of the documents, from the dataclasses that describe them: scripts/make-schemas."""

import json
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from lockline.render.walker import Limits, fields_of

LICENSE = "SPDX-License-Identifier: GPL-2.0-or-later; made by scripts/make-schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}

Schema = dict[str, Any]


class _Definitions:
    """The dataclasses that a document consists of, each defined once."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {}
        self._shapes: dict[str, type] = {}

    def name(self, shape: type) -> str:
        """The name of a dataclass in the schema: its own, or with its module's before it if there are two."""
        name = shape.__name__
        if self._shapes.setdefault(name, shape) is not shape:
            name = f"{shape.__module__.rpartition('.')[2].capitalize()}{name}"
            assert self._shapes.setdefault(name, shape) is shape, name
        return name

    def of(self, kind: Any) -> Schema:
        """What the values of a type are."""
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            limits = {
                key: value for note in arguments[1:] if isinstance(note, Limits) for key, value in note.schema.items()
            }
            return self.of(arguments[0]) | limits
        if origin in (Union, UnionType):
            some = [self.of(argument) for argument in arguments if argument is not NoneType]
            one = some[0] if len(some) == 1 else {"anyOf": some}
            return _or_null(one) if NoneType in arguments else one
        if origin is Literal:
            return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
        if origin is tuple:
            return {"type": "array"} | ({} if arguments[0] is Any else {"items": self.of(arguments[0])})
        if origin is dict:
            names = {} if arguments[0] is str else {"propertyNames": self.of(arguments[0])}
            return {"type": "object", **names, "additionalProperties": self.of(arguments[1])}
        if kind in _NAMES:
            return {"type": _NAMES[kind]}
        return {"$ref": f"#/$defs/{self.define(kind)}"}

    def define(self, shape: type) -> str:
        """Defines a dataclass, and gives its name."""
        name = self.name(shape)
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self.object(shape)
        return name

    def object(self, shape: type) -> Schema:
        """A dataclass as an object; fields of inlined ones stand in their place."""
        properties: dict[str, Schema] = {}
        required: list[str] = []
        self._add(shape, properties, required)
        return {
            "description": (shape.__doc__ or "").strip(),
            "type": "object",
            "additionalProperties": False,
            "required": required,
            "properties": properties,
        }

    def _add(self, shape: type, properties: dict[str, Schema], required: list[str]) -> None:
        for field in fields_of(shape):
            if field.place.inline:
                self._add(field.type, properties, required)
                continue
            about = {"description": field.place.about} if field.place.about else {}
            properties[field.name] = about | self.of(field.type)
            if field.place.where is None:
                required.append(field.name)


def _or_null(schema: Schema) -> Schema:
    if "type" in schema and isinstance(schema["type"], str):
        return schema | {"type": [schema["type"], "null"]}
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    if "const" in schema:
        return {"enum": [schema["const"], None]}
    return {"anyOf": [schema, {"type": "null"}]}


def schema_of(document: type) -> Schema:
    """The JSON schema of a document, complete in itself."""
    definitions = _Definitions()
    top = definitions.object(document)
    title = top["properties"]["schema"]["const"]
    return {
        "$schema": DIALECT,
        "$comment": LICENSE,
        "title": title,
        **top,
        "$defs": dict(sorted(definitions.found.items())),
    }


def as_text(value: Any, indent: int = 0, columns: int = 100) -> str:
    """JSON text on few lines: what fits into one is on one."""
    flat = json.dumps(value, ensure_ascii=False)
    if indent + len(flat) <= columns or not isinstance(value, dict | list):
        return flat
    inside = "\n" + " " * (indent + 1)
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key)}: {as_text(part, indent + 1, columns - len(key) - 5)}" for key, part in value.items()
        ]
    else:
        parts = [as_text(part, indent + 1, columns) for part in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}{inside}{f',{inside}'.join(parts)}\n{' ' * indent}{closing}"
