"""The tables of a report's section: kernels by name, copies by direction, memory over the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from profiling_lab.findings import base_name, readable
from profiling_lab.reports.model import Lane, MetricSeries, Place, Table
from profiling_lab.units import format_count

if TYPE_CHECKING:
    import polars as pl

KERNELS_SHOWN = 12
COPY_NAME = {
    "H2D": "Copy, host to device",
    "D2H": "Copy, device to host",
    "D2D": "Copy on the device",
    "P2P": "Copy, device to device",
    "H2H": "Copy, host to host",
}


def kernel_table(
    kernels: pl.DataFrame, window_ns: tuple[int, int], lanes: Sequence[Lane]
) -> list[Table]:
    """The kernels of the window by name, those first that take most of it."""
    import polars as pl

    if not kernels.height:
        return []
    length = (window_ns[1] - window_ns[0]) * kernels["device"].n_unique()
    longest = kernels.sort("duration_ns", descending=True, maintain_order=True)
    names = longest.group_by("name", "demangled_name", maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col("duration_ns").sum().alias("total_ns"),
        pl.col("duration_ns").first().alias("longest_ns"),
        pl.col("start_ns", "end_ns", "device", "stream").first(),
    )
    names = names.sort("total_ns", descending=True, maintain_order=True)
    index = {(lane.device, lane.key): at for at, lane in enumerate(lanes)}
    rows, places, subjects = [], [], []
    whole = [a or b for a, b in names.head(KERNELS_SHOWN)["demangled_name", "name"].rows()]
    called = short_names(whole)
    for row in names.head(KERNELS_SHOWN).iter_rows(named=True):
        total = row["total_ns"]
        rows.append(
            (
                called[len(rows)] or "(no name)",
                row["count"],
                total,
                100 * total / length if length else None,
                total / row["count"],
                row["longest_ns"],
            )
        )
        lane = index.get((row["device"], f"stream:{row['stream']}"))
        places.append(Place("Longest", row["start_ns"], row["end_ns"], lane))
        subjects.append(f"kernel:{row['demangled_name'] or row['name']}")
    more = names.height - len(rows)
    return [
        Table(
            "Kernels",
            "By total time",
            [
                ("Kernel", ""),
                ("Launches", "count"),
                ("Total", "ns"),
                ("Of device time", "pct"),
                ("Mean", "ns"),
                ("Longest", "ns"),
            ],
            rows,
            note=(f"{format_count(more)} more by name. " if more else "")
            + "Kernels that run at the same time count each.",
            places=places,
            subjects=subjects,
        )
    ]


def short_names(names: Sequence[str]) -> list[str]:
    """Kernels' names without what they return and take, and where they stand; instances of a template with its arguments."""
    short = [readable(name or "") for name in names]
    return [
        name[name.find(base_name(name)) :] if name and short.count(one) > 1 else one
        for name, one in zip(names, short, strict=True)
    ]


def copy_table(copies: pl.DataFrame) -> list[Table]:
    """What was copied in the window, by direction and host memory."""
    import polars as pl

    if not copies.height:
        return []
    totals = (
        copies.group_by("kind", "source", "destination", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            pl.col("bytes").sum(),
            pl.col("duration_ns").sum().alias("total_ns"),
        )
        .sort("bytes", descending=True, maintain_order=True)
    )
    rows = [
        (
            f"{COPY_NAME.get(row['kind'], 'Copy')}, {row['source']} to {row['destination']}",
            row["count"],
            row["bytes"],
            row["total_ns"],
            1e9 * row["bytes"] / row["total_ns"] if row["total_ns"] else None,
        )
        for row in totals.iter_rows(named=True)
    ]
    columns = [
        ("Direction", ""), ("Count", "count"), ("Moved", "bytes"), ("Time", "ns"),
        ("Rate while copying", "bytes_per_s"),
    ]  # fmt: skip
    return [Table("Memory", "Copies", columns, rows)]


def memory_table(series: Sequence[MetricSeries]) -> list[Table]:
    """Lowest, highest and last value of each series of memory, and where the highest is."""
    rows, places = [], []
    for one in series:
        peak = max(range(len(one.values)), key=one.values.__getitem__)
        label = f"{one.group}: {one.label[:1].lower()}{one.label[1:]}"
        rows.append((label, min(one.values), one.values[peak], one.values[-1]))
        at = one.timestamp_ns[peak]
        until = one.timestamp_ns[peak + 1] if peak + 1 < len(one.values) else at
        places.append(Place("Highest", at, max(until, at + 1)))
    if not rows:
        return []
    columns = [("Memory", ""), ("Lowest", "bytes"), ("Highest", "bytes"), ("In the end", "bytes")]
    return [Table("Memory", "Over the window", columns, rows, places=places)]
