"""A folder with a script, and tools that are stand-ins."""

from __future__ import annotations

import os

import pytest

from tests.harness.unified_profiler.stand_ins import FAKE_NSYS, SCRIPT, program


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a script, no nsys, and nothing in the environment that a launcher reads."""
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_JOB_NODELIST", "SLURM_JOB_ID", "RANK", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


@pytest.fixture
def nsys(here):
    return program(here, "nsys", FAKE_NSYS)
