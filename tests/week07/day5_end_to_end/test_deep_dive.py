"""Checks of deep_dive: every number of the text has evidence, and is what its capture says.

The functions that evidence names are the course's own (the references): each has been checked against
oracles by the checks of its day. What is judged here is the learner's statement about a capture, not
the learner's function.

A class repository has no references. There everything else is checked, and the numbers as far as possible:
given functions are those of the stub as it was handed out, all others the learner's own. What agrees with the
learner's own functions earns nothing there: such a check ends as "not run", and the grader judges it.
"""

from __future__ import annotations

import inspect
import math
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from grading.checks import task
from grading.checks.assertions import show
from grading.runner.abbreviated import with_article
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.course import manifest
from profiling_lab.errors import LabError
from profiling_lab.mine.functions import load_file, plain

COURSE = manifest.load(Path(__file__).resolve().parents[3])
OWN = Path(__file__).parent / "probes" / "own_functions.py"
EXERCISES = ("ex_30", "ex_31", "ex_32", "ex_33", "ex_34")
SECTIONS = ("diagnosis", "result", "limits")
# What a number is multiplied with where its unit is written after it: results are in ns, in bytes, or ratios.
SCALES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "%": 0.01, "bytes": 1.0, "MB": 1e6}
# The units that the name of a result allows; without one it has none.
TIMES = ("ns", "us", "ms", "s")
KINDS = {"_ns": TIMES, "_ratio": ("%",), "_per_s": (), "_count": (), "_bytes": ("bytes", "MB")}
EVIDENCE = "serving_evidence"
LEAST_ITEMS, LEAST_LETTERS, LEAST_WORDS = 3, 80, 8
MOST_LETTERS = 20_000
MOST_ROUNDED = 0.05
VERDICTS = "no win|win|regression|undecided"
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?")
CITED = re.compile(r"(?P<number>\d[\d,]*(?:\.\d+)?)(?P<between>[^\d\[\].;:]*)\[(?P<label>E\d+)\]")
MINUS = re.compile(r"(?<![\w)%])[-\u2212]$")
# How a unit may be written right after a number.
SPOKEN = {unit: unit for unit in SCALES} | {
    "\u00b5s": "us",
    "\u03bcs": "us",
    "percent": "%",
    "pct": "%",
    "seconds": "s",
    "milliseconds": "ms",
    "microseconds": "us",
    "nanoseconds": "ns",
    "mb": "MB",
}
LABEL = re.compile(r"\[(E\d+)\]")
# Evidence by function and arguments, derived once with the course's functions.
_derived: dict[str, Any] = {}


class NoAnswer(Exception):
    """The learner's own function gives no answer yet; the message says why."""


@cache
def functions_of(exercise: str) -> Any:
    """The references; without them the stub as it was handed out, which has what is given and every signature."""
    stub = COURSE.exercise(exercise).stub
    return load_file(COURSE.solution(stub) if COURSE.has_references else COURSE.handed_out(stub))


def is_own(item: dict[str, Any]) -> bool:
    """Whether only the learner's own function can answer here."""
    return not COURSE.has_references and item["function"] in COURSE.tasks


def dive(stub) -> dict[str, Any]:
    """What deep_dive returned, if it has the form that the docstring describes."""
    told = stub.deep_dive()
    parts = ("question", "evidence", "comparison", "sections", "change")
    assert type(told) is dict and not set(parts) - set(told), (
        f"deep_dive() returned {type(told).__name__}"
        + (f" without {sorted(set(parts) - set(told))}" if type(told) is dict else "")
        + f"; expected a dictionary of {', '.join(parts)}"
    )
    for part in parts[1:4]:
        assert type(told[part]) is dict, (
            f'deep_dive()["{part}"] is {type(told[part]).__name__}; expected a dictionary'
        )
    for section, text in told["sections"].items():
        assert type(text) is str and len(text) <= MOST_LETTERS, (
            f'deep_dive()["sections"]["{section}"] is no text, or longer than {MOST_LETTERS} characters'
        )
    for label, item in told["evidence"].items():
        keys = ("function", "arguments", "pick")
        assert type(item) is dict and not set(keys) - set(item), (
            f"deep_dive(), evidence {label}: {item}; expected a dictionary of {', '.join(keys)}"
        )
        for key, kind, words in (("arguments", dict, "dictionary"), ("pick", list, "list")):
            assert type(item[key]) is kind, (
                f"deep_dive(), evidence {label}: {key} is {item[key]!r}; expected a {words}"
            )
        percent = item.get("percent", 50)
        assert type(percent) in (int, float) and 0 < percent <= 100, (
            f"deep_dive(), evidence {label}: percent is {percent!r}; expected above 0, at most 100"
        )
    return told


