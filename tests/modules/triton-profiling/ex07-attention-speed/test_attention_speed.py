"""Checks of `triton_ex07`: what a device allows, what recordings of a kernel's steps say, and the kernel.

Floors are counted score by score or from the device table, rows of captures are computed here from the files.
"""

from __future__ import annotations

import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from grading.checks import ncu, task
from grading.checks.assertions import agree, judge, require, show
from grading.checks.fixtures import recordings
from grading.checks.generate.ncu import Raw
from profiling_lab import captures, devices

PROBE = Path(__file__).resolve().with_name("probes") / "attention_live.py"
WAY, COUNTERS = "attention_way", "ncu_attention"
NS = {"ns": 1, "us": 1e3, "ms": 1e6}


def judge_rows(call: str, got: Any, want: list[dict[str, Any]], why: dict[str, str]) -> None:
    """Fail unless got are the rows want, in their order."""
    names = [row.get("name", row.get("without")) for row in want]
    require(
        isinstance(got, list) and len(got) == len(want),
        f"{call} returned {show(got)}, expected a list of {len(want)} rows: {names}",
    )
    for place, (row, right) in enumerate(zip(got, want, strict=True)):
        judge(f"{call}, row {place} ({names[place]})", row, right, "in the units of the names", why)


# -- what the device allows -------------------------------------------------------------------------

WHY_LEAST = {
    "matrix_ns": "Two products a score, each of `head` multiply-adds of 2 operations, at the peak in bfloat16.",
    "exponential_ns": "One a score: what all multiprocessors do in a cycle, times the cycles of a second.",
    "memory_ns": "Four tensors of batch by heads by tokens by head, two bytes an element, each once.",
    "overlapped_ns": "Side by side, the longest decides.",
    "serial_ns": "One after the other they add up.",
}


@task("triton_ex07.least_times_ns")
def test_floors(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    cases: list[tuple[tuple[int, int, int, int], bool, str, float]] = [
        ((4, 32, 8192, 128), False, "H200", 1980.0),
        ((4, 32, 8192, 128), True, "H200", 1830.0),
        ((1, 1, 3, 64), True, "H100 SXM", 1700.0),
        ((2, 3, 5, 16), False, "A100 SXM 80 GB", 1410.0),
    ]
    known = [name for name in devices.names() if _can(name)]
    cases = [case for case in cases if case[2] in known] + [
        (
            (
                pick.randint(1, 4),
                pick.randint(1, 32),
                pick.randint(2, 300),
                2 ** pick.randint(4, 8),
            ),
            causal,
            pick.choice(known),
            float(pick.randint(900, 2000)),
        )
        for causal in (False, True, True)
    ]
    for shape, causal, name, clock_mhz in cases:
        batch, heads, tokens, head = shape
        device = devices.get(name)
        seen = batch * heads * sum(row + 1 if causal else tokens for row in range(tokens))
        matrix = seen * head * 2 * 2 / device.peak("bfloat16")
        exponential = seen / (16 * int(device.sm_count or 0) * clock_mhz * 1e6)
        memory = 4 * batch * heads * tokens * head * 2 / device.memory_bandwidth_bytes_per_s
        want = {
            "matrix_ns": matrix * 1e9,
            "exponential_ns": exponential * 1e9,
            "memory_ns": memory * 1e9,
            "overlapped_ns": max(matrix, exponential, memory) * 1e9,
            "serial_ns": (matrix + exponential + memory) * 1e9,
        }
        got = stub.least_times_ns(shape, causal, name, clock_mhz)
        judge(
            f"least_times_ns({shape}, {causal}, {name!r}, {clock_mhz})", got, want, "ns", WHY_LEAST
        )


def _can(name: str) -> bool:
    device = devices.get(name)
    return "bfloat16" in device.peak_flops_per_s and bool(device.sm_count)


# -- rates ------------------------------------------------------------------------------------------

WHY_RATES = {
    "name": "Slowest first.",
    "median_ns": "The median of device_time, in ns whatever the file's unit.",
    "tflops": "4 · batch · heads · tokens² · head operations, half of them with causal, a second, in 10¹².",
    "over_flash_ratio": "The rate over that of the row named flash: above 1 is faster.",
    "of_fastest_ratio": "The rate over the highest of all rows.",
}


def rates_of(capture: str, causal: bool) -> list[dict[str, Any]]:
    table = json.loads(captures.text(capture, "measurements.json"))
    found = []
    for row in table["steps"]:
        if row["causal"] is causal:
            median = statistics.median(row["device_time"]) * NS[table["unit"]]
            work = 4 * row["batch"] * row["heads"] * row["tokens"] ** 2 * row["head"]
            found.append((work * (0.5 if causal else 1) / median / 1e3, median, row["name"]))
    found.sort()
    flash = next(rate for rate, _, name in found if name == "flash")
    return [
        {
            "name": name,
            "median_ns": median,
            "tflops": rate,
            "over_flash_ratio": rate / flash,
            "of_fastest_ratio": rate / found[-1][0],
        }
        for rate, median, name in found
    ]


@task("triton_ex07.step_rates")
@recordings(WAY, holding="measurements.json")
@pytest.mark.parametrize("causal", [False, True])
def test_recorded_rates(stub: Any, recording: str, causal: bool) -> None:
    got = stub.step_rates(recording, causal)
    judge_rows(f"step_rates({recording!r}, {causal})", got, rates_of(recording, causal), WHY_RATES)
    full = rates_of(recording, False)
    judge_rows(f"step_rates({recording!r})", stub.step_rates(recording), full, WHY_RATES)


@task("triton_ex07.step_rates")
@pytest.mark.parametrize("unit", ["us", "ms"])
def test_generated_rates(stub: Any, seed: int, tmp_path: Path, unit: str) -> None:
    pick = random.Random(seed)
    rows = []
    for causal in (False, True):
        for name in pick.sample(["flash", "mine", "other", "slow"], 4):
            row = {"name": name, "causal": causal, "batch": pick.randint(1, 4), "heads": 3}
            row |= {"tokens": pick.randint(100, 5000), "head": 64}
            samples = [pick.uniform(1, 9) for _ in range(4)] + [pick.uniform(50, 90)]
            rows.append(row | {"device_time": samples})
    pick.shuffle(rows)
    folder = tmp_path / f"made_up_{seed}"
    folder.mkdir()
    table = json.dumps({"unit": unit, "steps": rows})
    (folder / "measurements.json").write_text(table, encoding="utf-8")
    for causal in (False, True):
        got = stub.step_rates(str(folder), causal)
        judge_rows(
            f"step_rates of a made-up file in {unit}, causal {causal}",
            got,
            rates_of(str(folder), causal),
            WHY_RATES,
        )


# -- counters ---------------------------------------------------------------------------------------

LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}
TENSOR = "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"
EXPONENTIALS = "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"
WHY_FIT = {
    "programs_count": "All limits hold at once, so the smallest decides.",
    "limited_by": "Every limit that is that small, in the order of LIMITS.",
    "duration_ns": "The second row holds the unit.",
}


