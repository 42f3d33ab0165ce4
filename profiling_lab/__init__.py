"""The profiling lab: read real GPU captures, find what is wrong, prove the gain.

The way of a recording: `record` makes it, `captures` reads it, `analysis` measures it and sets runs side
by side, `diagnosis` says what it shows and what it cannot, `mine` asks the learner's own functions.
`reports`, `roofline` and `cli` show it. `course` is the week: exercises, stubs, progress.

What exercises use: `captures`, `findings` (what an answer is), `devices`, `units`, `errors`, `roofline`,
and `virtual_gpu` or `real_gpu` to try benchmarks on. `tools` are profilers to take away.
"""