def described(item: dict[str, Any]) -> str:
    """A piece of evidence as one would ask for it."""
    given = ", ".join(f"{name}={value!r}" for name, value in item["arguments"].items())
    at = "".join(f"[{key!r}]" for key in item["pick"])
    percent = f", percentile {item['percent']}" if "percent" in item else ""
    return f"{item['function']}({given}){at}{percent}"


def asked(label: str, item: dict[str, Any]) -> Any:
    """The function that evidence names; an AssertionError if it cannot be asked."""
    where = f"deep_dive(), evidence {label}, {item['function']}"
    exercise, _, name = str(item["function"]).partition(".")
    assert exercise in EXERCISES and name, (
        f"{where}: expected a function of {EXERCISES[0]} to {EXERCISES[-1]}, such as ex_34.best_batch"
    )
    function = getattr(functions_of(exercise), name, None)
    public = inspect.isfunction(function) and not name.startswith("_")
    first = next(iter(inspect.signature(function).parameters), "") if public else ""
    assert function is not None and first == "capture", (
        f"{where}: {exercise} has no such function whose first parameter is a capture"
    )
    arguments = item["arguments"]
    capture = arguments.get("capture")
    known = type(capture) is str and re.fullmatch(r"\w+", capture)
    assert known and (captures.folder() / capture / "provenance.json").is_file(), (
        f"{where}: capture is {capture!r}; expected the name of a capture of the course"
    )
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise AssertionError(f"{described(item)} of evidence {label}: {error}") from None
    return function


def called(stub, label: str, item: dict[str, Any]) -> Any:
    """What the named function returns; an AssertionError if it cannot be asked. Raises NoAnswer."""
    function = asked(label, item)
    if is_own(item):
        return own_answer(stub, label, item)
    key = f"{item['function']} {sorted(item['arguments'].items())}"
    if key not in _derived:
        try:
            _derived[key] = plain(function(**item["arguments"]))
        except (LabError, TypeError, ValueError) as error:
            raise AssertionError(
                f"{described(item)} of evidence {label} raised {type(error).__name__}: {error}"
            ) from None
        except NotImplementedError:  # a given function that calls a task
            return own_answer(stub, label, item)
    return _derived[key]


def own_answer(stub, label: str, item: dict[str, Any]) -> Any:
    """What the learner's own function returns. Raises NoAnswer if it is still to do, or not there."""
    told = stub.probe(OWN, "answer", item["function"], item["arguments"])
    kind, value = told if type(told) is list and len(told) == 2 else ("no answer", "")
    if kind == "answer":
        return value
    if kind == "no answer":
        raise NoAnswer(f"{label}: {value}")
    raise AssertionError(f"{described(item)} of evidence {label}: your own {value}")


def picked(value: Any, path: list) -> Any:
    """The part of a result that a path leads to. Raises LookupError, with what there is instead."""
    for place, key in enumerate(path):
        try:
            if key == "*":
                return [picked(entry, path[place + 1 :]) for entry in value]
            value = value[key]
        except (KeyError, IndexError, TypeError):
            has = list(value) if type(value) is dict else with_article(type(value).__name__)
            raise LookupError(f"{key!r}: there is {show(has)}") from None
    return value


