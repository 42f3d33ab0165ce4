# %% [markdown]
"""
# Nsight Compute: predict, then look

If you can predict a counter, you understand the kernel. This notebook shows groups of kernels on an NVIDIA H200. Within a group they differ in one thing: the
stride, the number of chains, the number of operations, or one step of an optimization. Predict the next bar before you run the cell
that draws it.

Answer each question *before* you open the answer. The numbers in the answers are computed from the recordings when the notebook is made.
"""

# %%
import io

import matplotlib.pyplot as plt
import polars as pl

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)


def page(name):
    """The page "raw" of a capture: text as it is, one row a kernel, without the row of units."""
    table = pl.read_csv(io.StringIO(captures.text(name, "kernels.csv")), infer_schema=False)
    return table[1:].with_columns(pl.col("Kernel Name").str.extract(r"^(\w+)").alias("kernel"))


def numbers(name, column, kernels):
    """One column of some kernels as numbers, in the unit of the page."""
    rows = {row["kernel"]: row[column] for row in page(name).select("kernel", column).to_dicts()}
    return [float(rows[kernel].replace(",", "")) for kernel in kernels]


DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
ISSUE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
WARPS = "sm__warps_active.avg.per_cycle_active"
TIME = "gpu__time_duration.sum"

# %% [markdown]
"""
## 1. A stride

A warp has 32 lanes. In `stride_2` lane i reads `in[2 * i]`, in `stride_4` it reads `in[4 * i]`, and so on; all are `float`. Memory comes in sectors of 32 bytes.

**Question.** How many sectors does one request of a warp touch with stride 2, 4, 8, 32? Write four numbers down, then run the cell.
"""

# %%
# figure: Bars of sectors for each request over the stride: they double from stride 1 to stride 8 and stay the
# same from there on.
kernels = ["copy_float", "stride_2", "stride_4", "stride_8", "stride_32"]
sectors, requests = (numbers("ncu_bandwidth", c, kernels) for c in (SECTORS, REQUESTS))
fig, ax = plt.subplots(figsize=(6, 2.2))
ax.bar(kernels, [s / r for s, r in zip(sectors, requests, strict=True)], color=palette.ORANGE)
ax.set(ylabel="sectors a request")
plt.show()

# %% [markdown]
"""
<details><summary>Answer</summary>

{{", ".join(count(s / r) for s, r in zip(sectors, requests))}}. From stride 8 on, every lane touches a different sector. This number cannot grow further: 32 lanes touch at most 32 sectors. The traffic
behind L1 can still grow, as the next plot shows.
</details>

## 2. The same kernels, seen from DRAM

**Question.** Which of these kernels keeps DRAM busiest? Sort them from the busiest DRAM to the least busy. Which of them wastes
most of its bytes?
"""

# %%
# figure: Bars of the DRAM throughput in per cent for the same kernels: lowest for the plain copy, rising up to
# stride 8, and lower again for stride 32.
fig, ax = plt.subplots(figsize=(6, 2.2))
ax.bar(kernels, numbers("ncu_bandwidth", DRAM, kernels), color=palette.BLUE)
ax.set(ylabel="DRAM, % of peak", ylim=(0, 100))
plt.show()

# %% [markdown]
"""
<details><summary>Answer</summary>

The plain copy, which wastes nothing, keeps DRAM least busy. `stride_8` keeps it busiest, but uses only one in eight of the
bytes that it moves. Throughput counts the bytes moved, not the bytes needed. In ex01 you compare each kernel with a copy of
the bytes that it needs.
</details>

## 3. Chains

`chains_k` gives each thread k independent chains of multiply-adds. Each step of a chain needs the result of the previous step.
There is one warp on each scheduler, so no other warp can issue while that warp waits.

**Question.** With one chain the schedulers issue in a quarter of all cycles. In what share of the cycles do they issue
with two, four and eight chains?
"""

# %%
# figure: Line of issue slots used in per cent over the number of chains, 1, 2, 4 and 8. It doubles twice, then
# flattens below 100.
counts = [1, 2, 4, 8]
used = numbers("ncu_waiting", ISSUE, [f"chains_{count}" for count in counts])
fig, ax = plt.subplots(figsize=(6, 2.4))
ax.plot(counts, used, "o-", color=palette.GREEN)
ax.set(xlabel="independent chains a thread", ylabel="issue slots used, %", ylim=(0, 105))
plt.show()

# %% [markdown]
"""
<details><summary>Answer</summary>

In {{", ".join(f"{share:.0f}" for share in used)}} of 100 cycles. One chain issues in every fourth cycle, so a step takes four cycles. Four chains must be in flight to issue in
every cycle. This is Little's law: the number in flight is the rate times the time that each takes. With more than four chains, no free
issue slot is left.
</details>

## 4. Warps instead of chains

Here each thread has one chain again, but there are more warps.

**Question.** An SM has four schedulers. How many warps on an SM have the same effect as four chains in each thread? Write the
number down before you run the cell.
"""

