# %% [markdown]
"""
# Advanced Nsight: what else is in the file

An exported recording is a database. The GUI shows a part of it. You can query the rest: which thread waited in which system call, what the host computed, which line made a call, and how much two equal runs differ. All recordings are of an NVIDIA H200.

Answer each question *before* you open the answer. The numbers in the answers are computed from the recordings when the notebook is made.
"""

# %%
import sqlite3

import matplotlib.pyplot as plt
import polars as pl

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)


def query(name, sql):
    """The rows of a query over a capture."""
    database = sqlite3.connect(captures.path(name).as_uri() + "?mode=ro", uri=True)
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()


def bars(ax, table, y, colour, zero_ns):
    """Draw intervals as bars on row y, in ms."""
    begin, lengths = (table["start_ns"] - zero_ns) / 1e6, table["duration_ns"] / 1e6
    ax.broken_barh(list(zip(begin, lengths, strict=True)), (y, 0.8), color=colour, lw=0)


# %% [markdown]
"""
## 1. What was recorded

The figure shows the tables of four recordings, with the number of rows. Each kind of event has a table, but only if such an event was recorded.
"""

# %%
# figure: A grid of four recordings and their tables, each cell with the number of rows, empty where a table does not exist.
NAMES = ["loader_single", "waits_locked", "host_samples_python", "backtrace_logging"]
rows = {}
for name in NAMES:
    for (table,) in query(name, "SELECT name FROM sqlite_master WHERE type = 'table'"):
        if not table.startswith(("ENUM_", "TARGET_", "META_", "NVTX_PAYLOAD")):
            rows.setdefault(table, {})[name] = query(name, f"SELECT COUNT(*) FROM {table}")[0][0]
fig, ax = plt.subplots(figsize=(8, 4.2))
for y, table in enumerate(sorted(rows)):
    for name, count in rows[table].items():
        ax.text(NAMES.index(name), y, f"{count:,}", ha="center", va="center", fontsize=8)
        ax.barh(y, 0.9, left=NAMES.index(name) - 0.45, color=palette.BLUE, alpha=0.25)
ax.set_yticks(range(len(rows)), sorted(rows), fontsize=8)
ax.set_xticks(range(len(NAMES)), NAMES, fontsize=8)
ax.invert_yaxis()
plt.show()

# %% [markdown]
"""
**Question.** `OSRT_API` holds system calls, `SAMPLING_CALLCHAINS` stacks of the CPU, `CUDA_CALLCHAINS` stacks of CUDA calls. Which of the four recordings can show why a thread waited for a file? What does it mean if a table is missing?

<details><summary>Answer</summary>

Only the recordings with the table `OSRT_API` can, and only for calls that took longer than the recording's threshold. A missing table means that nothing was recorded: either nobody asked for it, or nothing happened. A program that takes a missing table for "zero" gives a wrong answer and no error.
</details>

## 2. Does the device wait for data?

The same training loop ran without loader processes, with one process, and with enough processes. Each panel shows the host's ranges above and the kernels below. All panels have the same time axis.
"""

# %%
# figure: Three panels over half a second. In the first the host is in next_batch most of the time and kernels are rare; in the second
# the ranges are shorter; in the last all steps are done in a quarter of the time.
fig, axes = plt.subplots(3, 1, figsize=(9, 4), sharex=True)
for ax, name in zip(axes, ("loader_single", "loader_few", "loader_enough"), strict=True):
    recording = captures.open(name)
    zero_ns = recording.nvtx_ranges.filter(name="step")["start_ns"].min()
    for range_name, colour in (
        ("next_batch", palette.PURPLE),
        ("copy_in", palette.SKY),
        ("train", palette.YELLOW),
    ):
        bars(ax, recording.nvtx_ranges.filter(name=range_name), 1, colour, zero_ns)
        ax.plot([], [], lw=6, color=colour, label=range_name)
    bars(ax, recording.kernels, 0, palette.ORANGE, zero_ns)
    ax.set_yticks([0.4, 1.4], ["device", "host"])
    ax.set_title(name, loc="left")
