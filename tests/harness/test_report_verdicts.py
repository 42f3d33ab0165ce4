"""A report on the engine's verdict: what it says first, what a trace looks like, tables by name and by shape."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from grading.checks.generate.drawn_timeline import Timeline
from grading.checks.generate.kineto import Trace
from profiling_lab.analysis import columns, kineto_columns, nesting, operator_work, spent, steps
from profiling_lab.analysis.columns import Ranges
from profiling_lab.analysis.kineto_columns import InputShape
from profiling_lab.captures import inputs
from profiling_lab.cli import lab
from profiling_lab.diagnosis import contributors, engine
from profiling_lab.reports import (
    CaptureSection,
    flame,
    from_verdict,
    render_report,
    trace_lanes,
)
from profiling_lab.reports.model import sentence

ROOT = Path(__file__).resolve().parents[2]
US = 1_000


def drawn(folder: Path) -> Trace:
    """Two steps on thread 1 with an operator in another, a product and a copy on the device, and Python around."""
    trace = Trace(folder)
    trace.python("train.py(7): main", 0, 900 * US)
    trace.python("nn.Module: Linear_0", 100 * US, 300 * US)
    for number, start in ((3, 0), (4, 400 * US)):
        trace.step(number, start, start + 400 * US)
        trace.operator("aten::linear", start + 100 * US, start + 200 * US)
        trace.operator("aten::addmm", start + 120 * US, start + 180 * US)
        on = {"call": (start + 130 * US, start + 140 * US)}
        trace.kernel(start + 150 * US, start + 350 * US, name="gemm", **on)
        trace.copy(
            start + 360 * US, start + 370 * US, "H2D", call=(start + 190 * US, start + 195 * US)
        )
    trace.call("cudaDeviceSynchronize", 790 * US, 795 * US)
    return trace


def read(folder: Path) -> kineto_columns.Trace:
    """What the library reads of it."""
    return kineto_columns.read(Path(drawn(folder).save()) / "trace.json.gz")


def section(*names: str) -> CaptureSection:
    """The section of a capture, with the engine's verdict."""
    (part,) = inputs.read(list(names))
    return from_verdict.sections(engine.judge([part]), [part])[0]


# -- lanes of a trace ---------------------------------------------------------------------------------


