# %% [markdown]
"""
# Energy: what a power sensor says, and when

An NVIDIA H200 is idle, works, and is idle again. Throughout, a host thread reads the GPU's power sensors, clock and
energy counter every few milliseconds. You look at the readings, and at what they do not show.

Answer each question *before* you open the answer. The numbers in the answers are computed from the recordings when the notebook is made.
"""

# %%
import json

import matplotlib.pyplot as plt
import numpy as np

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)


def load(name):
    """Phases of a recording, and its samples as arrays."""
    recording = json.loads(captures.text(name, "energy.json"))
    samples = {key: np.array(values, dtype=float) for key, values in recording["samples"].items()}
    return recording["phases"], samples


phases, samples = load("energy_trace_bf16")
seconds = samples["time_ns"] / 1e9
for phase in phases:
    print(f"{phase['name']:12} {(phase['end_ns'] - phase['start_ns']) / 1e6:7.1f} ms")

# %% [markdown]
"""
## 1. Two sensors, one device

Both lines show the power in watts, read from the same driver at the same times. The grey bands are the phases in which work ran.
"""

# %%
# figure: Power over fourteen seconds. One line jumps to its height when a grey band begins and falls when it ends; the other
# climbs slowly and misses the short bands.
fig, ax = plt.subplots(figsize=(9, 2.8))
for phase in phases:
    if phase["name"] != "idle":
        ax.axvspan(phase["start_ns"] / 1e9, phase["end_ns"] / 1e9, color="0.9", lw=0)
