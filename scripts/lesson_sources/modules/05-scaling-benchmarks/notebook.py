# %% [markdown]
"""
# Scaling: how much faster with more?

A training measured on one NVIDIA H200, on two and on four, and a small one on one to sixteen processes of a CPU. No traces: every run is a list of step times. You will see how much
can be said from them, and how easily the wrong thing.

Answer each question *before* you open the answer. The numbers in the answers are computed from the recordings when the notebook is made.
"""

# %%
import json
import statistics

import matplotlib.pyplot as plt

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)


def load(name, file="scaling.json"):
    """What a benchmark wrote; all times in it are in ns."""
    return json.loads(captures.text(name, file))


def step_ms(run):
    """The median step of the first process, without the first five, in ms."""
    return statistics.median(run["step_ns"][0][5:]) / 1e6


baseline = load("scaling_baseline_bf16", "baseline.json")
print(baseline["phase_names"], len(baseline["runs"]), "runs")

# %% [markdown]
"""
## 1. Twenty steps

The first run of the smallest batch, step by step.
"""

# %%
# figure: Dots of the step time over the step's number on a logarithmic axis: the first far above, the second above, the others on
# one level.
run = baseline["runs"][0]
steps_ms = [sum(phases) / 1e6 for phases in run["phases"]]
fig, ax = plt.subplots(figsize=(9, 2.2))
ax.semilogy(range(1, len(steps_ms) + 1), steps_ms, "o", color=palette.BLUE)
ax.set(xlabel="step", ylabel="ms", xticks=range(1, len(steps_ms) + 1))
plt.show()
print(f"mean {statistics.mean(steps_ms):.1f} ms, median {statistics.median(steps_ms):.1f} ms")

# %% [markdown]
"""
**Question.** "The mean step takes this long." Who would be misled, and by what factor? And is the median the right answer to "how many samples a second"?

<details><summary>Answer</summary>

The mean is {{times(statistics.mean(steps_ms), statistics.median(steps_ms), 0)}} the median, because of the first steps alone. Leave out the warm-up, then: samples over the time that they *all* took. The median would hide a
slow step that comes again and again and is paid for each time.
</details>

## 2. What a larger batch buys

Step time and samples a second over the batch, all runs.
"""

# %%
# figure: Left: step time over batch, flat at first, then a straight line. Right: samples a second over batch: rises in proportion and then
# levels off.
fig, axes = plt.subplots(1, 2, figsize=(9, 2.8))
batches = [run["batch"] for run in baseline["runs"]]
took_ms = [
    statistics.median(sum(phases) for phases in run["phases"][5:]) / 1e6 for run in baseline["runs"]
]
rates = [batch / took * 1e3 for batch, took in zip(batches, took_ms, strict=True)]
axes[0].loglog(batches, took_ms, "o", color=palette.BLUE, alpha=0.5)
axes[1].loglog(batches, rates, "o", color=palette.GREEN, alpha=0.5)
axes[0].set(xlabel="batch", ylabel="ms a step")
axes[1].set(xlabel="batch", ylabel="samples a second")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** If you split a batch of 1024 over eight GPUs, where on the left picture does each of them stand? What will the speed-up be, without any exchange of gradients?

<details><summary>Answer</summary>

At 128 samples a step takes about as long as at 1024: the picture is flat there. Eight GPUs would be as fast as one. Before anything can scale, one device must have enough to do: the knee of the right
picture says from when on it has.
</details>

## 3. Three series

One GPU, two and four, three series. In `a` 8192 samples are shared out, in `c` 2048; in `b` each GPU gets 4096.
"""

# %%
# figure: Three bars of step time, with one, two and four GPUs, for each of the series a, b and c. For a the second bar is little more than half
# the first, and the third two thirds of the second; for b and c each is a little higher than the one before.
four = load("scaling_four_bf16")
by_run = {(run["series"], run["world_size"]): run for run in four["runs"]}
fig, ax = plt.subplots(figsize=(9, 2.4))
for x, series in enumerate("abc"):
    for place, (world, colour) in enumerate(
        ((1, "0.6"), (2, palette.ORANGE), (4, palette.VERMILION))
    ):
        run = by_run[series, world]
        ax.bar(x + 0.28 * (place - 1), step_ms(run), 0.26, color=colour)
        label = f"{world} × {run['samples_per_rank'][0]}"
        ax.text(x + 0.28 * (place - 1), step_ms(run) + 0.1, label, ha="center", fontsize=7)
ax.set_xticks(range(3), ["series a", "series b", "series c"])
ax.set(ylabel="ms a step")
plt.show()

# %% [markdown]
"""
**Question.** In series b the step with more GPUs takes longer than with one. Is that a slow-down? Give the speed-up of four GPUs in each series.

