"""Where a learner's verdict and the engine's part: by how much, why, and where that is taught."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.mine import parting
from profiling_lab.units import format_ns
from tests.harness.drawn_run import US, Drawn, judge, of

ROOT = Path(__file__).resolve().parents[2]
LESSONS = {one.lesson for one in parting.REFINEMENTS} | set(parting.TAUGHT.values())


@pytest.mark.parametrize("lesson", sorted(LESSONS, key=str), ids=str)
def test_every_link_leads_to_a_section(lesson: parting.Lesson) -> None:
    text = (ROOT / lesson.file).read_text(encoding="utf-8")
    headings = [re.sub(r"^#+ (\d+\. )?", "", line) for line in text.splitlines() if line[:1] == "#"]
    assert lesson.heading in headings


def test_every_category_is_taught_somewhere() -> None:
    missing = {n for n, row in CATEGORIES.items() if not {n, row.parent} & set(parting.TAUGHT)}
    assert not missing


def said(category: str, saved_us: int, window_us: int) -> Finding:
    evidence = {"recoverable_ns": saved_us * US, "window_ns": window_us * US}
    return Finding(category, "device:0", evidence | {"recoverable_ratio": saved_us / window_us})


def loop(folder: Path) -> Drawn:
    """50 ms of allocation before a loop of 25 ms, each step of which reads a few bytes back."""
    drawn = Drawn(folder / "loop.sqlite")
    drawn.launch(10)
    drawn.call("cudaMalloc_v3020", 50_000)
    for _ in range(50):
        drawn.launch(300)
        drawn.blocking_copy("D2H", 2, 4, pinned=True, api="cudaMemcpy_v3020")
        drawn.now += 90 * US
    return drawn


@pytest.mark.parametrize(
    ("mine", "refinement"),
    [
        (("allocation_bound", 50_000), "what happened once (50."),
        (("transfer_bound", 2_000), "reading a few bytes back is waiting"),
    ],
)
def test_the_refinement_that_moves_most_makes_the_difference(
    mine: tuple[str, int], refinement: str, tmp_path: Path
) -> None:
    drawn = loop(tmp_path)
    if mine[0] != "allocation_bound":  # without what is once
        drawn = Drawn(tmp_path / "short.sqlite")
        for _ in range(50):
            drawn.launch(300)
            drawn.blocking_copy("D2H", 2, 4, pinned=True, api="cudaMemcpy_v3020")
            drawn.now += 90 * US
    verdict = of(drawn)
    assert verdict.findings[0].category == "sync_bound"
    found = parting.of(verdict, said(*mine, 75_000))
    assert not found.agree and refinement in found.says and "different categories" in found.says
    assert found.lesson in {one.lesson for one in parting.REFINEMENTS}


def test_what_the_profiler_cost_is_named_with_both_times() -> None:
    verdict = judge("torch_infer_launch_bound")
    (seen,), main = verdict.seen, verdict.findings[0]
    window_ns = seen.spent[0].length_ns
    whole_ns = main.evidence["recoverable_ns"] + seen.saved.recorder_ns
    mine = Finding(
        main.category,
        main.subject,
        {
            "recoverable_ns": whole_ns,
            "window_ns": window_ns,
            "recoverable_ratio": whole_ns / window_ns,
        },
    )
    found = parting.of(verdict, mine)
    cost, judged = format_ns(seen.saved.recorder_ns), format_ns(main.evidence["window_ns"])
    assert f"what the profiler cost ({cost}), and judges only {judged}" in found.says
    assert f"differ by {cost}" in found.says and not found.agree
    assert "Profile steps" in str(found.lesson)
    # Taking time off explains no saving that is larger than the learner's.
    less = dict(mine.evidence, recoverable_ns=1_000, recoverable_ratio=1_000 / window_ns)
    assert "profiler" not in parting.of(verdict, Finding(mine.category, "", less)).says


def test_two_healthy_verdicts_agree_however_much_each_could_save(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "healthy.sqlite")
    drawn.launch(10)
    drawn.launch(5_000)
    verdict = of(drawn)
    assert verdict.findings[0].category == "healthy"
    assert parting.of(verdict, said("healthy", 450, 5_000)).agree


def test_who_agrees_is_told_so_and_a_narrower_name_where_it_is_taught(tmp_path: Path) -> None:
    verdict = of(loop(tmp_path))
    assert parting.of(verdict, verdict.findings[0]) == parting.Parting(True, "They agree.")
    loader = judge("loader_few")
    main = loader.findings[0]
    wider = Finding("host_bound", main.subject, main.evidence)
    found = parting.of(loader, wider)
    assert found.agree and "narrower" in found.says and "ex02-io-dataloader" in str(found.lesson)


def test_copies_that_cannot_be_hidden(tmp_path: Path) -> None:
    drawn = Drawn(tmp_path / "copies.sqlite")
    for _ in range(30):
        drawn.blocking_copy("H2D", 1_000, 9_000_000, pinned=True, api="cudaMemcpy_v3020")
        drawn.launch(30)
    found = parting.of(of(drawn), said("healthy", 900, 31_000))
    assert not found.agree and "that cannot be hidden (" in found.says
    assert "Copies that run alone" in str(found.lesson)


def test_a_kernel_that_caches_limit_is_told_its_distance_from_the_peaks() -> None:
    verdict = judge("sgemm_steps")
    assert verdict.findings[0].category == "cache_bound"
    mine = Finding("memory_bound", verdict.findings[0].subject, {"recoverable_ratio": 0.0})
    assert "nearest peak" in parting.of(verdict, mine).says
