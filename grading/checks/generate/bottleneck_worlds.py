"""Worlds for the bottleneck of a timeline: one program with a cause, without it, and with another look."""

from __future__ import annotations

import random
from pathlib import Path

from grading.checks.generate.export import write
from grading.checks.generate.program import Program
from grading.checks.generate.scenarios import _healthy_steps, _steps
from grading.checks.worlds import Family, World
from grading.runner.disguise import disguised

TOLD = {
    "waits": "the host waits for the device after every short kernel",
    "launch_cost": "kernels are shorter than the calls that launch them",
    "copies": "batches are copied in and out on the stream that computes",
    "allocation": "a buffer is allocated and freed in every step",
    "host_code": "long host code runs before every step, and nothing is queued meanwhile",
}


def with_and_without(cause: str, verdict: str, seed: int, folder: Path) -> Family:
    """A program whose trouble is `cause`; the same steps without it; the same program, looking different.

    It looks different by the time at which recording began, the order of rows, a name around it that speaks of
    another trouble, and work of the profiler beside it.
    """
    numbers = random.Random(seed)
    steps, misleading = numbers.randint(25, 40), random.Random(seed + 1).choice(sorted(TOLD))

    def world(name: str, sick: str, *, dressed: bool) -> str:
        program, rng = Program(seed), random.Random(seed * 7919 + 11)
        stream = program.stream()
        if dressed:
            program.push(TOLD[misleading])
            program.overhead(200_000, blocking=False)
        _steps(program, rng, stream, sick, steps)
        program.synchronize(0)
        path = folder / f"{disguised(f'world_{name}_{seed}')}.sqlite"
        start_ns = numbers.randint(10**9, 10**10) if dressed else program.default_start_ns
        write(program, path, start_ns=start_ns, shuffle_rows=dressed)
        return str(path)

    return Family(
        World(world("a", cause, dressed=False), verdict, TOLD[cause]),
        without=(World(world("b", "", dressed=False), "healthy", "the same steps, without it"),),
        alike=(
            World(
                world("c", cause, dressed=True),
                told="recorded later, rows in another order, inside a range with a misleading name",
            ),
        ),
    )


def healthy(seed: int, folder: Path) -> Family:
    """A program that is well; with host code before each of its parts; with long waits that cost nothing."""

    def world(name: str, *, waits: bool, host_ns: int) -> str:
        program, rng = Program(seed), random.Random(seed * 7919 + 11)
        for part in range(3):
            program.host(host_ns if part else 0)
            _healthy_steps(program, rng, 25)
            if waits or part == 2:
                program.synchronize(0)  # all of it is queued: the host waits long, the device never
        path = folder / f"{disguised(f'world_{name}_{seed}')}.sqlite"
        write(program, path, start_ns=program.default_start_ns)
        return str(path)

    return Family(
        World(world("d", waits=False, host_ns=0), "healthy", "all work is issued ahead"),
        without=(
            World(
                world("e", waits=True, host_ns=30_000_000),
                told="it waits three times, and has long host code of its own after each wait",
            ),
        ),
        alike=(
            World(
                world("f", waits=True, host_ns=0),
                told="the host waits three times for milliseconds, with everything queued",
            ),
        ),
    )
