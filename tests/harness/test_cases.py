"""The engine's verdict on a case stays closed until the learner's is written; what was recorded is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from profiling_lab import captures
from profiling_lab.cli import lab
from profiling_lab.course import cases
from profiling_lab.course.manifest import load

ROOT = Path(__file__).resolve().parents[2]
ASKED = {
    task.name.removeprefix("verdict_")
    for task in load(ROOT).exercise(cases.EXERCISE).tasks
    if task.name.startswith("verdict_")
}
CLOSED = [
    name
    for name in captures.names()
    if name.startswith(cases.CASE) and name.removeprefix(cases.CASE).rpartition("_")[0] in ASKED
]


def run(*words: str) -> Result:
    return CliRunner().invoke(lab, words, prog_name="lab")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner has a verdict on every case."""
    monkeypatch.setattr("profiling_lab.course.manifest.is_todo", lambda task, root: False)


def test_each_case_that_is_asked_about_is_closed() -> None:
    assert len(ASKED) == 10 and len(CLOSED) >= 10
    assert all(cases.open_task([captures.folder() / name]) for name in CLOSED)
    assert cases.open_task([captures.folder() / CLOSED[0] / "timeline.sqlite"])
    for other in ("case_power_a", "torch_inference_baseline"):
        assert cases.open_task([captures.folder() / other]) is None


def test_a_copy_of_ones_own_is_open(tmp_path: Path) -> None:
    (tmp_path / CLOSED[0]).mkdir()
    assert cases.open_task([tmp_path / CLOSED[0]]) is None


@pytest.mark.parametrize(
    "words", [("diagnose",), ("diagnose", "--json"), ("compare", "case_turn_a")]
)
def test_no_command_tells(words: tuple[str, ...]) -> None:
    told = run(*words, "case_turn_a")
    assert told.exit_code == 2
    assert "until yours is written: verdict_turn" in told.output
    assert "lab report case_turn_a" in told.output


def test_a_report_shows_the_recording_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    told = run("report", "case_turn_a", "--output", str(page))
    assert told.exit_code == 0 and "stays closed" in told.output
    text = page.read_text(encoding="utf-8")
    assert 'class="category"' not in text and "--variant" not in text


@pytest.mark.usefixtures("written")
def test_it_opens_with_the_learners_verdict(tmp_path: Path) -> None:
    assert run("diagnose", "case_turn_a").exit_code == 0
    assert "stays closed" not in run("report", "case_turn_a", "-o", str(tmp_path / "p.html")).output
