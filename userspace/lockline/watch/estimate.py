# SPDX-License-Identifier: GPL-2.0-or-later
"""From windows to the whole time: rates, how sure they are, and how long each byte was watched.

A rate is a ratio estimator: hits over watched time.  A window stands for the time half-way to its neighbours, since
windows are further apart, and shorter, the more hits there are: each hit and each nanosecond of window w counts
g = (time that w stands for) / (its length) times,

    R = sum(g * hits) / sum(g * length)

with the variance of that ratio by linearisation (Cochran, Sampling Techniques, 3rd edition, 6.4 and 2.9), residuals
e = hits - R * length:

    var(R) = (1 - f) * n / (n - 1) * sum((g * e)^2) / sum(g * length)^2

f is the share of the time that was watched: at full coverage nothing was left to chance, and R is exact.

Who wrote before the first access of a window is not seen, so that it is never a transfer: it is taken to be one as
often as the others.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from lockline.watch.model import Rate, Transfer, Watch, Window

SECOND = 1_000_000_000
# Windows of some set of bytes speak for the whole line from so much of the watched time on.
ENOUGH_TIME = 0.05
MIN_WINDOWS = 2
LINE = 64


def weights(windows: Sequence[Window], begin_ns: int, end_ns: int) -> list[float]:
    """For each window, sorted by time, the time that it stands for over its own length; at least 1."""
    if not windows:
        return []
    edges = [begin_ns]
    for one, other in pairwise(windows):
        edges.append((one.begin_ns + one.length_ns + other.begin_ns) // 2)
    edges.append(end_ns)
    return [
        max(1.0, (after - before) / window.length_ns) if window.length_ns else 0.0
        for window, (before, after) in zip(windows, pairwise(edges), strict=True)
    ]


def ratio(
    windows: Sequence[Window], count: Callable[[Window], int], begin_ns: int, end_ns: int
) -> tuple[float, float | None]:
    """What `count` gives per second over the whole time, and its standard error (None: a single window tells none)."""
    each = weights(windows, begin_ns, end_ns)
    length = sum(weight * window.length_ns for weight, window in zip(each, windows, strict=True))
    if not length:
        return 0.0, None
    rate = sum(weight * count(window) for weight, window in zip(each, windows, strict=True)) / length
    watched = sum(window.length_ns for window in windows)
    left = max(0.0, 1 - watched / max(1, end_ns - begin_ns))
    if not left:
        return rate * SECOND, 0.0
    number = sum(1 for window in windows if window.length_ns)
    if number < MIN_WINDOWS:
        return rate * SECOND, None
    squares = sum(
        (weight * (count(window) - rate * window.length_ns)) ** 2 for weight, window in zip(each, windows, strict=True)
    )
    variance = left * number / (number - 1) * squares / length**2
    return rate * SECOND, math.sqrt(variance) * SECOND


def covering(watch: Watch, *offsets: int) -> list[Window]:
    """The windows in which all of these bytes were watched; bytes of which the offset is not known are in all."""
    wanted = 0
    for offset in offsets:
        wanted |= 1 << offset if 0 <= offset < LINE else 0
    return [window for window in watch.windows if window.offsets & wanted == wanted]


def coverage(watch: Watch, offset: int) -> float:
    """The share of the time in which this byte was watched."""
    watched = sum(window.length_ns for window in covering(watch, offset))
    return min(1.0, watched / watch.span_ns) if watch.span_ns > 0 else 0.0


def _recorded(window: Window) -> int:
    return window.hits - window.lost


def _lost_factor(windows: Iterable[Window]) -> float:
    """Hits in the kernel for each hit of which there is a record."""
    hits = recorded = 0
    for window in windows:
        hits += window.hits
        recorded += _recorded(window)
    return hits / recorded if recorded else 1.0


def _first_factor(windows: Iterable[Window], span_ns: int) -> float:
    """Accesses for each access whose predecessor was seen."""
    hits = judged = length = 0
    for window in windows:
        hits += window.hits
        judged += max(0, window.hits - 1)
        length += window.length_ns
    return hits / judged if judged and length < span_ns else 1.0


def offset_transfer_rate(watch: Watch, offset: int, seen: int) -> Rate:
    """The same as offset_rate(), of transfers."""
    rate = offset_rate(watch, offset, seen)
    factor = _first_factor(covering(watch, offset), watch.span_ns)
    return Rate(seen, rate.per_second * factor, None if rate.error is None else rate.error * factor)


def offset_rate(watch: Watch, offset: int, seen: int) -> Rate:
    """The rate of what was seen `seen` times at one offset, over the windows that watched it.

    How it is spread over the windows is not recorded: it is taken to follow the windows' hits.  Its error is theirs
    and that of being a random part of them.
    """
    windows = covering(watch, offset)
    length = sum(window.length_ns for window in windows)
    if not length:
        return Rate(seen, 0.0, None)
    hits = sum(window.hits for window in windows)
    whole, error = ratio(windows, lambda window: window.hits, watch.begin_ns, watch.begin_ns + watch.span_ns)
    plain = hits / length * SECOND
    rate = seen / length * SECOND * _lost_factor(windows) * (whole / plain if plain else 1.0)
    if error is None or not seen or not whole:
        return Rate(seen, rate, 0.0 if error == 0 else None)
    left = max(0.0, 1 - length / max(1, watch.span_ns))
    return Rate(seen, rate, rate * math.sqrt((error / whole) ** 2 + left / seen))


def hit_rate(watch: Watch, accesses: Mapping[int, int]) -> Rate:
    """All accesses to the line; accesses: records by offset.

    Bytes that were watched in windows of their own add up, and so do the squares of their errors.
    """
    seen = sum(window.hits for window in watch.windows)
    sets = {window.offsets for window in watch.windows}
    if len(sets) <= 1:
        windows = watch.windows
        rate, error = ratio(windows, lambda window: window.hits, watch.begin_ns, watch.begin_ns + watch.span_ns)
        return Rate(seen, rate, error)
    parts = [offset_rate(watch, offset, records) for offset, records in accesses.items()]
    errors = [part.error for part in parts]
    known = [error for error in errors if error is not None]
    return Rate(
        seen,
        sum(part.per_second for part in parts),
        math.sqrt(sum(error**2 for error in known)) if parts and len(known) == len(errors) else None,
    )


def transfer_rate(watch: Watch, offsets: Iterable[int]) -> Rate:
    """Transfers of the line between CPUs; offsets: where it was accessed.

    Windows that watched all of these see every transfer.  Where there are none, those bytes that show most give a
    lower bound: whatever happens on others meanwhile, the line moves at least once for each transfer among these.
    """
    seen = sum(window.transfers for window in watch.windows)
    if not watch.windows:
        return Rate(seen, 0.0, None)
    end = watch.begin_ns + watch.span_ns
    used = sorted({offset for offset in offsets if 0 <= offset < LINE})
    whole = covering(watch, *used)
    enough = ENOUGH_TIME * watch.watched_ns

    def rate(windows: Sequence[Window]) -> tuple[float, float | None]:
        found, error = ratio(windows, lambda window: window.transfers, watch.begin_ns, end)
        factor = _lost_factor(windows) * _first_factor(windows, watch.span_ns)
        return found * factor, None if error is None else error * factor

    if whole and sum(window.length_ns for window in whole) >= enough:
        return Rate(seen, *rate(whole), at_least=bool(never_watched(watch)))
    sets = {window.offsets for window in watch.windows}
    groups = [[window for window in watch.windows if window.offsets & mask == mask] for mask in sets]
    usable = [group for group in groups if sum(window.length_ns for window in group) >= enough] or groups
    best = max((rate(group) for group in usable), key=lambda found: found[0])
    return Rate(seen, *best, at_least=True)


def never_watched(watch: Watch) -> list[tuple[int, int]]:
    """The stretches of the line that no window watched: first byte, and the byte behind the last one."""
    seen = 0
    for window in watch.windows:
        seen |= window.offsets if window.length_ns else 0
    found: list[tuple[int, int]] = []
    for offset in range(LINE):
        if seen >> offset & 1:
            continue
        if found and found[-1][1] == offset:
            found[-1] = found[-1][0], offset + 1
        else:
            found.append((offset, offset + 1))
    return found


def pair_time(watch: Watch, transfer: Transfer) -> int:
    """Time in which both ends of a transfer were watched, ns."""
    return sum(window.length_ns for window in covering(watch, transfer.from_offset, transfer.offset))


def unwatched_pairs(watch: Watch, offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Pairs of accessed offsets that no window watched at once: transfers between them are not seen."""
    used = sorted({offset for offset in offsets if 0 <= offset < LINE})
    sets = {window.offsets for window in watch.windows if window.length_ns}
    return [
        (one, other)
        for index, one in enumerate(used)
        for other in used[index + 1 :]
        if not any(mask >> one & 1 and mask >> other & 1 for mask in sets)
    ]
