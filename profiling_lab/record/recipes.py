"""`captures.toml`: what each capture is a recording of, and how it was asked for."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

TIMELINE = "timeline.sqlite"
REPORT = "timeline.nsys-rep"
PROVENANCE = "provenance.json"
README = "README.md"
KNOWN_KEYS = frozenset(
    ("program", "args", "tool", "options", "needs", "question", "makefile", "environment")
    + ("report", "stats", "more_stats")
)


class RecordError(Exception):
    """What stops the recorder, in one line."""


@dataclass(frozen=True)
class Recipe:
    """One capture: its program, the tool's options and what the machine must have."""

    name: str
    program: Path
    args: tuple[str, ...] = ()
    tool: str = "nsys"
    options: tuple[str, ...] = ()
    gpus: int = 1
    question: str = ""
    makefile: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    report: bool = False
    stats: tuple[str, ...] = ()

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
            return [self.program]
        folder = self.build_folder
        headers = sorted([*folder.glob("*.cuh"), *folder.glob("*.h")])
        return [self.program, *headers]

    def command(self) -> list[str]:
        """The command line as a reader would type it, without folders."""
        program = [f"./{self.target}"] if self.is_cuda else ["python3", self.program.name]
        return ["nsys", "profile", *self.options, *program, *self.args]


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
    if unknown := sorted(set(table) - KNOWN_KEYS):
        raise RecordError(f"{file}: [{name}]: unknown key {', '.join(unknown)}")
    tool = table.get("tool", "nsys")
    if tool != "nsys":
        raise RecordError(f"{file}: [{name}]: no recorder for tool = {tool!r}")
    makefile = table.get("makefile")
    return Recipe(
        name=name,
        program=root / table["program"],
        args=tuple(table.get("args", ())),
        tool=tool,
        options=(*defaults.get("options", ()), *table.get("options", ())),
        gpus=int(table.get("needs", {}).get("gpus", 1)),
        question=table.get("question", ""),
        makefile=root / makefile if makefile else None,
        environment=dict(table.get("environment", {})),
        report=bool(table.get("report", False)),
        stats=(
            *table.get("stats", defaults.get("stats", ())),
            *table.get("more_stats", ()),
        ),
    )


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def source_hashes(recipe: Recipe) -> dict[str, str]:
    """File name to SHA-256. Raises RecordError where the program does not exist."""
    if not recipe.program.is_file():
        raise RecordError(f"{recipe.name}: its program {recipe.program} does not exist")
    return {source.name: sha256(source) for source in recipe.sources()}


def state(recipe: Recipe, captures: Path) -> str:
    """`missing`, `stale: why` or `recorded`."""
    folder = captures / recipe.name
    try:
        provenance = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "missing"
    if not (folder / TIMELINE).is_file():
        return "missing"
    if not recipe.program.is_file():
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
