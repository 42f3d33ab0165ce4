# %% [markdown]
"""
# Day 1: {{ms(lesson.span_ns("torch_inference_baseline"), 0)}}, seen with your own eyes

Pictures of the recordings that the [lesson](README.md) speaks of, for whoever wants to look longer.

## Further

A small transformer answers eight batches of requests. Somebody says that it is slow. Here is its recording, made with Nsight
Systems on an NVIDIA H200. This notebook computes nothing that you are asked to write.

**How to use it.** Run a cell, look, and answer the question *before* you open the answer. The numbers in the answers
are computed from the recording when the notebook is made.
"""

# %%
import matplotlib.pyplot as plt
import polars as pl

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)
LOOKS = {"H2D": palette.COPY_IN, "D2H": palette.COPY_OUT, "memset": palette.MEMSET}

recording = captures.open("torch_inference_baseline")
operations = recording.device_operations
start_ns, end_ns = recording.span_ns
print(f"{operations.height} device operations in {(end_ns - start_ns) / 1e6:.1f} ms")

# %% [markdown]
"""
## 1. A table first

Most people look at a table first. It says how many operations there were, and how long they took together.
"""

# %%
operations.group_by("kind", maintain_order=True).agg(
    pl.len().alias("count"),
    (pl.col("duration_ns").sum() / 1e6).round(1).alias("total_ms"),
    (pl.col("duration_ns").median() / 1e3).round(1).alias("median_us"),
).sort("total_ms", descending=True)

# %% [markdown]
"""
**Question.** There are {{count(operations.filter(kind="kernel").height / operations.filter(kind="copy").height)}} times as many kernels as copies. Somebody proposes to write faster kernels. Suppose they
became infinitely fast: how much faster would the program be? Guess a number before you go on.

<details><summary>Answer</summary>

All kernels together take {{ms(operations.filter(kind="kernel")["duration_ns"].sum())}} of {{ms(end_ns - start_ns)}}. Without
any of them the program would still need at least
{{pct(1 - operations.filter(kind="kernel")["duration_ns"].sum() / (end_ns - start_ns))}} of its time. The table does not say
what takes this time. Copies are the largest row, but the table does not show what ran at the same time.
</details>

## 2. One step, as a strip

The same operations, drawn at the time when they ran. One batch is one `step`: an NVTX range, which the program named.
"""

# %%
# figure: One step of the baseline on the device: memsets and kernels in short stretches at the left,
# one long copy that takes most of the step, and empty paper between them.
step = recording.nvtx_ranges.filter(name="step").row(3, named=True)
inside = operations.filter(pl.col("start_ns") < step["end_ns"], pl.col("end_ns") > step["start_ns"])


def strip(ax, rows, y, zero_ns=step["start_ns"]):
    """Draw operations as bars, in ms since `zero_ns`: kernels, memsets, and copies by their direction."""
    what = pl.when(pl.col("kind") == "kernel").then(pl.lit("kernel")).otherwise("name")
    for (kind,), some in (
        rows.with_columns(what=what).sort("what").group_by("what", maintain_order=True)
    ):
        begin = (some["start_ns"] - zero_ns) / 1e6
        bars = list(zip(begin, some["duration_ns"] / 1e6, strict=True))
        colour = LOOKS.get(kind, palette.KERNEL)
        ax.broken_barh(bars, (y, 0.8), color=colour, ec="white", lw=0.2, label=kind)


fig, ax = plt.subplots(figsize=(9, 1.5))
strip(ax, inside, 0)
ax.set(xlim=(0, step["duration_ns"] / 1e6), yticks=[], xlabel="ms since the step began")
ax.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
plt.show()

# %% [markdown]
"""
**Question.** Estimate: in which part of this step did the device do nothing? And in which part did it *compute*?

<details><summary>Answer</summary>

Measure the orange on your screen: kernels took {{pct(inside.filter(kind="kernel")["duration_ns"].sum() / step["duration_ns"])}} of this step. Whether the blue part counts as "busy" depends on the
definition. The device's copy engine worked; its {{recording.devices["sm_count"][0]}} multiprocessors did not. Today you define both, under different names.
</details>

## 3. What does the host do meanwhile?

Put the host's ranges above the device's strip, on the same axis.
"""

