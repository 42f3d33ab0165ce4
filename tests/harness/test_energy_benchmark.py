"""`energy_benchmark.py`: without a GPU, without NVML, and with a sensor that fails."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grading.runner.scoring import installed

PROGRAM = Path(__file__).resolve().parents[2] / "modules/04-energy-profiling/energy_benchmark.py"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    installed("torch")
    spec = importlib.util.spec_from_file_location("energy_benchmark", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["energy_benchmark"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def run(program: ModuleType, monkeypatch: Any, folder: Path, *arguments: str) -> None:
    """The program with these arguments, in a folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(PROGRAM), *arguments])
    program.main()


def test_without_a_gpu_it_says_so_and_works(
    program: ModuleType, monkeypatch: Any, tmp_path: Path, capsys: Any
) -> None:
    run(program, monkeypatch, tmp_path, "--cpu", "--calls", "12", "--size", "32")
    assert capsys.readouterr().out.startswith("No GPU is used")
    written = json.loads((tmp_path / "energy.json").read_text(encoding="utf-8"))
    (phase,) = written["phases"]
    assert (phase["calls"], phase["flop"]) == (12, 12 * 2 * 32**3)
    assert phase["energy_start_mj"] is None
    assert written["samples"] == {"time_ns": []}


def test_a_bad_argument_is_refused(
    program: ModuleType, monkeypatch: Any, tmp_path: Path, capsys: Any
) -> None:
    with pytest.raises(SystemExit) as refused:
        run(program, monkeypatch, tmp_path, "--interval-ms", "0")
    assert refused.value.code == 2 and "must be above 0" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_no_library_is_said_in_words(program: ModuleType, monkeypatch: Any) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(program.ctypes, "CDLL", missing)
    with pytest.raises(program.NvmlError, match="is there an NVIDIA driver"):
        program.Nvml("GPU-0")


class Readings:
    """A device without one sensor, of which another fails after some readings."""

    def __init__(self, program: ModuleType, good: int) -> None:
        self.program, self.left = program, good

    def readings(self) -> dict[str, Any]:
        return {"usage_mw": self.usage, "instant_mw": self.instant, "energy_mj": lambda: 7}

    def usage(self) -> int:
        self.left -= 1
        if self.left < 0:
            raise self.program.NvmlError("nvmlDeviceGetPowerUsage: GPU is lost")
        return 100_000

    def instant(self) -> int:
        raise self.program.NvmlError("field 186: Not Supported")


def test_what_the_device_does_not_offer_is_null(program: ModuleType) -> None:
    sampler = program.Sampler(Readings(program, 10_000), 0.001)
    with sampler.running():
        time.sleep(0.02)
    assert sampler.unsupported == {"instant_mw": "field 186: Not Supported"}
    columns = sampler.columns
    assert len({len(column) for column in columns.values()}) == 1 and columns["time_ns"]
    assert set(columns["instant_mw"]) == {None} and set(columns["usage_mw"]) == {100_000}
    assert columns["time_ns"] == sorted(columns["time_ns"])
    assert not sampler.thread.is_alive() and not sampler.failure


def test_a_sensor_that_fails_keeps_what_was_read(program: ModuleType) -> None:
    sampler = program.Sampler(Readings(program, 4), 0.001)
    with sampler.running():
        sampler.thread.join(5)
    assert sampler.failure == "nvmlDeviceGetPowerUsage: GPU is lost"
    assert {len(column) for column in sampler.columns.values()} == {3}  # one was tried before
    assert sampler.energy_mj() == 7
