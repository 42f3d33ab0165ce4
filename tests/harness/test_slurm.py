"""The engine of a Slurm cluster: through submitit's local executor, and on a Slurm of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grading.grader.batches import batch, plans, reports, slurm, slurm_job, staging, store
from grading.grader.batches.engines import JudgeSpec
from grading.grader.batches.store import Store
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course
from profiling_lab.errors import LabError
from profiling_lab.mine.functions import load_file

pytestmark = [pytest.mark.proof, pytest.mark.needs("submitit")]  # it is the grader that uses it

ROOT = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).with_name("fake_judge.py")
fake = load_file(FAKE, "fake_judge")
one_node = load_file(Path(__file__).with_name("one_node_slurm.py"), "one_node_slurm")
EXERCISES = ("ex_33", "nsys_ex03")
LONG_S = 1800.0  # a guard against hangs


@pytest.fixture(scope="module")
def course() -> Course:
    return manifest.load(ROOT)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Jobs find the repository; other tests are about reports and likeness."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setattr(batch, "likeness", lambda *_: [])
    with fake.plain_reports():
        yield


class Engine(slurm.Slurm):
    """Quick to look, and whatever the machine, the environment is one."""

    def environment(self) -> dict[str, Any]:
        return {"python": "a fake one", "sandbox": "none"}


def engine_of(cluster: str, kind: type[slurm.Slurm] = Engine, **more: Any) -> Any:
    def make(course: Course, options: batch.Options, seed: int) -> slurm.Slurm:
        spec = JudgeSpec(str(course.root), "none", options.jobs, seed, opener=fake.OPENER)
        folder = options.out.resolve() / store.WORK / "slurm"
        quick = {"poll_s": 0.1, "settle_s": 1.0, **more}
        return kind(
            spec, folder, retries=options.retries, options=options.slurm, cluster=cluster, **quick
        )

    return make


def grade(course: Course, source: Path, out: Path, engine: Any, **more: Any) -> reports.Summary:
    options = batch.Options(source, out, exercises=EXERCISES, **{"jobs": 2, **more})
    return batch.grade(course, options, engine_of=engine)


def same_as_here(course: Course, source: Path, tmp_path: Path, seed: int) -> None:
    """The reports are those that this machine writes of the same class."""
    grade(course, source, tmp_path / "here", fake.fake_engine, seed=seed)
    here, there = (tmp_path / name / "gradebook.csv" for name in ("here", "out"))
    assert there.read_bytes() == here.read_bytes()


def test_the_same_results_as_on_one_machine(course: Course, tmp_path: Path) -> None:
    students = [f"s{number}" for number in range(5)]
    source = fake.write_class(tmp_path / "in", course, students, list(EXERCISES))
    summary = grade(course, source, tmp_path / "out", engine_of("local"), slurm={"units": "5"})
    assert (summary.judged, summary.kept) == (10, 10)
    same_as_here(course, source, tmp_path, summary.seed)
    assert not (tmp_path / "out" / store.WORK).exists()
    assert grade(course, source, tmp_path / "out", engine_of("local")).judged == 0


def test_a_killed_job_costs_one_attempt_of_what_it_had_begun(
    course: Course, tmp_path: Path
) -> None:
    once = f"# fake: dies-once {tmp_path / 'died'}"
    source = fake.write_class(tmp_path / "in", course, ["a", "b", "c"], list(EXERCISES), b=once)
    out = tmp_path / "out"
    engine = engine_of("local")
    summary = grade(course, source, out, engine, slurm={"units": "6", "cpus": "1"}, retries=1)
    assert (summary.judged, summary.kept, summary.infrastructure) == (6, 6, {})
    with Store(out, writing=False) as kept:
        plan = plans.kept_plan(course, kept)
        attempts = {(r.student, r.exercise): r.attempts for r in plans.results(plan, kept)}
    assert attempts.pop(("b", "ex_33")) == 2
    assert set(attempts.values()) == {1}
    same_as_here(course, source, tmp_path, summary.seed)


def test_a_job_that_always_dies_is_infrastructure_of_its_own(
    course: Course, tmp_path: Path
) -> None:
    lines = {"b": "# fake: dies-once /dev/null/never"}
    source = fake.write_class(tmp_path / "in", course, ["a", "b"], ["ex_33"], **lines)
    (tmp_path / "opener.py").write_text(
        f"import os, signal, sys\nsys.path.insert(0, {str(Path(fake.__file__).parent)!r})\n"
        "import fake_judge\n"
        "class Deadly(fake_judge.FakeJudge):\n"
        "    def grade(self, submission, exercise, key, *, environment=None):\n"
        "        if submission.student == 'b': os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().grade(submission, exercise, key)\n"
        "def open_deadly(spec): return Deadly(spec)\n"
    )

    def make(course: Course, options: batch.Options, seed: int) -> slurm.Slurm:
        engine = engine_of("local")(course, options, seed)
        opener = f"{tmp_path / 'opener.py'}:open_deadly"
        engine.spec = JudgeSpec(str(course.root), "none", 1, seed, opener=opener)
        return engine

    summary = grade(course, source, tmp_path / "out", make, slurm={"units": "9"}, retries=1)
    assert list(summary.infrastructure) == ["b ex_33"]
    assert "ended early" in summary.infrastructure["b ex_33"]
    assert summary.kept == 3  # two that nobody handed in need no judge


def test_what_jobs_wrote_after_their_grader_died_is_taken(course: Course, tmp_path: Path) -> None:
    source = fake.write_class(tmp_path / "in", course, ["a", "b"], list(EXERCISES))
    out = tmp_path / "out"
    summary = grade(course, source, out, fake.fake_engine)
    lines = (out / store.RESULTS).read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    (out / store.RESULTS).write_bytes(lines[0])
    left = out / store.WORK / "slurm" / "earlier"
    left.mkdir(parents=True)
    (left / "1.results.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:40])
    (left / "jobs.txt").write_text("4711\n")
    again = grade(course, source, out, engine_of("local"))
    assert (again.judged, again.kept, again.seed) == (1, 4, summary.seed)
    assert sorted((out / store.RESULTS).read_bytes().splitlines(keepends=True)) != []
    assert not left.exists()


def test_a_requeued_job_goes_on_where_it_was(course: Course, tmp_path: Path) -> None:
    source = fake.write_class(tmp_path / "in", course, ["a", "b"], list(EXERCISES))
    engine = engine_of("local")(course, batch.Options(source, tmp_path / "out"), 7)
    engine._make_folder()
    taken = staging.take_in(source, course, tmp_path / "staged", lambda text: None)
    chosen = [course.exercise(name) for name in EXERCISES]
    plan = plans.make_plan(course, chosen, taken, environment="", seed=7)
    spec = engine.run_folder / "1.json"
    chunk = slurm._Chunk(list(plan.units()), spec, spec.with_suffix(".results.jsonl"), 1)
    store.write_whole(spec, [json.dumps(slurm._pack(engine, chunk))])
    assert slurm.run_chunk(str(spec)) == 4
    lines = chunk.results.read_bytes().splitlines(keepends=True)
    chunk.results.write_bytes(b"".join(lines[:2]) + lines[2][:50])
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert slurm.run_chunk(str(spec)) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    found, _ = store.read_lines(chunk.results)
    assert sorted((r.student, r.exercise) for r in found) == sorted(
        (student, exercise) for student in "ab" for exercise in EXERCISES
    )


def test_another_environment_on_a_node_is_no_verdict(course: Course, tmp_path: Path) -> None:
    class Elsewhere(Engine):
        def environment(self) -> dict[str, Any]:
            self._facts = {"python": "another one"}
            return self._facts

    source = fake.write_class(tmp_path / "in", course, ["a"], list(EXERCISES))
    engine = engine_of("local", Elsewhere)
    summary = grade(course, source, tmp_path / "out", engine)
    assert len(summary.infrastructure) == 2
    assert "python: another one here, " in next(iter(summary.infrastructure.values()))


def test_a_node_tells_its_environment(course: Course, tmp_path: Path) -> None:
    options = batch.Options(tmp_path, tmp_path / "out")
    engine = engine_of("local", slurm.Slurm)(course, options, 7)
    facts = engine.environment()
    assert facts["sandbox"] == "none" and facts["packages"]["numpy"]


def test_stopped_jobs_are_ended_and_their_results_kept(course: Course, tmp_path: Path) -> None:
    lines = {"b": f"# fake: waits {tmp_path / 'never'}"}
    source = fake.write_class(tmp_path / "in", course, ["a", "b"], list(EXERCISES), **lines)
    staged = staging.take_in(source, course, tmp_path / "staged", lambda text: None)
    chosen = [course.exercise(name) for name in EXERCISES]
    plan = plans.make_plan(course, chosen, staged, environment="", seed=7)
    engine = engine_of("local")(course, batch.Options(source, tmp_path / "out", jobs=1), 7)
    engine.most_units = 9
    stop, kept = threading.Event(), []

    class Reporter:
        def started(self, unit: Any) -> None:
            pass

        def finished(self, unit: Any, result: Any) -> None:
            kept.append(unit.name)
            if len(kept) == 2:
                stop.set()

        def note(self, text: str) -> None:
            pass

    engine.run(plan.units(), Reporter(), stop)
    assert sorted(kept) == ["a ex_33", "a nsys_ex03"]


def test_options_are_read(course: Course, tmp_path: Path) -> None:
    make = engine_of("local")
    options = batch.Options(
        tmp_path, tmp_path, slurm={"cpus": "4", "minutes": "30", "partition": "gpu"}
    )
    engine = make(course, options, 1)
    assert (engine.cpus, engine.minutes, engine.sbatch) == (4, 30, {"partition": "gpu"})
    with pytest.raises(LabError, match="cpus=many: should be a whole number"):
        make(course, batch.Options(tmp_path, tmp_path, slurm={"cpus": "many"}), 1)


def test_without_slurm_it_says_so(course: Course, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="sbatch, squeue, scancel, srun not found; run grade on a"):
        engine_of("slurm")(course, batch.Options(tmp_path, tmp_path), 1)


# -- a real one -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Slurm of one node. Its folder's path is short: sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        with one_node.OneNodeSlurm(folder) as running:
            yield running
    except one_node.Unavailable as error:
        pytest.skip(f"a Slurm of this machine's own cannot be had: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def queued() -> list[str]:
    """Jobs that wait or run; what is completing has ended for us."""
    done = subprocess.run(
        ["squeue", "--noheader", "--array", "--states=PENDING,RUNNING", "--format=%i"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.slurm
def test_slurm_gives_the_same_results(course: Course, tmp_path: Path, cluster: Any) -> None:
    students = [f"s{number}" for number in range(4)]
    source = fake.write_class(tmp_path / "in", course, students, list(EXERCISES))
    engine = engine_of("slurm", slurm.Slurm, settle_s=5.0)
    options = {"partition": "cpu", "units": "3", "minutes": "1", "cpus": "1"}
    summary = grade(course, source, tmp_path / "out", engine, slurm=options)
    assert (summary.judged, summary.kept, summary.infrastructure) == (8, 8, {})
    assert summary.sandbox == "none"
    same_as_here(course, source, tmp_path, summary.seed)
    assert not (tmp_path / "out" / store.WORK).exists() and not queued()


@pytest.mark.slurm
def test_slurm_grader_killed_and_begun_again(course: Course, tmp_path: Path, cluster: Any) -> None:
    """Its jobs' results are taken, and the jobs that still run are ended."""
    lines = {"c": f"# fake: waits {tmp_path / 'never'}"}
    source = fake.write_class(tmp_path / "in", course, ["a", "b", "c"], list(EXERCISES), **lines)
    out, driver = tmp_path / "out", tmp_path / "driver.py"
    driver.write_text(
        f"import sys\nfrom pathlib import Path\nsys.path[:0] = [{str(ROOT)!r}, {str(FAKE.parent)!r}]\n"
        "import test_slurm as tests\nfrom grading.grader.batches import batch\nfrom profiling_lab.course import manifest\n"
        "batch.likeness = lambda *_: []\n"
        "with tests.fake.plain_reports():\n"
        f"    tests.grade(manifest.load(Path({str(ROOT)!r})), Path({str(source)!r}), Path({str(out)!r}),\n"
        "        tests.engine_of('slurm', poll_s=60.0), slurm={'units': '2', 'cpus': '1'})\n"
    )
    with subprocess.Popen([sys.executable, str(driver)], cwd=ROOT) as process:
        until = time.monotonic() + LONG_S
        written = []
        while len(written) < 4 and process.poll() is None and time.monotonic() < until:
            files = out.glob(f"{store.WORK}/slurm/*/*.results.jsonl")
            written = [result for file in files for result in store.read_lines(file)[0]]
            time.sleep(0.1)
        process.kill()
    assert len(written) == 4
    assert queued()
    source = fake.write_class(source, course, ["c"], list(EXERCISES))
    engine = engine_of("slurm")
    again = grade(course, source, out, engine, slurm={"cpus": "1"})
    assert (again.judged, again.kept) == (2, 6)
    same_as_here(course, source, tmp_path, again.seed)
    until = time.monotonic() + LONG_S
    while queued():  # a cancelled job has KillWait to end by itself
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.slurm
def test_slurm_refuses_in_words(course: Course, tmp_path: Path, cluster: Any) -> None:
    source = fake.write_class(tmp_path / "in", course, ["a"], list(EXERCISES))
    with pytest.raises(LabError, match=r"the cluster took no jobs: .*nvalid partition"):
        grade(course, source, tmp_path / "out", engine_of("slurm"), slurm={"partition": "none"})