def test_a_trace_in_lanes(tmp_path: Path) -> None:
    trace = read(tmp_path)
    window = trace.window_ns
    assert window is not None
    lanes = trace_lanes.lanes_of(trace, window)
    told = [(one.group, one.label, list(dict.fromkeys(one.names))) for one in lanes]
    assert told == [
        ("Host", "Ranges", ["ProfilerStep#3", "ProfilerStep#4"]),
        ("Host", "Operators", ["aten::linear"]),
        ("Host", "", ["aten::addmm"]),
        ("Host", "Python", ["train.py(7): main"]),
        ("Host", "", ["nn.Module: Linear_0"]),
        ("Host", "CUDA calls", ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaDeviceSynchronize"]),
        ("GPU 0", "Stream 7", ["gemm", "Copy, host to device"]),
    ]
    calls, device = lanes[-2:]
    assert calls.kinds == ["api"] * 4 + ["wait"]
    assert device.kinds == ["kernel", "copy_in"] * 2
    assert [calls.launches[at] for at in (0, 1)] == [device.launches[at] for at in (0, 1)]
    assert 0 not in device.launches and calls.launches[-1] not in device.launches


def test_nothing_is_drawn_below_the_deepest_row(tmp_path: Path) -> None:
    trace = Trace(tmp_path)
    for depth in range(20):
        trace.operator(f"op{depth}", depth, 1_000 - depth)
    trace.kernel(500, 900)
    made = kineto_columns.read(Path(trace.save()) / "trace.json.gz")
    lanes = trace_lanes.lanes_of(made, (-1_000, 2_000))
    assert sum(one.kinds[0] == "operator" for one in lanes) == trace_lanes.DEEPEST


def test_collectives_look_different_from_kernels_in_traces_and_timelines(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace")
    timeline = Timeline(tmp_path / "timeline.sqlite")
    for made in (trace, timeline):
        made.kernel(10_000, 20_000, name="ncclDevKernel_AllReduce", call=(1_000, 2_000))
        made.kernel(30_000, 40_000, name="gemm", call=(3_000, 4_000))
    for file in (trace.save(), timeline.save()):
        [lane] = [one for one in section(str(file)).lanes if one.device is not None]
        assert lane.kinds == ["collective", "kernel"]


def test_memory_of_a_trace(tmp_path: Path) -> None:
    trace = drawn(tmp_path)
    trace.memory(10 * US, 512, 700)
    trace.memory(500 * US, -512, 188)
    trace.memory(600 * US, 512, None)
    made = kineto_columns.read(Path(trace.save()) / "trace.json.gz")
    in_use, held = trace_lanes.memory_of(made, (100 * US, 800 * US))
    # What was in use before the window still is when it begins; an event without a total is none.
    assert (in_use.timestamp_ns, in_use.values) == ([10 * US, 500 * US], [700, 188])
    assert held.values == [2_000_700, 2_000_188] and in_use.maximum == 2_000_700
    assert in_use.holds_on and in_use.unit == "bytes" and in_use.key == "memory"
    assert not trace_lanes.memory_of(made, (0, 5 * US)), "what comes later is no value"


def test_ranks_on_one_clock(tmp_path: Path) -> None:
    first = read(tmp_path / "0")
    late = drawn(tmp_path / "1")
    late.clock_ns += 40
    second = kineto_columns.read(Path(late.save()) / "trace.json.gz")
    assert trace_lanes.shifts({"0": first, "1": second}) == {"0": 0, "1": 40}
    second.epoch_ns = None
    assert trace_lanes.shifts({"0": first, "1": second}) == {}
    lanes = trace_lanes.lanes_of(first, (40, 800 * US), rank="0", shift_ns=40)
    assert lanes[0].group == "Rank 0, host" and lanes[0].start_ns[0] == 40
    assert lanes[-1].group == "Rank 0, GPU 0" and lanes[-1].rank == "0"


# -- what a page says ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["loader_few", "torch_train_sync", "ddp_traces_straggler"])
def test_the_verdict_is_the_headline(name: str) -> None:
    made = section(name)
    (part,) = inputs.read([name])
    main = engine.judge([part]).findings[0]
    page = render_report([made], title=name)
    hero = page[page.index('class="hero"') :]
    assert f"{main.evidence['recoverable_ratio']:.0%}" in hero[:600]
    assert made.claim in hero[:600] and f"{sentence(made.first)}." in hero[:900]
    assert hero.index(made.claim) < hero.index("were looked at")
    labels = re.findall(r"<dt>([^<]*)</dt>", page)
    said = " ".join(labels).lower()
    assert not re.search(r"margin ratio|ceiling ratio|unjudged|from the floor|recoverable", said)


@pytest.mark.parametrize("name", ["loader_few", "torch_train_sync", "case_retrieval_b"])
def test_the_parts_of_a_window_add_up_and_idle_gaps_say_what_they_are(name: str) -> None:
    made = section(name)
    assert sum(share.ns for share in made.shares()) == made.duration_ns
    assert all(share.kind for share in made.shares()), "a part without a colour of its own"
    looks = [share.kind for share in made.shares()]
    assert len(set(looks)) == len(looks), "two parts of one colour"
    assert made.gaps and all(gap.note for gap in made.gaps)
    lengths = [gap.end_ns - gap.start_ns for gap in made.gaps]
    assert lengths == sorted(lengths, reverse=True)


def test_every_class_of_time_has_a_look_of_its_own() -> None:
    assert set(from_verdict.LOOKS) == set(spent.CLASSES)
    assert len(set(from_verdict.LOOKS.values())) == len(spent.CLASSES)


def test_a_pair_of_traces_is_compared_on_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    names = ["torch_train_clean", "torch_train_sync"]
    run = CliRunner().invoke(lab, ["report", *names, "-o", str(page)])
    assert run.exit_code == 0, run.output
    text = page.read_text(encoding="utf-8")
    hero = text[text.index('class="hero"') : text.index('id="findings"')]
    assert "slower" in hero and hero.count("<b>") == 2, "each one's verdict is not at the top"


# -- by name ------------------------------------------------------------------------------------------


def test_device_time_goes_to_the_operator_that_launched_it(tmp_path: Path) -> None:
    trace = read(tmp_path)
    recording, window = trace.recording, trace.window_ns
    assert window is not None
    told = {row["name"]: row for row in contributors.nested(recording, recording.operators, window)}
    outer, inner = told["aten::linear"], told["aten::addmm"]
    assert (inner["own_device_ns"], inner["device_ns"]) == (400 * US, 400 * US)
    assert (outer["own_device_ns"], outer["device_ns"]) == (20 * US, 420 * US)
    assert (outer["total_ns"], outer["own_host_ns"], outer["count"]) == (200 * US, 80 * US, 2)
    ranges = contributors.nested(recording, recording.ranges, window)
    assert [row["name"] for row in ranges] == ["ProfilerStep#…"], "serial numbers part what is one"


def test_a_name_inside_itself_counts_once() -> None:
    table = Ranges(
        np.array([0, 10, 50]), np.array([40, 30, 60]), np.array([0, 0, 0]), np.zeros(3, dtype=int)
    )
    none = columns.HostCalls(*(np.zeros(0, dtype=np.int64) for _ in range(7)))
    work = columns.DeviceOperations(*(np.zeros(0, dtype=np.int64) for _ in range(12)))

    class Recording:
        calls, operations = none, work

    told = nesting.read(Recording(), table, (0, 55))  # type: ignore[arg-type]
    assert told.outermost.tolist() == [True, False, True]
    assert told.host.tolist() == [40, 20, 5] and told.host_own.tolist() == [20, 20, 5]
    assert told.parent.tolist() == [-1, 0, -1]


def test_steps_from_one_start_to_the_next(tmp_path: Path) -> None:
    drawing = Timeline(tmp_path / "steps.sqlite")
    for number, start in enumerate((0, 1_000, 2_000, 5_000)):
        drawing.nvtx(f"step {number}", start, start + 900)
        drawing.kernel(start + 100, start + 500, call=(start + 10, start + 20))
    (part,) = inputs.read([str(drawing.save())])
    seen = engine.judge([part]).seen[0]
    told = steps.read(seen.recording, seen.window_ns)
    assert [row["length_ns"] for row in told["rows"]] == [1_000, 1_000, 3_000, 900]
    assert [row["busy_ns"] for row in told["rows"]] == [400] * 4
    assert (told["slowest"], told["count"], told["mean_ns"]) == (3, 4, 1_475)
    assert told["name"] == "step …"


def test_a_step_is_over_when_the_device_is_done_with_it(tmp_path: Path) -> None:
    drawing = Timeline(tmp_path / "steps.sqlite")
    for number in range(4):  # the host issues a step in 100 ns, the device takes 1,000 for each
        drawing.nvtx("step", 100 * number, 100 * number + 90)
        begin = 1_000 * number + 50
        drawing.kernel(begin, begin + 1_000, call=(100 * number + 10, 100 * number + 20))
    (part,) = inputs.read([str(drawing.save())])
    seen = engine.judge([part]).seen[0]
    told = steps.read(seen.recording, seen.window_ns)
    assert [row["length_ns"] for row in told["rows"]] == [1_050, 1_000, 1_000, 1_000]
    assert [row["busy_ns"] for row in told["rows"]] == [1_000] * 4


def test_steps_lie_in_what_comes_once_and_hold_what_comes_again(tmp_path: Path) -> None:
    drawing = Timeline(tmp_path / "steps.sqlite")
    drawing.nvtx("training", 0, 3_000)
    for start in (0, 1_000, 2_000):
        drawing.nvtx("step", start, start + 900)
        for part in (
            100,
            300,
            500,
        ):  # as many of a library's own, and more time in all than other ranges
            drawing.nvtx("sort", start + part, start + part + 150)
        drawing.kernel(start + 100, start + 500, call=(start + 10, start + 20))
    (part,) = inputs.read([str(drawing.save())])
    seen = engine.judge([part]).seen[0]
    told = steps.read(seen.recording, seen.window_ns)
    assert (told["name"], told["count"]) == ("step", 3)
    assert [row["length_ns"] for row in told["rows"]] == [1_000, 1_000, 900]


MM = (["c10::BFloat16"] * 2, [[64, 32], [32, 16]])


@pytest.mark.parametrize(
    ("name", "types", "dims", "values", "operations", "moved"),
    [
        ("aten::mm", *MM, (), 2 * 64 * 32 * 16, 2 * (64 * 32 + 32 * 16 + 64 * 16)),
        (
            "aten::addmm", ["float"] * 3, [[16], [64, 32], [32, 16]], (),
            2 * 64 * 32 * 16, 4 * (16 + 64 * 32 + 32 * 16 + 64 * 16),
        ),
        ("aten::bmm", ["float"] * 2, [[5, 4, 3], [5, 3, 2]], (), 240, 4 * (60 + 30 + 40)),
        ("aten::copy_", ["float", "c10::Half"], [[10], [10]], (), None, 60),
        ("aten::gelu", ["float"], [[10]], (), None, 80),
        (
            "aten::_flash_attention_forward", ["c10::Half"] * 3, [[2, 8, 4, 16]] * 3,
            ("",) * 8 + ("False",), 2 * 2 * 4 * 8 * 8 * 32, 2 * 4 * 1_024,
        ),
        (
            "aten::_flash_attention_forward", ["c10::Half"] * 3, [[2, 8, 4, 16]] * 3,
            ("",) * 8 + ("True",), 2 * 4 * 8 * 8 * 32, 2 * 4 * 1_024,
        ),
        (
            "aten::cudnn_convolution", ["float"] * 2, [[1, 3, 8, 8], [6, 3, 3, 3]],
            ("", "", "[1, 1]", "[2, 2]", "[1, 1]"),
            2 * 6 * 4 * 4 * 27, 4 * (192 + 162 + 96),
        ),
    ],
)  # fmt: skip
def test_the_work_of_an_operator(name, types, dims, values, operations, moved) -> None:
    work = operator_work.of(name, InputShape(tuple(dims), tuple(types), tuple(values)))
    assert work is not None and (work.operations, work.bytes) == (operations, moved)


@pytest.mark.parametrize(
    ("name", "types", "dims"),
    [("aten::nonzero", ["float"], [[4]]), ("aten::mm", ["float"], [[4, 4]]), ("aten::mm", [], [])],
)
def test_work_that_is_not_known_is_not_made_up(name, types, dims) -> None:
    assert operator_work.of(name, InputShape(tuple(dims), tuple(types), ())) is None


def test_rates_stand_beside_the_roofs_of_the_device() -> None:
    (part,) = inputs.read(["torch_train_clean"])
    rows = contributors.shapes(engine.judge([part]).seen[0])
    product = next(row for row in rows if row["name"] == "aten::mm")
    # 24576 × 4096 × 4096 in bfloat16 on an H200: its peak is 989 TFLOP/s.
    assert product["dtype"] == "bfloat16" and 0.5 < product["flops_ratio"] < 1
    assert product["flops_per_s"] == pytest.approx(product["flops_ratio"] * 989e12)
    assert all((row.get("bytes_ratio") or 0) < 1.01 for row in rows), "faster than its roof"


def test_a_flame_graph_adds_up(tmp_path: Path) -> None:
    trace = read(tmp_path)
    assert trace.window_ns is not None
    root = flame.of_trace(trace, trace.window_ns)
    (main,) = root["c"]
    assert (main["n"], main["v"], main["k"]) == ("train.py(7): main", 800 * US, "python")
    inside = {frame["n"]: frame for frame in main["c"]}
    assert inside["nn.Module: Linear_0"]["v"] == 200 * US
    assert inside["cudaDeviceSynchronize"]["v"] == 5 * US
    (linear,) = inside["nn.Module: Linear_0"]["c"]
    assert [one["n"] for one in linear["c"]] == ["aten::addmm", "cudaMemcpyAsync"]

    def fits(frame: dict) -> bool:
        inside = frame.get("c", ())
        return sum(one["v"] for one in inside) <= frame["v"] and all(map(fits, inside))

    assert fits(root)
    trace.python = Ranges(*(np.zeros(0, dtype=np.int64) for _ in range(4)))
    assert flame.of_trace(trace, trace.window_ns) == {}


def test_what_to_record_next_is_named_for_the_tool_that_recorded(tmp_path: Path) -> None:
    trace = Trace(tmp_path)
    for start in range(0, 40_000 * US, 1_000 * US):
        trace.kernel(start, start + 100 * US, name="gemm")
    trace.header["deviceProperties"][0]["name"] = "AMD Instinct MI300X"
    trace.save()
    verdict = engine.judge(inputs.read([str(tmp_path)]))
    (finding,) = [f for f in verdict.findings if f.category == "unexplained"]
    assert "with_stack=True" in finding.recommendation and "--trace" not in finding.recommendation
    (said,) = [line for line in verdict.rests_on if "kernels not judged" in line]
    assert "rocprof-compute" in said and "ncu" not in said
