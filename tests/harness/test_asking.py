"""What `lab diagnose` asks, of whom, and in which order it says what it was told."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from profiling_lab.captures import inputs
from profiling_lab.errors import LabError
from profiling_lab.findings import CATEGORY_OF_CAUSE, Finding, is_borderline, problems
from profiling_lab.mine import asking, kernels_alone
from profiling_lab.mine.functions import functions_for
from profiling_lab.mine.questions import QUESTIONS, Question
from tests.harness.asked_functions import COURSE, REFERENCE, ask, changed, to_do

ROOT = Path(__file__).resolve().parents[2]


# -- the table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: f"{q.kind}-{q.function}")
def test_every_question_is_a_task_of_its_exercise(question: Question) -> None:
    assert question.function in [task.name for task in COURSE.exercise(question.exercise).tasks]
    assert question.about


@pytest.mark.parametrize(
    ("names", "category", "subject"),
    [
        (["training_item"], "sync_bound", "device:0"),
        (["overlap_legacy"], "serialized_streams", "device:0"),
        (["two_streams"], "healthy", "device:0"),
        (["ddp_timeline_straggler"], "rank_imbalance", "rank:1"),
        (["ddp_timeline_one_bucket"], "communication_bound", "rank:0"),
        (["ddp_traces_straggler"], "rank_imbalance", "rank:1"),
        (["torch_memory_growth"], "memory_growth", "device:0"),
        (["ncu_shared"], "bank_conflicts", "kernel:relax_pitch32("),
    ],
)
def test_each_kind_of_cause_is_found(names: list[str], category: str, subject: str) -> None:
    verdict = ask(*names)
    assert verdict.unanswered == {}
    assert (verdict.findings[0].category, verdict.findings[0].subject[: len(subject)]) == (
        category,
        subject,
    )
    for finding in verdict.findings:
        assert problems(finding) == []


def test_clocks_are_asked_about_where_they_were_sampled() -> None:
    asked = [q.function for q in QUESTIONS if q.kind == "timeline"]
    [part] = inputs.read(["torch_inference_improved"])
    spoke = [q.function for q in QUESTIONS if q.kind == "timeline" and list(q.arguments(part))]
    assert asked == [
        "name_bottleneck",
        "judge_streams",
        "name_multi_gpu_bottleneck",
        "clock_verdict",
    ]
    assert spoke == ["name_bottleneck", "clock_verdict"]


# -- whose answers ------------------------------------------------------------------------------------


def test_what_is_still_to_do_is_named_and_the_others_speak(tmp_path: Path) -> None:
    verdict = ask("overlap_legacy", functions=to_do(tmp_path, "nsys_ex02"))
    assert [finding.category for finding in verdict.findings] == ["healthy"]
    assert verdict.todo == {"judge_streams"}
    assert verdict.explain_unanswered() == ["still to do: nsys_ex02.judge_streams"]


@pytest.mark.parametrize(
    ("name", "exercise", "task"),
    [
        ("overlap_legacy", "ex_30", "ex_30.name_bottleneck"),
        ("ddp_timeline_straggler", "nsys_ex04", "nsys_ex04.name_multi_gpu_bottleneck"),
        ("torch_inference_improved", "energy_ex01", "energy_ex01.clock_verdict"),
        ("ddp_traces_straggler", "torch_ex03", "torch_ex03.name_distributed_bottleneck"),
        ("torch_memory_growth", "ex_32", "ex_32.name_trace_bottleneck"),
        ("ncu_shared", "ex_31", "ex_31.classify_kernel"),
    ],
)
def test_each_function_to_do_is_named_with_its_exercise(
    tmp_path: Path, name: str, exercise: str, task: str
) -> None:
    said = ask(name, functions=to_do(tmp_path, exercise)).explain_unanswered()
    assert any(sentence.startswith("still to do:") and task in sentence for sentence in said)


@pytest.mark.parametrize("name", ["overlap_legacy", "ddp_traces_straggler", "ncu_shared"])
def test_without_a_written_function_nothing_is_found(tmp_path: Path, name: str) -> None:
    """A class repository holds no references: what is not written there gives no answer at all."""
    for exercise in COURSE.exercises:
        if exercise.stub.suffix == ".py":
            to_do(tmp_path, exercise.id)(exercise.id)
    shutil.copy(ROOT / "course.toml", tmp_path)
    verdict = ask(name, functions=partial(functions_for, against=str(tmp_path)))
    assert verdict.findings == []
    given = {"find_window"}  # stands in the stub, and is no task
    assert verdict.todo and verdict.todo == set(verdict.unanswered) - given


def test_a_changed_function_changes_the_verdict(tmp_path: Path) -> None:
    source = """
def judge_streams(capture, device=0):
    evidence = {"recoverable_ns": 1.0, "window_ns": 100, "recoverable_ratio": 0.01, "margin_ratio": -0.09}
    return Finding("healthy", f"device:{device}", evidence, "none")
