"""A trace of a ROCm build of PyTorch says what the same trace says with CUDA's names."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from grading.checks.generate.kineto import Trace
from profiling_lab.captures import dependencies, inputs, kineto
from profiling_lab.mine import asking
from profiling_lab.mine.functions import functions_for

ROOT = Path(__file__).resolve().parents[2]
HIP_OF = {
    "cudaLaunchKernel": "hipLaunchKernel",
    "cudaMemcpyAsync": "hipMemcpyAsync",
    "cudaStreamSynchronize": "hipStreamSynchronize",
    "cudaFree": "hipFree",
}


def trace(folder: Path, names: dict[str, str]) -> str:
    """Six launches; the third takes 6 ms, while the device has nothing to do."""
    drawn = Trace(folder)
    drawn.step(1, 0, 9_000_000)
    host = 100_000
    for number in range(6):
        length = 6_000_000 if number == 2 else 10_000
        end = host + length
        drawn.kernel(end + 2_000, end + 100_000, call=(host, end))
        host = end + 20_000
    drawn.call("cudaStreamSynchronize", host, host + 200_000)
    for event in drawn.events:
        event["name"] = names.get(event["name"], event["name"])
    return drawn.save()


def test_a_trace_with_names_of_hip_has_the_same_verdict(tmp_path: Path) -> None:
    found = []
    for folder, names in (("cuda", {}), ("hip", HIP_OF)):
        (run,) = inputs.runs(inputs.read([trace(tmp_path / folder, names)]))
        verdict = asking.ask_all(run, partial(functions_for, against=str(ROOT / "solutions")))
        found.append(verdict.findings)
    assert found[0] == found[1]
    assert found[1][0].category == "launch_bound"
    assert found[1][0].evidence["recoverable_ns"] > 6_000_000, "the slow launch is one"


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("hipExtModuleLaunchKernel", "launch"),
        ("hipModuleLaunchKernel", "launch"),
        ("hipGraphLaunch", "launch"),
        ("hipMemcpyWithStream", "copy_call"),
        ("hipMemsetAsync", "copy_call"),
        ("hipDeviceSynchronize", "synchronize"),
        ("hipHostMalloc", "allocation"),
        ("hipHostFree", "allocation"),
        ("hipGetDevicePropertiesR0600", "call"),
    ],
)
def test_calls_of_hip_by_what_they_do(call: str, kind: str) -> None:
    assert dependencies.call_kind(kineto.cuda_name(call)) == kind


def test_other_names_stay() -> None:
    for name in ("cudaLaunchKernel", "cuLaunchKernelEx", "hipster", "ProfilerStep#1"):
        assert kineto.cuda_name(name) == name
