"""What a template imports before it forks: the frameworks that the tasks of an exercise need.

Importing torch with its compiler takes eight seconds of a processor, jax two: who judges an exercise without
them should not wait for them, and who judges fifty pays once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TypeVar

from profiling_lab.course.manifest import Exercise

AHEAD = 50  # units: they take longer than the imports, also where many run at a time
T = TypeVar("T")

# By the words of `needs`. Absent modules are left out. None of them starts a thread or a backend when it is
# imported.
MODULES = {
    # The first use of the compiler imports the last three, in 0.7 s.
    "torch": (
        *("torch", "torch._dynamo", "torch.utils.flop_counter"),
        *("functorch.compile", "torch._dynamo.debug_utils", "torch.export._trace"),
    ),
    "triton": ("torch", "triton.runtime.interpreter"),
    "jax": ("jax.numpy",),
}


# What submissions of all exercises import, and what their first uses of numpy and of a timeline do: 0.1 s.
SUBMISSIONS = (
    *("numpy", "numpy.ma", "polars", "adbc_driver_sqlite", "msgspec"),
    *("asyncio", "statistics", "tomllib"),
    *("profiling_lab.captures.dependencies", "profiling_lab.captures.torch_trace"),
    *(
        "profiling_lab.captures.kernels",
        "profiling_lab.captures.program_runs",
        "profiling_lab.findings",
        "profiling_lab.kernel_causes",
    ),
)


def modules(exercise: Exercise, *, live: bool = False) -> tuple[str, ...]:
    """The modules that checks of an exercise import, live ones only if asked for; the same for the same needs."""
    return of_needs({n for task in exercise.tasks if live or not task.live for n in task.needs})


def of_needs(needs: Collection[str]) -> tuple[str, ...]:
    """The modules that words of `needs` stand for."""
    return tuple(
        dict.fromkeys(m for need, names in MODULES.items() if need in needs for m in names)
    )


def in_turn(units: Iterable[T], needed: Callable[[T], tuple[str, ...]]) -> list[T]:
    """Units that need the same modules together, but the first of them sooner: others run while these are imported.

    needed: the modules of a unit.
    """
    kinds: dict[tuple[str, ...], list[T]] = {}
    for unit in units:
        kinds.setdefault(needed(unit), []).append(unit)
    out: list[T] = []
    earliest = 0  # no sooner than the kind before: no more than two are open at a time
    for kind in sorted(kinds):
        first, *others = kinds[kind]
        out.insert(max(len(out) - AHEAD, earliest), first)
        earliest = len(out)
        out += others
    return out


def of_checks(names: Iterable[str], files: Iterable[Path]) -> tuple[str, ...]:
    """Those of the modules whose framework check files import; the code that they judge runs elsewhere.

    A framework that a check meets without naming it is imported then, once for each run.
    """
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    used = {first or second for first, second in _IMPORTED.findall(text)}
    return tuple(name for name in names if name.partition(".")[0] in used)


_IMPORTED = re.compile(r"""^\s*(?:import|from) (\w+)|\binstalled\(["'](\w+)""", re.MULTILINE)
