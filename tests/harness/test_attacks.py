"""The adversarial suite: every file of tests/attacks poses as a submission and must gain nothing.

A new attack is one file there, `tests/attacks/<name>.py`. Its docstring says what it tries; these names say
how it is handed in and what must come of it (all but EXERCISE may be left out):

    EXERCISE      the exercise that it poses as
    STUB          the file that it replaces: the exercise's main stub
    SUBMITTED     text or bytes of that file. If it defines `attack(name, *args, **kwargs)`, every function of
                  WANTS that it does not define itself calls that.
    FILES         {path: text} that it hands in besides
    plant         plant(entry, course) makes the entry instead: a folder, or an archive named like it
    ENTRY         the entry's name, if plant chooses one
    WANTS         the functions whose points it wants: all of the stub
    CAUSE         of `grading.runner.results.CAUSES`, how at least one of these must end (several: one of them)
    MUST_NOT_SAY  words that may stand in no message: that it learned or reached something
    MOST_BYTES    how large its result may be, as JSON
    FORGEABLE     why its points rest on a claim: it earns some, of tasks with trust = "claim" only
    COPIES_REFERENCE  it hands in the reference, so that it earns its points and is a case for likeness
    DANGEROUS     never run it without a sandbox
    BITES         without a sandbox it succeeds, which is tested
    SLOW          its checks wait for limits: how long a call of its may take, in seconds

In text @COURSE@, @OUT@, @STAGING@, @NEIGHBOUR@, @OUTSIDE@, @CANARY@ and @SECRET@ stand for real paths,
@PORT@ and @MARK@ for a TCP port and an abstract UNIX socket that listen, @SOCKET@ for the sandbox's own:
the attacker knows more than a student would. `honest/` holds controls, right and wrong: EARNS says which
functions earn their points, OUTCOME how the others end.
"""

from __future__ import annotations

import ast
import csv
import functools
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grading.errors import SandboxUnavailable
from grading.grader.intake.submissions import take_in
from grading.grader.judge import Judge
from grading.grader.sandbox import strongest
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course
from tests.harness.attack_batch import (
    SEED,
    Graded,
    Outcome,
    batch,
    control_fell_short,
    fell_short,
    gained,
)
from tests.harness.attack_files import attacks, controls
from tests.harness.attack_ground import SECRET, Ground

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="submissions are sandboxed on Linux only"
)

FEWEST = 180
QUICK = (
    "always_equal",
    "exit_zero",
    "reads_solutions",
    "network",
    "submitted_conftest",
    "looks_todo",
)
NAMES = {
    *(
        "EXERCISE",
        "STUB",
        "SUBMITTED",
        "FILES",
        "ENTRY",
        "WANTS",
        "CAUSE",
        "MUST_NOT_SAY",
        "MOST_BYTES",
    ),
    *("FORGEABLE", "COPIES_REFERENCE", "DANGEROUS", "BITES", "SLOW", "EARNS", "OUTCOME"),
}


@pytest.fixture(scope="module")
def course() -> Course:
    return manifest.load(ROOT)


@pytest.fixture(scope="module")
def sandbox_kind() -> str:
    try:
        return strongest()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def test_an_attack_is_one_file_that_says_what_it_tries(course: Course) -> None:
    found = attacks()
    assert len(found) >= FEWEST
    for attack in [*found, *controls()]:
        assert (attack.module.__doc__ or "").strip().endswith("."), attack
        upper = {name for name in vars(attack.module) if name.isupper()}
        unknown = (
            upper - NAMES - {"FOLDER", "CONFTEST", "OPTIONS", "STRIKE", "POINTS", "EVIL", "CHECKS"}
        )
        assert not unknown, f"{attack}: what does {unknown} mean?"
        tasks = {task.name for task in attack.exercise(course).tasks}
        assert set(attack.wants(course)) <= tasks, attack
        assert not (attack.get("BITES") and attack.get("DANGEROUS")), attack


