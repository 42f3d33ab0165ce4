# %% [markdown]
"""
# Day 2: counters are not verdicts

Nsight Compute profiled dozens of kernels on an NVIDIA H200, one at a time, with some two thousand counters for each. You look
at a few columns, guess what they say, and see how misleading a single number can be.

Answer each question *before* you open the answer. The numbers in the answers are computed from the recordings when
the notebook is made.
"""

# %%
import csv

import matplotlib.pyplot as plt
import polars as pl

from profiling_lab import captures, palette
from profiling_lab.captures import kernels

plt.rcParams.update(palette.NOTEBOOK)

# The columns that this notebook looks at. All of them are per cent or plain counts.
COLUMNS = {
    "dram": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
NAMES = ("ncu_memory", "ncu_shared", "ncu_compute", "ncu_parallelism", "ncu_atomics")
rows = []
for name in NAMES:
    for kernel in kernels.read(name):
        columns = {short: kernel["metrics"].get(column) for short, column in COLUMNS.items()}
        rows.append({"capture": name, "kernel": kernel["name"].split("(")[0], **columns})
table = pl.DataFrame(rows)
table.head(3)

# %% [markdown]
"""
## 1. Four corners

The plot has memory on one axis and the multiprocessors on the other. Nsight Compute's GUI shows the same values as two bars, as
"speed of light".
"""

# %%
# figure: Scatter of SM throughput over DRAM throughput, both in per cent. Some kernels lie at the right
# edge, some at the top, and many in the lower left corner, far from both.
fig, ax = plt.subplots(figsize=(6, 4))
ax.scatter(table["dram"], table["sm"], s=14, color=palette.BLUE)
for kernel in ("scale", "iterate", "follow_one", "histogram_direct", "transpose_direct"):
    row = table.filter(kernel=kernel).row(0, named=True)
    ax.annotate(kernel, (row["dram"] + 1, row["sm"] + 1), fontsize=7)
ax.set(xlim=(0, 100), ylim=(0, 100), xlabel="DRAM, % of peak", ylabel="SM throughput, % of peak")
plt.show()
low = table.filter(pl.max_horizontal("dram", "sm") < 60)
print(f"{low.height} of {table.height} kernels reach 60 % of neither")

# %% [markdown]
"""
**Question.** Kernels at the right edge are limited by memory, and kernels at the top by the multiprocessors. What limits the
kernels at the lower left? What would help such a kernel: more bandwidth, more arithmetic, or something else?

<details><summary>Answer</summary>

These kernels are not near either ceiling, so more of either does not help. Some wait for a chain of loads (`follow_one`
follows a linked list). In others, warps wait for each other at the same address (`histogram_direct`). And some have too few
warps to fill the device. There is a trap: `transpose_direct` is at the ceiling of a unit that this picture does not show. It
uses {{pct(lesson.use("transpose_direct", "l2"))}} of L2. Two bars do not show all units.
</details>

Now back to the [lesson](README.md), to section 1.

## Further

More pictures, for when the day's core is done.

## 2. Which kernels keep the memory busy?

The plot shows DRAM throughput as a share of its peak. It has one bar for each kernel, sorted.
"""

# %%
# figure: Bars of the DRAM throughput of all kernels in per cent of the peak, sorted. Few are above 80,
# a long tail is below 20.
ranked = table.sort("dram", descending=True)
fig, ax = plt.subplots(figsize=(9, 2.6))
ax.bar(ranked["kernel"] + ranked["capture"], ranked["dram"], color=palette.BLUE)
ax.set_xticks(range(ranked.height), ranked["kernel"].to_list(), rotation=90, fontsize=6)
ax.set(ylabel="DRAM, % of peak", ylim=(0, 100))
plt.show()

# %% [markdown]
"""
**Question.** Three kernels here transpose the same matrix: `transpose_direct`, `transpose_tile32`, `transpose_tile33`. Find
their bars. Which of the three is fastest? And which of them would a dashboard of "memory utilization" report as a problem?

<details><summary>Answer</summary>

`transpose_tile33` keeps DRAM busiest and takes {{us(lesson.alone("transpose_tile33"), 0)}}; `transpose_direct` keeps it least busy and takes {{us(lesson.alone("transpose_direct"), 0)}} for the same
result. A high bar is good here: this kernel only moves bytes, and it moves them nearly as fast as the device can. A low bar
says that something else limits the kernel.
</details>

## 3. More warps, more speed?

Occupancy is the share of warp slots in use. Many texts advise you to raise it.
"""

# %%
# figure: Scatter of DRAM throughput over achieved occupancy, in per cent. There is no line: high and low
# throughput occur at high occupancy, and some kernels with low occupancy move many bytes.
fig, ax = plt.subplots(figsize=(6, 3.4))
ax.scatter(table["occupancy"], table["dram"], s=14, color=palette.GREEN)
for kernel in ("stream_large_tile", "stream_small_tile", "copy_eight", "follow_one", "scale"):
    row = table.filter(kernel=kernel).row(0, named=True)
    ax.annotate(kernel, (row["occupancy"] + 1, row["dram"] + 1), fontsize=7)
ax.set(xlim=(0, 105), ylim=(0, 100), xlabel="occupancy, % of warp slots", ylabel="DRAM, % of peak")
plt.show()

# %% [markdown]
"""
**Question.** Find one pair of kernels in this picture that supports the advice, and one kernel that contradicts it.

<details><summary>Answer</summary>

For: `stream_small_tile` does the work of `stream_large_tile` with more warps, and moves more bytes per second. Against:
`copy_eight` has {{f"{table.filter(kernel='copy_eight')['occupancy'][0]:.0f}"}} of 100 slots in use and reaches {{pct(lesson.use("copy_eight", "dram"))}} of DRAM's peak, because each of its threads asks for many bytes
at once. And `follow_one` has nearly all slots full, and moves almost nothing. Occupancy is only a means. What counts is the
number of bytes in flight.
</details>

## 4. Two kernels with the same waiting

The plot shows what warps do between two instructions, for two kernels without their names. One kernel is at the ceiling of DRAM. The
other uses no unit at more than a third of its peak.
"""


# %%
# figure: Two stacked horizontal bars, A and B, of the share of a warp's life by state. In both one state,
# long scoreboard, is by far the largest part.
def page(name):
    """The page "raw" of a capture as it is: all text, the first row holds the units."""
    header, *cells = csv.reader(captures.text(name, "kernels.csv").splitlines())
    return [dict(zip(header, row, strict=True)) for row in cells]


PREFIX, SUFFIX = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
picked = {"A": ("ncu_parallelism", 10), "B": ("ncu_memory", 1)}  # capture and row
fig, ax = plt.subplots(figsize=(9, 1.7))
for letter, (name, number) in picked.items():
    row = page(name)[number]
    states = {
        column.removeprefix(PREFIX).removesuffix(SUFFIX): float(value)
        for column, value in row.items()
        if column.startswith(PREFIX) and column.endswith(SUFFIX)
    }
    left = 0.0
    for state in ("long_scoreboard", "wait", "short_scoreboard", "selected", "drain"):
        share = states[state] / sum(states.values())
        colour = f"C{list(states).index(state)}"
        label = state if letter == "A" else None
        ax.barh(letter, share, left=left, color=colour, label=label)
        left += share
ax.legend(ncols=5, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8)
ax.set(xlim=(0, 1), xlabel="share of a warp's life")
plt.show()

# %% [markdown]
"""
**Question.** Which kernel is which? Can you find out from this picture?

<details><summary>Answer</summary>

You cannot. Both wait for memory nearly all of the time. `scale` is in long scoreboard for {{pct(lesson.stall("scale", "long_scoreboard"))}} of it, because the memory is
as busy as it can be. `follow_one` is in this state for {{pct(lesson.stall("follow_one", "long_scoreboard"))}}, because each load must return before the next address is known.
B is `scale`. A stall says what the warps waited for. It does not say that a fix would gain anything.
</details>

## 5. Before all that: what is this number?

The cells of the page are text. Here are two counters in four captures.
"""

# %%
for name in ("ncu_memory", "ncu_parallelism", "ncu_bandwidth_small", "sgemm_steps"):
    raw = page(name)
    for column in ("gpu__time_duration.sum", "dram__bytes_read.sum"):
        if column in raw[0]:
            print(f"{name:20} {column:24} {[row[column] for row in raw[:4]]}")

# %% [markdown]
"""
**Question.** What goes wrong in a program that compares the second row of each page as numbers? What can a cell hold besides a
number?

`read_metrics` gives counters in base units. If a capture does not have a counter, it leaves it out. There are two kinds of
percentages, which are shares of different times: see "Two kinds of percentages" in the lesson. The first task is in section 1:

```console
uv run lab check ex_31.sectors_of_request
```
"""
