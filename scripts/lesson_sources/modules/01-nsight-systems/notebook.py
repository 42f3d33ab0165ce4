# %% [markdown]
"""
# Nsight Systems: spot the difference

These recordings are from NVIDIA H200 GPUs. Most come in pairs that differ in one thing. You look at both timelines and find the difference. In the exercises of
this module you measure what you see here.

Answer each question *before* you open the answer. The numbers in the answers are computed from the recordings when the notebook is made.
"""

# %%
import matplotlib.pyplot as plt
import polars as pl

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)


def looks(recording):
    """The colour of each of the device's operations by name: copies and memsets as on all pages, kernels apart."""
    kernels = recording.kernels["name"].unique().sort()
    some = (palette.KERNEL, palette.PURPLE, palette.YELLOW, palette.VERMILION)
    copies = {"H2D": palette.COPY_IN, "D2H": palette.COPY_OUT, "memset": palette.MEMSET}
    return copies | {name: some[place % len(some)] for place, name in enumerate(kernels)}


def bars(ax, rows, y, colour, zero_ns):
    """Draw intervals as bars on row y, in ms since `zero_ns`."""
    begin = (rows["start_ns"] - zero_ns) / 1e6
    lengths = rows["duration_ns"] / 1e6
    ax.broken_barh(
        list(zip(begin, lengths, strict=True)), (y, 0.8), color=colour, ec="white", lw=0.15
    )


def timeline(ax, name, from_ms, to_ms, by="stream"):
    """The device's operations of a stretch, one row a stream (or a name), kinds in colours."""
    recording = captures.open(name)
    zero_ns = recording.span_ns[0] + int(from_ms * 1e6)
    near = recording.device_operations.filter(
        pl.col("end_ns") > zero_ns, pl.col("start_ns") < zero_ns + (to_ms - from_ms) * 1e6
    )
    labels = near[by].unique().sort().to_list()
    for y, label in enumerate(labels):
        mine = near.filter(pl.col(by) == label)
        for name_of, rows in mine.group_by("name", maintain_order=True):
            bars(ax, rows, y, looks(recording)[name_of[0]], zero_ns)
    ax.set_yticks([y + 0.4 for y in range(len(labels))], [str(label) for label in labels])
    ax.set(title=name, xlim=(0, to_ms - from_ms))


# %% [markdown]
"""
## 1. The same simulation, twice

The plots show two milliseconds of each program: the kernels, copies and memsets of a particle simulation.
"""

# %%
# figure: Two timelines of the same simulation. In the upper one there are gaps between short groups of bars;
# in the lower one the kernels follow each other almost without a break.
fig, axes = plt.subplots(2, 1, figsize=(9, 3.2), sharex=True)
for ax, name in zip(axes, ("nsys_baseline", "nsys_improved"), strict=True):
    timeline(ax, name, 3, 5, by="name")
axes[1].set_xlabel("ms")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** Count the steps in each panel: each step has one `drift`. The gaps are gone in the lower panel; what else is gone? Which of these changes caused the other?

<details><summary>Answer</summary>

The copies to the host (D2H) and the memsets after every step are gone. A step took {{ms(source("modules/01-nsight-systems/ex01-timeline-basics").steady_ns("nsys_baseline"), 3)}} before and {{ms(source("modules/01-nsight-systems/ex01-timeline-basics").steady_ns("nsys_improved"), 3)}} after. A
copy of a few bytes is short. The time was lost because the host *waited* for the copy before it issued more work. The device's timeline shows the effect; the
cause is a line of host code.
</details>

## 2. Four streams that take turns

