# SPDX-License-Identifier: GPL-2.0-or-later
"""Frozen dataclasses and named tuples that are quick to import.

The library's dataclasses load `inspect`, and compile six methods for each class: a fifth of the start of a report.
Here methods are shared, and __init__ is compiled when a class has made some objects.  The library knows these classes
all the same: fields(), replace() and asdict() work, and load the library then.  Named tuples likewise have all that the
library's have.  Type checkers see the library's own.
"""

import sys
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import is_dataclass as is_dataclass
    from dataclasses import replace as replace
    from typing import NamedTuple as NamedTuple
else:
    from _collections import _tuplegetter

    _ABSENT = object()
    _OWN = "__lockline_fields__"
    # To compile a method takes as long as to make so many objects without it.
    _FEW = 20
    _OPENS = " _set(self, '__class__', _open)"

    class _Field:
        """What the class says of one of its fields; name and type: set by dataclass()."""

        __slots__ = ("compare", "default", "default_factory", "metadata", "name", "repr", "type")

        def __init__(self, default, default_factory, shown, compare, metadata):
            self.name = self.type = None
            self.default = default
            self.default_factory = default_factory
            self.repr = shown
            self.compare = compare
            self.metadata = metadata or {}

    def field(*, default=_ABSENT, default_factory=_ABSENT, metadata=None):
        """As the library's, for its classes too where it is loaded."""
        library = sys.modules.get("dataclasses")
        if library is not None:
            given = {"default": default, "default_factory": default_factory}
            return library.field(
                **{name: value for name, value in given.items() if value is not _ABSENT}, metadata=metadata
            )
        return _Field(default, default_factory, True, True, metadata)

    def fields(shape):
        """As the library's."""
        own = getattr(shape, _OWN, None)
        if own is not None:
            return tuple(own.values())
        import dataclasses

        return dataclasses.fields(shape)

    def is_dataclass(shape):
        """As the library's, of classes."""
        return isinstance(shape, type) and (hasattr(shape, _OWN) or hasattr(shape, "__dataclass_fields__"))

    def replace(value, **changes):
        """As the library's."""
        own = getattr(type(value), _OWN, None)
        if own is None:
            import dataclasses

            return dataclasses.replace(value, **changes)
        return type(value)(*[changes.pop(name) if name in changes else getattr(value, name) for name in own], **changes)

    def _values(self, names):
        return tuple([getattr(self, name) for name in names])

    def _repr(self):
        shown = [f"{name}={getattr(self, name)!r}" for name, of in self.__lockline_fields__.items() if of.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _compared(self):
        return _values(self, [name for name, of in self.__lockline_fields__.items() if of.compare])

    def _eq(self, other):
        return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented

    def _hash(self):
        return hash(_compared(self))

    def _setattr(self, name, value):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _delattr(self, name):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _reduce(self):
        return type(self), _values(self, self.__lockline_fields__)

    _SHARED = {
        "__setattr__": _setattr,
        "__delattr__": _delattr,
        "__reduce__": _reduce,
        "__repr__": _repr,
    }
    _COMPARED = {"__eq__": _eq, "__hash__": _hash}

    class _Library:
        """What the library keeps in its own classes, made when it asks for it."""

        def __init__(self, name):
            self.name = name

        def __get__(self, _, shape):
            import dataclasses

            listed = []
            for name, of in getattr(shape, _OWN).items():
                given = {"repr": of.repr, "compare": of.compare, "metadata": of.metadata}
                if of.default is not _ABSENT:
                    given["default"] = of.default
                if of.default_factory is not _ABSENT:
                    given["default_factory"] = of.default_factory
                listed.append((name, of.type, dataclasses.field(**given)))
            made = dataclasses.make_dataclass(shape.__name__, listed, frozen=True)
            # A class of the library takes milliseconds to make: once is enough.
            for name in _LIBRARY:
                setattr(shape, name, getattr(made, name))
            return getattr(made, self.name)

    _LIBRARY = {name: _Library(name) for name in ("__dataclass_fields__", "__dataclass_params__")}

    def _field_of(given):
        if isinstance(given, _Field):
            return given
        library = sys.modules.get("dataclasses")
        if library is None or not isinstance(given, library.Field):
            return _Field(given, _ABSENT, True, True, None)
        if not given.init or given.kw_only is True:
            raise TypeError("every field is an argument by position")
        default, factory = (
            _ABSENT if value is library.MISSING else value for value in (given.default, given.default_factory)
        )
        return _Field(default, factory, given.repr, given.compare, given.metadata)

    def _collect(cls):
        """The fields by name, those of bases first."""
        found = {}
        for base in cls.__mro__[:0:-1]:
            found.update(vars(base).get(_OWN, ()))
        for name, kind in vars(cls).get("__annotations__", {}).items():
            if kind is ClassVar or getattr(kind, "__origin__", None) is ClassVar:
                continue
            of = _field_of(vars(cls).get(name, _ABSENT))
            of.name, of.type = name, kind
            found[name] = of
        return found

    def _with_slots(cls, names, more):
        """The class anew, with slots for its fields, and more attributes."""
        inherited = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
        body = {name: value for name, value in vars(cls).items() if name not in names}
        body.pop("__dict__", None)
        body.pop("__weakref__", None)
        body.update(more)
        body["__slots__"] = tuple(name for name in names if name not in inherited)
        made = type(cls)(cls.__name__, cls.__bases__, body)
        made.__qualname__ = cls.__qualname__
        return made

    def _compile_init(cls):
        # An object of a class without slots sets its fields one by one.  One with slots is of an open class meanwhile,
        # which has the same slots: Python sets these in a fourth of the time.
        names = {"_set": object.__setattr__, "_absent": _ABSENT, "_closed": cls}
        opened = None
        if "__slots__" in vars(cls):
            names["_open"] = type(cls.__name__, cls.__bases__, {"__slots__": cls.__slots__})
            opened = _OPENS if names["_open"].__setattr__ is object.__setattr__ else None
        parameters, lines = ["self"], [opened] if opened else []
        for name, of in getattr(cls, _OWN).items():
            value, given = name, name
            if of.default_factory is not _ABSENT:
                names[f"_make_{name}"] = of.default_factory
                given = f"{name}=_absent"
                value = f"_make_{name}() if {name} is _absent else {name}"
            elif of.default is not _ABSENT:
                names[f"_default_{name}"] = of.default
                given = f"{name}=_default_{name}"
            parameters.append(given)
            lines.append(f" self.{name} = {value}" if opened else f" _set(self, '{name}', {value})")
        if opened:
            lines.append(" self.__class__ = _closed")
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()")
        found = {}
        exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass"), names, found)
        return found["__init__"]

    def _set_fields(self, arguments, by_name):
        """What __init__ does, without being compiled; False: the arguments do not fit."""
        own = self.__lockline_fields__
        values = list(arguments)
        for of in list(own.values())[len(values) :]:
            value = by_name.pop(of.name, of.default)
            if value is _ABSENT and of.default_factory is not _ABSENT:
                value = of.default_factory()
            values.append(value)
        if by_name or len(values) > len(own) or any(value is _ABSENT for value in values):
            return False
        for name, value in zip(own, values, strict=True):
            object.__setattr__(self, name, value)
        if hasattr(self, "__post_init__"):
            self.__post_init__()
        return True

    def dataclass(*, frozen, slots=False, eq=True):
        """The library's decorator of the same name, for frozen classes."""
        if not frozen:
            raise TypeError("frozen classes only")

        def decorate(cls):
            own = set(vars(cls))
            collected = _collect(cls)
            calls = 0

            def first(self, *arguments, **by_name):
                nonlocal calls
                calls += 1
                if calls > _FEW or not _set_fields(self, arguments, dict(by_name)):
                    made.__init__ = _compile_init(made)
                    made.__init__(self, *arguments, **by_name)

            more = {_OWN: collected, "__init__": first, **_LIBRARY}
            shared = {"__match_args__": tuple(collected), **_SHARED, **(_COMPARED if eq else {})}
            more.update((name, value) for name, value in shared.items() if name not in own)
            if slots:
                # At once: each attribute that is set later has Python look through the class.
                made = _with_slots(cls, collected, more)
                return made
            made = cls
            for name, of in collected.items():
                if name in own and of.default is _ABSENT:
                    delattr(cls, name)
                elif name in own:
                    setattr(cls, name, of.default)
            for name, value in more.items():
                setattr(made, name, value)
            return made

        return decorate

    def _compile_new(cls):
        names = {f"_default_{name}": value for name, value in cls._field_defaults.items()}
        parameters = [f"{name}=_default_{name}" if name in cls._field_defaults else name for name in cls._fields]
        values = "".join(f"{name}, " for name in cls._fields)
        found = {}
        code = f"def __new__({', '.join(['_cls', *parameters])}):\n return _new(_cls, ({values}))"
        exec(code, names | {"_new": tuple.__new__}, found)
        return found["__new__"]

    class _NamedType(type):
        """Makes classes of named tuples, but for the base of all."""

        def __new__(cls, name, bases, body):
            # At once: each attribute that is set later has Python look through the class.
            getters = {name: _tuplegetter(number, None) for number, name in enumerate(body.get("__annotations__", ()))}
            made = super().__new__(cls, name, bases, {"__slots__": (), **body, **getters})
            if bases == (tuple,):
                return made
            made._fields = made.__match_args__ = tuple(made.__annotations__)
            made._field_defaults = {name: body[name] for name in made._fields if name in body}
            calls = 0

            def first(_, *arguments, **by_name):
                nonlocal calls
                calls += 1
                if calls <= _FEW and not by_name and len(arguments) == len(made._fields):
                    return tuple.__new__(made, arguments)
                made.__new__ = staticmethod(_compile_new(made))
                return made(*arguments, **by_name)

            made.__new__ = staticmethod(first)
            # Python 3.14 makes annotations when they are asked for.
            for number, name in enumerate(made._fields[len(getters) :], len(getters)):
                setattr(made, name, _tuplegetter(number, None))
            return made

    class NamedTuple(tuple, metaclass=_NamedType):
        """As the library's, but that a class of them takes a tenth of the time to make.

        Its classes are not inherited from.  _make() takes as many values as there are fields without counting them.
        """

        __slots__ = ()
        _make = classmethod(tuple.__new__)

        def _replace(self, **changes):
            made = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"no such fields: {list(changes)!r}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self):
            return tuple(self)
