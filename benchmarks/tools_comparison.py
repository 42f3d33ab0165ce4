"""What do other tools say of the case files?

    uv run python benchmarks/tools_comparison.py answers TOOL [--out FILE]   # asks one tool
    uv run python benchmarks/tools_comparison.py judge                       # writes TOOLS.md

TOOL                what is asked, and what it needs
`lab`               `lab diagnose --json`: the engine; any machine
`references`        the same with `--against solutions`: the course's functions, solved; any machine
`nsys_analyze`      `nsys analyze` with its default rules, and gpu_gaps from 1 ms on; nsys
`nsys_ai`           `nsys-ai diagnose` and its root_cause_matcher, no language model; a Python with nsys-ai,
                    duckdb 1.4.4 and duckdb-ext-sqlite (--python PATH)
`hta`               HolisticTraceAnalysis on traces; a Python with it (--python PATH)
`nsight_compute`    the rules of the details page, on a new recording of each program; a GPU, ncu, nvcc

Raw answers are kept in results/tools_comparison/, one file a tool; `judge` reads only them. What was planted
is in tools_cases.py, how an answer becomes a verdict in tools_verdicts.py.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.tools_cases import RESULTS, cases, of_kind, recordings  # noqa: E402
from profiling_lab.record import tools  # noqa: E402

KEPT_ROWS = 5  # of each table that a tool prints; its sums are over all rows


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """A command to its end; its output as text."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def in_parallel(ask: Callable[[str], Any], names: list[str]) -> dict[str, Any]:
    """The answers by name, as many asked at a time as there are cores."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return dict(zip(names, pool.map(ask, names), strict=True))


# -- one function a tool: (version, answers by case) ----------------------------------------------


def lab(_options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The findings of `lab diagnose`, main one first; all captures of a case in one call."""
    return _lab_says()


def references(_options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The same by the course's functions, solved."""
    return _lab_says("--against", "solutions")


def _lab_says(*more: str) -> tuple[str, dict[str, Any]]:
    program = [sys.executable, "-m", "profiling_lab.cli", "diagnose"]

    def ask(name: str) -> Any:
        files = [str(ROOT / "captures" / capture) for capture in cases()[name]["captures"]]
        # Outside of the course the engine keeps no verdict from a learner.
        done = run([*program, *files, "--json", *more], cwd=ROOT if more else tempfile.gettempdir())
        if done.returncode:
            return {"exit_code": done.returncode, "error": done.stderr.strip()[:300]}
        told = json.loads(done.stdout)
        return {"findings": told if isinstance(told, list) else told["findings"]}

    commit = run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT).stdout.strip()
    return f"commit {commit}", in_parallel(ask, list(cases()))


def nsys_analyze(_options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Each rule's table: number of rows, sum of its durations, first rows; or why it was skipped."""
    nsys = str(tools.find_nsys())
    captures = of_kind("timeline")
    with tempfile.TemporaryDirectory() as folder:

        def ask(name: str) -> Any:
            copies = []
            for capture in captures[name]:
                copies.append(Path(folder) / f"{capture}.sqlite")
                copies[-1].write_bytes(
                    (ROOT / "captures" / capture / "timeline.sqlite").read_bytes()
                )
            return rules_of(nsys, copies)

        answers = in_parallel(ask, list(captures))
    return run([nsys, "--version"]).stdout.strip(), answers


def rules_of(nsys: str, copies: list[Path]) -> dict[str, Any]:
    """What `nsys analyze` lists of the recordings, and the last one's window."""
    answer: dict[str, Any] = {}
    for copy in copies:
        for rules in ("", "gpu_gaps:gap=1"):
            chosen = ["--rule", rules] if rules else []
            command = [nsys, "analyze", *chosen, "--format", "csv", "--output", "-"]
            done = run([*command, str(copy)])
            answer |= _rule_tables(done.stdout + done.stderr, rules)
        answer["window_ns"] = _span_ns(copy)
    return answer


def _span_ns(file: Path) -> int:
    """From the start of the first to the end of the last device operation."""
    kinds = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
    with contextlib.closing(sqlite3.connect(file)) as connection:
        have = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        tables = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in kinds]
        spans = [
            connection.execute(f'SELECT MIN(start), MAX("end") FROM {table}').fetchone()
            for table in tables
            if table in have
        ]
    return max(end for _, end in spans if end) - min(start for start, _ in spans if start)