"""
    assert ask("overlap_legacy").findings[0].category == "serialized_streams"
    verdict = ask("overlap_legacy", functions=changed(tmp_path, source, "nsys_ex02"))
    assert [finding.category for finding in verdict.findings] == ["healthy"]


def test_a_changed_order_is_the_one_that_is_said(tmp_path: Path) -> None:
    source = """
def diagnose_run(said, kernels, kernel_time_ns, window_ns):
    return [Finding("healthy", "device:7", {"recoverable_ns": 0, "window_ns": 1}, "none")]
"""
    verdict = ask("overlap_legacy", functions=changed(tmp_path, source, "case_files"))
    assert [finding.subject for finding in verdict.findings] == ["device:7"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("'serialized'", "not a Finding"),
        ("Finding('serialized_streams', 'device:0', {}, 'x')", "lacks 'recoverable_ns'"),
        ("None", "not a Finding"),
    ],
)
def test_a_broken_function_does_not_silence_the_others(
    tmp_path: Path, answer: str, words: str
) -> None:
    source = f"def judge_streams(capture, device=0):\n    return {answer}\n"
    verdict = ask("overlap_legacy", functions=changed(tmp_path, source, "nsys_ex02"))
    assert [finding.category for finding in verdict.findings] == ["healthy"]
    assert words in verdict.unanswered["judge_streams"]
    assert "lab check nsys_ex02.judge_streams" in verdict.unanswered["judge_streams"]


@pytest.mark.parametrize("answer", ["1 / 0", "[]", "None", "['x']"])
def test_a_broken_order_leaves_what_was_found(tmp_path: Path, answer: str) -> None:
    source = f"def diagnose_run(said, kernels, kernel_time_ns, window_ns):\n    return {answer}\n"
    verdict = ask("overlap_legacy", functions=changed(tmp_path, source, "case_files"))
    assert verdict.findings[0].category == "serialized_streams"
    assert "diagnose_run" in verdict.unanswered["diagnose_run"]


def test_a_single_file_is_asked_for_what_it_defines(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from profiling_lab.findings import Finding\n"
        "def name_bottleneck(capture, nvtx_range=None):\n"
        "    return Finding('host_bound', 'device:0', {'recoverable_ns': 9, 'window_ns': 10}, 'x')\n"
    )
    verdict = ask("overlap_legacy", functions=partial(functions_for, against=str(file)))
    assert [finding.category for finding in verdict.findings] == ["host_bound"]
    assert not {"judge_streams", "diagnose_run"} & set(verdict.unanswered)


def test_a_tree_of_the_week_alone_says_what_it_lacks(tmp_path: Path) -> None:
    stub = COURSE.exercise("ex_30").stub
    (tmp_path / stub).parent.mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / stub, tmp_path / stub)
    shutil.copy(ROOT / "course.toml", tmp_path)
    verdict = ask("overlap_legacy", functions=partial(functions_for, against=str(tmp_path)))
    assert [finding.category for finding in verdict.findings] == ["healthy"]
    assert "kernel_overlap.py" in verdict.unanswered["judge_streams"]


# -- what is said together ----------------------------------------------------------------------------

CAUSE = """
def {function}(capture, *more):
    evidence = {{"recoverable_ns": {ns}, "window_ns": 100, "recoverable_ratio": {ns} / 100,
                "margin_ratio": {ns} / 100 - 0.1}}
    return Finding("{category}", "device:0", evidence, "do it")
"""
NOTHING_ELSE = """
def recoverable_time(capture, nvtx_range=None):
    return {}
"""


def test_the_largest_saving_leads_before_the_order_is_written(tmp_path: Path) -> None:
    """With `diagnose_run` to do: recoverable_ns, then precedence; what is healthy is not said."""
    streams = CAUSE.format(function="judge_streams", ns=30, category="serialized_streams")
    for ns, first in ((29, "serialized_streams"), (30, "sync_bound"), (31, "sync_bound")):
        main = NOTHING_ELSE + CAUSE.format(function="name_bottleneck", ns=ns, category="sync_bound")
        order = to_do(tmp_path / str(ns), "case_files")
        one = changed(tmp_path / f"{ns}a", main, "ex_30")
        other = changed(tmp_path / f"{ns}b", streams, "nsys_ex02")
        by = {"case_files": order, "ex_30": one, "nsys_ex02": other}
        verdict = ask("overlap_legacy", functions=lambda i, by=by: by.get(i, REFERENCE)(i))
        assert verdict.findings[0].category == first
        assert len(verdict.findings) == 2
        assert verdict.explain_unanswered() == ["still to do: case_files.diagnose_run"]


def test_growth_leads_whatever_could_be_saved(tmp_path: Path) -> None:
    source = """
