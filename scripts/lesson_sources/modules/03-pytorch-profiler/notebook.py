# %% [markdown]
"""
# PyTorch profiler: phases, memory, ranks

Three things that a table of operators does not show: in which phase of a training loop time goes, who holds the memory, and which of two GPUs waits for the other. All of it was recorded on
NVIDIA H200 GPUs.

Answer each question *before* you open the answer. The numbers in the answers are computed from the recordings when the notebook is made.
"""

# %%
import json

import matplotlib.pyplot as plt
import polars as pl

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)
PHASES = {
    "data": palette.PURPLE,
    "forward": palette.SKY,
    "backward": palette.BLUE,
    "optimizer": palette.YELLOW,
    "log": palette.VERMILION,
}


def rows(name, file="trace.json"):
    """The complete events of a trace as a table, times in microseconds, in order of time."""
    events = json.loads(captures.text(name, file))["traceEvents"]
    table = [
        (e.get("cat"), str(e["name"]), e["ts"], e["dur"], e["tid"])
        for e in events
        if e.get("ph") == "X" and isinstance(e.get("tid"), int)
    ]
    return pl.DataFrame(
        table, schema=["kind", "name", "begin_us", "us", "place"], orient="row"
    ).sort("begin_us")


def bars(ax, table, y, colour, zero_us):
    """Draw events as bars on row y, in ms."""
    begin = (table["begin_us"] - zero_us) / 1e3
    ax.broken_barh(list(zip(begin, table["us"] / 1e3, strict=True)), (y, 0.8), color=colour, lw=0)


# %% [markdown]
"""
## 1. Three steps of a loop

The upper row is the host, in its phases; the lower one the kernels.
"""

# %%
# figure: Host phases in colours above the device's kernels, for two training loops. In the upper panel a phase before
# each step leaves the device empty; in the lower panel the device's row has no gap of that kind.
fig, axes = plt.subplots(2, 1, figsize=(9, 3.6), sharex=True)
for ax, name in zip(axes, ("training_phases_inline", "training_phases_ready"), strict=True):
    trace = rows(name)
    zero_us = trace.filter(pl.col("name").str.starts_with("ProfilerStep"))["begin_us"].min()
    for phase, colour in PHASES.items():
        bars(ax, trace.filter(kind="user_annotation", name=phase), 1, colour, zero_us)
        ax.plot([], [], lw=6, color=colour, label=phase)
    bars(ax, trace.filter(kind="kernel"), 0, palette.KERNEL, zero_us)
    ax.set_yticks([0.4, 1.4], ["device", "host"])
    ax.set_title(name, loc="left")
axes[0].legend(ncols=5, frameon=False, loc="lower right", bbox_to_anchor=(1, 0.95), fontsize=8)
axes[1].set_xlabel("ms")
fig.tight_layout()
plt.show()

# %% [markdown]
"""
**Question.** In the upper panel, which phase costs the device time? In the lower one the host is through long before the device: do its phases say where the *device* spent its time?

<details><summary>Answer</summary>

While the host makes a batch (`data`), the device has nothing to do: its kernels of the step before are over. In the lower panel the colours say when work was issued, and
that is over after a third of the time. So a phase needs two numbers: what it took on the host, and the kernels that it issued, whenever these ran.
</details>

## 2. Where do the kernels of `backward` come from?

The launching calls of one step, by the thread that made them, with the phases above.
"""

# %%
# figure: Three rows over one step: phases, and launching calls of two threads. The calls of the second thread all lie
# below the phase backward.
trace = rows("training_phases_inline")
step = trace.filter(name="ProfilerStep#6", kind="user_annotation").row(0, named=True)
inside = trace.filter(
    pl.col("begin_us").is_between(step["begin_us"], step["begin_us"] + step["us"])
)
launches = inside.filter(
    pl.col("kind").is_in(["cuda_runtime", "cuda_driver"]), pl.col("name").str.contains("Launch")
)
fig, ax = plt.subplots(figsize=(9, 1.9))
for phase, colour in PHASES.items():
    bars(ax, inside.filter(kind="user_annotation", name=phase), 2, colour, step["begin_us"])
