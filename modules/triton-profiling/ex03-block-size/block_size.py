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
    raise NotImplementedError


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
    raise NotImplementedError


def noise_ratio(rounds: Sequence[Sequence[float]]) -> float:
    """How much two measurements of the same thing differ: the noise floor of an A/A comparison.

    rounds: samples of one configuration, one list per round, in the order in which the rounds were run.
    The rounds at even positions (0, 2, …) are A, those at odd positions are B. Each half is all samples of its
    rounds together.

    Returns the larger of the two medians / the smaller one, minus 1: 0.0 for equal medians.

    Raises ValueError for fewer than two rounds, a round without samples, and samples that are not
    above 0.
    """
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError
