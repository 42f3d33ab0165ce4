# %% [markdown]
"""
# Triton: where a kernel's time goes

Short kernels were timed on an NVIDIA H200 in many ways and at many sizes. You need neither a GPU nor Triton for this page, because every sample is in the recordings.

Answer each question *before* you open the answer. The numbers in the answers are computed from the recordings when the notebook is made.
"""

# %%
import json
import statistics

import matplotlib.pyplot as plt

from profiling_lab import captures, devices, palette

plt.rcParams.update(palette.NOTEBOOK)


def load(name, file="measurements.json"):
    """What a program measured; times in ns, every sample kept."""
    return json.loads(captures.text(name, file))


def median_us(samples):
    """The median of samples in ns, in microseconds."""
    return statistics.median(samples) / 1e3


add = load("triton_vector_add_fp32")["sizes"]
print(len(add), "sizes, from", add[0]["n"], "to", f"{add[-1]['n']:,}", "elements")

# %% [markdown]
"""
## 1. One kernel, three times

A vector add was timed at many sizes, in three ways. With `eager` the host issues call after call. With `graph` the same calls are in a CUDA graph. With `cold` one call is timed after other data filled the caches.
"""

# %%
# figure: Time over elements on logarithmic axes, three lines: eager flat at about twenty microseconds up to some millions, graph flat
# at one microsecond up to a hundred thousand, cold between them; at the right all three are one line.
sizes = [row["n"] for row in add]
fig, ax = plt.subplots(figsize=(8, 3))
for way, colour in (("eager", palette.VERMILION), ("cold", palette.BLUE), ("graph", palette.GREEN)):
    ax.loglog(sizes, [median_us(row[way]) for row in add], "o-", color=colour, label=way)
ax.set(xlabel="elements", ylabel="µs")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
"""
**Question.** The red line is flat up to some millions of elements. What takes twenty microseconds there: the GPU, or something else? And why does the green line rise where the red line is still flat?

<details><summary>Answer</summary>

The host needs about {{us(statistics.median(add[0]["eager"]), 0)}} to issue one call from Python, and a shorter kernel is done before the next call comes. In a graph the host does not issue each call, so the green line shows the device. An almost empty kernel takes {{us(statistics.median(add[0]["graph"]))}}, and the time soon grows with the
bytes. The three lines answer three different questions. Always report how a time was measured.
</details>

## 2. Faster than the memory

The figure shows the same times as rates: the bytes that the add must move, divided by the time. The dashed line is the datasheet's bandwidth of DRAM.
"""

# %%
# figure: Rate over elements on a logarithmic axis. graph rises far above the dashed line at about a million elements and falls below it;
# cold rises and stays below the line.
fig, ax = plt.subplots(figsize=(8, 2.8))
for way, colour in (("cold", palette.BLUE), ("graph", palette.GREEN)):
    rates = [row["bytes"] / statistics.median(row[way]) for row in add]  # bytes a ns: GB/s
    ax.semilogx(sizes, rates, "o-", color=colour, label=way)
ax.axhline(devices.get("H200").memory_bandwidth_bytes_per_s / 1e9, color="0.4", ls="--", lw=0.8)
ax.set(xlabel="elements", ylabel="GB/s", ylim=(0, None))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
"""
**Question.** Some rates are above the peak. Is this a measuring error? If you report the kernel's bandwidth, which size and which line do you take?

<details><summary>Answer</summary>

The rates are not an error. The same vectors were added again and again, so they were still in the L2 cache. A rate of
{{f"{max(row['bytes'] / statistics.median(row['graph']) for row in add):,.0f}"}} GB/s is the rate of the cache. For DRAM take
a size far larger than the cache, or cold calls. Compare this rate with that of a copy that was measured in the same way, rather
than with a datasheet.
</details>

## 3. The order of samples

The same call was timed in different ways. The dots show all samples in the order in which they were taken.
"""

# %%
# figure: Four panels of samples over their number on logarithmic axes: from_start falls steeply in the first calls, after_idle more slowly,
# warm and cold are level with a few outliers.
series = load("triton_samples_add", "samples.json")["series"]
fig, axes = plt.subplots(1, 4, figsize=(10, 2.4), sharey=True)
for ax, name in zip(axes, ("from_start", "after_idle", "warm", "cold"), strict=True):
    ax.plot([sample / 1e3 for sample in series[name]], ".", markersize=2, color=palette.BLUE)
    ax.set(title=name, yscale="log", xlabel="call")
axes[0].set_ylabel("µs")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** The first call of `from_start` is far above the panel's other dots. By what factor, and what happened in this call? How many calls would you discard in `after_idle`?

<details><summary>Answer</summary>

The first call took {{ms(series["from_start"][0], 0)}}, because Triton compiles a kernel when it is first called. The next
calls are still slower than the later ones. "Ten warm-up calls" is a guess. The samples show how many are needed; in ex05 you
write a function that reads this from samples.
</details>

## 4. One more column of tiles

