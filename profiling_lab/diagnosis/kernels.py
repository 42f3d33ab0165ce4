"""What limits a profiled kernel, what a fix would give, and how far it is from the device's peaks.

The cause whose removal saves most is the finding. Where none saves a tenth, the class is the unit used most, by one
rule; "none" is recommended only to a kernel near the peak of memory or of an arithmetic pipe.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from profiling_lab import kernel_causes
from profiling_lab.analysis import kernel_page
from profiling_lab.analysis.kernel_page import Kernel
from profiling_lab.captures.kernels import OF_AN_SM, PIPES
from profiling_lab.diagnosis import contributors
from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.kernel_causes import BUSY, OF_THE_GRID, SATURATED, Left, Missing

ATTAINABLE = 0.9  # of a unit's peak: no fix takes a unit beyond
FLOOR_RATIO = 0.10  # of the duration: a smaller saving is not worth naming
CEILING = 0.8  # of memory or a pipe: from here on a kernel is at its ceiling
BORDERLINE_RATIO = 0.03  # two recordings of one kernel differ by as much
CLASSES = {
    "dram": "memory_bound",
    "l2": "cache_bound",
    "l1": "cache_bound",
    "atomics": "cache_bound",
    "issue": "compute_bound",
    "sm": "compute_bound",
    **dict.fromkeys(PIPES, "compute_bound"),
    "adu": "latency_bound",
}
WORDS = {
    "dram": "DRAM",
    "l2": "L2",
    "l1": "L1",
    "atomics": "L2's atomics",
    "issue": "issuing instructions",
    "sm": "its SMs",
    "adu": "barriers and branches",
    "alu": "the integer pipe",
    "fma": "the fp32 pipe",
    "fp64": "the fp64 pipe",
    "xu": "the special-function pipe",
    "tensor": "the tensor cores",
}
_ROOFS = ("dram", *PIPES)
_SECTIONS = {
    "SpeedOfLight": ("use of the units", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
    "WarpStateStats": (
        "why warps wait",
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    ),
    "MemoryWorkloadAnalysis_Tables": (
        "sectors and conflicts",
        "memory_l2_theoretical_sectors_global",
    ),
    "ComputeWorkloadAnalysis": (
        "which pipes work",
        "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed",
    ),
    "SourceCounters": ("spills and lanes", "sass__inst_executed_register_spilling"),
    "Occupancy": ("what limits occupancy", "sm__maximum_warps_per_active_cycle_pct"),
}
# What a page of kernels never shows.
ALONE = (
    "how much of the program these kernels are (add a timeline of it: nsys profile; and name both files)",
    "how long they take in the program: Nsight Compute fixes clocks and empties caches before a kernel unless told "
    "otherwise",
)


@dataclass
class Judged:
    """One profiled launch, judged.

    use: busy shares of its units, bulk copies' and wgmma's counted with the units that they are work of. savings:
    by cause, the share of the duration; None where the page lacks what it takes.
    """

    kernel: Kernel
    use: dict[str, float]
    savings: dict[str, float | None]

    @property
    def unit(self) -> str:
        """The unit used most, "" if none is known."""
        return max(self.use, key=lambda unit: self.use[unit]) if self.use else ""

    @property
    def ceiling_ratio(self) -> float:
        """The use of the unit used most."""
        return self.use.get(self.unit, 0.0)

    @property
    def class_(self) -> str:
        """memory_bound, cache_bound, compute_bound or latency_bound; "" where too little is known."""
        if self.ceiling_ratio >= BUSY:
            return CLASSES[self.unit]
        complete = "dram" in self.use and ("issue" in self.use or "sm" in self.use)
        return "latency_bound" if complete else ""

    @property
    def headroom_ratio(self) -> float:
        """What could be saved at most if the nearest of memory and the pipes were as full as they get."""
        nearest = max((self.use[unit] for unit in _ROOFS if unit in self.use), default=0.0)
        if "sm" in self.use and not any(unit in self.use for unit in PIPES):
            nearest = max(nearest, self.use["sm"])
        return max(0.0, 1 - nearest / ATTAINABLE)

    @property
    def best(self) -> tuple[str, float]:
        """The cause that saves most, and how much; of equal ones the first in the table of categories."""
        known = {cause: saved for cause, saved in self.savings.items() if saved is not None}
        return max(
            known.items(),
            key=lambda row: (row[1], -CATEGORIES[row[0]].precedence),
            default=("", 0.0),
        )

    def to_dict(self) -> dict[str, Any]:
        """The launch as plain data."""
        return {
            "name": self.kernel.name,
            "grid": list(self.kernel.grid),
            "block": list(self.kernel.block),
            "duration_ns": self.kernel.duration_ns,
            "class": self.class_,
            "headroom_ratio": self.headroom_ratio,
            "use_ratio": self.use,
            "saved_ratio": self.savings,
            "stalled_ratio": dict(self.kernel.stalls[:5]),
        }


def judge(page: Iterable[Kernel]) -> list[Judged]:
    """Every launch of a page, judged."""
    out = []
    for kernel in page:
        use = _own_use(kernel)
        out.append(Judged(kernel, use, savings(kernel, use)))
    return out


def savings(kernel: Kernel, use: dict[str, float]) -> dict[str, float | None]:
    """By cause, the share of the duration that its removal would save; None where the page lacks what it takes.

    use: the units' use. Nothing can be said where neither memory nor the SMs have a ceiling that is known.
    """
    known = "dram" in use and ("issue" in use or "sm" in use)
    out: dict[str, float | None] = {}
    for cause, function in kernel_causes.CAUSES.items():
        try:
            left = function(kernel)
        except Missing:
            out[cause] = None
            continue
        if left and not known:
            out[cause] = None
            continue
        busy = kernel.busy_sm_ratio if cause not in OF_THE_GRID else 1.0
        out[cause] = 1 - _time_left(use, left, busy) if left else 0.0
    return out


def _time_left(use: dict[str, float], left: Left, busy: float) -> float:
    waiting = left.get("waiting", 1.0)
    fullest = max(use, key=lambda unit: use[unit])
    if use[fullest] >= SATURATED and fullest in left and fullest != "atomics":
        waiting = min(
            waiting, left[fullest]
        )  # nobody waits for an addition whose result is not read
    needed = [waiting]
    for unit, share in use.items():
        own = share / busy if unit in OF_AN_SM and busy else share
        needed.append(own * left.get(unit, 1.0) / ATTAINABLE)
    return min(1.0, max(needed))


def _own_use(kernel: Kernel) -> dict[str, float]:
    """The use of units, with what wgmma reads from shared memory counted to the tensor cores.

    Its operands come through L1's data banks: where the tensor cores are busy with them, L1 is as full by design
    and limits nothing; what else L1 does still counts.
    """
    use = dict(kernel.use)
    if kernel_causes.uses_wgmma(kernel) and use.get("tensor", 0.0) >= BUSY and "l1" in use:
        names = (
            "l1tex__m_xbar2l1tex_read_bytes.sum.pct_of_peak_sustained_elapsed",
            "l1tex__m_l1tex2xbar_req_cycles_active.avg.pct_of_peak_sustained_elapsed",
            "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum.pct_of_peak_sustained_elapsed",
            "l1tex__data_bank_writes.avg.pct_of_peak_sustained_elapsed",
        )
        own = [value / 100 for name in names if (value := kernel.get(name)) is not None]
        use["l1"] = min(use["l1"], max(own, default=0.0))
    return use


def findings(judged: Iterable[Judged]) -> list[Finding]:
    """One finding for each kernel and category, launches alike together; the largest saving first."""
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for one in judged:
        if one.kernel.duration_ns:
            groups[one.kernel.name, _category(one)].append(one)
    out = [_finding(category, group) for (_, category), group in groups.items()]
    return sorted(
        out, key=lambda f: (-f.evidence["recoverable_ns"], -f.evidence["duration_ns"], f.subject)
    )


def _category(one: Judged) -> str:
    cause, saved = one.best
    return cause if saved >= FLOOR_RATIO else one.class_ or "unexplained"


def _finding(category: str, group: list[Judged]) -> Finding:
    total = sum(one.kernel.duration_ns or 0.0 for one in group)
    longest = max(group, key=lambda one: one.kernel.duration_ns or 0.0)

    def mean(ratios: list[float]) -> float:
        rows = zip(ratios, group, strict=True)
        return sum(ratio * (one.kernel.duration_ns or 0.0) for ratio, one in rows) / total

    saved = mean([_saved(category, one) for one in group])
    unjudged = [cause for cause, share in longest.savings.items() if share is None]
    evidence = {
        "duration_ns": round(total),
        "launch_count": len(group),
        "recoverable_ns": round(saved * total),
        "window_ns": round(total),
        "recoverable_ratio": saved,
        "ceiling_ratio": mean([one.ceiling_ratio for one in group]),
        "headroom_ratio": mean([one.headroom_ratio for one in group]),
        "margin_ratio": _margin(category, longest),
        "unjudged_count": len(unjudged),
    }
    words = advice(category, longest)
    if unjudged and category != "unexplained":
        words = "it is at its peak" if words == "none" else words
        words += (
            f"; not judged for want of counters: {', '.join(unjudged)} (record with ncu --set full)"
        )
    if evidence["margin_ratio"] <= BORDERLINE_RATIO and category != "unexplained":
        words = f"borderline (by {evidence['margin_ratio']:.1%} of the duration): {words}"
    return Finding(category, f"kernel:{longest.kernel.name}", evidence, words)


def _saved(category: str, one: Judged) -> float:
    """The share of a launch's duration that its finding promises: of a cause what its removal saves.

    Caches and waiting stand between a kernel and the peaks, so without them it is as far from the nearest one as
    it gets. At the peak of memory or of a pipe, only less work saves time.
    """
    if category in kernel_causes.CAUSES:
        return one.best[1]
    return one.headroom_ratio if category in ("cache_bound", "latency_bound") else 0.0


def _margin(category: str, one: Judged) -> float:
    """How far the category is from another one."""
    ranked = sorted((saved for saved in one.savings.values() if saved is not None), reverse=True)
    first, second = [*ranked, 0.0, 0.0][:2]
    if category in kernel_causes.CAUSES:
        return first - max(FLOOR_RATIO, second)
    margins = [FLOOR_RATIO - first, abs(one.ceiling_ratio - BUSY)]
    if one.ceiling_ratio >= BUSY:
        others = [use for unit, use in one.use.items() if CLASSES[unit] != CLASSES[one.unit]]
        margins += [one.ceiling_ratio - max(others, default=0.0)]
    return min(margins)


def advice(category: str, one: Judged) -> str:
    """What to do about a launch: the category's remedy, what warps wait for, and what may be gained."""
    if category == "unexplained":
        return "too few counters to say what limits it: record its sections (ncu --set full)"
    if category in kernel_causes.CAUSES:
        return CATEGORIES[category].remedy
    remedy, room = CATEGORIES[category].remedy, one.headroom_ratio
    at_a_roof = one.ceiling_ratio >= CEILING and (one.unit in _ROOFS or room < FLOOR_RATIO)
    if category in ("memory_bound", "compute_bound") and at_a_roof:
        return "none"
    waits = one.kernel.stalls[:1]
    if category == "latency_bound" and waits and waits[0][0] == "barrier":
        remedy = "have fewer barriers: let the lanes of a warp exchange by shuffles"
    why = ""
    if category == "latency_bound" and waits:
        why = f" (warps wait most for {waits[0][0]}, {waits[0][1]:.0%} of their life)"
    if room < FLOOR_RATIO:
        return remedy + why
    nearest = max((u for u in _ROOFS if u in one.use), key=lambda u: one.use[u], default="")
    far = f"; {WORDS[nearest]}, the nearest peak, is used {one.use[nearest]:.0%}" if nearest else ""
    return f"{remedy}{why}{far}: up to {room:.0%} of the duration"


