"""The emulator of PTX: it counts what Nsight Compute counted, and refuses what a GPU would refuse."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from grading.checks.cuda import compiled, toolchain
from grading.checks.cuda.ptx import EmulatorError, Memory, Module, Unsupported, listing, threads
from profiling_lab import captures

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "captures" / "programs" / "ncu_kernels"
HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


def compiles(test):
    """A test that runs the compiler: only the proof waits for that, where it is."""
    return pytest.mark.proof(pytest.mark.needs("nvcc", "cxx", "linux")(test))


def counted(capture: str) -> dict[str, dict[str, float]]:
    """Kernel to counter to value, of those that this file compares."""
    rows = list(csv.DictReader(io.StringIO(captures.text(capture, "kernels.csv"))))[1:]
    names = {
        "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        "store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
        "wavefronts": "memory_l1_wavefronts_shared",
        "ideal": "memory_l1_wavefronts_shared_ideal",
    }
    return {
        row["Kernel Name"].split("(")[0]: {
            name: float(row[column].replace(",", "")) for name, column in names.items()
        }
        for row in rows
    }


# How far the matrix of 8192 x 8192 is cut down; counts per request do not depend on it.
SMALL_SIDE = 256
GRIDS = {
    "transpose_direct": ((8, 8, 1), (32, 8, 1)),
    "transpose_tile32": ((8, 8, 1), (32, 8, 1)),
    "transpose_tile33": ((8, 8, 1), (32, 8, 1)),
    "copy_swapped": ((4, 1, 1), (256, 1, 1)),
    "relax_pitch32": ((2, 1, 1), (128, 1, 1)),
    "relax_pitch33": ((2, 1, 1), (128, 1, 1)),
}


@pytest.fixture(scope="module")
def shared_memory(tmp_path_factory) -> compiled.Compiled:
    """The recorded program's kernels, for a smaller matrix."""
    source = tmp_path_factory.mktemp("emulated") / "shared_memory.cu"
    text = (PROGRAMS / "shared_memory.cu").read_text(encoding="utf-8")
    assert "kSide = 8192" in text
    main = text.index("int main(")
    source.write_text(text[:main].replace("kSide = 8192", f"kSide = {SMALL_SIDE}"))
    return compiled.compiled(source, PROGRAMS)


@compiles
@pytest.mark.parametrize("name", GRIDS)
def test_counts_per_request_are_those_of_the_profiler(shared_memory, name):
    measured = counted("ncu_shared")[name]
    memory = Memory()
    cells = SMALL_SIDE * SMALL_SIDE
    source, target = (memory.allocate(n, 4 * cells, fill=0) for n in ("in", "out"))
    module = Module(shared_memory.ptx)
    symbol = next(symbol for symbol in module.kernels if f"{len(name)}{name}P" in symbol)
    counters = module.launch(symbol, *GRIDS[name], [source, target], memory)
    for kind, traffic in (("load", counters.loads), ("store", counters.stores)):
        recorded = measured[f"{kind}_sectors"] / measured[f"{kind}_requests"]
        # Stores that find the unit busy are counted again: 67,140,001 sectors for 67,108,864.
        assert traffic.sectors / traffic.requests == pytest.approx(recorded, rel=0.001)
    wavefronts = counters.shared_loads.wavefronts + counters.shared_stores.wavefronts
    ideal = counters.shared_loads.ideal + counters.shared_stores.ideal
    if measured["ideal"]:
        # The assembler saves a few loads of relax_… that stand in the PTX.
        recorded = measured["wavefronts"] / measured["ideal"]
        assert wavefronts / ideal == pytest.approx(recorded, rel=0.02)
    else:
        assert ideal == 0


@compiles
@pytest.mark.parametrize("name", GRIDS)
def test_resources_are_those_of_the_recorded_kernels(shared_memory, name):
    rows = list(csv.DictReader(io.StringIO(captures.text("ncu_shared", "kernels.csv"))))[1:]
    row = next(row for row in rows if row["Kernel Name"].startswith(f"{name}("))
    made = next(v for k, v in shared_memory.resources.items() if f"{len(name)}{name}P" in k)
    recorded = float(row["launch__registers_per_thread"])
    # The profiler names what a thread is given: at least 16, in steps of 8.
    assert made.registers <= recorded < max(made.registers, 9) + 8
    assert made.spill_bytes == 0


