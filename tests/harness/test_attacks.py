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
import contextlib
import copy
import csv
import ctypes
import functools
import importlib.util
import itertools
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grading.errors import SandboxUnavailable
from grading.grader.intake.submissions import take_in
from grading.grader.judge import Judge
from grading.grader.sandbox import strongest
from grading.proof import background_runs
from grading.runner.results import Key, Result
from profiling_lab.course import manifest
from profiling_lab.course.manifest import Course, Exercise

ROOT = Path(__file__).resolve().parents[2]
ATTACKS = ROOT / "tests" / "attacks"
SEED = 7
PARALLEL = 4  # twice the cores: most of the time goes with waiting for limits
MOST_BYTES = 200_000
SECRET = "PLANTED-SECRET-3f9c"
_grounds = itertools.count()
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

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="submissions are sandboxed on Linux only"
)


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


# --- the ground that they are let loose on ----------------------------------------------------------


class Ground:
    """Folders, files and sockets that an attack could reach, and what of them has changed."""

    def __init__(self, folder: Path, course: Course) -> None:
        self.folder, self.course = folder, course
        self.entries, self.staging = folder / "submissions", folder / "staging"
        self.outside, self.out = folder / "outside", folder / "out"
        for made in (self.entries, self.staging, self.outside, self.out):
            made.mkdir(mode=0o777)
        self.canary, self.secret = self.outside / "canary", self.outside / "secret.h"
        self.canary.write_text("alive\n")
        self.secret.write_text(f"{SECRET}\n")
        (self.out / "results.jsonl").write_text("{}\n")
        (self.out / "gradebook.csv").write_text("student,points\n")
        for file in (self.canary, self.secret, *self.out.iterdir()):
            file.chmod(0o666)
        neighbour = Path(
            "modules/05-scaling-benchmarks/ex01-single-gpu-baseline/single_gpu_baseline.py"
        )
        self.neighbour = folder / "staging" / "neighbour" / neighbour
        self.neighbour.parent.mkdir(parents=True)
        shutil.copy(course.root / "solutions" / neighbour, self.neighbour)
        self.heard: list[str] = []
        # Another one each time: the thread that listens holds an address for a moment longer.
        self.mark = f"lab-attacks-{os.getpid()}-{next(_grounds)}"
        self._doors = [socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX)]
        self._doors[0].bind(("127.0.0.1", 0))
        self._doors[1].bind("\0" + self.mark)
        self.port = self._doors[0].getsockname()[1]
        for door in self._doors:
            door.listen(64)
            threading.Thread(target=self._listen, args=(door,), daemon=True).start()
        self.socket = ""
        self._before: dict[str, Any] = {}

    def _listen(self, door: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                door.accept()[0].close()
                self.heard.append(f"a connection to {door.getsockname()!r}")

    def close(self) -> None:
        for door in self._doors:
            with contextlib.suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)
            door.close()

    def filled_in(self, text: bytes) -> bytes:
        for name, value in {
            "COURSE": self.course.root,
            "OUT": self.out,
            "STAGING": self.staging,
            "NEIGHBOUR": self.neighbour,
            "OUTSIDE": self.outside,
            "CANARY": self.canary,
            "SECRET": self.secret,
            "MARK": self.mark,
            "SOCKET": self.socket,
        }.items():
            text = text.replace(b"@%s@" % name.encode(), str(value).encode())
        return text.replace(b"0xABCD", str(self.port).encode())

    def hand_in(self, attack: Attack, name: str) -> None:
        """Make the entry of an attack in the folder of submissions."""
        entry = self.entries / name
        if plant := attack.get("plant"):
            plant(entry, self.course)
        else:
            self._write(entry / attack.stub(self.course), attack.submitted(self.course))
        for path, text in attack.get("FILES", {}).items():
            self._write(entry / path, text.encode())

    def _write(self, file: Path, data: bytes) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.filled_in(data))

    def note(self) -> None:
        """Remember how everything is."""
        self._before = self._state()

    def changed(self) -> list[str]:
        """What is no longer as it was noted, in words."""
        after = self._state()
        found = [
            f"{key}: {before!r} became {after.get(key)!r}"
            for key, before in self._before.items()
            if after.get(key) != before
        ]
        return found + [f"{key} is new" for key in after if key not in self._before] + self.heard

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "environment": dict(os.environ),
            "folder": os.getcwd(),
            "limits": [
                resource.getrlimit(n) for n in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE)
            ],
            "cores": sorted(os.sched_getaffinity(0)),
            "host": socket.gethostname(),
        }
        for folder in (self.outside, self.out, self.neighbour.parent):
            for file in folder.rglob("*"):
                if file.is_file():
                    state[str(file)] = (
                        file.read_bytes(),
                        file.stat().st_mode,
                        file.stat().st_nlink,
                    )
        for top, folders, files in os.walk(self.course.root):
            folders[:] = [
                name for name in folders if name not in ("__pycache__", ".git", ".venv", ".lab")
            ]
            for name in files:
                path = os.path.join(top, name)
                with contextlib.suppress(FileNotFoundError):  # an editor's own file
                    status = os.lstat(path)
                    state[path] = (status.st_size, status.st_mtime_ns, status.st_mode)
        return state


