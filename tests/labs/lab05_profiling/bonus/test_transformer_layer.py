"""Checks of the transformer layer: its cost, its parts' times, and what holds it up.

Costs come from the counting machine, times from a made-up device (probes/layer_profile.py), and
the finding is computed here again from the file.
"""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from grading.checks import counting, task
from grading.checks.assertions import fail, near
from grading.checks.fixtures import SEED_VARIABLE, recordings
from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError, LabError
from profiling_lab.findings import Finding, problems

PROBE = Path(__file__).resolve().with_name("probes") / "layer_profile.py"
PARTS = (
    *("norm_1", "qkv", "attention", "out", "residual_1"),
    *("norm_2", "up", "gelu", "down", "residual_2"),
)
ELEMENT = {"float32": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "float64": 8}


# -- layer_cost -----------------------------------------------------------------------------------


def counted(
    batch: int, tokens: int, hidden: int, heads: int, ffn: int, causal: bool
) -> dict[str, tuple[int, int]]:
    """Operations and elements of each part, by walking every step."""
    rows = batch * tokens
    norm = counting.layer_norm(rows, hidden, True)
    add = counting.elementwise(rows * hidden, [1], True)
    head = hidden // heads
    machines = {
        "norm_1": norm,
        "qkv": counting.matmul(rows, hidden, 3 * hidden),
        "attention": counting.attention(batch, heads, tokens, tokens, head, heads, causal, True),
        "out": counting.matmul(rows, hidden, hidden),
        "residual_1": add,
        "norm_2": norm,
        "up": counting.matmul(rows, hidden, ffn),
        "gelu": counting.elementwise(rows * ffn, [0], True),
        "down": counting.matmul(rows, ffn, hidden),
        "residual_2": add,
    }
    return {name: (machine.flops, machine.elements) for name, machine in machines.items()}


@task("lab05_bonus.layer_cost")
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bf16", "float64"])
def test_each_part_is_counted(stub: Any, seed: int, causal: bool, dtype: str) -> None:
    pick = random.Random(seed)
    batch, tokens = pick.sample([2, 3, 5], 2)
    heads = pick.choice([2, 3])
    shape = {"batch": batch, "tokens": tokens, "hidden": 2 * heads, "heads": heads, "ffn": 7}
    call = f"layer_cost(**{shape}, dtype={dtype!r}, causal={causal})"
    got = stub.layer_cost(**shape, dtype=dtype, causal=causal)
    if not isinstance(got, dict) or tuple(got) != PARTS:
        fail(f"{call} returned the parts {list(got)}, expected {list(PARTS)}, in this order")
    for name, (flops, elements) in counted(**shape, causal=causal).items():
        want = {"flops": flops, "bytes": elements * ELEMENT[dtype]}
        if got[name] == want and all(type(value) is int for value in got[name].values()):
            continue
        hint = "Walked step by step, this is what it does and moves."
        if name == "attention":
            hint = (
                "Each token attends to itself and to those before it; each pair of query and key "
                "is one dot product and one weighted row."
                if causal
                else "Every token attends to every token of its own sequence, and to no other's."
            )
        fail(
            f"{call}: {name} is {got[name]}, expected {want} (operations, bytes: whole numbers). "
            f"{hint}"
        )


@task("lab05_bonus.layer_cost")
def test_causal_is_the_default(stub: Any) -> None:
    shape = {"batch": 2, "tokens": 3, "hidden": 4, "heads": 2, "ffn": 5, "dtype": "bf16"}
    short, full = stub.layer_cost(**shape), stub.layer_cost(**shape, causal=True)
    if short != full:
        fail("layer_cost without `causal` differs from causal=True, which the signature says")


@task("lab05_bonus.layer_cost")
def test_layers_that_do_not_exist(stub: Any) -> None:
    good: dict[str, Any] = {"batch": 1, "tokens": 2, "hidden": 4, "heads": 2, "ffn": 1}
    for size in good:
        for bad in (0, -1, 1.5):
            with stub.raises(ValueError, size, why=f"{size} is {bad}: no tensor has such a size"):
                stub.layer_cost(**(good | {size: bad}), dtype="bf16")
    with stub.raises(ValueError, "heads", why="4 columns cannot be split into 3 equal heads"):
        stub.layer_cost(**(good | {"heads": 3}), dtype="bf16")
    with stub.raises(LabError, "bfloat16", why="there is no such data type"):
        stub.layer_cost(**good, dtype="float17")
    stub.layer_cost(**(good | {"tokens": 1, "hidden": 1, "heads": 1}), dtype="bf16")


