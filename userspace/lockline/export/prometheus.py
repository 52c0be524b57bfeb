# SPDX-License-Identifier: GPL-2.0-or-later
"""Metrics as Prometheus reads them, written by prometheus_client."""

import importlib
from collections.abc import Iterator
from typing import Any

from lockline import version
from lockline.base.errors import LocklineError
from lockline.export.metrics import BUCKETS_NS, NS, Metrics

# By counter of Metrics.counters: name, help, name of the label.
_COUNTERS = {
    "recorded_ns": ("lockline_recorded_seconds", "Time that was recorded.", ""),
    "probe_ns": ("lockline_probe_seconds", "CPU time of the BPF programs, estimated from measured windows.", ""),
    "collector_cpu_ns": ("lockline_collector_cpu_seconds", "CPU time of the collector.", ""),
    "lost": ("lockline_events_lost", "What the figures lack, by reason.", "reason"),
}


def load_client() -> Any:
    """The package prometheus_client.  Raises LocklineError with what to install."""
    try:
        return importlib.import_module("prometheus_client")
    except ImportError as error:
        raise LocklineError(
            "exporter: prometheus_client is not installed; pip install 'lockline[exporter]', or on Debian apt-get"
            " install python3-prometheus-client"
        ) from error


def _tallies(core: Any, metrics: Metrics) -> Iterator[Any]:
    families = (
        ("lockline_lock", "waits for locks", ("kind", "lock"), metrics.locks),
        (
            "lockline_container",
            "waits of containers' tasks, estimated",
            ("namespace", "pod", "container"),
            metrics.containers,
        ),
    )
    for name, what, labels, series in families:
        waits = core.CounterMetricFamily(f"{name}_waits", f"Number of {what}.", labels=labels)
        seconds = core.CounterMetricFamily(f"{name}_wait_seconds", f"Sum of {what}.", labels=labels)
        for values, tally in sorted(series.counted.items()):
            waits.add_metric(values, tally.waits)
            seconds.add_metric(values, tally.wait_ns / NS)
        yield waits
        yield seconds


def families(core: Any, metrics: Metrics) -> Iterator[Any]:
    """The families of metrics; core: prometheus_client.core."""
    build = core.GaugeMetricFamily("lockline_build_info", "The version, in a label.", labels=["version"])
    build.add_metric([version()], 1)
    yield build
    yield core.CounterMetricFamily("lockline_updates", "Reports that these metrics were made from.", metrics.updates)
    yield from _tallies(core, metrics)
    lengths = core.HistogramMetricFamily("lockline_wait_seconds", "Lengths of waits by kind.", labels=["kind"])
    sums: dict[str, int] = {}
    for (kind, _), tally in metrics.locks.counted.items():
        sums[kind] = sums.get(kind, 0) + tally.wait_ns
    for kind, counts in sorted(metrics.kinds.items()):
        below, buckets = 0, []
        for end, count in zip((*BUCKETS_NS, None), counts, strict=True):
            below += count
            buckets.append(("+Inf" if end is None else repr(end / NS), below))
        lengths.add_metric([kind], buckets=buckets, sum_value=sums.get(kind, 0) / NS)
    yield lengths
    found = core.GaugeMetricFamily("lockline_findings", "Findings of the last report by rule.", labels=["rule"])
    for rule, count in sorted(metrics.findings.items()):
        found.add_metric([rule], count)
    yield found
    for counter, (name, what, label) in _COUNTERS.items():
        family = core.CounterMetricFamily(name, what, labels=[label] if label else [])
        for (key, value), number in sorted(metrics.counters.items()):
            if key == counter:
                family.add_metric([value] if label else [], number / NS if key.endswith("_ns") else number)
        yield family
    yield core.GaugeMetricFamily("lockline_collector_memory_bytes", "Peak of the collector.", metrics.memory_bytes)


class _Collector:
    """What a registry asks."""

    def __init__(self, core: Any, metrics: Metrics) -> None:
        self._core, self._metrics = core, metrics

    def collect(self) -> Iterator[Any]:
        return families(self._core, self._metrics)


def render(metrics: Metrics) -> bytes:
    """The metrics in Prometheus' text format.  Raises LocklineError without prometheus_client."""
    client = load_client()
    registry = client.CollectorRegistry(auto_describe=False)
    registry.register(_Collector(importlib.import_module("prometheus_client.core"), metrics))
    text: bytes = client.generate_latest(registry)
    return text