# -- kernels by hand ------------------------------------------------------------------------------


def kernel(body: str, parameters: str = ".param .u64 out", before: str = "") -> Module:
    registers = ".reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<30>; .reg .f32 %f<30>;"
    return Module(
        f"{HEAD}{before}.visible .entry k({parameters})\n{{\n{registers}\n{body}\nret;\n}}\n"
    )


def words(module: Module, count: int, threads: int, blocks: int = 1, **options) -> np.ndarray:
    memory = Memory()
    out = memory.allocate("out", 4 * count)
    module.launch("k", (blocks, 1, 1), (threads, 1, 1), [out], memory, **options)
    return memory.view(out, np.uint32, count)


STORE = "ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;"


def test_threads_that_part_meet_again():
    module = kernel(
        f"""mov.u32 %r1, %tid.x; {STORE} and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0;
        @%p1 bra $EVEN;
        mul.lo.s32 %r3, %r1, 10;
        bra.uni $JOIN;
        $EVEN:
        add.s32 %r3, %r1, 1000;
        $JOIN:
        vote.sync.ballot.b32 %r4, %p1, -1;
        add.s32 %r5, %r3, %r4;
        st.global.u32 [%rd3], %r5;"""
    )
    ballot = 0x55555555
    expected = [(t * 10 if t % 2 else t + 1000) + ballot for t in range(32)]
    assert words(module, 32, 32).tolist() == expected


@pytest.mark.parametrize(
    ("mode", "amount", "expected"),
    [
        ("down", 4, lambda t: t + 4 if t + 4 < 32 else t),
        ("up", 4, lambda t: t - 4 if t >= 4 else t),
        ("bfly", 5, lambda t: t ^ 5),
        ("idx", 7, lambda t: 7),
    ],
)
def test_shuffles(mode, amount, expected):
    clamp = 0 if mode == "up" else 31
    module = kernel(
        f"""mov.u32 %r1, %tid.x; {STORE}
        shfl.sync.{mode}.b32 %r2|%p1, %r1, {amount}, {clamp}, -1;
        st.global.u32 [%rd3], %r2;"""
    )
    assert words(module, 32, 32).tolist() == [expected(t) for t in range(32)]


def through_shared(barrier: str) -> Module:
    return kernel(
        f"""mov.u32 %r1, %tid.x; {STORE} shl.b32 %r2, %r1, 2; st.shared.u32 [%r2], %r1;
        {barrier}
        mov.u32 %r3, %ntid.x; sub.s32 %r4, %r3, %r1; sub.s32 %r4, %r4, 1; shl.b32 %r5, %r4, 2;
        ld.shared.u32 %r6, [%r5];
        st.global.u32 [%rd3], %r6;""",
        before=".extern .shared .align 16 .b8 dyn[];\n",
    )


@pytest.mark.parametrize("descending", [False, True])
def test_a_barrier_orders_the_warps(descending):
    out = words(through_shared("bar.sync 0;"), 128, 128, shared_bytes=512, descending=descending)
    assert out.tolist() == list(reversed(range(128)))


@pytest.mark.parametrize("descending", [False, True])
def test_without_a_barrier_what_was_not_written_shows(descending):
    out = words(through_shared(""), 128, 128, shared_bytes=512, descending=descending)
    assert (out == 0xFFFFFFFF).sum() == 64


def test_atomics_give_each_its_turn():
    module = kernel(
        """ld.param.u64 %rd1, [out]; mov.u32 %r1, 0; st.global.u32 [%rd1], %r1;
        bar.sync 0;
        atom.global.add.u32 %r2, [%rd1], 1; add.s32 %r3, %r2, 1; mul.wide.u32 %rd2, %r3, 4;
        add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2;"""
    )
    out = words(module, 65, 64)
    assert out[0] == 64 and sorted(out[1:]) == list(range(64))


