# SPDX-License-Identifier: GPL-2.0-or-later
"""lockline.base.values.dataclass() makes what the library's decorator makes."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from lockline.base import values


def make(decorator: Callable[..., Any], slots: bool) -> Any:
    """A class with every sort of field that is used."""

    @decorator(frozen=True, slots=slots)
    class Wait:
        """One wait."""

        lock: str
        ns: int = 5
        cpus: tuple[int, ...] = ()
        tags: dict[str, int] = dataclasses.field(default_factory=dict)

        @property
        def double(self) -> int:
            """Twice its length."""
            return self.ns * 2

    return Wait


@pytest.fixture(params=[False, True], ids=["dict", "slots"])
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """The same class by the library and by us."""
    return make(dataclasses.dataclass, request.param), make(values.dataclass, request.param)


def test_objects_are_made_shown_and_compared_alike(pair: tuple[Any, Any]) -> None:
    library, ours = pair
    for arguments, by_name in ((("a",), {}), (("a", 7), {"cpus": (1,)}), ((), {"lock": "b", "tags": {"x": 1}})):
        theirs, mine = library(*arguments, **by_name), ours(*arguments, **by_name)
        assert repr(mine) == repr(theirs)
        assert dataclasses.asdict(mine) == dataclasses.asdict(theirs)
        assert mine == ours(*arguments, **by_name) != theirs
        assert mine.double == theirs.double
    assert ours("a").tags is not ours("a").tags
    assert ours.__match_args__ == library.__match_args__
    assert repr(dataclasses.replace(ours("a"), ns=9)) == repr(dataclasses.replace(library("a"), ns=9))


def test_what_is_worked_out_of_the_fields_is_there_at_once() -> None:
    class Worked:
        __slots__ = ("double",)
        double: int

    @values.dataclass(frozen=True, slots=True)
    class Time(Worked):
        ns: int

        def __post_init__(self) -> None:
            object.__setattr__(self, "double", 2 * self.ns)

    assert [Time(number).double for number in range(50)] == list(range(0, 100, 2))
    assert values.replace(Time(1), ns=4).double == dataclasses.replace(Time(1), ns=4).double == 8


def test_the_first_objects_and_later_ones_are_made_alike(pair: tuple[Any, Any]) -> None:
    _, ours = pair
    for number in range(50):
        made = ours("a", cpus=(number,))
        assert dataclasses.asdict(made) == {"lock": "a", "ns": 5, "cpus": (number,), "tags": {}}

    class Pair(values.NamedTuple):
        """Two numbers."""

        first: int
        second: int = 2

    for number in range(50):
        assert Pair(number, 3) == (number, 3)
        assert Pair(number).second == 2


def test_wrong_arguments_are_refused(pair: tuple[Any, Any]) -> None:
    for kind in pair:
        for arguments, by_name in (((), {}), (("a", 1, (), {}, 5), {}), (("a",), {"what": 1}), (("a",), {"lock": "b"})):
            with pytest.raises(TypeError):
                kind(*arguments, **by_name)


def test_objects_do_not_change(pair: tuple[Any, Any]) -> None:
    for kind in pair:
        value = kind("a")
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.ns = 4
        with pytest.raises(dataclasses.FrozenInstanceError):
            del value.ns
        assert value.ns == 5


@values.dataclass(frozen=True, slots=True)
class Key:
    """What can be a key, and be sent to another process."""

    name: str
    cpu: int


def test_equal_objects_are_one_key_and_survive_copies() -> None:
    key = Key("a", 1)
    assert {key: 1}[Key("a", 1)] == 1
    assert hash(key) == hash(("a", 1))
    assert copy.deepcopy(key) == pickle.loads(pickle.dumps(key)) == key


def test_many_objects_are_of_their_class_and_closed() -> None:
    """From some on the method that makes them is compiled, and sets the fields while the object is still open."""
    keys = [Key("a", cpu) for cpu in range(50)]
    assert {type(key) for key in keys} == {Key}
    assert [key.cpu for key in keys] == list(range(50))
    for key in keys[::49]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            key.cpu = 1  # type: ignore[misc]
        with pytest.raises(AttributeError):
            object.__setattr__(key, "other", 1)


def test_a_class_that_it_cannot_make_is_refused() -> None:
    with pytest.raises(TypeError, match="frozen"):
        values.dataclass(frozen=False)


class Library(NamedTuple):
    """A row with the library's named tuple."""

    id: int
    name: str = ""
    cpus: int | None = None


class Ours(values.NamedTuple):
    """The same with ours."""

    id: int
    name: str = ""
    cpus: int | None = None

    @property
    def double(self) -> int:
        """Twice its number."""
        return self.id * 2


def test_named_tuples_are_made_shown_and_changed_alike() -> None:
    for arguments, by_name in (((1,), {}), ((1, "a"), {"cpus": 3}), ((), {"id": 2, "name": "b"})):
        theirs, mine = Library(*arguments, **by_name), Ours(*arguments, **by_name)  # type: ignore[arg-type]
        assert tuple(mine) == tuple(theirs)
        assert repr(mine) == repr(theirs).replace("Library", "Ours")
        assert mine._asdict() == theirs._asdict()
        assert repr(mine._replace(name="c")) == repr(theirs._replace(name="c")).replace("Library", "Ours")
        assert (mine.id, mine.name, mine.cpus, mine.double) == (*theirs, theirs.id * 2)
        assert pickle.loads(pickle.dumps(mine)) == copy.copy(mine) == mine
        assert hash(mine) == hash(theirs)
    assert type(Ours._make([1, "a", None])) is Ours
    assert (Ours._fields, Ours._field_defaults) == (Library._fields, Library._field_defaults)
    assert Ours.__match_args__ == Library.__match_args__
    assert not hasattr(Ours(1), "__dict__")


def test_wrong_values_of_named_tuples_are_refused() -> None:
    for kind in (Library, Ours):
        for arguments, by_name in (((), {}), ((1, "", None, 5), {}), ((1,), {"what": 1}), ((1,), {"id": 2})):
            with pytest.raises(TypeError):
                kind(*arguments, **by_name)  # type: ignore[arg-type]
        # A TypeError since Python 3.13.
        with pytest.raises((TypeError, ValueError)):
            kind(1)._replace(what=1)  # type: ignore[call-arg]
        with pytest.raises(AttributeError):
            kind(1).id = 2  # type: ignore[misc]