def fitting(capture: str) -> list[dict[str, Any]]:
    rows = []
    for kernel in ncu.kernels(capture):
        launch = kernel["metrics"]
        limits = {name: int(launch[counter]) for name, counter in LIMITS.items()}
        rows.append(
            {
                "name": kernel["name"].split("(")[0],
                "duration_ns": float(launch["gpu__time_duration.sum"]),
                "instructions_count": int(launch["smsp__inst_executed.sum"]),
                "tensor_pct": float(launch[TENSOR]),
                "exponentials_pct": float(launch[EXPONENTIALS]),
                "programs_count": min(limits.values()),
                "limited_by": [n for n, most in limits.items() if most == min(limits.values())],
            }
        )
    return rows


@task("triton_ex07.programs_that_fit")
@recordings(COUNTERS, holding="kernels.csv")
def test_recorded_counters(stub: Any, recording: str) -> None:
    got = stub.programs_that_fit(recording)
    judge_rows(f"programs_that_fit({recording!r})", got, fitting(recording), WHY_FIT)


@task("triton_ex07.programs_that_fit")
@pytest.mark.parametrize("units", ["auto", "base", "old"])
def test_generated_counters(stub: Any, seed: int, tmp_path: Path, units: str) -> None:
    pick = random.Random(seed)
    table = Raw(seed, units, preamble=units != "base")
    for place in range(4):
        limits = [pick.randint(1, 6) for _ in LIMITS]
        if place == 1:
            limits[2] = limits[0] = 1  # two at once
        metrics: dict[str, float | str | None] = {
            "gpu__time_duration.sum": float(pick.randint(1_000, 9_000_000)),
            "smsp__inst_executed.sum": pick.randint(1000, 10**9),
            TENSOR: pick.uniform(1, 100),
            EXPONENTIALS: pick.uniform(1, 100),
        }
        metrics |= dict(zip(LIMITS.values(), limits, strict=True))
        table.add(f"kernel_{place}(float *, int)", metrics)
    folder = tmp_path / f"made_up_{seed}"
    table.save(folder)
    got = stub.programs_that_fit(str(folder))
    judge_rows(
        f"programs_that_fit of a made-up page, units {units}", got, fitting(str(folder)), WHY_FIT
    )


# -- exposed or hidden ------------------------------------------------------------------------------

