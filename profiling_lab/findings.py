"""What a diagnosis says: one `Finding`, and the categories that it may name.

A category is a measurable statement, not an impression. Each row below gives its definition, the
evidence that a finding of this category must carry, and its precedence: when two causes save
the same amount, the one with the lower number is the main finding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

EVIDENCE_UNITS = ("_ns", "_bytes", "_pct", "_ratio", "_count")
SUBJECT_KINDS = ("device", "stream", "rank", "range", "kernel")


@dataclass(frozen=True)
class Category:
    """One row of the table of categories."""

    name: str
    definition: str
    evidence: tuple[str, ...]
    precedence: int


@dataclass(frozen=True)
class Finding:
    """One statement about a capture.

    category: a name in `CATEGORIES`.
    subject: what it is about: `device:0`, `stream:7`, `rank:3`, `range:<nvtx>`, `kernel:<name>`.
    evidence: numbers that prove it; each key ends in one of `EVIDENCE_UNITS`.
    recommendation: what to do next, or "none".
    """

    category: str
    subject: str
    evidence: dict[str, Any] = field(default_factory=dict)
    recommendation: str = "none"

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data, the shape that `lab diagnose --json` prints."""
        return {
            "category": self.category,
            "subject": self.subject,
            "evidence": dict(self.evidence),
            "recommendation": self.recommendation,
        }


_TIMELINE = (
    Category(
        "allocation_bound",
        "calls that allocate or free device or pinned memory hold the host up while the device "
        "waits; without their cost the window ends earlier",
        ("recoverable_ns", "window_ns"),
        1,
    ),
    Category(
        "sync_bound",
        "the host waits for the device where it need not, and the device then waits for the host; "
        "without those waits the window ends earlier",
        ("recoverable_ns", "window_ns"),
        2,
    ),
    Category(
        "transfer_bound",
        "copies between host and device that could run beside kernels do not; with the copies "
        "hidden as far as the busiest copy direction allows the window ends earlier",
        ("recoverable_ns", "window_ns"),
        3,
    ),
    Category(
        "launch_bound",
        "the device waits for the host to issue work; if launch calls and the framework's time "
        "between them cost nothing the window ends earlier",
        ("recoverable_ns", "window_ns"),
        4,
    ),
    Category(
        "host_bound",
        "the device waits for host code that issues no work; without that code the window ends "
        "earlier",
        ("recoverable_ns", "window_ns"),
        5,
    ),
    Category(
        "serialized_streams",
        "work on different streams runs one after the other though nothing orders it",
        ("recoverable_ns", "window_ns"),
        6,
    ),
    Category(
        "communication_bound",
        "collectives run while no other kernel does, and could run beside compute",
        ("recoverable_ns", "window_ns"),
        7,
    ),
    Category(
        "rank_imbalance",
        "ranks wait in collectives for one that arrives late",
        ("recoverable_ns", "window_ns"),
        8,
    ),
    Category(
        "recompilation",
        "code is compiled again inside the window",
        ("recoverable_ns", "window_ns"),
        9,
    ),
    Category(
        "memory_growth",
        "device memory in use grows from step to step",
        ("growth_bytes",),
        10,
    ),
    Category(
        "throttled",
        "the device's clock is held below the clock it reaches when nothing limits it",
        ("clock_ratio",),
        11,
    ),
    Category(
        "healthy",
        "taking any one cause away saves less than the named floor",
        ("recoverable_ns", "window_ns"),
        99,
    ),
)

# What one capture cannot show: it takes another one to compare with.
_COMPARISON = (
    Category(
        "slower_kernels",
        "kernels take longer than in the capture that this one is compared with, by more than "
        "recordings of the same program differ",
        ("recoverable_ns", "window_ns"),
        12,
    ),
)

_KERNEL = (
    ("memory_bound", "DRAM throughput is the limiter"),
    ("compute_bound", "an arithmetic pipe is the limiter"),
    ("cache_bound", "L1 or L2 throughput is the limiter while DRAM is not"),
    ("latency_bound", "no unit is near its ceiling and warps wait, or barriers hold them up"),
    ("uncoalesced_access", "loads or stores move more sectors than the bytes they use need"),
    ("bank_conflicts", "shared-memory accesses are replayed for bank conflicts"),
    ("low_occupancy", "resident warps are limited by registers, shared memory or block size"),
    ("small_grid", "the grid has fewer blocks than the device can hold at once"),
    ("tail_effect", "the last, partly filled wave costs a large share of the duration"),
    ("divergence", "warps run with few active threads"),
    ("atomic_contention", "atomics to few addresses serialise"),
    ("register_spills", "registers spill to local memory and its traffic is visible"),
    ("tensor_cores_unused", "matrix work runs outside the tensor cores"),
)

CATEGORIES: dict[str, Category] = {c.name: c for c in _TIMELINE + _COMPARISON} | {
    name: Category(name, definition, (), 100 + i) for i, (name, definition) in enumerate(_KERNEL)
}

# The causes that the two functions named recoverable_time (Days 1 and 3) tell apart: the category of a
# finding that names one, and how people say it.
CATEGORY_OF_CAUSE = {
    "waits": "sync_bound",
    "launch_cost": "launch_bound",
    "copies": "transfer_bound",
    "allocation": "allocation_bound",
    "host_code": "host_bound",
    "compilation": "recompilation",
}
CAUSE_IN_WORDS = {
    "waits": "the host's waits",
    "launch_cost": "the cost of launching",
    "copies": "copies that could overlap",
    "allocation": "allocation",
    "host_code": "other host code",
    "compilation": "compiling again",
}


def is_borderline(finding: Finding) -> bool:
    """Whether the function that found this says that a little more or less would change it."""
    return finding.recommendation.startswith("borderline")


def problems(finding: Finding) -> list[str]:
    """What is wrong with the form of a finding: a list of sentences, empty if it is well formed.

    The form only: whether the finding is true is for the checks to say.
    """
    out = []
    category = CATEGORIES.get(finding.category)
    if category is None:
        known = ", ".join(sorted(CATEGORIES))
        out.append(f"category {finding.category!r} is not one of: {known}")
    else:
        out += [
            f"evidence lacks {key!r}, which every {category.name} finding carries"
            for key in category.evidence
            if key not in finding.evidence
        ]
    kind, _, name = finding.subject.partition(":")
    if kind not in SUBJECT_KINDS or not name:
        out.append(
            f"subject {finding.subject!r} is not of the form "
            "device:0, stream:7, rank:3, range:<name> or kernel:<name>"
        )
    for key, value in finding.evidence.items():
        if not re.search("(" + "|".join(EVIDENCE_UNITS) + ")$", key):
            out.append(f"evidence key {key!r} names no unit (end it in one of {EVIDENCE_UNITS})")
        if type(value) not in (int, float):
            out.append(f"evidence {key!r} is {value!r}, not a number")
    if not finding.recommendation:
        out.append('recommendation is empty (say what to do, or "none")')
    return out
