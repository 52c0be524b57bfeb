# SPDX-License-Identifier: GPL-2.0-or-later
"""What a PMU samples of a run: which accesses it can sample, and what it says of each."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from c2c.access_kinds import IBS, INTEL, SPE, Kind
from lab.caches import Event, Program, Variable

Family = Literal["intel", "ibs", "spe"]


@dataclass(frozen=True)
class Pmu:
    """One way of sampling.

    loads, stores: share of the accesses that are sampled; few_hitm: share of transfers that show as HITM, of the others
    the load is one more hit of the fill buffer (older Intel processors with one socket); skid: share of samples that
    name a later instruction of the function; far: share that name the access before, perhaps of another function;
    stray: share of samples with the address of another access; most: no more samples than these are kept (0: all).
    """

    family: Family
    loads: float
    stores: float
    few_hitm: float = 1.0
    skid: float = 0.0
    stray: float = 0.0
    far: float = 0.0
    most: int = 0

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The data sources that it tells."""
        return {"intel": INTEL, "ibs": IBS, "spe": SPE}[self.family]


class Sample(NamedTuple):
    """One sample: function and operation stand for the instruction."""

    thread: int
    cpu: int
    function: str
    operation: int  # number of the instruction in its function
    address: int
    kind: Kind
    latency: int


_INTEL_LOADS = {
    "L1": "L1",
    "upgrade": "L1",
    "fill buffer": "fill buffer",
    "LLC": "LLC, snoop hit",
    "remote hit": "remote hit",
    "local HITM": "local HITM",
    "remote HITM": "remote HITM",
    "DRAM": "local DRAM",
}
_IBS_LOADS = {
    "L1": "L1",
    "upgrade": "L1",
    "fill buffer": "L1",
    "LLC": "LLC",
    "remote hit": "LLC",
    "local HITM": "local HITM",
    "remote HITM": "remote HITM",
    "DRAM": "local DRAM",
}
_SPE_LOADS = {
    "L1": "L1",
    "upgrade": "L1",
    "fill buffer": "L1",
    "LLC": "local peer",
    "remote hit": "remote peer",
    "local HITM": "local peer",
    "remote HITM": "remote peer",
    "DRAM": "local DRAM",
}
_LOADS = {"intel": _INTEL_LOADS, "ibs": _IBS_LOADS, "spe": _SPE_LOADS}
# Of loads that hit L1, those that still took 30 cycles: they waited for something else.
_SLOW_L1 = 0.3
# IBS tags few stores.
_IBS_STORES = 0.03


def make_pmu(rng: random.Random) -> Pmu:
    """One of the ways that people sample."""
    family: Family = rng.choice(("intel", "intel", "intel", "ibs", "spe"))
    loads = rng.choice((0.03, 0.1, 0.3, 0.8))
    stores = loads * rng.choice((0.3, 1.0, 1.0, 2.0))
    if family == "ibs":
        stores = loads * _IBS_STORES * rng.choice((0.0, 0.0, 1.0))
    if family == "spe":
        stores = rng.choice((0.0, stores))
    if family == "intel" and rng.random() < 0.15:
        stores = 0.0
    few = rng.choice((0.0005, 0.01)) if family == "intel" and rng.random() < 0.1 else 1.0
    skid = rng.choice((0.0, 0.05, 0.2)) if family == "intel" else 0.0
    return Pmu(family, loads, stores, few, skid, rng.choice((0.0, 0.0, 0.003)))


def make_wide_pmu(rng: random.Random) -> Pmu:
    """Sampling that is worse: few samples, skid into other functions, more mistaken addresses."""
    pmu = make_pmu(rng)
    return replace(
        pmu,
        stray=rng.choice((0.0, 0.003, 0.02)),
        far=rng.choice((0.0, 0.0, 0.02, 0.1)),
        most=rng.choice((0, 0, 0, 5, 10, 20, 50, 200)),
    )


# The instructions of a step, where they are not the one that it is called after.
_KINDS = {"acquire": ("load", "atomic"), "enter": ("load",), "release": ("store",)}


class Code:
    """Numbers the instructions of each function in the order in which they are met."""

    def __init__(self, program: Program) -> None:
        self.numbers: dict[tuple[str, str, tuple[Variable | str, ...]], int] = {}
        self.in_function: dict[str, int] = {}
        self.of: dict[tuple[str, str, Variable], int] = {}
        for role in program.roles:
            for choice in role.choices:
                for step in choice:
                    if step.slow:
                        self._add(step.function, ("atomic",), step.variables)
                    self._add(step.slow or step.function, _KINDS.get(step.kind, (step.kind,)), step.variables)

    def _add(self, function: str, kinds: Sequence[str], variables: tuple[Variable, ...]) -> None:
        for kind in kinds:
            number = self._number(function, kind, variables)
            for variable in variables:
                self.of[function, kind, variable] = number

    def _number(self, function: str, kind: str, variables: tuple[Variable, ...]) -> int:
        key = function, kind, tuple(one.name if one.which else one for one in variables)
        if key not in self.numbers:
            self.numbers[key] = self.in_function[function] = self.in_function.get(function, -1) + 1
        return self.numbers[key]


def _load(pmu: Pmu, event: Event, rng: random.Random) -> Kind | None:
    served = event.served
    if pmu.family == "intel":
        if served in ("L1", "upgrade") and rng.random() > _SLOW_L1:
            return None
        if served.endswith("HITM") and rng.random() > pmu.few_hitm:
            served = "fill buffer"
    return pmu.kinds[_LOADS[pmu.family][served]]


def _store(pmu: Pmu, event: Event, rng: random.Random) -> Kind:
    if pmu.family != "intel":
        return pmu.kinds["store, no level"]
    # Most stores wait in the store buffer for the line, and find it then.
    miss = event.served not in ("L1", "fill buffer") and rng.random() < 0.3
    return pmu.kinds["store, L1 miss" if miss else "store, L1 hit"]


def sample(program: Program, events: Sequence[Event], pmu: Pmu, base: int, rng: random.Random) -> list[Sample]:
    """The samples of a run; base: the address of line 0."""
    code = Code(program)
    found: list[Sample] = []
    before = events[0].variable if events else None
    last: dict[int, tuple[str, int]] = {}
    for event in events:
        variable = event.variable
        kinds: list[Kind] = []
        if event.kind != "store" and rng.random() < pmu.loads:
            kind = _load(pmu, event, rng)
            if kind is not None:
                kinds.append(kind.locked() if event.kind == "atomic" else kind)
        if event.kind != "load" and rng.random() < pmu.stores:
            kind = _store(pmu, event, rng)
            kinds.append(kind.locked() if event.kind == "atomic" else kind)
        for kind in kinds:
            place = variable
            if pmu.stray and before is not None and rng.random() < pmu.stray:
                place = before
            function, operation = event.function, code.of[event.function, event.kind, variable]
            if pmu.far and event.thread in last and rng.random() < pmu.far:
                function, operation = last[event.thread]
            elif rng.random() < pmu.skid:
                operation = min(operation + 1, code.in_function[event.function])
            address = base + 64 * place.line + place.offset
            found.append(Sample(event.thread, event.cpu, function, operation, address, kind, event.latency))
        before = variable
        if pmu.far:
            last[event.thread] = event.function, code.of[event.function, event.kind, variable]
    if pmu.most and len(found) > pmu.most:
        found = [found[at] for at in sorted(rng.sample(range(len(found)), pmu.most))]
    return found


def without_stores(pmu: Pmu) -> Pmu:
    """The same with store sampling off."""
    return replace(pmu, stores=0.0)