A matrix product always uses the same tile. Its result has 12 rows of tiles, and a growing number of columns.
"""

# %%
# figure: Time over the number of tiles as dots: a staircase with two steps up, level in between. Dashed lines stand at multiples of 132.
matmul = load("triton_matmul_bf16")
tile = matmul["wave_tile"]
tiles = [(w["m"] // tile["block_m"]) * (w["n"] // tile["block_n"]) for w in matmul["waves"]]
fig, ax = plt.subplots(figsize=(8, 2.6))
ax.plot(
    tiles, [median_us(wave["device_time"]) for wave in matmul["waves"]], "o", color=palette.ORANGE
)
for waves in (1, 2):
    ax.axvline(waves * matmul["sm_count"] + 0.5, color="0.5", ls="--", lw=0.8)
ax.set(xlabel="tiles", ylabel="µs", ylim=(0, None))
plt.show()

# %% [markdown]
"""
**Question.** At first, more work takes the same time. Then a little more work takes twice the time. What is special about the number at the dashed line? Which shape of a product would you avoid?

<details><summary>Answer</summary>

The device has {{matmul["sm_count"]}} multiprocessors, and each takes one such tile at a time. The next column adds 12 tiles. They need a second wave, in which all other multiprocessors are idle. So the device does {{pct(
(tiles[6] / statistics.median(matmul["waves"][6]["device_time"])) / (tiles[5] / statistics.median(matmul["waves"][5]["device_time"])))}} of the operations per second that it did one step before. Choose the tile by the shape.
</details>

## 5. The best block size

The same add was timed with many block sizes and numbers of warps, each in eight rounds.
"""

# %%
# figure: Rows of dots of time for the settings of the vector add, sorted: more than twenty of them lie within two per cent, a few take
# two to seven times as long.
settings = load("triton_blocks_add")["configurations"]
order = sorted(settings, key=lambda c: statistics.median(map(median_us, c["device_time"])))
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
rounds = [[median_us(samples) for samples in c["device_time"]] for c in order]
for ax, shown in ((axes[0], rounds), (axes[1], rounds[:22])):
    places = [x for x, took in enumerate(shown) for _ in took]
    ax.plot(places, [t for took in shown for t in took], ".", color=palette.BLUE, markersize=3)
axes[0].set(xlabel="settings, sorted", ylabel="µs", yscale="log")
axes[1].set(xlabel="the first 22 of them")
axes[1].set_xticks(range(22), [c["name"] for c in order[:22]], rotation=90, fontsize=6)
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** A search reports the leftmost setting as "the best". Would another run report the same setting? When is one setting *better* than another?

<details><summary>Answer</summary>

The leftmost is faster than the second by {{pct(statistics.median(map(median_us, order[1]["device_time"])) / statistics.median(map(median_us, order[0]["device_time"])) - 1, 1)}}, but the other settings cannot be distinguished from their neighbours. The rounds of one setting differ by more than the medians of neighbours. Before you search, decide which difference counts. Report a group of equally good settings. It is more important to avoid the settings at the far right, which take {{times(statistics.median(map(median_us, order[-1]["device_time"])), statistics.median(map(median_us, order[0]["device_time"])), 1)}} as long.
</details>

## 6. One more element

The vectors have 2^27 elements, or one more, in two data types. The bars show the add's time divided by the time of a copy.
"""

# %%
# figure: Horizontal bars of add over copy for twelve cases. Most are near 1.44; "mask" with a size that is no multiple of 16 is a little longer in float32
# and several times as long in bfloat16.
tail = load("triton_tail")["rows"]
fig, ax = plt.subplots(figsize=(8, 3))
ratios = [statistics.median(row["add"]) / statistics.median(row["copy"]) for row in tail]
ax.barh(
    [row["name"] for row in tail],
    ratios,
    color=[palette.ORANGE if "mask" in row["name"] else palette.GREEN for row in tail],
)
ax.invert_yaxis()
ax.set(xlabel="time of the add / time of a copy")
plt.show()
for row in (tail[6], tail[10]):
    print(row["name"], row["loads"])

# %% [markdown]
"""
**Question.** With one more element, the same kernel takes several times as long in bfloat16. What do the two lines below the picture tell you? Why is `branch` not slower?

<details><summary>Answer</summary>

If the size is a multiple of 16, the compiler knows that the mask never divides a group of elements. So it loads 16 bytes at once (`v4.b32`). With one more element it does not know this, and every thread loads its elements of two bytes one by one. In `branch` only the last program has a mask. All others
load as before.
</details>

## 7. Compared with a copy

Return to the first picture. A copy of one vector was timed in the same way as `cold`.
"""

# %%
# figure: Time of the add over time of the copy by size: from above one it rises to about 1.46 and stays there.
both = [row for row in add if row["copy"]]
fig, ax = plt.subplots(figsize=(8, 2.4))
quotients = [statistics.median(row["cold"]) / statistics.median(row["copy"]) for row in both]
ax.semilogx([row["n"] for row in both], quotients, "o-", color=palette.PURPLE)
ax.set(xlabel="elements", ylabel="add / copy", ylim=(0, 2))
plt.show()

# %% [markdown]
"""
**Question.** The add takes nearly one and a half times as long as the copy. Is it a bad kernel? Count what each of them reads and writes before you answer.

Your work begins here, in [ex01](ex01-vector-add/README.md). Write the kernel for any size, and prove by counting that it moves no unnecessary byte.

```console
uv run lab check triton_ex01.vector_add
```
"""
