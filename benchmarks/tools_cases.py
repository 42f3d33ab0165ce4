"""The case files that tools are compared on: what was planted, and which recordings they are.

The truth is solutions/labs/case_files/cases.toml, in the cases that are usable.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLAN = ROOT / "solutions/labs/case_files/cases.toml"
RESULTS = ROOT / "benchmarks/results/tools_comparison"
MAIN_FILE = {"timeline": "timeline.sqlite", "kernels": "kernels.csv.gz"}


def cases() -> dict[str, dict[str, Any]]:
    """The usable cases by name, as the plan has them."""
    plan = tomllib.loads(PLAN.read_text(encoding="utf-8"))
    return {
        name: case
        for name, case in plan.items()
        if case.get("usable", True) and (ROOT / "captures" / name).is_dir()
    }


def of_kind(kind: str) -> dict[str, list[str]]:
    """Case name to those of its captures that are of this kind."""
    out = {}
    for name, case in cases().items():
        held = [c for c in case["captures"] if kind_of(c) == kind]
        if held:
            out[name] = held
    return out


def kind_of(capture: str) -> str:
    """What a capture is, by the files that it holds."""
    files = [file.name for file in (ROOT / "captures" / capture).iterdir()]
    for kind, file in MAIN_FILE.items():
        if file in files or file.removesuffix(".gz") in files:
            return kind
    return "trace"


def recordings(names: Iterable[str]) -> dict[str, str]:
    """By case, a hash of what its captures hold: an answer is of the recording that it was given."""
    out = {}
    for name in names:
        digest = hashlib.sha256()
        for capture in cases()[name]["captures"]:
            told = json.loads((ROOT / "captures" / capture / "provenance.json").read_text())
            digest.update(json.dumps(told["files"], sort_keys=True).encode())
        out[name] = digest.hexdigest()[:16]
    return out
