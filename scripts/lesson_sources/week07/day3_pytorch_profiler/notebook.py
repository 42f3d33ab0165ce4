# %% [markdown]
"""
# Day 3: from a kernel to a line of Python

The day is the [lesson](README.md); your functions go into [ex_32_pytorch_profiler.py](ex_32_pytorch_profiler.py).
This notebook shows recordings of the lesson as pictures.

## Further

You do not need the pictures for the following days. Two
training loops compute the same losses on an NVIDIA H200, and one of them leaves the device idle. You will see where this
happens, and which line causes it. Answer each question *before* you open the answer. The numbers in the answers are computed from
the traces when the notebook is made.
"""

# %%
import json
from collections import Counter

import matplotlib.pyplot as plt
import polars as pl

from profiling_lab import captures, palette

events = json.loads(captures.text("torch_train_sync", "trace.json"))["traceEvents"]
Counter(event.get("cat") for event in events if event.get("ph") == "X").most_common()

# %% [markdown]
"""
## 1. What is in the file

A trace is JSON: a list of events with a category, a name, a beginning, a duration. The list above counts the categories.

**Question.** Three training steps were recorded. More than half of the events are `python_function`. Which option recorded them, and
which event would you look for to divide the trace into steps?

<details><summary>Answer</summary>

`with_stack=True` recorded them. Stacks make a trace large and slow to record. `profiler.step()` leaves ranges named
`ProfilerStep#<number>`: {{", ".join(sorted({e["name"] for e in events if str(e.get("name")).startswith("ProfilerStep")}))}}. The program's own ranges (`forward`, `backward`, …) are inside them.
</details>
"""

# %%
plt.rcParams.update(palette.NOTEBOOK)


def load(name):
    """The complete events ("X") of a trace, as they are written: `ts` and `dur` in microseconds."""
    document = json.loads(captures.text(name, "trace.json"))
    return [event for event in document["traceEvents"] if event.get("ph") == "X"]


def rows(name):
    """The same as a table, in order of time, the clock set to zero at the first profiled step."""
    events = load(name)
    zero = min(e["ts"] for e in events if str(e["name"]).startswith("ProfilerStep"))
    table = [(e.get("cat"), str(e["name"]), e["ts"] - zero, e["dur"]) for e in events]
    return pl.DataFrame(table, schema=["kind", "name", "begin_us", "us"], orient="row").sort(
        "begin_us"
    )


slow, quick = rows("torch_train_sync"), rows("torch_train_clean")
print(len(slow), len(quick), "events")

# %% [markdown]
"""
## 2. Three steps, three rows

The plot shows operators, CUDA calls and the device, for both programs. The host begins a step at each dashed line.
"""

# %%
# figure: Two panels, each with three rows: operators, CUDA calls, device. In the upper one the device's row
# has gaps after long bars in the row of calls. In the lower one the host is done early and the row is full.
ROWS = {
    "cpu_op": (2, palette.OPERATOR),
    "cuda_runtime": (1, palette.CALL),
    "kernel": (0, palette.KERNEL),
    "gpu_memcpy": (0, palette.COPY_DEVICE),
}


def draw(ax, table, begin_us, length_us):
    """Draw the events of a stretch as bars."""
    near = table.filter(pl.col("begin_us").is_between(begin_us - 5000, begin_us + length_us))
    for kind, (y, colour) in ROWS.items():
        some = near.filter(kind=kind)
        bars = list(zip((some["begin_us"] - begin_us) / 1e3, some["us"] / 1e3, strict=True))
        ax.broken_barh(bars, (y, 0.8), color=colour, lw=0)
    ax.set_yticks([0.4, 1.4, 2.4], ["device", "calls", "operators"])
    ax.set_xlim(0, length_us / 1e3)


def a_step(table, number):
    """Beginning and length of a step, in microseconds."""
    step = table.filter(name=f"ProfilerStep#{number}", kind="user_annotation").row(0, named=True)
    return step["begin_us"], step["us"]


