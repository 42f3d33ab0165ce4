"""What programs of pairs share: the plan, the device, and how a version is timed and recorded."""

from __future__ import annotations

import importlib
import os
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
VERSIONS = ("faulty", "fixed")
WARM_UP = 3  # steps

Loop = Callable[[int], Iterator[None]]


@dataclass(frozen=True)
class Pair:
    """One row of pairs.toml; see there."""

    name: str
    module: str
    label: str
    library: str
    fault: str
    fix: str
    recorder: str
    steps: int = 0
    recorded: int = 0
    both: bool = False
    look: int = 1
    ranks: int = 1
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def versions(self) -> tuple[str, ...]:
        """Both, or the one of a program that is judged by its label alone."""
        return VERSIONS if self.fix else VERSIONS[:1]

    @property
    def recorded_steps(self) -> int:
        return self.recorded or max(5, self.steps // 4)

    def load(self) -> Callable[[bool], Loop]:
        """The function that builds a version; importing it is what takes long."""
        if str(FOLDER) not in sys.path:
            sys.path.insert(0, str(FOLDER))
        return getattr(importlib.import_module(self.module), self.name)


def plan() -> dict[str, Pair]:
    tables = tomllib.loads((FOLDER / "pairs.toml").read_text(encoding="utf-8"))
    return {name: Pair(name=name, **table) for name, table in tables.items()}


def has_gpu() -> bool:
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/proc/driver/nvidia")


def size(on_gpu: int, elsewhere: int) -> int:
    """A length for the GPU, or the small one with which a program is tried without it."""
    return on_gpu if has_gpu() else elsewhere


def wait() -> None:
    """Until the device is done, whichever library gave it work."""
    for name in ("torch", "cupy", "numba.cuda"):
        if name not in sys.modules:
            continue
        if name == "torch":
            if sys.modules[name].cuda.is_initialized():
                sys.modules[name].cuda.synchronize()
        elif name == "cupy":
            sys.modules[name].cuda.Device().synchronize()
        else:
            sys.modules[name].synchronize()
    if "with_jax" in sys.modules:
        sys.modules["with_jax"].wait()


def timed(loop: Loop, steps: int) -> float:
    """Seconds of these steps, to the end of what the device does."""
    wait()
    begun = time.perf_counter()
    for _ in loop(steps):
        pass
    wait()
    return time.perf_counter() - begun
