"""Where a learner's verdict and the engine's part: by how much, by which refinement, and where that is taught.

The learner's functions are the core idea under a short contract. The engine refines it. Each row of `REFINEMENTS` is
one such refinement: how much of the recording's time it moves, in ns, and the lesson that has the idea. The one
that moves most makes the difference, if it is at least half of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.units import format_ns

if TYPE_CHECKING:
    from profiling_lab.diagnosis.engine import Verdict

# A share that closer verdicts agree on: recordings of one program differ by as much.
SAME_RATIO = 0.02
_RANKS = ("communication_bound", "rank_imbalance", "pipeline_bubble")


@dataclass(frozen=True)
class Lesson:
    """A section of a page of the course. heading: without its number."""

    file: str
    heading: str

    def __str__(self) -> str:
        return f'{self.file}, "{self.heading}"'


@dataclass(frozen=True)
class Refinement:
    """What the engine does beyond the core idea. moves: ns of the recording, by (verdict, the learner's finding).

    says: a sentence that may name `{moved}`, and `{judged}`, the time that the engine judges.
    """

    says: str
    lesson: Lesson
    moves: Callable[[Verdict, Finding], float]


@dataclass(frozen=True)
class Parting:
    """What two verdicts have to do with each other. says: a sentence. lesson: None where they agree."""

    agree: bool
    says: str
    lesson: Lesson | None = None


def of(verdict: Verdict, mine: Finding) -> Parting:
    """Where the learner's main finding and the engine's verdict part."""
    main = verdict.findings[0]
    shares = [one.evidence.get("recoverable_ratio") for one in (mine, main)]
    apart = abs(shares[0] - shares[1]) if None not in shares else None  # type: ignore[operator]
    same = mine.category == main.category
    if same and (mine.category == "healthy" or apart is None or apart <= SAME_RATIO):
        return Parting(True, "They agree.")
    if CATEGORIES[main.category].parent == mine.category:
        text = f"They agree: {main.category} is the narrower name of {mine.category}."
        return Parting(True, text, _taught(main.category))
    savings = [one.evidence.get("recoverable_ns", 0) for one in (mine, main)]
    difference_ns = abs(savings[0] - savings[1])
    begin = "They name different categories"
    if same:
        differ = f"Their savings differ by {format_ns(round(difference_ns))}"
        begin = f"They agree on the category. {differ}"
    refinement = max(REFINEMENTS, key=lambda one: one.moves(verdict, mine))
    moved = refinement.moves(verdict, mine)
    if moved > 0 and 2 * moved >= difference_ns:
        judged = format_ns(main.evidence.get("window_ns", 0))
        says = refinement.says.format(moved=format_ns(round(moved)), judged=judged)
        begin += ", mostly for this reason" if same else ""
        return Parting(False, f"{begin}: {says}.", refinement.lesson)
    if same:
        text = f"{begin}: no single step that the engine adds to yours explains half of it."
        return Parting(False, text, _taught(main.category))
    words = f"to the engine, {CATEGORIES[main.category].definition}"
    return Parting(False, f"{begin}: {words}.", _taught(main.category))


# -- refinements -------------------------------------------------------------------------------------


def _main(verdict: Verdict, *categories: str) -> float:
    """What the engine's main finding saves, if it is one of these; else 0."""
    main = verdict.findings[0]
    return main.evidence.get("recoverable_ns", 0) if main.category in categories else 0


def _once(verdict: Verdict, _mine: Finding) -> float:
    return min((seen.setup_ns for seen in verdict.seen), default=0)


def _not_hidden(verdict: Verdict, _mine: Finding) -> float:
    if not _main(verdict, "transfer_bound"):
        return 0
    given = verdict.seen[0].saved.remedies
    return given["moved_less"] - given["hidden"]


def _read_back(verdict: Verdict, mine: Finding) -> float:
    told = mine.category == "sync_bound" or not verdict.seen
    return 0 if told or not verdict.seen[0].saved.readback_count else _main(verdict, "sync_bound")


def _blocking(verdict: Verdict, _mine: Finding) -> float:
    blocks = verdict.seen and verdict.seen[0].time.order.launches_block
    return _main(verdict, "sync_bound") if blocks else 0


def _consequences(verdict: Verdict, _mine: Finding) -> float:
    saved = _main(verdict, "allocation_bound")
    return saved - min(one.classes["allocation"] for one in verdict.seen[0].spent) if saved else 0


def _of_ranks(verdict: Verdict, mine: Finding) -> float:
    known = mine.evidence.get("recoverable_ns", 0) if mine.category in _RANKS else 0
    return _main(verdict, *_RANKS) - known


def _recorder(verdict: Verdict, mine: Finding) -> float:
    """What recording cost the host, where the learner's finding saves more than the engine's: it counts this time, too."""
    saved = verdict.findings[0].evidence.get("recoverable_ns", 0)
    if not verdict.seen or mine.evidence.get("recoverable_ns", 0) <= saved:
        return 0
    return verdict.seen[0].saved.recorder_ns


def _lost(verdict: Verdict, mine: Finding) -> float:
    """Where no one cause reaches the floor, and the engine says so instead of healthy."""
    main = verdict.findings[0]
    told = main.category == "healthy" or main.evidence.get("margin_ratio", 0) >= 0
    if mine.category != "healthy" or told:
        return 0
    return min((seen.lost_ns for seen in verdict.seen), default=0)


def _peaks(verdict: Verdict, _mine: Finding) -> float:
    main = verdict.findings[0]
    far = main.category in ("cache_bound", "latency_bound") and not verdict.seen
    return main.evidence.get("recoverable_ns", 0) if far else 0


_DAY_1 = "week07/day1_nsight_systems/README.md"
_DAY_2 = "week07/day2_nsight_compute/README.md"
_DAY_3 = "week07/day3_pytorch_profiler/README.md"
_MEMORY = "modules/01-nsight-systems/ex03-memory-timeline/README.md"
_RANKS_OF = "modules/01-nsight-systems/ex04-multi-gpu-timeline/README.md"
_LOADER = "modules/05-advanced-nsight/ex02-io-dataloader/README.md"
_BYTES = "modules/02-nsight-compute/ex01-memory-metrics/README.md"
_UNITS = "modules/02-nsight-compute/ex02-compute-metrics/README.md"

REFINEMENTS = (
    Refinement(
        "the engine first takes off what happened once ({moved} of set-up), and judges only {judged}",
        Lesson("modules/01-nsight-systems/ex01-timeline-basics/README.md", "What the first iteration costs"),
        _once,
    ),
    Refinement(
        "the engine also counts exposed copies that cannot be hidden ({moved})",
        Lesson(_DAY_1, "Copies that run alone"),
        _not_hidden,
    ),
    Refinement(
        "to the engine, reading a few bytes back is waiting, whatever the call ({moved})",
        Lesson(_MEMORY, "Asynchronous in name only"),
        _read_back,
    ),
    Refinement(
        "each launching call waits for its kernel's end, which the engine counts as waiting ({moved})",
        Lesson(_DAY_1, "Which calls block the host"),
        _blocking,
    ),
    Refinement(
        "the engine counts allocation with the waits that it causes ({moved})",
        Lesson(_DAY_1, "What would be saved?"),
        _consequences,
    ),
    Refinement(
        "the engine distinguishes waiting that all ranks share from waiting for one rank that is late "
        "again and again ({moved})",
        Lesson(_RANKS_OF, "The rank that others wait for"),
        _of_ranks,
    ),
    Refinement(
        "the engine first takes off what the profiler cost ({moved}), and judges only {judged}",
        Lesson(_DAY_3, "Profile steps, not programs"),
        _recorder,
    ),
    Refinement(
        "the engine says healthy only where idle time, exposed copies and exposed communication together stay "
        "below a tenth (here {moved})",
        Lesson(_DAY_1, "Name it"),
        _lost,
    ),
    Refinement(
        "the engine also says how far the kernel is from the nearest peak ({moved})",
        Lesson("modules/02-nsight-compute/ex03-roofline-practice/README.md", "How much more is free?"),
        _peaks,
    ),
)  # fmt: skip


def _taught(category: str) -> Lesson | None:
    """Where a category is taught, if the course has it."""
    return TAUGHT.get(category) or TAUGHT.get(CATEGORIES[category].parent)


TAUGHT = {
    **dict.fromkeys(
        ("sync_bound", "launch_bound", "host_bound", "allocation_bound", "healthy", "unexplained"),
        Lesson(_DAY_1, "Name it"),
    ),
    "transfer_bound": Lesson(_MEMORY, "Name the cause, and what overlap would save"),
    "input_bound": Lesson(_LOADER, "The verdict"),
    "serialized_streams": Lesson(
        "modules/01-nsight-systems/ex02-kernel-overlap/README.md", "Serialized, or full?"
    ),
    **dict.fromkeys(_RANKS, Lesson(_RANKS_OF, "The verdict")),
    "recompilation": Lesson(_DAY_3, "When compiled code is slow"),
    "memory_growth": Lesson(_DAY_3, "Which line holds the memory?"),
    "throttled": Lesson("modules/04-energy-profiling/ex01-power-measurement/README.md", "Was the clock limited?"),
    "slower_kernels": Lesson("modules/05-advanced-nsight/ex07-comparison-reports/README.md", "Where the change is"),
    **dict.fromkeys(
        ("memory_bound", "compute_bound", "cache_bound", "latency_bound"), Lesson(_DAY_2, "The verdict")
    ),
    "above_roof": Lesson("week07/day4_bottleneck_analysis/README.md", "What bounds this call?"),
    "uncoalesced_access": Lesson(_DAY_2, "Bytes used of the bytes moved"),
    "narrow_access": Lesson(_BYTES, "A kernel at the speed of a copy"),
    "bank_conflicts": Lesson(_DAY_2, "Shared memory: wavefronts of a request"),
    **dict.fromkeys(("low_occupancy", "small_grid", "tail_effect"), Lesson(_DAY_2, "How many blocks fit")),
    "divergence": Lesson(_UNITS, "What divergence costs"),
    "atomic_contention": Lesson(_DAY_2, "What do warps wait for?"),
    "register_spills": Lesson(_DAY_2, "Which line, which instruction"),
    "tensor_cores_unused": Lesson(_DAY_2, "What is executed"),
    "double_precision": Lesson(_DAY_2, "What is executed"),
}  # fmt: skip
