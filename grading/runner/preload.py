"""What a template imports before it forks: the frameworks that the tasks of an exercise need.

Importing torch with its compiler takes eight seconds of a processor, jax two: who judges an exercise without
them should not wait for them, and who judges fifty pays once.
"""

from __future__ import annotations

from collections.abc import Collection

from profiling_lab.course.manifest import Exercise

# By the words of `needs`. Absent modules are left out. None of them starts a thread or a backend when it is
# imported.
MODULES = {
    "torch": ("torch", "torch._dynamo", "torch.utils.flop_counter"),
    "triton": ("torch", "triton.runtime.interpreter"),
    "jax": ("jax.numpy",),
}


def modules(exercise: Exercise, *, live: bool = False) -> tuple[str, ...]:
    """The modules that checks of an exercise import, live ones only if asked for; the same for the same needs."""
    return of_needs({n for task in exercise.tasks if live or not task.live for n in task.needs})


def of_needs(needs: Collection[str]) -> tuple[str, ...]:
    """The modules that words of `needs` stand for."""
    return tuple(
        dict.fromkeys(m for need, names in MODULES.items() if need in needs for m in names)
    )
