"""Diagnose every case file with the references, and hold the verdicts against the labels.

    uv run scripts/case_scores.py             # a line a case; exit code 1 if one is wrong
    uv run scripts/case_scores.py --write     # SCORES.md, and what the checks of the exercise read
    uv run scripts/case_scores.py --first COMMIT    # keep verdicts on cases that were never judged

Labels stand in solutions/labs/case_files/cases.toml, the page beside them. What the week's functions
said about each case, before anything was ranked, goes to tests/labs/case_files/cases.json.gz: with it
`diagnose_run` is checked on all cases without asking them again.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grading.checks import case_labels  # noqa: E402
from profiling_lab import captures  # noqa: E402
from profiling_lab.captures import inputs  # noqa: E402
from profiling_lab.diagnosis import engine  # noqa: E402
from profiling_lab.errors import LabError  # noqa: E402
from profiling_lab.findings import Finding, is_borderline  # noqa: E402
from profiling_lab.mine import asking  # noqa: E402
from profiling_lab.mine.functions import Functions, functions_for  # noqa: E402

FOLDER = ROOT / "solutions" / "labs" / "case_files"
PAGE = FOLDER / "SCORES.md"
FIRST = FOLDER / "first_run.json"
SAID = ROOT / "tests" / "labs" / "case_files" / "cases.json.gz"


@dataclasses.dataclass
class Listening:
    """Functions that answer as others do, and keep what `diagnose_run` was called with."""

    functions: Functions
    heard: list[tuple]

    @property
    def tasks(self) -> dict[str, str]:
        return self.functions.tasks

    def defines(self, name: str) -> bool:
        return self.functions.defines(name)

    def call(self, name: str, *arguments: Any) -> Any:
        if name == "diagnose_run":
            self.heard.append(arguments)
        return self.functions.call(name, *arguments)


@dataclasses.dataclass
class Score:
    """A case's label, what was found, and what is wrong with that ([] if nothing is); the engine's finding."""

    name: str
    label: dict[str, Any]
    findings: list[Finding]
    said: dict[str, Any]
    wrong: list[str]
    engine: Finding | None = None

    @property
    def is_engine_right(self) -> bool:
        """Whether the engine names what was planted, by its own definitions."""
        named = self.label.get("engine", self.label["expect"])
        return self.engine is not None and self.engine.category == named

    @property
    def found(self) -> str:
        return self.findings[0].category if self.findings else "nothing"


def labels() -> dict[str, dict[str, Any]]:
    """The labels of all cases that can be judged, by name."""
    read = case_labels.labels()
    return {name: label for name, label in read.items() if label.get("usable", True)}


def score(name: str, label: dict[str, Any]) -> Score:
    """Diagnose a case with the references. What goes wrong on the way is a wrong answer."""
    heard: list[tuple] = []
    ask = partial(_functions, heard)
    try:
        [run] = inputs.runs(inputs.read(label["captures"]))
        findings = asking.ask_all(run, ask).findings
        main = engine.judge(run).findings[0]
    except (LabError, ValueError) as error:
        return Score(name, label, [], {}, [f"no verdict: {error}"])
    if not heard or not findings:
        return Score(name, label, findings, {}, ["diagnose_run was not asked"], main)
    return Score(name, label, findings, _plain(heard[-1]), wrong(name, label, findings[0]), main)


def wrong(name: str, label: dict[str, Any], main: Finding) -> list[str]:
    """What is wrong with the main finding: category, place, evidence, borderline unsaid."""
    out = []
    if main.category != label["expect"]:
        out.append(f"expected {label['expect']}, found {main.category}")
    elif not same_place(label, main.subject):
        out.append(f"expected {label['subject']}, found {main.subject}")
    if main.category in label.get("must_not", ()):
        out.append(f"{main.category} is what it must not be")
    if out:
        return out
    for key, between in case_labels.expected(name).items():
        value = main.evidence.get(key)
        if value is None:
            out.append(f"the evidence lacks {key}")
        elif not between.holds(value):
            out.append(f"{key} is {value:.4g}, expected {between.least:.4g} to {between.most:.4g}")
    if label.get("borderline") and not is_borderline(main):
        out.append("borderline, and does not say so")
    return out


def same_place(label: dict[str, Any], found: str) -> bool:
    """Whether a finding is about what the label says.

    A kernel's parameters do not matter, nor, but where one rank is to blame, which device it is.
    """
    kind, _, name = label["subject"].partition(":")
    if kind == "kernel":
        return found.removeprefix("kernel:").partition("(")[0].split()[-1] == name
    if label["expect"] == "rank_imbalance":
        return found == label["subject"]
    return found.startswith(("device:", "rank:"))


def _functions(heard: list[tuple], exercise: str) -> Any:
    functions = functions_for(exercise, "solutions")
    return Listening(functions, heard) if exercise == "case_files" else functions


def _plain(arguments: tuple) -> dict[str, Any]:
    said, kernels, kernel_time_ns, window_ns = arguments
    return {
        "said": [finding.to_dict() for finding in said],
        "kernels": [finding.to_dict() for finding in kernels],
        "kernel_time_ns": kernel_time_ns,
        "window_ns": window_ns,
    }


# -- the page -----------------------------------------------------------------------------------------


def saved(label: dict[str, Any]) -> str:
    """What the fixed variant saves of the sick one's time, by the program's samples; "" if unknown."""
    told = captures.provenance(label["captures"][0])["reported_by_program"]
    if not told.get("sick_ns") or not told.get("fixed_ns"):
        return ""
    return f"{1 - statistics.median(told['fixed_ns']) / statistics.median(told['sick_ns']):.1%}"


def page(scores: list[Score], first: dict[str, Any]) -> str:
    """SCORES.md."""
    right = sum(not one.wrong for one in scores)
    near = [one for one in scores if one.findings and is_borderline(one.findings[0])]
    lines = [
        "# Scores of the case files",
        "",
        "Written by `scripts/case_scores.py --write`: the references (`lab diagnose --mine --against solutions`) and",
        "the engine (`lab diagnose`) on every case, held against the labels in `cases.toml`.",
        "**It gives the verdicts by hand away.**",
        "",
        f"{right} of {len(scores)} right: the category, none that must not be named, the place, the evidence",
        f"within its tolerance. {len(near)} are borderline and say so. The engine names",
        f"{sum(one.is_engine_right for one in scores)} of {len(scores)} right by its own definitions; where they are others, [ENGINE.md]"
        "(../../../benchmarks/ENGINE.md) says why.",
        "",
        "Margin: how far the main finding is from another verdict, in points of the window (of a kernel's",
        "duration), below 0 where nothing reaches the floor. Next: the second finding, and its saving. Saved:",
        "what the program's other variant saves of a step, both timed in turns without a profiler, right",
        "before the recording.",
        "",
        "| case | expected | found | saving | margin | borderline | next | saved | | engine | |",
        "|---|---|---|--:|--:|---|---|--:|---|---|---|",
    ]
    lines += [_row(one) for one in scores]
    if first:
        lines += ["", *_first_run(scores, first)]
    return "\n".join(lines) + "\n"


def _row(one: Score) -> str:
    main = one.findings[0] if one.findings else None
    cells = (
        one.name.removeprefix("case_"),
        one.label["expect"],
        one.found,
        _percent(main, "recoverable_ratio"),
        _percent(main, "margin_ratio").removesuffix("%"),
        "borderline" if main and is_borderline(main) else "",
        ", ".join(f"{f.category} {_percent(f, 'recoverable_ratio')}" for f in one.findings[1:2]),
        saved(one.label),
        "; ".join(one.wrong) or "right",
        f"{one.engine.category} {_percent(one.engine, 'recoverable_ratio')}" if one.engine else "",
        "right" if one.is_engine_right else "wrong",
    )
    return f"| {' | '.join(cells)} |"


def _percent(finding: Finding | None, key: str) -> str:
    value = finding.evidence.get(key) if finding else None
    return "" if value is None else f"{value:.1%}"


def _first_run(scores: list[Score], first: dict[str, Any]) -> list[str]:
    now = {one.name: one for one in scores}
    right = sum(not kept["wrong"] for kept in first.values())
    named = sum(kept["found"] == kept["expect"] for kept in first.values())
    after = sum(not now[name].wrong for name in first if name in now)
    rules = dict.fromkeys(kept["rules"] for kept in first.values())
    out = [
        "## Cases that were judged blind",
        "",
        "Their programs and labels were written before they were recorded, and they were recorded when the",
        f"rules were settled (commit {', '.join(rules)}). The first run over them was kept before anything was",
        "changed, judged by the labels as they were then.",
        "",
        f"First run: {named} of {len(first)} main findings right, {right} with evidence within its tolerance.",
        f"Now: {after} right in everything.",
        "",
        "| case | expected | first run | | now | |",
        "|---|---|---|---|---|---|",
    ]
    for name, kept in first.items():
        one = now.get(name)
        present = (one.found, _since(one, kept)) if one else ("withdrawn", "")
        cells = (
            name.removeprefix("case_"),
            kept["expect"],
            kept["found"],
            "; ".join(kept["wrong"]) or "right",
            *present,
        )
        out.append(f"| {' | '.join(cells)} |")
    return out


def _since(one: Score, kept: dict[str, Any]) -> str:
    """What a blind case's verdict is now, and whether rules or label were changed for it."""
    now = "; ".join(one.wrong) or "right"
    if one.wrong == kept["wrong"]:
        return now
    same = [finding.to_dict() for finding in one.findings[:1]] == kept["findings"][:1]
    return f"{now} ({'the label' if same else 'a rule'} was changed)"