def judge_streams(capture, device=0):
    return Finding("memory_growth", "device:0", {"growth_bytes": 5}, "let go")
"""
    by = {
        "case_files": to_do(tmp_path / "a", "case_files"),
        "nsys_ex02": changed(tmp_path / "b", source, "nsys_ex02"),
        "ex_30": changed(
            tmp_path / "c",
            NOTHING_ELSE + CAUSE.format(function="name_bottleneck", ns=90, category="sync_bound"),
            "ex_30",
        ),
    }
    for order in (by["case_files"], REFERENCE):
        by["case_files"] = order
        verdict = ask("overlap_legacy", functions=lambda i: by.get(i, REFERENCE)(i))
        assert [f.category for f in verdict.findings] == ["memory_growth", "sync_bound"]


def test_another_cause_above_the_floor_follows_the_main_one() -> None:
    verdict = ask("case_recommender_a")
    main, *others = verdict.findings
    assert main.category == "allocation_bound"
    saved = verdict.diagnoses[0].recoverable_ns or {}
    window_ns = main.evidence["window_ns"]
    expected = {
        CATEGORY_OF_CAUSE[cause]: ns
        for cause, ns in saved.items()
        if ns >= 0.1 * window_ns and CATEGORY_OF_CAUSE[cause] != main.category
    }
    assert expected
    assert {one.category: one.evidence["recoverable_ns"] for one in others} == expected
    for one in others:
        ratio = one.evidence["recoverable_ns"] / window_ns
        assert one.evidence["margin_ratio"] == pytest.approx(ratio - 0.1)
        assert main.category in one.recommendation


def test_other_causes_stand_behind_their_own_finding(tmp_path: Path) -> None:
    """Though one of them would save more than what the function chose to name."""
    source = CAUSE.format(function="name_bottleneck", ns=20, category="sync_bound")
    source += """
def recoverable_time(capture, nvtx_range=None):
    return {"waits": 20, "launch_cost": 21, "copies": 9, "allocation": 0, "host_code": 15}
"""
    verdict = ask("overlap_streams", functions=changed(tmp_path, source, "ex_30"))
    said = [(f.category, f.evidence["recoverable_ns"]) for f in verdict.findings]
    assert said == [("sync_bound", 20), ("launch_bound", 21), ("host_bound", 15)]


def test_a_kernels_page_counts_by_its_share_of_the_timeline() -> None:
    verdict = ask("case_one_thread_a", "case_sum_a")
    [finding] = verdict.findings
    assert finding.category == "small_grid"
    evidence = finding.evidence
    [alone] = ask("case_sum_a").findings
    share = evidence["kernel_time_ratio"] * alone.evidence["recoverable_ratio"]
    assert evidence["recoverable_ratio"] == pytest.approx(share)
    assert 0.9 < evidence["kernel_time_ratio"] <= 1


def test_a_page_of_other_kernels_says_nothing_of_a_timeline() -> None:
    verdict = ask("overlap_legacy", "case_sum_a")
    assert {finding.category for finding in verdict.findings} == {"serialized_streams"}


def test_time_alone_is_time_without_other_kernels() -> None:
    [part] = inputs.read(["overlap_streams"])
    alone = kernels_alone.times_alone(part)
    rows = kernels_alone._kernel_spans(part)
    union = sum(alone.values())
    assert 0 < union < sum(end - start for start, end, _ in rows)
    assert alone.keys() <= {name for _, _, name in rows}


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("sum_by_one(const float *, float *)", "sum_by_one"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::X<float>>(int)",
         "vectorized_elementwise_kernel"),
        ("triton_poi_fused_0", "triton_poi_fused_0"),
        ("void (anonymous namespace)::scale<int>(float*)", "scale"),
        ("void at::<unnamed>::softmax<float, at::<unnamed>::Epilogue>(T3 *)", "softmax"),
    ],
)  # fmt: skip
def test_base_names(written: str, base: str) -> None:
    assert asking.base_name(written) == base


# -- ranges and borders -------------------------------------------------------------------------------


def test_a_range_is_for_functions_that_take_one() -> None:
    verdict = ask("ddp_timeline_straggler", nvtx_range="rank 0")
    assert verdict.findings[0].subject == "range:rank 0"
    assert verdict.unanswered == {}
    with pytest.raises(LabError, match="belongs to timelines"):
        ask("ncu_shared", nvtx_range="rank 0")


def test_counters_have_no_verdict() -> None:
    with pytest.raises(LabError, match="no verdict"):
        ask("roofline_counters")


def test_borderline_is_what_the_function_says() -> None:
    assert is_borderline(Finding("healthy", "device:0", {}, "borderline: none"))
    assert not is_borderline(Finding("healthy", "device:0", {}, "none"))
    [healthy] = ask("case_autoencoder_b").findings
    assert is_borderline(healthy) and abs(healthy.evidence["margin_ratio"]) <= 0.02