<details><summary>Answer</summary>

In b four GPUs did four times the work: samples a second grew by {{times(4 * source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "b", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "b", 4))}}. In a the work was the same: {{times(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "a", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "a", 4))}}, in c {{times(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "c", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "c", 4))}}: less than
one. And from two GPUs to four? They went from {{times(2 * source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "b", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "b", 2))}} to that in b, from {{times(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "a", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "a", 2))}} in a, from {{times(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "c", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "c", 2))}} in c: the first gained nearly twice again, the last nothing. Same hardware, same program, three answers: what was
kept must be said with the number.
</details>

## 4. With and without the exchange

Each process also measured its steps alone, without exchanging gradients. Series d gives the first GPU more samples than each of the others. `d1` is GPU 1 in series d.
"""

# %%
# figure: Bars for every GPU in series a, c and d, with two GPUs on the left and four on the right: a solid part for the step alone and a hatched part up to
# the step with the exchange. In series d the hatched part is small for the first GPU and large for the others.
fig, axes = plt.subplots(1, 2, figsize=(9, 2.4), sharey=True, width_ratios=(1, 1.8))
for ax, world in zip(axes, (2, 4), strict=True):
    ticks = []
    for x, series in enumerate("acd"):
        run = by_run[series, world]
        for rank in range(world):
            alone = statistics.median(run["alone_ns"][rank][5:]) / 1e6
            together = statistics.median(run["step_ns"][rank][5:]) / 1e6
            place = (world + 0.4) * x + rank
            ax.bar(place, alone, color=palette.BLUE)
            ax.bar(
                place,
                together - alone,
                bottom=alone,
                color="white",
                ec=palette.VERMILION,
                hatch="///",
            )
            ticks.append((place, f"{series}{rank}"))
    ax.set_xticks(*zip(*ticks, strict=True), fontsize=8)
    ax.set_title(f"{world} GPUs", fontsize=9)
axes[0].set(ylabel="ms a step")
plt.show()

# %% [markdown]
"""
**Question.** In series d the second GPU's hatched part is large. Would a faster link between the GPUs make it smaller? And with four GPUs, what would give more in series d: the link, or even shares?

<details><summary>Answer</summary>

With two, hardly: the second waits for the first one, which has more to compute, and both end together. In series a and c the hatched parts are alike: there it is the exchange. What looks the same in one bar has two causes, and only the comparison of
the ranks tells them apart. With four, waiting for the first costs {{us(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").verdict("scaling_four_bf16", "d", 4).evidence["waiting_ns"], 0)}} a step and the exchange after it {{us(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").verdict("scaling_four_bf16", "d", 4).evidence["exposed_ns"], 0)}}: as good as the same. A verdict that names the larger one would say less than the two numbers.
</details>

## 5. What an all-reduce costs

Its time over its size, on two GPUs and on four, and a plain copy between two of them. On the right the same as bandwidth: bytes over time (solid), and times 2 (n − 1) / n,
which is bus bandwidth (dashed).
"""

# %%
# figure: Left: time over bytes on logarithmic axes: the all-reduces are flat up to a megabyte, then rise; with four GPUs the largest take longer than
# with two. A copy of the same size takes less. Right: bandwidth over bytes; at the large sizes four GPUs lie below two by bytes over time and above them by
# bus bandwidth.
messages = load("scaling_four_bf16", "communication.json")
fig, axes = plt.subplots(1, 2, figsize=(9, 3))
curves = [
    (f"{n} GPUs", "all_reduce", n, colour)
    for n, colour in ((2, palette.BLUE), (4, palette.VERMILION))
]
for label, key, world, colour in [*curves, ("copy", "copy", None, palette.GREEN)]:
    entries = [entry for entry in messages[key] if entry.get("world_size") == world]
    sizes = [entry["bytes"] for entry in entries]
    took_us = [statistics.median(entry["samples_ns"]) / 1e3 for entry in entries]
    gb_s = [size / took / 1e3 for size, took in zip(sizes, took_us, strict=True)]
    axes[0].loglog(sizes, took_us, "o-", color=colour, label=label, markersize=4)
    axes[1].semilogx(sizes, gb_s, "o-", color=colour, markersize=4)
    if world:
        bus = [2 * (world - 1) / world * value for value in gb_s]
        axes[1].semilogx(sizes, bus, "--", color=colour)
axes[0].set(xlabel="bytes", ylabel="µs", ylim=(10, None))
axes[1].set(xlabel="bytes", ylabel="GB/s", xlim=(2**19, None))
axes[0].legend(frameon=False)
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** Ninety-six gradients of four kilobytes each: one all-reduce each, or one for all? And two of a hundred megabytes? On the right, which two lines lie on each other, and why?

<details><summary>Answer</summary>

The flat part is paid for every message, whatever is in it: {{us(source("modules/05-scaling-benchmarks/ex03-communication-overhead").reduce_ns(2**10, 2, "scaling_four_bf16"), 0)}} for a kilobyte, {{us(source("modules/05-scaling-benchmarks/ex03-communication-overhead").reduce_ns(2**20, 2, "scaling_four_bf16"), 0)}} for a megabyte. So small ones are put together into buckets. Large ones gain nothing from it, and a bucket that waits for the last gradient starts
late. There is a best size, and it depends on what it can hide behind.

Those of two GPUs: their factor is 1. With four it is 1.5, and which of the two bandwidths is meant decides whether four GPUs did worse than two or better.
</details>

## 6. Sixteen processes

A CPU this time: series a from one to sixteen processes, as speed-up over one. Dashed: in proportion.
"""

