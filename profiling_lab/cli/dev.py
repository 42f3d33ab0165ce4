"""`lab dev`: add an exercise, generate its stubs, prove it; hand the course out to a class."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

import click

from profiling_lab.cli.app import complain
from profiling_lab.cli.checking import configuration
from profiling_lab.cli.hints import hint_steps
from profiling_lab.cli.screen import LAB, bold, find, load_course, note_while, short, wrap
from profiling_lab.course import mistakes, stubs
from profiling_lab.course.manifest import MANIFEST, SOLUTIONS, Course, Exercise, checks_in
from profiling_lab.errors import CourseError, LabError

PROOF = "tests/harness/test_proof.py"
_DOTS = r"(\w+: )?[.FEsxXtbi-]+(\s*\[ *\d+%\])?"  # pytest's line of outcomes
_MOST_LINES = 8  # of what a failed check says
NO_CHECKS_COLLECTED = 5


@click.group()
def dev() -> None:
    """For authors and instructors: add an exercise, prove it, hand the course out to a class.

    \b
      uv run lab dev new ex_35 --folder week07/day6_more
      uv run lab dev stub ex_35
      uv run lab dev check ex_35
      uv run lab dev class-repo ../my_class
    """


# -- new ----------------------------------------------------------------------------------------


@dev.command()
@click.argument("identifier", metavar="ID")
@click.option("--folder", required=True, help="Where the exercise lies inside a tree.")
@click.option("--name", help="The stub's file name without .py; ID by default.")
@click.option("--title", default="A question?", show_default=True)
@click.option("--task", "task", default="first_task", show_default=True, help="Its first task.")
def new(identifier: str, folder: str, name: str | None, title: str, task: str) -> int:
    """A skeleton of the five parts: lesson, stub, hints, checks, reference with mistakes.

    Adds the exercise to the manifest too, after those of its folder. Every part runs as it is, and `lab dev check ID` passes;
    replace the placeholder task part by part.
    """
    course = load_course()
    name = name or identifier
    inside = PurePosixPath(folder.replace(os.sep, "/").strip("/"))
    for label, text in (("ID", identifier), ("--task", task), ("--name", name)):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", text):
            raise LabError(f"{label} {text}: use lower-case letters, digits and underscores only")
    if any(exercise.id == identifier for exercise in course.exercises):
        raise CourseError(f"{identifier}: is in {MANIFEST} already")
    if inside.is_absolute() or ".." in inside.parts or not inside.parts:
        raise LabError(f"--folder {folder}: name a folder inside the course, such as week07/day6")
    words = {"id": identifier, "name": name, "title": title, "task": task, "folder": str(inside)}
    files = {
        course.root / PurePosixPath(_fill(path, words)): _fill(text, words)
        for path, text in _SKELETON.items()
    }
    lesson = course.root / inside / "README.md"
    source = course.root / "scripts" / "lesson_sources" / inside / "README.md"
    if lesson.exists() and not source.exists():
        del files[source]  # a page that nothing computes
    shared = {file for file in files if file.suffix == ".md"}
    if there := [short(file) for file in files if file.exists() and file not in shared]:
        raise CourseError(f"{', '.join(there)}: there already; nothing was written")
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        if before := _read(file):  # another exercise of the folder shares its lesson and its hints
            text = f"{before.rstrip()}\n\n{_as_section(text)}"
        file.write_text(text, encoding="utf-8", newline="\n")
    manifest = course.root / MANIFEST
    text = _in_order(course, manifest.read_text(encoding="utf-8"), inside, _fill(_TABLE, words))
    tomllib.loads(text)
    manifest.write_text(text, encoding="utf-8", newline="\n")
    course = load_course()
    files |= stubs.generate(course, course.exercise(identifier))
    for file, content in stubs.generate(course, course.exercise(identifier)).items():
        file.write_text(content, encoding="utf-8", newline="\n")
    for file in files:
        click.echo(f"new      {short(file)}")
    click.echo(f"changed  {short(manifest)}")
    click.echo(f"Next: write the reference, then {LAB} dev stub {identifier} and dev check")
    return 0


def _as_section(page: str) -> str:
    """A page as a section of another one: a title of "Hints" goes, others come one level deeper."""
    title, _, rest = page.partition("\n")
    if title == "# Hints":
        return rest.lstrip("\n")
    return re.sub(r"^#", "##", page, flags=re.MULTILINE)


def _in_order(course: Course, text: str, folder: PurePosixPath, table: str) -> str:
    """The manifest's text with a new table: after the exercises of its folder and of folders before it."""
    blocks = re.split(r"^(?=\[\[exercises\]\])", text, flags=re.MULTILINE)
    earlier = [
        (exercise.folder, number)
        for number, exercise in enumerate(course.exercises, 1)
        if exercise.folder.parts[0] == folder.parts[0] and exercise.folder <= folder
    ]
    place = max(earlier)[1] + 1 if earlier else len(blocks)
    blocks[place - 1] = blocks[place - 1].rstrip("\n") + "\n\n"
    blocks.insert(place, table + ("\n" if place < len(blocks) else ""))
    return "".join(blocks)


