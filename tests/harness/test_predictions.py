"""`lab predict`: what is asked was measured, the first answer counts, and the plot and its words are true."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from profiling_lab import captures
from profiling_lab.cli import lab
from profiling_lab.course import lab_folder, predictions
from profiling_lab.course.manifest import load
from profiling_lab.course.predictions import CHANGES, Outcome
from profiling_lab.course.progress import Verdict
from profiling_lab.reports.progress import render_progress

ROOT = Path(__file__).resolve().parents[2]
# From the recordings, in other ways than the library's.
EXPECTED = {
    "inference": 1 - 34.1 / 306.4,
    "log": 1 - 17.73 / 18.61,
    "transpose": 1 - 328_896 / 1_047_168,
}


@pytest.mark.parametrize("change", CHANGES, ids=[change.name for change in CHANGES])
def test_a_change_is_asked_of_in_its_lesson_and_was_measured(change) -> None:
    assert -1 < change.measured() < 1
    assert change.text.endswith("?") or change.text.endswith("(the median)?")
    assert not re.search(r"\d ?%", change.text), "no share may be given away"
    assert f"lab predict {change.name}" in (ROOT / change.lesson).read_text(encoding="utf-8")


def test_what_was_measured() -> None:
    measured = {change.name: change.measured() for change in CHANGES}
    assert {name: measured[name] for name in EXPECTED} == pytest.approx(EXPECTED)
    runs = json.loads(captures.text("serving_evidence", "evidence.json"))["runs"]
    ratios = {run["run"]: run for run in runs}["change_b"]
    again = statistics.median(ratios["again_ns"]) / statistics.median(ratios["before_ns"])
    assert measured["search"] == pytest.approx(0, abs=2 * abs(1 - again) + 0.01), "no win"
    assert max(measured.values()) > 0.8 and min(measured.values()) < 0.01, "some gain, some do not"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the course's manifest, in which answers are kept."""
    monkeypatch.setattr("profiling_lab.cli.predicting.find_root", lambda: tmp_path)
    return tmp_path


def predict(*words: str) -> Result:
    return CliRunner().invoke(lab, ["predict", *words], prog_name="lab")


def test_the_first_answer_counts_and_is_told(course: Path) -> None:
    assert "LOW% HIGH%" in predict("inference").output
    assert not predictions.outcomes(course)
    told = predict("inference", "60%", "95").output
    assert "without a profiler: 88.9 %" in told and "Inside" in told
    second = predict("inference", "88", "90")
    assert second.exit_code == 2 and "first prediction stands" in second.output
    assert predictions.outcomes(course)[0].low_pct == 60
    assert "Outside" in predict("item", "-5", "20").output
    listed = predict().output
    assert "●" in listed and "○" in listed and "1 of 2 intervals" in listed
    assert "lab predict transpose" in listed
    assert "Outside" in predict("inference", "1", "2", "--again").output


@pytest.mark.parametrize("change", CHANGES, ids=[change.name for change in CHANGES])
def test_an_interval_that_ends_at_the_number_shown_holds_it(course: Path, change) -> None:
    shown = change.measured_pct
    assert abs(shown - 100 * change.measured()) <= 0.05
    for low, high, told in [
        (shown, 99, "Inside"),
        (-99, shown, "Inside"),
        (-99, shown - 0.1, "Outside"),
        (shown + 0.1, 99, "Outside"),
    ]:
        output = predict(change.name, f"{low:.1f}", f"{high:.1f}", "--again").output
        assert f"{shown:.1f} %" in output and told in output
    assert f"{shown:.1f} %" in predict().output, "the list shows the same number"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("inferense", "1", "2"), "one of inference"),
        (("inference", "30", "20"), "lower end first"),
        (("inference", "30", "30"), "lower end first"),
        (("inference", "much", "30"), "as in 40%"),
        (("inference", "30", "180"), "as in 40%"),
    ],
)
def test_what_is_no_interval_is_refused_and_not_kept(
    course: Path, words: tuple[str, ...], says: str
) -> None:
    refused = predict(*words)
    assert refused.exit_code == 2 and says in refused.output
    assert not predictions.outcomes(course)


def test_what_is_damaged_counts_as_none(course: Path) -> None:
    lab_folder.write(course, predictions.KEPT, {"inference": "40", "item": [1, 2], "gone": [1, 2]})
    assert [told.name for told in predictions.outcomes(course)] == ["item"]


def outcome(low: float, high: float, measured: float) -> Outcome:
    return Outcome("inference", low, high, measured)


def test_calibration_says_what_follows() -> None:
    hit, miss, wide = outcome(40, 60, 50), outcome(40, 60, 90), outcome(0, 90, 50)
    assert predictions.calibration([]) == ""
    few = predictions.calibration([hit, miss])
    assert "1 of 2" in few and "50%, and 80% should" in few and "Too few" in few
    sure = predictions.calibration([hit, hit, miss, miss, miss])
    assert "2 of 5" in sure and "wider" in sure
    assert "narrower" in predictions.calibration([wide] * 6)
    right = predictions.calibration([hit, hit, hit, hit, miss])
    assert "4 of 5" in right and "wider" not in right and "narrower" not in right


def test_the_progress_page_plots_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = load(ROOT)
    verdicts = {name: Verdict("todo") for name in known.tasks}
    assert "Your predictions" not in render_progress(known, verdicts, [])
    monkeypatch.setattr(
        predictions, "outcomes", lambda root: [outcome(40, 60, 89), outcome(-90, 95, 0)]
    )
    page = render_progress(known, verdicts, [])
    assert "Your predictions" in page and "1 of 2 intervals" in page
    places = [float(x) for x in re.findall(r'<rect x="([\d.]+)"', page)]
    assert places[0] == pytest.approx((40 + 25) / 1.25) and places[1] == 0