axes[0].legend(ncols=3, frameon=False, loc="lower right", bbox_to_anchor=(1, 0.95), fontsize=8)
axes[2].set_xlabel("ms")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** How many workers would make the first program as fast as its device? And what should you see in the last panel if another worker no longer helps?

<details><summary>Answer</summary>

In the first panel, measure how long it takes to make a batch, and how long to train on it. Divide the first time by the second, and round up. With enough workers, `next_batch` shrinks to the time that it takes to fetch a finished batch, and something else is the limit. The orange row shows whether the device is this limit.
</details>

## 3. Four ways to wait

A loop also writes checkpoints. For four versions of this loop, the figure shows the kernels and the system calls of the
thread that launches them.
"""

# %%
# figure: Four panels, each with kernels below and system calls above. In three of them the kernels have gaps of several milliseconds below long
# system calls; in the last the kernels follow each other closely.
fig, axes = plt.subplots(4, 1, figsize=(9, 4.6), sharex=True)
for ax, name in zip(
    axes, ("waits_inline", "waits_locked", "waits_paced", "waits_free"), strict=True
):
    recording = captures.open(name)
    zero_ns = recording.span_ns[0]
    thread = recording.api_calls["thread"][0]
    calls = recording.os_calls.filter(pl.col("thread") == thread, pl.col("start_ns") >= zero_ns)
    for kind, colour in (
        ("sem_wait", palette.VERMILION),
        ("clock_nanosleep", palette.PURPLE),
        ("fsync", palette.BLUE),
        ("open64", palette.BLUE),
        ("write", palette.BLUE),
        ("pthread_cond_timedwait", "0.6"),
    ):
        bars(ax, calls.filter(name=kind), 1, colour, zero_ns)
    bars(ax, recording.kernels, 0, palette.ORANGE, zero_ns)
    ax.set_yticks([0.4, 1.4], ["device", "system"])
    ax.set_title(name, loc="left")
axes[3].set(xlabel="ms", xlim=(0, 100))
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** Blue is work on a file, red a wait for a lock, pink a sleep. In which panels does the device wait *because of* the call above its gap? What causes the red wait, and where would you look?

<details><summary>Answer</summary>

In the first three panels the gaps are below the calls. The red calls wait for {{ms(captures.open("waits_locked").os_calls.filter(name="sem_wait", thread=captures.open("waits_locked").api_calls["thread"][0])["duration_ns"].sum())}} in all. Their thread does nothing wrong: *another* thread writes a file while it holds the lock. The calls of the waiting thread show the wait, but never the holder. To find the holder, look at the calls of the other threads at the same time.
</details>

## 4. What the CPU was doing

The program counts words in Python. The figure shows when each thread was sampled on the CPU.
"""

# %%
# figure: Rows of dots, one a thread, over two seconds: some threads have samples all along, others only a few.
samples = query(
    "host_samples_python",
    "SELECT start, globalTid & 16777215 FROM COMPOSITE_EVENTS ORDER BY start",
)
recording = captures.open("host_samples_python")
zero_ns = recording.nvtx_ranges["start_ns"].min()
threads = sorted({thread for _, thread in samples})
fig, ax = plt.subplots(figsize=(9, 1.9))
for y, thread in enumerate(threads):
    times_s = [(start_ns - zero_ns) / 1e9 for start_ns, of in samples if of == thread]
    ax.plot(times_s, [y] * len(times_s), "|", color=palette.BLUE, markersize=9)
ax.set_yticks(range(len(threads)), [f"thread {thread}" for thread in threads])
ax.set(xlabel="s", ylim=(-0.6, len(threads) - 0.4), xlim=(0, None))
plt.show()
count_of = {thread: sum(1 for _, t in samples if t == thread) for thread in threads}
print(count_of)