def _fill(text: str, words: dict[str, str]) -> str:
    for key, value in words.items():
        text = text.replace(f"@{key}@", value)
    return text


# -- stub ---------------------------------------------------------------------------------------


@dev.command()
@click.argument("identifier", metavar="ID")
@click.option(
    "--check", "check_only", is_flag=True, help="Write nothing; exit with 1 if one differs."
)
@click.option("--print", "print_name", metavar="FUNCTION", help="Print one function's stub only.")
def stub(identifier: str, check_only: bool, print_name: str | None) -> int:
    """Generate an exercise's stubs from its reference.

    Overwrites the stubs in place: meant for authors. Learners use `lab reset`, which asks first and
    keeps a backup.
    """
    from profiling_lab.cli.work import back_up

    course = load_course()
    exercise, _ = find(course, identifier)
    fresh = stubs.generate(course, exercise)
    if print_name is not None:
        return _print_stub(fresh, print_name)
    differing = [file for file, text in fresh.items() if _read(file) != text]
    if check_only:
        for file in differing:
            click.echo(f"differs  {short(file)}")
        if differing:
            return complain(f"generate them: {LAB} dev stub {exercise.id}", code=1)
        click.echo(f"{exercise.id}: its {len(fresh)} stubs are as generated")
        return 0
    folder = back_up(course, differing)
    for file, text in fresh.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        if file in differing:
            file.write_text(text, encoding="utf-8", newline="\n")
        click.echo(f"{'written' if file in differing else 'current'}  {short(file)}")
    if folder is not None:
        click.echo(f"backup   {short(folder)}")
    return 0


def _print_stub(fresh: dict[Path, str], name: str) -> int:
    from profiling_lab.cli.work import function_lines

    for file, text in fresh.items():
        lines = function_lines(text, name) if file.suffix == ".py" else None
        if lines is not None:
            click.echo("\n".join(text.splitlines()[lines[0] - 1 : lines[1]]))
            return 0
    raise CourseError(f"{name}: no stub defines it")


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return None


# -- check --------------------------------------------------------------------------------------


