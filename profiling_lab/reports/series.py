"""Numbers over time beside a timeline's lanes: device memory, sampled metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from profiling_lab.reports.model import MetricSeries

if TYPE_CHECKING:
    from profiling_lab.captures.nsys_export import NsysCapture


def of_memory(capture: NsysCapture, window_ns: tuple[int, int]) -> list[MetricSeries]:
    """Device memory over the window, counted from its lowest: what was held before is not recorded."""
    import polars as pl

    events = capture.memory_events.filter(
        pl.col("kind").str.starts_with("device")
        & (pl.col("start_ns") >= window_ns[0])
        & (pl.col("start_ns") < window_ns[1])
    )
    series = []
    for device in sorted(events["device"].unique().to_list()):
        rows = events.filter(pl.col("device") == device)
        totals = [0, *rows["bytes"].cum_sum().to_list()]
        lowest = min(totals)
        values = [total - lowest for total in totals]
        series.append(
            MetricSeries(
                f"GPU {device}",
                "Allocated, above the lowest",
                [window_ns[0], *rows["start_ns"].to_list()],
                values,
                unit="bytes",
                maximum=max(values),
                holds_on=True,
                key="memory",
            )
        )
    return series


def of_metrics(
    capture: NsysCapture, window_ns: tuple[int, int], shown: Mapping[str, str]
) -> list[MetricSeries]:
    """Sampled metrics over the window, by their names and what to call them."""
    import polars as pl

    samples = capture.gpu_metrics.filter(pl.col("metric").is_in(list(shown)))
    series = []
    for device in sorted(samples["device"].unique().to_list()):
        for metric, label in shown.items():
            rows = samples.filter((pl.col("device") == device) & (pl.col("metric") == metric))
            # One sample past the window: it covers the window's last part.
            last = rows.filter(pl.col("timestamp_ns") >= window_ns[1])["timestamp_ns"].min()
            rows = rows.filter(
                (pl.col("timestamp_ns") > window_ns[0])
                & (pl.col("timestamp_ns") <= (window_ns[1] if last is None else last))
            )
            if rows.height:
                series.append(
                    MetricSeries(
                        group=f"GPU {device}",
                        label=label,
                        timestamp_ns=rows["timestamp_ns"].to_list(),
                        values=rows["value"].to_list(),
                    )
                )
    return series
