"""The stand-in for the CUDA runtime: what it records of small programs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from grading.checks.cuda import recording, toolchain
from grading.checks.cuda.simulation import Costs, simulate

ROOT = Path(__file__).resolve().parents[3]
GIVEN = ROOT / "week07" / "day1_nsight_systems" / "cuda"
REFERENCE = ROOT / "solutions" / "week07" / "day1_nsight_systems" / "cuda" / "pipeline_improved.cu"


def compiles(test):
    """A test that runs the compilers: only the proof waits for that, where they are."""
    return pytest.mark.proof(pytest.mark.needs("nvcc", "cxx", "linux")(test))


@compiles
def test_reference_is_near_the_bound_and_baseline_is_not():
    chance = random.Random(1)
    for _ in range(10):
        batches, elements = chance.randint(14, 22), chance.randint(3_000, 12_000)
        ratios = []
        for source in (REFERENCE, GIVEN / "pipeline_baseline.cu"):
            schedule = recording.record(
                source, GIVEN, batches=batches, elements=elements, warmup_batches=1
            )
            assert schedule.races() == []
            assert schedule.wrong_batches(batches, 1) == schedule.wrong_batches(1, 0) == []
            assert schedule.unreleased() == schedule.misplaced == schedule.refused == []
            steps = [680_000.0 * chance.uniform(0.93, 1.07) for _ in range(3)]
            prices = Costs(4 * elements, *steps)
            ratios.append(simulate(schedule, prices).makespan_ns / prices.ideal_ns(batches))
        assert ratios[0] < 1.1
        assert ratios[1] > 5


PROGRAM = """
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
namespace deep {
template <typename T>
__global__ void scale(const T* in, T* out, int n, unsigned long m, float f) { out[0] = in[0] * f; }
}
static void later(void* data) { *static_cast<int*>(data) = 7; }
static void calls_back(void*) { cudaDeviceSynchronize(); }
int main() {
    cudaStream_t s, t;
    cudaStreamCreate(&s);
    cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    float *d, *h, *u = static_cast<float*>(std::malloc(64));
    cudaMalloc(&d, 64);
    cudaMallocHost(&h, 64);
    deep::scale<float><<<dim3(2, 3), 32, 48, t>>>(d + 4, d, 5, 6ul, 1.0f);
    cudaMemsetAsync(d, 0, 64, s);
    cudaMemcpyAsync(h, d, 64, cudaMemcpyDefault, s);
    int value = 0;
    cudaLaunchHostFunc(s, later, &value);
    cudaLaunchHostFunc(s, calls_back, nullptr);
    // refused, one after the other
    cudaMemcpy(d, u, 65, cudaMemcpyHostToDevice);
    cudaMemcpy(d, u, 64, cudaMemcpyDeviceToHost);
    deep::scale<float><<<1, 2048>>>(d, d, 1, 1, 1.0f);
    cudaFree(h);
    cudaFreeHost(h);
    cudaFreeHost(h);
    cudaStreamDestroy(s);
    cudaStreamSynchronize(s);
    cudaHostRegister(u, 64, 0);
    cudaMemcpyAsync(u, d, 64, cudaMemcpyDeviceToHost, cudaStreamPerThread);
    cudaHostUnregister(u);
    const bool kept = cudaGetLastError() == cudaErrorInvalidResourceHandle;
    const bool cleared = cudaGetLastError() == cudaSuccess;
    return kept && cleared && value == 7 ? 0 : 1;
}
"""


@compiles
def test_recorder(tmp_path):
    (tmp_path / "program.cu").write_text(PROGRAM)
    lines = recording.record(
        tmp_path / "program.cu", tmp_path, batches=1, elements=1, warmup_batches=0
    ).lines
    kernel = next(line for line in lines if line["kind"] == "kernel")
    assert kernel["name"] == "void deep::scale<float>"
    assert (kernel["grid"], kernel["block"], kernel["stream"]) == ([2, 3, 1], [32, 1, 1], 2)
    assert kernel["arguments"] == [
        {"type": "float const*", "pointer": {"memory": "device", "buffer": 0, "offset": 16}},
        {"type": "float*", "pointer": {"memory": "device", "buffer": 0, "offset": 0}},
        {"type": "int", "value": 5},
        {"type": "unsigned long", "value": 6},
        {"type": "float", "value": 1.0},
    ]
    assert kernel["symbol"].startswith("_ZN4deep5scale") and kernel["shared_bytes"] == 48
    streams = [line for line in lines if line["kind"] == "create_stream"]
    assert [s["blocking"] for s in streams] == [True, False]
    copies = [line for line in lines if line["kind"] == "copy"]
    assert [(c["direction"], c["stream"], c["async"]) for c in copies] == [
        ("D2H", 1, True),
        ("D2H", 1000, True),
    ]
    assert copies[1]["destination"]["memory"] == "pinned", "registered"
    refused = [(line["function"], line["error"]) for line in lines if line["kind"] == "refused"]
    assert refused == [
        ("cudaDeviceSynchronize", "cudaErrorNotPermitted"),
        ("cudaMemcpy", "cudaErrorInvalidValue"),
        ("cudaMemcpy", "cudaErrorInvalidValue"),
        ("cudaLaunchKernel", "cudaErrorInvalidConfiguration"),
        ("cudaFree", "cudaErrorInvalidValue"),
        ("cudaFreeHost", "cudaErrorInvalidValue"),
        ("cudaStreamSynchronize", "cudaErrorInvalidResourceHandle"),
    ]


@compiles
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "cudaGraph_t g; cudaGraphCreate(&g, 0); void* m; cudaMallocManaged(&m, 4);",
            "cudaGraphCreate, cudaMallocManaged, which the recording stand-in",
        ),
        ("void elsewhere(); elsewhere();", "leaves undefined: elsewhere()"),
        ("cudaMalloc(3);", "program.cu(2): error"),
    ],
    ids=["not in the stand-in", "not defined", "not C++"],
)
def test_what_cannot_be_built_is_named(tmp_path, body, says):
    source = tmp_path / "program.cu"
    source.write_text(f"#include <cuda_runtime.h>\nint main() {{ {body} }}\n")
    for _ in range(2):  # the second time from what is kept
        with pytest.raises(toolchain.BuildError) as caught:
            toolchain.build(source, tmp_path)
        assert says in str(caught.value)


@compiles
def test_how_a_program_ended_is_named(tmp_path):
    source = tmp_path / "program.cu"
    source.write_text(
        "#include <cuda_runtime.h>\n#include <cstdio>\n"
        'int main() { cudaFree((void*)8); std::fprintf(stderr, "gone wrong"); return 3; }\n'
    )
    with pytest.raises(recording.RunError) as caught:
        recording.record(source, tmp_path, batches=1, elements=1, warmup_batches=0)
    text = str(caught.value)
    assert "ended with exit code 3" in text
    assert "cudaFree refused: cudaErrorInvalidValue" in text
    assert "gone wrong" in text


def test_no_compiler_is_named(monkeypatch):
    monkeypatch.setattr(toolchain.doctor, "find_nvcc", lambda: None)
    toolchain.nvcc.cache_clear()
    with pytest.raises(toolchain.ToolchainError, match="nvidia-cuda-nvcc"):
        toolchain.nvcc()
    toolchain.nvcc.cache_clear()
