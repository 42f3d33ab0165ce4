"""The batch: nothing graded twice, nothing lost, nothing of one submission's doing stops the others."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grading.checks.fixtures import MOST_SEED
from grading.grader.batches import batch, engines, keys, plans, progress, reports, store
from grading.grader.batches.engines import Devices, JudgeSpec, Unit
from grading.grader.batches.output_folder import Busy, StoreError, holder
from grading.grader.batches.store import DiskError, Store
from grading.grader.intake.submissions import Submission
from grading.runner.results import Key, Result
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course
from profiling_lab.errors import LabError
from profiling_lab.mine.functions import load_file

pytestmark = pytest.mark.proof  # it is the grader's

fake = load_file(Path(__file__).with_name("fake_judge.py"), "fake_judge")
EXERCISES = ["ex_31", "nsys_ex02"]
KEY = Key("a", "b", "c", 1)


@pytest.fixture(scope="module")
def course() -> Course:
    return manifest.load(Path(__file__).resolve().parents[2])


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches by themselves: other tests are about reports and likeness."""
    monkeypatch.setattr(batch, "likeness", lambda *_: [])
    with fake.plain_reports():
        yield


def drawn(course: Course, student: str = "ada", key: Key = KEY) -> Result:
    submission = Submission(student, Path(), "")
    return fake.drawn(submission, course.exercise("nsys_ex02"), key)


def grade(course: Course, source: Path, out: Path, **more: object) -> reports.Summary:
    options = batch.Options(source, out, exercises=tuple(EXERCISES), **{"jobs": 2, **more})
    return batch.grade(course, options, engine_of=fake.fake_engine)


# -- the store --------------------------------------------------------------------------------------


def test_what_was_added_is_there_after_opening_again(course: Course, tmp_path: Path) -> None:
    result = drawn(course, "Zoë \udcff\u2028\x00")
    with Store(tmp_path) as kept:
        kept.add(result, drawn(course))
        assert kept.get(result.student, "nsys_ex02", KEY) == result
    with Store(tmp_path) as kept:
        assert kept.get(result.student, "nsys_ex02", KEY) == result
        assert kept.has("ada", "nsys_ex02", KEY) and not kept.notes


@pytest.mark.parametrize("field", ["submission", "checks", "environment", "seed"])
def test_another_key_is_another_result(course: Course, tmp_path: Path, field: str) -> None:
    with Store(tmp_path) as kept:
        kept.add(drawn(course))
        assert not kept.has("ada", "nsys_ex02", replace(KEY, **{field: 7}))


def test_the_key_tells_which_of_several_results_counts(course: Course, tmp_path: Path) -> None:
    other = replace(KEY, submission="later")
    with Store(tmp_path) as kept:
        kept.add(drawn(course), drawn(course, key=other))
        assert kept.get("ada", "nsys_ex02", KEY) == drawn(course)


@pytest.mark.parametrize("order", ["good first", "good last"])
def test_infrastructure_never_hides_a_verdict(course: Course, tmp_path: Path, order: str) -> None:
    good, bad = drawn(course), replace(drawn(course), infrastructure="no room")
    with Store(tmp_path) as kept:
        kept.add(bad)
        assert not kept.has("ada", "nsys_ex02", KEY)
        assert kept.get("ada", "nsys_ex02", KEY) == bad
        kept.add(*([good, bad] if order == "good first" else [good]))
        assert kept.get("ada", "nsys_ex02", KEY) == good


def test_a_torn_end_is_dropped_wherever_it_tore(course: Course, tmp_path: Path) -> None:
    with Store(tmp_path) as kept:
        kept.add(drawn(course), drawn(course, "ben"))
    whole = (tmp_path / store.RESULTS).read_bytes()
    first = whole.index(b"\n") + 1
    for end in (first + 1, first + (len(whole) - first) // 2, len(whole) - 1):
        for rest in (b"", bytes(100), bytes(50) + b"\n"):
            (tmp_path / store.RESULTS).write_bytes(whole[:end] + rest)
            with Store(tmp_path) as kept:
                assert len(kept) == 1 and kept.has("ada", "nsys_ex02", KEY)
                assert "torn off" in kept.notes[0]
                kept.add(drawn(course, "ben"))
            assert (tmp_path / store.RESULTS).read_bytes() == whole


def test_damage_in_the_middle_costs_that_line_only(course: Course, tmp_path: Path) -> None:
    with Store(tmp_path) as kept:
        kept.add(drawn(course), drawn(course, "ben"), drawn(course, "eve"))
    lines = (tmp_path / store.RESULTS).read_bytes().splitlines(keepends=True)
    lines[1] = b'{"format":1,"stud\n'
    (tmp_path / store.RESULTS).write_bytes(b"".join(lines))
    with Store(tmp_path) as kept:
        assert [kept.has(name, "nsys_ex02", KEY) for name in ("ada", "ben", "eve")] == [1, 0, 1]
        assert "line 2 cannot be read" in kept.notes[0]
        assert kept.get("eve", "nsys_ex02", KEY) == drawn(course, "eve")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"format": 9}', "line 1: a result of format 9, not 1"),
        ('{"format": 1}', "written by another version"),
        ("name;points", "line 1: not a result"),
    ],
)
def test_what_is_not_ours_is_refused_and_kept(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / store.RESULTS).write_text(line + "\n")
    with pytest.raises(StoreError, match=says):
        Store(tmp_path)
    assert (tmp_path / store.RESULTS).read_text() == line + "\n"


