"""The fork server: each job is a pytest run of its own, whatever the job before it did."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from grading.runner.forkserver import POLARS_THREADS, TIMED_OUT, ForkServer, Job
from tests.harness.forkserver.jobs import BARE, forks, needs_fork, template_of, write

pytestmark = pytest.mark.proof  # it is the proof that uses it


@pytest.fixture(params=["fork", "subprocess"])
def server(request, forking):
    if request.param == "subprocess":
        with ForkServer(mode="subprocess") as other:
            yield other
    elif forks:
        yield forking
    else:
        pytest.skip("the fork server forks on Linux only")


def test_exit_codes_and_output(server, tmp_path):
    good = write(tmp_path, "def test_a(): pass", "test_good.py")
    bad = write(tmp_path, "import os\ndef test_a():\n    os.write(2, b'here')\n    assert 1 == 2")
    result = server.run([*BARE, good])
    assert (result.exit_code, "1 passed" in result.output) == (0, True)
    assert result.seconds > 0
    result = server.run([*BARE, bad])
    assert result.exit_code == 1
    assert "assert 1 == 2" in result.output
    assert "here" in result.output
    assert server.run([*BARE, str(tmp_path / "none.py")]).exit_code == 4


def test_folder_and_environment(server, tmp_path):
    write(
        tmp_path,
        """
        import os
        def test_a():
            assert os.path.samefile(os.getcwd(), os.environ["LAB_FOLDER"])
            assert "LAB_GONE" not in os.environ
        """,
    )
    os.environ["LAB_GONE"] = "1"
    try:
        result = server.run(
            [*BARE, "test_it.py"],
            cwd=tmp_path,
            env={"LAB_FOLDER": str(tmp_path), "LAB_GONE": None},
        )
    finally:
        del os.environ["LAB_GONE"]
    assert result.exit_code == 0, result.output


def test_the_end_of_a_child_is_its_exit_code(server, tmp_path):
    file = write(
        tmp_path,
        """
        import os
        def test_exit(): os._exit(7)
        def test_killed(): os.kill(os.getpid(), 9)
        """,
    )
    assert server.run([*BARE, f"{file}::test_exit"]).exit_code == 7
    assert server.run([*BARE, f"{file}::test_killed"]).exit_code == -9
    good = write(tmp_path, "def test_a(): pass", "test_good.py")
    assert server.run([*BARE, good]).exit_code == 0


def test_a_job_that_takes_too_long_is_ended_with_what_it_started(server, tmp_path):
    file = write(
        tmp_path,
        """
        import subprocess, sys, time, pathlib
        def test_a():
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            pathlib.Path("pid").write_text(str(child.pid))
            while True: time.sleep(1)
        """,
    )
    for enough_s in (1.5, 6.0, 60.0, 600.0):  # the longer ones on a machine that is busy
        assert server.run([*BARE, file], cwd=tmp_path, timeout_s=enough_s).exit_code == TIMED_OUT
        if (tmp_path / "pid").exists():
            break
    state = Path("/proc") / (tmp_path / "pid").read_text() / "stat"
    for _ in range(3000):
        if not state.exists() or " Z " in state.read_text():
            return
        time.sleep(0.02)
    pytest.fail("what the job started still runs")


def test_a_changed_file_is_seen(server, tmp_path):
    for value in range(3):
        file = write(tmp_path, f"def test_a(): assert {value} == 1")
        write(tmp_path, f"value = {value}", "beside.py")
        assert server.run([*BARE, file]).exit_code == (0 if value == 1 else 1)


def test_jobs_run_side_by_side_and_keep_their_order(server, tmp_path):
    file = write(
        tmp_path,
        """
        import os, pathlib, time
        def test_a():
            mine, other = os.environ["MINE"], os.environ["OTHER"]
            pathlib.Path(mine).touch()
            for _ in range(1000):
                if pathlib.Path(other).exists(): break
                time.sleep(0.02)
            else:
                raise AssertionError("the other job does not run")
            print(mine)
        """,
    )
    jobs = [
        Job([*BARE, "-s", file], cwd=tmp_path, env={"MINE": mine, "OTHER": other})
        for mine, other in (("a", "b"), ("b", "a"))
    ]
    results = server.run_all(jobs)
    assert [result.exit_code for result in results] == [0, 0]
    assert [result.output.strip()[0] for result in results] == ["a", "b"]
    assert {key for key, _ in server.run_as_completed(dict(enumerate(jobs)))} == {0, 1}


def test_polars_works_in_the_children(server, tmp_path):
    file = write(
        tmp_path,
        f"""
        import polars as pl
        def test_a():
            frame = pl.DataFrame({{"a": range(100_000), "b": [i % 7 for i in range(100_000)]}})
            sums = frame.lazy().group_by("b").agg(pl.col("a").sum()).collect()
            assert sums["a"].sum() == sum(range(100_000))
            assert pl.thread_pool_size() == {POLARS_THREADS}
        """,
    )
    for result in server.run_all([Job([*BARE, file])] * 4):
        assert result.exit_code == 0, result.output


@needs_fork
def test_the_template_has_no_thread_that_could_hold_a_lock(forking, tmp_path):
    forking.run([*BARE, write(tmp_path, "def test_a(): pass")])
    tasks = Path(f"/proc/{template_of(forking).process.pid}/task")
    names = sorted((task / "comm").read_text().strip() for task in tasks.iterdir())
    assert [name for name in names if not name.startswith(("python", "polars-ooc"))] == []
    assert len(names) <= 2


@needs_fork
def test_a_job_has_the_modules_that_it_names_and_no_others(forking, tmp_path):
    file = write(
        tmp_path,
        """
        import os, sys
        def test_a():
            for name in ("torch", "jax", "triton", "wave"):
                assert (name in sys.modules) == (name == os.environ["WANTED"]), name
        """,
    )
    for wanted in ("wave", "", "wave"):
        preload = (wanted,) if wanted else ()
        result = forking.run(Job([*BARE, file], env={"WANTED": wanted}, preload=preload))
        assert result.exit_code == 0, result.output


@needs_fork
def test_a_job_leaves_no_trace_in_the_next(forking, tmp_path):
    first = write(
        tmp_path, "import sys, os\ndef test_a(): sys.lab_mark = 1; os.environ['X9'] = '1'"
    )
    second = write(
        tmp_path,
        "import sys, os\ndef test_a(): assert not hasattr(sys, 'lab_mark') and 'X9' not in os.environ",
        "test_second.py",
    )
    assert forking.run([*BARE, first]).exit_code == 0
    assert forking.run([*BARE, second]).exit_code == 0


@needs_fork
def test_a_template_that_has_died_is_replaced(forking, tmp_path):
    file = write(tmp_path, "def test_a(): pass")
    forking.run([*BARE, file])
    process = template_of(forking).process
    process.kill()
    process.wait()
    assert forking.run([*BARE, file]).exit_code == 0
    assert template_of(forking).process.pid != process.pid


@needs_fork
def test_a_template_that_dies_during_a_job_is_an_error(forking, tmp_path):
    file = write(tmp_path, "import time\ndef test_a(): time.sleep(30)")
    forking.start()
    timer = threading.Timer(0.5, template_of(forking).process.kill)
    timer.start()
    with pytest.raises(RuntimeError, match="the fork server has ended"):
        forking.run([*BARE, file])
    timer.join()


@needs_fork
def test_closing_ends_the_template(tmp_path):
    server = ForkServer()
    server.run([*BARE, write(tmp_path, "def test_a(): pass")])
    process = template_of(server).process
    server.close()
    assert process.poll() == 0


@needs_fork
def test_an_absent_module_is_left_out(tmp_path):
    with ForkServer(preload=["no_such_module_here"]) as server:
        assert server.run([*BARE, write(tmp_path, "def test_a(): pass")]).exit_code == 0


@needs_fork
def test_a_broken_module_says_so(tmp_path, monkeypatch):
    write(tmp_path, "raise ValueError('broken')", "lab_broken.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ended = pytest.raises(RuntimeError, match="the fork server has ended")
    with ForkServer(preload=["lab_broken"]) as server, ended:
        server.run([*BARE])
