"""Without the groups: nothing breaks, what cannot run says what brings it, and a proof does not pass for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from profiling_lab import needs
from profiling_lab.cli.checking import selection
from profiling_lab.course import manifest
from profiling_lab.course.doctor import NEEDS
from profiling_lab.errors import LabError
from profiling_lab.mine.functions import load_file

ROOT = Path(__file__).resolve().parents[2]
COURSE = manifest.load(ROOT)
FRAMEWORKS = "uv sync --inexact --group frameworks"
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
# What is declared under another name than it is imported by.
PACKAGES = {
    "adbc_driver_manager": "adbc-driver-manager",
    "adbc_driver_sqlite": "adbc-driver-sqlite",
    "pynvml": "nvidia-ml-py",
    "skills_ref": "skills-ref",
    "nvcc": "nvidia-cuda-nvcc",
    "cosmic_ray": "cosmic-ray",
    "yaml": "pyyaml",
    "myst_parser": "myst-parser",
}
MACHINES = [
    ("linux", "x86_64"),
    ("linux", "aarch64"),
    ("darwin", "arm64"),
    ("darwin", "x86_64"),
    ("win32", "AMD64"),
]


# -- the table --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("platform", "architecture"), MACHINES)
def test_table_says_what_pyproject_declares(platform: str, architecture: str) -> None:
    here = {"sys_platform": platform, "platform_machine": architecture}
    for name in needs.GROUPS:
        found = {
            group
            for group, entries in DECLARED.items()
            for entry in entries
            if isinstance(entry, str)
            and (requirement := Requirement(entry)).name == PACKAGES.get(name, name)
            and (requirement.marker is None or requirement.marker.evaluate(here))
        }
        assert found == {needs.group(name, platform, architecture)} - {""}, name


def test_manifest_asks_for_nothing_that_the_doctor_does_not_know() -> None:
    asked = {need for task in COURSE.tasks.values() for need in task.needs}
    assert asked <= NEEDS


@pytest.mark.parametrize(
    ("missing", "platform", "says"),
    [
        (["torch"], "linux", FRAMEWORKS),
        (["jax", "torch", "triton"], "linux", FRAMEWORKS),
        (["nvcc", "torch"], "linux", "uv sync --inexact --group cuda --group frameworks"),
        (["matplotlib"], "win32", "uv sync --inexact --group notebooks"),
        (["cxx"], "darwin", "xcode-select --install"),
        (["cxx", "nvcc"], "linux", f"uv sync --inexact --group cuda, and {needs.CXX['linux']}"),
        (["triton"], "darwin", ""),
        (["cxx", "nvcc"], "win32", ""),
        (["gpu", "torch"], "linux", ""),
        (["references"], "linux", ""),
    ],
)
def test_one_command_brings_all_that_is_missing(
    missing: list[str], platform: str, says: str
) -> None:
    architecture = {"linux": "x86_64", "darwin": "arm64", "win32": "AMD64"}[platform]
    assert needs.remedy(missing, platform, architecture) == says


@pytest.mark.parametrize("identifier", [exercise.id for exercise in COURSE.exercises])
def test_lesson_names_what_its_tasks_need(identifier: str) -> None:
    exercise = COURSE.exercise(identifier)
    asked = {need for task in exercise.tasks if not task.live for need in task.needs}
    head = COURSE.lesson(exercise).read_text(encoding="utf-8").partition("\n## 1. ")[0]
    for group in {needs.GROUPS[need] for need in asked & set(needs.GROUPS)}:
        assert f"`{needs.install([group])}`" in head


@pytest.mark.parametrize("notebook", sorted(ROOT.glob("*/*/lesson.ipynb")), ids=str)
def test_notebook_says_how_to_run_it(notebook: Path) -> None:
    first = json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]
    command = f"uv run --group notebooks jupyter lab {notebook.relative_to(ROOT).as_posix()}"
    assert f"`{command}`" in "".join(first["source"])


def test_missing_module_names_its_command() -> None:
    error = ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib.pyplot")
    said = "matplotlib is not installed: uv sync --inexact --group notebooks"
    assert needs.explain(error) == said
    assert needs.explain(ModuleNotFoundError("No module named 'x'", name="x")) == ""
    said = needs.explained("ModuleNotFoundError: No module named 'torch'")
    assert said == f"ModuleNotFoundError: No module named 'torch': {FRAMEWORKS}"
    assert needs.explained("No module named 'torch2'") == "No module named 'torch2'"
    with pytest.raises(ModuleNotFoundError):
        needs.module("no_such_module_anywhere")


# -- in an environment without groups ---------------------------------------------------------------


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess]:
    """Runs that environment's Python with arguments, in the course's root."""
    made = load_file(Path(__file__).with_name("light.py"), "light")
    python = made.make(tmp_path_factory.mktemp("light") / "environment", made.distributions())
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}

    def run(*arguments: object, cwd: Path = ROOT) -> subprocess.CompletedProcess:
        command = [str(each) for each in (python, *arguments)]
        # Nothing of the learner's own state is read or written: their verdicts stay.
        return subprocess.run(
            command, cwd=cwd, env=clean, capture_output=True, encoding="utf-8", check=False
        )

    return run


@pytest.mark.skipif(sys.platform == "win32", reason="links to folders need rights there")
@pytest.mark.proof
class TestWithoutGroups:
    def test_it_is_light(self, light: Callable) -> None:
        heavy = ["torch", "triton", "jax", "matplotlib", "nbformat", "tomlkit", "yaml", "submitit"]
        asked = f"import importlib.util as u; print([n for n in {heavy} if u.find_spec(n)])"
        assert light("-c", asked).stdout.strip() == "[]"

    def test_everything_is_collected(self, light: Callable) -> None:
        done = light("-m", "pytest", "--collect-only", "-q", "--against", "solutions", "--partial")
        assert done.returncode == 0, done.stdout[-3000:]

    def test_proof_that_leaves_something_out_fails(self, light: Callable, tmp_path: Path) -> None:
        score = tmp_path / "score.json"
        tasks = [COURSE.tasks[f"ex_32.{name}"] for name in ("profile_steps", "operator_table")]
        proof = ["-m", "pytest", "-q", *selection(COURSE, tasks)]
        proof += ["--against", "solutions", "--score-json", score]
        done = light(*proof)
        assert done.returncode == 1, done.stdout
        assert "Not proved" in done.stdout
        outcomes = {
            name: task["outcome"] for name, task in json.loads(score.read_text())["tasks"].items()
        }
        assert outcomes["ex_32.profile_steps"] == "not run"
        assert outcomes["ex_32.operator_table"] == "passed"
        tail = done.stdout[done.stdout.index("Not run: 1 task, for want of torch") :]
        assert FRAMEWORKS in tail
        assert "not run" in done.stdout.splitlines()[-1]
        done = light(*proof, "--partial")
        assert done.returncode == 0 and "Not proved" not in done.stdout
        assert "Not run: 1 task, for want of torch" in done.stdout

    def test_lab_check_says_what_brings_it(self, light: Callable) -> None:
        lab = "from profiling_lab.cli import main; main()"
        check = ["check", "ex_32.profile_steps", "--against", "solutions"]
        done = light("-c", lab, *check)
        assert done.returncode == 0, done.stdout
        assert f"which this machine lacks: {FRAMEWORKS}" in " ".join(done.stdout.split())

    def test_stub_that_imports_what_is_missing_is_told(self, light: Callable) -> None:
        program = (
            "from pathlib import Path\n"
            "from grading.runner.stubs import open_stub\n"
            "source = Path('solutions/week07/day3_pytorch_profiler/model_optimized.py')\n"
            "stub = open_stub(source, module_name='learner', isolated=False)\n"
            "try:\n    stub.optimized_model(1)\nexcept Exception as error:\n    print(error)\n"
        )
        assert f"No module named 'torch': {FRAMEWORKS}" in light("-c", program).stdout

    def test_failure_for_want_of_a_group_is_not_run(self, light: Callable) -> None:
        program = (
            "from grading.runner.scoring import NotGraded, require_for\n"
            "require_for(\"No module named 'nonsense'\")\n"
            "try:\n    require_for(\"line 3: No module named 'torch.nn'\")\n"
            "except NotGraded as error:\n    print(error, error.missing)\n"
        )
        assert f"lacks: {FRAMEWORKS} frozenset({{'torch'}})" in light("-c", program).stdout

    def test_doctor_says_what_brings_it(self, light: Callable) -> None:
        done = light("-c", "from profiling_lab.cli import main; main()", "doctor", "--json")
        items = {item["name"]: item for item in json.loads(done.stdout)}
        assert FRAMEWORKS in items["torch"]["do"] and items["torch"]["state"] == "missing"
        assert "uv sync --inexact --group notebooks" in items["notebooks"]["do"]


def test_plot_without_matplotlib_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from profiling_lab import roofline  # with numpy, which the other tests do without

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(LabError, match="matplotlib is not installed: uv sync --inexact --group"):
        roofline.figure([], [])
