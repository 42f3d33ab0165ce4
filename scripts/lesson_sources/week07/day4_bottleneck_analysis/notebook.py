# %% [markdown]
"""
# Day 4: how fast could it be?

These are times of matrix products, softmax, attention and other operations on an NVIDIA H200, most of them with caches emptied
before every call. Answer each question *before* you open the answer.
"""

# %%
import json

import matplotlib.pyplot as plt
import polars as pl

from profiling_lab import captures, palette, roofline

plt.rcParams.update(palette.NOTEBOOK)


def table(name):
    """The measurements of a capture, one row each; `device_time` holds all samples in ns."""
    return pl.DataFrame(
        [
            {
                "name": m["name"],
                "op": m["op"],
                "cache": m["cache"],
                "samples": [float(sample) for sample in m["device_time"]],
                **m["arguments"],
            }
            for m in json.loads(captures.text(name, "measurements.json"))["measurements"]
        ],
        infer_schema_length=None,
    ).with_columns((pl.col("samples").list.median() / 1e3).alias("us"))


ops = table("roofline_ops")
ops.select("name", "cache", "us").sample(6, seed=4)

# %% [markdown]
"""
## 1. Which sizes are efficient?

The plots show square products in three data types, and products of a few rows with a large matrix.
"""

# %%
# figure: Left: time over n for square products on logarithmic axes in float32, TF32 and bfloat16; the lines
# are less steep at the left. Right: time over rows; flat up to 64 rows, then rising.
fig, axes = plt.subplots(1, 2, figsize=(9, 3))
products = ops.filter(pl.col("name").str.contains(r"matmul \w+ (\d+)x\d+x\d+$"))
for dtype in ("fp32", "tf32", "bf16"):
    square = products.filter(
        pl.col("name").str.starts_with(f"matmul {dtype} "),
        pl.col("m") == pl.col("n"),
        pl.col("k") == pl.col("n"),
    ).sort("n")
    axes[0].loglog(square["n"], square["us"], "o-", label=dtype)
few = products.filter(pl.col("k") == 8192, pl.col("n") == 8192, pl.col("m") <= 256).sort("m")
axes[1].plot(few["m"], few["us"], "o-", color=palette.VERMILION)
axes[0].set_xticks([256, 1024, 4096, 8192], ["256", "1024", "4096", "8192"])
axes[0].minorticks_off()
axes[0].set(xlabel="n of n × n × n", ylabel="µs")
axes[0].legend(frameon=False)
axes[1].set(
    xlabel="rows of x in x @ w, w of 8192 by 8192", ylabel="µs", ylim=(0, None), xscale="log"
)
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** In the right plot, 64 rows take as long as one. How can 64 times the work cost no time? In the left plot, four times
the n means 64 times the work. Between which sizes does the time grow that much, and where does it not?

<details><summary>Answer</summary>

To multiply one row the device must read all of w, {{mb(8192 * 8192 * 2)}}. For 64 rows it reads the same bytes, and computes meanwhile with
units that were idle before. Where the line turns up, arithmetic becomes the bound. At the left end of the left plot neither
bytes nor operations explain the time. A product of 256 takes {{us(ops.filter(name="matmul bf16 256x256x256")["us"][0] * 1e3)}} in bfloat16 and {{us(ops.filter(name="matmul fp32 256x256x256")["us"][0] * 1e3)}} in float32, which is far more than
its operations or its bytes need.
</details>

In the exercise you count the work of a product first, and then of the other operations of a model. The [lesson](README.md) has
the definitions, the stub is [ex_33_bottleneck_analysis.py](ex_33_bottleneck_analysis.py).

```console
uv run lab check ex_33.matmul_cost
```

## Further

More pictures, for when the day's core is done.

## 2. Two ceilings

The least time is bytes over bandwidth, or operations over the peak, whichever is longer. Drawn over the ratio of operations to
bytes, this gives a roof.
"""

# %%
# figure: Roofline of the H200 on logarithmic axes: one slanted line for memory, two flat ones for float32
# and bfloat16 that meet it at different ridges.
roofline.figure([roofline.roof("H200", "float32"), roofline.roof("H200", "bfloat16")])
plt.show()

# %% [markdown]
"""
**Question.** Find the place of three calls in the plot. The first is the fused chain in float32 (two operations and a `relu`,
three elements read, one written). The others are the product of 8192³ in bfloat16, and the product of one row with a matrix of
8192². Which of them could a better kernel make faster?

<details><summary>Answer</summary>