threads = launches["place"].unique(maintain_order=True).to_list()
for y, thread in enumerate(threads):
    bars(ax, launches.filter(place=thread), 1 - y, palette.CALL, step["begin_us"])
ax.set_yticks([0.4, 1.4, 2.4], ["thread 2", "thread 1", "phases"])
forward_us = inside.filter(name="forward", kind="user_annotation")["begin_us"][0]
ax.set(xlabel="ms", xlim=((forward_us - step["begin_us"]) / 1e3 - 0.2, step["us"] / 1e3))
plt.show()

# %% [markdown]
"""
**Question.** The range `backward` is open on the first thread. Who launches its kernels? What goes wrong in a program that gives each launch to the range that is open on *its own* thread?

<details><summary>Answer</summary>

Autograd runs on a thread of its own: {{count(launches.filter(place=threads[1]).height)}} of {{count(launches.height)}} launches of this step are made there, and no range is open on it. Such a program finds that `backward` issued nothing. Time is what both threads share.
</details>

## 3. What does watching cost?

One step, unwatched and with the profiler noting more and more; samples taken in turns.
"""

# %%
# figure: Rows of dots of the step's duration for seven ways to watch, from none to everything. The rows move to the right
# with what is noted, and overlap.
watched = json.loads(captures.text("profiler_overhead_narrow", "overhead.json"))
fig, ax = plt.subplots(figsize=(9, 2.6))
for y, samples in enumerate(watched["samples_ns"].values()):
    ax.plot([s / 1e6 for s in samples], [y] * len(samples), "o", alpha=0.4, color=palette.BLUE)
ax.set_yticks(range(len(watched["samples_ns"])), watched["samples_ns"])
ax.set(xlabel="ms a step (one sample of the top row lies far outside)", xlim=(0, 6))
plt.show()
print({way: f"{size / 1e6:.1f} MB" for way, size in watched["file_bytes"].items()})

# %% [markdown]
"""
**Question.** Which ways can you tell from `none`, going by the dots alone? Would the picture be the same if a step took a second?

<details><summary>Answer</summary>

`device_only` lies on top of `none`; all others are clearly to its right. The cost is for each event, not a share: a step of few large kernels would hardly notice. A profile with stacks of a loop that is limited by
its host shows another program than the one that you run.
</details>

## 4. A map of memory

Segments of PyTorch's allocator, one row each; coloured is what is in use, grey is free.
"""

# %%
# figure: Rows of large memory segments: each has a coloured block at its left and a grey one at its right.
snapshot = json.loads(captures.text("memory_fragments_held", "snapshot.json"))
large = [s for s in snapshot["segments"] if s["segment_type"] == "large"]
fig, ax = plt.subplots(figsize=(9, 2.4))
for y, segment in enumerate(sorted(large, key=lambda s: s["total_size"])):
    left = 0
    for block in segment["blocks"]:
        used = block["state"] == "active_allocated"
        size = block["size"] / 2**20
        ax.barh(y, size, left=left, color=palette.GREEN if used else "0.8", ec="white")
        left += size
ax.set(xlabel="MiB", ylabel="segment", yticks=[])
plt.show()