# --- processes --------------------------------------------------------------------------------------


@contextlib.contextmanager
def reaping() -> Iterator[None]:
    """Whatever loses its parent below this process becomes a child of this process."""
    set_subreaper, libc = 36, ctypes.CDLL(None)
    libc.prctl(set_subreaper, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(set_subreaper, 0, 0, 0, 0)


def descendants() -> dict[int, str]:
    """All living processes below this one, with their commands; not what runs ahead for other tests."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents[int(entry.name)] = int(parent)
    found: dict[int, str] = {}
    for pid in parents:
        above, seen = pid, set()
        while above in parents and above not in seen:
            seen.add(above)
            if above in background_runs.processes:
                break
            above = parents[above]
            if above == os.getpid():
                with contextlib.suppress(OSError):
                    found[pid] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
                break
    return found


def left_behind(before: Iterable[int], patience_s: float = 300.0) -> dict[int, str]:
    """Processes that are there now and were not, after those that are ending have ended."""
    end = time.monotonic() + patience_s
    while left := {pid: what for pid, what in descendants().items() if pid not in before}:
        if time.monotonic() > end:
            return left
        time.sleep(0.05)
    return {}


# --- grading ----------------------------------------------------------------------------------------


@dataclass
class Graded:
    """An attack or a control, and its result."""

    attack: Attack
    result: Result
    seconds: float


@dataclass
class Outcome:
    """What a batch came to."""

    graded: list[Graded]
    controls: list[Graded]
    changed: list[str]
    left: dict[int, str]


def batch(
    folder: Path, course: Course, chosen: list[Attack], *, sandbox: str, every: int = 4
) -> Outcome:
    """Grade attacks in one batch, with a control after every few of them, several at a time."""
    key = Key("", "", "", SEED)
    before = descendants()
    ground = Ground(folder, course)
    try:
        with reaping():
            with Judge(course, sandbox=sandbox, seed=SEED, parallel=PARALLEL) as judge:
                with judge.sandbox(course.exercise("scaling_ex01")) as opened:
                    ground.socket = opened.address
                ground.note()

                honest = controls()
                right = next(control for control in honest if control.name == "right")
                order: list[tuple[str, Attack]] = []
                for place, attack in enumerate(chosen):
                    order.append((attack.name, attack))
                    if attack.get("DANGEROUS") or place % every == every - 1:
                        order.append((f"{right.name}-{place}", right))
                order += [(control.name, control) for control in honest]
                for name, attack in order:
                    ground.hand_in(attack, name)
                taken = {
                    one.student: one for one in take_in(ground.entries, course, ground.staging)
                }
                others = [one for name, one in taken.items() if name not in dict(order)]

                def grade(name: str, attack: Attack) -> Graded:
                    submission = taken[name] if name in taken else others.pop()
                    started = time.monotonic()
                    one = copy.copy(judge)
                    one.call_timeout_s = attack.get("SLOW", judge.call_timeout_s)
                    result = one.grade(submission, attack.exercise(course), key)
                    return Graded(attack, result, time.monotonic() - started)

                assert len(taken) == len(order)
                with ThreadPoolExecutor(PARALLEL) as pool:
                    done = list(pool.map(grade, *zip(*order, strict=True)))
            left = left_behind(before)
        changed = ground.changed()
    finally:
        ground.close()
    return Outcome(
        [one for one in done if one.attack in chosen],
        [one for one in done if one.attack not in chosen],
        changed,
        left,
    )


def texts_of(result: Result) -> str:
    """All that a result says."""
    checks = [check for task in result.tasks.values() for check in task.checks]
    return "\n".join([result.infrastructure, *(check.message for check in checks)])


def gained(course: Course, one: Graded) -> str:
    """What an attack got that it should not have, in words; "" if nothing."""
    attack, result = one.attack, one.result
    earned = {name: task for name, task in result.tasks.items() if task.earned}
    if attack.get("FORGEABLE"):
        if not earned:
            return "it is said to be forgeable and earned nothing"
        earned = {name: task for name, task in earned.items() if task.trust != "claim"}
    if earned and not attack.get("COPIES_REFERENCE"):
        return f"it earned {sorted(earned)}"
    said = texts_of(result)
    if found := [words for words in attack.get("MUST_NOT_SAY", ()) if words in said]:
        return f"a message says {found}: {said[:500]}"
    return ""


def fell_short(course: Course, one: Graded) -> str:
    """What else is wrong with how an attack ended; "" if nothing."""
    attack, result = one.attack, one.result
    if result.infrastructure:
        return f"it was not judged: {result.infrastructure}"
    prefix = f"{attack.exercise(course).id}."
    wanted = [result.tasks[prefix + name] for name in attack.wants(course)]
    causes = attack.get("CAUSE", "")
    causes = (causes,) if isinstance(causes, str) else causes
    if causes != ("",) and not {task.cause for task in wanted} & set(causes):
        return f"its tasks ended as {[(t.outcome, t.cause) for t in wanted]}, not by {causes}"
    size = len(json.dumps(result.to_dict()))
    if size > attack.get("MOST_BYTES", MOST_BYTES):
        return f"its result takes {size} bytes"
    return ""


def control_fell_short(course: Course, one: Graded) -> str:
    """What is wrong with the result of an honest submission; "" if nothing."""
    control, result = one.attack, one.result
    if result.infrastructure:
        return f"{control}: not judged: {result.infrastructure}"
    tasks = [t for t in control.exercise(course).tasks if not t.live]
    earns = control.get("EARNS")
    for task in tasks:
        got = result.tasks[task.id]
        right = got.outcome == "not run" or (
            got.earned == task.points
            if earns == "all" or task.name in earns
            else got.outcome in (control.get("OUTCOME", got.outcome), "todo") and not got.earned
        )
        if not right:
            told = [check.message for check in got.checks if check.message][:2]
            return f"{control}: {task.id} {got.outcome} {got.earned} of {got.points} {told}"
    return ""


# --- tests ------------------------------------------------------------------------------------------


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
    unmarked = {
        task
        for stub in course.exercise(identifier).stubs
        if (file := course.checks(stub)).is_file()
        for name, task in manifest.checks_in(file)
        if name in rests_on_a_claim(file) and course.task(task).trust != "claim"
    }
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
    assert (totals.pop("right"), totals.pop("wrong")) == ("20", "17")
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
