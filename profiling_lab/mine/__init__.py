"""The learner's own verdict: their functions, called on a recording.

`functions` finds what the learner wrote (`contracts` says what is called), `diagnosis` asks one exercise
about a timeline, `asking` all of them about a run.
"""