def derived(stub, label: str, item: dict[str, Any]) -> float:
    """The number that evidence stands for, in the unit that the function returns. Raises NoAnswer."""
    result = called(stub, label, item)
    try:
        value = picked(result, item["pick"])
    except LookupError as error:
        raise AssertionError(
            f"deep_dive(), evidence {label}: {item['function']} returned no {item['pick']}, for want of {error}"
        ) from None
    if "percent" in item:
        assert type(value) is list and value, (
            f"deep_dive(), evidence {label}: {described(item)} is no list to take a percentile of"
        )
        ordered = sorted(value)
        rank = math.ceil(len(ordered) * item["percent"] / 100 - 1e-9)
        value = ordered[max(rank, 1) - 1]
    assert type(value) in (int, float), (
        f"deep_dive(), evidence {label}: {described(item)} is {with_article(type(value).__name__)}"
        + (": give a percent" if type(value) is list else ", not a number")
    )
    return float(value)


def tell(faults: list[str]) -> None:
    """Fail with all faults at once: who writes a text wants to correct it in one go."""
    assert not faults, "\n  ".join(faults)


@task("ex_34.deep_dive")
def test_it_has_every_part(stub) -> None:
    told = dive(stub)
    question, items, faults = told["question"], told["evidence"], []
    if type(question) is not str or not question.strip().endswith("?"):
        faults.append(
            f'deep_dive()["question"] is {question!r}; expected a text that ends with a question mark'
        )
    if len(items) < LEAST_ITEMS:
        faults.append(
            f"deep_dive() has {len(items)} pieces of evidence, expected at least {LEAST_ITEMS}"
        )
    if wrong := [label for label in items if not re.fullmatch(r"E\d+", str(label))]:
        faults.append(f"deep_dive(): evidence is labelled {wrong}; expected E1, E2, …")
    used = {str(item["arguments"].get("capture")) for item in items.values()}
    if len(used) < 2:
        faults.append(f"deep_dive() rests on {sorted(used)}; expected at least two captures")
    for section in SECTIONS:
        text = told["sections"].get(section, "")
        words = set(re.findall(r"[^\W\d_]+", text.lower()))
        if len(text) < LEAST_LETTERS or len(words) < LEAST_WORDS:
            faults.append(
                f'deep_dive()["sections"]["{section}"] has {len(text)} characters and {len(words)} '
                f"different words, expected at least {LEAST_LETTERS} and {LEAST_WORDS}"
            )
    tell(faults)


@task("ex_34.deep_dive")
def test_no_number_counts_twice(stub) -> None:
    seen: dict[str, str] = {}
    faults = []
    for label, item in dive(stub)["evidence"].items():
        asked(label, item)
        key = f"{described(item | {'arguments': dict(sorted(item['arguments'].items()))})}"
        if seen.setdefault(key, label) != label:
            faults.append(
                f"deep_dive(), evidence {seen[key]} and {label} are the same number, {described(item)}; "
                "cite one label as often as you like"
            )
    tell(faults)


@task("ex_34.deep_dive")
def test_every_piece_of_evidence_has_a_number(stub) -> None:
    faults = []
    for label, item in dive(stub)["evidence"].items():
        try:
            derived(stub, label, item)
        except NoAnswer:
            pass  # the check of the text names it
        except AssertionError as fault:
            faults.append(str(fault).partition("\n")[0])
    tell(faults)


