"""Findings in order: what saves most first, what is too small left out, and where to begin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from profiling_lab.diagnosis import contributors, kernels
from profiling_lab.findings import CATEGORIES, Finding, base_name

if TYPE_CHECKING:
    from profiling_lab.diagnosis.engine import Seen
    from profiling_lab.diagnosis.kernels import Judged

# Below this share of the window no cause is worth naming, and a device is kept busy.
FLOOR_RATIO = 0.10
# A share this close to the floor, on either side, is borderline, and the finding says so.
BORDERLINE_RATIO = 0.02
# Causes cure the same gap at times, so savings are told apart down to this share of the window only; of those that
# are closer to the largest, the one with the smallest effort is the main finding.
APART_RATIO = 0.02
# A smaller effort that brings at least this share of the main finding's saving is where to begin.
BEGIN_WITH_RATIO = 0.5


def ranked(found: dict[str, Finding], seen: Seen, subject: str) -> list[Finding]:
    """The findings in order: the main one, then what else reaches the floor; or that nothing does."""
    by_saving = sorted(
        found.values(),
        key=lambda f: (-f.evidence["recoverable_ns"], CATEGORIES[f.category].precedence),
    )
    if by_saving:
        near = by_saving[0].evidence["recoverable_ratio"] - APART_RATIO
        close = [f for f in by_saving if f.evidence["recoverable_ratio"] >= near]
        close = [f for f in close if f.category != "unexplained"] or close
        first = min(close, key=lambda f: (CATEGORIES[f.category].effort, by_saving.index(f)))
        by_saving = [first, *(f for f in by_saving if f is not first)]
    reached = [f for f in by_saving if f.evidence["margin_ratio"] >= 0]
    lost_ratio = seen.lost_ns / seen.judged_ns
    if not reached and (lost_ratio < FLOOR_RATIO or not by_saving):
        most = max((f.evidence["recoverable_ns"] for f in by_saving), default=0)
        evidence = {
            "recoverable_ns": most,
            "window_ns": seen.judged_ns,
            "recoverable_ratio": most / seen.judged_ns,
            "margin_ratio": most / seen.judged_ns - FLOOR_RATIO,
            "lost_ratio": lost_ratio,
        }
        watch = f"watch {by_saving[0].category}" if by_saving else "none"
        close = abs(lost_ratio - FLOOR_RATIO) <= BORDERLINE_RATIO
        words = (
            f"borderline ({lost_ratio:.1%} idle or exposed against a floor of {FLOOR_RATIO:.0%}): {watch}"
            if close
            else "none"
        )
        return [Finding("healthy", subject, evidence, words)]
    if not reached:
        # Enough is lost, and no one cause brings that much: the largest, and that it takes several.
        main = by_saving[0]
        words = (
            f"borderline ({lost_ratio:.1%} is idle or exposed, and no one cause reaches {FLOOR_RATIO:.0%}): "
            f"{main.recommendation}"
        )
        return [replace(main, recommendation=words)]
    return [
        replace(
            f,
            recommendation=(
                f"borderline ({f.evidence['recoverable_ratio']:.1%} of the window against a floor of "
                f"{FLOOR_RATIO:.0%}): {f.recommendation}"
                if f.evidence["margin_ratio"] <= BORDERLINE_RATIO
                else f.recommendation
            ),
        )
        for f in reached
    ]


def begin_with(findings: list[Finding]) -> str:
    """The category of least effort that brings at least half of what the main one does, if that is another one."""
    main = findings[0]
    needed = BEGIN_WITH_RATIO * main.evidence.get("recoverable_ns", 0)
    if not needed:
        return ""
    able = [f for f in findings if f.evidence.get("recoverable_ns", 0) >= needed]
    least = min(able, key=lambda f: CATEGORIES[f.category].effort)
    return (
        least.category
        if CATEGORIES[least.category].effort < CATEGORIES[main.category].effort
        else ""
    )


def with_kernels(of_run: list[Finding], pages: list[Judged], seen: Seen) -> list[Finding]:
    """The findings of a run with those on its kernels, each by what it saves of the window.

    A kernel saves the share that its page says, of the time in which it ran alone.
    """
    alone = contributors.alone_ns(seen.recording, seen.window_ns) if pages else {}
    found = []
    for one in kernels.findings(pages):
        time_ns = alone.get(base_name(one.subject.partition(":")[2]), 0)
        saved_ns = one.evidence["recoverable_ratio"] * time_ns
        ratio = saved_ns / seen.judged_ns
        evidence = one.evidence | {
            "recoverable_ns": saved_ns,
            "window_ns": seen.judged_ns,
            "recoverable_ratio": ratio,
            "margin_ratio": ratio - FLOOR_RATIO,
            "alone_ns": time_ns,
        }
        found.append(replace(one, evidence=evidence))
    reached = [one for one in found if one.evidence["margin_ratio"] >= 0]
    rest = [one for one in found if one.evidence["margin_ratio"] < 0]
    if reached and of_run[0].category == "healthy":
        of_run = []
    out = list(of_run)
    for one in reached:
        saved_ns = one.evidence["recoverable_ns"]
        smaller = (i for i, f in enumerate(out) if f.evidence["recoverable_ns"] < saved_ns)
        out.insert(next(smaller, len(out)), one)
    return out + rest