# -- profile_layer --------------------------------------------------------------------------------

WAIT_COST_NS = 700  # of the probe's made-up device


def expected_profile(
    plan: list[list[Any]], idle: list[str], scale: list[int], repeats: int, warmup: int
) -> dict[str, Any]:
    """What the made-up device does, by hand."""

    def factor(call: int) -> int:
        return scale[min(call, len(scale) - 1)]

    wholes = []
    for call in range(warmup, warmup + repeats):
        now = free = 0
        for _, before, host, device in plan:
            now += before * factor(call)
            free = max(free, now) + before * factor(call)
            now += host * factor(call)
            free = max(free, now) + device * factor(call)
        wholes.append(max(now, free) + WAIT_COST_NS)
    parts = {}
    for name in dict.fromkeys([*(row[0] for row in plan), *idle]):
        sums = [
            sum(
                (host + device) * factor(call) + WAIT_COST_NS
                for other, _, host, device in plan
                if other == name
            )
            for call in range(warmup + repeats, warmup + 2 * repeats)
        ]
        parts[name] = statistics.median(sums)
    whole = statistics.median(wholes)
    return {"whole_ns": whole, "parts_ns": parts, "outside_ns": whole - sum(parts.values())}


def judge_profile(
    stub: Any, plan: list[list[Any]], idle: list[str], scale: list[int], options: dict[str, int]
) -> None:
    """Profile the made-up layer and compare each number."""
    told = stub.probe(PROBE, "profiled", plan, idle, scale, options)
    repeats, warmup = options.get("repeats", 5), options.get("warmup", 2)
    call = f"profile_layer(…, repeats={repeats}, warmup={warmup})"
    if told["raised"]:
        fail(f"{call} raised {told['raised']} on a layer that works")
    want = expected_profile(plan, idle, scale, repeats, warmup)
    got, calls = told["result"], warmup + 2 * repeats
    if told["calls"] != calls:
        fail(
            f"{call} called the layer {told['calls']} times, expected {calls}: the warm-up, then the "
            "untouched calls, then as many with parts timed"
        )
    if not isinstance(got, dict) or got.keys() != want.keys():
        fail(f"{call} returned {got!r}, expected a dict of {', '.join(want)}")
    if not near(got["whole_ns"], want["whole_ns"]):
        fail(
            f"{call}: whole_ns is {got['whole_ns']}, expected {want['whole_ns']} ns, the median of "
            "calls that nothing disturbs: host and device work side by side in them, the clock is "
            "read when the device has finished, and the first, slow calls are not among them"
        )
    if not isinstance(got["parts_ns"], dict) or list(got["parts_ns"]) != list(want["parts_ns"]):
        fail(
            f"{call}: parts_ns names {list(got['parts_ns'])}, expected the layer's direct children "
            f"{list(want['parts_ns'])}, with those that did not run"
        )
    for name, right in want["parts_ns"].items():
        if not near(got["parts_ns"][name], right):
            runs = sum(row[0] == name for row in plan)
            fail(
                f"{call}: parts_ns[{name!r}] is {got['parts_ns'][name]}, expected {right} ns: it "
                f"runs {runs} times a call, and each run lasts until the device has done it, the "
                "wait for it included; what the device was asked for before it does not belong to it"
            )
    if not near(got["outside_ns"], want["outside_ns"]):
        fail(
            f"{call}: outside_ns is {got['outside_ns']}, expected {want['outside_ns']} ns: the whole "
            "minus all parts, below 0 where the waits in between cost more than they find"
        )


