"""The pytest plugin on a small course of its own: what becomes of code that cannot be judged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof  # it is the same whatever it judges

ROOT = Path(__file__).resolve().parents[2]

COURSE = """
[course]
title = "Small"
[[exercises]]
id = "ex_1"
title = "One"
stub = "part/ex_1_one.py"
minutes = 1
difficulty = 1
skills = []
tasks = [
  { name = "double", title = "Twice", points = 2 },
  { name = "quadruple", title = "Four times", points = 3 },
  { name = "on_gpu", title = "On a GPU", points = 5, needs = ["no such machine"] },
]
"""
CONFIGURATION = """
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "-p", "grading.runner.plugin", "-p", "grading.checks.fixtures", "-p", "no:anyio"]
testpaths = ["tests"]
"""
CHECKS = """
from grading.checks import task

@task("ex_1.double")
def test_double(stub):
    assert stub.double(3) == 6, "double(3) is 6"

@task("ex_1.double")
def test_double_of_nothing(stub):
    assert stub.double(0) == 0

@task("ex_1.quadruple")
def test_quadruple(stub):
    assert stub.quadruple(3) == 12

@task("ex_1.on_gpu")
def test_on_gpu(stub):
    assert stub.on_gpu() == 1
"""
TODO = """
def double(x):
    \"\"\"Twice x.\"\"\"
    raise NotImplementedError

def quadruple(x):
    raise NotImplementedError

def on_gpu():
    return 1
"""
SOLVED = TODO.replace("raise NotImplementedError", "return 2 * x", 1).replace(
    "raise NotImplementedError", "return double(double(x))", 1
)


class Small:
    """The small course in a folder, and a run of its checks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stub = folder / "part" / "ex_1_one.py"
        self.write(
            {
                "course.toml": COURSE,
                "pyproject.toml": CONFIGURATION,
                "part/ex_1_one.py": TODO,
                "tests/part/test_ex_1_one.py": CHECKS,
            }
        )

    def write(self, files: dict[str, str]) -> None:
        """Put files in place, by their paths."""
        for path, text in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)

    def run(self, source: str | None, *arguments: str, cwd: Path | None = None):
        """Put a source in place, run pytest; the finished process and the score."""
        if source is not None:
            self.stub.write_text(source)
        score = self.folder / "score.json"
        score.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *arguments, f"--score-json={score}"],
            cwd=cwd or self.folder,
            # With CI set pytest repeats messages in its summary.
            env={k: v for k, v in os.environ.items() if k != "CI"} | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        tasks = json.loads(score.read_text())["tasks"] if score.exists() else {}
        return done, {name.split(".")[1]: task["outcome"] for name, task in tasks.items()}


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


def test_todo_and_not_run_are_no_failures_and_earn_nothing(small: Small) -> None:
    done, outcomes = small.run(None)
    assert done.returncode == 0, done.stdout
    assert outcomes == {"double": "todo", "quadruple": "todo", "on_gpu": "not run"}
    assert "0 of 5 points gradable here, 5 not run" in done.stdout
    assert "Next: ex_1.double" in done.stdout


def test_after_the_core_the_lesson_comes_before_further_tasks(small: Small) -> None:
    further = COURSE.replace("points = 3 }", "points = 3, further = true }")
    small.write({"course.toml": further})
    done, _ = small.run(None)
    assert "Core of ex_1 done" not in done.stdout
    done, _ = small.run(TODO.replace("raise NotImplementedError", "return 2 * x", 1))
    assert "Core of ex_1 done: read " in done.stdout
    assert "Next: ex_1.quadruple" in done.stdout


def test_the_core_of_all_exercises_comes_before_further_tasks(small: Small) -> None:
    one = COURSE.replace("points = 3 }", "points = 3, further = true }")
    two = one.partition("[[exercises]]")[2].replace("ex_1", "ex_2")
    small.write(
        {
            "course.toml": f"{one}[[exercises]]{two}",
            "part/ex_2_one.py": TODO,
            "tests/part/test_ex_2_one.py": CHECKS.replace("ex_1", "ex_2"),
        }
    )
    half = TODO.replace("raise NotImplementedError", "return 2 * x", 1)
    done, _ = small.run(half, "tests/part/test_ex_1_one.py")
    assert "Core of ex_1 done: read " in done.stdout
    assert "Next: ex_2.double" in done.stdout
    wrong = half.replace("raise NotImplementedError", "return 5", 1)
    done, _ = small.run(wrong, "tests/part/test_ex_1_one.py")
    assert "Next: ex_1.quadruple" in done.stdout, "it was begun"