@functools.cache
def rests_on_a_claim(file: Path) -> set[str]:
    """The checks of a file that use what ran beside the code under judgement: probes, compiled programs."""
    functions = {
        node.name: {
            getattr(part, key, None) for part in ast.walk(node) for key in ("id", "arg", "attr")
        }
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    found = {name for name, used in functions.items() if used & {"probe", "cuda_stub"}}
    while more := {name for name, used in functions.items() if used & found} - found:
        found |= more
    return found


@pytest.mark.concerns("identifier")
@pytest.mark.parametrize("identifier", [one.id for one in manifest.load(ROOT).exercises])
def test_what_rests_on_a_claim_says_so(course: Course, identifier: str) -> None:
    # It asks a probe only where the references are missing, and earns nothing there.
    earns_nothing_by_it = {"ex_34.deep_dive"}
    unmarked = {
        task
        for stub in course.exercise(identifier).stubs
        if (file := course.checks(stub)).is_file()
        for name, task in manifest.checks_in(file)
        if name in rests_on_a_claim(file) and course.task(task).trust != "claim"
    } - earns_nothing_by_it
    assert unmarked == set(), 'mark these with trust = "claim" in course.toml'


def report(course: Course, outcome: Outcome, check: Callable[[Course, Graded], str]) -> list[str]:
    return [f"{one.attack}: {why}" for one in outcome.graded if (why := check(course, one))]


@pytest.fixture
def a_few(
    request: pytest.FixtureRequest, course: Course, sandbox_kind: str, tmp_path: Path
) -> Outcome:
    """The quick ones in a batch of their own, or all of them where this session tries all."""
    if any("all_of_them" in getattr(item, "fixturenames", ()) for item in request.session.items):
        return request.getfixturevalue("all_of_them")
    chosen = [attack for attack in attacks() if attack.name in QUICK]
    return batch(tmp_path, course, chosen, sandbox=sandbox_kind, every=9)


def test_a_few_attacks_gain_nothing(course: Course, a_few: Outcome) -> None:
    outcome = a_few
    assert {one.attack.name for one in outcome.graded} >= set(QUICK)
    assert report(course, outcome, gained) == []
    assert report(course, outcome, fell_short) == []
    assert [why for one in outcome.controls if (why := control_fell_short(course, one))] == []
    assert outcome.left == {}


@pytest.fixture(scope="module")
def all_of_them(
    course: Course, sandbox_kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    folder = tmp_path_factory.mktemp("attacks")
    return batch(folder, course, attacks(), sandbox=sandbox_kind)


@pytest.mark.proof
def test_no_attack_gains_a_point_or_an_answer(course: Course, all_of_them: Outcome) -> None:
    assert report(course, all_of_them, gained) == []


@pytest.mark.proof
def test_every_attack_is_judged_and_ends_as_it_should(course: Course, all_of_them: Outcome) -> None:
    assert report(course, all_of_them, fell_short) == []


@pytest.mark.proof
def test_honest_work_between_attacks_gets_what_it_deserves(
    course: Course, all_of_them: Outcome
) -> None:
    found = [control_fell_short(course, one) for one in all_of_them.controls]
    assert len(found) > len(attacks()) / 4
    assert [why for why in found if why] == []


@pytest.mark.proof
def test_nothing_outside_the_sandbox_changes(all_of_them: Outcome) -> None:
    assert all_of_them.changed == []


@pytest.mark.proof
def test_a_program_that_never_ends_is_waited_for_once(all_of_them: Outcome) -> None:
    """As a call: the other checks of its task fail at once, of the same cause."""
    (one,) = [one for one in all_of_them.graded if one.attack.name == "cuda_endless"]
    checks = one.result.tasks["nsys_ex01.improved"].checks
    assert len(checks) > 3
    assert {(check.outcome, check.cause) for check in checks} == {("error", "time-out")}


@pytest.mark.proof
def test_no_process_is_left(all_of_them: Outcome) -> None:
    assert all_of_them.left == {}


@pytest.mark.proof
def test_attacks_succeed_without_a_sandbox(course: Course, tmp_path: Path) -> None:
    chosen = [attack for attack in attacks() if attack.get("BITES")]
    assert len(chosen) >= 8
    outcome = batch(tmp_path, course, chosen, sandbox="none", every=99)
    harmless = [one.attack for one in outcome.graded if not gained(course, one)]
    quiet = {"exit_hooks", "imports_oracles"}  # these leave traces instead, seen below
    assert {attack.name for attack in harmless} <= quiet
    assert any("canary" in words for words in outcome.changed)


# What must stand in no file that browsers, spreadsheets and terminals open: control characters, formulas.
NEVER = ("\x1b", "\x07", "\x9b", "\u202e", "\0", ",=HYPER", '"=HYPER', ",=cmd", '"=cmd')
MARKUP = ("<script>alert", "<img src=x", "]]>\n")
REPORTED = (
    *("always_equal", "escape_codes", "exit_zero", "handed_in_twice", "million_names"),
    *("strange_names", "stub_is_fifo", "zip_bomb"),
)


@pytest.mark.proof
def test_what_the_command_writes_about_attacks_is_harmless(
    course: Course, sandbox_kind: str, tmp_path: Path
) -> None:
    ground = Ground(tmp_path, course)
    try:
        honest = {
            control.name: control for control in controls() if control.name in ("right", "wrong")
        }
        chosen = [attack for attack in attacks() if attack.name in REPORTED]
        for attack in [*chosen, *honest.values()]:
            ground.hand_in(attack, attack.name)
        ground.note()
        out = tmp_path / "graded"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "grading.cli", ground.entries, "--out", out),
                *("--exercise", "scaling_ex01", "--seed", str(SEED)),
            ],
            cwd=course.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert ground.changed() == []
    finally:
        ground.close()
    with open(out / "gradebook.csv", encoding="utf-8-sig", newline="") as file:
        totals = {row["Student"]: row["Total"] for row in csv.DictReader(file)}
    assert (totals.pop("right"), totals.pop("wrong")) == ("17", "14")
    assert len(totals) == len(chosen)
    assert set(totals.values()) == {"0"}
    harmful = set()
    for file in out.rglob("*"):
        if file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            words = [*NEVER, *(MARKUP if file.suffix in (".html", ".xml", ".md") else ())]
            if file.name not in ("batch.json", "plan.jsonl"):
                words.append(str(tmp_path))
            text = outside_fences(text) if file.suffix == ".md" else text
            harmful |= {f"{file.relative_to(out)}: {word!r}" for word in words if word in text}
    assert harmful == set()
    assert not [word for word in NEVER if word in done.stdout + done.stderr]