@task("lab05_bonus.profile_layer")
def test_parts_of_a_known_length(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    names = ["norm", "mix", "feed"]
    plan = [[name, *(pick.randrange(1_000, 90_000) for _ in range(3))] for name in names]
    judge_profile(stub, plan, [], [1], {})


@task("lab05_bonus.profile_layer")
def test_a_part_that_runs_twice_and_one_that_does_not(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    names = ["norm", "mix", "norm", "feed"]
    plan = [[name, *(pick.randrange(1_000, 90_000) for _ in range(3))] for name in names]
    judge_profile(stub, plan, ["dropout"], [1], {"repeats": 2, "warmup": 1})


@task("lab05_bonus.profile_layer")
def test_calls_that_differ(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    plan = [[name, *(pick.randrange(1_000, 9_000) for _ in range(3))] for name in ("a", "b")]
    judge_profile(stub, plan, [], [90, 3, 40, 2, 7, 30, 5], {"repeats": 3, "warmup": 1})


@task("lab05_bonus.profile_layer")
def test_nothing_stays_behind(stub: Any) -> None:
    plan = [["a", 10, 20, 30], ["b", 10, 20, 30]]
    for fail_at in (None, 0, 2, 4):
        told = stub.probe(
            PROBE, "profiled", plan, [], [1], {"repeats": 2, "warmup": 1}, fail_at=fail_at
        )
        if told["raised"] != (None if fail_at is None else "ArithmeticError"):
            fail(
                f"profile_layer: call {fail_at} of the layer raised ArithmeticError, and what came out "
                f"was {told['raised']}: the caller has to know that the layer failed"
            )
        if told["left"]:
            when = "" if fail_at is None else f" after call {fail_at} failed"
            fail(
                f"profile_layer left hooks on {', '.join(told['left'])}{when}: from then on every "
                "call of the layer waits for the device"
            )


@task("lab05_bonus.profile_layer")
def test_nothing_to_profile(stub: Any) -> None:
    plan = [["a", 1, 1, 1]]
    for options in ({"repeats": 0}, {"repeats": -1}, {"warmup": -1}):
        told = stub.probe(PROBE, "profiled", plan, [], [1], options)
        if told["raised"] != "ValueError":
            fail(f"profile_layer(…, **{options}) gave {told}, expected a ValueError")
    told = stub.probe(PROBE, "profiled", plan, [], [1], {"repeats": 1, "warmup": 0})
    if told["raised"]:
        fail("profile_layer(…, repeats=1, warmup=0) raised: a single cold call can be timed, too")
    if stub.probe(PROBE, "without_children") != "ValueError":
        fail("profile_layer of a layer without children: expected a ValueError, there are no parts")


# -- layer_bottleneck -----------------------------------------------------------------------------


def elements_and_flops(case: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Operations and elements of each part, in closed form: recorded shapes are too large to walk."""
    rows, hidden, ffn = case["batch"] * case["tokens"], case["hidden"], case["ffn"]
    norm = counting.closed("layer_norm", {"rows": rows, "width": hidden})
    add = counting.closed(
        "elementwise", {"element_count": rows * hidden, "extra_inputs": [1], "fused": True}
    )
    gelu = {"element_count": rows * ffn, "extra_inputs": [0], "fused": True}
    attention = {
        **{"batch": case["batch"], "heads": case["heads"], "head_dim": hidden // case["heads"]},
        **{"query_tokens": case["tokens"], "key_tokens": case["tokens"]},
        **{"causal": case["causal"], "fused": True},
    }

    def product(inner: int, columns: int) -> tuple[int, int]:
        return counting.closed("matmul", {"m": rows, "k": inner, "n": columns})

    found = (
        *(norm, product(hidden, 3 * hidden), counting.closed("attention", attention)),
        *(product(hidden, hidden), add, norm, product(hidden, ffn)),
        *(counting.closed("elementwise", gelu), product(ffn, hidden), add),
    )
    return dict(zip(PARTS, found, strict=True))


def expected_finding(case: dict[str, Any], device: str) -> tuple[str, str, dict[str, float]]:
    """Category, subject and evidence, from the file and the device table."""
    found = devices.get(device)
    size = ELEMENT[case["dtype"]]
    rows = []
    for part in case["parts"]:
        flops, elements = elements_and_flops(case)[part["name"]]
        memory = elements * size / found.memory_bandwidth_bytes_per_s * 1e9
        compute = flops / found.peak(case["dtype"]) * 1e9
        took = statistics.median(part["inside"])
        rows.append((took - max(memory, compute), part["name"], took, memory, compute))
    window = statistics.median(case["whole"]["window"])
    device_ns = statistics.median(case["whole"]["device"])
    total = sum(row[2] for row in rows)
    at_once = statistics.median(case["whole"]["window_in_graph"])
    launch = window - at_once if window > at_once else 0
    evidence = {"window_ns": window, "launch_ns": launch, "sum_ratio": total / device_ns}
    if launch > window / 2:
        return "launch_bound", "range:layer", evidence | {"recoverable_ns": launch}
    above, name, took, memory, compute = max(rows, key=lambda row: row[0])
    category = "memory_bound" if memory > compute else "compute_bound"
    if max(memory, compute) < took / 2:
        category = "above_roof"
    evidence |= {"recoverable_ns": above, "part_ns": took, "share_ratio": took / total}
    return category, f"range:{name}", evidence | {"memory_ns": memory, "compute_ns": compute}


WHY = {
    "window_ns": "the median of the layer's `window` samples",
    "launch_ns": "what the window has more than the window in a graph, and at least 0",
    "sum_ratio": "the parts' times together over the layer's own time on the device",
    "recoverable_ns": "what this cause costs: the launches, or the part's time above its floor",
    "part_ns": "the median of the part's `inside` samples",
    "share_ratio": "the part's time over that of all parts",
    "memory_ns": "the part's bytes over the device's bandwidth",
    "compute_ns": "the part's operations over the device's peak for this data type",
}


def judge_layer(stub: Any, capture: str, case: dict[str, Any], device: str, more: str) -> None:
    """Compare the finding for one case."""
    got = stub.layer_bottleneck(capture, case["name"])
    call = f"layer_bottleneck({Path(capture).name!r}, {case['name']!r}){more}"
    category, subject, evidence = expected_finding(case, device)
    if type(got) is not Finding:
        fail(f"{call} returned {got!r}, expected a Finding")
    said = (got.category, got.subject)
    if said != (category, subject):
        window, launch = evidence["window_ns"], evidence["launch_ns"]
        facts = (
            f"issued as a graph, the same work saves {launch:,.0f} of {window:,.0f} ns, which is "
            f"{'more' if launch * 2 > window else 'not more'} than half"
        )
        if category != "launch_bound":
            floor = max(evidence["memory_ns"], evidence["compute_ns"])
            facts += (
                f"; {subject.removeprefix('range:')} has the most time above its floor: "
                f"{evidence['part_ns']:,.0f} ns, of which bytes take at least "
                f"{evidence['memory_ns']:,.0f} and operations {evidence['compute_ns']:,.0f}, so the "
                f"floor is {floor / evidence['part_ns']:.0%} of it"
            )
        fail(f"{call} returned {said}, which the recording contradicts: {facts}")
    for key, right in evidence.items():
        if not near(got.evidence.get(key), right):
            fail(
                f"{call}: evidence {key!r} is {got.evidence.get(key)!r}, expected {right:.6g}: "
                f"{WHY[key]}"
            )
    if faults := problems(got):
        fail(f"{call}: {'; '.join(faults)}")


@task("lab05_bonus.layer_bottleneck")
@recordings("layer_prefill", "layer_few", holding="layer.json")
def test_recorded_layers(stub: Any, recording: str) -> None:
    table = json.loads(captures.text(recording, "layer.json"))
    for case in table["cases"]:
        judge_layer(stub, recording, case, table["device"], "")


def made_up(pick: random.Random, kind: str, dtype: str) -> tuple[dict[str, Any], str]:
    """A case with a known cause, on a device that need not be the recordings' own."""
    device = pick.choice(["H200", "A100 40GB", "H100 SXM"])
    wide = 64 * pick.randrange(16, 40)
    shape = {"batch": pick.choice([1, 3]), "tokens": 17, "hidden": wide, "heads": 16, "ffn": 64}
    if kind == "memory_bound":
        shape |= {"tokens": 2}
    if kind == "compute_bound":
        shape |= {"tokens": 4_096, "ffn": 2 * wide}
    case: dict[str, Any] = {"name": f"{kind} {dtype}", **shape, "dtype": dtype, "causal": True}
    found, size = devices.get(device), ELEMENT[dtype]
    floors = {
        name: max(
            elements * size / found.memory_bandwidth_bytes_per_s * 1e9,
            flops / found.peak(dtype) * 1e9,
        )
        for name, (flops, elements) in elements_and_flops(case).items()
    }
    took = {name: floor * 1.05 + 3 for name, floor in floors.items()}
    if kind == "above_roof":  # short, and far above its floor; others are longer
        took["norm_2"] = floors["norm_2"] + 0.4 * max(took.values()) + floors["norm_2"] * 3
    elif kind == "memory_bound":
        took["qkv"] = floors["qkv"] * 1.6
    elif kind == "compute_bound":
        took["down"] = floors["down"] * 1.5

    def samples(value: float, count: int) -> list[float]:
        """Samples with this median, and outliers that pull the mean."""
        low = [value * (1 - 0.01 * i) for i in range(1, count // 2 + 1)]
        high = [value * (1.3 + i) for i in range(count // 2)]
        mixed = [*low, value, *high]
        pick.shuffle(mixed)
        return mixed

    on_device = sum(took.values()) * 0.95
    window = on_device * {"launch_bound": 1.5, "above_roof": 0.9}.get(kind, 2.4)
    at_once = window * {"launch_bound": 0.4, "above_roof": 1.1}.get(kind, 0.97)
    order = list(PARTS)
    pick.shuffle(order)
    case["parts"] = [
        {
            "name": name,
            "inside": samples(took[name], 7),
            "alone_cold": samples(took[name] * 3, 5),
            "alone_warm": samples(took[name] / 3, 5),
            "host": samples(took[name] * 5, 5),
        }
        for name in order
    ]
    case["whole"] = {
        "device": samples(on_device, 9),
        "marked": samples(on_device * 1.2, 9),
        "window": samples(window, 5),
        "window_in_graph": samples(at_once, 5),
        "host": samples(window * 1.1, 5),
    }
    return case, device


@task("lab05_bonus.layer_bottleneck")
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("launch_bound", "bfloat16"),
        ("memory_bound", "float32"),
        ("compute_bound", "bfloat16"),
        ("compute_bound", "float32"),
        ("above_roof", "bfloat16"),
    ],
)
def test_layers_with_a_known_cause(
    stub: Any, seed: int, tmp_path: Path, kind: str, dtype: str
) -> None:
    case, device = made_up(random.Random(f"{seed} {kind} {dtype}"), kind, dtype)
    other, _ = made_up(random.Random(seed), "memory_bound", "bfloat16")
    table = {"format": 1, "unit": "ns", "device": device, "cases": [other | {"name": "x"}, case]}
    (tmp_path / "layer.json").write_text(json.dumps(table))
    more = f" (generated; {SEED_VARIABLE}={seed} repeats it)"
    assert expected_finding(case, device)[0] == kind, f"the generator is wrong{more}"
    judge_layer(stub, str(tmp_path), case, device, more)


@task("lab05_bonus.layer_bottleneck")
@pytest.mark.parametrize(("window", "category"), [(40, "above_roof"), (41, "launch_bound")])
def test_half_of_the_window(stub: Any, tmp_path: Path, window: int, category: str) -> None:
    shape = {"batch": 1, "tokens": 1, "hidden": 2, "heads": 1, "ffn": 1, "causal": True}
    # With gelu this short, up and down have most above their floors, and equally much.
    parts = [{"name": name, "inside": [1 if name == "gelu" else 2]} for name in PARTS]
    case = {
        **{"name": "half", **shape, "dtype": "bfloat16", "parts": parts},
        "whole": {"device": [30], "window": [window], "window_in_graph": [20]},
    }
    table = {"format": 1, "unit": "ns", "device": "H200", "cases": [case]}
    (tmp_path / "layer.json").write_text(json.dumps(table))
    assert expected_finding(case, "H200")[0] == category
    judge_layer(stub, str(tmp_path), case, "H200", f" (window {window} ns, in a graph 20 ns)")


@task("lab05_bonus.layer_bottleneck")
@pytest.mark.parametrize(("took", "category"), [(2.0, "memory_bound"), (2.01, "above_roof")])
def test_half_of_a_part(stub: Any, tmp_path: Path, took: float, category: str) -> None:
    # On an H200 the 4,800 bytes of an addition of 800 bfloat16 take 1 ns.
    shape = {"batch": 1, "tokens": 1, "hidden": 800, "heads": 1, "ffn": 1, "causal": True}
    case: dict[str, Any] = {"name": "half", **shape, "dtype": "bfloat16"}
    floors = {
        name: elements * 2 / 4_800 for name, (_, elements) in elements_and_flops(case).items()
    }
    case["parts"] = [{"name": name, "inside": [floors[name] + 0.5]} for name in PARTS]
    case["parts"][4]["inside"] = [took]
    case["whole"] = {"device": [9], "window": [9], "window_in_graph": [9]}
    table = {"format": 1, "unit": "ns", "device": "H200", "cases": [case]}
    (tmp_path / "layer.json").write_text(json.dumps(table))
    assert expected_finding(case, "H200")[:2] == (category, "range:residual_1")
    judge_layer(stub, str(tmp_path), case, "H200", f" ({took} ns for a floor of 1 ns)")


@task("lab05_bonus.layer_bottleneck")
def test_a_case_that_was_not_recorded(stub: Any, tmp_path: Path) -> None:
    case, device = made_up(random.Random(1), "memory_bound", "bfloat16")
    table = {"format": 1, "unit": "ns", "device": device, "cases": [case]}
    (tmp_path / "layer.json").write_text(json.dumps(table))
    with stub.raises(CaptureError, "memory_bound bfloat16", why="the file has one other case"):
        stub.layer_bottleneck(str(tmp_path), "decode")
