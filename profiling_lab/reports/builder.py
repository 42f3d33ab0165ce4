"""From an opened capture to the lanes of a report's timeline.

What is drawn is what was recorded. What was found out about it (busy time, gaps, shares of time,
findings) is the caller's, and is passed through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.reports.model import CaptureSection, Fact, Lane, MetricSeries, TimeShare
from profiling_lab.units import format_bytes

if TYPE_CHECKING:
    import polars as pl

    from profiling_lab.findings import Finding
    from profiling_lab.nsys_export import NsysCapture

HOST = "Host"
COPY_KIND = {"H2D": "copy_in", "H2A": "copy_in", "D2H": "copy_out", "A2H": "copy_out"}
COPY_NAME = {
    "H2D": "Copy, host to device",
    "D2H": "Copy, device to host",
    "D2D": "Copy on the device",
    "P2P": "Copy, device to device",
    "H2H": "Copy, host to host",
}
# The calls that CUDA documents to return only when the device is done are drawn apart. The kinds of
# the synchronisation table do not serve: recordings write a stream's synchronisation as a wait.
SYNCHRONIZING_CALL = "Synchronize$"
SHOWN_METRICS = {
    "SMs Active [Throughput %]": "SM active",
    "DRAM Read Bandwidth [Throughput %]": "DRAM read",
    "DRAM Write Bandwidth [Throughput %]": "DRAM write",
    "DRAM Bandwidth [Throughput %]": "DRAM",
}


def section_from_capture(
    capture: NsysCapture,
    *,
    window_ns: tuple[int, int],
    findings: Sequence[Finding] = (),
    busy: Mapping[int, int] | int | None = None,
    gaps: Iterable[Any] = (),
    where_the_time_went: Sequence[TimeShare | tuple] = (),
    facts: Sequence[Fact | tuple] = (),
    places: Mapping[str, tuple[int, int]] | None = None,
    name: str | None = None,
    provenance: Mapping[str, Any] | None = None,
    metrics: Mapping[str, str] | None = None,
) -> CaptureSection:
    """The section of a report for one capture: lanes from its tables, the rest as given.

    window_ns: (start, end) on the capture's clock; only what overlaps it is drawn.
    busy: ns in which each device had work, as a mapping of devices or one number for device 0.
    gaps: Gap, mappings with start_ns and end_ns (and device, note or cause), or (start, end).
    where_the_time_went: (label, ns) or (label, ns, kind), together the window's length.
    provenance: left out, `provenance.json` beside the capture, if it is there.
    metrics: recorded metric names and what to call them; left out, SM active and DRAM.
    Raises what the capture raises for tables it lacks.
    """
    if provenance is None:
        provenance = captures.provenance_beside(capture.file)
    lanes = _host_lanes(capture, window_ns) + _device_lanes(capture, window_ns)
    if busy is None:
        busy = {}
    elif not isinstance(busy, Mapping):
        busy = {0: busy}
    return CaptureSection(
        name=name or capture.file.parent.name or capture.file.name,
        provenance=provenance,
        window_ns=window_ns,
        lanes=lanes,
        where_the_time_went=where_the_time_went,
        gaps=list(gaps),
        findings=list(findings),
        facts=facts,
        metrics=_metric_series(capture, window_ns, metrics or SHOWN_METRICS),
        busy_ns=busy,
        devices=dict(capture.devices.select("device", "name").iter_rows()),
        places=places or {},
    )


def _inside(frame: pl.DataFrame, window_ns: tuple[int, int]) -> pl.DataFrame:
    import polars as pl

    start, end = window_ns
    return frame.filter((pl.col("end_ns") > start) & (pl.col("start_ns") < end))


def _host_lanes(capture: NsysCapture, window_ns: tuple[int, int]) -> list[Lane]:
    import polars as pl

    lanes = []
    ranges = _inside(capture.nvtx_ranges, window_ns)
    calls = _inside(capture.api_calls, window_ns)
    threads = {
        *ranges.select("process", "thread").rows(),
        *calls.select("process", "thread").rows(),
    }

    def of_thread(label: str, thread: tuple[int, int]) -> str:
        return f"{label}, thread {thread[1]}" if len(threads) > 1 else label

    for thread in sorted(threads):
        same = (pl.col("process") == thread[0]) & (pl.col("thread") == thread[1])
        nested = ranges.filter(same)
        for depth in sorted(nested["depth"].unique().to_list()):
            rows = nested.filter(pl.col("depth") == depth)
            label = of_thread("NVTX", thread) if depth == 0 else ""
            lanes.append(_lane(HOST, label, rows, ["nvtx"] * rows.height, key=f"nvtx:{depth}"))
        rows = calls.filter(same)
        if rows.height:
            label = of_thread("CUDA calls", thread)
            waits = rows["name"].fill_null("").str.contains(SYNCHRONIZING_CALL)
            kinds = ["wait" if waiting else "api" for waiting in waits]
            lanes.append(_lane(HOST, label, rows, kinds, key="api"))
    return lanes


def _device_lanes(capture: NsysCapture, window_ns: tuple[int, int]) -> list[Lane]:
    import polars as pl

    columns = ("start_ns", "end_ns", "device", "stream", "name", "kind", "detail")
    kernels = _inside(capture.kernels, window_ns).with_columns(
        pl.lit("kernel").alias("kind"),
        # The demangled name says more only where it differs (templates, arguments).
        pl.when(pl.col("demangled_name") != pl.col("name"))
        .then(pl.col("demangled_name"))
        .otherwise(pl.lit(""))
        .fill_null("")
        .alias("detail"),
    )
    graphs = _inside(capture.graph_launches, window_ns).with_columns(
        pl.lit("graph").alias("kind"),
        pl.lit("CUDA graph").alias("name"),
        ("graph " + pl.col("graph").cast(pl.String)).fill_null("").alias("detail"),
    )
    copies = _inside(capture.copies, window_ns)
    copies = copies.with_columns(
        pl.col("kind").replace_strict(COPY_NAME, default="Copy").alias("name"),
        pl.Series(
            "detail",
            [
                f"{format_bytes(size)}, {source} to {destination}"
                for size, source, destination in copies.select(
                    "bytes", "source", "destination"
                ).iter_rows()
            ],
            dtype=pl.String,
        ),
        pl.col("kind").replace_strict(COPY_KIND, default="copy_device"),
    )
    memsets = _inside(capture.memsets, window_ns)
    memsets = memsets.with_columns(
        pl.lit("memset").alias("kind"),
        pl.lit("Memset").alias("name"),
        pl.Series("detail", [format_bytes(n) for n in memsets["bytes"]], dtype=pl.String),
    )
    frame = pl.concat([part.select(columns) for part in (kernels, graphs, copies, memsets)])
    lanes = []
    for device, stream in sorted(frame.select("device", "stream").unique().iter_rows()):
        rows = frame.filter((pl.col("device") == device) & (pl.col("stream") == stream))
        rows = rows.sort("start_ns", "end_ns")
        lanes.append(
            _lane(
                f"GPU {device}",
                f"Stream {stream}",
                rows,
                rows["kind"].to_list(),
                details=rows["detail"].to_list(),
                key=f"stream:{stream}",
                device=device,
            )
        )
    return lanes


def _lane(
    group: str,
    label: str,
    rows: pl.DataFrame,
    kinds: list[str],
    *,
    key: str,
    details: Sequence[str] = (),
    device: int | None = None,
) -> Lane:
    return Lane(
        group=group,
        label=label,
        start_ns=rows["start_ns"].to_list(),
        end_ns=rows["end_ns"].to_list(),
        names=rows["name"].fill_null("(no name)").to_list(),
        kinds=kinds,
        details=details,
        key=key,
        device=device,
    )


def _metric_series(
    capture: NsysCapture, window_ns: tuple[int, int], shown: Mapping[str, str]
) -> list[MetricSeries]:
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
