"""Lab 05's script for the learner's own machine runs on a CPU, and says what is still to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from profiling_lab import measuring

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "labs/lab05_profiling/src"
SCRIPT = ROOT / FOLDER / "own_machine.py"

pytestmark = [pytest.mark.needs("torch"), pytest.mark.proof]  # it measures with the reference


def run(functions: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script with the functions of a folder."""
    code = f"import runpy, sys; sys.path.insert(0, {str(functions)!r}); runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def test_report_prediction_and_change_on_a_cpu() -> None:
    done = run(ROOT / "solutions" / FOLDER, "10%", "90%", "--tokens", "256")
    assert done.returncode == 0, done.stderr
    for said in (
        "this machine (cpu), measured",
        "bottleneck: ",
        "one kernel needs",
        "saved: ",
        "10% to 90%",
    ):
        assert said in done.stdout, done.stdout
    materialised, chosen = (
        float(line.split()[-1])
        for line in done.stdout.splitlines()
        if line.startswith(("0 materialised", "2 PyTorch"))
    )
    assert materialised > 2 * chosen, "the scores went through memory, and then did not"


def test_a_function_that_is_not_written_is_named() -> None:
    done = run(ROOT / FOLDER)
    assert "of profiling.py is still to do" in done.stderr or "bottleneck: " in done.stdout


def test_an_interval_with_one_end_is_refused() -> None:
    done = run(ROOT / "solutions" / FOLDER, "30%")
    assert done.returncode == 2 and "two ends" in done.stderr


def test_a_measured_device_is_a_device() -> None:
    found = measuring.measured_device("float32")
    assert found.peak("fp32") > 1e8 and found.memory_bandwidth_bytes_per_s > 1e7
