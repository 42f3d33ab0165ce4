"""The verdict in one sentence: what is wrong, how much it costs, what to do first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiling_lab.diagnosis import kernels
from profiling_lab.findings import CATEGORIES, Finding, base_name
from profiling_lab.units import format_bytes, format_ns

if TYPE_CHECKING:
    from profiling_lab.diagnosis.engine import Verdict


def of(verdict: Verdict) -> str:
    """The headline of a verdict ("The GPU waits for input 74% of the time: begin with more loader workers")."""
    return ": ".join(parts(verdict))


def parts(verdict: Verdict) -> tuple[str, str]:
    """The headline in two: what is wrong with its share, and what to do first."""
    main = verdict.findings[0]
    begin = next((f for f in verdict.findings if f.category == verdict.begin_with), main)
    easier = "" if begin is main else f"; an easier fix saves {_share(begin)}"
    if verdict.seen and main.category != "healthy" and main.evidence.get("margin_ratio", 0) < 0:
        lost = min(seen.lost_ns / seen.judged_ns for seen in verdict.seen)
        claim = f"{lost:.0%} of the time is idle or exposed, and no one cause explains a tenth"
        return _after_setup(claim, verdict), _first(begin)
    return _after_setup(f"{_claim(main, verdict)}{easier}", verdict), _first(begin)


def _after_setup(claim: str, verdict: Verdict) -> str:
    """What is claimed, with the share of set-up before it where that is most of the window."""
    shares = [(seen.setup_ns / seen.spent[0].length_ns, seen.judged_ns) for seen in verdict.seen]
    share, rest_ns = min(shares, default=(0, 0))
    if share < 0.5:
        return claim
    rest = format_ns(rest_ns)
    return (
        f"{share:.0%} of the window is set-up. In the other {rest}, {claim[0].lower()}{claim[1:]}"
    )


def _claim(finding: Finding, verdict: Verdict) -> str:
    kind, _, name = finding.subject.partition(":")
    judged = next((one for one in verdict.kernels if one.kernel.name == name), None)
    return CATEGORIES[finding.category].headline.format(
        share=_share(finding),
        kernel=base_name(name) if kind == "kernel" else "",
        unit=kernels.WORDS.get(judged.unit, "") if judged else "",
        use=f"{finding.evidence.get('ceiling_ratio', 0):.0%}",
        busy=f"{1 - finding.evidence.get('lost_ratio', 0):.0%}",
        growth=format_bytes(finding.evidence.get("growth_bytes", 0)),
        clock=f"{finding.evidence.get('clock_ratio', 0):.0%}",
    )


def _first(finding: Finding) -> str:
    if finding.recommendation == "none" and finding.subject.startswith("kernel:"):
        return "nothing to gain without doing less"
    if finding.category == "transfer_bound" and not finding.evidence.get("pinned_ns"):
        return "begin with a stream of their own"
    if finding.category == "sync_bound" and "CUDA_LAUNCH_BLOCKING" in finding.recommendation:
        return "unset CUDA_LAUNCH_BLOCKING"
    if finding.category == "launch_bound" and "is replayed" in finding.recommendation:
        return "begin with fewer, larger launches: more in each CUDA graph"
    if finding.evidence.get("by_default_stream_ratio", 1) < 0.5:
        return "begin with what was queued first"
    return CATEGORIES[finding.category].first


def _share(finding: Finding) -> str:
    return f"{finding.evidence.get('recoverable_ratio', 0):.0%}"
