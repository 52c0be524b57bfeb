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
from collections import defaultdict
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
    rate = math.fsum(weight * count(window) for weight, window in zip(each, windows, strict=True)) / length
    watched = sum(window.length_ns for window in windows)
    left = max(0.0, 1 - watched / max(1, end_ns - begin_ns))
    if not left:
        return rate * SECOND, 0.0
    number = sum(1 for window in windows if window.length_ns)
    if number < MIN_WINDOWS:
        return rate * SECOND, None
    if not rate:
        # One that was missed is as likely as not.
        return 0.0, left / watched * SECOND
    squares = math.fsum(
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
    """The rate of the transfers to one offset, each over the windows that watched both of its ends.

    Its error is that of the hits in these windows, and that of being a random part of them.
    """
    pairs: defaultdict[int, int] = defaultdict(int)
    for transfer in watch.transfers:
        if transfer.offset == offset:
            pairs[transfer.from_offset] += transfer.count
    parts = []
    for start, count in pairs.items():
        windows = covering(watch, start, offset)
        part = _part_rate(watch, windows, count)
        factor = _first_factor(windows, watch.span_ns)
        parts.append(Rate(count, part.per_second * factor, None if part.error is None else part.error * factor))
    return _sum(parts, seen)


def _sum(parts: Sequence[Rate], seen: int) -> Rate:
    known = [part.error for part in parts if part.error is not None]
    error = math.sqrt(math.fsum(error**2 for error in known)) if len(known) == len(parts) else None
    return Rate(seen, math.fsum(part.per_second for part in parts), error)


def offset_rate(watch: Watch, offset: int, seen: int) -> Rate:
    """The rate of what was seen `seen` times at one offset, over the windows that watched it.

    How it is spread over the windows is not recorded: it is taken to follow the windows' hits.  Its error is theirs
    and that of being a random part of them.
    """
    return _part_rate(watch, covering(watch, offset), seen)


def _part_rate(watch: Watch, windows: Sequence[Window], seen: int) -> Rate:
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
    return _sum([offset_rate(watch, offset, records) for offset, records in accesses.items()], seen)


def transfer_rate(watch: Watch, offsets: Iterable[int]) -> Rate:
    """Transfers of the line between CPUs; offsets: where it was accessed.

    Windows that watched all of these see every transfer.  Some of its bytes give a lower bound: whatever happens on
    others meanwhile, the line moves at least once for each transfer among these.  It is used where there are no
    windows of all bytes, or where these few saw less than the bound.
    """
    seen = sum(window.transfers for window in watch.windows)
    if not watch.windows:
        return Rate(seen, 0.0, None, at_least=True)
    end = watch.begin_ns + watch.span_ns
    enough = ENOUGH_TIME * watch.watched_ns

    def rate(windows: Sequence[Window], at_least: bool) -> Rate:
        found, error = ratio(windows, lambda window: window.transfers, watch.begin_ns, end)
        factor = _lost_factor(windows) * _first_factor(windows, watch.span_ns)
        return Rate(seen, found * factor, None if error is None else error * factor, at_least)

    whole = covering(watch, *{offset for offset in offsets if 0 <= offset < LINE})
    groups = [covering(watch, *_bytes(mask)) for mask in {window.offsets for window in watch.windows}]
    bounds = [rate(group, True) for group in (*groups, watch.windows) if _time(group) >= enough]
    # Of many bounds the largest is so by accident: the largest that is sure counts.
    best = max(bounds, key=_surely)
    if whole and _time(whole) >= enough:
        exact = rate(whole, bool(never_watched(watch)))
        if exact.per_second >= best.per_second - (exact.error or 0.0):
            return exact
    return best


def _surely(rate: Rate) -> tuple[float, float]:
    """What a rate is at least, at two standard errors."""
    return (0.0 if rate.error is None else max(0.0, rate.per_second - 2 * rate.error)), rate.per_second


def _time(windows: Iterable[Window]) -> int:
    return sum(window.length_ns for window in windows)


def _bytes(mask: int) -> list[int]:
    return [offset for offset in range(LINE) if mask >> offset & 1]


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