def test_a_full_disk_loses_nothing(course: Course, tmp_path: Path, monkeypatch) -> None:
    class Full:
        """A file on a disk that has room for half a line more."""

        def __init__(self, file) -> None:
            self.raw, self.fileno, self.close = file, file.fileno, file.close

        def write(self, data: bytes) -> None:
            os.write(self.fileno(), data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

    with Store(tmp_path) as kept:
        kept.add(drawn(course))
        before = kept.file.read_bytes()
        monkeypatch.setattr(kept, "_append", Full(kept._append))
        for student in ("ben", "eve"):
            with pytest.raises(DiskError, match=r"no space is left.*1 results before it are safe"):
                kept.add(drawn(course, student))
        assert kept.file.read_bytes() == before
    with Store(tmp_path) as kept:
        assert len(kept) == 1 and not kept.notes


def test_too_little_room_is_said_before_hours_of_work(tmp_path: Path) -> None:
    with Store(tmp_path) as kept, pytest.raises(StoreError, match=r"MB are free .* needs about"):
        kept.make_sure_of_room(results=10**12, students=1)


def test_two_graders_on_one_folder(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from grading.grader.batches.store import Store\n"
        "with Store(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(Busy, match=rf"another grader .*process {other.pid} on .*, since 20"):
            Store(tmp_path)
        assert f"process {other.pid} " in holder(tmp_path)
        other.kill()
        other.wait()
    assert holder(tmp_path) == ""
    with Store(tmp_path), pytest.raises(Busy):
        Store(tmp_path)
    with Store(tmp_path):
        pass


def test_only_reading_needs_no_lock_and_changes_nothing(course: Course, tmp_path: Path) -> None:
    with Store(tmp_path) as kept:
        kept.write_batch({})
        kept.add(drawn(course))
        with kept.file.open("ab") as file:
            file.write(b'{"format":1,')  # a line that is being written
        before = kept.file.read_bytes()
        with Store(tmp_path, writing=False) as reader:
            assert len(reader) == 1
        assert kept.file.read_bytes() == before
    with pytest.raises(StoreError, match="holds no graded batch"):
        Store(tmp_path / "other", writing=False)


# -- keys -------------------------------------------------------------------------------------------


def test_a_submission_s_hash_is_of_the_exercise_s_files(course: Course, tmp_path: Path) -> None:
    first, second = course.exercise("ex_31"), course.exercise("nsys_ex02")
    fake.write_class(tmp_path, course, ["ada"], EXERCISES)
    files = {str(stub): "submitted" for e in (first, second) for stub in e.stubs}
    ada = Submission("ada", tmp_path / "ada", "", files)
    before = [keys.submission_hash(ada, exercise) for exercise in (first, second)]
    renamed = replace(ada, student="ben")
    assert [keys.submission_hash(renamed, exercise) for exercise in (first, second)] == before
    (tmp_path / "ada" / first.stub).write_text("changed")
    assert keys.submission_hash(ada, first) != before[0]
    assert keys.submission_hash(ada, second) == before[1]
    refused = replace(ada, files=files | {str(second.stub): "refused: a link"})
    missing = replace(ada, files={})
    hashes = {keys.submission_hash(one, second) for one in (ada, refused, missing)}
    assert len(hashes) == 3


def test_what_judges_is_in_the_hash_of_checks(course: Course, tmp_path: Path) -> None:
    """A course of its own, in which one file after another changes."""
    stub = course.exercise("nsys_ex02").stub
    small = replace(course, root=tmp_path, exercises=(course.exercise("nsys_ex02"),))
    judging = [
        small.checks(stub),
        tmp_path / "grading" / "runner" / "stubs.py",
        tmp_path / "grading" / "checks" / "oracle.py",
        tmp_path / "profiling_lab" / "devices.toml",
        small.checks(stub).with_name("probes") / "beside.py",
        small.checks(stub).parents[1] / "probes" / "of_several.py",
        tmp_path / "captures" / "one" / "provenance.json",
        tmp_path / stub.parent / "given.cu",
        tmp_path / "cases" / "captures" / "secret" / "kernels.csv",
    ]
    others = [
        tmp_path / "grading" / "grader" / "batches" / "store.py",
        tmp_path / "grading" / "runner" / "__pycache__" / "stubs.pyc",
        tmp_path / "captures" / "one" / "README.md",
        small.checks(stub).parents[1] / "another" / "probes" / "beside.py",
        tmp_path / stub,
        tmp_path / stub.parent / "README.md",
    ]
    for file in judging + others:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("before")

    def now() -> str:
        return keys.Checks(small, tmp_path / "cases").of(small.exercises[0])

    for file in others:
        before = now()
        file.write_text("after")
        assert now() == before, file
    for file in judging:
        before = now()
        file.write_text("after")
        assert now() != before, file
    assert keys.Checks(small).of(small.exercises[0]) != now()


def test_the_judge_uses_nothing_that_is_left_out_of_the_hash() -> None:
    code = (
        "import sys, grading.grader.judge, grading.runner.plugin, grading.checks.fixtures\n"
        "print(*[m.replace('.', '/') for m in sys.modules if m.startswith('grading.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert not set(done.stdout.split()) & keys.NOT_JUDGING


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
