# SPDX-License-Identifier: GPL-2.0-or-later
"""Conditions on rows, made of names of columns, integers and constants: nothing of a recording becomes SQL."""

from collections.abc import Iterable

from lockline.base.values import NamedTuple


class Condition(NamedTuple):
    """One condition, as SQL; made by the functions of this module alone."""

    sql: str


def among(column: str, values: Iterable[int]) -> Condition:
    """The column holds one of these numbers."""
    return Condition(f"{column} IN ({','.join(str(int(value)) for value in values)})")


def between(column: str, low: int, high: int) -> Condition:
    """The column holds a number from low to high."""
    return Condition(f"{column} BETWEEN {int(low)} AND {int(high)}")


def above(column: str, bound: int) -> Condition:
    """The column holds a number above the bound."""
    return Condition(f"{column} > {int(bound)}")


def equal(column: str, text: str) -> Condition:
    """The column holds this text, which is a constant of ours."""
    quoted = text.replace("'", "''")
    return Condition(f"{column} = '{quoted}'")


def at_most_bytes(column: str, size: int) -> Condition:
    """The column's blob has at most so many bytes."""
    return Condition(f"length({column}) <= {int(size)}")


def either(*conditions: Condition) -> Condition:
    """One of these conditions holds."""
    return Condition("(" + " OR ".join(condition.sql for condition in conditions) + ")")


def where(*conditions: Condition | None) -> str:
    """The WHERE of a query, in which all these conditions hold; None: none."""
    present = [condition.sql for condition in conditions if condition is not None]
    return " WHERE " + " AND ".join(present) if present else ""
