# %% [markdown]
"""
# Day 2: counters are not verdicts

Nsight Compute looked into dozens of kernels, one at a time, on an NVIDIA H200. It counted some two thousand things of each.
You will look at a handful of columns, guess what they say, and see how far a single number leads you astray.

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
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
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
## 1. What a load really fetches

A warp's load is one *request*. It is served in *sectors* of 32 bytes. A warp of 32 lanes that reads one `float` each, side by side,
needs 4 of them.
"""

# %%
# figure: Bars of sectors per global load request of the kernels in ncu_memory, with a dashed line at
# four. Most bars are at or near 4 or 16; some reach up to 32.
memory = table.filter(capture="ncu_memory").select(
    "kernel", (pl.col("sectors") / pl.col("requests")).alias("sectors")
)
fig, ax = plt.subplots(figsize=(9, 2.4))
ax.barh(memory["kernel"], memory["sectors"], color=palette.ORANGE)
ax.axvline(4, color="0.3", ls="--", lw=0.8)
ax.set(xlabel="sectors a request")
plt.show()

# %% [markdown]
"""
**Question.** `scale` reads `float4`, four floats a lane. Is its bar bad? And `row_sums_by_thread`: how far apart do its lanes read?

<details><summary>Answer</summary>

`scale` asks for four times as many bytes in a request, so four times as many sectors are what it *needs*. A count of sectors
is no verdict without the bytes that were wanted. In `row_sums_by_thread` a request touches
{{f"{memory.filter(kernel='row_sums_by_thread')['sectors'][0]:.0f}"}} sectors for 32 lanes: each lane reads from a sector of its own, so neighbours are at least 32 bytes apart.
</details>

## 2. Four corners

Memory on one axis, the multiprocessors on the other: the picture that "speed of light" in Nsight Compute's GUI shows as two bars.
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
**Question.** The right edge is "limited by memory", the top "limited by the multiprocessors". What is the lower left? Say what would
help a kernel that stands there: more bandwidth, more arithmetic, or something else?

<details><summary>Answer</summary>

Neither ceiling is near, so more of either helps nothing. These kernels wait: for a chain of loads (`follow_one`
walks a linked list), for each other at the same address (`histogram_direct`), or they are too few to fill the device. And one
trap: `transpose_direct` is at a ceiling, but of a unit that this picture does not show, L2 at {{pct(lesson.use("transpose_direct", "l2"))}}. Two
bars are not all bars.
</details>

Now back to the [lesson](README.md): write down a name, a number and a character.

## Further

More pictures, for when the day's core is done.

## 3. Who keeps the memory busy?

DRAM throughput as a share of its peak, one bar a kernel, sorted.
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
**Question.** Three kernels here transpose the same matrix: `transpose_direct`, `transpose_tile32`, `transpose_tile33`. Find their bars.
Which of the three is fastest? And which would a dashboard of "memory utilization" worry about?

<details><summary>Answer</summary>

`transpose_tile33` keeps DRAM busiest and takes {{us(lesson.alone("transpose_tile33"), 0)}}; `transpose_direct` keeps it least busy and takes
{{us(lesson.alone("transpose_direct"), 0)}} for the same result. A high bar here is good news: this kernel does nothing but move bytes,
and moves them nearly as fast as the device can. A low bar says that something else is in the way.
</details>

## 4. More warps, more speed?

Occupancy is the share of warp slots in use. Advice on the net says to raise it.
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
**Question.** Find one pair in this picture that speaks for the advice, and one kernel that speaks against it.

<details><summary>Answer</summary>

For: `stream_small_tile` does the work of `stream_large_tile` with more warps, and moves more bytes a second. Against:
`copy_eight` has {{f"{table.filter(kernel='copy_eight')['occupancy'][0]:.0f}"}} of 100 slots in use and reaches {{pct(lesson.use("copy_eight", "dram"))}} of DRAM's peak, because each of its threads asks
for much at once; and `follow_one` has nearly all slots full and moves next to nothing. Occupancy is a means. What counts is the number of bytes under way.
</details>

## 5. The same waiting, twice

What warps do between two instructions, for two kernels with their names taken away. One is at the ceiling of DRAM, the other uses
no unit more than a third.
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
**Question.** Which is which? Is there any way to tell from this picture?

<details><summary>Answer</summary>

There is none. Both wait for memory nearly all of the time: `scale` ({{pct(lesson.stall("scale", "long_scoreboard"))}} in long scoreboard) because
the memory is as busy as it can be, `follow_one` ({{pct(lesson.stall("follow_one", "long_scoreboard"))}}) because each load has to come back before the next
address is known. B is `scale`. A stall says what was waited for, and not that there was anything to gain.
</details>

## 6. Before all that: what is this number?

The cells of the page are text. Here is one counter in four captures.
"""

# %%
for name in ("ncu_memory", "ncu_parallelism", "ncu_bandwidth_small", "sgemm_steps"):
    raw = page(name)
    for column in ("gpu__time_duration.sum", "dram__bytes_read.sum"):
        if column in raw[0]:
            print(f"{name:20} {column:24} {[row[column] for row in raw[:4]]}")

# %% [markdown]
"""
**Question.** What happens to a program that reads the second row of each and compares? What else than a number can a cell hold?

`read_metrics` gives counters in base units, with nothing made up where the capture is silent.
Which of its two kinds of per cent a counter has decides what it is a share of: section 5 of the lesson.
Your work begins with a request of one warp.

```console
uv run lab check ex_31.sectors_of_request
```
"""
