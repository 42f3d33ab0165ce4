"""Checks of `scaling_ex03`: recorded collectives, made-up ones that follow a model, drawn buckets."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import (
    judge,
    judge_finding,
    judge_recommendation,
    near,
    require,
    show,
)
from grading.checks.fixtures import recordings
from profiling_lab import captures
from profiling_lab.errors import CaptureError

PROBE = Path(__file__).resolve().with_name("probes") / "all_reduce_live.py"
RECORDED = recordings(
    "scaling_fp32", "scaling_cpu_narrow", "scaling_four_bf16", holding="communication.json"
)
FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
}


def content_of(capture: str) -> dict[str, Any]:
    """A recording as data."""
    return json.loads(captures.text(capture, "communication.json"))


def sizes_in(capture: str) -> list[int]:
    """The world sizes whose collectives were measured."""
    return sorted({row["world_size"] for row in content_of(capture)["all_reduce"]})


def saved(folder: Path, **tables: Any) -> str:
    """A communication.json with these tables."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {"format": 1, "unit": "ns", "what": "communication"}
    content = {**head, "all_reduce": [], "copy": [], "training": [], **tables}
    (folder / "communication.json").write_text(json.dumps(content), "utf-8")
    return str(folder)


def made(folder: Path, seed: int, copies: bool = True, exposed: float = 0.2) -> str:
    """All-reduces near a model, copies, and trainings with known exposed times; rows in no order."""
    chance = random.Random(f"communication {seed} {exposed}")
    latency, rate = chance.uniform(2e4, 9e4), chance.uniform(20, 300)  # ns, bytes a ns
    reduced = []
    for n in (2, 4, 5):
        for size in (2**10, 2**14, 2**18, 2**22, 2**26):
            t = (latency * n / 2 + 2 * (n - 1) / n * size / rate) * chance.uniform(0.8, 1.25)
            samples = [round(t * chance.uniform(1, 1.1)) for _ in range(9)]
            samples[4] *= 20  # somebody else's moment
            reduced.append({"world_size": n, "bytes": size, "samples_ns": samples})
    copied = [
        {"how": "copy", "bytes": size, "samples_ns": [round(9e3 + size / speed)] * 5}
        for size, speed in ((2**20, 300), (2**26, 400), (2**28, 390))
    ]
    training = []
    for n in (2, 4):
        for samples in (64, 512):
            for cap, buckets in ((25, [9_000_000, 7_000_000]), (1, [4_000_000] * 4)):
                level = samples * chance.randrange(30_000, 50_000)
                parts = [0.3, 0.6, 0.1]
                alone = [
                    [[round(level * p * chance.uniform(1, 1.05)) for p in parts] for _ in range(8)]
                    for _ in range(n)
                ]
                step = [
                    [round(level * (1 + exposed) * chance.uniform(1, 1.05)) for _ in range(8)]
                    for _ in range(n)
                ]
                training.append(
                    {
                        "world_size": n,
                        "samples_per_rank": [samples + (0, -8, 8, 0)[rank] for rank in range(n)],
                        "bucket_cap_mib": cap,
                        "bucket_bytes": buckets,
                        "gradient_bytes": sum(buckets),
                        "step_ns": step,
                        "alone_phases_ns": alone,
                    }
                )
    for table in (reduced, copied, training):
        chance.shuffle(table)
    return saved(folder, all_reduce=reduced, copy=copied if copies else [], training=training)


# -- bus_bandwidth --------------------------------------------------------------------------------------


def judge_bandwidth(stub: Any, operation: str, size: int, time: float, n: int) -> None:
    """Hold both bandwidths against the definitions of NCCL's tests."""
    factor = FACTORS[operation](n)
    judge(
        f"bus_bandwidth({operation!r}, {size}, {time:.6g}, {n})",
        stub.bus_bandwidth(operation, size, time, n),
        {
            "algorithm_bytes_per_s": size / (time / 1e9),
            "bus_bytes_per_s": factor * size / (time / 1e9),
        },
        "bytes per second",
        {
            "algorithm_bytes_per_s": "Size over time, and the time is in ns.",
            "bus_bytes_per_s": f"For {operation} by {n} processes the factor is {factor:.6g}.",
        },
    )


