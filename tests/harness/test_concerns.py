"""What a change to an exercise can break elsewhere: `lab dev check` runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grading.proof.plugin import rests_on
from profiling_lab.course import manifest

pytestmark = pytest.mark.proof

ROOT = Path(__file__).resolve().parents[2]
COURSE = manifest.load(ROOT)


@pytest.mark.parametrize(
    ("page", "identifier", "rests"),
    [
        ("modules/05-scaling-benchmarks/ex01-single-gpu-baseline/README.md", "scaling_ex01", True),
        ("modules/README.md", "scaling_ex01", True),  # its totals
        ("modules/05-scaling-benchmarks/README.md", "scaling_ex01", True),
        ("labs/README.md", "scaling_ex01", False),
        ("labs/README.md", "lab05_lies", True),
        ("week07/day1_nsight_systems", "ex_30", True),  # a notebook
        ("week07/day1_nsight_systems", "ex_33", False),
        ("week07/day4_bottleneck_analysis/figures/rooflines.svg", "ex_33", True),
        # Its lesson takes a number from that of Day 4.
        ("modules/triton-profiling/ex04-softmax/README.md", "ex_33", True),
    ],
)
def test_a_page_rests_on_the_exercises_that_its_source_names(
    page: str, identifier: str, rests: bool
) -> None:
    assert rests_on(COURSE, page, COURSE.exercise(identifier)) == rests


def test_what_is_run_for_an_exercise() -> None:
    harness = sorted(Path(__file__).parent.rglob("test_*.py"))
    files = [file for file in harness if "mark.concerns(" in file.read_text(encoding="utf-8")]
    command = [sys.executable, "-m", "pytest", *map(str, files), "--against=solutions", "-q"]
    command += ["--concerning=scaling_ex01", "--collect-only", "-p", "no:cacheprovider"]
    listed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True).stdout
    names = [line.rpartition("::")[2] for line in listed.splitlines() if "::" in line]
    for expected in (
        "test_reference_earns_every_point[scaling_ex01]",
        "test_page_is_what_its_source_gives[modules/README.md]",
        "test_guide_lists_the_points_that_can_be_forged",
        "test_whole_course_leaves_answers_behind",
    ):
        assert expected in names, listed
    assert sum("mistake_is_caught[scaling_ex01-" in name for name in names) >= 10
    others = [
        name for name in names if "ex_3" in name or "mutant" in name or "scaling_ex02" in name
    ]
    assert others == []
