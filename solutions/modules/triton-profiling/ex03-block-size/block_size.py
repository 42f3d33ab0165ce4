"""Triton: the best block size.

You find out which configurations of a kernel fit on a multiprocessor, and which of them are faster than others
by more than the noise. You search for a good one without measuring all of them equally often.

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError

# Limits of one multiprocessor (SM) by compute capability (source: CUDA C++ Programming Guide, technical
# specifications; cuda_occupancy.h of CUDA 13.2). Shared memory: of an SM, the most of one block, what the
# driver keeps of it for each block, and the unit in which it is given out. All in bytes.
SM_LIMITS: dict[str, dict[str, int]] = {
    "7.0": {
        "warps": 64,
        "blocks": 32,
        "shared_bytes": 98_304,
        "block_shared_bytes": 98_304,
        "reserved_shared_bytes": 0,
        "shared_unit_bytes": 256,
    },
    "7.5": {
        "warps": 32,
        "blocks": 16,
        "shared_bytes": 65_536,
        "block_shared_bytes": 65_536,
        "reserved_shared_bytes": 0,
        "shared_unit_bytes": 256,
    },
    "8.0": {
        "warps": 64,
        "blocks": 32,
        "shared_bytes": 167_936,
        "block_shared_bytes": 166_912,
        "reserved_shared_bytes": 1024,
        "shared_unit_bytes": 128,
    },
    "8.6": {
        "warps": 48,
        "blocks": 16,
        "shared_bytes": 102_400,
        "block_shared_bytes": 101_376,
        "reserved_shared_bytes": 1024,
        "shared_unit_bytes": 128,
    },
    "8.9": {
        "warps": 48,
        "blocks": 24,
        "shared_bytes": 102_400,
        "block_shared_bytes": 101_376,
        "reserved_shared_bytes": 1024,
        "shared_unit_bytes": 128,
    },
    "9.0": {
        "warps": 64,
        "blocks": 32,
        "shared_bytes": 233_472,
        "block_shared_bytes": 232_448,
        "reserved_shared_bytes": 1024,
        "shared_unit_bytes": 128,
    },
    "10.0": {
        "warps": 64,
        "blocks": 32,
        "shared_bytes": 233_472,
        "block_shared_bytes": 232_448,
        "reserved_shared_bytes": 1024,
        "shared_unit_bytes": 128,
    },
    "12.0": {
        "warps": 48,
        "blocks": 24,
        "shared_bytes": 102_400,
        "block_shared_bytes": 101_376,
        "reserved_shared_bytes": 1024,
        "shared_unit_bytes": 128,
    },
}
WARP_THREADS, MAX_BLOCK_THREADS, MAX_THREAD_REGISTERS = 32, 1024, 255
# An SM of each of them has four partitions with a quarter of its registers each. A warp lives in one of
# them and gets its registers in units of 256.
SM_PARTITIONS, PARTITION_REGISTERS, WARP_REGISTER_UNIT = 4, 16_384, 256


def occupancy_table(
    compute_capability: str,
    block_sizes: Sequence[int],
    thread_registers: int,
    shared_bytes: int = 0,
) -> list[dict[str, Any]]:
    """Theoretical occupancy of a kernel for several block sizes.

    compute_capability: a key of SM_LIMITS.
    block_sizes: numbers of threads in a block, each 1 to MAX_BLOCK_THREADS.
    thread_registers: registers of a thread.
    shared_bytes: shared memory of a block, static and dynamic together. The SM provides as much shared memory
        as it can.

    A block's threads are rounded up to whole warps. The number of blocks on an SM is the smallest of four
    limits:
        "warps":     the SM's warps divided by the warps of a block.
        "blocks":    the SM's blocks.
        "registers": round the registers of a warp up to WARP_REGISTER_UNIT; whole warps fit into a partition.
                     The limit is the warps of all partitions together, divided by the warps of a block.
        "shared":    the SM's shared memory divided by what a block takes. A block takes the bytes that it asks
                     for and those that the driver keeps, together rounded up to the unit. If the block takes 0 bytes, shared memory sets no limit. If the block asks for more than one block may have, the limit is 0.

    Returns a row for each block size, in the given order: {"block_threads": int, "blocks_count": int and
    "warps_count": int, both per SM, "occupancy_ratio": float (share of the SM's warps), "limiters": the names of
    the limits that are the smallest, in the order above}.

    Raises ValueError for an unknown compute capability (the message lists the known ones), a block size
    out of range, thread_registers outside 1 to MAX_THREAD_REGISTERS, and negative shared_bytes.
    """
    if compute_capability not in SM_LIMITS:
        raise ValueError(f"no limits of {compute_capability!r}; known: {', '.join(SM_LIMITS)}")
    if not all(1 <= threads <= MAX_BLOCK_THREADS for threads in block_sizes):
        raise ValueError(f"a block has 1 to {MAX_BLOCK_THREADS} threads, not {list(block_sizes)}")
    if not 1 <= thread_registers <= MAX_THREAD_REGISTERS:
        raise ValueError(f"a thread has 1 to {MAX_THREAD_REGISTERS} registers")
    if shared_bytes < 0:
        raise ValueError(f"shared_bytes must not be negative, not {shared_bytes}")
    sm = SM_LIMITS[compute_capability]
    warp_registers = _round_up(thread_registers * WARP_THREADS, WARP_REGISTER_UNIT)
    fitting_warps = PARTITION_REGISTERS // warp_registers * SM_PARTITIONS
    taken = _round_up(shared_bytes + sm["reserved_shared_bytes"], sm["shared_unit_bytes"])
    rows = []
    for threads in block_sizes:
        warps = math.ceil(threads / WARP_THREADS)
        limits = {
            "warps": sm["warps"] // warps,
            "blocks": sm["blocks"],
            "registers": fitting_warps // warps,
        }
        if shared_bytes > sm["block_shared_bytes"]:
            limits["shared"] = 0
        elif taken:
            limits["shared"] = sm["shared_bytes"] // taken
        blocks = min(limits.values())
        rows.append(
            {
                "block_threads": threads,
                "blocks_count": blocks,
                "warps_count": blocks * warps,
                "occupancy_ratio": blocks * warps / sm["warps"],
                "limiters": [name for name, limit in limits.items() if limit == blocks],
            }
        )
    return rows


def kernel_resources(capture: str) -> list[dict[str, Any]]:
    """The resources of each compiled configuration of a recorded sweep, and how many programs an SM holds.

    capture: name or path of a capture with the measurements.json of `captures/programs/triton_blocks.py`:
    "compute_capability" of the device, and "configurations": rows with
        name
        num_warps:           warps of a program, whatever its block of elements.
        registers_count:     registers of a thread.
        spilled_words_count: 4-byte words of a thread that did not fit into registers.
        shared_bytes:        shared memory of a program.

    Returns a row for each configuration, in the file's order: {"name", "program_threads", "registers_count",
    "spilled_bytes" (of a thread), "shared_bytes", "sm_programs_count", "occupancy_ratio"}. The last two are
    computed as in `occupancy_table`.

    Raises profiling_lab.errors.CaptureError for a file without one of the keys, and the errors of
    `captures.text` and `occupancy_table`.
    """
    table = _sweep(capture)
    rows = []
    for found in table["configurations"]:
        threads = found["num_warps"] * WARP_THREADS
        (fit,) = occupancy_table(
            table["compute_capability"], [threads], found["registers_count"], found["shared_bytes"]
        )
        rows.append(
            {
                "name": found["name"],
                "program_threads": threads,
                "registers_count": found["registers_count"],
                "spilled_bytes": found["spilled_words_count"] * 4,
                "shared_bytes": found["shared_bytes"],
                "sm_programs_count": fit["blocks_count"],
                "occupancy_ratio": fit["occupancy_ratio"],
            }
        )
    return rows


def noise_ratio(rounds: Sequence[Sequence[float]]) -> float:
    """How much two measurements of the same thing differ: the noise floor of an A/A comparison.

    rounds: samples of one configuration, one list per round, in the order in which the rounds were run.
    The rounds at even positions (0, 2, …) are A, those at odd positions are B. Each half is all samples of its
    rounds together.

    Returns the larger of the two medians / the smaller one, minus 1: 0.0 for equal medians.

    Raises ValueError for fewer than two rounds, a round without samples, and samples that are not
    above 0.
    """
    halves = [[sample for samples in rounds[first::2] for sample in samples] for first in (0, 1)]
    if not all(rounds) or not all(halves):
        raise ValueError("an A/A comparison needs two rounds at least, each with samples")
    if not all(sample > 0 for samples in rounds for sample in samples):
        raise ValueError("every sample must be a time above 0")
    a, b = map(statistics.median, halves)
    return max(a, b) / min(a, b) - 1


def best_block_size(capture: str) -> dict[str, Any]:
    """The fastest configuration of a recorded sweep, and those that cannot be distinguished from it.

    capture: as for `kernel_resources`. "device_time" of a configuration holds its samples in ns, one list per
    round. "default" of the file is the name of the configuration that is used without tuning.

    A configuration's time is the median of all its samples. The noise floor of the sweep is the largest
    `noise_ratio` of all configurations. A configuration is a tie if its time is at most (1 + noise
    floor) times that of the fastest.

    Returns
        "best":                  name of the fastest (if equal, the first in the file).
        "best_ns":               its time.
        "noise_ratio":           the noise floor.
        "ties":                  names of all ties, the fastest among them, in the file's order.
        "default", "default_ns": name and time of the default.
        "speedup_ratio":         default_ns / best_ns.
        "verdict":               "no_win" if the default is a tie, else "win".

    Raises profiling_lab.errors.CaptureError for a file without one of the keys, configurations or
    samples, and the errors of `captures.text`.
    """
    table = _sweep(capture)
    rows = table["configurations"]
    try:
        times = {
            row["name"]: statistics.median([t for samples in row["device_time"] for t in samples])
            for row in rows
        }
        noise = max(noise_ratio(row["device_time"]) for row in rows)
        default = table["default"]
        default_ns = times[default]
    except (KeyError, TypeError, ValueError) as error:
        raise CaptureError(f"{capture}: no sweep with samples: {error!r}") from None
    best = min(times, key=times.__getitem__)
    ties = [name for name, time in times.items() if time <= times[best] * (1 + noise)]
    return {
        "best": best,
        "best_ns": times[best],
        "noise_ratio": noise,
        "ties": ties,
        "default": default,
        "default_ns": default_ns,
        "speedup_ratio": default_ns / times[best],
        "verdict": "no_win" if default in ties else "win",
    }


def prune_configs(
    configs: Sequence[dict[str, Any]], compute_capability: str, least_occupancy_ratio: float
) -> dict[str, Any]:
    """Drop, before anything is measured, the configurations that cannot run or hardly fill an SM.

    configs: each with "name", "num_warps", "registers_count" and "shared_bytes", as compiled.
    least_occupancy_ratio: 0.0 to 1.0.

    A configuration is dropped for the first of these reasons that holds:
        "threads":   its warps have more than MAX_BLOCK_THREADS threads.
        "registers": its registers alone leave no room for one program on an SM.
        "shared":    it asks for more shared memory than one block may have.
        "occupancy": its occupancy is below least_occupancy_ratio.

    Returns {"kept": names, in the given order, "dropped": {name: reason}}.

    Raises ValueError for a least_occupancy_ratio out of range, and the errors of `occupancy_table`.
    """
    if not 0 <= least_occupancy_ratio <= 1:
        raise ValueError(f"least_occupancy_ratio must be 0 to 1, not {least_occupancy_ratio}")
    kept, dropped = [], {}
    for config in configs:
        threads = config["num_warps"] * WARP_THREADS
        if threads > MAX_BLOCK_THREADS:
            dropped[config["name"]] = "threads"
            continue
        (fit,) = occupancy_table(
            compute_capability, [threads], config["registers_count"], config["shared_bytes"]
        )
        nothing_fits = fit["blocks_count"] == 0
        if nothing_fits and "registers" in fit["limiters"]:
            dropped[config["name"]] = "registers"
        elif nothing_fits:
            dropped[config["name"]] = "shared"
        elif fit["occupancy_ratio"] < least_occupancy_ratio:
            dropped[config["name"]] = "occupancy"
        else:
            kept.append(config["name"])
    return {"kept": kept, "dropped": dropped}


def search(
    names: Sequence[str], bench: Callable[[str, int], list[float]], budget_count: int
) -> dict[str, Any]:
    """Find a fast configuration by successive halving: few samples of all, more of those that remain.

    names: the configurations, all different.
    bench(name, count): takes `count` new samples of one configuration and returns them, in ns. Only this
        function calls it.
    budget_count: the largest number of samples that may be taken in total.

    The number of rounds is the number of halvings (each rounded up) that it takes to get from all names to one.
    In a round each survivor, in the order of names, gets the same number of new samples in one call: the budget,
    divided by the rounds and by the survivors of the round, rounded down. Then the half (rounded up) with the
    lowest medians survives. A configuration's median is that of all its samples so far. If medians are equal, the
    configuration that comes first in names survives.

    Returns {"best": the last name, "median_ns": the median of all its samples, "samples_count": number of
    samples taken in total, "survivors": the names left after each round, in the order of names}.

    After K. Jamieson, A. Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter
    Optimization", AISTATS 2016.

    Raises ValueError, before anything is measured, for fewer than two names, a name that occurs twice,
    and a budget that leaves some survivor of a round without a sample.
    """
    rounds = math.ceil(math.log2(len(names))) if names else 0
    if not rounds or len(set(names)) < len(names):
        raise ValueError("a search needs two names at least, all different")
    if budget_count < rounds * len(names):
        raise ValueError(f"{budget_count} samples do not do for {rounds} rounds")
    samples: dict[str, list[float]] = {name: [] for name in names}
    left = list(names)
    survivors = []
    for _ in range(rounds):
        count = budget_count // (rounds * len(left))
        for name in left:
            samples[name] += bench(name, count)
        medians = {name: statistics.median(samples[name]) for name in left}
        fastest = sorted(left, key=medians.__getitem__)[: math.ceil(len(left) / 2)]
        left = [name for name in left if name in fastest]
        survivors.append(left)
    (best,) = left
    return {
        "best": best,
        "median_ns": statistics.median(samples[best]),
        "samples_count": sum(map(len, samples.values())),
        "survivors": survivors,
    }


def measure_rounds(
    calls: dict[str, Callable[[], object]], rounds_count: int, samples_count: int
) -> dict[str, list[list[float]]]:
    """Time several configurations on this machine's GPU, in rounds, as the recorded sweeps did.

    calls: for each name, a function that launches one call of the configuration. Its first call may compile for
    seconds.

    Each configuration is called a few times before anything is timed. Then come rounds_count rounds. In a round
    every configuration has one turn and gets samples_count samples; each round has its own random order. A
    sample is the time of one call on the device, between two CUDA events. It must not include the host's work
    for the call: before the first event, issue something that keeps the device busy, and wait for the device
    only after all samples of a turn.

    Returns the samples in ns, by name: one list per round, as `noise_ratio` takes them.
    """
    import torch

    for call in calls.values():
        for _ in range(3):
            call()
    times: dict[str, list[list[float]]] = {name: [] for name in calls}
    for _ in range(rounds_count):
        for name in random.sample(list(calls), len(calls)):
            calls[name]()
            pairs = [
                (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
                for _ in range(samples_count)
            ]
            for start, end in pairs:
                torch.cuda._sleep(500_000)
                start.record()
                calls[name]()
                end.record()
            torch.cuda.synchronize()
            times[name].append([start.elapsed_time(end) * 1e6 for start, end in pairs])
    return times


def _round_up(value: int, unit: int) -> int:
    return math.ceil(value / unit) * unit


def _sweep(capture: str) -> dict[str, Any]:
    needed = {"name", "num_warps", "registers_count", "spilled_words_count", "shared_bytes"}
    table: dict[str, Any] = {}
    try:
        table = json.loads(captures.text(capture, "measurements.json"))
        whole = "compute_capability" in table and all(
            needed <= row.keys() for row in table["configurations"]
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        whole = False
    if not whole:
        raise CaptureError(f"{capture}: no sweep of configurations")
    return table