@dev.command()
@click.argument("identifier", metavar="ID")
@click.option("--verbose", "-v", is_flag=True, help="Show pytest's whole output.")
def check(identifier: str, verbose: bool) -> int:
    """Prove one exercise: its five parts, and what each proof costs in seconds.

    The stubs are generated and todo, the reference passes, every mistake is caught by the
    check meant for it and with its words, verdicts in a process of its own are the same. And what a
    change to it can break elsewhere: pages, figures and notebooks that show its results, totals of the
    manifest in lists and guides, contracts of the library, the class repository without its answers.

    The mutation test, which takes minutes, is left for the end:

    \b
      uv run --group authors python -m grading.proof.mutation ID
    """
    course = load_course()
    exercise, _ = find(course, identifier)
    if not course.has_references:
        raise CourseError(
            f"{exercise.id}: there are no references in this copy of the course to prove it with; "
            f"its checks run on your own work: {LAB} check {exercise.id}"
        )
    bad = 0
    click.echo(bold(f"{exercise.id}  {exercise.title}"))
    for part, problem in _parts(course, exercise):
        bad += bool(problem)
        _report(part, not problem, None, problem)
    with note_while("running the proof"):
        started = time.perf_counter()
        groups, output, code = _run_proof(course, exercise)
        wall_s = time.perf_counter() - started
    for name, cases in groups.items():
        failed = [case for case in cases if case[2]]
        count = f"{len(cases) - len(failed)} of {len(cases)}"
        seconds = sum(case[1] for case in cases)
        _report(name, not failed, seconds, count)
        for case, _, message in failed:
            first, *more = _own_words(message) or ["failed"]
            click.echo(wrap(f"{case}: {first}", "         ", "       "))
            for line in more:
                click.echo(wrap(line, "         ", "         "))
        bad += len(failed)
    if verbose or (code not in (0, 1) and not groups):
        click.echo(output)
    click.echo(f"  {'in all':<52} {wall_s:>7.2f} s")
    if code not in (0, 1, NO_CHECKS_COLLECTED):
        return complain(f"the proof did not run to its end (pytest's exit code {code}); add -v")
    if not groups:
        return complain(f"no check and no proof ran for {exercise.id}; add -v", code=1)
    if bad or code == 1:
        return complain(f"{exercise.id} is not proven; fix what is marked above", code=1)
    click.echo(f"{exercise.id} is proven, but for the mutation test:")
    click.echo(f"  uv run --group authors python -m grading.proof.mutation {exercise.id}")
    return 0


def _report(what: str, good: bool, seconds: float | None, note: str) -> None:
    mark = click.style("ok  ", fg="green") if good else click.style("FAIL", fg="red")
    cost = "" if seconds is None else f"{seconds:>7.2f} s"
    brief = note if len(note) <= 14 else ""
    click.echo(f"  {mark} {what[:46]:<46} {cost:>9}  {brief}".rstrip())
    if note and not brief:
        click.echo(wrap(note, "       "))


def _own_words(message: str) -> list[str]:
    """The lines of a failure's message that say what is wrong, a few; not pytest's line of dots.

    Where a run of pytest is in the message, its own errors are what is wrong.
    """
    lines = [line.rstrip() for line in message.splitlines()]
    if errors := [line[1:].strip() for line in lines if re.match(r"E   +\S", line)]:
        lines = errors
    telling = [line for line in lines if line.strip() and not re.fullmatch(_DOTS, line)]
    return [line[:300] for line in telling[:_MOST_LINES]]


def _parts(course: Course, exercise: Exercise) -> list[tuple[str, str]]:
    """The five parts of an exercise, each with what is wrong with it, or ""."""
    out = []
    lesson = course.lesson(exercise)
    out.append(("lesson", "" if lesson.is_file() else f"{short(lesson)} is missing"))
    try:
        fresh = stubs.generate(course, exercise)
        differing = [short(file) for file, text in fresh.items() if _read(file) != text]
        problem = f"{', '.join(differing)} differs: {LAB} dev stub {exercise.id}"
        out.append(("stubs as generated from the reference", problem if differing else ""))
    except (CourseError, SyntaxError) as error:
        out.append(("stubs as generated from the reference", str(error)))
    lacking = []
    for task in exercise.tasks:
        try:
            if len(hint_steps(course, task)) < 2:
                lacking.append(task.name)
        except CourseError:
            lacking.append(task.name)
    out.append(("a question and a stronger hint a task", _lack(lacking)))
    task_of = {
        check: task for stub in exercise.stubs for check, task in checks_in(course.checks(stub))
    }
    lacking = [task.name for task in exercise.tasks if task.id not in task_of.values()]
    out.append(("checks of every task", _lack(lacking)))
    try:
        caught_by = [m.caught_by for stub in exercise.stubs for m in mistakes.read(course, stub)]
    except CourseError as error:
        return [*out, ("mistakes in the present reference", str(error))]
    caught = Counter(task_of[check.split("[")[0]] for check in caught_by)
    few = [task.name for task in exercise.tasks if not task.live and caught[task.id] < 2]
    out.append((f"two mistakes caught a task ({len(caught_by)} in all)", _lack(few)))
    return out


