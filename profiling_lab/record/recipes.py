"""`captures.toml`: what each capture is a recording of, and how it was asked for."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiling_lab.record.errors import RecordError
from profiling_lab.record.profilers import PROFILERS, Profiler
from profiling_lab.record.tools import sha256

PROVENANCE = "provenance.json"
README = "README.md"
COMMON_KEYS = frozenset(
    ("program", "args", "tool", "options", "needs", "question", "makefile", "environment")
    + ("sources",)
)


@dataclass(frozen=True)
class Recipe:
    """One capture: its program, what its profiler is told and what the machine must have.

    own: the keys that its profiler knows, with `[defaults.<tool>]` filled in.
    more_sources: files beside the program that it imports.
    """

    name: str
    program: Path
    args: tuple[str, ...] = ()
    tool: str = "nsys"
    own: Mapping[str, Any] = field(default_factory=dict)
    gpus: int = 1
    question: str = ""
    makefile: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    more_sources: tuple[Path, ...] = ()

    @property
    def profiler(self) -> type[Profiler]:
        return PROFILERS[self.tool]

    @property
    def is_cuda(self) -> bool:
        return self.program.suffix == ".cu"

    @property
    def target(self) -> str:
        return self.program.stem

    @property
    def build_folder(self) -> Path:
        return self.makefile.parent if self.makefile else self.program.parent

    def sources(self) -> list[Path]:
        """The files whose change makes the capture stale: the program and the headers beside it."""
        if not self.is_cuda:
            return [self.program, *self.more_sources]
        folder = self.build_folder
        headers = sorted([*folder.glob("*.cuh"), *folder.glob("*.h")])
        return [self.program, *headers, *self.more_sources]

    def command(self) -> list[str]:
        """The command line as a reader would type it, without folders."""
        program = [f"./{self.target}"] if self.is_cuda else ["python3", self.program.name]
        return self.profiler.command(self, [*program, *self.args])


def load(captures: Path) -> dict[str, Recipe]:
    """Read `captures.toml` in the folder `captures`; programs are relative to that folder's parent.

    Raises RecordError naming the file and what is wrong in it.
    """
    file = captures / "captures.toml"
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecordError(f"{file}: no such file; give its folder with --captures DIR") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RecordError(f"{file}: {error}") from None
    defaults = tables.pop("defaults", {})
    root = captures.resolve().parent
    return {name: _recipe(file, root, name, table, defaults) for name, table in tables.items()}


def _recipe(file: Path, root: Path, name: str, table: object, defaults: dict) -> Recipe:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise RecordError(f"{file}: [{name}]: a capture's name is lower case with underscores")
    if not isinstance(table, dict) or "program" not in table:
        raise RecordError(f"{file}: [{name}]: needs at least program = …")
    tool = table.get("tool", "nsys")
    if tool not in PROFILERS:
        raise RecordError(
            f"{file}: [{name}]: no recorder for tool = {tool!r}; there are {', '.join(PROFILERS)}"
        )
    profiler = PROFILERS[tool]
    if unknown := sorted(set(table) - COMMON_KEYS - profiler.keys):
        raise RecordError(f"{file}: [{name}]: unknown key {', '.join(unknown)} (tool = {tool!r})")
    makefile = table.get("makefile")
    recipe = Recipe(
        name=name,
        program=root / table["program"],
        args=tuple(table.get("args", ())),
        tool=tool,
        own=_own(profiler, table, defaults.get(tool, {})),
        gpus=int(table.get("needs", {}).get("gpus", 1)),
        question=table.get("question", ""),
        makefile=root / makefile if makefile else None,
        environment=dict(table.get("environment", {})),
        more_sources=tuple(root / source for source in table.get("sources", ())),
    )
    try:
        profiler.main_file(recipe)
    except RecordError as error:
        raise RecordError(f"{file}: {error}") from None
    return recipe


def _own(profiler: type[Profiler], table: dict, defaults: dict) -> dict[str, Any]:
    """What the profiler is told: the capture's own values over those of `[defaults.<tool>]`.

    Of the lists that are concatenated, an own `--option=value` takes the place of the default one.
    """
    own = {key: table[key] for key in {"options", *profiler.keys} if key in table}
    own = {**defaults, **own}
    for key in profiler.concatenated:
        given = table.get(key, ())
        named = {option.partition("=")[0] for option in given if "=" in option}
        usual = [
            option for option in defaults.get(key, ()) if option.partition("=")[0] not in named
        ]
        own[key] = [*usual, *given]
    return own


def source_hashes(recipe: Recipe) -> dict[str, str]:
    """File name to SHA-256. Raises RecordError where the program does not exist."""
    for source in recipe.sources():
        if not source.is_file():
            raise RecordError(f"{recipe.name}: its program {source} does not exist")
    return {source.name: sha256(source) for source in recipe.sources()}


def state(recipe: Recipe, captures: Path) -> str:
    """`missing`, `stale: why` or `recorded`."""
    folder = captures / recipe.name
    try:
        provenance = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "missing"
    main = recipe.profiler.main_file(recipe)
    if not any(
        (folder / name).is_file() for name in (main, f"{main}.gz", main.removesuffix(".gz"))
    ):
        return "missing"
    if not all(source.is_file() for source in recipe.sources()):
        return "stale: its program does not exist"
    recorded = provenance.get("program", {}).get("sha256", {})
    current = source_hashes(recipe)
    changed = sorted(
        name for name in {*recorded, *current} if recorded.get(name) != current.get(name)
    )
    if changed:
        return f"stale: {', '.join(changed)} changed"
    if provenance.get("command") != " ".join(recipe.command()):
        return "stale: its command changed"
    return "recorded"
