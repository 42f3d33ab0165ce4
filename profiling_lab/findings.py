"""What a diagnosis says: one `Finding`, and the categories that it may name.

A category is a measurable statement, not an impression. Each row of the table below is all there is to know of
one: its definition, the evidence that a finding must carry, its precedence (when two causes save the same amount,
the lower number is the main finding), the cause that is taken away to measure it, its words for people, its
remedy and the effort of that, and what to record to see more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

EVIDENCE_UNITS = ("_ns", "_bytes", "_pct", "_ratio", "_count")
SUBJECT_KINDS = ("device", "stream", "rank", "range", "kernel")


@dataclass(frozen=True)
class Category:
    """One row of the table of categories.

    cause: what is taken away to measure it (`analysis.savings`), and its words. parent: the wider category that
    an answer may name as well. remedy: what to do. effort: of that, from 1 (a line) to 4 (another design). record:
    what to record to see where it comes from.
    """

    name: str
    definition: str
    evidence: tuple[str, ...]
    precedence: int
    cause: str = ""
    words: str = ""
    parent: str = ""
    remedy: str = ""
    effort: int = 0
    record: str = ""
    headline: str = ""
    first: str = ""


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


_SAVING = ("recoverable_ns", "window_ns")
_TIMELINE = (
    Category(
        "allocation_bound",
        "calls that allocate or free device or pinned memory hold the host up while the device "
        "waits; without their cost the window ends earlier",
        _SAVING,
        1,
        "allocation",
        "allocation",
        remedy="allocate once outside the loop, leave memory with a caching allocator (no empty_cache), or use a "
        "stream-ordered one",
        effort=1,
        record="--cuda-memory-usage=true, or profile_memory=True",
        headline="Allocating and freeing memory costs {share} of the time",
        first="begin with what allocates inside the loop",
    ),
    Category(
        "sync_bound",
        "the host waits for the device where it need not, and the device then waits for the host; "
        "without those waits the window ends earlier",
        _SAVING,
        2,
        "waits",
        "the host's waits",
        remedy="let the host run ahead: keep results on the device and read them later, all at once",
        effort=1,
        record="--python-backtrace=cuda, or with_stack=True: the line that waits",
        headline="Waiting for results costs {share} of the time",
        first="begin by reading results later, all at once",
    ),
    Category(
        "transfer_bound",
        "copies between host and device run while no kernel does (exposed copies), or hold the host up; "
        "without their time the window ends earlier",
        _SAVING,
        3,
        "copies",
        "exposed copies",
        remedy="hide copies on a stream of their own, make them faster (pinned memory), or move less",
        effort=2,
        headline="Copies that nothing runs beside cost {share} of the time",
        first="begin with pinned memory",
    ),
    Category(
        "launch_bound",
        "the device waits for the host to issue work; if launch calls and the framework's time "
        "between them cost nothing the window ends earlier",
        _SAVING,
        4,
        "launch_cost",
        "the cost of launching",
        remedy="issue less: fuse operations, use larger batches, compile, or replay a CUDA graph",
        effort=3,
        headline="Issuing work costs {share} of the time",
        first="begin with fewer, larger launches: compile, or a CUDA graph",
    ),
    Category(
        "host_bound",
        "the device waits for host code that issues no work; without that code the window ends "
        "earlier",
        _SAVING,
        5,
        "host_code",
        "other host code",
        remedy="move host work off the critical path: prefetch it on another thread or process",
        effort=2,
        record="--trace=cuda,nvtx,osrt with NVTX ranges around the program's parts",
        headline="The program's own host code costs {share} of the time",
        first="begin by moving it off the critical path",
    ),
    Category(
        "input_bound",
        "the device waits for input: for a data loader, for workers that prepare batches, for files; without "
        "that wait the window ends earlier",
        _SAVING,
        5,
        "input",
        "waiting for input",
        parent="host_bound",
        remedy="prepare input ahead: more loader workers, prefetching, pinned buffers, or less work a sample",
        effort=1,
        record="--trace=cuda,nvtx,osrt: what the loader waits for",
        headline="The GPU waits for input {share} of the time",
        first="begin with more loader workers",
    ),
    Category(
        "serialized_streams",
        "work on different streams runs one after the other though nothing orders it",
        _SAVING,
        6,
        remedy="take the work off the legacy default stream, or create the streams as non-blocking",
        effort=2,
        headline="Streams that run one after the other cost {share} of the time",
        first="begin by leaving the legacy default stream",
    ),
    Category(
        "communication_bound",
        "collectives run while no other kernel does (exposed communication), on all ranks alike",
        _SAVING,
        7,
        words="exposed communication",
        remedy="start collectives earlier and in smaller pieces beside compute, or communicate less: every few "
        "micro-batches, in fewer bytes",
        effort=3,
        headline="Communication that nothing hides costs {share} of the time",
        first="begin with earlier, smaller or fewer collectives",
    ),
    Category(
        "rank_imbalance",
        "ranks wait in collectives for one that arrives late, again and again",
        _SAVING,
        8,
        words="a late rank",
        remedy="look at what the late rank does before each collective, and share it evenly",
        effort=2,
        headline="Waiting for a late rank costs {share} of the time",
        first="begin with what that rank does before each collective",
    ),
    Category(
        "pipeline_bubble",
        "ranks work in turns: at nearly no time do two of them compute",
        _SAVING,
        8,
        words="work in turns",
        remedy="cut each batch into micro-batches, so that all stages work at once",
        effort=3,
        headline="Ranks that work in turns cost {share} of the time",
        first="begin with micro-batches",
    ),
    Category(
        "recompilation",
        "code is compiled again inside the window",
        _SAVING,
        9,
        "compilation",
        "compiling again",
        remedy="make what changes from call to call dynamic, or keep it the same",
        effort=2,
        headline="Compiling again costs {share} of the time",
        first="begin with what changes from call to call",
    ),
    Category(
        "memory_growth",
        "device memory in use grows from step to step",
        ("growth_bytes",),
        10,
        remedy="let go of what each step keeps: detach it, or keep a number instead of a tensor",
        effort=1,
        record="profile_memory=True, and a snapshot of torch.cuda.memory",
        headline="Memory in use grows by {growth} a step",
        first="begin with what each step keeps",
    ),
    Category(
        "throttled",
        "the device's clock is held below the clock it reaches when nothing limits it",
        ("clock_ratio",),
        11,
        remedy="ask for less power (precision, fewer bytes), or compare runs at a clock that it can hold",
        effort=3,
        headline="The clock is held at {clock} of what the device reaches",
        first="begin with what draws the power",
    ),
    Category(
        "unexplained",
        "the device is idle and nothing recorded says why",
        _SAVING,
        98,
        words="what nothing recorded explains",
        remedy="record more: --trace=cuda,nvtx,osrt --cuda-event-trace=true, and NVTX ranges around the "
        "program's parts",
        effort=1,
        headline="Nothing recorded explains {share} of the time",
        first="record more before you change anything",
    ),
    Category(
        "healthy",
        "taking any one cause away saves less than the named floor; to the engine also: idle time, exposed "
        "copies and exposed communication together stay under it",
        _SAVING,
        99,
        remedy="none",
        headline="No one cause costs a tenth of the time",
        first="look into the kernels next",
    ),
)

# What one capture cannot show: it takes another one to compare with.
_COMPARISON = (
    Category(
        "slower_kernels",
        "kernels take longer than in the capture that this one is compared with, by more than "
        "recordings of the same program differ",
        _SAVING,
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

# The category of a finding that names a cause, and how people say the cause.
CATEGORY_OF_CAUSE = {c.cause: c.name for c in _TIMELINE if c.cause}
CAUSE_IN_WORDS = {c.cause: c.words for c in _TIMELINE if c.cause}


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