# The last one: Slurm cleans up after a killed step for up to a minute (UnkillableStepTimeout).
@pytest.mark.slurm
def test_slurm_jobs_that_are_killed_are_tried_again(
    course: Course, tmp_path: Path, cluster: Any
) -> None:
    """One kills its own process, one is killed from outside with all that belongs to it."""
    lines = {
        "b": f"# fake: dies-once {tmp_path / 'died'}",
        "c": f"# fake: waits {tmp_path / 'go'}",
    }
    source = fake.write_class(tmp_path / "in", course, ["a", "b", "c"], list(EXERCISES), **lines)
    killed = []

    class Killing(Engine):
        def _collect(self, chunk: Any, reporter: Any) -> None:
            super()._collect(chunk, reporter)
            waits = {pair for pair in slurm_job.begun_by(chunk.results) if pair[0] == "c"}
            if waits and not killed:
                cluster.kill_jobs()
                killed.append(chunk.job.job_id)
                (tmp_path / "go").touch()

    engine = engine_of("slurm", Killing)
    options = {"units": "2", "minutes": "1", "cpus": "1"}
    summary = grade(course, source, tmp_path / "out", engine, slurm=options, jobs=3, retries=2)
    assert killed and (tmp_path / "died").exists()
    assert (summary.judged, summary.kept, summary.infrastructure) == (6, 6, {})
    same_as_here(course, source, tmp_path, summary.seed)