# %%
# figure: Speed-up over processes on a CPU, far below the dashed line of proportion: it bends over at about three.
cpu = load("scaling_cpu")
fig, ax = plt.subplots(figsize=(6, 3))
for series, colour in (("a", palette.BLUE), ("c", palette.ORANGE)):
    runs = [run for run in cpu["runs"] if run["series"] == series]
    speed = [step_ms(runs[0]) / step_ms(run) for run in runs]
    ax.plot([run["world_size"] for run in runs], speed, "o-", color=colour, label=series)
ax.plot([1, 4], [1, 4], "--", color="0.6")
ax.set(xlabel="processes", ylabel="speed-up", ylim=(0, 4))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
"""
**Question.** Amdahl's law says that the speed-up flattens. Series c *falls*. Can the law describe that, and what does it leave out? From two GPUs, which have two points, which law could you prove?

<details><summary>Answer</summary>

The law has a serial part and a parallel part, and nothing that grows with the number of processes: with a share between 0 and 1 its curve never comes down. An exchange grows with it. And with one GPU and two, every law of one parameter can be made to fit: two points prove none. Four GPUs are a third point. The laws of the first two say {{source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").foretold("scaling_four_bf16", "a", 4)}} of series a, where {{source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").measured("scaling_four_bf16", "a", 4)}} was measured, and {{source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").foretold("scaling_four_bf16", "b", 4)}} of series b (Gustafson's law), where it was {{source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").measured("scaling_four_bf16", "b", 4)}}: a third point can contradict a law. That it agrees proves none either.
</details>

## 7. What all of it is divided by

Each speed-up above had a number of one GPU below the line. If that is wrong, everything is.
"""

# %%
# figure: Stacked bars of the phases of a step (load, copy, compute, optimizer) of the largest batch for two baselines: in the first nearly
# all is compute, in the second loading and copying take almost half.
fig, ax = plt.subplots(figsize=(9, 1.8))
for y, name in enumerate(("scaling_baseline_bf16", "scaling_baseline_late")):
    one = load(name, "baseline.json")
    last = max(one["runs"], key=lambda run: run["batch"])
    left = 0.0
    for place, (phase, colour) in enumerate(
        zip(
            one["phase_names"],
            (palette.VERMILION, palette.ORANGE, palette.BLUE, palette.GREEN),
            strict=True,
        )
    ):
        part = statistics.median(phases[place] for phases in last["phases"][5:]) / 1e6
        ax.barh(y, part, left=left, color=colour, label=phase if not y else None)
        left += part
ax.set_yticks([0, 1], ["bf16", "late"])
ax.legend(ncols=4, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), fontsize=8)
ax.set(xlabel="ms a step of the largest batch")
plt.show()

# %% [markdown]
"""
**Question.** If data come late on one GPU, and with two GPUs each has its own loader: what happens to the speed-up, and is it worth anything?

That is where your work begins: one number from one GPU that deserves to be divided by, with its interval, in [ex01](ex01-single-gpu-baseline/README.md).

```console
uv run lab check scaling_ex01.throughput
```
"""