def _rule_tables(text: str, given: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for part in re.split(r"^Processing \[", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        rule = re.search(r"(\w+)\.py\]", head)
        name = given or (rule[1] if rule else head)
        if "SKIPPED" in body or "ERROR" in body:
            out[name] = {"skipped": " ".join(re.sub(r"\S*/", "", body).split())[:200]}
            continue
        lines = [line for line in body.splitlines() if line.strip()]
        rows = list(csv.DictReader(lines))
        durations = [float(row["Duration (ns)"]) for row in rows if row.get("Duration (ns)")]
        out[name] = {
            "rows_count": len(rows),
            "duration_ns": int(sum(durations)),
            "first_rows": rows[:KEPT_ROWS],
        }
    return out


def nsys_ai(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Findings of `diagnose` in its order, and the patterns that root_cause_matcher names."""
    captures = of_kind("timeline")
    with tempfile.TemporaryDirectory() as folder:

        def ask(name: str) -> Any:
            copy = Path(folder) / f"{name}.sqlite"
            file = ROOT / "captures" / captures[name][0] / "timeline.sqlite"
            copy.write_bytes(file.read_bytes())
            return nsys_ai_says(options.python, copy)

        answers = in_parallel(ask, list(captures))
    return installed(options.python, "nsys-ai"), answers


def nsys_ai_says(python: Path, copy: Path) -> dict[str, Any]:
    """Its findings and patterns for one recording, which it may change."""
    program = [str(python), "-m", "nsys_ai"]
    keep = ("severity", "category", "label", "confidence", "note")
    saved = copy.with_suffix(".json")
    done = run(
        [*program, "diagnose", str(copy), "--format", "json", "-o", str(saved)], cwd=copy.parent
    )
    answer: dict[str, Any] = {"exit_code": done.returncode}
    if saved.is_file():
        found = json.loads(saved.read_text(encoding="utf-8"))["findings"]
        answer["findings"] = [{k: f.get(k) for k in keep} for f in found]
    done = run([*program, "skill", "run", "root_cause_matcher", str(copy), "--format", "json"])
    start = done.stdout.find("[")
    answer["patterns"] = json.loads(done.stdout[start:]) if start >= 0 else []
    return answer


def hta(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """HolisticTraceAnalysis's breakdowns of each trace (tools_hta.py runs in its Python)."""
    captures = {name: held[0] for name, held in of_kind("trace").items()}
    script = Path(__file__).with_name("tools_hta.py")
    folders = [str(ROOT / "captures" / capture) for capture in captures.values()]
    done = run([str(options.python), str(script), *folders])
    if done.returncode:
        sys.exit(done.stderr)
    told = json.loads(done.stdout[done.stdout.index("{") :])
    answers = {name: told[capture] for name, capture in captures.items()}
    return installed(options.python, "HolisticTraceAnalysis"), answers


def nsight_compute(_options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The rules' results of each kernel, from a new recording made as the case's was."""
    ncu = str(tools.find_ncu())
    programs = ROOT / "captures/programs/case_kernels"
    with tempfile.TemporaryDirectory() as folder:
        build = ["make", "-j4", "-C", folder]
        for file in programs.iterdir():
            if file.is_file():
                (Path(folder) / file.name).write_bytes(file.read_bytes())
        if (done := run(build)).returncode:
            sys.exit(done.stderr)

        def page(name: str) -> Any:
            shown = ["--import", f"{name}.ncu-rep", "--page", "details", "--csv"]
            return _rule_results(run([ncu, *shown], cwd=folder).stdout)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            pages = {}
            for name, held in of_kind("kernels").items():
                told = json.loads((ROOT / "captures" / held[0] / "provenance.json").read_text())
                command = told["command"].split()
                run([ncu, "--export", name, "--force-overwrite", *command[1:]], cwd=folder)
                pages[name] = pool.submit(page, name)
            answers = {name: future.result() for name, future in pages.items()}
    version = re.search(r"Version (\S+)", run([ncu, "--version"]).stdout)
    return version[1] if version else "unknown", answers


def _rule_results(text: str) -> Any:
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith('"ID"')]
    if not starts:
        return {"error": text.strip()[-300:]}
    rows = csv.DictReader(io.StringIO("\n".join(lines[starts[0] :])))
    names = {
        "Kernel Name": "kernel",
        "Section Name": "section",
        "Rule Name": "rule",
        "Rule Type": "type",
        "Rule Description": "text",
        "Estimated Speedup Type": "speedup_type",
        "Estimated Speedup": "speedup_pct",
    }
    return {
        "rules": [{to: row[of] for of, to in names.items()} for row in rows if row["Rule Name"]]
    }


def installed(python: Path, package: str) -> str:
    """The version of a package in that Python."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return run([str(python), "-c", code]).stdout.strip()


TOOLS = {f.__name__: f for f in (lab, references, nsys_analyze, nsys_ai, hta, nsight_compute)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    answers = commands.add_parser("answers", help="ask one tool")
    answers.add_argument("tool", choices=TOOLS)
    answers.add_argument("--out", type=Path, help="default: results/tools_comparison/TOOL.json")
    answers.add_argument("--python", type=Path, default=Path(sys.executable))
    commands.add_parser("judge", help="write TOOLS.md from the kept answers")
    options = parser.parse_args()
    if options.command == "judge":
        from benchmarks import tools_verdicts

        tools_verdicts.write()
        return
    version, told = TOOLS[options.tool](options)
    document = {"tool": options.tool, "version": version, "of": recordings(told), "answers": told}
    out = options.out or RESULTS / f"{options.tool}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{options.tool} {version}: {len(told)} cases")


if __name__ == "__main__":
    main()