# %%
# figure: Issue slots used in per cent over resident warps for chains, as crosses, and for warps, as dots. The dots rise
# to nearly 100 with 16 warps.
kernels = ["chains_1", "warps_2", "warps_4", "warps_16"]
resident, used = (numbers("ncu_waiting", c, kernels) for c in (WARPS, ISSUE))
fig, ax = plt.subplots(figsize=(6, 2.4))
ax.plot(resident, used, "o-", color=palette.BLUE)
for kernel in ("many_warps_one_load", "few_warps_many_chains"):
    x, y = (numbers("ncu_waiting", c, [kernel])[0] for c in (WARPS, ISSUE))
    ax.plot(x, y, "x", color=palette.VERMILION)
    ax.annotate(kernel, (x, y), xytext=(-4, 8), textcoords="offset points", ha="center", fontsize=7)
ax.set(xlabel="warps on an SM", ylabel="issue slots used, %", ylim=(0, 112), xlim=(0, 68))
plt.show()

# %% [markdown]
"""
<details><summary>Answer</summary>

An SM needs about 16 warps, four for each scheduler, because more warps hide latency as more chains in one warp do. The crosses show two other kernels.
One has few warps but fills its issue slots. The other has full occupancy but empty issue slots, because each of its warps waits
for memory. Before you ask for more occupancy, find out what the warps wait for.
</details>

## 5. Free arithmetic

`poly_f32_k` reads a number, evaluates a polynomial with k multiply-adds, and writes it.

**Question.** k = 1 takes about an eighth of a millisecond. How long do 8, 32, 64 and 256 take? Where does the line begin to
rise?
"""

# %%
# figure: Duration over the number of operations on logarithmic axes, for float32 and float64. Both lines are flat
# up to 32 operations and rise after it.
fig, ax = plt.subplots(figsize=(6, 2.8))
for dtype, steps in (("f32", (1, 8, 32, 64, 256)), ("f64", (1, 8, 32, 128))):
    kernels = [f"poly_{dtype}_{count}" for count in steps]
    ax.loglog(steps, numbers("ncu_roofline", TIME, kernels), "o-", label=dtype)
ax.set(xlabel="multiply-adds an element", ylabel="µs")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
"""
<details><summary>Answer</summary>

From one to 32 multiply-adds, the time hardly changes: {{", ".join(us(t * 1e3, 0) for t in numbers("ncu_roofline", TIME, ["poly_f32_1", "poly_f32_8", "poly_f32_32"]))}}. The device computes them while the next numbers come from memory. The line begins to rise
where the arithmetic takes as long as moving the bytes. This is the ridge of the roofline. In double precision the same bytes hold
half as many numbers, and the line begins to rise at about the same place. So the device does double-precision operations at about half the rate.
</details>

## 6. Eight steps of one product

`sgemm_steps` has eight versions of a matrix product, changed step by step. Two of the steps were taken back.

**Question.** Which two steps would you guess from their names?
"""

# %%
# figure: Horizontal bars of the duration of eight versions of a matrix product on a logarithmic axis. They
# become shorter but for the sixth and seventh, which are longer than the fifth.
steps = page("sgemm_steps")["kernel"].to_list()
fig, ax = plt.subplots(figsize=(8, 2.4))
took = numbers("sgemm_steps", TIME, steps)
ax.barh(steps[::-1], took[::-1], color=palette.PURPLE)
ax.set(xscale="log", xlabel="ms")
plt.show()

# %% [markdown]
"""
<details><summary>Answer</summary>

`sgemm_more_blocks` (fewer registers for each thread, so that more blocks fit) takes {{times(took[5], took[4])}} the time of `sgemm_vectorised`, and
`sgemm_prefetched` {{times(took[6], took[4])}}. From the first step to the last, the product became
{{times(took[0], took[-1], 0)}} faster. The ideas of both reverted steps sound right. Ex04 shows the counters that explain
why they failed.
</details>

## 7. Predict from the source

The plot shows sectors per request again, for other kinds of accesses.
"""

# %%
# figure: Bars of sectors for each request for the kernels of ncu_memory, from 4 to 32.
rows = page("ncu_memory")
per_request = [
    s / r
    for s, r in zip(
        *(numbers("ncu_memory", c, rows["kernel"].to_list()) for c in (SECTORS, REQUESTS)),
        strict=True,
    )
]
fig, ax = plt.subplots(figsize=(8, 2.4))
ax.barh(rows["kernel"], per_request, color=palette.ORANGE)
ax.set(xlabel="sectors a request")
plt.show()

# %% [markdown]
"""
**Question.** `shift_left` reads `in[i + 1]`. Why is its bar neither 4 nor 8? For which of the other kernels could you compute the
number from the source (captures/programs) without the counters?

In [ex01](ex01-memory-metrics/README.md) you compute the sectors that 32 lanes touch from their addresses.

```console
uv run lab check ncu_ex01.warp_sectors
```
"""
