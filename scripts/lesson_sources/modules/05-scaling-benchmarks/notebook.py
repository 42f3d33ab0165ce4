# %% [markdown]
"""
# Scaling: how much faster with more?

We measured the training of one network on one, two and four NVIDIA H200 GPUs, and of a smaller network with one to sixteen processes on a CPU. There are no traces; every run is a list of step times. You see how much
these times can tell, and how easily they mislead.

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

The plot shows the first run of the smallest batch, step by step.
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
**Question.** Somebody reports the mean step time. How far is it from a typical step? And is the median the right number to compute samples per second?

<details><summary>Answer</summary>

The mean is {{times(statistics.mean(steps_ms), statistics.median(steps_ms), 0)}} the median, only because of the first steps. Leave out the warm-up. Then divide all remaining samples by the time that *all* remaining steps took. The median would hide
slow steps that occur regularly, although each of them costs time.
</details>

## 2. What a larger batch brings

The plots show the step time and the samples per second for each batch size, with all runs.
"""

# %%
# figure: Left: step time over batch, flat at first, then a straight line. Right: samples per second over batch: rises in proportion and then
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
axes[1].set(xlabel="batch", ylabel="samples per second")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** If you divide a batch of 1024 among eight GPUs, where is each GPU in the left plot? What is the speed-up, even without any exchange of gradients?

<details><summary>Answer</summary>

A step of 128 samples takes about as long as a step of 1024, because the curve is flat there. So eight GPUs would be as fast as one. Training can only scale if each device has enough work. The knee in the right
plot shows the smallest batch for which this is true.
</details>

## 3. Three series

The plot shows three series on one, two and four GPUs. In `a` the GPUs divide 8192 samples, in `c` 2048. In `b` each GPU gets 4096.
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
**Question.** In series b, a step with more GPUs takes longer than a step with one. Is the program slower? Give the speed-up of four GPUs in each series.

<details><summary>Answer</summary>

In b, four GPUs did four times the work, and the speed-up in samples per second was {{times(4 * source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "b", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "b", 4))}}. In a and c, the work was the same. The speed-up was {{times(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "a", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "a", 4))}} in a and {{times(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "c", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "c", 4))}} in c, which is less than
one. Two GPUs had a speed-up of {{times(2 * source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "b", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "b", 2))}} in b, {{times(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "a", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "a", 2))}} in a and {{times(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "c", 1), source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").step("scaling_four_bf16", "c", 2))}} in c. From two GPUs to four, the speed-up nearly doubled in b and did not grow in c. Hardware and program are the same, but there are three answers. So when you report a speed-up, always say what was
kept constant.
</details>

## 4. With and without the exchange

Each process also measured its steps without the exchange of gradients. Series d gives the first GPU more samples than each of the others. `d1` is GPU 1, the second GPU, in series d.
"""

# %%
# figure: Bars for every GPU in series a, c and d, with two GPUs on the left and four on the right: a solid part for the step without the exchange and a hatched part up to
# the step with it. In series d the hatched part is small for the first GPU and large for the others.
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
**Question.** In series d the second GPU's hatched part is large. Would a faster link between the GPUs make it smaller? And with four GPUs, what would help more in series d: a faster link, or equal shares?

<details><summary>Answer</summary>

With two GPUs, a faster link would hardly help. The second GPU waits for the first one, which has more to compute, and both end together. In series a and c the hatched parts of all GPUs are alike, so there these parts are the exchange. A single bar does not show which of the two causes it has. You must compare
the ranks. With four GPUs, waiting for the first GPU costs {{us(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").verdict("scaling_four_bf16", "d", 4).evidence["waiting_ns"], 0)}} per step, and the exchange after it costs {{us(source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").verdict("scaling_four_bf16", "d", 4).evidence["exposed_ns"], 0)}}, almost the same. So report both numbers, not only the larger one.
</details>

## 5. What an all-reduce costs

On the left is the time of an all-reduce over its size, on two GPUs and on four, together with a plain copy between two of the GPUs. On the right is the bandwidth. The solid lines show bytes divided by time. The dashed lines show this value multiplied by 2 (n − 1) / n,
which is the bus bandwidth.
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
**Question.** There are ninety-six gradients of four kilobytes each. Would you send one all-reduce for each, or one for all? And what would you do with two gradients of a hundred megabytes? In the right plot, which two lines are the same, and why?

<details><summary>Answer</summary>

Every message takes at least the time of the flat part, however small it is: {{us(source("modules/05-scaling-benchmarks/ex03-communication-overhead").reduce_ns(2**10, 2, "scaling_four_bf16"), 0)}} for a kilobyte, {{us(source("modules/05-scaling-benchmarks/ex03-communication-overhead").reduce_ns(2**20, 2, "scaling_four_bf16"), 0)}} for a megabyte. So put small gradients together into buckets. For large gradients this saves nothing, and a bucket that waits for its last gradient starts
late. The best size is between the two. It depends on how much of the exchange the computing can hide.

The two lines of two GPUs are the same, because their factor is 1. For four GPUs it is 1.5. By bytes divided by time, four GPUs are worse than two; by bus bandwidth, they are better.
</details>

## 6. Sixteen processes

These processes run on a CPU. The plot shows the speed-up of series a and c from one to sixteen processes. The dashed line is a speed-up equal to the number of processes.
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
**Question.** Amdahl's law says that the speed-up flattens. In series c it *falls*. Can the law describe this, and what does the law leave out? Measurements on one and two GPUs give two points. Which law could you prove with two points?

<details><summary>Answer</summary>

The law has a serial part and a parallel part, but nothing that grows with the number of processes, as an exchange does. With a share between 0 and 1 its curve never falls. With one GPU and two, you can fit every law that has one parameter, so two points prove no law. Four GPUs are a third point. From the first two points, Amdahl's law predicts {{source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").foretold("scaling_four_bf16", "a", 4)}} for series a, and {{source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").measured("scaling_four_bf16", "a", 4)}} was measured. Gustafson's law predicts {{source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").foretold("scaling_four_bf16", "b", 4)}} for series b, and {{source("modules/05-scaling-benchmarks/ex02-multi-gpu-scaling").measured("scaling_four_bf16", "b", 4)}} was measured. So a third point can contradict a law. If it agrees, this does not prove the law.
</details>

## 7. The baseline

Each speed-up above compares with a measurement on one GPU. If this baseline is wrong, every speed-up is wrong.
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
**Question.** Suppose that data come late on one GPU, and that with two GPUs each has its own loader. What happens to the speed-up, and does it tell you anything?

In [ex01](ex01-single-gpu-baseline/README.md) you begin with the baseline: you compute the throughput of one GPU, with its interval.

```console
uv run lab check scaling_ex01.throughput
```
"""
