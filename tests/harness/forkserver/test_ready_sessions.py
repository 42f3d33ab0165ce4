"""Sessions of the fork server that stand ready: forked for each job, and as new for each."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from grading.runner.forkserver import TIMED_OUT, ForkServer, Job
from tests.harness.forkserver.jobs import BARE, QUIET, needs_fork, template_of, write

pytestmark = pytest.mark.proof  # it is the proof that uses it

ROOT = Path(__file__).resolve().parents[3]
# These need this repository's plug-in: it is asked to go on with the options of the job.
PLAIN = [*QUIET, "--capture=sys", f"--rootdir={ROOT}", f"--config-file={ROOT / 'pyproject.toml'}"]


def ready_job(file: str, folder: Path, number: int, **more) -> Job:
    return Job([*PLAIN, file], cwd=folder, own=[f"--basetemp={folder / f'tmp{number}'}"], **more)


@needs_fork
def test_jobs_share_a_session_and_nothing_that_they_change(forking, tmp_path):
    file = write(
        tmp_path,
        """
        import os, pathlib, sys, tempfile
        read_by, seen = os.getpid(), []
        def test_a(tmp_path):
            seen.append(1)
            assert seen == [1] and not hasattr(sys, "lab_mark") and "X9" not in os.environ
            sys.lab_mark, os.environ["X9"] = 1, "1"
            assert os.getpid() != read_by and os.environ["MINE"] in str(tmp_path)
            assert tempfile.gettempdir() == os.getcwd() == os.environ["TMPDIR"]
            pathlib.Path("told_" + os.environ["MINE"]).write_text(f"{read_by} {os.getpid()}")
        """,
    )
    for number in (1, 2, 3):
        variables = {"MINE": f"tmp{number}", "TMPDIR": str(tmp_path)}
        result = forking.run(ready_job(file, tmp_path, number, env=variables))
        assert (result.exit_code, "1 passed" in result.output) == (0, True), result.output
    told = [(tmp_path / f"told_tmp{number}").read_text().split() for number in (1, 2, 3)]
    assert len({read_by for read_by, _ in told}) == 1
    assert len({ran_in for _, ran_in in told}) == 3


@needs_fork
def test_nothing_is_left_in_the_folder_for_temporary_files(tmp_path, monkeypatch):
    code = """
        from profiling_lab.captures import exports
        def test_a():
            (exports.scratch() / "export.sqlite").touch()
        """
    file, place = write(tmp_path, code), tmp_path / "place"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    with ForkServer() as server:
        results = [server.run(ready_job(file, tmp_path, 1)), server.run([*PLAIN, file])]
        assert [result.exit_code for result in results] == [0, 0], results
        assert [folder.name[:13] for folder in place.iterdir()] == ["lab-compiled-"]
    assert not list(place.iterdir())


@needs_fork
def test_workers_of_a_session_that_stands_ready_know_nothing_of_its_checks(forking, tmp_path):
    write(tmp_path, "import sys\ndef seen(): return sys.read_by", "code.py")
    file = write(
        tmp_path,
        f"""
        import os, sys
        from pathlib import Path
        from grading.runner import worker_processes
        from grading.runner.stubs import open_stub
        sys.read_by = os.getpid()
        def test_a():
            code = Path({str(tmp_path / "code.py")!r})
            stub = open_stub(code, module_name="code", isolated=True, functions=["seen"])
            try:
                stub.seen()
            except Exception as error:
                assert "read_by" in str(error)
            else:
                assert False, "a worker has read the checks"
            assert worker_processes._zygote.owner == os.getpid() != sys.read_by
            stub.close()
        """,
    )
    for number in (1, 2):
        job = ready_job(file, tmp_path, number)
        result = forking.run(replace(job, argv=[*job.argv, "--isolated"]))
        assert (result.exit_code, "1 passed" in result.output) == (0, True), result.output


@needs_fork
def test_a_session_that_cannot_stand_ready_is_no_reason_not_to_run(forking, tmp_path):
    broken = write(tmp_path, "import no_such_module_here", "test_broken.py")
    result = forking.run(ready_job(broken, tmp_path, 1))
    assert result.exit_code == 2
    assert "no_such_module_here" in result.output
    threaded = write(
        tmp_path,
        """
        import threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        def test_a(): pass
        """,
        "test_threaded.py",
    )
    result = forking.run(ready_job(threaded, tmp_path, 2))
    assert (result.exit_code, "1 passed" in result.output) == (0, True), result.output


@needs_fork
def test_a_session_sees_changed_checks_and_outlives_a_job_that_is_ended(forking, tmp_path):
    slow = write(tmp_path, "import time\ndef test_a(): time.sleep(60)")
    assert forking.run(ready_job(slow, tmp_path, 1, timeout_s=1.0)).exit_code == TIMED_OUT
    ready = list(template_of(forking)._ready.values())[-1]
    assert ready.stands()
    for value in range(3):
        file = write(tmp_path, f"def test_a(): assert {value} == 1")
        os.utime(file, ns=(value, value))
        code = forking.run(ready_job(file, tmp_path, 2)).exit_code
        assert code == (0 if value == 1 else 1)
    assert not ready.stands()


@needs_fork
def test_what_checks_compute_alike_is_computed_once(forking, tmp_path):
    file = write(
        tmp_path,
        """
        import os, pathlib, tempfile
        from grading.runner.computed_once import kept
        @kept
        def made(name, sizes=(1, 2)):
            with tempfile.TemporaryDirectory(), open("made", "a") as file:
                file.write(f"{os.getpid()}\\n")
            return [name, sizes]
        def test_a():
            for number in range(50):  # more than a socket would hold
                made(number)
            found = made("x", sizes=[3, 4])
            assert list(found[1]) == [3, 4] and len(found) == 2
            assert made("x", sizes=[3, 4]) is found
            found.append("mine")
        """,
    )
    for number in range(4):
        own = tmp_path / f"of_job_{number}"
        own.mkdir()
        result = forking.run(ready_job(file, tmp_path, number, env={"TMPDIR": str(own)}))
        assert result.exit_code == 0, result.output
        own.rmdir()
    assert (
        len((tmp_path / "made").read_text().split()) == 2 * 51
    )  # by the first job, by the session


@needs_fork
def test_an_option_that_nobody_knows_ends_the_job(forking, tmp_path):
    file = write(tmp_path, "def test_a(): pass")
    job = Job([*PLAIN, file], cwd=tmp_path, own=["--no-such-option=1"])
    assert forking.run(job).exit_code != 0


@needs_fork
@pytest.mark.parametrize("stands_ready", [False, True])
def test_a_changed_harness_is_seen_and_jobs_come_to_their_end(forking, tmp_path, stands_ready):
    file = write(
        tmp_path,
        """
        import os, time
        from pathlib import Path
        def test_a():
            Path("began").touch()
            while "WAITS" in os.environ and not Path("go_on").exists():
                time.sleep(0.01)
        """,
    )
    job = ready_job(file, tmp_path, 1) if stands_ready else Job([*BARE, file], cwd=tmp_path)
    results = []
    waiting = replace(job, env={"WAITS": "1"})
    thread = threading.Thread(target=lambda: results.append(forking.run(waiting)))
    thread.start()
    while not (tmp_path / "began").exists():
        time.sleep(0.01)
    template = template_of(forking)
    server = next(reversed(template._ready.values())) if stands_ready else template
    known = server.ready.result()
    assert any(name.endswith("grading/runner/stubs.py") for name in known)
    known[next(iter(known))] += 1  # as if the file had been saved since
    own = [f"--basetemp={tmp_path / 'tmp2'}"] if stands_ready else []
    assert forking.run(replace(job, own=own)).exit_code == 0
    assert (
        template_of(forking) is template if stands_ready else template_of(forking) is not template
    )
    assert server not in template._ready.values()
    (tmp_path / "go_on").touch()
    thread.join()
    assert [result.exit_code for result in results] == [0], results
