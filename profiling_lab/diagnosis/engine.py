"""From captures to a verdict: windows, tables, findings. See the package for the way through."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from profiling_lab import captures
from profiling_lab.analysis import (
    asleep,
    host_time,
    kineto_columns,
    order,
    ranks,
    savings,
    spent,
)
from profiling_lab.analysis.columns import Recording
from profiling_lab.analysis.host_time import HostTime
from profiling_lab.analysis.nsys_columns import Export
from profiling_lab.analysis.ranks import Job
from profiling_lab.analysis.savings import Saved
from profiling_lab.analysis.spent import Spent
from profiling_lab.captures import MAIN_FILES, Kind, Part
from profiling_lab.captures.kineto import STEP_RANGE
from profiling_lab.diagnosis import (
    advice,
    clocks,
    contributors,
    growth,
    headline,
    kernels,
    ranking,
    streams,
)
from profiling_lab.diagnosis.kernels import Judged
from profiling_lab.errors import CaptureError, LabError
from profiling_lab.findings import CATEGORY_OF_CAUSE, Finding, base_name, is_borderline, is_bound

SCHEMA_VERSION = 1


@dataclass
class Seen:
    """One recording, analysed: of a timeline, or of one rank's trace."""

    name: str
    recording: Recording
    time: HostTime
    spent: list[Spent]
    saved: Saved
    trace: kineto_columns.Trace | None = None
    export: Export | None = None

    @property
    def window_ns(self) -> tuple[int, int]:
        """The window that was judged."""
        return self.spent[0].window_ns

    @property
    def setup_ns(self) -> int:
        """Idle time that was set-up, on the device that had least of it: it is not judged."""
        return min(one.classes[host_time.PURPOSES[host_time.SETUP]] for one in self.spent)

    @property
    def judged_ns(self) -> int:
        """The window without set-up, and without what the recorder lengthened it by."""
        return max(1, self.spent[0].length_ns - self.setup_ns - self.saved.recorder_ns)

    @property
    def lost_ns(self) -> int:
        """Idle time, exposed copies and exposed communication, on the device that lost least, less the recorder's."""
        setup = host_time.PURPOSES[host_time.SETUP]
        lost = min(
            one.total_ns(*spent.IDLE, spent.COPIES_ALONE, spent.COMMUNICATION_ALONE)
            - one.classes[setup]
            for one in self.spent
        )
        return max(0, lost - self.saved.recorder_ns)


