"""The profiling lab: read real GPU captures, find what is wrong, prove the gain.

The way of a recording: `record` makes it, `captures` finds it and reads its files, `nsys_export` gives a
timeline as tables, `dependencies` (timelines) and `kineto` (traces) the order in which things waited for
each other. `functions` finds what the learner wrote (`contracts` says what is called), `diagnosis` asks
it and `compare` sets two answers side by side; `findings` says what an answer is. `reports`, `roofline`
and `cli` show it.

The way of an exercise: `course` reads the manifest, `stubs` makes what the learner gets, `progress`
keeps what has passed (`closure`: as long as what it rests on is unchanged). Tables and words: `devices`,
`units`, `errors`; `doctor` looks at the machine.
"""
