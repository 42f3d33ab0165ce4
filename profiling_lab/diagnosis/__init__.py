"""The engine: it decides by itself what slows a recorded program down.

    >>> from profiling_lab.captures import inputs
    >>> from profiling_lab.diagnosis import engine
    >>> verdict = engine.judge(inputs.read(["overlap_legacy"]))
    >>> verdict.findings[0].category, verdict.to_dict()["balance"]

One way through:

1. **file → recording.** `captures` checks a file; `analysis.columns` (Nsight Systems) and `analysis.kineto_columns`
   (PyTorch) turn it into one `Recording`: device operations, host calls, ranges, waits, in columns.
2. **recording → critical path.** `analysis.order` reads what waited for what; `analysis.host_time` says what each
   stretch of host time was for, and what of it was set-up; `analysis.ranks` how ranks met.
3. **path → two tables.** `analysis.spent`: where the time went, each ns of a device's window in one class.
   `analysis.savings`: what would be saved, the end computed anew with one cause taken away.
   Pages of Nsight Compute have a way of their own: `analysis.kernel_page` reads a kernel's counters, `kernel_causes`
   says what a fix would give, `kernels` what limits it.
4. **tables → findings.** `ranking` holds the savings against one floor; the largest is the main finding.
   `healthy` is a statement: idle time, exposed copies and exposed communication together are below the floor.
5. **findings → words.** A category's definition, remedy and effort stand in one row of `profiling_lab.categories`;
   `advice` makes them fit the recording.

No module decides in passing what another one is for. The learner's functions are asked elsewhere
(`profiling_lab.mine`), and nothing here knows of them; `combining` orders findings that somebody else made.
"""