@dataclass
class Verdict:
    """What the engine says of one run.

    findings: never empty, the main one first. begin_with: a category of less effort that brings at least half as
    much, "" where the main finding is where to begin. rests_on: what the verdict rests on and what it lacks. seen:
    the analysed recordings, one, or one a rank; none where only pages of kernels were given. job: what ranks cost
    each other. kernels: the launches on those pages.
    """

    name: str
    findings: list[Finding]
    seen: list[Seen]
    begin_with: str = ""
    rests_on: list[str] = field(default_factory=list)
    job: Job | None = None
    kernels: list[Judged] = field(default_factory=list)

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return headline.of(self)

    @property
    def claim(self) -> str:
        """What the headline says is wrong, without what to do."""
        return headline.parts(self)[0]

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data, as `--json` prints it: the same keys whatever was recorded.

        Without a run, "window" is None; without pages of kernels, "kernels" is empty.
        """
        from importlib.metadata import PackageNotFoundError, version

        try:
            tool = version("gpu-profiling-lab")
        except PackageNotFoundError:
            tool = ""
        first = self.seen[0] if self.seen else None
        return {
            "schema_version": SCHEMA_VERSION,
            "tool_version": tool,
            "file": self.name,
            "headline": self.headline,
            "recording": {
                "source": first.recording.source if first else "ncu",
                "files": [s.recording.file for s in self.seen] or [self.name],
            },
            "window": first
            and {
                "start_ns": first.window_ns[0],
                "end_ns": first.window_ns[1],
                "setup_ns": first.setup_ns,
                "recorder_ns": first.saved.recorder_ns,
                "outside_ns": contributors.outside_ns(first.recording, first.window_ns),
            },
            "balance": [
                {"rank": number, "device": one.device}
                | {f"{name.replace(' ', '_')}_ns": ns for name, ns in one.classes.items()}
                for number, seen in enumerate(self.seen)
                for one in seen.spent
            ],
            "saved": {f"{c}_ns": ns for c, ns in first.saved.causes.items()} if first else {},
            "findings": [
                finding.to_dict()
                | {"borderline": is_borderline(finding), "bound": is_bound(finding)}
                for finding in self.findings
            ],
            "begin_with": self.begin_with,
            "cannot_be_judged": self.rests_on,
            "top": contributors.of(first) if first else kernels.top(self.kernels),
            "kernels": [one.to_dict() for one in self.kernels],
        }


def judge(parts: Sequence[Part], nvtx_range: str | None = None) -> Verdict:
    """The verdict on the captures of one run: a timeline or traces, and pages of kernels that it ran.

    nvtx_range: look at the NVTX ranges of this name only. Raises CaptureError for what cannot be read or
    lacks the range, LabError for a range where there is no timeline.
    """
    for part in parts:
        if nvtx_range is not None and part.kind != Kind.TIMELINE:
            raise LabError(
                f"--range belongs to timelines; {part.name} is a capture of kind {part.kind}"
            )
    whole = next((part for part in parts if part.kind.is_of_a_run), None)
    pages = [one for part in parts if part is not whole for one in kernels.read(part.path)]
    if whole is None:
        return Verdict(
            parts[0].name,
            kernels.findings(pages),
            [],
            rests_on=[*kernels.lacks(pages), *kernels.ALONE],
            kernels=pages,
        )
    if whole.kind == Kind.TIMELINE:
        seen = [see_timeline(whole, nvtx_range)]
        found = ranks.of_timeline(seen[0].recording, seen[0].window_ns)
        alone = functools.partial(savings.without_collectives_ns, seen[0].time, seen[0].spent)
        job = ranks.judge(found, one_clock=True, shorter_ns=alone) if len(found) > 1 else None
        if job is not None:
            waits = {rank.device: rank.waiting for rank in job.ranks}
            closing = None if nvtx_range is None else seen[0].time.closing_thread
            seen[0].spent = spent.read(seen[0].time, seen[0].window_ns, waits, closing)
    else:
        files = (
            captures.rank_traces(whole.path)
            if whole.kind == Kind.TRACES
            else {0: captures.file(whole.path, MAIN_FILES[Kind.TRACE])}
        )
        seen = [
            see_trace(f"rank {number}" if len(files) > 1 else whole.name, file)
            for number, file in files.items()
        ]
        job = None
        by_rank = dict(zip(files, seen, strict=True))
        if len(files) > 1:
            job = ranks.judge(
                [
                    ranks.of_trace(one.recording, number, one.window_ns)
                    for number, one in zip(files, seen, strict=True)
                ],
                one_clock=False,
                single_step=all(one.time.single_step for one in seen),
                shorter_ns=lambda rank: savings.without_collectives_ns(
                    by_rank[rank.number].time, by_rank[rank.number].spent, rank
                ),
            )
            for one, rank in zip(seen, job.ranks, strict=True):
                one.spent = spent.read(
                    one.time, one.window_ns, {rank.device: rank.waiting}, one.time.closing_thread
                )
    return _decide(whole, seen, job, nvtx_range, pages)


def see_timeline(part: Part, nvtx_range: str | None = None) -> Seen:
    """A recording of Nsight Systems, analysed."""
    export = Export(captures.open(part.path))
    recording = export.recording
    window, closing = recording.span_ns, None
    if nvtx_range is not None:
        window, closing = _window_of_range(recording, nvtx_range)
    time = host_time.read(asleep.read(recording))
    time.closing_thread = closing
    where = spent.read(time, window, None, closing)
    return Seen(part.name, recording, time, where, savings.read(time, where), export=export)


def see_trace(name: str, file: Any) -> Seen:
    """A trace of PyTorch's profiler, analysed; its window is that of the steps."""
    trace = kineto_columns.read(file)
    since = trace.steps_ns[0][0] if trace.steps_ns else None
    numbers = {int(m[1]) for n in trace.recording.names if (m := STEP_RANGE.fullmatch(n))}
    single_step = len(numbers) == 1 and 0 not in numbers
    made = order.read(trace.recording, since_ns=since, watchdogs=False)
    time = host_time.read(made, single_step)
    time.closing_thread = trace.step_thread if trace.steps_ns else None
    window = trace.window_ns or trace.recording.span_ns
    where = spent.read(time, window, None, time.closing_thread)
    return Seen(name, trace.recording, time, where, savings.read(time, where), trace)


