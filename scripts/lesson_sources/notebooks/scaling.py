# %% [markdown]
"""
# Scaling: how much faster with more?

A training measured on one NVIDIA H200 and on two, and a small one on one to sixteen processes of a CPU. No traces: every run is a list of step times. You will see how much
can be said from them, and how easily the wrong thing.

Answer each question *before* you open the answer. The numbers in the answers are computed from the recordings when the notebook is made.
"""

# %%
import json
import statistics

import matplotlib.pyplot as plt

from profiling_lab import captures

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9})
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"


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
ax.semilogy(range(1, len(steps_ms) + 1), steps_ms, "o", color=BLUE)
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
axes[0].loglog(batches, took_ms, "o", color=BLUE, alpha=0.5)
axes[1].loglog(batches, rates, "o", color=GREEN, alpha=0.5)
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

## 3. Three speed-ups

One GPU and two, three series. In `a` 8192 samples are shared out, in `c` 2048; in `b` each GPU gets 4096.
"""

# %%
# figure: Pairs of bars of step time with one and two GPUs for series a, b and c. For a the second bar is little more than half the first,
# for b and c it is higher than the first.
two = load("scaling_bf16")
fig, ax = plt.subplots(figsize=(9, 2.4))
for x, series in enumerate("abc"):
    for world, colour in ((1, "0.6"), (2, ORANGE)):
        run = next(r for r in two["runs"] if r["series"] == series and r["world_size"] == world)
        ax.bar(x + 0.4 * (world - 1.5), step_ms(run), 0.38, color=colour)
        label = " + ".join(str(samples) for samples in run["samples_per_rank"])
        ax.text(x + 0.4 * (world - 1.5), step_ms(run) + 0.1, label, ha="center", fontsize=7)
ax.set_xticks(range(3), ["series a", "series b", "series c"])
ax.set(ylabel="ms a step")
plt.show()

# %% [markdown]
"""
**Question.** In series b the step with two GPUs takes longer than with one. Is that a slow-down? Give the speed-up of each series in one number.

<details><summary>Answer</summary>

In b two GPUs did twice the work: samples a second grew by {{times(2 * multi_gpu_scaling_lesson.step("scaling_bf16", "b", 1), multi_gpu_scaling_lesson.step("scaling_bf16", "b", 2))}}. In a the work was the same: {{times(multi_gpu_scaling_lesson.step("scaling_bf16", "a", 1), multi_gpu_scaling_lesson.step("scaling_bf16", "a", 2))}}, in c {{times(multi_gpu_scaling_lesson.step("scaling_bf16", "c", 1), multi_gpu_scaling_lesson.step("scaling_bf16", "c", 2))}}: less than
one. Same hardware, same program, three answers: what was kept must be said with the number.
</details>

## 4. With and without the exchange

Each process also measured its steps alone, without exchanging gradients. Series d gives one GPU more samples than the other.
"""

# %%
# figure: Bars for both GPUs in series a, c and d: a solid part for the step alone and a hatched part up to the step with the exchange. In
# series d the hatched part is small for the first GPU and large for the second.
fig, ax = plt.subplots(figsize=(9, 2.4))
ticks = []
for x, series in enumerate("acd"):
    run = next(r for r in two["runs"] if r["series"] == series and r["world_size"] == 2)
    for rank in (0, 1):
        alone = statistics.median(run["alone_ns"][rank][5:]) / 1e6
        together = statistics.median(run["step_ns"][rank][5:]) / 1e6
        place = 2.4 * x + rank
        ax.bar(place, alone, color=BLUE)
        ax.bar(place, together - alone, bottom=alone, color="white", ec=RED, hatch="///")
        ticks.append((place, f"{series}, GPU {rank}"))
ax.set_xticks(*zip(*ticks, strict=True), fontsize=8)
ax.set(ylabel="ms a step")
plt.show()

# %% [markdown]
"""
**Question.** In series d the second GPU's hatched part is large. Would a faster link between the GPUs make it smaller?

<details><summary>Answer</summary>

Hardly: it waits for the first one, which has more to compute, and both end together. In series a and c the hatched parts of both are alike: there it is the exchange. What looks the same in one bar has two causes, and only the comparison of
both ranks tells them apart.
</details>

## 5. What an all-reduce costs

Its time over its size, on two GPUs, and a plain copy between them.
"""

# %%
# figure: Time over bytes on logarithmic axes: the all-reduce is flat up to a megabyte, then rises; the copy lies below it and rises
# along with it.
messages = load("scaling_bf16", "communication.json")
fig, ax = plt.subplots(figsize=(7, 2.8))
for key, colour in (("all_reduce", BLUE), ("copy", GREEN)):
    sizes = [entry["bytes"] for entry in messages[key]]
    took_us = [statistics.median(entry["samples_ns"]) / 1e3 for entry in messages[key]]
    ax.loglog(sizes, took_us, "o-", color=colour, label=key)
ax.set(xlabel="bytes", ylabel="µs", ylim=(10, None))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
"""
**Question.** Ninety-six gradients of four kilobytes each: one all-reduce each, or one for all? And two of a hundred megabytes?

<details><summary>Answer</summary>

The flat part is paid for every message, whatever is in it: {{us(statistics.median(messages["all_reduce"][0]["samples_ns"]), 0)}} for a kilobyte, {{us(statistics.median(messages["all_reduce"][5]["samples_ns"]), 0)}} for a megabyte. So small ones are put together into buckets. Large ones gain nothing from it, and a bucket that waits for the last gradient starts
late. There is a best size, and it depends on what it can hide behind.
</details>

## 6. Sixteen processes

A CPU this time: series a from one to sixteen processes, as speed-up over one. Dashed: in proportion.
"""

# %%
# figure: Speed-up over processes on a CPU, far below the dashed line of proportion: it bends over at about three.
cpu = load("scaling_cpu")
fig, ax = plt.subplots(figsize=(6, 3))
for series, colour in (("a", BLUE), ("c", ORANGE)):
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

The law has a serial part and a parallel part, and nothing that grows with the number of processes: its curve never comes down. An exchange grows with it. And with one GPU and two, every law of one parameter can be made to fit: two points prove none.
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
        zip(one["phase_names"], (RED, ORANGE, BLUE, GREEN), strict=True)
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
