"""Checks of `triton_ex03`: occupancy, what Triton compiled, noise, ties and a search by halving.

Occupancy comes from NVIDIA's own calculator (`grading.checks.occupancy`), rows of captures from the
files, and the search runs against a bench whose true times and noise are known here.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grading.checks import occupancy, task
from grading.checks.assertions import agree, judge, require, show
from grading.checks.fixtures import recordings
from profiling_lab import captures
from profiling_lab.errors import CaptureError


def written(folder: Path, table: Any) -> str:
    """A folder with this table in measurements.json, as a path."""
    folder.mkdir(parents=True)
    (folder / "measurements.json").write_text(json.dumps(table), encoding="utf-8")
    return str(folder)


def sweep_of(capture: str) -> dict[str, Any]:
    return json.loads(captures.text(capture, "measurements.json"))


# -- occupancy_table ------------------------------------------------------------------------------

WHY_FIT = (
    "Four limits: warps and blocks of an SM, registers of each of its four partitions, shared memory "
    "with what the driver keeps of it."
)


def judge_fit(stub: Any, launch: occupancy.Launch, want: occupancy.Occupancy) -> None:
    shared = launch.static_shared_bytes + launch.dynamic_shared_bytes
    arguments = (
        launch.compute_capability,
        [launch.block_threads],
        launch.thread_registers,
        shared,
    )
    got = stub.occupancy_table(*arguments)
    call = f"occupancy_table{arguments}"
    require(
        isinstance(got, list) and len(got) == 1, f"{call} returned {show(got)}, expected one row"
    )
    warps = want.blocks * math.ceil(launch.block_threads / 32)
    right = {
        "block_threads": launch.block_threads,
        "blocks_count": want.blocks,
        "warps_count": warps,
        "occupancy_ratio": warps / occupancy.PROPERTIES[launch.compute_capability][0],
        "limiters": [name for name, limit in want.limits.items() if limit == want.blocks],
    }
    why = f"NVIDIA's calculator (cuda_occupancy.h) says so: {want.limits}. {WHY_FIT}"
    judge(call, got[0], right, "counts and a ratio", dict.fromkeys(right, why))


@task("triton_ex03.occupancy_table")
def test_as_the_calculator_says(stub: Any, seed: int) -> None:
    known = [
        (launch, want)
        for launch, want in occupancy.tabled()
        if launch.carveout_pct == -1 and launch.thread_registers
    ]
    for launch, want in random.Random(seed).sample(known, 250):
        judge_fit(stub, launch, want)


@task("triton_ex03.occupancy_table")
def test_the_table_of_the_source(stub: Any) -> None:
    sizes = [64, 128, 256, 512, 1024]
    # Blocks on an SM with 32 registers a thread and no shared memory, by the limits in the programming
    # guide: warps of the SM over warps of a block, and blocks of the SM.
    for capability, warps, blocks in (
        ("7.0", 64, 32),
        ("7.5", 32, 16),
        ("8.0", 64, 32),
        ("8.6", 48, 16),
        ("8.9", 48, 24),
        ("9.0", 64, 32),
        ("10.0", 64, 32),
        ("12.0", 48, 24),
    ):
        call = f"occupancy_table({capability!r}, {sizes}, 32)"
        got = stub.occupancy_table(capability, sizes, 32)
        want = [min(warps // (threads // 32), blocks) for threads in sizes]
        require(
            isinstance(got, list) and all(isinstance(row, dict) for row in got),
            f"{call} returned {show(got)}, expected a list of rows",
        )
        counts = [row.get("blocks_count") for row in got]
        require(
            counts == want,
            f"{call} says {counts} blocks on an SM, expected {want}: an SM of {capability} has room for "
            f"{warps} warps and {blocks} blocks",
        )
        for row, count in zip(got, want, strict=True):
            ratio = count * row["block_threads"] / 32 / warps
            require(
                agree(row.get("occupancy_ratio"), ratio),
                f"{call}, {row['block_threads']} threads: a ratio of {show(row.get('occupancy_ratio'))}, "
                f"expected {show(ratio)}: warps on the SM over the {warps} it has room for. A table that "
                "says 100 % for every block size is true for some devices only",
            )


@task("triton_ex03.occupancy_table")
def test_registers_by_partition(stub: Any) -> None:
    # 40 registers: 1,280 a warp, 12 warps in a partition of 16,384, 48 on the SM.
    (row,) = stub.occupancy_table("9.0", [64], 40)
    require(
        row.get("blocks_count") == 24 and row.get("limiters") == ["registers"],
        f"occupancy_table('9.0', [64], 40) says {show(row)}; expected 24 blocks, limited by registers: "
        "65,536 registers would hold 25, but each partition holds whole warps only",
    )


@task("triton_ex03.occupancy_table")
def test_blocks_at_the_limits(stub: Any) -> None:
    for capability, (_, of_sm, most, reserved) in occupancy.PROPERTIES.items():
        (fits,) = stub.occupancy_table(capability, [32], 16, most)
        (none,) = stub.occupancy_table(capability, [32], 16, most + 1)
        require(
            (fits.get("blocks_count"), none.get("blocks_count")) == (1, 0),
            f"occupancy_table({capability!r}, [32], 16, …): {show(fits.get('blocks_count'))} blocks with "
            f"{most} bytes of shared memory and {show(none.get('blocks_count'))} with {most + 1}; "
            f"expected 1 and 0: a block may have {most} bytes",
        )
        for asked, want in ((of_sm // 2 - reserved, 2), (of_sm // 2, 1 if reserved else 2)):
            (row,) = stub.occupancy_table(capability, [32], 16, asked)
            require(
                row.get("blocks_count") == want,
                f"occupancy_table({capability!r}, [32], 16, {asked}): {show(row.get('blocks_count'))} "
                f"blocks, expected {want}: the SM has {of_sm} bytes, and the driver keeps {reserved} for "
                "each block",
            )
        sevenths = of_sm // 7 - reserved
        (row,) = stub.occupancy_table(capability, [32], 16, sevenths)
        require(
            row.get("blocks_count") == 6,
            f"occupancy_table({capability!r}, [32], 16, {sevenths}): {show(row.get('blocks_count'))} "
            f"blocks, expected 6: {sevenths} bytes and the driver's {reserved} are a seventh of the SM's "
            f"{of_sm}, but shared memory is given out in whole units, and seven rounded up do not fit",
        )


@task("triton_ex03.occupancy_table")
def test_rows_in_the_order_given(stub: Any) -> None:
    got = stub.occupancy_table("8.0", [256, 1, 1024], 255)
    sizes = [row.get("block_threads") for row in got]
    require(sizes == [256, 1, 1024], f"rows of {sizes} threads, expected the order given")
    require(stub.occupancy_table("8.0", [], 1) == [], "no block sizes: no rows")
    for arguments, why in (
        (("9.1", [64], 32), "no such compute capability"),
        (("9.0", [64, 0], 32), "a block has a thread at least"),
        (("9.0", [1025], 32), "a block has 1,024 threads at most"),
        (("9.0", [64], 0), "a thread has a register at least"),
        (("9.0", [64], 256), "a thread has 255 registers at most"),
        (("9.0", [64], 32, -1), "no memory is negative"),
    ):
        with stub.raises(ValueError, why=why):
            stub.occupancy_table(*arguments)
    with stub.raises(ValueError, "10.0", why="the message lists what is known"):
        stub.occupancy_table("sm_90", [64], 32)


# -- kernel_resources -----------------------------------------------------------------------------

WHY_RESOURCES = {
    "program_threads": "A program has 32 threads a warp; how many elements its block has is another "
    "matter.",
    "spilled_bytes": "Triton counts words of 4 bytes.",
    "sm_programs_count": "Threads, registers and shared memory of a program decide how many fit.",
    "occupancy_ratio": "Warps of the programs on an SM, over those that it has room for.",
}


def resources_of(capture: str) -> list[dict[str, Any]]:
    table = sweep_of(capture)
    rows = table["configurations"]
    launches = [
        occupancy.Launch(
            table["compute_capability"],
            32 * row["num_warps"],
            row["registers_count"],
            0,
            row["shared_bytes"],
        )
        for row in rows
    ]
    warps = occupancy.PROPERTIES[table["compute_capability"]][0]
    return [
        {
            "name": row["name"],
            "program_threads": launch.block_threads,
            "registers_count": row["registers_count"],
            "spilled_bytes": 4 * row["spilled_words_count"],
            "shared_bytes": row["shared_bytes"],
            "sm_programs_count": fit.blocks,
            "occupancy_ratio": fit.blocks * row["num_warps"] / warps,
        }
        for row, launch, fit in zip(rows, launches, computed(launches), strict=True)
    ]


def computed(launches: list[occupancy.Launch]) -> list[occupancy.Occupancy]:
    """By NVIDIA's calculator, else by the plain rules for the few launches of a sweep."""
    if occupancy.available():
        return occupancy.compute(launches)
    found = []
    for launch in launches:
        warps, of_sm, most, reserved = occupancy.PROPERTIES[launch.compute_capability]
        block_warps = launch.block_threads // 32
        blocks = {"7.5": 16, "8.6": 16, "8.9": 24, "12.0": 24}.get(launch.compute_capability, 32)
        warp_registers = -(-launch.thread_registers * 32 // 256) * 256
        unit = (
            256 if launch.compute_capability < "8" and launch.compute_capability != "10.0" else 128
        )
        taken = -(-(launch.dynamic_shared_bytes + reserved) // unit) * unit
        limits = {
            "warps": warps // block_warps,
            "blocks": blocks,
            "registers": 16384 // warp_registers * 4 // block_warps,
            "shared": None if not taken else of_sm // taken,
        }
        if launch.dynamic_shared_bytes > most:
            limits["shared"] = 0
        least = min(limit for limit in limits.values() if limit is not None)
        found.append(occupancy.Occupancy(least, limits))
    return found


def judge_resources(stub: Any, capture: str) -> None:
    call = f"kernel_resources({Path(capture).name!r})"
    want = resources_of(capture)
    got = stub.kernel_resources(capture)
    require(
        isinstance(got, list) and len(got) == len(want),
        f"{call} returned {show(got)}, expected a list of {len(want)} rows",
    )
    for row, right in zip(got, want, strict=True):
        judge(f"{call}, {right['name']}", row, right, "counts, bytes, a ratio", WHY_RESOURCES)


SWEEPS = ("triton_blocks_add", "triton_blocks_rowsum", "triton_blocks_matmul")


@task("triton_ex03.kernel_resources")
@recordings(*SWEEPS, holding="measurements.json")
def test_recorded_resources(stub: Any, recording: str) -> None:
    judge_resources(stub, recording)


def made_sweep(pick: random.Random, spread: float, lead: float) -> dict[str, Any]:
    """A sweep of which the noise and the lead of the fastest over the default are about as given."""
    rows: list[dict[str, Any]] = []
    count = pick.randint(6, 10)
    fastest = pick.randrange(1, count)
    for place in range(count):
        true = 100_000 * (1 + lead * (1 if place == 0 else pick.uniform(0.3, 2.5)))
        if place == fastest:
            true = 100_000
        rounds = [
            [
                round(true * (1 + pick.uniform(-spread, spread)))
                for _ in range(pick.choice((2, 3, 4)))
            ]
            for _ in range(pick.choice((4, 5)))
        ]
        block = pick.choice((64, 256, 1024, 4096))
        rows.append(
            {
                "name": f"{block} number {place}",
                "block": block,
                "num_warps": pick.choice((1, 2, 4, 8, 16, 32)),
                "registers_count": pick.randint(16, 255),
                "spilled_words_count": pick.choice((0, 0, pick.randint(1, 60))),
                "shared_bytes": pick.choice((0, 128, pick.randint(1000, 60_000))),
                "device_time": rounds,
            }
        )
    pick.shuffle(rows)
    default = next(row["name"] for row in rows if row["name"].endswith("number 0"))
    return {
        "compute_capability": pick.choice(list(occupancy.PROPERTIES)),
        "default": default,
        "configurations": rows,
    }


@task("triton_ex03.kernel_resources")
def test_made_resources(stub: Any, seed: int, tmp_path: Path) -> None:
    pick = random.Random(seed)
    for place in range(3):
        table = made_sweep(pick, 0.01, 0.1)
        if place:  # nothing but what the docstring names
            for row in table["configurations"]:
                del row["block"], row["device_time"]
        judge_resources(stub, written(tmp_path / f"made_{place}", table))


@task("triton_ex03.kernel_resources")
def test_files_without_resources(stub: Any, tmp_path: Path) -> None:
    whole = made_sweep(random.Random(2), 0.01, 0.1)
    first = whole["configurations"][0]
    broken: list[Any] = [
        {key: value for key, value in whole.items() if key != left_out}
        for left_out in ("compute_capability", "configurations")
    ]
    broken += [
        whole
        | {"configurations": [{key: value for key, value in first.items() if key != left_out}]}
        for left_out in (
            "name",
            "num_warps",
            "registers_count",
            "spilled_words_count",
            "shared_bytes",
        )
    ]
    for place, table in enumerate(broken):
        with stub.raises(CaptureError, why="a key is missing"):
            stub.kernel_resources(written(tmp_path / str(place), table))


# -- noise_ratio ----------------------------------------------------------------------------------


def middle(values: list[float]) -> float:
    """The median."""
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def noise_of(rounds: list[list[float]]) -> float:
    a = middle([sample for samples in rounds[::2] for sample in samples])
    b = middle([sample for samples in rounds[1::2] for sample in samples])
    return max(a, b) / min(a, b) - 1


@task("triton_ex03.noise_ratio")
def test_two_halves(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    made = [
        [[float(pick.randint(900, 1100)) for _ in range(pick.randint(1, 5))] for _ in range(count)]
        for count in (2, 3, 4, 7)
    ]
    for rounds in (
        [[100.0], [101.0]],
        [[101.0], [100.0]],
        [[100.0, 100.0], [104.0, 104.0], [100.0, 900.0], [104.0, 104.0]],
        [[5.0], [5.0]],
        [[0.5], [0.25]],
        *made,
    ):
        got, want = stub.noise_ratio(rounds), noise_of(rounds)
        require(
            agree(got, want),
            f"noise_ratio({show(rounds)}) returned {show(got)}, expected {show(want)}: the same "
            "configuration measured twice, in rounds at even places and in rounds at odd ones; how far do "
            "the two medians lie apart?",
        )


@task("triton_ex03.noise_ratio")
def test_rounds_that_say_nothing(stub: Any) -> None:
    for rounds, why in (
        ([], "there is nothing"),
        ([[1.0, 2.0]], "there is one round and nothing to compare it with"),
        ([[1.0], []], "a round is empty"),
        ([[1.0], [], [2.0], [3.0]], "a round is empty"),
        ([[1.0], [0.0]], "no call takes no time"),
        ([[1.0], [-2.0]], "no call takes less than no time"),
    ):
        with stub.raises(ValueError, why=why):
            stub.noise_ratio(rounds)


# -- best_block_size ------------------------------------------------------------------------------


def best_of(capture: str) -> dict[str, Any]:
    table = sweep_of(capture)
    times = {
        row["name"]: float(middle([sample for samples in row["device_time"] for sample in samples]))
        for row in table["configurations"]
    }
    noise = max(noise_of(row["device_time"]) for row in table["configurations"])
    least = min(times.values())
    ties = [name for name, time in times.items() if time / least <= 1 + noise]
    return {
        "best": next(name for name, time in times.items() if time == least),
        "best_ns": least,
        "noise_ratio": noise,
        "ties": ties,
        "default": table["default"],
        "default_ns": times[table["default"]],
        "speedup_ratio": times[table["default"]] / least,
        "verdict": "no_win" if table["default"] in ties else "win",
    }


def judge_best(stub: Any, capture: str) -> str:
    want = best_of(capture)
    call = f"best_block_size({Path(capture).name!r})"
    why = {
        "best": f"It has the lowest median of all samples, {want['best_ns']:.0f} ns.",
        "best_ns": "The median of all its samples, of all rounds.",
        "noise_ratio": "The configuration whose two halves lie furthest apart sets the noise floor.",
        "ties": f"Within the noise floor of {want['noise_ratio']:.3%} these cannot be told from the "
        "fastest.",
        "verdict": "A default that cannot be told from the fastest is not beaten, and one beyond the "
        "noise floor is.",
    }
    judge(call, stub.best_block_size(capture), want, "ns, ratios, names", why)
    return want["verdict"]


@task("triton_ex03.best_block_size")
@recordings(*SWEEPS, holding="measurements.json")
def test_recorded_best(stub: Any, recording: str) -> None:
    judge_best(stub, recording)


@task("triton_ex03.best_block_size")
def test_made_best(stub: Any, seed: int, tmp_path: Path) -> None:
    pick = random.Random(seed)
    verdicts = set()
    for place in range(6):
        spread, lead = ((0.004, 0.2), (0.2, 0.01))[place % 2]
        verdicts.add(
            judge_best(stub, written(tmp_path / str(place), made_sweep(pick, spread, lead)))
        )
    require(
        verdicts == {"win", "no_win"}, f"the generator made only {verdicts}: an error of the course"
    )


@task("triton_ex03.best_block_size")
def test_exact_ties(stub: Any, tmp_path: Path) -> None:
    table = made_sweep(random.Random(3), 0.01, 0.1)
    times = {"slow": [[110], [110]], "first": [[100], [100]], "second": [[100], [100]]}
    row = table["configurations"][0]
    table["configurations"] = [row | {"name": n, "device_time": t} for n, t in times.items()]
    for default, noisy in (("slow", 110), ("second", 110), ("slow", 121), ("slow", 120)):
        table["default"] = default
        table["configurations"][0]["device_time"] = [[110], [noisy]]
        judge_best(stub, written(tmp_path / f"{default}_{noisy}", table))


@task("triton_ex03.best_block_size")
def test_files_without_times(stub: Any, tmp_path: Path) -> None:
    whole = made_sweep(random.Random(4), 0.01, 0.1)
    rows = whole["configurations"]
    without = [{key: value for key, value in row.items() if key != "device_time"} for row in rows]
    for place, table in enumerate(
        (
            {key: value for key, value in whole.items() if key != "default"},
            {key: value for key, value in whole.items() if key != "configurations"},
            whole | {"configurations": []},
            whole | {"configurations": without},
            whole | {"configurations": [row | {"device_time": [[], []]} for row in rows]},
            whole | {"default": "another"},
        )
    ):
        with stub.raises(CaptureError, why="without all of it nothing can be said"):
            stub.best_block_size(written(tmp_path / str(place), table))


# -- prune_configs --------------------------------------------------------------------------------

# name: warps, registers, shared bytes, and what becomes of it on 9.0 with at least a quarter.
CONFIGS = {
    "small": (4, 32, 0, None),
    "too many threads": (64, 32, 0, "threads"),
    "most threads": (32, 32, 0, None),
    "too many registers": (16, 255, 0, "registers"),
    "registers at the limit": (8, 255, 0, "occupancy"),
    "too much shared": (8, 64, 232_449, "shared"),
    "one block": (8, 64, 232_448, "occupancy"),
    "a quarter": (16, 64, 200_000, None),
    "both": (32, 255, 300_000, "registers"),
    "all": (64, 255, 300_000, "threads"),
}


@task("triton_ex03.prune_configs")
def test_what_is_left(stub: Any, seed: int) -> None:
    names = random.Random(seed).sample(list(CONFIGS), len(CONFIGS))
    configs = [
        dict(
            zip(
                ("name", "num_warps", "registers_count", "shared_bytes"),
                (name, *CONFIGS[name][:3]),
                strict=True,
            )
        )
        for name in names
    ]
    for least, spared in ((0.25, ""), (0.0, "occupancy")):
        reasons = {name: CONFIGS[name][3] for name in names}
        want = {
            "kept": [name for name in names if reasons[name] in (None, spared)],
            "dropped": {name: why for name, why in reasons.items() if why not in (None, spared)},
        }
        call = f"prune_configs({len(configs)} configurations, '9.0', {least})"
        got = stub.prune_configs(configs, "9.0", least)
        require(
            isinstance(got, dict) and got.keys() == want.keys(),
            f"{call} returned {show(got)}, expected a dict of kept and dropped",
        )
        require(
            got["dropped"] == want["dropped"] and list(got["kept"]) == want["kept"],
            f"{call}: dropped {show(got['dropped'])}, kept {show(got['kept'])}; expected "
            f"{show(want['dropped'])} and {want['kept']}. A program with {{name: (warps, registers, shared "
            f"bytes)}} = {show({n: CONFIGS[n][:3] for n in names})}",
        )


@task("triton_ex03.prune_configs")
def test_limits_that_are_none(stub: Any) -> None:
    fine = [{"name": "a", "num_warps": 4, "registers_count": 32, "shared_bytes": 0}]
    for least in (-0.1, 1.1):
        with stub.raises(ValueError, why="a share is between 0 and 1"):
            stub.prune_configs(fine, "9.0", least)
    with stub.raises(ValueError, why="no such compute capability"):
        stub.prune_configs(fine, "9.1", 0.5)
    got = stub.prune_configs(fine, "9.0", 1.0)
    require(
        got == {"kept": ["a"], "dropped": {}},
        f"prune_configs of a program that fills the SM, with at least 1.0: {show(got)}",
    )


# -- search ---------------------------------------------------------------------------------------


class Bench:
    """Known true times, with noise and now and then a sample that was disturbed."""

    def __init__(self, true: dict[str, float], seed: int, noise: float) -> None:
        self.true, self.noise = true, noise
        self.pick = random.Random(seed)
        self.calls: list[tuple[str, int]] = []
        self.samples: dict[str, list[float]] = {name: [] for name in true}

    def __call__(self, name: str, count: int) -> list[float]:
        self.calls.append((name, count))
        made = [
            self.true[name]
            * (1 + self.pick.gauss(0, self.noise))
            * (1.6 if self.pick.random() < 0.08 else 1.0)
            for _ in range(count)
        ]
        self.samples[name] += made
        return made


def halved(
    names: list[str], bench: Callable[[str, int], list[float]], budget: int
) -> dict[str, Any]:
    """Successive halving, as the docstring has it."""
    rounds = 0
    while 2**rounds < len(names):
        rounds += 1
    left, survivors = names, []
    samples: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in left:
            samples[name] += bench(name, budget // (rounds * len(left)))
        ranked = sorted((middle(samples[name]), place, name) for place, name in enumerate(left))
        chosen = {name for _, _, name in ranked[: (len(left) + 1) // 2]}
        left = [name for name in left if name in chosen]
        survivors.append(left)
    return {
        "best": left[0],
        "median_ns": float(middle(samples[left[0]])),
        "samples_count": sum(map(len, samples.values())),
        "survivors": survivors,
    }


WHY_SEARCH = {
    "best": "The last one left has the lowest median in every round it went through.",
    "median_ns": "The median of all samples that were taken of it, in all rounds.",
    "samples_count": "All samples of all configurations.",
    "survivors": "In each round the better half by the medians of all samples so far, the odd one "
    "included.",
}


@task("triton_ex03.search")
@pytest.mark.parametrize("count", [2, 3, 5, 8, 24])
def test_halving(stub: Any, seed: int, count: int) -> None:
    pick = random.Random(seed + count)
    names = [f"config {place}" for place in pick.sample(range(100), count)]
    true = {name: 100.0 + 4 * place for place, name in enumerate(pick.sample(names, count))}
    rounds = math.ceil(math.log2(count))
    budget = pick.randint(rounds * count, 20 * rounds * count)
    mine, theirs = Bench(true, seed, 0.05), Bench(true, seed, 0.05)
    want = halved(names, mine, budget)

    def bench(name: str, count: int) -> list[float]:
        return theirs(name, count)

    got = stub.search(names, bench, budget)
    call = f"search({count} names, bench, {budget})"
    require(
        sum(amount for _, amount in theirs.calls) <= budget,
        f"{call} took {sum(amount for _, amount in theirs.calls)} samples, more than the budget",
    )
    once = len({name for name, _ in theirs.calls[:count]}) == count
    require(
        once,
        f"{call} began with {theirs.calls[:count]}, expected every configuration once at first",
    )
    require(
        theirs.calls == mine.calls,
        f"{call} called bench with {show(theirs.calls)}, expected {show(mine.calls)}: in a round the same "
        "number for each survivor, and fewer survivors get more",
    )
    judge(call, got, want, "ns, counts, names", WHY_SEARCH)


@task("triton_ex03.search")
def test_equal_medians(stub: Any) -> None:
    names = ["b", "a", "d", "c"]
    got = stub.search(names, lambda name, count: [7.0] * count, 8)
    want = {
        "best": "b",
        "median_ns": 7.0,
        "samples_count": 8,
        "survivors": [["b", "a"], ["b"]],
    }
    judge("search of four that are equal", got, want, "names", dict.fromkeys(want, "First come."))


@task("triton_ex03.search")
def test_searches_that_cannot_be(stub: Any) -> None:
    calls = []

    def bench(name: str, count: int) -> list[float]:
        calls.append(name)
        return [1.0] * count

    for names, budget, why in (
        ([], 10, "there is nothing to search"),
        (["a"], 10, "there is nothing to compare"),
        (["a", "b", "a"], 100, "a name comes twice"),
        (["a", "b", "c"], 5, "two rounds of three need six samples at least"),
    ):
        with stub.raises(ValueError, why=why):
            stub.search(names, bench, budget)
        require(not calls, f"search measured {calls} before it said that {why}")
    got = stub.search(["a", "b", "c"], bench, 6)
    require(
        isinstance(got, dict) and got.get("samples_count") == 5,
        f"search of three names with a budget of 6 returned {show(got)}, expected 5 samples: one each, "
        "then one each of two",
    )


# -- live -----------------------------------------------------------------------------------------

PROBE = Path(__file__).resolve().with_name("probes") / "triton_blocks.py"


@task("triton_ex03.measure_rounds")
def test_a_sweep_on_this_gpu(stub: Any) -> None:
    rounds, samples = 8, 5
    told = stub.probe(PROBE, "measured", rounds, samples)
    times, log, own_ns = told["times"], told["log"], told["own_ns"]
    call = f"measure_rounds of four copies, {rounds} rounds of {samples}, on {told['device']}"
    require(
        isinstance(times, dict)
        and times.keys() == own_ns.keys()
        and all([len(part) for part in times[name]] == [samples] * rounds for name in times),
        f"{call} returned {show(times)}, expected {rounds} lists of {samples} samples a name",
    )
    require(
        told["waits"] <= rounds * len(own_ns) + 1,
        f"{call} waited for the device {told['waits']} times, expected once a turn at most: after a wait "
        "the device stands still until the host has issued more, and that is timed with it",
    )
    turns = [name for place, name in enumerate(log) if place == 0 or log[place - 1] != name]
    count = len(own_ns)
    first, later = turns[count:], turns[2 * count :]  # without the calls that warm up
    require(
        first[: len(later)] != later,
        f"{call} had the turns {show(turns)}: the same order in every round, so each is always measured "
        "right after the same other one",
    )
    for name, parts in times.items():
        found = middle([sample for part in parts for sample in part])
        require(
            0.8 * own_ns[name] <= found <= 1.25 * own_ns[name],
            f"{call}: a median of {found:.0f} ns for {name!r}; the same copy measured beside it took "
            f"{own_ns[name]:.0f} ns",
        )
        longest = max(sample for part in parts for sample in part)
        require(
            longest < 50e6,
            f"{call}: a sample of {name!r} took {longest / 1e6:.0f} ms: its first call, which compiles, "
            "is no sample",
        )
    b, twin = (middle([s for part in times[n] for s in part]) for n in ("b", "twin of b"))
    require(
        max(b, twin) / min(b, twin) < 1.03,
        f"{call}: {b:.0f} and {twin:.0f} ns for two names of the same copy: an A/A difference like this "
        "is more than the noise of a device",
    )