def _window_of_range(recording: Recording, name: str) -> tuple[tuple[int, int], int]:
    ranges = recording.ranges
    own = np.flatnonzero(ranges.name == recording.code(name)) if len(ranges) else np.zeros(0, int)
    if not len(own):
        known = sorted({recording.names[code] for code in np.unique(ranges.name).tolist()})
        raise CaptureError(
            f"{recording.file}: no NVTX range {name!r}; ranges here: {', '.join(known) or 'none'}"
        )
    last = own[np.argmax(ranges.end[own])]
    window = int(ranges.start[own].min()), int(ranges.end[own].max())
    if window[1] <= window[0]:
        raise CaptureError(f"{recording.file}: the NVTX range {name!r} has no length")
    work = recording.operations
    if not ((work.start < window[1]) & (work.end > window[0])).any():
        raise CaptureError(f"{recording.file}: nothing ran on a device in the NVTX range {name!r}")
    return window, int(ranges.thread[last])


# -- findings -------------------------------------------------------------------------------------


def _decide(
    part: Part, seen: list[Seen], job: Job | None, nvtx_range: str | None, pages: list[Judged]
) -> Verdict:
    # Ranks run together: the one that loses least is the one that the others can be brought to.
    first = min(seen, key=lambda one: one.lost_ns / one.judged_ns)
    judged = first.judged_ns
    subject = f"range:{nvtx_range}" if nvtx_range is not None else f"device:{_most_idle(first)}"
    found: dict[str, Finding] = {}

    def add(
        category: str, ns: int, where: str = subject, evidence: dict[str, float] | None = None
    ) -> None:
        evidence = evidence or {}
        if ns > 0:
            shares = {
                "recoverable_ns": int(ns),
                "window_ns": judged,
                "recoverable_ratio": ns / judged,
                "margin_ratio": ns / judged - ranking.FLOOR_RATIO,
            }
            words = advice.of(category, first, evidence)
            found[category] = Finding(category, where, shares | evidence, words)

    for cause, ns in first.saved.causes.items():
        more: dict[str, float] = {}
        if cause == savings.COPIES:
            more = {f"{name}_ns": value for name, value in first.saved.remedies.items() if value}
            more["pageable_bytes"] = first.saved.pageable_bytes
        add(CATEGORY_OF_CAUSE[cause], ns, evidence=more)
    add("unexplained", min(one.classes[spent.UNEXPLAINED] for one in first.spent))
    if job is not None:
        talks = max(job.ranks, key=lambda rank: rank.exposed_ns).number
        # Who works in turns waits for its turn in collectives.
        add("communication_bound", job.communication_ns - job.in_turns_ns, f"rank:{talks}")
        if not job.once:
            add(
                "rank_imbalance",
                job.imbalance_ns,
                f"rank:{job.late}",
                evidence={"late_work_ns": job.late_work_ns},
            )
        add("pipeline_bubble", job.in_turns_ns, f"rank:{job.late}")
    else:
        add(
            "communication_bound",
            min(one.classes[spent.COMMUNICATION_ALONE] for one in first.spent),
        )
    if first.export is not None and nvtx_range is None:
        for category, device, ns, more in (
            *streams.judge(first.export, first.time.order),
            *clocks.judge(first.export),
        ):
            if category not in found or found[category].evidence["recoverable_ns"] < ns:
                add(category, ns, f"device:{device}", more)
    findings = ranking.ranked(found, first, subject)
    growing = [
        finding
        for one in seen
        if one.trace is not None and (finding := growth.judge(one.recording.file, one.trace))
    ]
    findings = growing[:1] + ranking.with_kernels(findings, pages, first)
    verdict = Verdict(part.name, findings, seen, job=job, kernels=pages)
    verdict.begin_with = ranking.begin_with(findings)
    counted = {base_name(one.kernel.name) for one in pages}
    verdict.rests_on = advice.rests_on(part, first, job, findings[0], counted)
    verdict.rests_on += kernels.lacks(pages)
    return verdict


def _most_idle(seen: Seen) -> int:
    return max(seen.spent, key=lambda one: (one.idle_ns, -one.device)).device
