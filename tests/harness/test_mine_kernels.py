"""A learner's verdict on a kernel as a finding: its evidence, how near another one is, and the words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiling_lab.captures import Kind, kernels
from profiling_lab.captures.inputs import Part
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CATEGORIES, problems
from profiling_lab.mine.functions import Functions
from profiling_lab.mine.kernels import CAUSES, DURATION, finding_of, launches

COPY = {"name": "copy(int *)", "metrics": {DURATION: 1000.0}}


class Answers(Functions):
    """Functions that answer with what they were given."""

    def __init__(self, use: float, savings: dict[str, float | None]) -> None:
        super().__init__(Path("none.py"))
        self.share, self.savings = use, savings

    def call(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        if name == "unit_use":
            return {"dram": self.share, "l1": None}
        saved = self.savings.get(arguments[1], 0.0)
        return None if saved is None else 1 / (1 - saved)


@pytest.mark.parametrize(
    ("category", "use", "savings", "margin", "advice"),
    [
        ("divergence", 0.4, {"divergence": 0.5}, 0.4, "remedy"),
        ("divergence", 0.4, {"divergence": 0.5, "small_grid": 0.3}, 0.2, "remedy"),
        (
            "divergence",
            0.4,
            {"divergence": 0.12},
            0.02,
            "borderline (by 2.0% of the duration): remedy",
        ),
        ("memory_bound", 0.9, {}, 0.1, "none"),
        ("memory_bound", 0.7, {}, 0.1, "remedy"),
        (
            "memory_bound",
            0.9,
            {"divergence": 0.08},
            0.02,
            "borderline (by 2.0% of the duration): none",
        ),
        ("latency_bound", 0.9, {}, 0.1, "remedy"),
        ("latency_bound", 0.59, {}, 0.01, "borderline (by 1.0% of the duration): remedy"),
        (
            "memory_bound",
            0.9,
            {"divergence": None},
            0.1,
            "record more sections; not judged: divergence; else: none",
        ),
    ],
)
def test_a_finding_says_how_near_another_one_is(
    category: str, use: float, savings: dict[str, float | None], margin: float, advice: str
) -> None:
    found = finding_of(Answers(use, savings), COPY, category)
    assert not problems(found) and found.subject == "kernel:copy(int *)"
    assert found.recommendation == advice.replace("remedy", CATEGORIES[category].remedy)
    first = max((saved for saved in savings.values() if saved is not None), default=0.0)
    assert found.evidence == {
        "duration_ns": 1000.0,
        "recoverable_ns": pytest.approx(1000 * first),
        "recoverable_ratio": pytest.approx(first),
        "ceiling_ratio": use,
        "margin_ratio": pytest.approx(margin),
        "unjudged_count": list(savings.values()).count(None),
    }


def test_causes_are_those_of_the_day() -> None:
    source = Path("solutions/week07/day2_nsight_compute/ex_31_nsight_compute.py")
    text = (Path(__file__).resolve().parents[2] / source).read_text(encoding="utf-8")
    assert all(f'    "{cause}",\n' in text for cause in CAUSES)


def test_a_launch_that_was_hardly_measured_is_refused(tmp_path: Path) -> None:
    unit = kernels.UNITS["dram"][0]
    for counter in (DURATION, unit):
        page = tmp_path / "kernels.csv"
        page.write_text(
            f"ID,Kernel Name,Block Size,Grid Size,CC,{counter}\n,,,,,\n0,copy,1,1,9.0,5\n"
        )
        with pytest.raises(CaptureError, match="copy: no duration"):
            list(launches(Part(name="copy", path=page, kind=Kind.KERNELS)))
