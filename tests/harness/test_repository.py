"""What holds for the repository as a whole: nothing leaks, everything is pinned, layers stay apart."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiling_lab.course import manifest
from profiling_lab.mine.functions import load_file

ROOT = Path(__file__).resolve().parents[2]


def names(file: Path) -> str:
    """A file as a message shows it."""
    return file.relative_to(ROOT).as_posix()


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HEAVY = {"torch", "jax", "jaxlib", "triton"}
OWN = {"profiling_lab", "grading", "tests", "solutions"}
IN_CLONE = (ROOT / ".git").exists()

# Put together from parts, so that this file does not hold what it looks for.
ROOT_HOME, WORK, HOME, USERS = "/ro" + "ot/", "/wo" + "rk/", "/ho" + "me/", "/Us" + "ers/"
INDEXES = ("pyp" + "i.org", "python" + "hosted.org", "npm" + "js.org", "npm" + "js.com")
PATHS_OF_MACHINES = re.compile(
    rf"(?<![\w./~}}$-])(?:{ROOT_HOME}|{WORK}|{USERS}|{HOME}(?!user\b|you\b))[\w.]".encode()
)
REGISTRY_HOSTS = re.compile("|".join(re.escape(name) for name in INDEXES).encode())


def tracked() -> list[Path]:
    """Every file that git tracks, or will track when it is added."""
    if not IN_CLONE:
        pytest.skip("not a git clone, so git cannot list the files")
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    names = [name for name in listing.decode().split("\0") if name]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def python_files(*folders: str) -> list[Path]:
    """The Python files below some folders of the repository."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def imports(file: Path, *, everywhere: bool = True) -> Iterator[str]:
    """Top-level names of the packages that a file imports; without `everywhere`, when it is loaded.

    What is in functions and below `if TYPE_CHECKING:` is not imported when a file is loaded.
    """
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"), str(file))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]
        if not everywhere:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                waiting.extend(node.orelse)
                continue
        waiting.extend(ast.iter_child_nodes(node))


# -- nothing leaks ----------------------------------------------------------------------------------


@pytest.mark.proof
@pytest.mark.parametrize(
    ("what", "pattern"),
    [("a path of a machine", PATHS_OF_MACHINES), ("a package index", REGISTRY_HOSTS)],
    ids=["paths of machines", "package indexes"],
)
def test_no_tracked_file_names(what: str, pattern: re.Pattern[bytes]) -> None:
    found = [
        f"{names(file)}: {match.group().decode(errors='replace')}"
        for file in tracked()
        if (match := pattern.search(file.read_bytes()))
    ]
    assert not found, f"these files hold {what}: {', '.join(found)}"


@pytest.mark.parametrize(
    ("planted", "pattern"),
    [
        (f"open('{ROOT_HOME}x.sqlite')", PATHS_OF_MACHINES),
        (f"cd {WORK}main", PATHS_OF_MACHINES),
        (f"\0{HOME}someone/lab", PATHS_OF_MACHINES),
        (f"{USERS}someone", PATHS_OF_MACHINES),
        (f"https://files.{INDEXES[1]}/packages/x.whl", REGISTRY_HOSTS),
    ],
    ids=["root", "work", "home", "users", "index"],
)
def test_what_must_not_be_there_would_be_found(planted: str, pattern: re.Pattern[bytes]) -> None:
    assert pattern.search(planted.encode())


def test_lock_file_is_not_tracked() -> None:
    assert ROOT / "uv.lock" not in tracked(), "uv.lock holds download addresses; keep it out of git"


def test_captures_stay_small() -> None:
    size = sum(f.stat().st_size for f in tracked() if (ROOT / "captures") in f.parents)
    assert size < 32 * 1024**2, f"captures/ holds {size / 1024**2:.1f} MiB; 32 is the most"


# -- everything is pinned ---------------------------------------------------------------------------