fig, axes = plt.subplots(2, 1, figsize=(9, 3.6), sharex=True)
for ax, table, name in zip(axes, (slow, quick), ("sync", "clean"), strict=True):
    draw(ax, table, 0, 78_000)
    for number in (3, 4, 5):
        ax.axvline(a_step(table, number)[0] / 1e3, color="0.3", ls="--", lw=0.8)
    ax.set_title(f"torch_train_{name}", loc="left")
axes[1].set_xlabel("ms")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** In the upper panel, find the long bars in the row of calls. What does the device do *during* such a bar, and what
*after* it? In the lower panel the host begins three steps within a few milliseconds. Do the kernels really take so little time?

<details><summary>Answer</summary>

During the bar the device works, and the host waits for this work. After it the device has nothing to do until the host has issued the next
kernels, one by one. The wait itself costs nothing, but it leaves an empty queue.

In the lower panel the host only issues the work and runs ahead. The device executes it much later. A step's range belongs to
the host, but the device sets the pace: without the profiler a step took {{told("torch_train_clean", "step_ms_unprofiled")}} ms there and {{told("torch_train_sync", "step_ms_unprofiled")}} ms in the upper program
(source: their provenance).
</details>

## 3. Which call is it?

The plot shows the host's time in CUDA calls, by name.
"""

# %%
# figure: Horizontal bars of the total time in CUDA calls by name, for both programs. In the first one
# cudaStreamSynchronize is by far the longest bar.
fig, axes = plt.subplots(1, 2, figsize=(9, 2.2), sharex=True)
for ax, table, name in zip(axes, (slow, quick), ("sync", "clean"), strict=True):
    calls = table.filter(pl.col("kind").is_in(["cuda_runtime", "cuda_driver"]))
    longest = (
        calls.group_by("name", maintain_order=True).agg(pl.col("us").sum() / 1e3).sort("us")[-5:]
    )
    ax.barh(longest["name"], longest["us"], color=palette.CALL)
    ax.set(title=f"torch_train_{name}", xlabel="ms in three steps")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** The program on the right waits longer, in one call. Is that a fault? Why can a longer wait cost less?

<details><summary>Answer</summary>

The right program waits {{count(quick.filter(pl.col("name").str.contains("Synchronize")).height)}} times, for {{ms(quick.filter(pl.col("name").str.contains("Synchronize"))["us"].sum() * 1e3)}} in all: at the end of the recording, when all work is issued and the device
still has a long queue. This wait costs nothing. The left program waits {{count(slow.filter(name="cudaStreamSynchronize").height)}} times, for {{ms(slow.filter(name="cudaStreamSynchronize")["us"].sum() * 1e3)}}, and leaves an empty queue
behind each time. So the total waiting time does not tell you what the waits cost.
</details>

## 4. Who called?

The picture zooms in on one long wait of the same step. It shows the stack: all Python functions, operators and calls that were running at that time.
"""

# %%
# figure: A stack of open functions and operators around one long cudaStreamSynchronize: outer Python
# functions at the bottom, then the program's line, an operator, and the call on top.
waits = slow.filter(pl.col("name") == "cudaStreamSynchronize", pl.col("us") > 1000)
wait = waits.row(1, named=True)
middle_us = wait["begin_us"] + wait["us"] / 2
around = slow.filter(
    pl.col("kind").is_in(["python_function", "cpu_op", "cuda_runtime"]),
    pl.col("begin_us") <= middle_us,
    pl.col("begin_us") + pl.col("us") >= middle_us,
).sort("us", descending=True)
colours = {
    "python_function": palette.PYTHON,
    "cpu_op": palette.OPERATOR,
    "cuda_runtime": palette.CALL,
}
fig, ax = plt.subplots(figsize=(9, 2.6))
left_us, right_us = wait["begin_us"] - 500, wait["begin_us"] + wait["us"] + 500
for y, row in enumerate(around.iter_rows(named=True)):
    begin = max(row["begin_us"], left_us)
    end = min(row["begin_us"] + row["us"], right_us)
    ax.broken_barh([(begin - left_us, end - begin)], (y, 0.9), color=colours[row["kind"]])
    ax.text((right_us - left_us) / 2, y + 0.45, row["name"][:70], ha="center", va="center", size=7)
ax.set(yticks=[], xlabel="µs")
plt.show()