@task("ex_34.deep_dive")
def test_every_number_in_the_text_is_that_of_its_evidence(stub) -> None:
    told, faults = dive(stub), []
    values, missing = {}, []
    for label, item in told["evidence"].items():
        try:
            values[label] = derived(stub, label, item)
        except NoAnswer as reason:
            missing.append(str(reason))
        except AssertionError:
            pass  # the check of the evidence tells it
    for section, text in told["sections"].items():
        cited = {match.start("number"): match for match in CITED.finditer(text)}
        faults += [
            f"deep_dive(), {section}: {letter!r} is a number without evidence; write digits with the "
            "label of their evidence, or words"
            for letter in text
            if unicodedata.category(letter) in ("No", "Nl")
        ]
        for match in NUMBER.finditer(text):
            near = text[max(0, match.start() - 25) : match.end() + 25]
            citation = cited.get(match.start())
            if not citation or len(citation["between"].split()) > 3:
                faults.append(
                    f"deep_dive(), {section}: {match[0]} in “…{near}…” has no evidence behind it; if it was measured, "
                    "write its label, such as [E1], within three words; if it is derived, the number that it comes from; "
                    "otherwise write it in words, as in “a batch of eight”"
                )
                continue
            label = citation["label"]
            if label in values:
                minus = bool(MINUS.search(text[: match.start()]))
                fault = misquoted(citation, minus, told["evidence"][label], values[label])
                faults += [f"deep_dive(), {section}: {fault}"] if fault else []
    tell(faults)
    if not COURSE.has_references:
        agree = f"{len(values)} of {len(told['evidence'])} numbers of the evidence agree"
        left = f" No answer yet for {'; '.join(missing)}." if missing else ""
        raise NotGraded(
            "not run",
            f"Nothing wrong was found here: {agree} with what your own functions and the given ones compute here.{left} "
            "The points come from the grader, which computes all numbers with the course's functions",
        )


def misquoted(citation: re.Match[str], minus: bool, item: dict[str, Any], value: float) -> str:
    """What is wrong with a number of the text, beside the value that its evidence has; "" if nothing is."""
    number, label, between = citation["number"], citation["label"], citation["between"]
    spoken = re.match(r"\s*([^\W\d]+|%)", between)
    unit = SPOKEN.get(spoken[1]) if spoken else None
    name = next((key for key in reversed(item["pick"]) if type(key) is str and key != "*"), "")
    allowed = next((units for ending, units in KINDS.items() if f"_{name}".endswith(ending)), None)
    source = f"{'your own ' * is_own(item)}{described(item)}"
    if allowed is not None and unit is not None and unit not in allowed:
        wanted = f"its name allows {', '.join(allowed)}" if allowed else "it has no unit"
        return f"“{number}{between}[{label}]” is in {unit}; the evidence is {source}: {wanted}"
    if allowed is TIMES and unit is None:
        return f"“{number}{between}[{label}]” is a time: expected ns, us, ms or s after the number"
    right = value / SCALES.get(unit or "", 1.0)
    digits = len(number.partition(".")[2])
    stands = float(number.replace(",", "")) * (-1 if minus else 1)
    if rounds_to(stands, right, digits):
        return ""
    cites = f"{'-' * minus}{number} cites [{label}], and {source} gives {right:.6g}{f' {unit}' * bool(unit)}"
    for other in TIMES if allowed is TIMES else SCALES if allowed is None else allowed:
        if rounds_to(stands, value / SCALES[other], digits):
            return f"{cites}: the unit is wrong, write {number} {other}"
    write = f"write {shortest(right, digits)}"
    if allowed == ("%",) and unit is None:
        write += f", or {shortest(100 * right, 0)} %"
    if abs(stands - right) <= half_a_digit(digits):
        return f"{cites}: rounded by more than 5 %, {write}"
    return f"{cites}: {write}"


def half_a_digit(digits: int) -> float:
    """By how much a number of so many decimals may differ from what it was rounded from."""
    return 0.5000001 * 10**-digits


def rounds_to(stands: float, right: float, digits: int) -> bool:
    """Whether a number with so many decimals is the right one, rounded by at most 5 %."""
    return abs(stands - right) <= min(half_a_digit(digits), MOST_ROUNDED * abs(right))


def shortest(right: float, digits: int) -> str:
    """A number with as few decimals, at least `digits`, as give it two digits that count."""
    digits = (
        max(digits, 1 - math.floor(math.log10(abs(right))))
        if right and math.isfinite(right)
        else digits
    )
    return f"{right:.{digits}f}"


