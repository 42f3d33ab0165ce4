"""A whole proof of the small course: what a learner does not run, and what runs in processes beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.test_plugin import CONFIGURATION, SOLVED, Small

pytestmark = pytest.mark.proof

PROOF = ("--against", "solutions", "-rA", "--partial")
HARNESS = """
import os
import pytest
from grading.runner.scoring import require

def test_where():
    print("in process", os.getpid())

@pytest.mark.parametrize("number", [1, 2])
def test_that_fails(number):
    assert number == 1, f"{number} is not 1"

def test_that_needs():
    require("torch_of_another_name")

@pytest.mark.skip(reason="not today")
def test_that_skips():
    pass
"""


@pytest.fixture
def small(tmp_path: Path) -> Small:
    course = Small(tmp_path)
    configuration = CONFIGURATION.replace('["tests"]', '["tests/part"]')
    configuration = configuration.replace('"no:anyio"', '"grading.proof.plugin", "-p", "no:anyio"')
    course.write(
        {
            "pyproject.toml": configuration,
            "solutions/part/ex_1_one.py": SOLVED,
            "tests/harness/test_course.py": HARNESS,
        }
    )
    return course


def test_what_a_learner_runs_is_their_work_and_the_proof_adds_the_harness(small: Small) -> None:
    def collected(*arguments: str) -> set[str]:
        done, _ = small.run(None, "--collect-only", *arguments)
        return {line for line in done.stdout.splitlines() if line.startswith("tests/")}

    mine, harness = collected(), collected("tests/harness")
    assert mine and all(line.startswith("tests/part/") for line in mine)
    assert len(harness) == 5
    assert collected("--against", "solutions") == mine | harness
    assert collected("--against", "solutions", "tests/part") == mine


def test_reports_of_other_processes_are_told_as_if_there_were_one(small: Small) -> None:
    done, outcomes = small.run(None, *PROOF)
    assert done.returncode == 1
    assert outcomes == {"double": "passed", "quadruple": "passed", "on_gpu": "not run"}
    summary = done.stdout.splitlines()[-1]
    assert "1 failed, 5 passed, 1 skipped, 2 not run" in summary, done.stdout
    assert "AssertionError: 2 is not 1" in done.stdout
    assert "SKIPPED [1] tests/harness/test_course.py" in done.stdout
    assert "in process" in done.stdout


def test_it_is_another_process_and_only_of_a_whole_proof(small: Small) -> None:
    (small.folder / "tests/harness/test_course.py").write_text(
        "import sys\n\ndef test_it():\n    assert '--reports-to' in sys.argv, sys.argv\n"
    )
    done, _ = small.run(None, *PROOF)
    assert done.returncode == 0, done.stdout
    done, _ = small.run(None, *PROOF, "tests/harness")
    assert done.returncode == 1


def test_a_process_that_ends_early_fails_the_proof(small: Small) -> None:
    (small.folder / "tests/harness/test_course.py").write_text(
        "import os\n\ndef test_first():\n    pass\n\ndef test_second():\n    os._exit(0)\n"
    )
    done, _ = small.run(None, *PROOF)
    assert done.returncode == 1
    assert "1 tests did not run beside the others" in done.stdout


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one such process")
def test_no_file_waits_behind_one_that_takes_long(small: Small, tmp_path: Path) -> None:
    done_by_others = tmp_path / "done"
    done_by_others.mkdir()
    takes_long = f"""
import time
from pathlib import Path

def test_it_ends_after_the_others():
    end = time.monotonic() + 300
    while len(list(Path({str(done_by_others)!r}).iterdir())) < 4:
        assert time.monotonic() < end
        time.sleep(0.05)
"""
    conftest = f"""
from pathlib import Path
import pytest

@pytest.fixture
def done(request):
    return Path({str(done_by_others)!r}) / request.path.name
"""
    other = "def test_it(done):\n    done.touch(exist_ok=False)\n"
    room = "tests/harness/room"
    small.write({f"{room}/test_other_{number}.py": other for number in range(4)})
    small.write({f"{room}/conftest.py": conftest})
    small.write({"tests/harness/test_course.py": takes_long})
    done, _ = small.run(None, *PROOF)
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout.splitlines()[-1]
