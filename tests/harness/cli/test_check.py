"""`lab status`, `lab check` and `lab hint`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from profiling_lab.cli import checking
from profiling_lab.course import doctor, manifest, progress
from profiling_lab.course.progress import Verdict
from profiling_lab.errors import LabError
from tests.harness.cli.small_course import RIGHT_LENGTH, RIGHT_TOTAL, STUB, Lab, one_line

ROOT = Path(__file__).resolve().parents[3]


def test_status_says_where_and_what_next(small: Lab) -> None:
    result = small()
    assert result.exit_code == 0
    assert "0 of 9 points" in result.output
    assert "Next: mini.length" in result.output
    assert "lab hint mini.length" in result.output
    assert "This machine:" in result.output
    assert "\x1b" not in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())
    assert len(result.output.splitlines()) < 24


def test_what_is_not_installed_is_said_with_its_command(
    small: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "1 task needs torch, not installed here: uv sync --inexact --group frameworks"
    needy = (small.root / "course.toml").read_text().replace("nothing_has_it", "torch")
    (small.root / "course.toml").write_text(needy)
    monkeypatch.setattr(doctor, "capabilities", frozenset)
    for command in ([], ["submit"]):
        assert says in " ".join(small(*command).output.split())
    assert small("report", "--progress", "-o", "page.html").exit_code == 0
    page = (small.root / "page.html").read_text(encoding="utf-8")
    assert says in page
    links = [place for place in re.findall(r'href="([^"#]+)"', page) if ":" not in place]
    assert links and all((small.root / place).exists() for place in links), links
    passed = dict.fromkeys(manifest.load(small.root).tasks, Verdict("passed"))
    passed["mini.mini_cu"] = Verdict("not run")
    monkeypatch.setattr(progress, "verdicts", lambda course: passed)
    assert "All that runs here is done." in small().output
    assert says in " ".join(small("check").output.split())
    monkeypatch.setattr(doctor, "capabilities", lambda: frozenset({"torch"}))
    assert "not installed here" not in small().output


def test_status_works_in_a_subfolder(small: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.root / STUB.parent)
    assert "write   length in mini.py" in small().output


def test_status_goes_on_with_what_is_begun(small: Lab) -> None:
    small.solve("total", RIGHT_TOTAL)
    assert "Next: mini.total" in small().output
    small.pass_tasks("total")
    result = small()
    assert "3 of 9 points" in result.output
    assert "Next: mini.length" in result.output


def test_check_of_what_is_untouched_is_todo_and_no_success(
    small: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    assert small("check", "mini").exit_code == 1
    out = capfd.readouterr().out
    assert "todo" in out
    assert "0 of 5 points" in out
    small.solve("total", RIGHT_TOTAL)
    assert small("check", "mini").exit_code == 0, "what is still to do does not fail the rest"
    assert small("check", "mini.length").exit_code == 1


def test_check_runs_only_the_checks_of_its_task(
    small: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    small.solve("length", "    return 5\n")
    small.solve("total", RIGHT_TOTAL)
    assert small("check", "mini.length").exit_code == 1
    out = capfd.readouterr().out
    assert "expected 7 ns: the end minus the start" in out
    assert "total" not in out
    small.solve("length", RIGHT_LENGTH)
    small.solve("total", "    raise NotImplementedError\n")
    assert small("check", "length").exit_code == 0
    assert "Next: mini.total" in capfd.readouterr().out, "not only of what was checked"
    small.solve("total", RIGHT_TOTAL)
    assert small("check", str(STUB)).exit_code == 0
    assert progress.verdicts(small.course)["mini.total"].outcome == "passed"


def test_check_against_the_reference(small: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    assert small("check", "mini", "--against", "solutions").exit_code == 0
    assert "5 of 5 points" in capfd.readouterr().out
    assert progress.verdicts(small.course)["mini.length"].outcome == "todo"
    assert "no such folder" in one_line(small("check", "mini", "--against", "nowhere"))


def test_check_says_when_the_code_ends_the_process(small: Lab) -> None:
    small.solve("length", "    import os\n    os._exit(0)\n")
    assert "ended the whole process" in one_line(small("check", "mini.length"), code=1)


ON_CUDA = [task for task in manifest.load(ROOT).tasks.values() if task.is_cuda]


@pytest.mark.parametrize("task", [t for t in ON_CUDA if not t.live], ids=lambda task: task.id)
def test_the_marker_of_a_cuda_task_decides_on_it_and_on_no_other(
    task: manifest.Task, tmp_path: Path
) -> None:
    """Those of one file can be written and checked one after the other."""
    source = (ROOT / task.stub).read_text(encoding="utf-8")
    file = tmp_path / task.stub
    file.parent.mkdir(parents=True)
    file.write_text(source.replace(f"// TODO({task.id})", "// written"), encoding="utf-8")
    beside = [other for other in ON_CUDA if other.stub == task.stub]
    done = {other.id for other in beside if not manifest.is_todo(other, tmp_path)}
    live = {other.id for other in beside if other.live and other.name.startswith(task.name)}
    assert done == {task.id} | live
    file.write_text(source, encoding="utf-8")
    assert all(manifest.is_todo(other, tmp_path) for other in beside)


def test_check_with_a_bad_capture(small: Lab, tmp_path: Path) -> None:
    assert "no such file or capture" in one_line(small("check", "mini", "--capture", "nope"))
    file = tmp_path / "text.sqlite"
    file.write_text("not a database")
    assert str(file) in one_line(small("check", "mini", "--capture", str(file)))


@pytest.mark.parametrize(
    ("exercise", "capture", "said"),
    [
        ("ex_30", "ncu_shared", "holds no timeline.sqlite; it has"),
        ("ex_31", "torch_train_sync", "a capture of kind trace; ex_31 reads kernels"),
        ("ex_32", "ncu_shared", "a capture of kind kernels; ex_32 reads trace"),
        ("ex_34", "nope", "no such file or capture"),
    ],
)
def test_check_wants_a_capture_of_the_kind_that_an_exercise_reads(
    exercise: str, capture: str, said: str
) -> None:
    with pytest.raises(LabError, match=re.escape(said)):
        checking._own_capture(capture, manifest.load(ROOT).exercise(exercise))


@pytest.mark.parametrize(
    ("exercise", "capture", "place"),
    [
        ("ex_30", "two_streams", "two_streams/timeline.sqlite"),
        ("ex_31", "ncu_shared", "ncu_shared"),
        ("ex_32", "torch_train_sync", "torch_train_sync"),
        ("ex_33", "roofline_ops", "roofline_ops"),
        ("ex_34", "serving_sweep_eager", "serving_sweep_eager"),
    ],
)
def test_check_takes_captures_of_every_exercise(exercise: str, capture: str, place: str) -> None:
    found = checking._own_capture(capture, manifest.load(ROOT).exercise(exercise))
    assert found == ROOT / "captures" / place


def test_check_of_a_task_without_checks(small: Lab) -> None:
    assert "has no checks yet" in one_line(small("check", "mini.mini_cu"))


def test_hint_asks_first_and_grows_stronger(small: Lab) -> None:
    first = small("hint", "mini.length")
    assert first.exit_code == 0
    assert "What is left" in first.output
    assert "Subtract" not in first.output
    assert "run it again: uv run lab hint mini.length" in first.output
    second = small("hint", "mini.length")
    assert "Subtract" in second.output
    assert "That was all" in second.output
    assert "total" not in second.output
    assert json.loads(small.read(".lab/hints.json")) == {"mini.length": 2}


def test_hint_at_once_and_for_what_is_next(small: Lab) -> None:
    assert "Call `length`" in small("hint", "total", "--more").output
    assert "mini.length" in small("hint").output
    small.pass_tasks("length")
    small.solve("length", RIGHT_LENGTH)
    small.pass_tasks("length")
    assert "mini.total" in small("hint", "mini").output


def test_hint_without_a_section(small: Lab) -> None:
    assert "no section for mini.mini_cu" in one_line(small("hint", "mini.mini_cu"))
    (small.root / STUB.parent / "hints.md").unlink()
    assert "no hints there" in one_line(small("hint", "mini.length"))
