# SPDX-License-Identifier: GPL-2.0-or-later
"""Frozen dataclasses that are quick to import.

dataclasses.dataclass() compiles six methods for each class, about 1 ms where a report needs eighty classes and makes
objects of few.  The decorator here has the library collect the fields, shares the methods that need no compiling, and
compiles __init__ when the first object is made.  Type checkers see the library's own decorator.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses

    def _values(self, names):
        return tuple([getattr(self, name) for name in names])

    def _repr(self):
        shown = [f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _compared(self):
        return _values(self, [field.name for field in dataclasses.fields(self) if field.compare])

    def _eq(self, other):
        return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented

    def _hash(self):
        return hash(_compared(self))

    def _setattr(self, name, value):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _delattr(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _reduce(self):
        return type(self), _values(self, [field.name for field in dataclasses.fields(self)])

    _SHARED = {
        "__repr__": _repr,
        "__eq__": _eq,
        "__hash__": _hash,
        "__setattr__": _setattr,
        "__delattr__": _delattr,
        "__reduce__": _reduce,
    }

    def _compile_init(cls):
        names = {"_set": object.__setattr__, "_absent": dataclasses.MISSING}
        parameters, lines = ["self"], []
        for field in dataclasses.fields(cls):
            if not field.init or field.kw_only:
                raise TypeError(f"{cls.__qualname__}.{field.name}: every field is an argument by position")
            value = field.name
            if field.default_factory is not dataclasses.MISSING:
                names[f"_make_{value}"] = field.default_factory
                parameters.append(f"{value}=_absent")
                lines.append(f" _set(self, '{value}', _make_{value}() if {value} is _absent else {value})")
                continue
            if field.default is not dataclasses.MISSING:
                names[f"_default_{value}"] = field.default
                value = f"{value}=_default_{value}"
            parameters.append(value)
            lines.append(f" _set(self, '{field.name}', {field.name})")
        found = {}
        exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass"), names, found)
        return found["__init__"]

    def dataclass(*, frozen, slots=False):
        """The library's decorator of the same name, for frozen classes without __post_init__."""
        if not frozen:
            raise TypeError("frozen classes only")

        def decorate(cls):
            own = set(vars(cls))
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)

            def first(self, *arguments, **by_name):
                made.__init__ = _compile_init(made)
                made.__init__(self, *arguments, **by_name)

            made.__init__ = first
            for name, method in _SHARED.items():
                if name not in own:
                    setattr(made, name, method)
            return made

        return decorate
