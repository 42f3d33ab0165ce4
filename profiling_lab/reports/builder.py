"""From an opened capture to the lanes of a report's timeline.

What is drawn is what was recorded. What was found out about it (busy time, gaps, shares of time,
findings) is the caller's, and is passed through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.analysis.columns import COLLECTIVE
from profiling_lab.reports import series
from profiling_lab.reports.model import (
    CaptureSection,
    Fact,
    Lane,
    Place,
    TimeShare,
)
from profiling_lab.reports.tables import COPY_NAME, copy_table, kernel_table, memory_table
from profiling_lab.units import format_bytes, format_count

if TYPE_CHECKING:
    import polars as pl

    from profiling_lab.captures.nsys_export import NsysCapture
    from profiling_lab.findings import Finding

HOST = "Host"
COPY_KIND = {"H2D": "copy_in", "H2A": "copy_in", "D2H": "copy_out", "A2H": "copy_out"}
# The calls that CUDA documents to return only when the device is done are drawn apart. The kinds of
# the synchronisation table do not serve: recordings write a stream's synchronisation as a wait.
SYNCHRONIZING_CALL = "Synchronize$"
# A lane with more rectangles than this keeps the long ones; a page of all would not open. What is shorter
# than a part of the window this small is put together, and is far below a pixel in the whole view.
MOST_IN_LANE = 120_000
SMALLEST_PARTS = 40_000
TOGETHER = " short operations"
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
    shares_note: str = "",
    facts: Sequence[Fact | tuple] = (),
    places: Mapping[str, Place] | None = None,
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
    numbers = _launch_numbers(capture, window_ns)
    lanes = _host_lanes(capture, window_ns, numbers) + _device_lanes(capture, window_ns, numbers)
    memory = series.of_memory(capture, window_ns)
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
        shares_note=shares_note,
        gaps=list(gaps),
        findings=list(findings),
        facts=[*facts, *_thinned_facts(lanes)],
        metrics=series.of_metrics(capture, window_ns, metrics or SHOWN_METRICS) + memory,
        busy_ns=busy,
        devices=dict(capture.devices.select("device", "name").iter_rows()),
        places=places or {},
        tables=[
            *kernel_table(_inside(capture.kernels, window_ns), window_ns, lanes),
            *memory_table(memory),
            *copy_table(_inside(capture.copies, window_ns)),
        ],
    )


def _inside(frame: pl.DataFrame, window_ns: tuple[int, int]) -> pl.DataFrame:
    import polars as pl

    start, end = window_ns
    return frame.filter((pl.col("end_ns") > start) & (pl.col("start_ns") < end))


def _launch_numbers(capture: NsysCapture, window_ns: tuple[int, int]) -> pl.DataFrame:
    """process, correlation, launch: one number for a call and all that it launched."""
    import polars as pl

    parts = (capture.kernels, capture.graph_launches, capture.copies, capture.memsets)
    pairs = [_inside(part, window_ns).select("process", "correlation") for part in parts]
    found = pl.concat(pairs).filter(pl.col("correlation") > 0).unique(maintain_order=True)
    return found.with_row_index("launch", offset=1)


def _with_launches(rows: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    joined = rows.join(numbers, on=["process", "correlation"], how="left", maintain_order="left")
    return joined.with_columns(launch=joined["launch"].fill_null(0))


def _host_lanes(
    capture: NsysCapture, window_ns: tuple[int, int], numbers: pl.DataFrame
) -> list[Lane]:
    import polars as pl

    lanes = []
    ranges = _inside(capture.nvtx_ranges, window_ns)
    calls = _with_launches(_inside(capture.api_calls, window_ns), numbers)
    os_calls = _inside(capture.os_calls, window_ns)
    # Threads that only wait in the operating system, and are neither annotated nor call CUDA, tell little.
    threads = {
        *ranges.select("process", "thread").rows(),
        *calls.select("process", "thread").rows(),
    } or set(os_calls.select("process", "thread").rows())
    processes = {process for process, _ in threads}

    def of_thread(label: str, thread: tuple[int, int]) -> str:
        return f"{label}, thread {thread[1]}" if len(threads) > 1 else label

    for thread in sorted(threads):
        group = f"{HOST}, process {_pid(thread[0])}" if len(processes) > 1 else HOST
        same = (pl.col("process") == thread[0]) & (pl.col("thread") == thread[1])
        nested = ranges.filter(same)
        for depth in sorted(nested["depth"].unique().to_list()):
            rows = nested.filter(pl.col("depth") == depth).with_columns(kind=pl.lit("nvtx"))
            label = of_thread("NVTX", thread) if depth == 0 else ""
            lanes.append(lane(group, label, rows, window_ns, key=f"nvtx:{depth}"))
        rows = calls.filter(same)
        if rows.height:
            label = of_thread("CUDA calls", thread)
            waits = pl.col("name").fill_null("").str.contains(SYNCHRONIZING_CALL)
            kind = pl.when(waits).then(pl.lit("wait")).otherwise(pl.lit("api"))
            lanes.append(lane(group, label, rows.with_columns(kind=kind), window_ns, key="api"))
        rows = os_calls.filter(same)
        if rows.height:
            label = of_thread("OS calls", thread)
            rows = rows.with_columns(kind=pl.lit("os"))
            lanes.append(lane(group, label, rows, window_ns, key="os"))
    return lanes


def _pid(process: int) -> int:
    """The process's own number in what Nsight Systems calls its global one."""
    return process >> 24 & 0xFFFFFF or process


