"""Checks of other hardware through the roofline: floors, bounds, and what a measurement adds to them.

Floors are computed here from the device table, once for each number; costs are of recorded shapes
and made up.
"""

from __future__ import annotations

import json
import math
import random
import re
import statistics
from typing import Any

import pytest

from grading.checks import counting, task
from grading.checks.assertions import fail, near
from grading.checks.fixtures import SEED_VARIABLE, recordings
from profiling_lab import captures, devices
from profiling_lab.errors import LabError

FIVE = ["H200", "T4", "V100 SXM2", "A100 40GB", "H100 SXM"]
OLD = {"T4", "V100 SXM2"}  # tensor cores without bfloat16 and TF32
TYPES = {"bf16": "bfloat16", "bfloat16": "bfloat16", "tf32": "tfloat32", "float32": "float32"}


def least(cost: dict[str, int], device: str, dtype: str) -> tuple[float, float]:
    """What bytes and operations take at least, in ns."""
    found = devices.get(device)
    kind = TYPES.get(dtype, dtype)
    if found.name in OLD:
        kind = {"bfloat16": "float16", "tfloat32": "float32"}.get(kind, kind)
    rate = found.peak_flops_per_s[kind]
    return 1e9 * cost["bytes"] / found.memory_bandwidth_bytes_per_s, 1e9 * cost["flops"] / rate


def made_up_costs(pick: random.Random) -> dict[str, dict[str, int]]:
    """Parts far on either side of every ridge, and between the ridges."""
    found = {}
    for number, intensity in enumerate((0.5, 15, 60, 150, 180, 250, 2_000)):
        moved = pick.randrange(10**6, 10**8)
        found[f"part {number}"] = {"flops": round(moved * intensity), "bytes": moved}
    names = list(found)
    pick.shuffle(names)
    return {name: found[name] for name in names}


def recorded_case(case: dict[str, Any]) -> tuple[dict[str, dict[str, int]], dict[str, float]]:
    """Costs and measurements of some parts of a recorded layer."""
    rows, hidden, ffn = case["batch"] * case["tokens"], case["hidden"], case["ffn"]
    size = devices.dtype(case["dtype"]).bytes
    counted = {
        "qkv": counting.closed("matmul", {"m": rows, "k": hidden, "n": 3 * hidden}),
        "out": counting.closed("matmul", {"m": rows, "k": hidden, "n": hidden}),
        "gelu": counting.closed(
            "elementwise", {"element_count": rows * ffn, "extra_inputs": [0], "fused": True}
        ),
        "norm_1": counting.closed("layer_norm", {"rows": rows, "width": hidden}),
        "down": counting.closed("matmul", {"m": rows, "k": ffn, "n": hidden}),
    }
    costs = {
        name: {"flops": f, "bytes": elements * size} for name, (f, elements) in counted.items()
    }
    took = {part["name"]: statistics.median(part["inside"]) for part in case["parts"]}
    return costs, {name: took[name] for name in counted}


# -- predict_on -----------------------------------------------------------------------------------