def outside_fences(markdown: str) -> str:
    """What of a Markdown text is not code: CommonMark's rule, the closing fence at least as long."""
    kept, fence = [], ""
    for line in markdown.splitlines(keepends=True):
        marks = line.strip()
        if fence:
            fence = "" if marks.startswith(fence) and not marks.strip("`") else fence
        elif marks.startswith("```"):
            fence = marks[: len(marks) - len(marks.lstrip("`"))]
        else:
            kept.append(line)
    return "".join(kept)


SPY = r"""
import os

def attack(*args):
    found = []
    for line in open("/proc/self/mountinfo"):
        place = line.split()[4]
        if os.path.isdir(place) and ("cases" in place or "exchange" in place):
            found += [top for top, _, files in os.walk(place) if "planted" in files]
    raise ValueError("".join(open(top + "/planted").read() for top in found) or "nothing found")
"""


# What a submission could make a check do, if there were a way, does not go far.
WRITER = """
from pathlib import Path
import pytest
from grading.checks import task
from grading.grader.sandbox import kernel

@task("scaling_ex01.throughput")
def test_it_writes_nowhere_else(tmp_path):
    (tmp_path / "own").write_text("")
    if kernel.landlock_version():
        with pytest.raises(PermissionError):
            Path({outside!r}).write_text("")
"""


@pytest.mark.proof
def test_a_private_recording_is_seen_only_where_what_is_said_is_hidden(
    course: Course, sandbox_kind: str, tmp_path: Path
) -> None:
    exercise = course.exercise("scaling_ex01")
    cases = tmp_path / "cases"
    for name in ("one", "other"):
        place = cases / exercise.id / name
        shutil.copytree(course.root / "captures" / "scaling_baseline_late", place)
        (place / "planted").write_text(f"{SECRET} {name}")
    check = cases / course.checks(exercise.stub).relative_to(course.root)
    check.parent.mkdir(parents=True)
    check.write_text(WRITER.format(outside=str(tmp_path / "written")))
    spy = SPY + "".join(f"\n{name} = attack\n" for name in ("batch_sweep", "baseline_verdict"))
    right = (course.root / "solutions" / exercise.stub).read_text(encoding="utf-8")
    for student, text in (("spy", spy), ("ada", right)):
        file = tmp_path / "submissions" / student / exercise.stub
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    taken = {s.student: s for s in take_in(tmp_path / "submissions", course, tmp_path / "staging")}
    with Judge(course, sandbox=sandbox_kind, seed=SEED, cases=cases) as judge:
        spied, honest = (judge.grade(taken[name], exercise) for name in ("spy", "ada"))
    checks = [check for task in spied.tasks.values() for check in task.checks]
    said: dict[bool, set[str]] = {check.hidden: set() for check in checks}
    for check in checks:
        said[check.hidden] |= {n for n in ("one", "other") if f"{SECRET} {n}" in check.message}
    assert said == {False: set(), True: {"one", "other"}}
    both = [check for check in checks if all(f"{SECRET} {n}" in check.message for n in said[True])]
    assert both == [], "a run sees the recording that it is judged on, and no other"
    assert not honest.infrastructure
    hidden = [check for task in honest.tasks.values() for check in task.checks if check.hidden]
    assert {check.outcome for check in hidden} == {"passed"}
    assert {"test_it_writes_nowhere_else"} < {check.name for check in hidden}
    assert not (tmp_path / "written").exists()
