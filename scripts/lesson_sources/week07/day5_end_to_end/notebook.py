# %% [markdown]
"""
# Day 5: how long do users wait?

## Further

More pictures of today's recordings. The lesson's core needs none of them. A model on an NVIDIA H200 answers requests, and the
clients and the server recorded when each was due, sent, begun and answered.

Answer each question *before* you open the answer. The numbers in the answers are computed from the recordings when the
notebook is made.
"""

# %%
import json

import matplotlib.pyplot as plt
import numpy as np

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)


def runs(name, file="requests.json"):
    """The runs of a capture by name, their lists of times as arrays, in ns."""
    document = json.loads(captures.text(name, file))
    return {
        run["run"]: {
            k: np.array(v) if isinstance(v, list) and not isinstance(v[0], list) else v
            for k, v in run.items()
        }
        for run in document["runs"]
    }


eager = runs("serving_open_loop_eager")

# %% [markdown]
"""
## 1. A client that does not wait

The next plots show an *open* loop: requests are sent when they are due, whatever the server does. There are three rates, and
each dot is a request.
"""

# %%
# figure: Three panels of latency over time for three rates. In the first two the dots stay in a band near the
# bottom; in the third they climb steadily from left to right.
RATES = ("open_1301", "open_5204", "open_8132")
fig, axes = plt.subplots(1, 3, figsize=(9, 2.4), sharey=True)
for ax, name in zip(axes, RATES, strict=True):
    run = eager[name]
    latency_ms = (run["end_ns"] - run["intended_ns"]) / 1e6
    ax.plot(run["intended_ns"] / 1e9, latency_ms, ".", markersize=2, color=palette.BLUE)
    ax.set(title=f"{run['rate_per_s']} requests per second", xlabel="due at, s")
axes[0].set_ylabel("latency, ms")
plt.show()

# %% [markdown]
"""
**Question.** What will the right panel look like if the test runs twice as long? Does its mean latency mean anything?

<details><summary>Answer</summary>

At its end the latency will be twice as high. More requests come in than go out, so the queue grows for as long as the test
lasts, and the mean depends on the length of the test. Only the other two rates have a latency that describes the server. You
need a way to tell the two cases apart without looking at a plot.
</details>

## 2. What does a median hide?

The plot shows the latencies of two of the rates again. For each latency it gives the share of requests that took at most that
long.
"""

# %%
# figure: Cumulative share of requests over latency for two rates, two curves in the shape of an S. The one of
# the higher rate lies to the right and is less steep.
fig, ax = plt.subplots(figsize=(9, 2.6))
for name in RATES[:2]:
    run = eager[name]
    latency_ms = np.sort(run["end_ns"] - run["intended_ns"]) / 1e6
    ax.plot(latency_ms, np.arange(1, len(latency_ms) + 1) / len(latency_ms), label=name)
for share in (0.5, 0.99):
    ax.axhline(share, color="0.7", lw=0.8, ls="--")
ax.set(xlabel="latency, ms", ylabel="share of requests")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
"""
**Question.** Read the median and the 99th percentile of both rates at the dashed lines. How many of the 1,200 requests are
above the 99th percentile? If you ran the test again, which of the two numbers would change more?

<details><summary>Answer</summary>

For the lower rate the median is {{ms(lesson.latency("serving_open_loop_eager", "open_1301", 50))}} and the 99th percentile {{ms(lesson.latency("serving_open_loop_eager", "open_1301", 99))}}. Only a dozen requests are above the 99th percentile,
so a few slow requests more or less move it. State a percentile with an interval.
</details>

## 3. What a batch costs

The server works on several requests at once. The plot shows its times for batches of each size, for two ways to launch the same
model. Each dot is one measurement.
"""

# %%
# figure: Service time over batch size as dots for both servers. The eager server's dots form a broad band that
# is flat up to 32; the graph server's lie much lower for small batches. From 32 on both are the same and rise.
fig, ax = plt.subplots(figsize=(9, 2.8))
for name, colour in (
    ("serving_sweep_eager", palette.VERMILION),
    ("serving_sweep_graph", palette.GREEN),
):
    served = list(runs(name, "service.json").values())
    batches = np.repeat(
        [run["batch"] for run in served], [len(run["service_ns"]) for run in served]
    )
    times_ms = np.concatenate([run["service_ns"] for run in served]) / 1e6
    ax.plot(batches, times_ms, ".", color=colour, alpha=0.3)
    medians_ms = [np.median(run["service_ns"]) / 1e6 for run in served]
    ax.plot([run["batch"] for run in served], medians_ms, "_", color="black", markersize=14)