Both programs launch the same kernels on four streams. Rows are streams. The long kernels have one colour, the short kernels another.
"""

# %%
# figure: Two timelines with one row a stream. In the upper one there is at most one bar at any time, like stairs;
# in the lower one there are four bars at a time.
fig, axes = plt.subplots(2, 1, figsize=(9, 3.8))
timeline(axes[0], "overlap_legacy", 0, 1.2)
timeline(axes[1], "overlap_streams", 0, 1.2)
axes[1].set_xlabel("ms")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** The upper panel has one additional row. What starts when one of the short bars in that row ends? What is the number of the row's stream?

<details><summary>Answer</summary>

Row {{captures.open("overlap_legacy").kernels["stream"].min()}} is the legacy default stream. It waits for all blocking streams, and they wait for it.
One small kernel whose launch names no stream
makes all streams take turns. The whole run took {{ms(captures.open("overlap_legacy").span_ns[1] - captures.open("overlap_legacy").span_ns[0], 2)}}; without that kernel (lower panel) it took {{ms(captures.open("overlap_streams").span_ns[1] - captures.open("overlap_streams").span_ns[0], 2)}}.
</details>

## 3. Four streams that take turns again

`overlap_big` uses four streams that it created, and not the default stream.
"""

# %%
# figure: A timeline with four rows. Bars of different rows touch only at their ends: one begins where
# another one stops.
fig, ax = plt.subplots(figsize=(9, 2))
timeline(ax, "overlap_big", 0, 3.4)
ax.set_xlabel("ms")
plt.show()
big, small = captures.open("overlap_big").kernels, captures.open("overlap_streams").kernels
for label, kernels in (("overlap_big", big), ("overlap_streams", small)):
    long = kernels.filter(name="advance")
    blocks = (long["grid_x"] * long["grid_y"] * long["grid_z"])[0]
    print(f"{label}: {blocks} blocks of {long['block_x'][0]} threads in each long kernel")

# %% [markdown]
"""
**Question.** Nothing orders the work of these streams. Why do they hardly overlap, and how much time would more overlap save?

<details><summary>Answer</summary>

Look at the number of blocks. One such kernel fills the whole device, so blocks of the next kernel start only when blocks of the first one end. Overlap saves time only when part of the device is *unused*; here all of it is in use.
Missing overlap alone is not a fault.
</details>

## 4. What a copy costs

The plots show copies of many sizes, from pinned and from ordinary (pageable) memory: the time on the left, the rate on the right.
"""

# %%
# figure: Left: time over bytes of copies on logarithmic axes, flat up to some tens of kilobytes, then rising. Right:
# rate over bytes; pinned memory reaches several times the rate of pageable memory for large copies.
copies = captures.open("copy_sizes").copies.with_columns(
    pl.concat_str(
        "kind", pl.lit(" "), pl.concat_str("source", "destination").str.replace("device", "")
    ).alias("what")
)
fig, axes = plt.subplots(1, 2, figsize=(9, 3))
for colour, (what, some) in zip(
    palette.SERIES, copies.group_by("what", maintain_order=True), strict=False
):
    best = (
        some.group_by("bytes", maintain_order=True)
        .agg(pl.col("duration_ns").median())
        .sort("bytes")
    )
    axes[0].loglog(best["bytes"], best["duration_ns"] / 1e3, ".-", color=colour, label=what[0])
    axes[1].semilogx(best["bytes"], best["bytes"] / best["duration_ns"], ".-", color=colour)
axes[0].set(xlabel="bytes", ylabel="µs")
axes[0].legend(frameon=False)
axes[1].set(xlabel="bytes", ylabel="GB/s")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** A program makes a hundred copies of four kilobytes each. Would you use pinned memory, or combine them into one copy? And what would you do about one copy of a hundred megabytes?

<details><summary>Answer</summary>

At the left end every copy takes the same time, whatever its size. Combine a hundred small copies into one, and this time is paid once. At the right end the rate is the limit, and pinned memory raises it. The right plot
shows at which size the limit changes.
</details>

## 5. Hidden copies