@pytest.mark.needs("tomlkit")
def test_pins_are_stale_by_version_and_not_by_the_spelling_of_a_marker() -> None:
    script = load_file(ROOT / "scripts" / "update_constraints.py", "update_constraints")
    have = ["scipy==1.17.1 ; (a == 'x' and b == 'y') or (a == 'x' and b == 'z')", "six==1.17.0"]
    same = ["scipy==1.17.1 ; a == 'x' and (b == 'y' or b == 'z')", "six==1.17.0"]
    assert script.differences(have, same) == []
    newer = ["scipy==1.18.0", "six==1.17.0"]
    assert script.differences(have, newer) == ["missing: scipy==1.18.0", "left over: scipy==1.17.1"]


def declared() -> list[str]:
    """Every requirement that pyproject.toml declares itself."""
    out = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["build-system"]["requires"]]
    tables = (PYPROJECT["dependency-groups"], PYPROJECT["project"]["optional-dependencies"])
    for group in (group for table in tables for group in table.values()):
        out += [entry for entry in group if isinstance(entry, str)]
    return out


def test_every_direct_dependency_is_pinned() -> None:
    exact = re.compile(r"[A-Za-z0-9._-]+(\[[\w,-]+\])?==[\w.+!]+ *(;.*)?")
    loose = [requirement for requirement in declared() if not exact.fullmatch(requirement)]
    assert not loose, f"not pinned to one version: {loose}"


def test_pins_of_indirect_dependencies_hold_versions_only() -> None:
    uv = PYPROJECT["tool"]["uv"]
    direct = {re.split(r"[=\[; ]", requirement)[0].lower() for requirement in declared()}
    for key in ("constraint-dependencies", "build-constraint-dependencies"):
        assert uv[key], f"[tool.uv] {key} is empty: uv run scripts/update_constraints.py"
        loose = [pin for pin in uv[key] if "==" not in pin or "//" in pin or "@" in pin]
        assert not loose, f"[tool.uv] {key} holds more than versions: {loose}"
    twice = direct & {pin.split("==")[0] for pin in uv["constraint-dependencies"]}
    assert not twice, f"pinned where they are declared and again in [tool.uv]: {sorted(twice)}"
    assert not {"index", "index-url", "find-links", "extra-index-url"} & uv.keys()


def test_light_dependencies_hold_no_framework() -> None:
    light = {re.split(r"[=\[; ]", name)[0] for name in PYPROJECT["project"]["dependencies"]}
    assert not light & (HEAVY | {"pytest", "jupyterlab"})
    course, test = PYPROJECT["tool"]["uv"]["default-groups"]
    assert [name.split("==")[0] for name in PYPROJECT["dependency-groups"][test]] == ["pytest"]
    groups = {name.split("==")[0] for name in PYPROJECT["dependency-groups"][course]}
    assert not groups & HEAVY and not light & groups


# -- layers stay apart ------------------------------------------------------------------------------


def test_library_imports_nothing_of_the_grading_side() -> None:
    wrong = {
        names(file): bad
        for file in python_files("profiling_lab")
        if (bad := set(imports(file)) & (OWN - {"profiling_lab"}))
    }
    assert not wrong, f"profiling_lab must not import these: {wrong}"


def test_library_loads_no_framework() -> None:
    wrong = {
        names(file): bad
        for file in python_files("profiling_lab")
        if (bad := set(imports(file, everywhere=False)) & HEAVY)
    }
    assert not wrong, f"import these inside the functions that need them: {wrong}"


@pytest.mark.concerns()
def test_stubs_and_references_import_the_library_and_frameworks_only() -> None:
    course = manifest.load(ROOT)
    files = [stub for exercise in course.exercises for stub in exercise.stubs]
    wrong = {}
    for stub in files:
        for file in (ROOT / stub, course.solution(stub)):
            if file.suffix == ".py" and file.is_file():
                bad = set(imports(file)) & (OWN - {"profiling_lab"} | {"pytest"})
                wrong |= {names(file): bad} if bad else {}
    assert files
    assert not wrong, f"neither a stub nor a reference may import these: {wrong}"


# What may be imported in each room of `grading`, besides the room itself, by the longest name that fits;
# late imports count. Nothing below may know what stands further down.
ROOMS = {
    "errors": set(),
    "runner": set(),
    "checks": {"runner"},
    "grader/sandbox": {"errors", "runner"},
    "grader/intake": {"runner"},
    "grader": {"errors", "runner", "checks", "grader/sandbox", "grader/intake"},
    "proof": {"errors", "runner", "checks", "grader", "grader/sandbox", "grader/intake"},
    "gradebook": {"runner", "grader/intake"},
    "grader/batches": {"runner", "grader", "grader/sandbox", "grader/intake", "gradebook"},
    "cli": {"errors", "grader/batches"},
    "classroom": {"gradebook", "grader/batches", "cli"},
}


