"""Batches: what is judged, again or not, and what is said of it; GPUs; progress."""

from __future__ import annotations

import io
import json
import threading
import time
from pathlib import Path

import pytest

from grading.checks.fixtures import MOST_SEED
from grading.grader.batches import batch, engines, keys, plans, progress, reports, store
from grading.grader.batches.engines import Devices, JudgeSpec, Unit
from grading.grader.batches.output_folder import StoreError
from grading.grader.batches.store import DiskError, Store
from grading.grader.intake.submissions import Submission
from grading.runner.results import Result
from profiling_lab.course.manifest import Course
from profiling_lab.errors import LabError
from tests.harness.batches.small_batches import EXERCISES, KEY, fake, grade

pytestmark = pytest.mark.proof  # it is the grader's


# -- batches ----------------------------------------------------------------------------------------


def test_a_second_run_judges_nothing_and_writes_the_same(course: Course, tmp_path: Path) -> None:
    source = fake.write_class(tmp_path / "in", course, ["ada", "ben", "eve"], EXERCISES)
    out = tmp_path / "out"
    first = grade(course, source, out)
    assert (first.judged, first.kept, first.units) == (6, 6, 6)
    before = {name: (out / name).read_bytes() for name in (store.RESULTS, store.PLAN)}
    gradebook = (out / "gradebook.csv").read_bytes()
    second = grade(course, source, out, seed=first.seed)
    assert (second.judged, second.kept) == (0, 6)
    assert {name: (out / name).read_bytes() for name in before} == before
    assert (out / "gradebook.csv").read_bytes() == gradebook
    assert not (out / store.WORK).exists()


