"""The engine on pages of Nsight Compute: case files, pairs that were timed, and simulated kernels of known cost."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from typing import Any

import pytest

from grading.checks import case_labels
from grading.checks.generate.kernels import Work
from profiling_lab import captures, kernel_causes
from profiling_lab.analysis.kernel_page import Kernel
from profiling_lab.captures import inputs
from profiling_lab.cli.printing import finding_in_few_words
from profiling_lab.diagnosis import engine, kernels
from profiling_lab.diagnosis.engine import Verdict
from profiling_lab.diagnosis.kernels import Judged
from profiling_lab.errors import CaptureError, LabError
from profiling_lab.findings import CATEGORIES, Finding, problems
from profiling_lab.reports.model import evidence_of

CASES = [name for name, label in case_labels.labels().items() if label["kind"] == "kernels"]
LIMITERS = ("memory_bound", "compute_bound", "cache_bound", "latency_bound")
# The others have tests of their own below.
SIMULATED = sorted(kernel_causes.CAUSES.keys() - {"narrow_access", "double_precision"})
SEEDS = range(12)


def judge(*names: str) -> Verdict:
    return engine.judge(inputs.read(names))


def made(counters: dict[str, float | None]) -> Kernel:
    return Kernel("made(float *)", (1, 1, 1), (256, 1, 1), "9.0", dict(counters))


def of(work: Work, **changes: float | None) -> tuple[Judged, Finding]:
    [judged] = kernels.judge([made(work.profile()["metrics"] | changes)])
    [finding] = kernels.findings([judged])
    assert not problems(finding)
    return judged, finding


@pytest.mark.parametrize("name", CASES)
def test_a_case_has_its_label_and_what_was_measured(name: str) -> None:
    label = case_labels.labels()[name]
    verdict = judge(*label["captures"])
    main = verdict.findings[0]
    assert main.category == label.get("engine", label["expect"]), main
    assert main.subject.startswith(label["subject"]) and not problems(main)
    for key, bounds in case_labels.expected(name).items():
        assert bounds.holds(main.evidence[key]), (key, main.evidence[key], bounds)


# Kernels of one capture that compute the same, slow and fast: (capture, slow, fast, category, tolerance).
PAIRS = [
    ("ncu_compute", "iterate_literals", "iterate", "double_precision", 0.03),
    ("ncu_compute", "blend_32_registers", "blend", "register_spills", 0.02),
    ("ncu_bandwidth", "copy_float", "copy_float4", "narrow_access", 0.04),
    ("ncu_memory", "row_sums_by_thread", "row_sums_by_warp", "uncoalesced_access", 0.07),
    ("ncu_memory", "drift_structs", "drift_arrays", "uncoalesced_access", 0.03),
    ("ncu_shared", "transpose_tile32", "transpose_tile33", "bank_conflicts", 0.09),
    ("ncu_parallelism", "shade_mixed", "shade_sorted", "divergence", 0.02),
    ("ncu_parallelism", "normalise_32_blocks", "normalise_1056_blocks", "small_grid", 0.03),
]
# Of these the most is said that could be saved; the tolerance is what is saved besides, by fewer bytes.
BOUNDS = [
    ("ncu_compute", "matmul_direct", "matmul_tiled", "cache_bound", 0.0),
    ("ncu_triton", "softmax_row", "softmax_rows", "cache_bound", 0.07),
    ("ncu_parallelism", "follow_one", "follow_four", "latency_bound", 0.0),
]


def of_pair(capture: str, slow: str, fast: str) -> tuple[dict[str, Any], float]:
    """What is said of the slow kernel of a pair, and the share that the fast one took less."""
    ran = json.loads(captures.text(capture, "provenance.json"))["reported_by_program"]
    if "kernels" in ran:
        times = {name: row["duration_ns"] for name, row in ran["kernels"].items()}
    else:
        times = ran["median_ns"]
    told = judge(capture).to_dict()["findings"]
    finding = next(f for f in told if f["subject"].split("(")[0] == f"kernel:{slow}")
    return finding, 1 - times[fast] / times[slow]


@pytest.mark.parametrize(("capture", "slow", "fast", "category", "tolerance"), PAIRS)
def test_what_is_promised_is_what_the_other_kernel_of_a_pair_saves(
    capture: str, slow: str, fast: str, category: str, tolerance: float
) -> None:
    finding, measured = of_pair(capture, slow, fast)
    assert finding["category"] == category and not finding["bound"]
    assert finding["evidence"]["recoverable_ratio"] == pytest.approx(measured, abs=tolerance)


@pytest.mark.parametrize(("capture", "slow", "fast", "category", "tolerance"), BOUNDS)
def test_a_bound_is_said_to_be_one_and_holds(
    capture: str, slow: str, fast: str, category: str, tolerance: float
) -> None:
    finding, measured = of_pair(capture, slow, fast)
    assert finding["category"] == category and finding["bound"]
    assert measured <= finding["evidence"]["recoverable_ratio"] + tolerance <= 1
    shown = Finding(*(finding[k] for k in ("category", "subject", "evidence", "recommendation")))
    assert evidence_of(shown)[2][0] == "could be saved at most"
    assert "could be saved at most" in finding_in_few_words(shown)


def test_who_copies_in_bulk_and_counts_a_few_tiles_waits_for_no_atomics() -> None:
    """A product of cuBLAS draws its tiles from a counter: 32,702 atomics beside 10.7 GB of bulk copies."""
    for one in judge("ncu_attention").kernels:
        assert (one.savings["atomic_contention"] or 0.0) < 0.01, one.kernel.name


@pytest.mark.parametrize("cause", SIMULATED)
def test_a_simulated_cause_costs_what_it_costs(cause: str) -> None:
    for seed in SEEDS:
        work = Work.drawn(cause, seed)
        judged, finding = of(work)
        assert finding.category == cause
        truth = 1 - work.without(cause).cycles / work.cycles
        # Of contended atomics too little is promised: what else the same warps wait for is taken to stay.
        below = 0.4 if cause == "atomic_contention" else 0.04
        assert -below <= (judged.savings[cause] or 0.0) - truth <= 0.04


@pytest.mark.parametrize("limiter", LIMITERS)
def test_a_simulated_kernel_without_a_cause_has_one_class(limiter: str) -> None:
    for seed in SEEDS:
        judged, finding = of(Work.drawn(limiter, seed))
        assert judged.class_ == limiter
        assert limiter in (finding.category, CATEGORIES[finding.category].parent)


COALESCED = Work(loads=8, stores=1, in_flight=1.0, floats=4)


def test_one_sector_too_many_is_no_finding() -> None:
    aligned, _ = of(COALESCED)
    shifted, _ = of(replace(COALESCED, load_sectors=5.0, store_sectors=5.0, used_bytes=25.6))
    assert aligned.savings["uncoalesced_access"] == shifted.savings["uncoalesced_access"] == 0.0
    strided, _ = of(replace(COALESCED, load_sectors=8.0, store_sectors=8.0, used_bytes=16.0))
    assert (strided.savings["uncoalesced_access"] or 0) > 0.1


def test_few_bytes_a_thread_are_said_with_what_wide_loads_give() -> None:
    """A byte a thread: a sector a request; sixteen bytes make sixteen times fewer requests."""
    work = replace(COALESCED, loads=64, stores=16, load_sectors=1.0, store_sectors=1.0)
    judged, finding = of(work)
    assert finding.category == "narrow_access"
    wide = replace(work, loads=4, stores=1, load_sectors=16.0, store_sectors=16.0)
    truth = 1 - wide.cycles / work.cycles
    assert judged.savings["narrow_access"] == pytest.approx(truth, abs=0.1)
    # Lanes that all read one address ask for less than a byte each: no load is wider than that.
    judged, finding = of(replace(work, used_bytes=4.0))
    assert judged.savings["narrow_access"] == 0.0 and finding.category == "latency_bound"


def test_rows_of_unequal_length_are_divergence_and_not_their_scattered_loads() -> None:
    """Eight of 32 lanes on average, each at a row of its own whose sectors L1 keeps for its next elements."""
    work = Work.drawn("latency_bound", 3)
    few = replace(work, lanes=8.0)
    counters = few.profile()["metrics"]
    requests = counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    sectors = 8 * requests
    judged, finding = of(
        few,
        **{
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": sectors,
            "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 4.0,
            "memory_l2_theoretical_sectors_global": sectors,
            "memory_l2_theoretical_sectors_global_ideal": sectors / 8,
            "lts__t_sectors_srcunit_tex.sum": sectors / 8,
        },
    )
    assert finding.category == "divergence"
    assert (judged.savings["uncoalesced_access"] or 0) < (judged.savings["divergence"] or 0)


@pytest.mark.parametrize("held", [8, 32])
def test_blocks_of_one_warp_leave_the_device_empty(held: int) -> None:
    """An SM holds so many blocks and not more, and each is a warp."""
    drawn = Work.drawn("low_occupancy", 3)
    work = replace(
        drawn, blocks=drawn.blocks * drawn.block_warps, block_warps=1, blocks_per_sm=held
    )
    judged, finding = of(work)
    truth = 1 - work.without("low_occupancy").cycles / work.cycles
    assert judged.savings["low_occupancy"] == pytest.approx(truth, abs=0.02)
    if held == 8:  # where half of the warps are there, wider loads bring as much
        assert finding.category == "low_occupancy" and "larger blocks" in finding.recommendation


TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
WGMMA: dict[str, Any] = {
    TENSOR: 88.0,
    "smsp__sass_inst_executed_op_shared_gmma.sum": 1e6,
    "l1tex__throughput.avg.pct_of_peak_sustained_active": 97.0,
    "l1tex__m_xbar2l1tex_read_bytes.sum.pct_of_peak_sustained_elapsed": 30.0,
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum": 4e9,
}


def test_products_by_wgmma_are_judged_by_the_tensor_cores() -> None:
    """L1 is as full by design, few warps are, and the sectors of bulk copies follow no rule of requests."""
    work = replace(Work.drawn("latency_bound", 1), blocks_per_sm=1)
    scattered = {
        "memory_l2_theoretical_sectors_global": 1e8,
        "memory_l2_theoretical_sectors_global_ideal": 1e7,
    }
    judged, finding = of(work, **WGMMA, **scattered)
    assert (finding.category, judged.unit) == ("compute_bound", "tensor")
    assert finding.recommendation.startswith("it is at its peak; not judged")
    assert judged.savings["uncoalesced_access"] == judged.savings["low_occupancy"] == 0.0
    # Without wgmma the same figures say that L1 is in the way.
    plain, _ = of(work, **WGMMA | {"smsp__sass_inst_executed_op_shared_gmma.sum": 0.0})
    assert plain.class_ == "cache_bound"


def test_a_kernel_far_from_every_peak_is_never_left_without_a_reason() -> None:
    """A product of matrices that L1 limits, at a tenth of the fp32 peak."""
    naive = next(f for f in judge("sgemm_steps").findings if "coalesced" in f.subject)
    assert naive.category == "cache_bound" and naive.recommendation != "none"
    told = json.loads(captures.text("sgemm_steps", "provenance.json"))
    ran = told["reported_by_program"]
    fast = statistics.median(ran["cublas_ns"])
    slow = statistics.median(ran["steps"]["coalesced"]["own_ns"])
    assert naive.evidence["recoverable_ratio"] == pytest.approx(1 - fast / slow, abs=0.05)
    for name in ("ncu_compute", "ncu_memory", "ncu_parallelism", "ncu_waiting", "ncu_roofline"):
        for one in judge(name).findings:
            if one.recommendation == "none":
                assert one.evidence["headroom_ratio"] < 0.15, one


def test_a_page_of_too_few_counters_says_which_to_record() -> None:
    judged, finding = of(
        COALESCED,
        **{
            name: None
            for name in COALESCED.profile()["metrics"]
            if "issue" in name or "pipe" in name or "throughput" in name
        },
    )
    assert finding.category == "unexplained" and judged.class_ == ""
    assert any("SpeedOfLight" in line for line in kernels.lacks([judged]))


def test_a_kernel_at_its_peak_has_nothing_to_gain_only_where_all_was_judged() -> None:
    """Scattered accesses keep DRAM as busy; a page of few sections does not tell."""
    page = judge("ncu_memory_basic").findings
    scattered = next(one for one in page if "drift_structs" in one.subject)
    assert scattered.category == "memory_bound"
    assert "not judged" in scattered.recommendation and "uncoalesced" in scattered.recommendation
    whole = next(one for one in judge("ncu_memory").findings if "drift_structs" in one.subject)
    assert whole.category == "uncoalesced_access"


def test_kernels_are_told_in_the_same_form_as_timelines() -> None:
    page, run = (judge(name).to_dict() for name in ("case_fields_a", "case_vision_a"))
    assert page.keys() == run.keys()
    assert page["schema_version"] == run["schema_version"] == engine.SCHEMA_VERSION
    assert (page["window"], page["balance"]) == (None, [])
    assert page["kernels"][0]["class"] == "memory_bound" and run["kernels"] == []
    assert page["top"].keys() == run["top"].keys()
    assert page["headline"].startswith("weigh_records loses 7")
    json.dumps(page)


def test_a_page_beside_a_run_is_weighed_by_the_time_in_which_the_kernel_ran_alone() -> None:
    verdict = judge("case_one_thread_a", "case_sum_a")
    main = verdict.findings[0]
    assert main.category == "small_grid" and "healthy" not in {f.category for f in verdict.findings}
    assert main.evidence["alone_ns"] == pytest.approx(main.evidence["window_ns"], rel=0.01)
    assert not any("kernels not judged" in line for line in verdict.rests_on)
    # A page of kernels that the run did not launch saves nothing of it.
    stranger = judge("case_one_thread_a", "case_fields_a")
    assert stranger.findings[0].category == "healthy"
    assert stranger.findings[-1].evidence["recoverable_ns"] == 0


def test_a_range_belongs_to_timelines() -> None:
    with pytest.raises(LabError, match="--range belongs to timelines"):
        engine.judge(inputs.read(["case_fields_a"]), "step")


def test_a_page_that_was_cut_off_is_refused(tmp_path: Any) -> None:
    text = captures.text("sgemm_steps", "kernels.csv")
    (tmp_path / "kernels.csv").write_text(text[: int(0.9 * len(text))], encoding="utf-8")
    with pytest.raises(CaptureError):
        kernels.read(tmp_path)
