# %% [markdown]
"""
# JAX: four stopwatches around one step

One compiled step on an NVIDIA H200, timed in four ways. Answer the question before you open the answer.
"""

# %%
import json

import matplotlib.pyplot as plt

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)
times = json.loads(captures.text("jax_jit", "jax_timing.json"))["times"]
ways = ["first", "not_waited_for", "waited_for_each", "waited_for_at_the_end"]

# %%
# figure: Dots on a logarithmic axis, a row a way: the first call is a thousand times as long as the others, the calls that nobody
# waited for are the shortest, and the two that were waited for lie close together.
for place, way in enumerate(ways):
    plt.plot([ns / 1e3 for ns in times[way]], [place] * len(times[way]), "o")
plt.yticks(range(len(ways)), ways)
plt.xscale("log")
plt.xlabel("µs a call")
plt.show()

# %% [markdown]
"""
**Question.** Which row is the time of a step in a program that goes on, and which one is no time of the step at all?

<details><summary>Answer</summary>

The last row, {{us(lesson.jax_ns("jax_jit", "waited_for_at_the_end"), 0)}} a call, is that of a program that goes on. The second one, {{us(lesson.jax_ns("jax_jit", "not_waited_for"), 0)}}, is the time to issue it.
</details>

**Question.** Where do the two waits of an honest stopwatch belong? The first task asks for it:

```console
uv run lab check lab05_jax.benchmark_jax
```
"""
