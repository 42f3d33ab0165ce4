"""The page of scores says what the references find in the case files, and its judge can say no."""

from __future__ import annotations

import dataclasses
import gzip
import json
import random
import re
from typing import Any

import pytest

from grading.checks import case_evidence, case_labels
from grading.checks.case_evidence import KERNEL_KEYS, TIMELINE_KEYS
from profiling_lab.findings import CATEGORIES, Finding, is_borderline
from profiling_lab.mine.functions import load_once
from scripts import case_scores

LABELS = case_scores.labels()
PAGE = case_scores.PAGE.read_text(encoding="utf-8")
ROWS = {
    f"case_{row.split(' | ')[0].removeprefix('| ')}": row
    for row in PAGE.partition("## ")[0].splitlines()
    if row.startswith("| ") and not row.startswith("| case")
}
# What the references get wrong: the category, or the evidence alone. Take out what is fixed.
MISNAMED: set[str] = set()
OTHERWISE_WRONG: set[str] = set()
SAMPLE = 6  # cases a session, about half a second each


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    return json.loads(gzip.decompress(case_scores.SAID.read_bytes()))


def test_every_case_is_on_the_page_and_in_what_checks_read(said: dict[str, Any]) -> None:
    again = "fix with: scripts/case_scores.py --write"
    assert list(ROWS) == list(LABELS), again
    assert list(said) == [name for name in LABELS if name not in MISNAMED], again


@pytest.mark.proof
def test_the_page_is_what_the_references_say(seed: int, said: dict[str, Any]) -> None:
    for name in random.Random(seed).sample(sorted(LABELS), SAMPLE):
        score = case_scores.score(name, LABELS[name])
        again = f"{name}: fix with: scripts/case_scores.py --write"
        assert case_scores._row(score) == ROWS[name], again
        if name not in MISNAMED:
            kept = {key: said[name][key] for key in score.said}
            assert json.loads(json.dumps(score.said)) == kept, again


def test_the_page_hides_nothing() -> None:
    cells = {name: row.strip("| ").split(" | ") for name, row in ROWS.items()}
    assert {name for name, row in cells.items() if row[8] != "right"} == MISNAMED | OTHERWISE_WRONG
    assert all(row[-1] == "right" for row in cells.values()), "the engine is wrong"
    for name, row in ROWS.items():
        expected, found = row.split(" | ")[1:3]
        assert (expected != found) == (name in MISNAMED), name


def test_some_verdicts_say_that_they_are_borderline() -> None:
    assert sum("| borderline |" in row for row in ROWS.values()) >= 4


def test_verdicts_on_blind_cases_are_kept() -> None:
    first = case_scores.kept_first()
    blind = {name for name, label in LABELS.items() if label.get("blind")}
    assert blind <= set(first)
    for name, kept in first.items():
        assert re.search(
            rf"^\| {name.removeprefix('case_')} \| {kept['expect']} \| {kept['found']} \|",
            PAGE,
            re.M,
        ), f"{name} stands otherwise on the page than it was kept"


def right_finding(name: str) -> Finding:
    """A finding that the label of a case asks for."""
    label = LABELS[name]
    evidence = {
        key: (between.least + between.most) / 2
        for key, between in case_labels.expected(name).items()
    }
    return Finding(label["expect"], label["subject"], evidence, "borderline: fix it")


@pytest.mark.parametrize("name", ["case_decoder_a", "case_turn_a", "case_lengths_a"])
def test_the_judge_tells_right_from_wrong(name: str) -> None:
    finding = right_finding(name)
    label = LABELS[name]

    def judged(**changes: Any) -> str:
        changed = dataclasses.replace(finding, **changes)
        return "; ".join(case_scores.wrong(name, label, changed))

    assert judged() == ""
    other = label["must_not"][0]
    assert f"found {other}" in judged(category=other)
    assert "must not be" in judged(category=other)
    assert "lacks" in judged(evidence={})
    assert " is " in judged(evidence={key: value + 1 for key, value in finding.evidence.items()})
    wrong_place = "kernel:another(int)" if name == "case_turn_a" else "range:step"
    assert "expected" in judged(subject=wrong_place)
    unsaid = dataclasses.replace(finding, recommendation="fix it")
    assert not is_borderline(unsaid)
    assert case_scores.wrong(name, {**label, "borderline": True}, unsaid)


def test_the_waiting_rank_is_not_the_guilty_one() -> None:
    finding = dataclasses.replace(right_finding("case_lengths_a"), subject="rank:0")
    label = LABELS["case_lengths_a"]
    assert case_scores.wrong("case_lengths_a", label, finding) == ["expected rank:1, found rank:0"]


def test_what_cannot_be_diagnosed_is_wrong() -> None:
    score = case_scores.score(
        "case_decoder_a", {"captures": ["no_such_capture"], "expect": "healthy"}
    )
    assert score.wrong
    assert "no verdict" in score.wrong[0]


# --- the verdicts by hand ----------------------------------------------------------------------------

CHECKS = load_once(case_scores.SAID.with_name("test_case_files.py"), "checks_of_case_files")
REFERENCE = load_once(case_scores.FOLDER / "case_files.py", "reference_case_files")


def test_verdicts_by_hand_agree_with_the_labels() -> None:
    for truth in CHECKS.TRUTHS.values():
        label = LABELS[truth.capture]
        assert truth.category == label.get("engine", label["expect"])
        assert label["subject"] in truth.subjects
        assert set(truth.near).isdisjoint(truth.fixes)
        assert set(truth.near) | set(truth.fixes) <= set(REFERENCE.FIXES)


def test_what_the_stub_offers_is_what_is_judged() -> None:
    assert list(REFERENCE.FIXES) == list(CHECKS.FIXES)
    assert {**TIMELINE_KEYS, **KERNEL_KEYS} == REFERENCE.EVIDENCE


@pytest.mark.parametrize("name", CHECKS.TRUTHS)
def test_only_one_category_is_right_however_well_it_is_measured(name: str) -> None:
    """Who tries all categories, and measures each, learns of one that it is right, or its parent, and of no other."""
    truth = CHECKS.TRUTHS[name]
    case = case_evidence.open_case(truth.capture)
    right = []
    for category, key in case.keys.items():
        device = 0 if case.kernels else int(truth.subjects[0].rpartition(":")[2])
        value = case.measure(key, device)
        verdict = {
            "category": category,
            "subject": truth.subjects[0],
            "evidence": {key: 0 if value is None else value},
            "recommendation": truth.fixes[0],
        }
        try:
            CHECKS.judge_verdict(name, truth, verdict)
            right.append(category)
        except pytest.fail.Exception as failure:
            assert truth.category not in str(failure), "the message names the label"
    assert set(right) == {truth.category, CATEGORIES[truth.category].parent} - {""}