@task("scaling_ex03.bus_bandwidth")
@RECORDED
def test_bandwidth_of_recorded_reductions(stub: Any, recording: str) -> None:
    for row in content_of(recording)["all_reduce"]:
        time = float(np.median(row["samples_ns"]))
        judge_bandwidth(stub, "all_reduce", row["bytes"], time, row["world_size"])


@task("scaling_ex03.bus_bandwidth")
@pytest.mark.parametrize("operation", FACTORS)
def test_bandwidth_of_each_operation(stub: Any, operation: str, seed: int) -> None:
    chance = random.Random(f"bandwidth {operation} {seed}")
    for n in (2, 3, 8, 72):
        judge_bandwidth(stub, operation, chance.randrange(1, 10**9), chance.uniform(1e3, 1e7), n)
    judge_bandwidth(stub, operation, 1, 0.5, 2)


@task("scaling_ex03.bus_bandwidth")
@pytest.mark.parametrize(
    ("operation", "size", "time", "n"),
    [
        ("all_sum", 8, 5.0, 2),
        ("all_reduce", 0, 5.0, 2),
        ("reduce", 8, 0.0, 2),
        ("broadcast", 8, 5.0, 1),
    ],
)
def test_no_bandwidth_of_nothing(stub: Any, operation: str, size: int, time: float, n: int) -> None:
    with stub.raises(
        ValueError, why="a known operation, bytes, time, and two processes are needed"
    ):
        stub.bus_bandwidth(operation, size, time, n)


# -- fit_all_reduce -------------------------------------------------------------------------------------


def fit_of(capture: str, n: int) -> dict[str, float]:
    """Latency and bandwidth by numpy's least squares, each equation divided by its time."""
    rows = [row for row in content_of(capture)["all_reduce"] if row["world_size"] == n]
    moved = np.array([2 * (n - 1) / n * row["bytes"] for row in rows])
    times = np.array([np.median(row["samples_ns"]) for row in rows], dtype=float)
    scale = moved.max()  # so that both unknowns are of one size
    sides = np.stack([1 / times, moved / scale / times], axis=1)
    latency, most = np.linalg.lstsq(sides, np.ones(len(times)), rcond=None)[0]
    model = latency + moved / scale * most
    return {
        "latency_ns": float(latency),
        "bus_bytes_per_s": float(1e9 * scale / most),
        "worst_ratio": float(np.abs(model / times - 1).max()),
    }


def judge_fit(stub: Any, capture: str, n: int) -> None:
    """Hold a fit against numpy's."""
    want = fit_of(capture, n)
    got = stub.fit_all_reduce(capture, n)
    call = f"fit_all_reduce({Path(capture).name!r}, {n})"
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(got)}, expected a dict of: {', '.join(want)}",
    )
    for key, unit in (("bus_bytes_per_s", "bytes/s"), ("latency_ns", "ns"), ("worst_ratio", "")):
        require(
            near(
                got[key],
                want[key],
                1e-5,
                1e-6 * (abs(want["latency_ns"]) if key == "latency_ns" else 1),
            ),
            f"{call}: {key} is {show(got[key])}, expected {show(want[key])} {unit}: the least sum of "
            "squared relative errors, over medians of the samples of this world size; x is "
            f"{2 * (n - 1) / n:.6g} times the bytes",
        )


@task("scaling_ex03.fit_all_reduce")
@RECORDED
def test_fit_of_a_recording(stub: Any, recording: str) -> None:
    for n in sizes_in(recording):
        judge_fit(stub, recording, n)


