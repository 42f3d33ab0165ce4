"""The workflow of GitHub Classroom."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grading.classroom import class_repo, github
from grading.runner.scoring import installed
from profiling_lab.course import manifest
from profiling_lab.errors import LabError
from tests.harness.classroom.small_course import SOLVED_LENGTH, git, solve

# It is instructors who hand out.
pytestmark = [pytest.mark.proof, pytest.mark.needs("tomlkit", "yaml")]

ROOT = Path(__file__).resolve().parents[3]


def fake_uv(folder: Path) -> dict[str, str]:
    """An environment whose `uv run … X` runs X with this Python; no network is asked."""
    folder.mkdir()
    tool = folder / "uv"
    tool.write_text(
        "#!/bin/bash\nset -e\n"
        '[ "$1" = sync ] && exit 0\n'
        'while [ "$1" != python ] && [ "$1" != pytest ]; do shift; done\n'
        f'[ "$1" = pytest ] && exec {sys.executable} -m "$@"\n'
        f'shift; exec {sys.executable} "$@"\n'
    )
    tool.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run_workflow(folder: Path, scratch: Path) -> tuple[dict, str, list[int]]:
    """Run the shell steps of the workflow as a runner would; what is reported, the page, the codes."""
    workflow = installed("yaml").safe_load((folder / github.WORKFLOW).read_text())
    (job,) = workflow["jobs"].values()
    files = {name: scratch / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    environment = fake_uv(scratch / "bin") | {"RUNNER_TEMP": str(scratch)}
    environment |= {name: str(file) for name, file in files.items()}
    codes = []
    for step in job["steps"]:
        if "run" in step:
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, check=False
            )
            codes.append(done.returncode)
    name, _, value = files["GITHUB_OUTPUT"].read_text().strip().partition("=")
    assert name == "result"
    return json.loads(base64.b64decode(value)), files["GITHUB_STEP_SUMMARY"].read_text(), codes


@pytest.mark.parametrize(
    ("body", "status", "earned", "codes"),
    [
        (SOLVED_LENGTH, "pass", 2, [0, 0, 0]),
        ("    import os\n    os._exit(0)\n", "fail", 0, [0, 0, 0]),
    ],
    ids=["right", "exit"],
)
def test_workflow_reports_the_points(
    built: Path, body: str, status: str, earned: int, codes: list[int], tmp_path: Path
) -> None:
    _, commit = github.write_workflow(built)
    assert commit == git(built, "rev-parse", "HEAD").strip()
    solve(built, body)
    result, page, seen = run_workflow(built, tmp_path)
    assert seen == codes
    score = json.loads((tmp_path / "score.json").read_text())
    assert result["status"] == status
    assert result["max_score"] == 14
    assert sum(test["score"] for test in result["tests"]) == earned == score["portable"]["earned"]
    assert f"## {earned} of 14 points" in page


def test_a_failed_check_fails_and_the_rest_counts(course: manifest.Course, tmp_path: Path) -> None:
    outcomes = {"mini.length": "passed", "mini.total": "failed", "mini.mini_cu": "not run"}
    tasks = {name: {"outcome": outcome} for name, outcome in outcomes.items()}
    (tmp_path / "score.json").write_text(json.dumps({"tasks": tasks}))
    result = github.points(course, tmp_path / "score.json")
    assert result["status"] == "fail"
    assert [test["score"] for test in result["tests"]] == [2, 0]
    assert "| mini | 2 of 9 points, 1 of 3 tasks |" in github.summary(result)


def test_no_score_file_is_an_error(course: manifest.Course, tmp_path: Path) -> None:
    for text in (None, "", "[]", '{"tasks": 3}'):
        file = tmp_path / "score.json"
        if text is not None:
            file.write_text(text)
        result = github.points(course, file)
        assert result["status"] == "error"
        assert sum(test["score"] for test in result["tests"]) == 0
        assert "did not come to their end" in github.summary(result)


def test_result_fits_an_environment_variable(tmp_path: Path) -> None:
    score = tmp_path / "score.json"
    course = manifest.load(ROOT)
    entries = {name: {"outcome": "passed"} for name in course.tasks}
    score.write_text(json.dumps({"tasks": entries}))
    result = github.points(course, score)
    portable = sum(exercise.points for exercise in course.exercises)
    assert sum(test["score"] for test in result["tests"]) == result["max_score"] == portable
    assert len(github.encoded(result)) < 100_000


def test_workflow_is_pinned_and_may_do_little() -> None:
    text = (class_repo.TEMPLATES / "classroom.yml").read_text(encoding="utf-8")
    workflow = installed("yaml").safe_load(text)
    (job,) = workflow["jobs"].values()
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name) for name in used), used
    assert set(workflow["permissions"].values()) == {"read"}
    reporter = job["steps"][-1]
    assert reporter["env"] == {"SCORE_RESULTS": "${{ steps.score.outputs.result }}"}
    assert reporter["with"] == {"runners": "score"}
    assert [step.get("id") for step in job["steps"]].count("score") == 1


def test_workflow_is_not_overwritten(built: Path, tmp_path: Path) -> None:
    github.write_workflow(built)
    github.write_workflow(built)
    (built / github.WORKFLOW).write_text("on: push\n")
    with pytest.raises(LabError, match="says something else"):
        github.write_workflow(built)
    with pytest.raises(LabError, match=r"no course\.toml"):
        github.write_workflow(tmp_path)
