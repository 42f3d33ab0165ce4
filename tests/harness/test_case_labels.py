"""The case files' labels are whole, say what issue and lesson promise, and rest on measures that differ."""

from __future__ import annotations

import json
import re

import pytest

from grading.checks import case_labels
from grading.checks.case_labels import Between
from profiling_lab import captures
from profiling_lab.findings import CATEGORIES
from profiling_lab.record import recipes

LABELS = case_labels.labels()
USABLE = {name: label for name, label in LABELS.items() if label.get("usable", True)}
RECIPES = recipes.load(captures.folder())
COMPARED_ONLY = {"slower_kernels"}  # what no single recording can show
# Labels are what the references say; the engine alone tells these apart.
ENGINE_ONLY = {
    "input_bound",
    "pipeline_bubble",
    "unexplained",
    "narrow_access",
    "double_precision",
    "above_roof",  # Day 4 alone
}
KEYS = {
    *(
        "captures",
        "kind",
        "gpus",
        "program",
        "variant",
        "twin_variant",
        "twin",
        "expect",
        "engine",
        "subject",
    ),
    *(
        "must_not",
        "cause",
        "fix",
        "misleading",
        "borderline",
        "blind",
        "usable",
        "evidence",
        "note",
    ),
}


def count(which) -> int:
    return sum(bool(which(label)) for label in USABLE.values())


def test_there_are_enough_cases_of_each_sort():
    assert count(lambda label: True) >= 30
    assert count(lambda label: label["expect"] == "healthy") >= 8
    assert count(lambda label: label.get("gpus", 1) > 1) >= 4
    assert count(lambda label: label.get("borderline")) >= 4
    assert count(lambda label: label.get("misleading")) >= 8


def test_there_are_enough_programs():
    programs = {label["program"] for label in USABLE.values()}
    assert len(programs) >= 15
    models = [
        program
        for program in programs
        if program.endswith(".py")
        and "nn.Module" in (captures.folder().parent / program).read_text(encoding="utf-8")
    ]
    assert len(models) >= 10


def test_every_category_occurs():
    known = CATEGORIES.keys() - COMPARED_ONLY - ENGINE_ONLY
    assert {label["expect"] for label in USABLE.values()} == known


def test_every_recording_of_a_case_is_labelled():
    named = {capture for label in LABELS.values() for capture in label["captures"]}
    assert named == {name for name in RECIPES if name.startswith("case_")}


@pytest.mark.parametrize("name", LABELS)
def test_label_is_whole(name):
    label = LABELS[name]
    assert label.keys() <= KEYS
    assert label["captures"][0] == name
    recipe = RECIPES[name]
    assert label["program"] == str(recipe.program.relative_to(captures.folder().resolve().parent))
    assert label["variant"] == recipe.args[recipe.args.index("--variant") + 1]
    assert {label["variant"], label["twin_variant"]} == {"sick", "fixed"}
    assert label.get("gpus", 1) == recipe.gpus
    assert {label["expect"], *label["must_not"]} <= CATEGORIES.keys()
    assert label["expect"] not in label["must_not"]
    assert label.get("engine") in {None, *CATEGORIES} - {label["expect"], *label["must_not"]}
    assert ("usable" in label) <= ("note" in label)
    if label["expect"] != "healthy":
        assert label["cause"] and label["fix"] and label["subject"]
    if twin := label.get("twin"):
        assert LABELS[twin]["program"] == label["program"]


@pytest.mark.parametrize("name", USABLE)
def test_evidence_lies_between_measures_of_the_recording(name):
    between = case_labels.expected(name)
    assert between, f"{name}: no evidence is asked for"
    for key, (least, most) in between.items():
        assert re.search("_(ns|bytes|pct|ratio|count)$", key)
        assert least < most
        if key == "recoverable_ratio":
            assert not Between(least, most).holds(-0.1), f"{name}: anything would do"
            assert not Between(least, most).holds(1.1), f"{name}: anything would do"
            assert most - least < 0.6


@pytest.mark.parametrize(
    "name", [name for name, label in USABLE.items() if label["expect"] != "healthy"]
)
def test_what_the_fix_saves_was_timed(name):
    told = captures.provenance(name)["reported_by_program"]
    for variant in ("sick_ns", "fixed_ns"):
        assert len(told[variant]) >= 5
        assert all(type(sample) is int and sample > 0 for sample in told[variant])


def test_a_healthy_case_loses_less_than_the_floor_or_says_why():
    """Whatever could be saved of a healthy case is no more than its devices lose."""
    for name, label in USABLE.items():
        if label["expect"] == "healthy" and not label.get("borderline"):
            assert case_labels.MEASURES["lost"](name) < 0.10, name


def test_measures_tell_a_sick_case_from_its_fixed_twin():
    pairs = [(name, label["twin"]) for name, label in USABLE.items() if "twin" in label]
    assert len(pairs) >= 5
    for fixed, sick in pairs:
        if {"recoverable_ratio"} <= USABLE[sick]["evidence"].keys():
            least = case_labels.expected(sick)["recoverable_ratio"].least
            assert not case_labels.expected(fixed)["recoverable_ratio"].holds(least + 0.03), fixed


def test_between_counts_its_ends():
    assert Between(1, 2).holds(1) and Between(1, 2).holds(2)
    assert not Between(1, 2).holds(0.999) and not Between(1, 2).holds(2.001)


def test_a_wrong_number_is_outside(tmp_path, monkeypatch):
    name = "case_exchange_a"
    assert case_labels.expected(name)["recoverable_ratio"].holds(0.2)
    told = json.loads(json.dumps(captures.provenance(name)))
    told["reported_by_program"]["fixed_ns"] = told["reported_by_program"]["sick_ns"]
    monkeypatch.setattr(captures, "provenance", lambda capture: told)
    assert case_labels.expected(name)["recoverable_ratio"].holds(0.0)