Both programs copy the same batches in (light blue), compute (orange) and copy the results out (dark blue). The upper program uses one stream, the lower one four.
"""

# %%
# figure: Two timelines of copies and kernels. In the upper one they alternate on one row; in the lower one, on four
# rows, copies run at the same time as kernels of other rows.
fig, axes = plt.subplots(2, 1, figsize=(9, 3), sharex=True)
timeline(axes[0], "copy_serial", 0, 6)
timeline(axes[1], "copy_overlapped", 0, 6)
axes[1].set_xlabel("ms")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** Judge by eye: which colour is the bottleneck of the lower program? Would more streams make it shorter still?

<details><summary>Answer</summary>

No single colour is the bottleneck. All copies in take {{ms(captures.open("copy_overlapped").copies.filter(kind="H2D")["duration_ns"].sum(), 2)}}, all copies out {{ms(captures.open("copy_overlapped").copies.filter(kind="D2H")["duration_ns"].sum(), 2)}}, all kernels {{ms(captures.open("copy_overlapped").kernels["duration_ns"].sum(), 2)}}. More streams do not make copies of the same
direction overlap, and the first batch must be copied in before anything else can run. The whole run took {{ms(captures.open("copy_overlapped").span_ns[1] - captures.open("copy_overlapped").span_ns[0], 2)}}, so little is left to save.
</details>

## 6. Two devices

The plot shows a training step on two GPUs. Each row is a stream of a device; the second stream of each device exchanges gradients.
"""

# %%
# figure: Four rows: compute and NCCL of device 0 and of device 1. One device's NCCL bars are much longer than the
# other's, and end at the same time.
recording = captures.open("ddp_timeline_straggler")
fig, ax = plt.subplots(figsize=(9, 2.4))
zero_ns = recording.span_ns[0] + 9_000_000
labels = []
for y, (place, rows) in enumerate(
    recording.kernels.filter(
        pl.col("start_ns").is_between(zero_ns - 10_000_000, zero_ns + 18_000_000)
    )
    .sort("device", "stream", descending=True)
    .group_by("device", "stream", maintain_order=True)
):
    bars(ax, rows, y, palette.COLLECTIVE if place[1] == 17 else palette.KERNEL, zero_ns)
    labels.append(f"device {place[0]}, {'NCCL' if place[1] == 17 else 'compute'}")
ax.set_yticks([0.4 + y for y in range(len(labels))], labels)
ax.set(xlim=(0, 18), xlabel="ms")
plt.show()

# %% [markdown]
"""
**Question.** One device's NCCL row is busy much longer. Is this the slow device? Which of the two would a dashboard call "better used"?

<details><summary>Answer</summary>

No, it is the device that waits. An all-reduce ends on all devices at the same time, and the device that arrives first spins in its kernel until the last one arrives. It is busy but does no useful work. The late device has the
*short* bars. The compute rows show the cause: which device was still computing when the exchange could have begun?
</details>

## 7. Back to the first program

The host code of the first program opens NVTX ranges: `prepare`, `move`, `measure`, `log`. The plot shows two steps, with the
host in the upper row and the device in the lower one.
"""

# %%
# figure: Host ranges with their names above the device's kernels and copies of nsys_baseline. Bars of the device
# begin in one range and sometimes end in another.
recording = captures.open("nsys_baseline")
steps = recording.nvtx_ranges.filter(name="step")
zero_ns = steps["start_ns"][12]
fig, ax = plt.subplots(figsize=(9, 2))
inner = recording.nvtx_ranges.filter(
    pl.col("name").is_in(["prepare", "move", "measure", "log"]),
    pl.col("start_ns").is_between(zero_ns, zero_ns + 500_000),
)
for row in inner.iter_rows(named=True):
    begin, length = (row["start_ns"] - zero_ns) / 1e6, row["duration_ns"] / 1e6
    ax.broken_barh([(begin, length)], (1, 0.8), color="0.85", ec="white")
    if length > 0.05:
        ax.text(begin + length / 2, 1.4, row["name"], ha="center", va="center", fontsize=7)
for name_of, rows in recording.device_operations.group_by("name", maintain_order=True):
    bars(ax, rows, 0, looks(recording)[name_of[0]], zero_ns)
ax.set_yticks([0.4, 1.4], ["device", "host"])
ax.set(xlim=(0, 0.5), xlabel="ms")
plt.show()

# %% [markdown]
"""
**Question.** Which range launched which bar? Not the range above the bar: a kernel often runs later than it was launched. Which data of the recording lead from a bar of the device back to
the range in which it was launched?

Your work in [ex01](ex01-timeline-basics/README.md) begins with this question.

```console
uv run lab check nsys_ex01.work_per_range
```
"""
