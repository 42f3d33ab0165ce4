"""Judge a decision as a rule, not as a label: by worlds that differ in one thing.

    family = Family(
        World(capture, "sync_bound", "the host waits after every kernel"),
        without=(World(fixed, "healthy", "the same program, that waits once, at the end"),),
        alike=(World(renamed, told="the same program with other names of kernels and streams"),),
    )
    judge_families(lambda shown: stub.name_bottleneck(shown).category, families, "name_bottleneck")

The verdict must be right in each world, another one where its cause is gone, and the same where only something
irrelevant changed. All worlds must pass: who answers one label everywhere, or goes by a name, fails. Draw the worlds from
the fixture `seed`, several families for each cause, healthy ones among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from grading.checks.assertions import agree, show


@dataclass(frozen=True)
class World:
    """What the learner's function is shown, the right verdict, and what it is, in words for a message.

    verdict: None where a world `without` the cause may have any verdict but the first.
    """

    shown: Any
    verdict: Any = None
    told: str = ""


@dataclass(frozen=True)
class Family:
    """A world; worlds without its cause; and worlds in which only something irrelevant is different."""

    world: World
    without: tuple[World, ...] = ()
    alike: tuple[World, ...] = ()

    def __post_init__(self) -> None:
        if not (self.without and self.alike):
            raise ValueError("a family needs a world without the cause and one that is alike")
        if any(world.verdict == self.world.verdict for world in self.without):
            raise ValueError("without its cause a world needs another verdict")
        if any(world.verdict is not None for world in self.alike):
            raise ValueError("a world that is alike has the first world's verdict")


def judge_families(
    decide: Callable[[Any], Any], families: Iterable[Family], call: str, hint: str = ""
) -> None:
    """Fail at the first world with a wrong verdict; the message says what changed, never what is right.

    decide: from what is shown to the verdict. call: the learner's function. hint: how to repeat it.
    """
    for family in families:
        first = family.world
        said = decide(first.shown)
        if not agree(said, first.verdict):
            _fail(
                f"{call} says {show(said)} where {first.told}: that decides here.",
                hint,
            )
        for world in family.without:
            other = decide(world.shown)
            if agree(other, said):
                _fail(
                    f"{call} says {show(said)} where {first.told}, and the same where that is gone "
                    f"({world.told}). A verdict that stays when its cause is gone does not rest on it.",
                    hint,
                )
            if world.verdict is not None and not agree(other, world.verdict):
                _fail(
                    f"{call} says {show(said)} where {first.told}, and {show(other)} without it ({world.told}). "
                    "What decides then?",
                    hint,
                )
        for world in family.alike:
            other = decide(world.shown)
            if not agree(other, said):
                _fail(
                    f"{call} says {show(said)} where {first.told}, and {show(other)} in a case that differs only in "
                    f"what does not matter ({world.told}). A verdict may not rest on that.",
                    hint,
                )


def _fail(message: str, hint: str) -> None:
    pytest.fail(message + hint, pytrace=False)
