# %% [markdown]
"""
# Precision, round by round

One step was timed in turns with others: float32, TF32, bfloat16 autocast, and float32 once more. Answer each question before you open the answer.
"""

# %%
import json

import matplotlib.pyplot as plt

from profiling_lab import captures, palette

plt.rcParams.update(palette.NOTEBOOK)
rows = json.loads(captures.text("techniques_narrow", "techniques.json"))["precision"]
base = rows[0]["step_time"]

# %%
# figure: Speedup over float32, a line a way, over the rounds. All lines cross each other around one; none stays clearly above.
for row in rows[1:]:
    ratios = [before / after for before, after in zip(base, row["step_time"], strict=True)]
    plt.plot(ratios, label=row["name"])
plt.xlabel("round")
plt.ylabel("times as fast as float32")
plt.legend()
plt.show()

# %% [markdown]
"""
**Question.** One of the lines is float32 against itself. What does it tell you about the others?

<details><summary>Answer</summary>

It is the noise. A way whose speedup stays within its swings made no difference that this recording can show. In the worst round float32 differs from itself by {{pct(lesson.noise("techniques_narrow"))}}.
</details>

**Question.** On paper, what should bfloat16 give for this step, and why does the recording say otherwise? The first task asks for it:

```console
uv run lab check lab05_techniques.predict_autocast
```
"""
