"""Findings of several functions, or of several ranks, put together: their order, and what else would be saved.

`lab diagnose --mine` hands in what functions said. Nothing here reads a recording, and nothing here needs the rest of
the engine: a course that comes without it has this, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from profiling_lab.findings import CATEGORIES, CATEGORY_OF_CAUSE, Finding


@dataclass
class Said:
    """What a function found, and what else it could have named."""

    finding: Finding
    others: list[Finding] = field(default_factory=list)


def of_one(finding: Finding, saved: dict[str, int]) -> Said:
    """A finding, and what else saves more than the floor, each cause taken away alone. saved: ns by cause."""
    if finding.category == "healthy":
        return Said(finding)
    others = []
    for cause, saved_ns in saved.items():
        category = CATEGORY_OF_CAUSE.get(cause, finding.category)
        evidence = _distances(finding, saved_ns)
        if category == finding.category or evidence is None or evidence["margin_ratio"] < 0:
            continue
        advice = f"see to {finding.category} first, then look again: both may cure the same time"
        others.append(Finding(category, finding.subject, evidence, advice))
    return Said(finding, others)


def of_all_ranks(found: Sequence[Finding], saved: Sequence[dict[str, int]]) -> list[Said]:
    """What would be saved on every rank, by the rank that gains least. found, saved: by rank.

    Ranks go through their steps together, in collectives: what is taken away from one of them alone
    lets it wait longer for the others.
    """
    out = []
    for cause, category in CATEGORY_OF_CAUSE.items():
        saved_ns, place = min((rank.get(cause, 0), place) for place, rank in enumerate(saved))
        evidence = _distances(found[place], saved_ns)
        if evidence is not None and evidence["margin_ratio"] >= 0:
            said = (one.recommendation for one in found if one.category == category)
            advice = next(said, "look at one rank's trace alone")
            out.append(Said(Finding(category, found[place].subject, evidence, advice)))
    return out or [Said(one) for one in found if one.category == "healthy"]


def worst_growth(found: Sequence[Finding]) -> list[Finding]:
    """Of findings that memory grows, the one by which it grows most; empty if it does not grow."""
    grows = [one for one in found if one.category == "memory_growth"]
    return sorted(grows, key=lambda one: -one.evidence["growth_bytes"])[:1]


def in_order(said: Sequence[Finding], pages: Sequence[Finding]) -> list[Finding]:
    """Growing memory first, then by saving; findings on kernels (pages) behind those on the run."""
    sick = sorted(
        (one for one in said if one.category != "healthy"),
        key=lambda one: (
            one.category != "memory_growth",
            -_saving(one),
            CATEGORIES[one.category].precedence,
        ),
    )
    ranked = sick or sorted(said, key=lambda one: -_saving(one))[:1]
    return ranked + sorted(pages, key=lambda one: -_saving(one))


def with_others(ranked: Sequence[Finding], said: Sequence[Said]) -> list[Finding]:
    """Findings with the other causes of their functions: by what they save, but behind their own."""
    out = list(ranked)
    for one in said:
        if one.finding not in out:
            continue
        for other in one.others:
            first = out.index(one.finding) + 1
            behind = (i for i in range(first, len(out)) if _saving(out[i]) < _saving(other))
            out.insert(next(behind, len(out)), other)
    return out


def _saving(finding: Finding) -> float:
    return finding.evidence.get("recoverable_ns", 0)


def _distances(finding: Finding, saved_ns: float) -> dict[str, Any] | None:
    """The evidence for another saving in the window of a finding, held against the floor that it was held against."""
    said = finding.evidence
    if not said.get("window_ns") or not {"recoverable_ratio", "margin_ratio"} <= said.keys():
        return None
    ratio = saved_ns / said["window_ns"]
    return {
        "recoverable_ns": saved_ns,
        "window_ns": said["window_ns"],
        "recoverable_ratio": ratio,
        "margin_ratio": ratio - (said["recoverable_ratio"] - said["margin_ratio"]),
    }