ax.set(xscale="log", xlabel="requests in a batch", ylabel="ms a batch", ylim=(0, 20))
plt.show()

# %% [markdown]
"""
**Question.** Up to which size does one more request in the batch cost nothing, and what is the device doing there? Would you
serve the eager model with small or with large batches?

<details><summary>Answer</summary>

The eager server takes about the same time for every batch up to 32. The host launches the same kernels for each size, and the
device waits for the launches (Day 1). So a batch of 32 takes as long as a batch of one. The CUDA graph removes the launches:
its small batches are faster, and larger ones take longer. Where both lines meet, the device limits both. Large batches give
the highest throughput, but each request in a batch waits for all of it.
</details>

## 4. Word by word

A language model needs seconds for an answer. Each row is a request: a grey bar until its first token, then a stroke for each
token.
"""

# %%
# figure: Thirty requests as rows over time: grey until the first token, then strokes. Strokes are evenly spaced
# at first; where many requests overlap, some rows have visible pauses.
chat = runs("llm_decode_chat", "tokens.json")["poisson_75"]
fig, ax = plt.subplots(figsize=(9, 3.4))
for y in range(30):
    tokens_s = np.array(chat["token_ns"][y]) / 1e9
    sent_s = chat["sent_ns"][y] / 1e9
    ax.broken_barh([(sent_s, tokens_s[0] - sent_s)], (y, 0.8), color="0.75")
    ax.vlines(tokens_s, y, y + 0.8, color=palette.BLUE, lw=0.6)
ax.set(xlabel="s", ylabel="request", ylim=(0, 30))
plt.show()

# %% [markdown]
"""
**Question.** What is "the latency" of such a request: the end of the grey bar, the distance between strokes, or the last
stroke? Which one would a reader notice first, and which one would grow if prompts became longer?

<details><summary>Answer</summary>

All three are latencies, and each can have its own limit: time to the first token, time between tokens, time to the end. The
grey bar grows with the queue and with the prompt. And while the server reads the long prompt of *one* request, no other request
gets a token: compare `llm_decode_documents`.
</details>

## 5. Faster, or noise?

Two changes were measured in rounds: before, after, and before again. The plots show the samples in order.
"""

# %%
# figure: Two panels of before, after and again samples as dots over the round. In the left one "after" lies clearly
# above the other two; in the right one, with few rounds, all three lie in the same band.
evidence = runs("serving_evidence", "evidence.json")
fig, axes = plt.subplots(1, 2, figsize=(9, 2.6))
for ax, name in zip(axes, ("change_d", "change_c"), strict=True):
    for key, colour in (
        ("before_ns", "0.6"),
        ("again_ns", palette.SKY),
        ("after_ns", palette.VERMILION),
    ):
        ax.plot(evidence[name][key] / 1e6, ".", color=colour, markersize=3, label=key[:-3])
    ax.set(title=evidence[name]["what"], xlabel="round", ylim=(0, None))
axes[0].set_ylabel("ms")
axes[0].legend(frameon=False, fontsize=7)
plt.show()
for name in ("change_d", "change_c"):
    run = evidence[name]
    print(
        name,
        {
            f"{key[:-3]}_ms": round(float(np.median(run[key])) / 1e6, 3)
            for key in run
            if key[-3:] == "_ns"
        },
    )

# %% [markdown]
"""
**Question.** The medians of the right panel differ by a tenth. What does "again" tell you about how much of this difference is
chance? Write down the rule by which you would call a change better, worse, or noise, before you look at a second capture.

You will write this rule today, in small steps that begin with a percentile. The [lesson](README.md) has the definitions, the
stub is [ex_34_end_to_end_optimization.py](ex_34_end_to_end_optimization.py).

```console
uv run lab check ex_34.percentile
```
"""
