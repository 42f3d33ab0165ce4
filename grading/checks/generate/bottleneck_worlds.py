"""Worlds for the bottleneck of a timeline: one program with a cause, without it, and with another look."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grading.checks.generate.export import write
from grading.checks.generate.program import Program
from grading.checks.generate.scenarios import _healthy_steps, _steps
from grading.checks.worlds import Family, World
from grading.runner.computed_once import kept
from grading.runner.disguise import disguised

TOLD = {
    "waits": "the host waits for the device after every short kernel",
    "launch_cost": "kernels are shorter than the calls that launch them",
    "copies": "batches are copied in and out on the stream that computes",
    "allocation": "a buffer is allocated and freed in every step",
    "host_code": "long host code runs before every step, and nothing is queued meanwhile",
}


@dataclass
class Saved:
    """Worlds of a session. said: what the learner's function says of a path; equal captures have one path."""

    folder: Path
    said: dict[str, Any] = field(default_factory=dict)
    paths: dict[bytes, str] = field(default_factory=dict)

    def path(self, name: str, data: bytes) -> str:
        """Where a capture lies, under a name that tells nothing; `name` is what it means."""
        if data not in self.paths:
            file = self.folder / f"{disguised(name)}.sqlite"
            file.write_bytes(data)
            self.paths[data] = str(file)
        return self.paths[data]


def with_and_without(cause: str, verdict: str, seed: int, saved: Saved) -> Family:
    """A program whose trouble is `cause`; the same steps without it; the same program, looking different.

    It looks different by the time at which recording began, the order of rows, a name around it that speaks of
    another trouble, and work of the profiler beside it.
    """
    worlds = {"a": _world(cause, seed), "b": _world("", seed), "c": _world(cause, seed, True)}
    a, b, c = _paths(saved, seed, worlds)
    return Family(
        World(a, verdict, TOLD[cause]),
        without=(World(b, "healthy", "the same steps, without it"),),
        alike=(
            World(
                c,
                told="recorded later, rows in another order, inside a range with a misleading name",
            ),
        ),
    )


def healthy(seed: int, saved: Saved) -> Family:
    """A program that is well; with host code before each of its parts; with long waits that cost nothing."""

    d, e, f = _paths(saved, seed, _healthy(seed))
    return Family(
        World(d, "healthy", "all work is issued ahead"),
        without=(
            World(
                e,
                told="it waits three times, and has long host code of its own after each wait",
            ),
        ),
        alike=(
            World(
                f,
                told="the host waits three times for milliseconds, with everything queued",
            ),
        ),
    )


@kept
def _world(cause: str, seed: int, dressed: bool = False) -> bytes:
    """The capture of a program whose trouble is `cause`, "" for none; dressed: it looks different."""
    numbers = random.Random(seed)
    steps, misleading = numbers.randint(12, 20), random.Random(seed + 1).choice(sorted(TOLD))
    program, rng = Program(seed), random.Random(seed * 7919 + 11)
    stream = program.stream()
    if dressed:
        program.push(TOLD[misleading])
        program.overhead(200_000, blocking=False)
    _steps(program, rng, stream, cause, steps)
    program.synchronize(0)
    start_ns = numbers.randint(10**9, 10**10) if dressed else program.default_start_ns
    return _written(program, start_ns, shuffle_rows=dressed)


@kept
def _healthy(seed: int) -> dict[str, bytes]:
    """The captures of its worlds, by name."""

    def world(*, waits: bool, host_ns: int) -> bytes:
        program, rng = Program(seed), random.Random(seed * 7919 + 11)
        for part in range(3):
            program.host(host_ns if part else 0)
            _healthy_steps(program, rng, 25)
            if waits or part == 2:
                program.synchronize(0)  # all of it is queued: the host waits long, the device never
        return _written(program, program.default_start_ns, shuffle_rows=True)

    return {
        "d": world(waits=False, host_ns=0),
        "e": world(waits=True, host_ns=30_000_000),
        "f": world(waits=True, host_ns=0),
    }


def _written(program: Program, start_ns: int, *, shuffle_rows: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "world.sqlite")
        return write(program, file, start_ns=start_ns, shuffle_rows=shuffle_rows).read_bytes()


def _paths(saved: Saved, seed: int, worlds: dict[str, bytes]) -> list[str]:
    return [saved.path(f"world_{name}_{seed}", data) for name, data in worlds.items()]
