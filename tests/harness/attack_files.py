"""The files of tests/attacks, and honest work between them."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from profiling_lab.course.manifest import Course, Exercise

ROOT = Path(__file__).resolve().parents[2]

ATTACKS = ROOT / "tests" / "attacks"


class Attack:
    """One file of tests/attacks."""

    def __init__(self, file: Path) -> None:
        self.name = file.stem
        self.module = _module(file)

    def __repr__(self) -> str:
        return self.name

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self.module, name, default)

    def exercise(self, course: Course) -> Exercise:
        return course.exercise(self.module.EXERCISE)

    def stub(self, course: Course) -> str:
        return self.get("STUB") or str(self.exercise(course).stub)

    def wants(self, course: Course) -> tuple[str, ...]:
        of_stub = [t for t in self.exercise(course).tasks if str(t.stub) == self.stub(course)]
        return tuple(self.get("WANTS") or [task.name for task in of_stub])

    def submitted(self, course: Course) -> bytes:
        text = self.get("SUBMITTED", "")
        if isinstance(text, bytes):
            return text
        text = text.replace("@PORT@", "0xABCD")  # so that it is Python before it is filled in
        if "\ndef attack(" in text or text.startswith("def attack("):
            own = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
            for name in self.wants(course):
                if name not in own:
                    text += f"\ndef {name}(*args, **kwargs):\n    return attack({name!r}, *args, **kwargs)\n"
        return text.encode("utf-8", "surrogatepass")


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"attack_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def attacks(folder: Path = ATTACKS) -> list[Attack]:
    return [Attack(file) for file in sorted(folder.glob("*.py"))]


def controls() -> list[Attack]:
    return attacks(ATTACKS / "honest")
