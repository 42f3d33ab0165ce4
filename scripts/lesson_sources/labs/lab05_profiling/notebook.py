# %% [markdown]
"""
# Attention: which part, and why?

Eleven attention layers were profiled part by part on an NVIDIA H200. Answer each question before you open the answer.
"""

# %%
import json

import matplotlib.pyplot as plt

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)
layers = json.loads(captures.text("attention_components_bf16", "profiles.json"))["profiles"]

# %%
# figure: A point a layer: tokens on a logarithmic axis, the softmax's share of the time above it. The share is higher for more
# tokens, with layers of other widths between.
for layer in layers:
    softmax = layer["components"][2]
    plt.plot(layer["seq_len"], softmax["share"], "o", color=palette.KERNEL)
plt.xscale("log")
plt.xlabel("tokens")
plt.ylabel("softmax: share of the parts' sum")
plt.show()

# %% [markdown]
"""
**Question.** With twice the tokens, how many times as many scores are there, and how many times as many numbers in x?

<details><summary>Answer</summary>

There are four times as many scores, and twice as many numbers in x. The scores have an element for each pair of tokens. So the parts that read or write scores grow faster than the projections.
</details>

**Question.** How do you time one of these parts alone, so that you can trust the number? This is the first task:

```console
uv run lab check lab05.benchmark_function
```
"""