def grading_imports(folder: Path) -> dict[str, set[str]]:
    """By module of a package `grading` in a folder: the modules of it that it imports anywhere."""
    files = {
        ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): file
        for file in sorted((folder / "grading").rglob("*.py"))
        if "templates" not in file.parts  # what goes into other places
    }
    out = {}
    for module, file in files.items():
        found = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                below = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= below & files.keys() or {node.module}
        out[module] = (found & files.keys()) - {module}
    return out


def circle(imported: dict[str, set[str]]) -> list[str]:
    """Modules each of which imports the next, the last one the first; [] if there are none."""
    done: set[str] = set()

    def follow(module: str, path: list[str]) -> list[str]:
        if module in path:
            return path[path.index(module) :]
        if module not in done:
            for other in sorted(imported[module]):
                if found := follow(other, [*path, module]):
                    return found
            done.add(module)
        return []

    return next((found for module in imported if (found := follow(module, []))), [])


def room_of(module: str) -> str:
    """The room of `grading` that a module is in."""
    place = module.removeprefix("grading").strip(".").replace(".", "/")
    return max((room for room in ROOMS if f"{place}/".startswith(f"{room}/")), key=len, default="")


def out_of_order(imported: dict[str, set[str]]) -> list[str]:
    """Imports that the table of rooms does not have."""
    return [
        f"{module} imports {other}"
        for module, others in imported.items()
        for other in sorted(others)
        if room_of(other) not in ROOMS.get(room_of(module), set()) | {room_of(module)}
    ]


def test_rooms_of_grading() -> None:
    imported = grading_imports(ROOT)
    assert not circle(imported), " → ".join(circle(imported))
    assert {room_of(module) for module in imported} == {"", *ROOMS}
    assert not out_of_order(imported)


def test_a_circle_and_a_wrong_import_are_seen(tmp_path: Path) -> None:
    for name, text in {
        "grading/__init__.py": "",
        "grading/errors.py": "",
        "grading/runner/plugin.py": "def run():\n    from grading.proof import live_results\n",
        "grading/proof/live_results.py": "from grading.errors import SandboxError\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    imported = grading_imports(tmp_path)
    assert imported["grading.proof.live_results"] == {"grading.errors"}
    assert out_of_order(imported) == ["grading.runner.plugin imports grading.proof.live_results"]
    assert circle(imported) == []
    imported["grading.proof.live_results"].add("grading.runner.plugin")
    assert circle(imported) == ["grading.proof.live_results", "grading.runner.plugin"]


@pytest.mark.proof
def test_checks_start_nothing_by_themselves() -> None:
    """What is made of a submission runs by `grading.checks.commands`, which knows of the sandbox."""
    unsafe = {"subprocess", "multiprocessing", "runpy", "ctypes"}
    wrong = {
        names(file): bad
        for folder in ("tests/week07", "tests/modules", "tests/labs")
        for file in python_files(folder)
        if "probes" not in file.parts  # these run beside the learner's code, in its process
        and (bad := set(imports(file)) & unsafe)
    }
    assert not wrong, f"checks must leave this to grading.checks: {wrong}"


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a statement loads in a fresh interpreter."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_command_line_starts_light() -> None:
    heavy = loaded_by("import profiling_lab.cli") & (
        HEAVY | {"polars", "numpy", "jinja2", "pytest"}
    )
    assert not heavy, f"`import profiling_lab.cli` loads {sorted(heavy)}: import them where used"


def test_recorder_runs_on_the_standard_library_alone() -> None:
    """It runs under whatever Python holds torch on the machine with the GPU."""
    allowed = set(sys.stdlib_module_names) | {"profiling_lab"}
    wrong = {
        names(file): bad
        for file in python_files("profiling_lab/record")
        if (bad := set(imports(file)) - allowed)
    }
    assert not wrong, f"the recorder imports more than the standard library: {wrong}"
