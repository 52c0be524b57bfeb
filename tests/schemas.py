# SPDX-License-Identifier: GPL-2.0-or-later
"""The documented JSON schemas, as validators; they refer to each other by their file names."""

import json
from functools import cache
from pathlib import Path

import jsonschema
from referencing import Registry, Resource

DOCS = Path(__file__).resolve().parents[1] / "docs"


@cache
def validator_of(name: str) -> jsonschema.Draft202012Validator:
    """The validator of docs/NAME-schema.json, itself checked."""
    schemas = {path.name: json.loads(path.read_text()) for path in DOCS.glob("*-schema.json")}
    registry: Registry[object] = Registry().with_resources(
        (file, Resource.from_contents(schema)) for file, schema in schemas.items()
    )
    schema = schemas[f"{name}-schema.json"]
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, registry=registry)