# %% [markdown]
"""
**Question.** If a thread has no samples, was it idle, or was it not sampled? And if a function is in 8 of 40 samples, how certain is its share of a fifth?

<details><summary>Answer</summary>

Only running threads are sampled. A waiting thread has no samples, however long it keeps the device waiting. To see a thread's waits, record system calls or thread switches. And eight of forty samples is a fifth, but the true share may be anything from {{pct(advanced_ex05.share_interval(8, 40)["low_ratio"])}} to {{pct(advanced_ex05.share_interval(8, 40)["high_ratio"])}} (the interval of ex05).
</details>

## 5. Equal runs are not equal

The figure shows the batches of one program in two recordings, and of a changed program in a third.
"""

# %%
# figure: Rows of dots of the duration of each batch for three recordings. The two equal programs do not even overlap; the changed
# one lies to the left of both.
fig, ax = plt.subplots(figsize=(9, 1.8))
LABELS = ["cuda_pipeline_baseline", "cuda_pipeline_baseline_again", "cuda_pipeline_improved"]
medians = []
for y, name in enumerate(LABELS):
    batches = captures.open(name).nvtx_ranges.filter(name="batch")["start_ns"].diff().drop_nulls()
    medians.append(batches.median())
    ax.plot(batches / 1e6, [y] * batches.len(), "o", alpha=0.5, color=palette.BLUE)
ax.set_yticks(range(3), LABELS)
ax.set(xlabel="ms from the start of a batch to the next", ylim=(-0.5, 2.5), xlim=(0, None))
plt.show()

# %% [markdown]
"""
**Question.** A gate in CI should fail when the program gets slower. Look at the two lower rows: where would you put its threshold? What else would have to be the same?

<details><summary>Answer</summary>

The medians of the two equal runs differ by {{pct(abs(medians[1] / medians[0] - 1), 1)}}. Nothing in the program was changed. If the threshold is below the difference between equal runs, the gate fails without a reason. Compute this smallest threshold from recordings of the *same* program, as many as you can get. The machine, clocks, driver and profiler options must also be the same; otherwise you compare their differences, too.
</details>

## 6. Which line?

`backtrace_logging` was recorded with stacks. The figure shows its CUDA calls and kernels. Below the figure are the longest calls, and the numbers of stacks, calls and kernels.
"""

# %%
# figure: CUDA calls of backtrace_logging as bars above the device's kernels over the recording. A few calls are long, while the device
# works; the device is empty before them.
recording = captures.open("backtrace_logging")
zero_ns = recording.span_ns[0]
fig, ax = plt.subplots(figsize=(9, 1.7))
bars(ax, recording.api_calls, 1, palette.GREEN, zero_ns)
bars(ax, recording.kernels, 0, palette.ORANGE, zero_ns)
ax.set_yticks([0.4, 1.4], ["device", "calls"])
ax.set(xlabel="ms", xlim=(0, None))
plt.show()
print(
    recording.api_calls.sort("duration_ns", descending=True).select("name", "duration_ns").head(4)
)
print(query("backtrace_logging", "SELECT COUNT(DISTINCT id) FROM CUDA_CALLCHAINS")[0][0], "stacks")
print(recording.api_calls.height, "calls,", recording.kernels.height, "kernels")

# %% [markdown]
"""
**Question.** Before you trust a list of "lines by time": for what part of the kernels' time is the line known at all? Do you count the kernels of a line, or add up their time?

Your work begins with this question, in [ex01](ex01-python-backtrace/README.md). The other exercises continue the sections above: data in [ex02](ex02-io-dataloader/README.md), SQL in
[ex04](ex04-sqlite-analysis/README.md), samples in [ex05](ex05-cpu-sampling/README.md), system calls in [ex06](ex06-osrt-tracing/README.md), comparison in [ex07](ex07-comparison-reports/README.md).

```console
uv run lab check advanced_ex01.coverage
```
"""