def test_solved_earns_and_a_wrong_function_fails(small: Small) -> None:
    done, outcomes = small.run(SOLVED)
    assert done.returncode == 0, done.stdout
    assert outcomes["double"] == outcomes["quadruple"] == "passed"
    done, outcomes = small.run(SOLVED.replace("2 * x", "2 + x"))
    assert done.returncode == 1
    assert outcomes["double"] == "failed"
    assert "double(3) is 6" in done.stdout and "assert 5 == 6" not in done.stdout


IN_CASES = """
@task("ex_1.double")
@pytest.mark.parametrize("number", [1, 3, 5, 7])
def test_numbers(stub, number):
    if stub.double(number) != 2 * number:
        pytest.fail(f"double({number}) is {stub.double(number)}; expected {2 * number}", pytrace=False)


@task("ex_1.double")
@pytest.mark.parametrize("text", ["a", "b", "c"])
def test_texts(stub, text):
    words = "the last is another one" if text == "c" else f"double of {text!r} is not twice"
    assert stub.double(text) == 2 * text, words
"""


def test_cases_that_fail_alike_are_told_once(small: Small) -> None:
    checks = small.folder / "tests" / "part" / "test_ex_1_one.py"
    checks.write_text(f"import pytest\n{CHECKS}\n\n{IN_CASES}")
    done, outcomes = small.run(SOLVED.replace("return 2 * x", "return x", 1))
    assert done.returncode == 1 and outcomes["double"] == "failed"
    assert done.stdout.count("double(1) is 1; expected 2") == 1
    assert "double(5)" not in done.stdout
    assert "and in 3 further cases: 3, 5, 7" in done.stdout
    assert "and in 1 further case: b" in done.stdout
    assert "the last is another one" in done.stdout  # says something else
    score = json.loads((small.folder / "score.json").read_text())["tasks"]["ex_1.double"]["checks"]
    told = {check["name"]: (check["outcome"], check["message"]) for check in score}
    assert told["test_numbers[7]"] == ("failed", "double(7) is 7; expected 14")  # counted at all


def test_until_ends_with_the_first_failure_that_says_it(small: Small) -> None:
    checks = small.folder / "tests" / "part" / "test_ex_1_one.py"
    checks.write_text(f"import pytest\n{CHECKS}\n\n{IN_CASES}")
    wrong = SOLVED.replace("return 2 * x", "return x", 1)
    for until, last in (("expected 6", "test_numbers[3]"), ("nobody says so", "test_texts[c]")):
        done, _ = small.run(
            wrong, "-p", "grading.proof.plugin", "--until", until, "-k", "numbers or texts"
        )
        score = json.loads((small.folder / "score.json").read_text())["tasks"]["ex_1.double"]
        assert done.returncode == 1 and score["checks"][-1]["name"] == last, done.stdout


def test_one_crash_in_several_checks_is_told_once(small: Small) -> None:
    checks = small.folder / "tests" / "part" / "test_ex_1_one.py"
    checks.write_text(f"import pytest\n{CHECKS}\n\n{IN_CASES}")
    done, _ = small.run(SOLVED.replace("return 2 * x", "return {}[x]", 1))
    assert len(re.findall(r"^double\(\w+\) raised KeyError", done.stdout, re.MULTILINE)) == 1
    assert "test_texts[a]" in done.stdout  # by its name, below the first


ON_RECORDINGS = """
from grading.checks.fixtures import recordings


@task("ex_1.double")
@recordings("decode_eager", holding="provenance.json")
def test_double_of_a_recording(stub, recording):
    assert stub.double(3) == 6
"""


def test_a_check_is_not_run_on_a_capture_that_lacks_its_file(small: Small, tmp_path: Path) -> None:
    checks = small.folder / "tests/part/test_ex_1_one.py"
    checks.write_text(checks.read_text() + ON_RECORDINGS)
    own = tmp_path / "own"
    own.mkdir()
    (own / "trace.json").write_text("{}")
    done, outcomes = small.run(SOLVED, f"--recording={own}")
    assert (done.returncode, outcomes["double"]) == (0, "not run"), done.stdout
    (own / "provenance.json").write_text("{}")
    done, outcomes = small.run(SOLVED, f"--recording={own}")
    assert (done.returncode, outcomes["double"]) == (0, "passed"), done.stdout


