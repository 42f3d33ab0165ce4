# %% [markdown]
"""
# PyTorch profiler: phases, memory, ranks

A table of operators does not show in which phase a training loop spends its time. It does not show what holds the memory, or
which of two GPUs waits for the other. You see all three here, in recordings from NVIDIA H200 GPUs.

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

In each panel, the upper row shows the phases on the host, and the lower row the kernels.
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
**Question.** In the upper panel, which phase makes the device idle? In the lower panel, the host finishes long before the device.
Do the host's phases show where the *device* spent its time?

<details><summary>Answer</summary>

While the host makes a batch (`data`), the device is idle: its kernels of the previous step have ended. In the lower panel,
the colours show when the host issued work, and the host finishes after a third of the time. So a phase needs two numbers: its time on
the host, and the time of the kernels that it launched, whenever they ran.
</details>

## 2. Where do the kernels of `backward` come from?

The plot shows the launching calls of one step, a row for each thread, with the phases above them.
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
**Question.** The range `backward` is open on the first thread. Which thread launches its kernels? What goes wrong in a program
that assigns each launch to the range that is open on *its own* thread?

<details><summary>Answer</summary>

Autograd runs on a separate thread: {{count(launches.filter(place=threads[1]).height)}} of {{count(launches.height)}}
launches of this step are made there, and no range is open on it. A program that looks only at the launching thread finds
that `backward` launched nothing. Match launches and ranges by time, because both threads use the same clock.
</details>

## 3. What does the profiler cost?

The plot shows the duration of a step without the profiler, and with the profiler at settings that record more and more. The program took the
samples alternately.
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
**Question.** Which settings differ visibly from `none`? Would the plot look the same if a step took a second?

<details><summary>Answer</summary>

`device_only` does not differ visibly from `none`; all other settings are clearly slower. Each event costs a fixed time, so a step with few
large kernels would hardly become longer. If the host limits a loop, a profile with stacks shows a much slower loop than the one
that you run without it.
</details>

## 4. A map of memory

Each row is a segment of PyTorch's allocator. Coloured blocks are in use, grey ones are free.
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
**Question.** The program asks for {{source("modules/03-pytorch-profiler/ex02-memory-profiling").mib(source("modules/03-pytorch-profiler/ex02-memory-profiling").explained()["block_bytes"])}} more, and may reserve {{source("modules/03-pytorch-profiler/ex02-memory-profiling").mib(source("modules/03-pytorch-profiler/ex02-memory-profiling").explained()["unreserved_bytes"])}}. All grey blocks together would be more than enough.
Why will the request fail? Which one tensor would you free?

<details><summary>Answer</summary>

A tensor needs one contiguous block, and no grey block is long enough. Each segment holds one result, so no segment is completely free, and the
allocator cannot return one to the driver either. {{source("modules/03-pytorch-profiler/ex02-memory-profiling").part("free")}} are free but useless for this request, and no other program can use
them. Freeing one result helps if its segment is large enough: the allocator can return an unused segment to the driver, and ask
for one large segment instead.
</details>

## 5. What grows?

The plot shows the memory in use over eight training steps of another program, from its history of allocations.
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
**Question.** Activations are allocated and released in each step and make the peaks. What makes the floor rise: one large
tensor, or many small ones? How would you find the line that allocates it?

<details><summary>Answer</summary>

In each step, about {{mb(after[-1] - after[-2])}} more stay allocated. Every allocation has a stack and a lifetime. Look for memory that was allocated in one step
and is still in use two steps later. Its stack names the line.
</details>

## 6. Two ranks

Each of two GPUs has its own Kineto trace. The plot shows the compute kernels and the NCCL kernels of one step.
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
**Question.** Rank 0 spends most of its time in collectives. Which rank causes that? And can you compare *when* things happen on
the two ranks in this plot?

<details><summary>Answer</summary>

Rank 1 has more to compute and arrives late, and rank 0 waits for it in the collectives. You can compare durations between the files.
You cannot compare times in this plot: the time axis of each trace begins at its first kernel, and these kernels did not begin together.
`baseTimeNanoseconds` plus a time is an instant on the wall clock. You can compare these instants only as exactly as the clocks of
the hosts agree.
</details>

## 7. How the traces were written

A few lines of code around a loop wrote each trace here. They skip some steps, record some, and do not change the training.

**Question.** What must such a wrapper guarantee if a step fails, or if there are fewer batches than it should skip? And may it ever run one step more than asked?

You write such a wrapper in [ex01](ex01-basic-profiling/README.md). [Ex02](ex02-memory-profiling/README.md) continues with
memory, [ex03](ex03-distributed-profiling/README.md) with ranks.

```console
uv run lab check torch_ex01.train_with_profile
```
"""