# %% [markdown]
"""
**Question.** The program asks for {{source("modules/03-pytorch-profiler/ex02-memory-profiling").mib(source("modules/03-pytorch-profiler/ex02-memory-profiling").explained()["block_bytes"])}} more, and may reserve {{source("modules/03-pytorch-profiler/ex02-memory-profiling").mib(source("modules/03-pytorch-profiler/ex02-memory-profiling").explained()["unreserved_bytes"])}}. All grey together would be more than enough. Why will the request fail? Which one tensor would you free?

<details><summary>Answer</summary>

A tensor needs one piece. No grey block is long enough, and no segment is all grey, so none can be given back to the driver either: each holds one result. {{source("modules/03-pytorch-profiler/ex02-memory-profiling").part("free")}} are free and of no use; to every other program they are taken. Freeing one result would help if its segment is long
enough: a segment without anything in use can go back to the driver, and one long piece be asked for.
</details>

## 5. What grows?

Memory in use over eight training steps of another program, from its history of allocations.
"""

# %%
# figure: Bytes in use over time: mountains, one a step, on a floor that rises a little from step to step.
leak = json.loads(captures.text("memory_leak_history", "snapshot.json"))
time_ms, used_mb, now = [], [], 0
start_us = leak["phases"][1]["start_us"]
for entry in leak["device_traces"][0]:
    now += {"alloc": 1, "free_completed": -1}.get(entry["action"], 0) * entry["size"]
    time_ms.append((entry["time_us"] - start_us) / 1e3)
    used_mb.append(now / 1e6)
fig, ax = plt.subplots(figsize=(9, 2.4))
ax.step(time_ms, used_mb, where="post", color=palette.BLUE, lw=1)
ax.set(xlabel="ms since the first step began", ylabel="MB in use", xlim=(0, None))
plt.show()
after = leak["measured"]["allocated_after_step_bytes"]
print("MB in use after each step:", [round(size / 1e6, 1) for size in after])

# %% [markdown]
"""
**Question.** Activations come and go and make the mountains. What makes the floor rise: one large tensor, or many small ones? How would you find the line that made it?

<details><summary>Answer</summary>

About {{mb(after[-1] - after[-2])}} stay behind in each step. Every allocation has a stack and a life: what was asked for in one step and is still there two steps later is what to look at, and its stack names the line.
</details>

## 6. Two ranks

Two GPUs, one Kineto trace each: compute kernels and NCCL kernels of one step.
"""

# %%
# figure: Four rows: compute and NCCL of rank 0 and of rank 1. The NCCL bars of rank 0 are long, those of rank 1 short.
fig, ax = plt.subplots(figsize=(9, 2.2))
labels = []
for rank in (0, 1):
    trace = rows("ddp_traces_straggler", f"trace_rank{rank}.json").filter(kind="kernel")
    zero_us = trace["begin_us"].min()
    for nccl in (False, True):
        some = trace.filter(pl.col("name").str.contains("nccl") == nccl)
        bars(ax, some, 3 - len(labels), palette.COLLECTIVE if nccl else palette.KERNEL, zero_us)
        labels.append(f"rank {rank}, {'NCCL' if nccl else 'compute'}")
ax.set_yticks([3.4, 2.4, 1.4, 0.4], labels)
ax.set(xlabel="ms since the rank's own first kernel")
plt.show()

# %% [markdown]
"""
**Question.** Rank 0 spends most of its time communicating. Whose fault is it? And may you compare *when* things happen between the two rows?

<details><summary>Answer</summary>

Rank 1 has more to compute and comes late; rank 0's kernels spin until it does. Durations may be compared between the files. Times may not as they are drawn: the picture set both to zero
at their first kernels, which did not begin together. `baseTimeNanoseconds` plus a time is an instant on the wall clock; two hosts may be compared as exactly as their clocks agree.
</details>

## 7. Before all that: the trace itself

Every trace here was written by a few lines around a loop: skip some steps, record some, and change nothing about the training.

**Question.** What must such a wrapper guarantee when a step fails, or when there are fewer batches than it wanted to skip? And when is it allowed to do one step more than asked?

That is where your work begins, in [ex01](ex01-basic-profiling/README.md); [ex02](ex02-memory-profiling/README.md) goes on with memory, [ex03](ex03-distributed-profiling/README.md) with ranks.

```console
uv run lab check torch_ex01.train_with_profile
```
"""
