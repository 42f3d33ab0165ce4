# %% [markdown]
"""
# JAX: four ways to time one step

One compiled step on an NVIDIA H200 was timed in four ways. Answer the question before you open the answer.
"""

# %%
import json

import matplotlib.pyplot as plt

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)
times = json.loads(captures.text("jax_jit", "jax_timing.json"))["times"]
ways = ["first", "not_waited_for", "waited_for_each", "waited_for_at_the_end"]

# %%
# figure: Dots on a logarithmic axis, a row for each way: the first call takes thousands of times as long as the others. Calls
# that were not waited for take the least, calls that were waited for at the end little more, and calls that were each waited for take longest.
for place, way in enumerate(ways):
    plt.plot([ns / 1e3 for ns in times[way]], [place] * len(times[way]), "o")
plt.yticks(range(len(ways)), ways)
plt.xscale("log")
plt.xlabel("µs a call")
plt.show()

# %% [markdown]
"""
**Question.** Which row gives the time of a step in a program that issues steps without waiting? Which row does not measure a step at all?

<details><summary>Answer</summary>

The last row, {{us(lesson.jax_ns("jax_jit", "waited_for_at_the_end"), 0)}} a call, is the time in a program that issues steps without waiting. The second row, {{us(lesson.jax_ns("jax_jit", "not_waited_for"), 0)}}, is only the time to issue a step.
</details>

**Question.** A correct benchmark has two waits. Where do they belong? This is the first task:

```console
uv run lab check lab05_jax.benchmark_jax
```
"""