def _lack(names: list[str]) -> str:
    return f"lacking for {', '.join(names)}" if names else ""


def _run_proof(
    course: Course, exercise: Exercise
) -> tuple[dict[str, list[tuple[str, float, str]]], str, int]:
    """Run the proof of one exercise: cases by what they prove, pytest's output, its exit code.

    A course without the proof (a small one of a test, say) has its checks run on the reference.
    """
    checks = [str(course.checks(stub)) for stub in exercise.stubs if course.checks(stub).is_file()]
    proof = course.root / PROOF
    runs = []
    if proof.is_file():
        harness = sorted(proof.parent.glob("test_*.py"))
        concerned = [str(file) for file in harness if "mark.concerns(" in (_read(file) or "")]
        runs.append(("", [*concerned, "--concerning", exercise.id]))
    elif checks:
        runs.append(("the checks, on the reference", checks))
    groups: dict[str, list[tuple[str, float, str]]] = {}
    outputs, worst = [], 0 if runs else NO_CHECKS_COLLECTED
    for label, arguments in runs:
        with tempfile.TemporaryDirectory(prefix="lab_") as scratch:
            results = Path(scratch) / "results.xml"
            command = [sys.executable, "-m", "pytest", *configuration(course), "-q", "--tb=short"]
            command += ["--against", SOLUTIONS]
            command += ["--junitxml", str(results), *arguments]
            done = subprocess.run(
                command,
                cwd=course.root,
                env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
            outputs.append(done.stdout + done.stderr)
            if done.returncode != NO_CHECKS_COLLECTED:
                worst = max(worst, done.returncode)
            if not results.is_file():
                continue
            for case in ElementTree.parse(results).iter("testcase"):
                name = case.get("name", "")
                bad = case.find("failure")
                bad = case.find("error") if bad is None else bad
                message = "" if bad is None else bad.text or bad.get("message") or "failed"
                words = name.partition("[")[0].removeprefix("test_").replace("_", " ")
                row = (name, float(case.get("time", 0)), message)
                groups.setdefault(label or words, []).append(row)
    return groups, "\n".join(outputs), worst


# -- for a class --------------------------------------------------------------------------------

_exercise = click.option(
    "--exercise", "exercises", multiple=True, metavar="ID", help="Only this one; several times."
)
_title = click.option("--title", default="", help="The course's own by default.")


@dev.command("class-repo")
@click.argument("folder", metavar="DIR")
@_exercise
@_title
@click.option("--due", default="", metavar="TIME", help="Say 2026-12-04T23:59+01:00.")
@click.option("--update", is_flag=True, help="Bring the class repository in DIR up to date.")
@click.option("--no-git", is_flag=True, help="The folder alone, without a repository.")
@click.option("--no-engine", is_flag=True, help="Without the engine behind lab diagnose.")
def class_repo(
    folder: str,
    exercises: tuple[str, ...],
    title: str,
    due: str,
    update: bool,
    no_git: bool,
    no_engine: bool,
) -> int:
    """A repository for students: the course without references and other answers.

    In it lab, the checks and grading work. The same course gives the same commit.

    \b
      uv run lab dev class-repo ../profiling_2026 --due 2026-12-04T23:59+01:00
      uv run lab dev class-repo ../day_one --exercise ex_30 --title "Day 1"
      uv run lab dev class-repo ../day_one --update
    """
    options = {"--title": title, "--due": due, "--update": update, "--no-git": no_git}
    options |= {"--no-engine": no_engine}
    return _hand_out("class-repo", folder, exercises, options)


@dev.command("github-classroom")
@click.argument("folder", metavar="DIR")
def github_classroom(folder: str) -> int:
    """Add to the class repository in DIR the workflow that reports points to GitHub Classroom."""
    return _hand_out("github-classroom", folder)


@dev.command("gradescope")
@click.argument("file", metavar="FILE.zip")
@_exercise
@_title
@click.option("--policy", metavar="FILE", help="Weights, deadline, hidden checks.")
@click.option("--cases", metavar="DIR", help="Further, private cases.")
@click.option("--seed", metavar="N", help="Of what the checks draw; drawn now by default.")
@click.option("--timeout-s", metavar="N", help="For one submission; below the limit set there.")
@click.option(
    "--unprotected", default="", metavar="WORDS", help="As for grade, if there is no sandbox there."
)
def gradescope(file: str, exercises: tuple[str, ...], **options: str | None) -> int:
    """Build the zip to upload as Gradescope's autograder."""
    for name in ("policy", "cases"):
        if value := options[name]:
            options[name] = os.path.abspath(value)
    named = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    return _hand_out("gradescope", file, exercises, named)


def _hand_out(
    command: str,
    place: str,
    exercises: tuple[str, ...] = (),
    options: Mapping[str, str | bool | None] | None = None,
) -> int:
    """Run a command of `grading.classroom`, which the library may not import."""
    course = load_course()
    words = [sys.executable, "-m", "grading.classroom", command, os.path.abspath(place)]
    for exercise in exercises:
        words += ["--exercise", exercise]
    for option, value in (options or {}).items():
        if value:
            words += [option] if value is True else [option, str(value)]
    sys.stdout.flush()
    return subprocess.run(words, cwd=course.root, check=False).returncode


# -- the skeleton of an exercise ----------------------------------------------------------------


def _text(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


_TABLE = _text(
    """

    [[exercises]]
    id = "@id@"
    title = "@title@"
    stub = "@folder@/@name@.py"
    minutes = 30
    difficulty = 1
    skills = ["say in a few words what the learner can do afterwards"]
    tasks = [
      { name = "@task@", title = "What the task is about", points = 1 },
    ]
    """
)
_LESSON = _text(
    """
    # @title@

    Begin with a question and a real capture. Every number comes from a source that a test
    computes again.

    ## Your task

    Write `@task@` in `@name@.py`, then

        uv run lab check @id@
    """
)
_SKELETON = {
    "@folder@/README.md": _LESSON,
    "scripts/lesson_sources/@folder@/README.md": _LESSON,
    "@folder@/hints.md": _text(
        """
        # Hints

        ## @task@

        ### A question

        What do two numbers have in common that their sum has not?

        ### A stronger hint

        Which of them is at least as large as the other?
        """
    ),
    "solutions/@folder@/@name@.py": _text(
        '''
        """@title@

        The lesson is `README.md` in this folder, hints are in `hints.md`.
        """

        from __future__ import annotations


        def @task@(first: int, second: int) -> int:
            """The larger of two numbers of ns. Shapes, units, errors and the source stand here."""
            return max(first, second)
        '''
    ),
    "tests/@folder@/test_@name@.py": _text(
        """
        from __future__ import annotations

        from grading.checks import task


        @task("@id@.@task@")
        def test_the_larger_is_found(stub) -> None:
            got = stub.@task@(3, 5)
            assert got == 5, f"@task@(3, 5) returned {got}, expected 5 ns: the larger of the two"


        @task("@id@.@task@")
        def test_the_order_does_not_matter(stub) -> None:
            got = stub.@task@(7, 2)
            assert got == 7, f"@task@(7, 2) returned {got}, expected 7 ns: the order is no clue"
        """
    ),
    "tests/@folder@/mistakes_@name@.toml": _text(
        """
        [test_the_larger_is_found.smaller]
        says = "the larger of the two"
        find = 'max(first, second)'
        put = 'min(first, second)'

        [test_the_order_does_not_matter.always_the_second]
        says = "the order is no clue"
        find = 'max(first, second)'
        put = 'second'
        """
    ),
}
