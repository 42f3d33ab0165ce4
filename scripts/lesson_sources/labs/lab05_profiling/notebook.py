# %% [markdown]
"""
# Attention: which part, and why?

Profiles of eleven attention layers on an NVIDIA H200, recorded part by part. Answer each question before you open the answer.
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
**Question.** Twice the tokens: how many times the scores, and how many times the numbers in x?

<details><summary>Answer</summary>

Four times the scores, twice the numbers in x. The scores have an element for each pair of tokens. So the parts between them outgrow the projections.
</details>

**Question.** How do you time one of these parts alone, so that the number means something? The first task asks for it:

```console
uv run lab check lab05.benchmark_function
```
"""