# %%
# figure: The host's ranges of the same step above the device's operations. The range copy_out covers
# the long copy; make_batch and postprocess lie where the device has nothing to do.
ranges = recording.nvtx_ranges.filter(
    pl.col("start_ns") >= step["start_ns"], pl.col("end_ns") <= step["end_ns"], pl.col("depth") > 1
)
fig, ax = plt.subplots(figsize=(9, 2))
strip(ax, inside, 0)
for shade, row in zip(["0.85", "0.7"] * 9, ranges.iter_rows(named=True), strict=False):
    begin, length = (row["start_ns"] - step["start_ns"]) / 1e6, row["duration_ns"] / 1e6
    ax.broken_barh([(begin, length)], (1, 0.8), color=shade)
    if length > 2:
        ax.text(begin + length / 2, 1.4, row["name"], ha="center", va="center", fontsize=8)
ax.set(xlim=(0, step["duration_ns"] / 1e6), xlabel="ms since the step began")
ax.set_yticks([0.4, 1.4], ["device", "host"])
plt.show()
print(ranges.select("name", (pl.col("duration_ns") / 1e6).round(2).alias("ms")).rows())

# %% [markdown]
"""
**Question.** `forward` is the range in which the model is called. Why is it so short, and where does the host wait for
the model? Then: which range would you look into first?

<details><summary>Answer</summary>

A launch is asynchronous: the host hands the kernels over and goes on. `forward` on the host says when work was *issued*. The
host is in `copy_out` for {{pct(ranges.filter(name="copy_out")["duration_ns"][0] / step["duration_ns"])}} of the step. Look into this range. A range is not yet a cause.
</details>

## 4. How fast is a copy?

Bytes over time is a rate. Each dot is one copy; the lines are rates. The right panel shows the improved version of the same
program.
"""

# %%
# figure: Copies of both programs as dots, duration over bytes on logarithmic axes, with lines of equal
# rate at 2, 10 and 50 GB/s. The two programs' copies lie on different lines.
fig, axes = plt.subplots(1, 2, figsize=(9, 3), sharex=True, sharey=True)
for ax, name in zip(axes, ("torch_inference_baseline", "torch_inference_improved"), strict=True):
    copies = captures.open(name).copies
    for kind, marker in (("H2D", "o"), ("D2H", "s")):
        some = copies.filter(kind=kind)
        colour = LOOKS[kind]
        ax.loglog(some["bytes"], some["duration_ns"] / 1e3, marker, label=kind, color=colour)
    for rate in (2, 10, 50):  # GB/s are bytes a nanosecond
        ax.axline((1e6, 1e6 / rate / 1e3), (1e7, 1e7 / rate / 1e3), color="0.7", lw=0.8)
        ax.annotate(f"{rate} GB/s", (1e5, 1e5 / rate / 1e3), fontsize=7, color="0.4")
    ax.set(title=name, xlabel="bytes", ylim=(0.8, 5e4))
axes[0].set_ylabel("duration, µs")
axes[0].legend(frameon=False)
plt.show()

# %% [markdown]
"""
**Question.** Which direction is slow in the baseline, and how much slower than in the improved version? Then look at
`source` and `destination` of some copies of both recordings (`recording.copies`): what is the one thing that differs?

<details><summary>Answer</summary>

Device to host runs at {{lesson.copied("torch_inference_baseline", "D2H")}} in the baseline and at {{lesson.copied("torch_inference_improved", "D2H")}} in the improved version. The host's memory is `{{recording.copies.filter(kind="D2H")["destination"][0]}}` in one,
`{{captures.open("torch_inference_improved").copies.filter(kind="D2H")["destination"][0]}}` in the other. The lesson explains why this makes copies slow, and why it blocks the host.
</details>

## 5. Many small kernels

Another program, `decode_eager`, writes text token by token. It copies nothing. A short stretch of it:
"""

# %%
# figure: Three milliseconds of decode_eager. Kernels are hairlines on the device's row, with much more
# paper between them than ink; above them the host's launching calls follow each other more closely.
decode = captures.open("decode_eager")
zero_ns = decode.span_ns[0] + 10_000_000
fig, ax = plt.subplots(figsize=(9, 1.8))
for y, rows in ((0, decode.kernels), (1, decode.api_calls)):
    near = rows.filter(pl.col("start_ns").is_between(zero_ns, zero_ns + 3_000_000))
    begin = (near["start_ns"] - zero_ns) / 1e6
    bars = list(zip(begin, near["duration_ns"] / 1e6, strict=True))
    ax.broken_barh(bars, (y, 0.8), color=(palette.KERNEL, palette.CALL)[y], lw=0)