WHY_EXPOSED = {
    "saving_ratio": "Compare each sample with its neighbour, because the clock changes between rounds. Then take the median of "
    "the pairs.",
    "verdict": "A saving counts if it is above the difference between two runs of the whole.",
}


def judge_exposed(stub: Any, capture: str, step: str, said: str) -> None:
    table = json.loads(captures.text(capture, "measurements.json"))
    pairs = {
        row["without"]: [
            (a - b) / a for a, b in zip(row["whole_time"], row["device_time"], strict=True)
        ]
        for row in table["parts"]
        if row["name"] == step
    }
    noise = max(map(abs, pairs[""]))
    got = stub.exposed_parts(capture, step)
    call = f"exposed_parts of {said}, step {step!r}"
    require(
        isinstance(got, dict) and got.keys() == {"noise_ratio", "parts"},
        f"{call} returned {show(got)}, expected a dict of noise_ratio and parts",
    )
    require(
        agree(got["noise_ratio"], noise, 1e-9),
        f"{call}: noise_ratio is {show(got['noise_ratio'])}, expected {show(noise)}: the largest difference, "
        "either way, between the whole step and the whole step again",
    )
    want = []
    for name, savings in pairs.items():
        if name:
            saving = statistics.median(savings)
            verdict = "exposed" if saving > noise else "hidden"
            want.append({"without": name, "saving_ratio": saving, "verdict": verdict})
    judge_rows(call, got["parts"], want, WHY_EXPOSED)


@task("triton_ex07.exposed_parts")
@recordings(WAY, holding="measurements.json")
def test_recorded_parts(stub: Any, recording: str) -> None:
    for step in ("tma", "capped"):
        judge_exposed(stub, recording, step, recording)


def world(folder: Path, rows: list[dict[str, Any]]) -> str:
    folder.mkdir()
    table = json.dumps({"unit": "ns", "parts": rows})
    (folder / "measurements.json").write_text(table, encoding="utf-8")
    return str(folder)


@task("triton_ex07.exposed_parts")
def test_worlds_in_pairs(stub: Any, seed: int, tmp_path: Path) -> None:
    """Worlds that differ in one thing: the noise, a clock that falls, a part that moves into the shadow."""
    pick = random.Random(seed)
    for number, (noise, clock_falls) in enumerate(
        ((0.01, False), (0.08, False), (0.01, True), (0.05, True))
    ):
        rows = []
        for step in pick.sample(["mine", "other"], 2):
            saved = {"": 0.0, "exp": 0.06, "sum": -0.04, "loads": 0.002, "largest": 0.11}
            for part in pick.sample(list(saved), len(saved)):
                whole, less = [], []
                for place in range(5):
                    slow = 1 + (0.1 * place if clock_falls else 0)
                    differs = noise * (place + 1) / 5 * (1 if place % 2 else -1)
                    spread = pick.uniform(0, 1e-3) if part else differs
                    whole.append(1e6 * slow)
                    less.append(1e6 * slow * (1 - saved[part] - spread))
                rows.append(
                    {"name": step, "without": part, "whole_time": whole, "device_time": less}
                )
        pick.shuffle(rows)
        capture = world(tmp_path / f"world_{number}_{seed}", rows)
        said = f"world {number} (noise {noise}, {'a falling' if clock_falls else 'a steady'} clock)"
        for step in ("mine", "other"):
            judge_exposed(stub, capture, step, said)


# -- live -------------------------------------------------------------------------------------------

TARGETS = {False: (1.15, 0.70), True: (1.15, 0.65)}  # over flash, of the fastest backend


@task("triton_ex07.attention_live")
@pytest.mark.parametrize("causal", [False, True])
def test_live_attention(stub: Any, causal: bool) -> None:
    told = stub.probe(PROBE, "live", causal)
    call = f"attention_live{', causal' if causal else ''}"
    require(
        not told["torch_operators"],
        f"{call}: torch ran {', '.join(told['torch_operators'])}; the kernel is to be your own",
    )
    require(
        all(math.isfinite(error) and error < 0.01 for error in told["errors"]),
        f"{call}: largest error over largest value, at the timed shape, at ragged ones, and with other "
        f"numbers in the same tensors: {show(told['errors'])}; expected below 0.01",
    )
    over_flash, of_fastest = TARGETS[causal]
    times = ", ".join(f"{name} {ms:.2f} ms" for name, ms in told["median_ms"].items())
    require(
        told["over_flash"] >= over_flash and told["of_fastest"] >= of_fastest,
        f"{call}: {times}. That is {told['over_flash']:.2f} times the rate of flash (expected {over_flash}) "
        f"and {told['of_fastest']:.2f} of the fastest (expected {of_fastest}). Which parts are exposed?",
    )