def kept_first() -> dict[str, Any]:
    """The kept first verdicts on blind cases, by name."""
    return json.loads(FIRST.read_text(encoding="utf-8")) if FIRST.is_file() else {}


def keep_first(scores: list[Score], rules: str) -> None:
    """Keep the verdicts on blind cases that have none yet; one that is kept is never changed.

    rules: the commit of the references and the library that judged.
    """
    first = kept_first()
    for one in scores:
        if one.label.get("blind") and one.name not in first:
            first[one.name] = {
                "expect": one.label["expect"],
                "found": one.found,
                "findings": [finding.to_dict() for finding in one.findings],
                "wrong": one.wrong,
                "rules": rules,
            }
    FIRST.write_text(json.dumps(first, indent=1) + "\n", encoding="utf-8")


def for_checks(scores: list[Score]) -> bytes:
    """What the checks of `diagnose_run` read, the same bytes for the same content.

    Cases whose main finding is wrong are left out: what was said of them does not lead to the label.
    """
    cases = {
        one.name: {
            "expect": one.label["expect"],
            "must_not": one.label.get("must_not", []),
            "subject": one.label["subject"],
            **one.said,
        }
        for one in scores
        if one.found == one.label["expect"]
    }
    return gzip.compress(json.dumps(cases, indent=0).encode(), mtime=0)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="CASE", help="only these")
    parser.add_argument("--write", action="store_true", help="write page and checks' input anew")
    parser.add_argument("--first", metavar="COMMIT", help="keep first verdicts on blind cases")
    given = parser.parse_args(arguments)
    scores = []
    for name, label in labels().items():
        if given.names and name not in given.names:
            continue
        scores.append(score(name, label))
        one = scores[-1]
        print(
            f"{'WRONG' if one.wrong else 'right'}  {name}: {one.found}", *one.wrong, sep="\n       "
        )
    print(f"{sum(not one.wrong for one in scores)} of {len(scores)} right")
    if given.first:
        keep_first(scores, given.first)
    if given.write:
        PAGE.write_text(page(scores, kept_first()), encoding="utf-8")
        SAID.write_bytes(for_checks(scores))
    return 1 if any(one.wrong for one in scores) else 0


if __name__ == "__main__":
    sys.exit(main())