# %% [markdown]
"""
**Question.** Read the stack from the top, where the call is, downwards. Which is the first line that you could change? What did
this line need from the device?

<details><summary>Answer</summary>

No line of the program calls `cudaStreamSynchronize`. Below it is `aten::_local_scalar_dense`, which `.item()` calls: the host
needed one number. Move the line of the program that asks for this number out of the loop, or run it less often.
</details>

## 5. Sums that mislead

The usual table sorts operators by their total. Here is such a list, made by adding up durations.
"""

# %%
operators = (
    quick.filter(kind="cpu_op")
    .group_by("name", maintain_order=True)
    .agg(pl.len().alias("calls"), (pl.col("us").sum() / 1e3).round(2).alias("ms"))
)
step_ms = sum(a_step(quick, number)[1] for number in (3, 4, 5)) / 1e3
print(operators.sort("ms", "name", descending=[True, False]).head(8))
print(f"all operators together: {operators['ms'].sum():.1f} ms; the three steps: {step_ms:.1f} ms")

# %%
# figure: One call of aten::linear as nested bars: aten::linear holds aten::t and aten::addmm, which hold
# smaller ones.
outer = quick.filter(name="aten::linear").row(8, named=True)
inner = quick.filter(
    pl.col("kind").is_in(["cpu_op", "cuda_runtime", "cuda_driver"]),
    pl.col("begin_us") >= outer["begin_us"],
    pl.col("begin_us") + pl.col("us") <= outer["begin_us"] + outer["us"],
)
fig, ax = plt.subplots(figsize=(9, 1.8))
open_ends = []
for row in inner.sort(["begin_us", "us"], descending=[False, True]).iter_rows(named=True):
    while open_ends and open_ends[-1] <= row["begin_us"]:
        open_ends.pop()
    begin = row["begin_us"] - outer["begin_us"]
    colour = palette.OPERATOR if row["kind"] == "cpu_op" else palette.CALL
    ax.broken_barh([(begin, row["us"])], (len(open_ends), 0.9), color=colour, ec="white")
    if row["us"] > outer["us"] / 12:
        ax.text(begin + row["us"] / 2, len(open_ends) + 0.45, row["name"], ha="center", size=6)
    open_ends.append(row["begin_us"] + row["us"])
ax.set(yticks=[], xlabel="µs")
plt.show()

# %% [markdown]
"""
**Question.** The sum counts some time several times. Which time? And what did the host do in the rest of the steps, in which no operator ran? In the picture,
which part of `aten::linear` is its *own*?

<details><summary>Answer</summary>

An operator's duration includes those of the operators that it calls, so the sum counts inner ones several times. In the rest of the steps the
host mostly waited in `cudaDeviceSynchronize`, which is a call and not an operator (section 3). An operator's *self* time is the part of its bar with nothing above it. The further task `operator_table` computes
total and self time, and also the time that its kernels took on the device.
</details>

## 6. How much of a step is empty?

The plot shows the device's rows of both programs, larger and with kernels only.
"""

# %%
# figure: Two rows of kernels as bars, with dashed lines where the host's steps begin. The upper one has
# gaps of milliseconds in each step; the lower one has none, and all its lines are at the left.
fig, axes = plt.subplots(2, 1, figsize=(9, 2), sharex=True)
for ax, table in zip(axes, (slow, quick), strict=True):
    device = table.filter(kind="kernel")
    bars = list(zip(device["begin_us"] / 1e3, device["us"] / 1e3, strict=True))
    ax.broken_barh(bars, (0, 1), color=palette.KERNEL, lw=0)
    for number in (3, 4, 5):
        ax.axvline(a_step(table, number)[0] / 1e3, color="0.3", ls="--", lw=0.8)
    ax.set_yticks([])
axes[1].set_xlabel("ms")
plt.show()

# %% [markdown]
"""
**Question.** In the lower row, which kernels belong to the second step: those that it issued, or those between its dashed lines? Which of
the two can you see in the device's row? What is the idle time *of a step* then?

The lesson's further section "How much of a step is idle" has the definition.

```console
uv run lab check ex_32.step_breakdown
```
"""