An element of the chain costs 16 bytes for its few operations, so the chain is far to the left, under the slanted line. One row
does two operations for each weight of two bytes, so it is on the left as well. The large product does {{count(2 * 8192**3 / (3 * 8192**2 * 2))}} operations a
byte, so it is far to the right, under the flat line. The distance *below* its roof shows how much a better kernel could gain. A
call under the slanted line also becomes faster if it moves fewer bytes.
</details>

## 3. Three kernels or one

`relu(x * w + b)` on {{count(ops.filter(name="chain fp32 67108864 fused")["element_count"][0])}} elements; `w` and `b` are as large as `x`. *Eager* runs three kernels, *fused* one.
"""

# %%
# figure: Bars of eager and fused times of the elementwise chain for float32 and bfloat16. In both pairs the
# fused bar is half as long; the fused float32 bar equals the eager bfloat16 bar.
fig, ax = plt.subplots(figsize=(9, 1.9))
chains = ops.filter(pl.col("name").str.contains(r"chain (fp32|bf16) 67108864"))
ax.barh(chains["name"], chains["us"], color=[palette.ORANGE, palette.GREEN] * 2)
ax.set(xlabel="µs")
plt.show()

# %% [markdown]
"""
**Question.** Three kernels became one, with the same arithmetic. By how much did the time fall? It is not a third: count what
each kernel reads and writes. And why is fused float32 as fast as eager bfloat16?

<details><summary>Answer</summary>

Eager takes {{times(chains["us"][0], chains["us"][1])}} as long in float32 and {{times(chains["us"][2], chains["us"][3])}} in bfloat16. The arithmetic is the same. The product reads two tensors and
writes one, and so does the sum. `relu` reads one and writes one. Together these are eight passes over memory. The fused kernel
needs four, because intermediate values no longer go to memory and back. Eager bfloat16 has half as many bytes an element and
twice as many passes as fused float32, so it moves the same bytes, and takes the same time.
</details>

## 4. A measurement is not one number

The plot shows all samples of four calls, each divided by the median of its call.
"""

# %%
# figure: Four rows of dots, one a call: samples over their median. The dots of the large product lie on top
# of each other at one, those of the smallest ones spread over tens of per cent.
NAMES = [
    "matmul bf16 8192x8192x8192",
    "softmax bf16 16384x4096",
    "matmul fp32 256x256x256",
    "chain fp32 4096 eager",
]
fig, ax = plt.subplots(figsize=(9, 1.9))
for y, name in enumerate(NAMES):
    row = ops.filter(name=name).row(0, named=True)
    shares = [sample / row["us"] / 1e3 for sample in row["samples"]]
    ax.plot(shares, [y] * len(shares), "o", alpha=0.5, color=palette.BLUE, markersize=4)
ax.set_yticks(range(4), NAMES)
ax.set(xlabel="sample / median", ylim=(-0.5, 3.5))
plt.show()

# %% [markdown]
"""
**Question.** Why do the times of the short calls vary more? If you had to report one number for each, would it be the mean, the
minimum, or the median?

<details><summary>Answer</summary>

A disturbance of a microsecond is small for a call that takes {{ms(ops.filter(name=NAMES[0])["us"][0] * 1e3)}} and large for one of {{us(ops.filter(name=NAMES[2])["us"][0] * 1e3)}}. Single slow samples change
the mean, and the minimum is a single lucky sample. So report the median, together with the spread: without it nobody can say
whether two medians differ.
</details>

## 5. Tokens, one batch at a time

A transformer of eight layers writes one token for every sequence of a batch. The plots show the time of such a step, and the
tokens per second.
"""

# %%
# figure: Left: time of a decode step over batch, for two lengths of the cache; nearly flat up to about 32, then
# rising. Right: tokens per second over batch; the line for 256 cached tokens climbs, the other flattens early.
decode = table("roofline_decode").filter(pl.col("name").str.contains("^decode batch"))
fig, axes = plt.subplots(1, 2, figsize=(9, 3))
for cached in (256, 4096):
    some = decode.filter(cached_tokens=cached).sort("batch")
    axes[0].loglog(some["batch"], some["us"] / 1e3, "o-", label=f"{cached} tokens cached")
    axes[1].loglog(some["batch"], some["batch"] / some["us"] * 1e6, "o-")
axes[0].set(xlabel="batch", ylabel="ms a step")
axes[0].legend(frameon=False)
axes[1].set(xlabel="batch", ylabel="tokens per second")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** With few cached tokens a batch of 32 costs hardly more than one of 1. Which bytes are shared by all sequences of a batch, and which are not? So which of
the two lines must bend first, and would a device with twice the arithmetic move the bend?

The lesson's section [The batch that leaves the memory roof](README.md#the-batch-that-leaves-the-memory-roof) has the answer.
"""