def launched_as(
    grid: Sequence[int], block: Sequence[int], registers: int, shared_bytes: int
) -> str:
    """How a kernel was launched, in words; registers and shared bytes below 0 were not recorded."""
    parts = [
        f"{name} {' × '.join(map(str, sizes))}"
        for name, sizes in (("grid", grid), ("block", block))
        if sizes
    ]
    parts += [f"{registers} registers a thread"] if registers >= 0 else []
    parts += [f"{format_bytes(shared_bytes)} shared"] if shared_bytes > 0 else []
    return ", ".join(parts)


def device_kind(kind: str, name: str) -> str:
    """What a device operation is drawn as: collectives are kernels of their own look."""
    return "collective" if kind == "kernel" and COLLECTIVE.match(name) else kind


def _shape(kernel: dict[str, int]) -> str:
    grid, block = ([kernel[f"{part}_{axis}"] for axis in "xyz"] for part in ("grid", "block"))
    shared = kernel["static_shared_bytes"] + kernel["dynamic_shared_bytes"]
    return launched_as(grid, block, kernel["registers_per_thread"], shared)


def _with_shapes(kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels with `shape`; the words are made once for each shape."""
    import polars as pl

    columns = [f"{part}_{axis}" for part in ("grid", "block") for axis in "xyz"]
    columns += ["registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes"]
    known = kernels.select(columns).fill_null(0).unique(maintain_order=True)
    texts = [_shape(row) for row in known.iter_rows(named=True)]
    return kernels.with_columns(pl.col(columns).fill_null(0)).join(
        known.with_columns(shape=pl.Series(texts, dtype=pl.String)),
        on=columns,
        how="left",
        maintain_order="left",
    )


def _device_lanes(
    capture: NsysCapture, window_ns: tuple[int, int], numbers: pl.DataFrame
) -> list[Lane]:
    import polars as pl

    columns = (
        *("start_ns", "end_ns", "device", "stream", "name", "kind", "detail", "shape"),
        *("process", "correlation"),
    )
    kernels = _with_shapes(_inside(capture.kernels, window_ns)).with_columns(
        pl.when(pl.col("name").fill_null("").str.contains(f"^(?i:{COLLECTIVE.pattern})"))
        .then(pl.lit("collective"))
        .otherwise(pl.lit("kernel"))
        .alias("kind"),
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
    others = [part.with_columns(shape=pl.lit("")) for part in (graphs, copies, memsets)]
    frame = pl.concat([part.select(columns) for part in (kernels, *others)])
    frame = _with_launches(frame, numbers)
    lanes = []
    for device, stream in sorted(frame.select("device", "stream").unique().iter_rows()):
        rows = frame.filter((pl.col("device") == device) & (pl.col("stream") == stream))
        rows = rows.sort("start_ns", "end_ns")
        lanes.append(
            lane(
                f"GPU {device}",
                f"Stream {stream}",
                rows,
                window_ns,
                key=f"stream:{stream}",
                device=device,
            )
        )
    return lanes


def lane(
    group: str,
    label: str,
    rows: pl.DataFrame,
    window_ns: tuple[int, int],
    *,
    key: str,
    device: int | None = None,
    rank: str = "",
) -> Lane:
    """A lane of rows with start_ns, end_ns, name and kind, perhaps detail, shape and launch; thinned if too many."""
    rows = _thinned(rows, window_ns)
    return Lane(
        group=group,
        label=label,
        start_ns=rows["start_ns"].to_list(),
        end_ns=rows["end_ns"].to_list(),
        names=rows["name"].fill_null("(no name)").to_list(),
        kinds=rows["kind"].to_list(),
        details=rows["detail"].to_list() if "detail" in rows.columns else (),
        key=key,
        device=device,
        rank=rank,
        shapes=rows["shape"].to_list() if "shape" in rows.columns else (),
        launches=rows["launch"].to_list() if "launch" in rows.columns else (),
    )


def _thinned_facts(lanes: Sequence[Lane]) -> list[Fact]:
    """What a reader must know of lanes that do not show every operation by itself."""
    few = [lane for lane in lanes if any(TOGETHER in name for name in lane.names)]
    if not few:
        return []
    names = ", ".join(f"{lane.group}, {lane.label}" for lane in few)
    text = (
        f"short operations that follow each other are one: {names} (--range shows a part in full)"
    )
    return [Fact("Drawn together", text)]


def _thinned(rows: pl.DataFrame, window_ns: tuple[int, int]) -> pl.DataFrame:
    """Rows, or, of too many, the long ones and beside them one for all short ones of a small part."""
    import polars as pl

    if rows.height <= MOST_IN_LANE:
        return rows
    for column, empty in (
        ("detail", pl.lit("")),
        ("shape", pl.lit("")),
        ("launch", pl.lit(0, pl.UInt32)),
    ):
        if column not in rows.columns:
            rows = rows.with_columns(empty.alias(column))
    rows = rows.select("start_ns", "end_ns", "name", "kind", "detail", "shape", "launch")
    part_ns = max(1, (window_ns[1] - window_ns[0]) // SMALLEST_PARTS)
    short = pl.col("end_ns") - pl.col("start_ns") < part_ns
    few = (
        rows.filter(short)
        .group_by(pl.col("start_ns") // part_ns, "kind", maintain_order=True)
        .agg(
            pl.col("start_ns").min().alias("first_ns"),
            pl.col("end_ns").max(),
            pl.len().alias("count"),
            pl.col("name").first(),
            pl.col("detail").first(),
            pl.col("shape").first(),
            pl.when(pl.len() == 1).then(pl.col("launch").first()).otherwise(0).alias("launch"),
        )
    )
    names = [
        name if count == 1 else f"{format_count(count)}{TOGETHER}, {name} first"
        for name, count in few.select("name", "count").iter_rows()
    ]
    few = few.with_columns(
        start_ns=pl.col("first_ns"), name=pl.Series(names, dtype=pl.String)
    ).select(rows.columns)
    return pl.concat([rows.filter(~short), few]).sort("start_ns", "end_ns")
