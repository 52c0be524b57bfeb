# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON schemas in docs/ are what the dataclasses of the documents say."""

import dataclasses
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest

from lockline.fleet import document as fleet
from lockline.render.documents import diff, experiment, lines, report, watch, why
from lockline.render.schema import as_text, schema_of
from lockline.render.walker import Address, Count, Finite, Name, Pairs, inline, shown, walk, with_addresses

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = {
    "report": report.Document,
    "watch": watch.Document,
    "c2c": lines.Document,
    "diff": diff.Document,
    "fleet": fleet.Document,
    "fleet-diff": fleet.DiffDocument,
    "why": why.Document,
    "experiment": experiment.Document,
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_frozen_files_are_up_to_date(name: str) -> None:
    text = (ROOT / "docs" / f"{name}-schema.json").read_text(encoding="utf-8")
    assert json.loads(text) == schema_of(DOCUMENTS[name]), "run make schemas"
    assert text == as_text(schema_of(DOCUMENTS[name])) + "\n", "run make schemas"


def test_a_file_that_is_not_is_found(tmp_path: Path) -> None:
    """The script that compares them fails on a planted field."""
    script = ROOT / "scripts" / "make-schemas"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0
    planted = tmp_path / "scripts" / "make-schemas"
    planted.parent.mkdir()
    planted.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "userspace").symlink_to(ROOT / "userspace")
    docs = tmp_path / "docs"
    docs.mkdir()
    for path in (ROOT / "docs").glob("*-schema.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        schema["properties"]["planted"] = {"type": "string"}
        (docs / path.name).write_text(json.dumps(schema), encoding="utf-8")
    told = subprocess.run([sys.executable, planted, "--check"], check=False, capture_output=True, text=True)
    assert told.returncode == 1
    assert all(f"{name}-schema.json" in told.stderr for name in DOCUMENTS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_field_says_what_it_means(name: str) -> None:
    schema = schema_of(DOCUMENTS[name])
    for shape, what in {**schema["$defs"], name: schema}.items():
        assert what["description"], shape
        assert all(field["description"] for field in what["properties"].values()), shape
        assert what["additionalProperties"] is False


@dataclass(frozen=True)
class Inner:
    """Inlined."""

    count: Count = shown("how many")
    kind: Literal["a", "b"] = shown("which", lambda value, _: "a" if value.count else "b")


@dataclass(frozen=True)
class Outer:
    """A document."""

    schema: Literal["test/1"] = shown("this schema", lambda *_: "test/1")
    name: Name = shown("its name", "text")
    inner: Inner = inline()
    high: Finite = shown("a bound", name="from")
    address: Address = shown("with addresses", where=with_addresses)
    pairs: Pairs = shown("pairs")
    parts: tuple[Inner, ...] = shown("parts", lambda value, at: value.parts[: at.top])
    by_name: dict[str, tuple[str, ...]] = shown("by name")
    nothing: Inner | None = shown("nothing")


Values = dataclasses.make_dataclass(
    "Values", ["text", "count", "high", "address", "pairs", "parts", "by_name", "nothing"]
)


def values(**changes: Any) -> Any:
    """Values for the document."""
    part = Values("", 0, 0.0, 0, [], (), {}, None)
    given: dict[str, Any] = {
        "text": "at ffff888000000000",
        "count": 2,
        "high": float("inf"),
        "address": -(1 << 47),
        "pairs": [[64, 1]],
        "parts": (part, part),
        "by_name": {"x": ("ffff888000000000",)},
        "nothing": None,
    }
    return Values(**(given | changes))


def test_the_walk() -> None:
    """Names, places, inlined fields, addresses, infinity and what is not known."""
    assert walk(Outer, values(), top=1) == {
        "schema": "test/1",
        "name": "at [address]",
        "count": 2,
        "kind": "a",
        "from": None,
        "pairs": [[64, 1]],
        "parts": [{"count": 0, "kind": "b"}],
        "by_name": {"x": ["[address]"]},
        "nothing": None,
    }
    told = walk(Outer, values(text="", high=1.5), addresses=True)
    assert told["address"] == "0xffff800000000000"
    assert told["name"] is None
    assert told["from"] == 1.5
    assert told["by_name"] == {"x": ["ffff888000000000"]}
    assert list(told)[:5] == ["schema", "name", "count", "kind", "from"]


def test_the_schema_takes_what_the_walk_makes_and_no_more() -> None:
    validator = jsonschema.Draft202012Validator(schema_of(Outer))
    for addresses in (False, True):
        document = walk(Outer, values(), addresses)
        validator.validate(document)
        for wrong in ({"count": -1}, {"kind": "c"}, {"name": ""}, {"pairs": [[64, 0]]}, {"more": 1}, {"parts": [1]}):
            assert not validator.is_valid(document | wrong), wrong
        for name in set(document) - {"address"}:
            assert not validator.is_valid({key: value for key, value in document.items() if key != name}), name


def test_a_type_without_a_form_is_refused() -> None:
    @dataclass(frozen=True)
    class Odd:
        """A document with a set."""

        odd: set[int] = shown("odd")

    with pytest.raises(TypeError, match="no form in JSON"):
        walk(Odd, values())