def judge_prediction(
    stub: Any, costs: dict[str, dict[str, int]], dtype: str, names: list[str], more: str = ""
) -> None:
    got = stub.predict_on(costs, dtype, names)
    call = f"predict_on({len(costs)} parts, {dtype!r}, {names}){more}"
    if not isinstance(got, list) or len(got) != len(names):
        fail(f"{call} returned {got!r}, expected a row for each of {len(names)} devices")
    keys = {"device", "dtype", "note", "parts", "floor_ns", "changed"}
    bounds: list[dict[str, str]] = []
    for name, row in zip(names, got, strict=True):
        if not isinstance(row, dict) or row.keys() != keys:
            fail(
                f"{call}: the row of {name} is {row!r}, expected a dict of {', '.join(sorted(keys))}"
            )
        found = devices.get(name)
        wanted = TYPES.get(dtype, dtype)
        used = wanted
        if found.name in OLD:
            used = {"bfloat16": "float16", "tfloat32": "float32"}.get(wanted, wanted)
        if (row["device"], row["dtype"]) != (found.name, used):
            fail(
                f"{call}: the row of {name} says {row['device']!r}, {row['dtype']!r}; expected "
                f"{found.name!r}, {used!r}: its table has peaks for {', '.join(found.peak_flops_per_s)}"
            )
        words = re.findall(r"\w+", str(row["note"]))  # "float16" is a part of "bfloat16"
        told = wanted in words and used in words
        if (used != wanted) != told or (used == wanted and row["note"] != ""):
            fail(
                f"{call}: the note of {name} is {row['note']!r}; "
                + (
                    f"expected a sentence that names {wanted} and {used}: the numbers are of another "
                    "type than was asked for"
                    if used != wanted
                    else "nothing was substituted there, so it has to be empty"
                )
            )
        if not isinstance(row["parts"], dict) or list(row["parts"]) != list(costs):
            fail(f"{call}: the parts of {name} are {list(row['parts'])}, expected {list(costs)}")
        for part, cost in costs.items():
            memory, compute = least(cost, name, dtype)
            bound = "memory" if compute < memory else "compute"
            said = row["parts"][part]
            if not near(said.get("floor_ns"), max(memory, compute)) or said.get("bound") != bound:
                fail(
                    f"{call}: {part} on {name} is {said}; its {cost['bytes']:,} bytes take "
                    f"{memory:,.1f} ns at least, its {cost['flops']:,} operations {compute:,.1f} ns, side "
                    "by side"
                )
        bounds.append({part: row["parts"][part]["bound"] for part in costs})
        total = sum(max(least(cost, name, dtype)) for cost in costs.values())
        if not near(row["floor_ns"], total):
            fail(
                f"{call}: floor_ns of {name} is {row['floor_ns']!r}, expected {total:,.1f} ns: parts run "
                "one after the other, so their floors add up"
            )
        changed = [part for part in costs if bounds[-1][part] != bounds[0][part]]
        if list(row["changed"]) != changed:
            fail(
                f"{call}: changed of {name} is {row['changed']}, expected {changed}: the parts that stand "
                f"under another roof there than on {names[0]}"
            )


@task("lab05_bonus.predict_on")
@pytest.mark.parametrize("dtype", ["bf16", "float32", "tf32", "float16"])
def test_parts_on_five_devices(stub: Any, seed: int, dtype: str) -> None:
    pick = random.Random(seed)
    names = FIVE[:]
    pick.shuffle(names)
    more = f" (made up; {SEED_VARIABLE}={seed} repeats it)"
    judge_prediction(stub, made_up_costs(pick), dtype, names, more)
    judge_prediction(stub, made_up_costs(pick), dtype, ["V100", "NVIDIA H200"], more)


@task("lab05_bonus.predict_on")
@recordings("layer_prefill", "layer_few", holding="layer.json")
def test_recorded_shapes_elsewhere(stub: Any, recording: str) -> None:
    for case in json.loads(captures.text(recording, "layer.json"))["cases"]:
        judge_prediction(stub, recorded_case(case)[0], case["dtype"], FIVE)


@task("lab05_bonus.predict_on")
def test_what_cannot_be_predicted(stub: Any) -> None:
    good = {"a": {"flops": 1, "bytes": 1}}
    with stub.raises(ValueError, why="there are no parts"):
        stub.predict_on({}, "bf16", ["H200"])
    with stub.raises(ValueError, why="there are no devices"):
        stub.predict_on(good, "bf16", [])
    with stub.raises(LabError, "bandwidths differ|which one|differ", why="there are several A100"):
        stub.predict_on(good, "bf16", ["A100"])
    with stub.raises(LabError, why="no such data type"):
        stub.predict_on(good, "float17", ["H200"])
    with stub.raises(LabError, "float8", why="a T4 has no float8, and nothing stands in for it"):
        stub.predict_on(good, "fp8", ["T4"])


# -- held_against ---------------------------------------------------------------------------------


def measured_somehow(
    pick: random.Random, costs: dict[str, dict[str, int]], device: str, dtype: str
) -> dict[str, float]:
    """Measurements below, near and far above the floors."""
    factors = [0.6, 1.1, 1.4, 1.9, 2.5, 8.0, 1.02]
    pick.shuffle(factors)
    return {
        part: max(least(cost, device, dtype)) * factor
        for (part, cost), factor in zip(costs.items(), factors, strict=True)
    }