def test_a_regrade_elsewhere_is_the_same(course: Course, tmp_path: Path) -> None:
    source = fake.write_class(tmp_path / "in", course, ["ada", "ben", "eve"], EXERCISES)
    first = grade(course, source, tmp_path / "one", jobs=1)
    second = grade(course, source, tmp_path / "two", jobs=3, seed=first.seed)
    assert first.seed == second.seed
    one, two = (tmp_path / name / "gradebook.csv" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_only_what_changed_is_judged(course: Course, tmp_path: Path) -> None:
    source = fake.write_class(tmp_path / "in", course, ["ada", "ben"], EXERCISES)
    grade(course, source, tmp_path / "out")
    (source / "ben" / course.exercise("ex_31").stub).write_text("# another try\n")
    fake.write_class(source, course, ["new"], EXERCISES)
    assert grade(course, source, tmp_path / "out").judged == 3
    other = batch.Options(source, tmp_path / "out", exercises=("ex_30", *EXERCISES))
    again = batch.grade(course, other, engine_of=fake.fake_engine)
    assert (again.judged, again.kept, again.units) == (0, 9, 9)  # nobody handed ex_30 in


def test_it_says_why_verdicts_do_not_hold_any_more(
    course: Course, tmp_path: Path, monkeypatch
) -> None:
    source = fake.write_class(tmp_path / "in", course, ["ada"], EXERCISES)
    options = batch.Options(source, tmp_path / "out", exercises=tuple(EXERCISES))

    def said() -> str:
        lines: list[str] = []
        batch.grade(course, options, engine_of=fake.fake_engine, say=lines.append)
        return "\n".join(lines)

    assert "since the last run" not in said()
    assert "since the last run" not in said()
    honest = keys.Checks.of
    monkeypatch.setattr(
        keys.Checks,
        "of",
        lambda self, e: honest(self, e)[:9] if e.id == "ex_31" else honest(self, e),
    )
    assert "have changed: ex_31: judged anew" in said()
    monkeypatch.setattr(
        fake.Quick, "environment", lambda self: {"python": "new", "sandbox": "none"}
    )
    assert "machine has changed (python: a fake one then, new now)" in said()


def test_it_says_first_what_cannot_be_judged_here(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = fake.write_class(tmp_path / "in", course, ["ada"], ["ex_34"])
    says = "2 tasks need torch, not installed here: uv sync --inexact --group frameworks; not run"
    for capabilities, is_said in (["linux"], True), (["linux", "torch"], False):
        facts = {"python": "a fake one", "sandbox": "none", "capabilities": capabilities}
        monkeypatch.setattr(fake.Quick, "environment", lambda self, facts=facts: facts)
        lines: list[str] = []
        options = batch.Options(source, tmp_path / "out", exercises=("ex_34",))
        batch.grade(course, options, engine_of=fake.fake_engine, say=lines.append)
        assert (says in "\n".join(lines)) is is_said


def test_a_withdrawn_change_brings_the_old_verdict_back(course: Course, tmp_path: Path) -> None:
    source = fake.write_class(tmp_path / "in", course, ["ada"], EXERCISES)
    grade(course, source, tmp_path / "out")
    before = (tmp_path / "out" / "gradebook.csv").read_bytes()
    file = source / "ada" / course.exercise("ex_31").stub
    text = file.read_text()
    for number in range(20):  # until a draw differs
        file.write_text(f"# try {number}\n")
        grade(course, source, tmp_path / "out")
        if (tmp_path / "out" / "gradebook.csv").read_bytes() != before:
            break
    else:
        pytest.fail("no draw differed")
    file.write_text(text)
    assert grade(course, source, tmp_path / "out").judged == 0
    assert (tmp_path / "out" / "gradebook.csv").read_bytes() == before


def test_nothing_handed_in_needs_no_judge(course: Course, tmp_path: Path) -> None:
    source = fake.write_class(tmp_path / "in", course, ["idle"], ["ex_30"])
    summary = grade(course, source, tmp_path / "out")
    assert (summary.judged, summary.kept) == (0, 2)
    assert set(summary.outcomes) == {"todo"}


def test_what_could_not_be_taken_is_an_error_of_the_submission(
    course: Course, tmp_path: Path
) -> None:
    source = fake.write_class(tmp_path / "in", course, ["ada"], EXERCISES)
    (source / "eve.zip").write_text("no archive")
    summary = grade(course, source, tmp_path / "out")
    assert (summary.judged, summary.kept) == (2, 4) and list(summary.refused) == ["eve"]
    with Store(tmp_path / "out", writing=False) as kept:
        plan = plans.kept_plan(course, kept)
        eves = [r for r in plans.results(plan, kept) if r.student == "eve"]
    for task in (task for result in eves for task in result.tasks.values()):
        assert (task.outcome, task.cause, task.earned) == ("error", "refused file", 0)
        assert task.checks[0].message == summary.refused["eve"]


def test_infrastructure_is_retried_then_kept_apart_then_tried_anew(
    course: Course, tmp_path: Path
) -> None:
    once = f"# fake: raises-once {tmp_path / 'once'}"
    source = fake.write_class(
        tmp_path / "in", course, ["ada", "ben"], ["ex_31"], ada=once, ben="# fake: raises"
    )
    out = tmp_path / "out"
    summary = grade(course, source, out, retries=1, jobs=1)
    assert list(summary.infrastructure) == ["ben ex_31"]
    assert "RuntimeError: the fake judge was told to" in summary.infrastructure["ben ex_31"]
    with Store(out, writing=False) as kept:
        plan = plans.kept_plan(course, kept)
        found = {(r.student, r.exercise): r for r in plans.results(plan, kept)}
    assert found["ada", "ex_31"].attempts == 2 and not found["ada", "ex_31"].infrastructure
    ben = found["ben", "ex_31"]
    assert ben.attempts == 2 and {t.outcome for t in ben.tasks.values()} == {"infrastructure"}
    assert grade(course, source, out, retries=0).judged == 1


def test_a_broken_machine_is_given_up_on(course: Course, tmp_path: Path) -> None:
    students = [f"s{number:02}" for number in range(20)]
    lines = dict.fromkeys(students, "# fake: infrastructure")
    source = fake.write_class(tmp_path / "in", course, students, ["ex_31"], **lines)
    with pytest.raises(engines.Broken, match="the last 8 exercises .* disk is full; fix that"):
        grade(course, source, tmp_path / "out", retries=0)


def test_again_says_what_has_another_verdict(course: Course, tmp_path: Path) -> None:
    source, out = (
        fake.write_class(tmp_path / "in", course, ["ada", "ben"], EXERCISES),
        tmp_path / "out",
    )
    assert grade(course, source, out).judged == 4
    same = grade(course, source, out, again=True)
    assert (same.judged, same.again, same.changed) == (4, 4, [])
    assert "judged again: 4 of 4 have the same verdict as before" in reports.in_words(same)
    lines = (out / store.RESULTS).read_text().splitlines(keepends=True)
    forged = [
        line.replace('"earned":', '"earned":1') if '"ben"' in line else line for line in lines
    ]
    (out / store.RESULTS).write_text("".join(forged))
    assert grade(course, source, out, again=True).changed == ["ben ex_31", "ben nsys_ex02"]


def test_one_student_at_a_time(course: Course, tmp_path: Path) -> None:
    source = fake.write_class(tmp_path / "in", course, ["ada", "ben"], EXERCISES)
    summary = grade(course, source, tmp_path / "out", students=("ben",))
    assert (summary.judged, summary.ungraded) == (2, 2)
    text = (tmp_path / "out" / "gradebook.csv").read_text()
    assert "not graded yet" in text and text.count("not graded yet") == text.count("ada,")
    with pytest.raises(LabError, match="zoe: no submission of that name"):
        grade(course, source, tmp_path / "out", students=("zoe",))


def test_what_is_left_out_is_as_in_the_last_run(course: Course, tmp_path: Path) -> None:
    """A dispute names a student and nothing else: policy, class list and exercises of the class must hold."""
    source, out = (
        fake.write_class(tmp_path / "in", course, ["ada", "ben"], EXERCISES),
        tmp_path / "out",
    )
    policy, people = tmp_path / "policy.toml", tmp_path / "class.csv"
    policy.write_text("[score]\ntotal = 10\n", "utf-8")
    people.write_text("name\nAda\nBen\nZoe\n", "utf-8")
    grade(course, source, out, policy=policy, roster=people)
    before = (out / "gradebook.csv").read_bytes()
    lines: list[str] = []
    asked = batch.Options(source, out, students=("ada",), again=True)
    summary = batch.grade(course, asked, engine_of=fake.fake_engine, say=lines.append)
    assert (summary.judged, summary.again, summary.exercises) == (2, 2, 2)
    assert (out / "gradebook.csv").read_bytes() == before
    exercises = " ".join(f"--exercise {name}" for name in EXERCISES)
    assert lines[0] == (
        f"as in the last run: {exercises} --policy {policy} --roster {people}; for all exercises: --exercise ."
    )
    every = batch.Options(source, out, exercises=(".",))
    assert batch.grade(course, every, engine_of=fake.fake_engine).exercises == len(course.exercises)


def test_bad_requests_are_refused_before_grading(course: Course, tmp_path: Path) -> None:
    source = fake.write_class(tmp_path / "in", course, ["ada"], EXERCISES)
    (tmp_path / "empty").mkdir()
    for where, out, more, says in [
        (tmp_path / "none", "out", {}, "no such folder or archive"),
        (tmp_path / "empty", "out", {}, "holds no submissions"),
        (source, "in/out", {}, "lies inside the submissions"),
        (source, "out", {"cases": tmp_path / "none"}, "no such folder of private cases"),
        (source, "out", {"policy": tmp_path / "none"}, "no such policy file"),
        (source, "out", {"roster": tmp_path / "none"}, "none"),
    ]:
        with pytest.raises(LabError, match=says):
            grade(course, where, tmp_path / out, **more)
    grade(course, source, tmp_path / "out", seed=3)
    assert batch.MOST_SEED == MOST_SEED
    with pytest.raises(LabError, match="was begun with seed 3, not 4"):
        grade(course, source, tmp_path / "out", seed=4)


def test_two_submissions_of_one_name_are_refused(course: Course) -> None:
    twice = [Submission("ada", Path(), ""), Submission("ada", Path(), "")]
    with pytest.raises(LabError, match="ada: handed in more than once"):
        plans.make_plan(course, [], twice, environment="", seed=1)


def test_exercises_by_id_or_folder(course: Course) -> None:
    week = plans.choose(course, ["week07"])
    assert [e.id for e in week] == [f"ex_3{n}" for n in range(5)]
    assert plans.choose(course, ["week07/", "ex_30"]) == week
    assert plans.choose(course, []) == list(course.exercises)
    with pytest.raises(LabError, match="did you mean ex_30"):
        plans.choose(course, ["ex30"])


def test_a_reporter_s_error_ends_the_engine(course: Course, tmp_path: Path) -> None:
    class Full:
        begun = 0

        def started(self, unit: Unit) -> None:
            self.begun += 1

        def finished(self, unit: Unit, result: Result) -> None:
            raise DiskError("full")

        def note(self, text: str) -> None:
            pass

    source = fake.write_class(tmp_path, course, [f"s{n}" for n in range(9)], ["ex_31"])
    exercise = course.exercise("ex_31")
    units = [Unit(Submission(p.name, p, ""), exercise, KEY) for p in sorted(source.iterdir())]
    reporter = Full()
    engine = engines.Local(JudgeSpec("", parallel=2, opener=fake.OPENER))
    with pytest.raises(DiskError):
        engine.run(units, reporter, threading.Event())
    assert reporter.begun <= 2


# -- GPUs -------------------------------------------------------------------------------------------


def test_a_device_has_one_user_at_a_time(tmp_path: Path) -> None:
    """Two leases of two processes' kind on two devices, eight users."""
    pools = [Devices(["GPU-a", "GPU-b"], tmp_path) for _ in range(2)]
    using: dict[str, int] = {"GPU-a": 0, "GPU-b": 0}
    most: list[int] = []
    mutex = threading.Lock()

    def use(number: int) -> None:
        with pools[number % 2].lease(1 if number % 3 else 2) as names:
            with mutex:
                for name in names:
                    using[name] += 1
                most.append(max(using.values()))
                assert len(names) == (1 if number % 3 else 2)
            time.sleep(0.01)
            with mutex:
                for name in names:
                    using[name] -= 1

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 8 and max(most) == 1 and not any(using.values())


def test_live_units_get_a_device_and_others_none(course: Course, tmp_path: Path) -> None:
    live, plain = course.exercise("ex_31"), course.exercise("nsys_ex02")
    assert engines.gpus_needed(live) == 1
    assert not engines.gpus_needed(plain)
    assert 2 in {engines.gpus_needed(exercise) for exercise in course.exercises}
    fake.write_class(tmp_path, course, ["ada"], EXERCISES)
    judge = fake.FakeJudge(JudgeSpec(""))
    engine = engines.Local(JudgeSpec("", live=True), devices=Devices(["GPU-a", "GPU-b"], tmp_path))
    for exercise in (live, plain):
        engine._once(judge, Unit(Submission("ada", tmp_path / "ada", ""), exercise, KEY))
    assert judge.environments == [{"CUDA_VISIBLE_DEVICES": "GPU-a"}, None]


def test_only_visible_devices_are_leased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,GPU-x")
    assert engines.visible_devices() == ["1", "GPU-x"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert engines.visible_devices() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert engines.visible_devices(lambda fields: [{"uuid": "GPU-y"}]) == ["GPU-y"]


# -- progress ---------------------------------------------------------------------------------------


def test_progress_counts_what_is_done_and_guesses_what_is_left() -> None:
    now = 0.0
    shown = progress.Progress({"ada": 2, "ben": 2, "eve": 0}, submissions=3, clock=lambda: now)
    assert shown.line() == "1 of 3 submissions, 0 of 4 exercises"
    shown.started("ada ex_30")
    shown.started("ben ex_30")
    now = 30.0
    shown.finished("ada ex_30", "ada", infrastructure=False)
    assert shown.line() == (
        "1 of 3 submissions, 1 of 4 exercises, 2 a minute, 2 min left, now ben ex_30"
    )
    shown.finished("ada ex_31", "ada", infrastructure=True)
    assert shown.line().startswith(
        "2 of 3 submissions, 2 of 4 exercises, 4 a minute, 30 s left, 1 "
    )
    now = 30.0 + progress.RATE_OVER_S + 1
    assert shown.per_minute() < 1
    assert [progress.duration(s) for s in (5, 700, 9000)] == ["5 s", "12 min", "2 h 30 min"]


def test_progress_is_told_soon_after_the_start_and_then_seldom(monkeypatch) -> None:
    asked: list[float] = []

    class Closing(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            asked.append(timeout or 0.0)
            return len(asked) > 8

    told = io.StringIO()
    shown = progress.Progress({"ada": 2}, submissions=1, stream=told)
    monkeypatch.setattr(shown, "_closing", Closing())
    shown.started("ada ex_30")
    with shown:
        pass
    assert asked[:2] == [1.0, 4.0] and asked[5:8] == [60.0] * 3 and sum(asked[:5]) == 60.0
    assert told.getvalue().count("0 of 2 exercises, now ada ex_30") == 8


def test_facts_of_a_batch_survive(course: Course, tmp_path: Path) -> None:
    source = fake.write_class(tmp_path / "in", course, ["ada"], EXERCISES)
    summary = grade(course, source, tmp_path / "out")
    facts = json.loads((tmp_path / "out" / store.BATCH).read_text())
    assert facts["seed"] == summary.seed and facts["options"]["exercises"] == EXERCISES
    (tmp_path / "out" / store.BATCH).write_text("{")
    with pytest.raises(StoreError, match=r"batch.json: cannot be read"):
        grade(course, source, tmp_path / "out")
