"""What do other tools say of the recordings of the third to sixth looks at pairs (PAIRS.md)?

    uv run python benchmarks/tools_pairs.py TOOL RECORDINGS [--python PATH | --nsys PATH]

RECORDINGS is the folder of the faulty versions' recordings: NAME_faulty.sqlite, NAME_faulty.json.gz, or a folder
NAME_faulty of traces. They are not kept in the repository; the answers are, in results/tools_comparison/pairs_TOOL.json, those
of recordings that are not given as they were.
`tools_comparison.py judge` reads them. The engine's answers stand in results/engine_pairs.json (its last run).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import tools_comparison as comparison  # noqa: E402
from benchmarks.tools_cases import RESULTS  # noqa: E402

PLAN = ROOT / "benchmarks/pairs/pairs.toml"
ENGINE = ROOT / "benchmarks/results/engine_pairs.json"
LOOKS = (3, 4, 5, 6)
# Their recordings hold no work of the GPU, or a small part of it (PAIRS.md).
NO_EVIDENCE = (
    "steady_scan_jax",
    "update_not_jitted_optax",
    "windows_jitted_jax",
    "steady_training_flax",
)


def later_looks() -> dict[str, dict[str, Any]]:
    """The programs of the third to sixth looks by name, as a case of tools_verdicts.py."""
    plan = tomllib.loads(PLAN.read_text(encoding="utf-8"))
    out = {}
    for name, pair in plan.items():
        if pair.get("look") in LOOKS and name not in NO_EVIDENCE:
            label = pair["label"]
            # As in the case files: waiting for input is a way to be host-bound.
            expect = "host_bound" if label == "input_bound" else label
            out[name] = pair | {"expect": expect, "engine": label, "must_not": []}
    return out


def engine() -> tuple[str, dict[str, Any]]:
    """The engine's last run over them, as `lab diagnose` answers: the findings, main one first."""
    told = json.loads(ENGINE.read_text(encoding="utf-8"))
    answers = {}
    for name in later_looks():
        last = told["pairs"][name]["last"]
        order = sorted(last["findings"], key=lambda c: (c != last["main"], -last["findings"][c]))
        found = order if last["main"] in order else [last["main"], *order]
        answers[name] = {"findings": [{"category": category} for category in found]}
    return f"commit {told['commits']['last, look 6']}", answers


def ask(tool: str, options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The tool's version and its answers by name."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        if tool in ("hta", "tracelens"):
            return _of_traces(tool, options.python, options.recordings, folder)
        files = {}
        for name in later_looks():
            file = options.recordings / f"{name}_faulty.sqlite"
            if file.is_file():
                files[name] = folder / f"{name}.sqlite"
                files[name].write_bytes(file.read_bytes())
        one: Callable[[Path], Any]
        if tool == "nsys_analyze":
            version = comparison.run([options.nsys, "--version"]).stdout.strip()
            one = lambda file: comparison.rules_of(options.nsys, [file])  # noqa: E731
        else:
            version = comparison.installed(options.python, "nsys-ai")
            one = lambda file: comparison.nsys_ai_says(options.python, file)  # noqa: E731
        return version, comparison.in_parallel(lambda name: one(files[name]), list(files))


def _of_traces(
    tool: str, python: Path, recordings: Path, folder: Path
) -> tuple[str, dict[str, Any]]:
    names = []
    for name in later_looks():
        one, several = recordings / f"{name}_faulty.json.gz", recordings / f"{name}_faulty"
        if several.is_dir():
            (folder / name).symlink_to(several.resolve())
        elif one.is_file():
            (folder / name).mkdir()
            (folder / name / "trace.json.gz").symlink_to(one.resolve())
        else:
            continue
        names.append(name)
    script = Path(__file__).with_name(f"tools_{tool}.py")
    done = comparison.run([str(python), str(script), *(str(folder / name) for name in names)])
    if done.returncode:
        sys.exit(done.stderr)
    package = {"hta": "HolisticTraceAnalysis", "tracelens": "TraceLens"}[tool]
    told = json.loads(done.stdout[done.stdout.index("{") :])
    return comparison.installed(python, package), told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=("nsys_analyze", "nsys_ai", "hta", "tracelens"))
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--nsys", default="nsys")
    options = parser.parse_args()
    version, told = ask(options.tool, options)
    out = RESULTS / f"pairs_{options.tool}.json"
    if out.exists():
        told = json.loads(out.read_text(encoding="utf-8"))["answers"] | told
    document = {"tool": options.tool, "version": version, "answers": told}
    out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{options.tool} {version}: {len(told)} recordings")


if __name__ == "__main__":
    main()
