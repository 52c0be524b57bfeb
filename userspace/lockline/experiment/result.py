# SPDX-License-Identifier: GPL-2.0-or-later
"""An experiment that was made, with what is needed to tell of it."""

from dataclasses import dataclass

from lockline.experiment.judge import Judgement
from lockline.experiment.run import Made


@dataclass(frozen=True, slots=True)
class Told:
    """What it was to be.  who: whose work is counted; "": not known.  check_rate: of the counter, before the start."""

    spec: str
    change_kind: str
    change: str
    change_pids: tuple[int, ...]
    counter: str
    counter_pid: int | None
    who: str
    check_rate: float
    slice_s: float
    warm_up: float


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it.  own_cpu_s: CPU time of lockline; own_share: of all CPUs' time meanwhile."""

    told: Told
    made: Made
    judged: Judgement
    own_cpu_s: float
    own_share: float
