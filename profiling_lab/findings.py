"""What a diagnosis says: one `Finding`, of a category from the table in `profiling_lab.categories`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from profiling_lab.categories import CATEGORIES as CATEGORIES
from profiling_lab.categories import CATEGORY_OF_CAUSE as CATEGORY_OF_CAUSE
from profiling_lab.categories import CAUSE_IN_WORDS as CAUSE_IN_WORDS

EVIDENCE_UNITS = ("_ns", "_bytes", "_pct", "_ratio", "_count")
SUBJECT_KINDS = ("device", "stream", "rank", "range", "kernel")


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


OVERLAP = "What overlaps, on several streams or devices, counts each: a share can be above 100%."


def base_name(kernel: str) -> str:
    """A kernel's name without return type, template arguments, parameters and namespace.

    Nsight Compute writes the signature where Nsight Systems has both; a trace has the signature.
    """
    name = kernel.removeprefix("void ")
    for unnamed in ("(anonymous namespace)::", "<unnamed>::"):  # both tools' words for it
        name = name.replace(unnamed, "")
    for bracket in "<(":
        name = name.partition(bracket)[0] or name
    return name.rpartition("::")[2].strip()


# What tells instances of one template apart: the operation that it was made for.
_FUNCTOR = re.compile(
    r"CUDAFunctor\w*?_(\w+)|(\w+?)(?:_kernel_cuda|CUDAKernelImpl|_cuda_kernel|KernelImpl|Functor)\b"
)


def readable(name: str) -> str:
    """A kernel's short name, behind the operation that a template was made for ("add (elementwise_kernel)")."""
    base = base_name(name)
    rest = name[name.find(base) + len(base) :]
    for match in _FUNCTOR.finditer(rest):
        made_for = match[1] or match[2]
        if made_for not in base:
            return f"{made_for} ({base})"
    return base


def is_borderline(finding: Finding) -> bool:
    """Whether the function that found this says that a little more or less would change it."""
    return finding.recommendation.startswith("borderline")


def is_below_floor(finding: Finding) -> bool:
    """Whether a cause is named that saves less than what is worth naming: none saves more."""
    return finding.category != "healthy" and finding.evidence.get("margin_ratio", 0) < 0


def is_bound(finding: Finding) -> bool:
    """Whether what this says could be saved is the most that could, and no estimate."""
    return finding.category in CATEGORIES and CATEGORIES[finding.category].bound


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