def judge_held(
    stub: Any,
    costs: dict[str, dict[str, int]],
    measured: dict[str, float],
    dtype: str,
    device: str,
    more: str = "",
) -> None:
    got = stub.held_against(costs, measured, dtype, device)
    call = f"held_against({len(costs)} parts, …, {dtype!r}, {device!r}){more}"
    if not isinstance(got, list) or [
        row.get("part") if isinstance(row, dict) else row for row in got
    ] != [*costs, "sum"]:
        fail(f"{call} returned {got!r}, expected rows for {[*costs, 'sum']}")
    floors = {part: max(least(cost, device, dtype)) for part, cost in costs.items()}
    for row in got:
        part = row["part"]
        floor = sum(floors.values()) if part == "sum" else floors[part]
        took = sum(measured.values()) if part == "sum" else measured[part]
        want = {"floor_ns": floor, "measured_ns": took, "excess_ratio": took / floor - 1}
        for key, right in want.items():
            if not near(row.get(key), right):
                fail(f"{call}: {key} of {part} is {row.get(key)!r}, expected {right:.6g}")
        verdict = "below" if took < floor else "above_roof" if took > 2 * floor else "near"
        if row.get("verdict") != verdict:
            fail(
                f"{call}: the verdict on {part} is {row.get('verdict')!r}, which its numbers contradict: "
                f"{took:,.1f} ns were measured, and no roof allows less than {floor:,.1f} ns from memory"
            )