def test_division_as_the_hardware_does_it():
    module = kernel(
        f"""mov.u32 %r1, %tid.x; {STORE} sub.s32 %r2, %r1, 16; mov.u32 %r3, 5; div.s32 %r4, %r2, %r3;
        rem.s32 %r5, %r2, %r3; shl.b32 %r6, %r4, 8; and.b32 %r7, %r5, 255; or.b32 %r8, %r6, %r7;
        st.global.u32 [%rd3], %r8;"""
    )
    expected = [(int((t - 16) / 5) << 8 | (t - 16 - int((t - 16) / 5) * 5) & 255) & 0xFFFFFFFF for t in range(32)]  # fmt: skip
    assert words(module, 32, 32).tolist() == expected


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            f"mov.u32 %r1, %tid.x; {STORE} st.global.u32 [%rd3+4], %r1;",
            "4 bytes past the end of out",
        ),
        (f"mov.u32 %r1, %tid.x; {STORE} st.global.u32 [%rd3+2], %r1;", "misaligned address"),
        ("$L: bra $L;", "did not end"),
        (
            """mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 31; @%p1 bra $B;
            bar.sync 0;
            bra.uni $E;
            $B: bar.sync 0;
            $E: mov.u32 %r2, 0;""",
            "wait at different barriers",
        ),
    ],
    ids=["past the end", "misaligned", "endless", "different barriers"],
)
def test_what_a_gpu_would_refuse(body, says, monkeypatch):
    monkeypatch.setattr(threads, "MOST_STEPS", 3000)
    with pytest.raises(EmulatorError, match=says):
        words(kernel(body), 64, 64)


def test_an_unknown_instruction_is_named():
    with pytest.raises(Unsupported, match=r"cp\.async\.ca"):
        words(kernel("cp.async.ca.shared.global [%r1], [%rd1], 16;"), 1, 32)


def test_conflicts_and_sectors_by_hand():
    module = kernel(
        """mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 128;
        add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r2, [%rd3];
        shl.b32 %r3, %r1, 3; st.shared.u32 [%r3], %r2; shl.b32 %r4, %r1, 4;
        ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r4];""",
        before=".extern .shared .align 16 .b8 dyn[];\n",
    )
    memory = Memory()
    out = memory.allocate("out", 128 * 32)
    counters = module.launch("k", (1, 1, 1), (32, 1, 1), [out], memory, shared_bytes=512)
    assert (counters.loads.requests, counters.loads.sectors, counters.loads.bytes) == (1, 32, 128)
    assert (counters.shared_stores.wavefronts, counters.shared_stores.ideal) == (2, 1)
    assert (counters.shared_loads.wavefronts, counters.shared_loads.ideal) == (4, 4)


def test_a_private_toolchain_folder_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CUDA_CACHE", str(tmp_path / "cache"))
    assert toolchain.cache_folder() == tmp_path / "cache"


def test_sources_share_a_program_only_if_they_fit(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CUDA_CACHE", str(tmp_path / "cache"))
    table = "const std::vector<Step> kSteps = {};\n"
    one = '#include "steps.cuh"\n' + table
    for other in (
        '#include "steps.cuh"\n#include <cmath>\n' + table,
        '#include "steps.cuh"\nconst std::vector<Step> kOthers = {};\n',
        '#include "steps.cuh"\n',
        "#include <vector>\n" + table,
    ):
        files = toolchain.write_siblings("steps_student.cu", {"one": one, "two": other})
        assert files["two"].read_text(encoding="utf-8") == other
        assert toolchain.with_siblings(files["one"], tmp_path) is None
    alone = tmp_path / "steps_student.cu"
    alone.write_text(one, encoding="utf-8")
    assert toolchain.with_siblings(alone, tmp_path) is None


@pytest.mark.parametrize("name", ["bf16", "bf16x2", "f16x2", "tf32", "b128"])
def test_types_that_are_not_followed_are_refused(name: str) -> None:
    assert listing.kind_of(("rn", "f32")) == "f32"
    with pytest.raises(Unsupported, match=name):
        listing.kind_of(("rn", name))
