"""What a learner reads fits 80 columns: every command, piped and so without colour, in the course as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from profiling_lab.cli.app import COMMANDS

pytestmark = pytest.mark.proof
ROOT = Path(__file__).resolve().parents[2]
LONG_WORD = 60  # characters: a path, or a pattern to be copied, is not broken
RUNS = [
    "",
    "check ex_30",
    "check ex_31.choose_counters",
    "check energy_ex01.sample_power",
    "hint ex_30.busy_time --more",
    "hint ex_31.sectors_of_request --more",
    "quiz",
    "quiz --list",
    "predict",
    "demo",
    "doctor",
    "diagnose decode_eager",
    "diagnose decode_eager --mine --against solutions",
    "diagnose host_samples_python",
    "diagnose ddp_traces_straggler",
    "diagnose case_translation_a",
    "diagnose ncu_memory",
    "compare cuda_pipeline_baseline cuda_pipeline_improved",
    "compare ddp_traces_straggler ddp_traces_overlap",
    "compare ncu_memory ncu_memory_warm",
    "report --progress",
    "report decode_eager",
    "update",
    "record --list",
    *(f"{name} --help" for name in COMMANDS),
]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course in a folder of its own, so that what a command keeps or writes stays there."""
    folder = tmp_path_factory.mktemp("course")
    for place in ROOT.iterdir():
        if not place.name.startswith(".") or place.name == ".stubs":
            (folder / place.name).symlink_to(place)
    return folder


@pytest.mark.parametrize("line", RUNS, ids=lambda line: line or "lab")
def test_lines_fit_80_columns(line: str, course: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    ran = subprocess.run(
        [sys.executable, "-m", "profiling_lab.cli", *line.split()],
        check=False,
        cwd=course,
        env=environment | {"COLUMNS": "80", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert ran.returncode in (0, 1), ran.stderr  # 1: not done yet, or longer than before
    assert ran.stdout.strip() and "\x1b" not in ran.stdout + ran.stderr
    wide = [
        row
        for row in ran.stdout.splitlines()
        if len(row) > 80 and max(map(len, row.split())) < LONG_WORD
    ]
    assert not wide, "\n".join(wide)