@task("lab05_bonus.held_against")
def test_below_near_and_far_above(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    more = f" (made up; {SEED_VARIABLE}={seed} repeats it)"
    for device, dtype in (("H200", "bf16"), ("A100 40GB", "float32")):
        costs = made_up_costs(pick)
        judge_held(stub, costs, measured_somehow(pick, costs, device, dtype), dtype, device, more)


@task("lab05_bonus.held_against")
@recordings("layer_prefill", "layer_few", holding="layer.json")
def test_recorded_parts(stub: Any, recording: str) -> None:
    table = json.loads(captures.text(recording, "layer.json"))
    for case in table["cases"]:
        judge_held(stub, *recorded_case(case), case["dtype"], table["device"])


EXACT = {"exact": {"flops": 1, "bytes": 320 * 1_000}}  # a floor of 1,000 ns on a T4


@task("lab05_bonus.held_against")
def test_on_the_borders(stub: Any) -> None:
    for took in (0.5, 999.0, 1_000.0, 2_000.0, 2_001.0):
        judge_held(stub, EXACT, {"exact": took}, "float16", "T4")


@task("lab05_bonus.held_against")
def test_measurements_that_do_not_fit(stub: Any) -> None:
    costs = {"a": {"flops": 1, "bytes": 1}, "b": {"flops": 1, "bytes": 1}}
    for bad in ({"a": 5.0}, {"a": 5.0, "b": 5.0, "c": 5.0}, {"a": 5.0, "x": 5.0}):
        with stub.raises(ValueError, why="some part was counted or measured, and not both"):
            stub.held_against(costs, bad, "bf16", "H200")
    with stub.raises(ValueError, why="there are no parts"):
        stub.held_against({}, {}, "bf16", "H200")
    for value in (0.0, -3.0, math.nan, math.inf):
        with stub.raises(ValueError, "b", why=f"{value} is no time that anything takes"):
            stub.held_against(costs, {"a": 5.0, "b": value}, "bf16", "H200")
    with stub.raises(LabError, "bfloat16", why="nothing can be measured in a type a T4 lacks"):
        stub.held_against(costs, {"a": 5.0, "b": 5.0}, "bf16", "T4")


# -- speedup_interval -----------------------------------------------------------------------------


def judge_speedup(
    stub: Any,
    costs: dict[str, dict[str, int]],
    measured: dict[str, float],
    dtype: str,
    devices_: tuple[str, str],
    more: str = "",
) -> None:
    got = stub.speedup_interval(costs, measured, dtype, *devices_)
    call = f"speedup_interval({len(costs)} parts, …, {dtype!r}, {', '.join(map(repr, devices_))}){more}"
    keys = {
        *("parts", "low_ns", "high_ns", "low_speedup_ratio", "high_speedup_ratio", "fixed_ratio"),
    }
    if not isinstance(got, dict) or got.keys() != keys:
        fail(f"{call} returned {got!r}, expected a dict of {', '.join(sorted(keys))}")
    if not isinstance(got["parts"], dict) or list(got["parts"]) != list(costs):
        fail(f"{call}: parts are {list(got['parts'])}, expected {list(costs)}")
    lows, highs, fixed = [], [], []
    for part, cost in costs.items():
        old, new = (max(least(cost, device, dtype)) for device in devices_)
        took = measured[part]
        scaled, stays = took / old * new, new + took - old
        if took > 2 * old:
            ends, why = (
                (stays, stays),
                "it took over twice its floor, so the time above the floor stays",
            )
            fixed.append(took)
        elif took < old:
            ends, why = (
                (scaled, scaled),
                "it is below its floor, so there is nothing that could stay",
            )
        else:
            ends = (scaled, stays) if scaled < stays else (stays, scaled)
            why = "what lies above its floor may scale with the roof, or stay"
        said = got["parts"][part]
        if not isinstance(said, (list, tuple)) or len(said) != 2 or not all(map(near, said, ends)):
            fail(
                f"{call}: {part} is {said!r}, expected {[round(end, 3) for end in ends]} ns: it took "
                f"{took:,.1f} ns, the floor goes from {old:,.1f} to {new:,.1f} ns, and {why}"
            )
        lows.append(ends[0])
        highs.append(ends[1])
    total = sum(measured.values())
    want = {
        "low_ns": sum(lows),
        "high_ns": sum(highs),
        "low_speedup_ratio": total / sum(highs),
        "high_speedup_ratio": total / sum(lows),
        "fixed_ratio": sum(fixed) / total,
    }
    for key, right in want.items():
        if not near(got[key], right):
            fail(f"{call}: {key} is {got[key]!r}, expected {right:.6g}, from the sums of the parts")


@task("lab05_bonus.speedup_interval")
@pytest.mark.parametrize(
    ("pair", "dtype"),
    [
        (("H200", "T4"), "bf16"),
        (("T4", "H200"), "float32"),
        (("A100 40GB", "H100 SXM"), "bf16"),
        (("H200", "V100 SXM2"), "tf32"),
    ],
)
def test_from_one_device_to_another(
    stub: Any, seed: int, pair: tuple[str, str], dtype: str
) -> None:
    pick = random.Random(f"{seed} {pair}")
    costs = made_up_costs(pick)
    more = f" (made up; {SEED_VARIABLE}={seed} repeats it)"
    judge_speedup(stub, costs, measured_somehow(pick, costs, pair[0], dtype), dtype, pair, more)


@task("lab05_bonus.speedup_interval")
@recordings("layer_prefill", "layer_few", holding="layer.json")
def test_the_recorded_layer_elsewhere(stub: Any, recording: str) -> None:
    table = json.loads(captures.text(recording, "layer.json"))
    for case in table["cases"]:
        for device in ("T4", "A100 40GB"):
            costs, took = recorded_case(case)
            judge_speedup(stub, costs, took, case["dtype"], (table["device"], device))


@task("lab05_bonus.speedup_interval")
def test_the_same_device_changes_nothing(stub: Any) -> None:
    for took in (700.0, 1_000.0, 1_500.0, 2_000.0, 5_000.0):
        judge_speedup(stub, EXACT, {"exact": took}, "float16", ("T4", "T4"))
        judge_speedup(stub, EXACT, {"exact": took}, "float16", ("T4", "V100 SXM2"))


@task("lab05_bonus.speedup_interval")
def test_no_interval_without_a_measurement(stub: Any) -> None:
    costs = {"a": {"flops": 1, "bytes": 1}}
    with stub.raises(ValueError, why="nothing was measured"):
        stub.speedup_interval(costs, {}, "bf16", "H200", "T4")
    with stub.raises(LabError, why="nothing can be measured in bfloat16 on a T4"):
        stub.speedup_interval(costs, {"a": 1.0}, "bf16", "T4", "H200")