def lacks(judged: Iterable[Judged]) -> list[str]:
    """What pages lack, a sentence a section."""
    out = []
    kernels = [one.kernel for one in judged]
    for section, (about, counter) in _SECTIONS.items():
        if any(kernel.get(counter) is None for kernel in kernels):
            out.append(f"{about} (record with ncu --section {section}, or --set full)")
    return out


def read(place: Any) -> list[Judged]:
    """The launches of a page, judged. Raises CaptureError for what is no whole raw page."""
    return judge(kernel_page.read(place))


def top(judged: Sequence[Judged], count: int = contributors.MOST) -> dict[str, Any]:
    """The kernels of pages that took most time, in the form of `contributors.of`."""
    total: dict[str, list[float]] = defaultdict(list)
    for one in judged:
        total[one.kernel.name].append(one.kernel.duration_ns or 0.0)
    whole = sum(map(sum, total.values())) or 1.0
    rows = [
        {
            "name": name,
            "total_ns": round(sum(ns)),
            "count": len(ns),
            "mean_ns": sum(ns) / len(ns),
            "longest_ns": round(max(ns)),
            "window_ratio": sum(ns) / whole,
        }
        for name, ns in total.items()
    ]
    rows.sort(key=lambda row: -row["total_ns"])
    nothing = {name: [] for name in ("operators", "shapes", "modules", "functions", "ranges")}
    return {"kernels": rows[:count], **nothing, "steps": {}}
