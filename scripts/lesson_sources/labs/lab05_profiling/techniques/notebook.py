# %% [markdown]
"""
# Precision, round by round

The same step was timed in several variants, alternately: float32, TF32, bfloat16 autocast and others, and float32 once more. Answer each question before you open the answer.
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
**Question.** One of the lines compares float32 with itself. What does this line tell you about the others?

<details><summary>Answer</summary>

This line is the noise. If the speedup of a variant stays within the range of this line, the recording shows no difference. In the worst round float32 differs from itself by {{pct(lesson.noise("techniques_narrow"))}}.
</details>

**Question.** Predict how much faster bfloat16 should make this step. Why does the recording differ from your prediction? The first task asks for the prediction:

```console
uv run lab check lab05_techniques.predict_autocast
```
"""
