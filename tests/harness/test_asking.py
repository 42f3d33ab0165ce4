"""What `lab diagnose` asks, of whom, and in which order it says what it was told."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from profiling_lab import captures
from profiling_lab.captures import inputs
from profiling_lab.course import manifest as course
from profiling_lab.errors import CaptureError, LabError
from profiling_lab.findings import CATEGORY_OF_CAUSE, Finding, is_borderline, problems
from profiling_lab.mine import asking
from profiling_lab.mine.functions import Functions, functions_for

ROOT = Path(__file__).resolve().parents[2]
COURSE = course.load(ROOT)
REFERENCE = partial(functions_for, against=str(ROOT / "solutions"))
FunctionsFor = Callable[[str], Functions]


def ask(*names: str, functions: FunctionsFor = REFERENCE, **more: str) -> asking.Verdict:
    [run] = inputs.runs(inputs.read(names))
    return asking.ask_all(run, functions, **more)


def changed(folder: Path, source: str, *exercises: str, add: bool = True) -> FunctionsFor:
    """The references, but for some exercises, whose functions are replaced (or alone, without `add`)."""

    def of(identifier: str) -> Functions:
        if identifier not in exercises:
            return REFERENCE(identifier)
        stub = COURSE.exercise(identifier).stub
        file = folder / stub
        file.parent.mkdir(parents=True, exist_ok=True)
        before = (ROOT / "solutions" / stub).read_text(encoding="utf-8") if add else ""
        file.write_text(f"{before}\n\n{source}", encoding="utf-8")
        return functions_for(identifier, str(folder))

    return of


def to_do(folder: Path, *exercises: str) -> FunctionsFor:
    """The references, but for some exercises, of which nothing is written, not even what their stubs give."""

    def of(identifier: str) -> Functions:
        if identifier not in exercises:
            return REFERENCE(identifier)
        exercise = COURSE.exercise(identifier)
        file = folder / exercise.stub
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = ["from __future__ import annotations", ""]
        for task in exercise.tasks:
            lines += [f"def {task.name}(*given):", "    raise NotImplementedError", ""]
        file.write_text("\n".join(lines), encoding="utf-8")
        return functions_for(identifier, str(folder))

    return of


# -- the table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", asking.QUESTIONS, ids=lambda q: f"{q.kind}-{q.function}")
def test_every_question_is_a_task_of_its_exercise(question: asking.Question) -> None:
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
    asked = [q.function for q in asking.QUESTIONS if q.kind == "timeline"]
    [part] = inputs.read(["torch_inference_improved"])
    spoke = [
        q.function for q in asking.QUESTIONS if q.kind == "timeline" and list(q.arguments(part))
    ]
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
    alone = asking.times_alone(part)
    rows = asking._kernel_spans(part)
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
    ],
)  # fmt: skip
def test_base_names(written: str, base: str) -> None:
    assert asking.base_name(written) == base


# -- ranks --------------------------------------------------------------------------------------------


def test_what_one_rank_would_gain_alone_is_not_said(tmp_path: Path) -> None:
    """Rank 1 of ddp_traces_late_data is late by its host; rank 0 would gain nothing by another host."""
    verdict = ask("ddp_traces_late_data")
    assert [finding.category for finding in verdict.findings] == ["rank_imbalance"]


def test_what_all_ranks_would_gain_is_said_with_the_least(tmp_path: Path) -> None:
    verdict = ask("ddp_traces_one_bucket_narrow")
    found = {finding.category: finding for finding in verdict.findings}
    least = min(
        ask(str(file)).findings[0].evidence["recoverable_ns"]
        for file in sorted(inputs.read(["ddp_traces_one_bucket_narrow"])[0].path.glob("trace_*"))
    )
    assert found["launch_bound"].evidence["recoverable_ns"] == least
    assert found["communication_bound"].subject == "rank:0"


def some_ranks(folder: Path, name: str, *ranks: int, world_size: int) -> list[str]:
    """The traces of ranks of a recorded job, which now say that it had more ranks."""
    out = []
    for rank in ranks:
        text = captures.text(captures.place(name) / f"trace_rank{rank}.json.gz", "trace.json")
        assert '"world_size": 2' in text
        file = folder / f"trace_rank{rank}.json"
        file.write_text(text.replace('"world_size": 2', f'"world_size": {world_size}'))
        out.append(str(file))
    return out


@pytest.mark.parametrize("name", ["ddp_traces_late_data", "ddp_traces_one_bucket_narrow"])
@pytest.mark.parametrize("as_folder", [False, True])
def test_of_some_ranks_each_is_judged_alone(tmp_path: Path, name: str, as_folder: bool) -> None:
    files = some_ranks(tmp_path, name, 0, 1, world_size=128)
    verdict = ask(str(tmp_path)) if as_folder else ask(*files)
    words = "there is no trace of ranks 2, 3, 4, 5, 6, … 127 (126 ranks) of 128"
    assert verdict.unanswered == {}, "nobody could answer"
    assert verdict.unjudged.endswith(words)
    assert verdict.findings[0].recommendation.endswith(words)
    alone = [ask(file).findings[0] for file in files]
    sick = {rank: one for rank, one in enumerate(alone) if one.category != "healthy"}
    found: dict[str, Finding] = {}
    for one in verdict.findings:
        found.setdefault(one.subject, one)  # the main one of each, and not what it leaves behind
    for rank, one in sick.items():
        assert found[f"rank:{rank}"].category == one.category
        assert found[f"rank:{rank}"].evidence == one.evidence
    assert sick
    assert len(found) == len(sick), "nothing is said of ranks that wait for each other"


@pytest.mark.parametrize(
    ("ranks", "size", "words"),
    [((0,), 2, "rank 1 of 2"), ((1,), 3, "ranks 0, 2 of 3"), ((0, 1), 8, "ranks 2, 3, 4, 5, 6, 7 of 8"),
     ((0, 1), 9, "ranks 2, 3, 4, 5, 6, … 8 (7 ranks) of 9")],
)  # fmt: skip
def test_ranks_that_are_not_there_are_named(
    tmp_path: Path, ranks: tuple[int, ...], size: int, words: str
) -> None:
    verdict = ask(*some_ranks(tmp_path, "ddp_traces_late_data", *ranks, world_size=size))
    assert verdict.unjudged.endswith(f"cannot be judged: there is no trace of {words}")
    assert verdict.unjudged in verdict.findings[0].recommendation


def test_ranks_that_recorded_other_collectives_are_judged_alone(tmp_path: Path) -> None:
    files = some_ranks(tmp_path, "ddp_traces_late_data", 0, 1, world_size=2)
    trace = json.loads(Path(files[1]).read_text(), parse_float=Decimal)
    last = max(
        (event for event in trace["traceEvents"] if event.get("name", "").startswith("ncclDev")),
        key=lambda event: event["ts"],
    )
    trace["traceEvents"].remove(last)
    Path(files[1]).write_text(json.dumps(trace, default=float))
    verdict = ask(*files)
    assert verdict.unanswered == {}, "no function is to be fixed"
    assert "communication kernels a rank {0: 18, 1: 17}" in verdict.unjudged
    assert verdict.unjudged in verdict.findings[0].recommendation
    assert {one.category for one in verdict.findings}.isdisjoint({"rank_imbalance", "healthy"})
    assert all(one.subject.startswith("rank:") for one in verdict.findings)


def test_traces_of_two_runs_are_no_job(tmp_path: Path) -> None:
    some_ranks(tmp_path, "ddp_traces_late_data", 0, world_size=2)
    some_ranks(tmp_path, "ddp_traces_late_data", 1, world_size=3)
    with pytest.raises(CaptureError, match="different runs"):
        ask(str(tmp_path))


def test_what_a_late_rank_does_is_said() -> None:
    verdict = ask("ddp_traces_late_data")
    assert verdict.findings[0].category == "rank_imbalance"
    late = verdict.by_rank[verdict.findings[0].subject]
    ratio = late.evidence["recoverable_ratio"]
    said = f"alone is {late.category} ({ratio:.0%} of its window)"
    assert verdict.findings[0].recommendation.endswith(said)
    assert late.category == "host_bound"


def test_a_whole_job_is_judged() -> None:
    for name in ("ddp_traces_late_data", "ddp_timeline_overlap", "two_streams", "torch_train_sync"):
        verdict = ask(name)
        assert verdict.unjudged == ""
        assert "judged" not in verdict.findings[0].recommendation


def changed_timeline(folder: Path, change: str) -> str:
    file = folder / "changed.sqlite"
    shutil.copy(captures.path("ddp_timeline_overlap"), file)
    with sqlite3.connect(file) as connection:
        connection.execute(change)
    return str(file)


def test_nobody_is_healthy_while_ranks_could_not_be_judged(tmp_path: Path) -> None:
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    collectives = (
        "shortName IN (SELECT id FROM StringIds WHERE value GLOB 'nccl*') AND deviceId = 1"
    )
    middle = (
        f"DELETE FROM {kernels} WHERE rowid = (SELECT rowid FROM {kernels} WHERE {collectives} "
        f"ORDER BY start LIMIT 1 OFFSET (SELECT COUNT(*) / 2 FROM {kernels} WHERE {collectives}))"
    )
    verdict = ask(changed_timeline(tmp_path, middle))
    assert verdict.findings[0].category == "healthy"
    assert "missing in between" in verdict.unjudged
    assert verdict.findings[0].recommendation == verdict.unjudged
    one_rank = ask(changed_timeline(tmp_path, f"DELETE FROM {kernels} WHERE deviceId = 1"))
    assert "no other one is in the recording" in one_rank.findings[0].recommendation
    todo = ask("ddp_timeline_overlap", functions=to_do(tmp_path, "nsys_ex04"))
    assert todo.findings[0].category == "healthy"
    assert "name_multi_gpu_bottleneck" in todo.findings[0].recommendation


def test_where_one_process_ran_nothing_is_said_of_ranks() -> None:
    def without(identifier: str) -> Functions:
        if identifier == "nsys_ex04":
            raise LabError("cannot be loaded")
        return REFERENCE(identifier)

    verdict = ask("two_streams", functions=without)
    assert "name_multi_gpu_bottleneck" in verdict.unanswered
    assert (verdict.unjudged, verdict.findings[0].recommendation) == ("", "none")
    assert "cannot be loaded" in ask("ddp_timeline_overlap", functions=without).unjudged


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