def test_a_task_that_needs_a_todo_is_blocked(small: Small) -> None:
    source = TODO.replace(
        "def quadruple(x):\n    raise NotImplementedError",
        "def quadruple(x):\n    return double(double(x))",
    )
    done, outcomes = small.run(source)
    assert done.returncode == 0, done.stdout
    assert outcomes["quadruple"] == "blocked"


def test_another_not_implemented_error_is_a_failure(small: Small) -> None:
    done, outcomes = small.run(
        SOLVED.replace("return 2 * x", "x += 1\n    raise NotImplementedError")
    )
    assert done.returncode == 1
    assert outcomes["double"] == "failed"


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("def oops(:", "syntax error in line"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(0)", "SystemExit"),
    ],
)
def test_a_stub_that_cannot_be_imported_is_explained_once(
    small: Small, broken: str, words: str
) -> None:
    done, outcomes = small.run(SOLVED + "\n" + broken + "\n")
    assert done.returncode == 1, done.stdout
    assert outcomes["double"] == outcomes["quadruple"] == "failed"
    assert words in done.stdout
    assert done.stdout.count("cannot be imported") == 1
    assert "During handling" not in done.stdout


def test_a_stub_that_ends_the_process_is_named_by_the_next_run(small: Small) -> None:
    ending = SOLVED.replace("return 2 * x", "import os\n    os._exit(0)")
    done, outcomes = small.run(ending)
    assert not outcomes
    done, outcomes = small.run(None)
    assert done.returncode == 1, done.stdout
    assert outcomes["double"] == "failed"
    assert "the last run ended inside test_double" in done.stdout
    done, outcomes = small.run(SOLVED)
    assert done.returncode == 0, done.stdout
    assert outcomes["double"] == "passed"


def test_started_inside_an_exercise_folder_its_checks_run(small: Small) -> None:
    done, outcomes = small.run(SOLVED, cwd=small.folder / "part")
    assert done.returncode == 0, done.stdout
    assert outcomes["double"] == "passed"


def test_a_check_that_skips_itself_fails(small: Small) -> None:
    file = small.folder / "tests/part/test_ex_1_one.py"
    file.write_text(
        "import pytest\n" + CHECKS.replace("assert stub.quadruple(3) == 12", 'pytest.skip("no")')
    )
    done, outcomes = small.run(SOLVED)
    assert done.returncode == 1
    assert outcomes["quadruple"] == "failed"


def test_isolated_gives_the_same_verdicts(small: Small) -> None:
    _, outcomes = small.run(SOLVED.replace("2 * x", "2 + x"))
    done, isolated = small.run(None, "--isolated")
    assert isolated == outcomes, done.stdout


LIVE_CHECKS = """
from pathlib import Path

from grading.checks import task
from grading.checks.cuda import on_gpu

@task("ex_1.double")
def test_program(stub, tmp_path):
    on_gpu.run(Path("/bin/false"))

@task("ex_1.double")
def test_program_again(stub, tmp_path):
    on_gpu.run(Path("/bin/false"))

@task("ex_1.quadruple")
def test_times(stub, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\\necho ms soon\\necho checksum 7\\n")
    program.chmod(0o755)
    on_gpu.timed(program, "ms")
"""


def test_a_program_that_fails_is_a_failed_check_and_said_once(small: Small) -> None:
    (small.folder / "tests/part/test_ex_1_one.py").write_text(LIVE_CHECKS)
    done, outcomes = small.run(SOLVED, "-rN")
    assert outcomes["double"] == outcomes["quadruple"] == "failed"
    assert done.stdout.count("false ended with exit code 1") == 1, done.stdout
    assert "program printed ms soon, expected a time" in done.stdout
    assert "Traceback" not in done.stdout
    assert "LiveError" not in done.stdout


def test_an_archive_is_told_to_be_unpacked_first(small: Small) -> None:
    (small.folder / "ada.zip").write_bytes(b"PK")
    done, _ = small.run(TODO, "--against", "ada.zip")
    assert done.returncode == 4
    assert "unpack it first, as in unzip -q ada.zip -d unpacked" in done.stderr
