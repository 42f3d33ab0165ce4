"""A dirty export, and courses whose profilers are scripts."""

from __future__ import annotations

import stat
import sys
import textwrap
from pathlib import Path

import pytest

from profiling_lab.record import tools
from tests.harness.record.dirty_export import dirty_export
from tests.harness.record.fake_course import FAKE_NSYS, MEASURED, PROGRAM, WRITES, Course, fake_ncu


@pytest.fixture
def export(tmp_path) -> Path:
    file = tmp_path / "timeline.sqlite"
    dirty_export(file)
    return file


@pytest.fixture
def course(tmp_path, monkeypatch) -> Course:
    course = Course(tmp_path / "course")
    course.program.parent.mkdir(parents=True)
    course.nsys.parent.mkdir()
    course.program.write_text(PROGRAM)
    dirty_export(course.template)
    script = FAKE_NSYS.format(
        python=sys.executable, log=str(course.log), template=str(course.template)
    )
    course.nsys.write_text(script)
    course.nsys.chmod(course.nsys.stat().st_mode | stat.S_IXUSR)
    (course.captures / "captures.toml").write_text(
        textwrap.dedent(
            """\
            [defaults.nsys]
            options = ["--trace=cuda"]
            stats = ["cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum"]

            [first]
            program = "captures/programs/loop.py"
            args = ["one"]
            question = "How long?"

            [second]
            program = "captures/programs/loop.py"
            args = ["two"]
            report = true

            [large]
            program = "captures/programs/loop.py"
            needs = { gpus = 2 }
            """
        )
    )
    monkeypatch.setattr(tools, "WORK_FOLDER", tmp_path / "work")
    monkeypatch.setattr(
        tools,
        "machine",
        lambda: {"gpu": [{"name": "a GPU"}], "driver": "1", "cuda": {"driver": "13.0"}},
    )
    monkeypatch.setattr(tools, "clocks", list)
    monkeypatch.setenv("SECRET_TOKEN", "must not reach the profiler")
    return course


@pytest.fixture
def kinds(course) -> Course:
    """A course whose captures are made by ncu and by programs."""
    (course.captures / "programs" / "counted.py").write_text(MEASURED)
    (course.captures / "programs" / "writes.py").write_text("import helper\n" + WRITES)
    (course.captures / "programs" / "helper.py").write_text("")
    (course.captures / "captures.toml").write_text(
        textwrap.dedent(
            """\
            [defaults.ncu]
            options = ["--clock-control", "none"]

            [counted]
            tool = "ncu"
            program = "captures/programs/counted.py"
            options = ["--set", "full"]
            profiled_args = ["--once"]
            pages = ["kernels.csv", "source.csv"]
            source_of = "copy"
            report = true

            [written]
            tool = "program"
            program = "captures/programs/writes.py"
            sources = ["captures/programs/helper.py"]
            files = ["trace.json.gz", "memory.pickle"]
            """
        )
    )
    fake_ncu(course)
    return course