@task("ex_34.deep_dive")
def test_all_evidence_is_cited(stub) -> None:
    told = dive(stub)
    cited = {label for text in told["sections"].values() for label in LABEL.findall(text)}
    unused = [label for label in told["evidence"] if label not in cited]
    assert not unused, (
        f"deep_dive(): no section cites {', '.join(unused)}; expected every piece of evidence to carry "
        "a statement of the text"
    )
    missing = sorted(cited - set(told["evidence"]))
    assert not missing, (
        f"deep_dive(): the text cites {', '.join(missing)}, which is not in the evidence"
    )


def in_result(told: dict[str, Any]) -> list[str]:
    """The labels of the numbers that the section result cites, in order."""
    return [match["label"] for match in CITED.finditer(told["sections"].get("result", ""))]


@task("ex_34.deep_dive")
def test_comparison_compares_like_with_like(stub) -> None:
    told = dive(stub)
    labels = [told["comparison"].get(side) for side in ("before", "after")]
    assert all(label in told["evidence"] for label in labels) and labels[0] != labels[1], (
        f"deep_dive(): the comparison is of {labels}; expected two labels of the evidence"
    )
    before, after = (told["evidence"][label] for label in labels)
    for key in ("function", "pick", "percent"):
        assert before.get(key) == after.get(key), (
            f"deep_dive(): {labels[0]} and {labels[1]} are compared, but their {key} is "
            f"{before.get(key)!r} and {after.get(key)!r}: that compares two different things"
        )
    assert before["arguments"] != after["arguments"], (
        f"deep_dive(): {labels[0]} and {labels[1]} are compared, and are the same number of the same "
        "capture"
    )
    told_in_result = in_result(told)
    for label in labels:
        assert label in told_in_result, (
            f"deep_dive(): the section result holds no number that cites [{label}], a side of the "
            "comparison"
        )
    assert told_in_result.index(labels[0]) < told_in_result.index(labels[1]), (
        f"deep_dive(): the comparison is from {labels[0]} before to {labels[1]} after, but the section result "
        f"cites {labels[1]} first; expected the number from before the change first"
    )


@task("ex_34.deep_dive")
def test_verdict_is_what_the_rounds_say(stub) -> None:
    told = dive(stub)
    run = told["change"]
    asked_for = {
        "function": "ex_34.evidence_verdict",
        "arguments": {"capture": EVIDENCE, "run": run},
        "pick": ["ratio"],
    }
    of_run = [
        label
        for label, item in told["evidence"].items()
        if item["function"] == asked_for["function"]
        and item["arguments"].get("capture") == EVIDENCE
        and item["arguments"].get("run") == run
    ]
    assert set(of_run) & set(in_result(told)), (
        f"deep_dive(): the change is {run!r}, but the section result cites no number of it, "
        f"such as {described(asked_for)}; expected the verdict on the change of your text"
    )
    # Without emphasis and quotes: "**Verdict:** `no_win`" says it, too.
    text = " ".join(re.sub(r"[^\w:]|_", " ", told["sections"]["result"].lower()).split())
    said = re.findall(rf"\bverdict ?: ?({VERDICTS})\b", text)
    named = sorted(set(re.findall(rf"\b({VERDICTS})\b", text)))
    assert len(said) == 1 == len(named), (
        f"deep_dive(): the section result says a verdict {'once' if len(said) == 1 else f'{len(said)} times'}, "
        f"and names {', '.join(named) or 'none'}; "
        "expected one, said once, as in “Verdict: no win.”"
    )
    try:
        right = called(stub, "for the verdict", asked_for | {"pick": []})["verdict"]
    except NoAnswer as reason:
        raise NotGraded("not run", f"The verdict is not computed here, {reason}") from None
    assert said[0] == right.replace("_", " "), (
        f"deep_dive(): the verdict on {run} is {said[0]!r}; its rounds, with the A/A "
        f"noise beside them, say {right!r}"
    )
    if is_own(asked_for):
        raise NotGraded("not run", "The verdict is what your own ex_34.evidence_verdict returns")
