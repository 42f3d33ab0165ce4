"""Away from the course."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harness.cli_diagnose.diagnosing import CAPTURES


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, in which neither nsys, nor ncu, nor ncu-report is installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_CAPTURES", str(CAPTURES))
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.setattr("profiling_lab.record.tools.NSYS_PLACES", ())
    monkeypatch.setattr("profiling_lab.record.tools.NCU_PLACES", ())
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    return tmp_path