ax.set_yticks([0.4, 1.4], ["kernels", "CUDA calls"])
ax.set(xlim=(0, 3), xlabel="ms")
plt.show()

# %%
# figure: Histogram of the durations of the kernels of decode_eager, in microseconds. Nearly all are
# shorter than five.
fig, ax = plt.subplots(figsize=(9, 1.8))
ax.hist(decode.kernels["duration_ns"] / 1e3, bins=60, range=(0, 12), color=palette.KERNEL)
ax.set(xlabel="duration of a kernel, µs", ylabel="kernels")
plt.show()

# %% [markdown]
"""
**Question.** The device is idle most of the time, but here the host does not wait for the device. What waits for what? Would
faster kernels help? Would a faster GPU help?

<details><summary>Answer</summary>

The median kernel runs for {{us(decode.kernels["duration_ns"].median())}}; the host issues one every {{us((decode.span_ns[1] - decode.span_ns[0]) / decode.kernels.height)}} on average. The device waits for work. A faster GPU would
wait longer. A gap is an effect. The day ends with a function that says how much time it saves to remove its cause.
</details>

## 6. Busy, as the hardware sees it

A timeline shows when a kernel began and ended, but not what happened in between. For that, hardware counters were sampled while
the programs ran. The share of multiprocessors with work, at the beginning of both programs:
"""

# %%
# figure: SMs active over 30 milliseconds, sampled. In the baseline short peaks with long stretches at
# zero; in the improved version a line that stays high.
fig, axes = plt.subplots(2, 1, figsize=(9, 2.8), sharex=True, sharey=True)
for ax, name in zip(axes, ("torch_inference_baseline", "torch_inference_improved"), strict=True):
    one = captures.open(name)
    begin_ns = one.span_ns[0]
    samples = one.gpu_metrics.filter(
        pl.col("metric") == "SMs Active [Throughput %]",
        pl.col("timestamp_ns").is_between(begin_ns, begin_ns + 30_000_000),
    )
    time_ms = (samples["timestamp_ns"] - begin_ns) / 1e6
    ax.fill_between(time_ms, samples["value"], step="pre", color=palette.GREEN, alpha=0.7)
    ax.set(title=name, ylabel="% of SMs", ylim=(0, 100), xlim=(0, 30))
axes[1].set_xlabel("ms")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** Guess the mean height of each panel. Then: could this number be low although a kernel runs all the time?

<details><summary>Answer</summary>

Over the whole recordings the means are {{pct(ex_30.busy_against_active("torch_inference_baseline")[0]["sm_active_ratio"])}} and {{pct(ex_30.busy_against_active("torch_inference_improved")[0]["sm_active_ratio"])}}. And yes, the number could be low: a kernel of one block uses one
multiprocessor, and every dashboard shows the device as busy.
</details>

## 7. The sum that is more than the whole

`two_streams` runs kernels on two streams and copies on a third.
"""

# %%
# figure: Three rows of bars, one a stream. At most times bars of two or three rows lie above each other.
streams = captures.open("two_streams").device_operations
first_ns, last_ns = captures.open("two_streams").span_ns
fig, ax = plt.subplots(figsize=(9, 1.8))
for y, (stream, rows) in enumerate(streams.group_by("stream", maintain_order=True)):
    strip(ax, rows, y, zero_ns=first_ns)
    ax.text(-0.02, y + 0.4, f"stream {stream[0]}", ha="right", va="center")
ax.set(yticks=[], xlabel="ms", xlim=(0, 1.2))
plt.show()
added_ms = streams["duration_ns"].sum() / 1e6
print(f"durations added: {added_ms:.2f} ms; time that passed: {(last_ns - first_ns) / 1e6:.2f} ms")

# %% [markdown]
"""
**Question.** The durations add up to {{times(streams["duration_ns"].sum(), last_ns - first_ns)}} the time that passed. So how long was the device *busy*? Do it with a pencil for
the first few bars: which stretches of the axis does at least one bar cover? What do you have to remember while you go from left
to right?

Your work begins with this question. The [lesson](README.md) has the definitions and the traps; the stub is
[ex_30_nsight_systems.py](ex_30_nsight_systems.py). Its first function is this one:

```console
uv run lab check ex_30.busy_time
```
"""