ax.plot(seconds, samples["average_mw"] / 1e3, color=palette.ORANGE, lw=1, label="A")
ax.plot(seconds, samples["instant_mw"] / 1e3, color=palette.BLUE, lw=0.8, label="B")
ax.set(xlabel="s", ylabel="W", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
"""
**Question.** Which of the two sensors would you use to measure a burst of a tenth of a second? Would it matter which sensor you use for a dashboard that refreshes once a minute?

<details><summary>Answer</summary>

A is an average over a longer time: its line still rises when the burst is over. B follows the work with a small delay. Over
minutes both give the same result. For a burst of a tenth of a second, A is useless. NVML's plain reading of power (`usage_mw`, by `nvmlDeviceGetPowerUsage`) gave the value of A in {{pct(np.mean(samples["usage_mw"] == samples["average_mw"]))}} of the samples.
</details>

## 2. How often is the sensor updated?

The thread read the sensor every few milliseconds. The figure shows every reading of B at the beginning of the long phase.
"""

# %%
# figure: Dots of the readings of one sensor over three tenths of a second: many dots in a row have the same value, then a
# step.
start_s = phases[1]["start_ns"] / 1e9
near = (seconds > start_s - 0.05) & (seconds < start_s + 0.25)
fig, ax = plt.subplots(figsize=(9, 2.4))
ax.plot((seconds[near] - start_s) * 1e3, samples["instant_mw"][near] / 1e3, ".", color=palette.BLUE)
ax.axvline(0, color="0.5", lw=0.8)
ax.set(xlabel="ms since work began", ylabel="W", ylim=(0, None))
plt.show()

# %% [markdown]
"""
**Question.** How many of these dots are new readings? Estimate from the picture how often the sensor is updated, and how long after the beginning of the work its value first changes. Would it help to read twice as often?

<details><summary>Answer</summary>

Many readings repeat the previous one. The sensor is updated at its own rate, so reading it faster only gives copies. In ex01 you
compute its update period and its delay. The delay is harder to compute, because there is no reading exactly at the beginning of the
work or at an update.
</details>

## 3. The area under the line

Energy is power integrated over time. For each phase with work, the figure shows the energy by the counter, and the mean of the readings times the duration of the phase.
"""

# %%
# figure: Pairs of bars of joules for each phase with work: counter and sensor. They agree for the long phase; for the shortest
# burst they differ much.
named, counter_j, mean_j = [], [], []
for phase in phases:
    if phase["name"] == "idle":
        continue
    inside = (samples["time_ns"] >= phase["start_ns"]) & (samples["time_ns"] < phase["end_ns"])
    length_s = (phase["end_ns"] - phase["start_ns"]) / 1e9
    named.append(phase["name"])
    counter_j.append((phase["energy_end_mj"] - phase["energy_start_mj"]) / 1e3)
    mean_j.append(samples["instant_mw"][inside].mean() / 1e3 * length_s)
fig, ax = plt.subplots(figsize=(9, 2.4))
place = np.arange(len(named))
ax.bar(place - 0.2, counter_j, 0.4, color=palette.GREEN, label="counter")
ax.bar(place + 0.2, mean_j, 0.4, color=palette.BLUE, label="mean reading × time")
ax.set_xticks(place, named)
ax.set(yscale="log", ylabel="J")
ax.legend(frameon=False)
plt.show()
for name, from_counter, from_mean in zip(named, counter_j, mean_j, strict=True):
    print(f"{name:12} {from_mean / from_counter:.2f} of the counter's")

# %% [markdown]
"""
**Question.** Why is the sensor's value too low for the shortest burst? What would you do to measure something that takes 25 milliseconds?

<details><summary>Answer</summary>

Most readings in the burst still show the power of the idle time before it: the sensor has a delay, and the burst ends before the
readings rise. Repeat the work many times in a row, and divide by the number of repeats. (The counter is not exact either. It is also
updated only at intervals, so it is just as unreliable for the shortest phase.)
</details>

## 4. Why is the clock low?

The figure shows the clock and the power during the long phase.
"""

# %%
# figure: Clock over time above power over time. When work begins the power goes to its limit, a dashed line, and the clock
# falls and then wavers.
fig, axes = plt.subplots(2, 1, figsize=(9, 3.2), sharex=True)
axes[0].plot(seconds, samples["sm_clock_mhz"], color=palette.ORANGE, lw=0.8)
axes[1].plot(seconds, samples["instant_mw"] / 1e3, color=palette.BLUE, lw=0.8)
limit_w = json.loads(captures.text("energy_trace_bf16", "energy.json"))["device"]["power_limit_w"]
axes[1].axhline(limit_w, color="0.4", ls="--", lw=0.8)
axes[0].set(ylabel="MHz", ylim=(0, None))
axes[1].set(ylabel="W", ylim=(0, None), xlim=(0, 6), xlabel="s")
plt.show()

# %% [markdown]
"""
**Question.** The device may run at {{count(json.loads(captures.text("energy_trace_bf16", "energy.json"))["device"]["highest_sm_clock_mhz"])}} MHz. Why is its clock lower while it works? What would happen with the same program in float32?

<details><summary>Answer</summary>

The power reaches its limit, and the device lowers its clock until the power is within the limit. A benchmark of this program
measures the power limit, not the chip. The bits in `reasons` show this for each sample. Work that needs less power may run at
the full clock. To see this, draw the same two lines for `energy_trace_fp32`.
</details>

## 5. Joules per sample

The figure shows many settings of one matrix product. Each dot is one phase, with its samples per second and its mean power. All points on a dotted line have the same energy per sample.
"""

# %%
# figure: Scatter of mean power over samples per second for three precisions, both axes logarithmic. At about the same
# power the dots of bfloat16 lie farthest to the right, those of float32 farthest to the left.
sweep, _ = load("energy_sweep_4096")
work = [phase for phase in sweep if phase["name"] == "work"]
fig, ax = plt.subplots(figsize=(7, 3.2))
for precision, colour in (
    ("float32", palette.ORANGE),
    ("tf32", palette.GREEN),
    ("bfloat16", palette.BLUE),
):
    some = [phase for phase in work if phase["precision"] == precision]
    length_s = np.array([phase["end_ns"] - phase["start_ns"] for phase in some]) / 1e9
    joules = np.array([p["energy_end_mj"] - p["energy_start_mj"] for p in some]) / 1e3
    rate = np.array([phase["calls"] * phase["batch"] for phase in some]) / length_s
    ax.plot(rate, joules / length_s, "o", color=colour, alpha=0.7, label=precision)
for joules_each in (1e-2, 1e-3, 1e-4, 1e-5):
    rates = np.array([1e3, 1e8])
    ax.plot(rates, rates * joules_each, ":", color="0.6", lw=0.8)
    ax.text(112 / joules_each, 105, f"{joules_each:g} J", fontsize=7, color="0.4")
ax.set(xscale="log", yscale="log", xlabel="samples per second", ylabel="W")
ax.set(ylim=(100, 1000), xlim=(1e4, 1e8))
ax.set_yticks([100, 200, 500, 1000], ["100", "200", "500", "1000"])
ax.legend(frameon=False, loc="upper left")
plt.show()

# %% [markdown]
"""
**Question.** A dashboard of power shows high values for all settings.
Which setting needs the least energy per result? Which one would you choose if a sample had to be ready within a millisecond?

<details><summary>Answer</summary>

The energy of a result is the power divided by the samples per second. The dots far to the right need little energy per sample,
although their power is the highest. A large batch spreads the idle power and the launches over many samples, but each sample
waits for the whole batch. With a time limit, choose the cheapest setting *within* the limit. You do this in ex02.
</details>

## 6. Race or pace?

The same amount of work runs in three ways. In the first, it runs as fast as possible, and the device idles after it. In the other two, it is spread out in slots, of two different lengths.
"""

# %%
# figure: Power over time for a race followed by idling and for two paced runs: a high plateau and a low one, then readings
# that go up and down without order, then a steady line at medium height.
pacing, readings = load("energy_pacing_bf16")
fig, ax = plt.subplots(figsize=(9, 2.6))
ax.plot(readings["time_ns"] / 1e9, readings["instant_mw"] / 1e3, color=palette.BLUE, lw=0.8)
for phase in pacing[1:5]:
    start, end = phase["start_ns"] / 1e9, phase["end_ns"] / 1e9
    ax.axvspan(start, end, color="0.95" if "race" in phase["name"] else "0.88", lw=0)
    ax.text(start + 0.05, 920, phase["name"], fontsize=8)
ax.set(xlabel="s", ylabel="W", ylim=(0, 1000), xlim=(0, pacing[4]["end_ns"] / 1e9))
plt.show()

# %% [markdown]
"""
**Question.** Guess which of the three ways needs the least energy, including the idle time. The run in slots of a tenth of a second looks strange. Is the device the cause, or the sensor?

In [ex01](ex01-power-measurement/README.md) you begin with a loop that reads a sensor at regular times and does not drift.

```console
uv run lab check energy_ex01.sample_power
```
"""