@task("scaling_ex03.fit_all_reduce")
def test_fit_of_made_up_reductions(stub: Any, seed: int, tmp_path: Path) -> None:
    capture = made(tmp_path / "near", seed)
    for n in (2, 4, 5):
        judge_fit(stub, capture, n)
    exact = [
        {"world_size": 3, "bytes": size, "samples_ns": [1000 + size // 30] * 3}
        for size in (900, 90_000, 9_000_000)
    ]
    judge_fit(stub, saved(tmp_path / "exact", all_reduce=exact), 3)
    below = [
        {"world_size": 2, "bytes": size, "samples_ns": [size // 10 - 50]}
        for size in (1000, 100_000, 1_000_000)
    ]
    judge_fit(stub, saved(tmp_path / "below", all_reduce=below), 2)


@task("scaling_ex03.fit_all_reduce")
def test_no_fit_without_sizes(stub: Any, tmp_path: Path) -> None:
    rows = [
        {"world_size": n, "bytes": size, "samples_ns": [time]}
        for n, size, time in (
            (2, 64, 9),
            (2, 64, 8),
            (8, 64, 9),
            (8, 99, 7),
        )
    ]
    capture = saved(tmp_path, all_reduce=rows)
    for n, why in (
        (2, "one size twice has no slope"),
        (3, "nobody measured 3 processes"),
        (8, "the time falls"),
    ):
        with stub.raises(ValueError, why=why):
            stub.fit_all_reduce(capture, n)
    with stub.raises(ValueError, match="8", why="the message names the world sizes measured"):
        stub.fit_all_reduce(capture, 3)


@task("scaling_ex03.fit_all_reduce")
@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"format": 1, "unit": "ns"}',
        '{"format": 1, "unit": "ns", "all_reduce": {}, "copy": [], "training": []}',
        '{"format": 2, "unit": "ns", "all_reduce": [], "copy": [], "training": []}',
        '{"format": 1, "unit": "us", "all_reduce": [], "copy": [], "training": []}',
    ],
)
def test_what_is_no_recording(stub: Any, text: str, tmp_path: Path) -> None:
    (tmp_path / "communication.json").write_text(text, "utf-8")
    with stub.raises(CaptureError, why=f"{text!r} is no communication.json of format 1 in ns"):
        stub.fit_all_reduce(str(tmp_path), 2)


# -- gradient_cost, predict_exposed ---------------------------------------------------------------------


def times_of(buckets: list[int], fit: dict[str, float], n: int) -> np.ndarray:
    """What each bucket takes, in ns."""
    moved = 2 * (n - 1) / n * np.array(buckets, dtype=float)
    return fit["latency_ns"] + moved / fit["bus_bytes_per_s"] * 1e9


def judge_cost(stub: Any, buckets: list[int], fit: dict[str, float], n: int) -> None:
    """Add up what the buckets take."""
    times = times_of(buckets, fit, n)
    factor = 2 * (n - 1) / n
    each = (times - fit["latency_ns"]).sum()
    judge(
        f"gradient_cost({len(buckets)} buckets of {sum(buckets):,} bytes, {show(fit)}, {n})",
        stub.gradient_cost(buckets, fit, n),
        {
            "time_ns": float(times.sum()),
            "latency_ratio": float(1 - each / times.sum()),
            "half_bytes": fit["latency_ns"] / 1e9 * fit["bus_bytes_per_s"] / factor,
        },
        "ns, a share, bytes",
        {
            "time_ns": f"Each bucket pays the latency; the bytes alone take {each:,.0f} ns.",
            "half_bytes": f"A message of this size moves {factor:.6g} times its bytes, in the time "
            "that is the latency.",
        },
    )


def drawn_fit(chance: random.Random) -> dict[str, float]:
    """A latency and a bandwidth, and what else a fit holds."""
    return {
        "latency_ns": chance.uniform(1e4, 1e6),
        "bus_bytes_per_s": chance.uniform(1e9, 4e11),
        "worst_ratio": 0.5,
    }


@task("scaling_ex03.gradient_cost")
def test_cost_of_drawn_buckets(stub: Any, seed: int) -> None:
    chance = random.Random(f"cost {seed}")
    for n in (2, 3, 16):
        buckets = [chance.randrange(1, 10**8) for _ in range(chance.randrange(1, 30))]
        judge_cost(stub, buckets, drawn_fit(chance), n)
    judge_cost(stub, [1], drawn_fit(chance), 2)


@task("scaling_ex03.gradient_cost")
@RECORDED
def test_cost_of_recorded_buckets(stub: Any, recording: str) -> None:
    for row in content_of(recording)["training"]:
        n = row["world_size"]
        judge_cost(stub, row["bucket_bytes"], fit_of(recording, n), n)


@task("scaling_ex03.gradient_cost")
@pytest.mark.parametrize(("buckets", "n"), [([], 2), ([8, 0], 2), ([8], 1)])
def test_no_cost_of_nothing(stub: Any, buckets: list[int], n: int, seed: int) -> None:
    with stub.raises(ValueError, why="buckets with something in them, and two processes"):
        stub.gradient_cost(buckets, drawn_fit(random.Random(seed)), n)


def exposed_of(buckets: list[int], backward: float, fit: dict[str, float], n: int) -> float:
    """From the end of the backward pass to that of the last all-reduce.

    The last one ends when some bucket was ready and all from there on were sent without a pause.
    """
    times = times_of(buckets, fit, n)
    ready = backward * np.cumsum(np.array(buckets, dtype=float)) / sum(buckets)
    return max(float(ready[at] + times[at:].sum()) for at in range(len(buckets))) - backward


def judge_exposed(
    stub: Any, buckets: list[int], backward: float, fit: dict[str, float], n: int
) -> None:
    """Hold a prediction against the chains of buckets."""
    exposed = exposed_of(buckets, backward, fit, n)
    times = times_of(buckets, fit, n)
    call = f"predict_exposed({show(buckets)}, {backward:,.0f}, {show(fit)}, {n})"
    got = stub.predict_exposed(buckets, backward, fit, n)
    require(
        isinstance(got, dict) and got.keys() == {"exposed_ns", "hidden_ns"},
        f"{call} returned {show(got)}, expected exposed_ns and hidden_ns",
    )
    whole = float(times.sum())
    for key, value in (("exposed_ns", exposed), ("hidden_ns", whole - exposed)):
        require(
            near(got[key], value, 1e-7, 1e-7 * (whole + backward)),
            f"{call}: {key} is {show(got[key])}, expected {show(value)} ns: the all-reduces take "
            f"{whole:,.0f} ns together, the last {times[-1]:,.0f}; one at a time, none before its bucket "
            "is ready",
        )


@task("scaling_ex03.predict_exposed")
def test_exposed_time_of_drawn_buckets(stub: Any, seed: int) -> None:
    chance = random.Random(f"exposed {seed}")
    for n in (2, 5):
        for ratio in (0.0, 0.2, 1.0, 3.0):
            buckets = [chance.randrange(10**5, 10**8) for _ in range(chance.randrange(2, 9))]
            fit = drawn_fit(chance)
            backward = ratio * float(times_of(buckets, fit, n).sum())
            judge_exposed(stub, buckets, backward, fit, n)
    slow = {"latency_ns": 50.0, "bus_bytes_per_s": 1e9}
    judge_exposed(stub, [1000], 5000.0, slow, 2)
    judge_exposed(stub, [100, 4000, 100], 3000.0, slow, 2)
    judge_exposed(stub, [4000, 100, 100], 9000.0, slow, 2)


@task("scaling_ex03.predict_exposed")
@pytest.mark.parametrize(
    ("buckets", "backward", "n"), [([], 9.0, 2), ([8], -1.0, 2), ([8], 9.0, 1)]
)
def test_no_prediction_of_nothing(stub: Any, buckets: list[int], backward: float, n: int) -> None:
    fit = {"latency_ns": 50.0, "bus_bytes_per_s": 1e9}
    with stub.raises(ValueError, why="buckets, a pass of at least 0 ns, and two processes"):
        stub.predict_exposed(buckets, backward, fit, n)


# -- exposed_by_bucket ----------------------------------------------------------------------------------


def table_of(capture: str, n: int) -> list[dict[str, Any]]:
    """What the exchange adds, by numpy."""
    found = []
    for row in content_of(capture)["training"]:
        if row["world_size"] == n:
            step = float(np.median(np.max(row["step_ns"], axis=0)))
            phases = np.array(row["alone_phases_ns"])
            alone = float(np.median(phases.sum(axis=2).max(axis=0)))
            exposed = max(0.0, step - alone)
            found.append(
                {
                    "samples_count": row["samples_per_rank"][0],
                    "bucket_cap_mib": row["bucket_cap_mib"],
                    "bucket_bytes": row["bucket_bytes"],
                    "step_ns": step,
                    "alone_ns": alone,
                    "backward_ns": float(np.median(phases[:, :, 1].max(axis=0))),
                    "exposed_ns": exposed,
                    "exposed_ratio": exposed / step,
                }
            )
    return sorted(found, key=lambda row: (row["samples_count"], row["bucket_cap_mib"]))


def judge_table(stub: Any, capture: str, n: int) -> None:
    """Hold each row against the file."""
    want = table_of(capture, n)
    call = f"exposed_by_bucket({Path(capture).name!r}, {n})"
    got = stub.exposed_by_bucket(capture, n)
    keys = [(row["samples_count"], row["bucket_cap_mib"]) for row in want]
    require(
        isinstance(got, list)
        and all(isinstance(row, dict) for row in got)
        and [(row.get("samples_count"), row.get("bucket_cap_mib")) for row in got] == keys,
        f"{call} returned {show(got)}, expected rows for samples and bucket caps {keys}, in this order",
    )
    for mine, right in zip(got, want, strict=True):
        label = f"{call}, {right['samples_count']} samples, cap {right['bucket_cap_mib']} MiB"
        require(mine.keys() == right.keys(), f"{label}: has {sorted(mine)}, not {sorted(right)}")
        for key, value in right.items():
            good = near(mine[key], value) if isinstance(value, float) else mine[key] == value
            why = "the slowest rank of each step, then the median over steps"
            if key.startswith("exposed"):
                why = f"{right['step_ns']:,.0f} with the exchange, {right['alone_ns']:,.0f} without"
            require(
                good,
                f"{label}: {key} is {show(mine[key])}, expected {show(value)} (ns or a share): {why}",
            )


@task("scaling_ex03.exposed_by_bucket")
@RECORDED
def test_exposed_time_of_a_recording(stub: Any, recording: str) -> None:
    for n in sizes_in(recording):
        judge_table(stub, recording, n)


@task("scaling_ex03.exposed_by_bucket")
def test_exposed_time_of_made_up_trainings(stub: Any, seed: int, tmp_path: Path) -> None:
    for number, exposed in enumerate((0.3, 0.01, -0.2)):
        capture = made(tmp_path / str(number), seed, exposed=exposed)
        for n in (2, 4):
            judge_table(stub, capture, n)


@task("scaling_ex03.exposed_by_bucket")
def test_a_rank_that_died(stub: Any, seed: int, tmp_path: Path) -> None:
    for number, (name, change) in enumerate(
        [
            ("step_ns", lambda ranks: ranks.pop()),
            ("alone_phases_ns", lambda ranks: ranks.pop()),
            ("step_ns", lambda ranks: ranks[0].pop()),
            ("alone_phases_ns", lambda ranks: ranks[1].pop()),
            ("step_ns", lambda ranks: [rank.clear() for rank in ranks]),
            ("alone_phases_ns", lambda ranks: [rank.clear() for rank in ranks]),
        ]
    ):
        rows = content_of(made(tmp_path / str(number), seed))["training"]
        change(rows[0][name])
        capture = saved(tmp_path / str(number), training=rows)
        with stub.raises(CaptureError, why=f"a rank has no {name}, or fewer than the others"):
            stub.exposed_by_bucket(capture, rows[0]["world_size"])


@task("scaling_ex03.exposed_by_bucket")
def test_nothing_of_another_world_size(stub: Any, seed: int, tmp_path: Path) -> None:
    with stub.raises(ValueError, why="nobody trained with 16 processes"):
        stub.exposed_by_bucket(made(tmp_path, seed), 16)


# -- communication_verdict ------------------------------------------------------------------------------


def judge_verdict(stub: Any, capture: str, n: int, row: dict[str, Any]) -> None:
    """Recompute the evidence from the file."""
    samples, cap, buckets = row["samples_count"], row["bucket_cap_mib"], row["bucket_bytes"]
    fit = fit_of(capture, n)
    share = row["exposed_ratio"]
    want = {
        "recoverable_ns": row["exposed_ns"],
        "window_ns": row["step_ns"],
        "recoverable_ratio": share,
        "margin_ratio": share - 0.05,
        "serial_ns": float(times_of(buckets, fit, n).sum()),
        "predicted_ns": exposed_of(buckets, row["backward_ns"], fit, n),
    }
    copies = content_of(capture)["copy"]
    if copies:
        speeds = [copy["bytes"] / float(np.median(copy["samples_ns"])) for copy in copies]
        want["bus_ratio"] = fit["bus_bytes_per_s"] / 1e9 / max(speeds)
    call = f"communication_verdict({Path(capture).name!r}, {n}, {samples}, {cap})"
    got = stub.communication_verdict(capture, n, samples, cap)
    category = "communication_bound" if share >= 0.05 else "healthy"
    judge_finding(
        *(call, got, category, "range:step", want),
        f"{share:.2%} of a step (range:step) is exposed, and the floor is 5 %; {len(copies)} copies were "
        "measured",
        why=f"A step takes {row['step_ns']:,.0f} ns with the exchange and {row['alone_ns']:,.0f} without; the "
        f"buckets have {buckets} bytes",
        rel=1e-5,
        absolute={key: 1e-5 * (row["step_ns"] if key.endswith("_ns") else 1e-2) for key in want},
    )
    margin = f"the margin is {share - 0.05:+.2%}, and within 2 points of the floor it is borderline"
    judge_recommendation(call, got, margin, borderline=abs(share - 0.05) <= 0.02)


@task("scaling_ex03.communication_verdict")
@RECORDED
def test_verdicts_on_a_recording(stub: Any, recording: str) -> None:
    for n in sizes_in(recording):
        for row in table_of(recording, n):
            judge_verdict(stub, recording, n, row)


@task("scaling_ex03.communication_verdict")
def test_verdicts_on_made_up_trainings(stub: Any, seed: int, tmp_path: Path) -> None:
    for number, exposed in enumerate((0.3, 0.05, 0.0, -0.2)):
        capture = made(tmp_path / str(number), seed, copies=number != 1, exposed=exposed)
        for row in table_of(capture, 4):
            judge_verdict(stub, capture, 4, row)


@task("scaling_ex03.communication_verdict")
def test_verdicts_at_the_limits(stub: Any, tmp_path: Path) -> None:
    rows = [
        {
            "world_size": 2,
            "samples_per_rank": [number, number],
            "bucket_cap_mib": 25,
            "bucket_bytes": [100],
            "step_ns": [[1000]] * 2,
            "alone_phases_ns": [[[300, 600, 100 - exposed]]] * 2,
        }
        for number, exposed in enumerate((50, 49, 69, 71, 31, 29))
    ]
    reduced = [
        {"world_size": 2, "bytes": size, "samples_ns": [20 + size // 10]} for size in (100, 10_000)
    ]
    capture = saved(tmp_path, all_reduce=reduced, training=rows)
    for row in table_of(capture, 2):
        judge_verdict(stub, capture, 2, row)


@task("scaling_ex03.communication_verdict")
@pytest.mark.parametrize(("samples", "cap"), [(64, 7), (65, 25)])
def test_no_verdict_on_what_was_not_measured(
    stub: Any, samples: int, cap: int, seed: int, tmp_path: Path
) -> None:
    with stub.raises(ValueError, match="512", why="the message says what was measured"):
        stub.communication_verdict(made(tmp_path, seed), 2, samples, cap)


# -- live -----------------------------------------------------------------------------------------------


@task("scaling_ex03.measure_all_reduce")
def test_an_all_reduce_on_two_gpus(stub: Any, seed: int) -> None:
    chance = random.Random(f"live {seed}")
    sizes = [
        4 * chance.randrange(900, 1100),
        *(4 * chance.randrange(n, 2 * n) for n in (2**22, 2**24)),
    ]
    repeats = chance.randrange(6, 11)
    one, two = stub.probe(PROBE, "measured", sizes, repeats)
    call = f"measure_all_reduce({sizes}, {repeats}) in two processes"
    require(
        one["raised"] == two["raised"] == "ValueError",
        f"measure_all_reduce([4096, 4098], 2) raised {one['raised']} and {two['raised']}, expected a "
        "ValueError in both processes: no float32 fits into half of its bytes",
    )
    rows = one["rows"]
    require(
        isinstance(rows, list)
        and [isinstance(row, dict) and row.get("bytes") for row in rows] == sizes
        and all(row.keys() == {"bytes", "samples_ns"} for row in rows)
        and all(len(row["samples_ns"]) == repeats for row in rows),
        f"{call} returned {show(rows)}, expected a row for each size, with {repeats} samples",
    )
    require(
        rows == two["rows"],
        f"{call}: rank 0 says {show(rows)}, rank 1 {show(two['rows'])}: a sample is the largest of all "
        "processes', so that they agree",
    )
    for row, own in zip(rows, one["own_ns"], strict=True):
        got = float(np.median(row["samples_ns"]))
        wide = 2.5 if row["bytes"] < 2**20 else 1.5  # a short call is mostly the host's, and varies
        low, high = min(own) / wide, max(own) * wide
        require(
            low <= got <= high,
            f"{call}, {row['bytes']:,} bytes: the median is {got:,.0f} ns, and the probe's own "
            f"measurements before and after say {own[0]:,.0f} and {own[1]:,.0f} ns: the time of one call, "
            "of calls in a row, by the device's events",
        )
