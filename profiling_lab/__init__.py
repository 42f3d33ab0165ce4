"""The profiling lab: read real GPU captures, find what is wrong, prove the gain.

The way of a recording: `record` makes it, `captures` finds it and reads its files, `nsys_export` gives a
timeline as tables, `dependencies` (timelines) and `kineto` (traces) the order in which things waited for
each other. `functions` finds what the learner wrote (`contracts` says what is called), `diagnosis` asks
one exercise about a timeline, `asking` all of them about a run; `findings` says what an answer is, `limits`
what a capture cannot show. `measures` takes the numbers of a run that `compare` sets beside another's.
`reports`, `roofline` and `cli` show it.

What people bring comes through `inputs`: files of any kind, checked, and put together by run (`exports`
turns the tools' own reports into files that can be read, `merging` the timelines of ranks into one).

The way of an exercise: `course` reads the manifest, `stubs` makes what the learner gets, `progress`
keeps what has passed (`closure`: as long as what it rests on is unchanged). `quiz` asks questions about
captures. Tables and words: `devices`, `units`, `errors`; `doctor` looks at the machine.
"""
