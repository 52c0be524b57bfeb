# SPDX-License-Identifier: GPL-2.0-or-later
"""The command, run in this process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lockline.cli import main as cli

TOP = Path(__file__).resolve().parents[2]

Side = tuple[int, str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Side]:
    """Run `lockline diff`, with all that it shows: exit code, stdout, stderr."""

    def run_diff(*arguments: str | Path) -> Side:
        told = any(argument in ("--format", "--changelog") for argument in arguments)
        try:
            code = cli.main(["diff", *map(str, arguments), *([] if told else ["--all"])])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_diff


@pytest.fixture(scope="session")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads((TOP / "docs" / "diff-schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def as_json(
    run: Callable[..., Side], validator: jsonschema.Draft202012Validator
) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Run `lockline diff --format json`: exit code, and the document, which follows the schema."""

    def run_json(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
        code, out, err = run(*arguments, "--format", "json")
        assert out, err
        document = json.loads(out)
        validator.validate(document)
        assert (code == 2) == (document["verdict"] == "regressed")
        return code, document

    return run_json
