"""A repository for a class: the course without references and everything else that gives answers away.

In it `lab`, the checks and the grader work. What needs a reference says so: stubs come from `.stubs/`,
where they stand as they were handed out. A check that asks the references (`Course.has_references`) checks without
them what it can, and ends as "not run"; the grader in the whole course judges it.

The same course and the same choice give the same bytes and the same commit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath

import jinja2

from grading.classroom import answers
from grading.classroom.git import commit, head, run_git
from profiling_lab import needs
from profiling_lab.course import stubs
from profiling_lab.course.manifest import HANDED_OUT, MANIFEST, Course, Exercise
from profiling_lab.errors import CourseError, LabError

RECORD = f"{HANDED_OUT}/class.json"
TEMPLATES = Path(__file__).parent / "templates"
# The engine and what it alone rests on; the rest of these rooms serves reports and comparisons.
ENGINE = re.compile(
    r"profiling_lab/(diagnosis/(?!__init__|combining)|analysis/(?!__init__|columns|compare|intervals|measures\.))"
)
LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


@dataclass
class Built:
    """What was built: the folder, its files, the commit ("" without git), and what stayed behind."""

    folder: Path
    files: list[str]
    commit: str = ""
    left_out: list[str] = field(default_factory=list)


def build(
    course: Course,
    folder: Path,
    *,
    exercises: Collection[str] = (),
    title: str = "",
    due: str = "",
    update: bool = False,
    git: bool = True,
    engine: bool = True,
) -> Built:
    """Build a class repository in a folder that is new or empty.

    exercises: ids; all if empty. title: the course's by default. due: date and time with a zone, ISO
    8601. update: `folder` is a class repository; give it a commit with the present course instead.
    engine: whether `lab diagnose` comes with the engine's own verdict.
    Raises LabError for a folder or a choice that cannot be right, or if an answer would be handed out.
    """
    folder = folder.resolve()
    chosen = _chosen(course, exercises)
    when = _due(due)
    if not course.has_references:
        raise CourseError(
            f"{course.root}: is a class repository already; build from the whole course, which has "
            "the references"
        )
    _check_folder(course, folder, update)
    if git and shutil.which("git") is None:
        raise LabError("git is not installed; install it, or add --no-git for the folder alone")
    try:
        # Beside the folder, so that it is moved into place whole or not at all.
        with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=_parent(folder)) as scratch:
            built = _write(course, Path(scratch) / "tree", chosen, title, when, engine=engine)
            if leaks := answers.found(course, (built.folder / name for name in built.files)):
                leaks = [leak.replace(f"{built.folder}{os.sep}", "") for leak in leaks]
                raise CourseError(
                    f"nothing was built, since these files give answers away: {'; '.join(leaks)}; "
                    "leave them out (GOES in grading/classroom/answers.py) or change them"
                )
            if update:
                _replace(folder, built)
            elif git:
                run_git(built.folder, "init", "--quiet", "--initial-branch=main", "--template=")
            if git:
                built.commit = commit(built.folder if not update else folder, course, built.files)
            if not update:
                if folder.is_dir():
                    folder.rmdir()  # empty, as was checked
                built.folder.chmod(0o755)
                built.folder.rename(folder)
    except OSError as error:
        where = error.filename or folder
        raise LabError(
            f"{where}: cannot be written ({error.strerror}); {folder} is as it was before"
        ) from None
    built.folder = folder
    return built


def _chosen(course: Course, identifiers: Collection[str]) -> list[Exercise]:
    wanted = {course.exercise(identifier).id for identifier in identifiers}
    return [each for each in course.exercises if not wanted or each.id in wanted]


def _due(text: str) -> str:
    if not text:
        return ""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise LabError(f"--due {text}: write date, time and zone, such as 2026-12-04T23:59+01:00")
    return when.isoformat(timespec="minutes")


def _parent(folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder.parent


def _check_folder(course: Course, folder: Path, update: bool) -> None:
    if folder.is_relative_to(course.root):
        raise LabError(f"{folder}: lies inside the course; name a folder outside of {course.root}")
    if update:
        if not (folder / RECORD).is_file() or not (folder / ".git").exists():
            raise LabError(f"{folder}: is no class repository (no {RECORD} or no .git in it)")
        if dirty := run_git(folder, "status", "--porcelain", "--untracked-files=no").strip():
            raise LabError(
                f"{folder}: has changes that are not committed ({dirty.splitlines()[0].strip()}, …); "
                "commit or undo them first"
            )
        return
    if folder.is_dir() and any(folder.iterdir()):
        again = (
            " (a class repository: add --update to renew it)" if (folder / RECORD).is_file() else ""
        )
        raise LabError(f"{folder}: is there already and not empty{again}; name a new folder")
    if folder.exists() and not folder.is_dir():
        raise LabError(f"{folder}: is a file; name a new folder")


def files_of(course: Course) -> list[PurePosixPath]:
    """The files that belong to the course: those that git tracks, or all of a copy without git."""
    if (course.root / ".git").exists():
        listed = run_git(course.root, "ls-files", "-z", "--cached").split("\0")
        return sorted(
            PurePosixPath(name) for name in listed if name and (course.root / name).is_file()
        )
    out = []
    for top, folders, names in os.walk(course.root):
        folders[:] = [f for f in folders if not f.startswith(".") and f != "__pycache__"]
        inside = PurePosixPath(Path(top).relative_to(course.root).as_posix())
        out += [inside / name for name in names if not name.endswith(".pyc")]
    return sorted(out)


def _write(
    course: Course, folder: Path, chosen: list[Exercise], title: str, due: str, *, engine: bool
) -> Built:
    mine = {stub for exercise in chosen for stub in exercise.stubs}
    others = [each for each in course.exercises if each not in chosen]
    dropped = {stub for exercise in others for stub in exercise.stubs} - mine
    dropped |= {_inside(course, course.hints(exercise)) for exercise in others}
    dropped -= {_inside(course, course.hints(exercise)) for exercise in chosen}
    dropped |= {_inside(course, course.checks(stub)) for stub in dropped}
    kept, left_out = [], []
    for inside in files_of(course):
        place = course.root / inside
        benchmark = inside.parts[0] == "benchmarks" and answers.rests_on_references(place)
        stays = not answers.goes(inside) or inside in dropped or benchmark
        stays |= not engine and ENGINE.match(str(inside)) is not None
        (left_out if stays else kept).append(inside)

    fresh: dict[str, str] = {}
    for exercise in chosen:
        for file, text in stubs.generate(course, exercise).items():
            inside = _inside(course, file)
            fresh[str(inside)] = fresh[f"{HANDED_OUT}/{inside}"] = text
    fresh[MANIFEST] = _manifest(course, chosen, title, due)
    words = _words(course, chosen, title, due)
    fresh["README.md"] = template("class_readme.md", **words)
    names = {str(inside) for inside in kept} | set(fresh) | {RECORD}
    places = names | {str(parent) for name in names for parent in PurePosixPath(name).parents}
    for inside in kept:
        if inside.suffix == ".md" and str(inside) not in fresh:
            fresh[str(inside)] = _page((course.root / inside).read_text("utf-8"), inside, places)
        elif inside.parts[0] == "captures" and inside.suffix in (".json", ".toml"):
            text = (course.root / inside).read_text("utf-8")
            fresh[str(inside)] = answers.handed_out(inside, text)
    fresh[RECORD] = _record(course, chosen, title, due, names)
    for name in sorted(names):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = course.root / name
        if name in fresh:
            target.write_text(fresh[name], encoding="utf-8", newline="\n")
        else:
            shutil.copyfile(source, target)
        runs = source.is_file() and os.access(source, os.X_OK)
        target.chmod(0o755 if runs else 0o644)
    return Built(folder, sorted(names), "", [str(inside) for inside in left_out])


def _inside(course: Course, file: Path) -> PurePosixPath:
    return PurePosixPath(file.relative_to(course.root).as_posix())


def _record(
    course: Course, chosen: list[Exercise], title: str, due: str, names: Iterable[str]
) -> str:
    """What a later update has to know, and what a bug report should name."""
    entry = {
        "title": title or course.title,
        "due": due,
        "exercises": [exercise.id for exercise in chosen],
        "course": head(course)[0],
        "files": sorted(names),
    }
    return json.dumps(entry, indent=1, ensure_ascii=False) + "\n"


def _manifest(course: Course, chosen: list[Exercise], title: str, due: str) -> str:
    """The manifest of the chosen exercises."""
    tomlkit = needs.module("tomlkit")
    document = tomlkit.parse((course.root / MANIFEST).read_text(encoding="utf-8"))
    if title:
        document["course"]["title"] = title
    if due:
        document["course"]["due"] = due
    names = {exercise.id for exercise in chosen}
    tables = document["exercises"]
    for number in reversed(range(len(tables))):
        if tables[number]["id"] not in names:
            del tables[number]
    text = tomlkit.dumps(document)
    tomllib.loads(text)
    return text


def _words(course: Course, chosen: list[Exercise], title: str, due: str) -> dict[str, object]:
    groups = needs.groups_of(task for each in chosen for task in each.tasks)
    return {
        "title": title or course.title,
        "due": due,
        "install": needs.install(groups) if groups else "",
        "exercises": chosen,
        "points": sum(exercise.points for exercise in chosen),
        "first": chosen[0],
    }


def template(name: str, **words: object) -> str:
    """A file of templates/, filled in."""
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - Markdown, YAML and shell from the course's own words
    )
    return environment.get_template(name).render(**words)


def installing(name: str, exercises: Iterable[Exercise]) -> str:
    """A file of templates/ in which GROUPS stands for the groups that exercises need on a machine without a GPU."""
    tasks = (task for each in exercises for task in each.tasks if not task.live)
    options = "".join(f" --group {group}" for group in needs.groups_of(tasks))
    return (TEMPLATES / name).read_text(encoding="utf-8").replace(" GROUPS\n", f"{options}\n")


def _page(text: str, inside: PurePosixPath, places: Collection[str]) -> str:
    """A page without links to what is not handed out; a table's row about such a file goes as well.

    places: the files and folders that are there.
    """

    def is_here(target: str) -> bool:
        place = os.path.normpath(f"{inside.parent}/{target}").replace(os.sep, "/")
        return "://" in target or place in places

    lines = []
    for line in text.splitlines():
        row = re.match(r"\| *\[[^\]]*\]\(([^)\s#]+)", line)
        if row is None or is_here(row[1]):
            lines.append(LINK.sub(lambda m: m[0] if is_here(m[2]) else m[1], line))
    return "\n".join(lines) + "\n"


def _replace(folder: Path, built: Built) -> None:
    """Put the newly built files over a class repository; what others added to it stays."""
    try:
        old = json.loads((folder / RECORD).read_text(encoding="utf-8"))["files"]
    except (ValueError, KeyError, TypeError):
        raise LabError(f"{folder / RECORD}: is not as it was written; build a new folder") from None
    for name in sorted(set(old) - set(built.files)):
        (folder / name).unlink(missing_ok=True)
    for name in built.files:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built.folder / name, target)
        shutil.copymode(built.folder / name, target)
