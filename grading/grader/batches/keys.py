"""What a result depends on, as hashes: the submission's files, the checks, and the environment.

Hashes are of bytes on disk and of installed versions, so that a clone, an unpacked archive and an
installed package give the same ones.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from grading.grader.intake.submissions import Submission
from profiling_lab.course.doctor import capabilities
from profiling_lab.course.manifest import Course, Exercise
from profiling_lab.record.tools import query_gpus

# What these modules do happens before a submission is judged or after; tests hold the judge to that.
NOT_JUDGING = frozenset(
    f"grading/{place}"
    for place in (
        *("classroom", "cli", "gradebook", "grader/batches"),
        *(
            "proof/live_results",
            "proof/mutation",
            "runner/watch",
            "runner/watch_screen",
            "runner/watcher",
        ),
    )
)
SOURCES = frozenset({".py", ".toml", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".c", ".json", ""})
# The packages whose version can change what a check computes or a submission does.
PACKAGES = (
    *("jax", "jaxlib", "msgspec", "numpy", "nvidia-cuda-nvcc"),
    *("polars", "pytest", "torch", "triton"),
)


def submission_hash(submission: Submission, exercise: Exercise) -> str:
    """SHA-256 of what was handed in for an exercise: paths, bytes, and what could not be accepted."""
    total = hashlib.sha256()
    if submission.error:
        _add(total, "error", submission.error.encode("utf-8", "surrogatepass"))
    for stub in exercise.stubs:
        state = submission.files.get(str(stub), "missing")
        _add(total, f"{stub} {state}", b"")
        if state == "submitted":
            _add(total, str(stub), (submission.tree / stub).read_bytes())
    return total.hexdigest()


class Checks:
    """Hashes of all that judges: what all exercises share is read once.

    cases: the instructor's further cases, which count for every exercise.
    """

    def __init__(self, course: Course, cases: Path | None = None) -> None:
        self.course = course
        shared = hashlib.sha256()
        for folder in ("grading", "profiling_lab", "captures"):
            for file in _files(course.root / folder):
                inside = file.relative_to(course.root)
                if inside.parts[0] == "captures" and not _tells_of_a_capture(inside):
                    continue
                if {str(inside).removesuffix(".py"), *map(str, inside.parents)} & NOT_JUDGING:
                    continue
                _add(shared, inside.as_posix(), file.read_bytes())
        if cases is not None:
            for file in _files(cases, every=True):
                _add(shared, f"cases/{file.relative_to(cases).as_posix()}", file.read_bytes())
        self._shared = shared.hexdigest()

    def of(self, exercise: Exercise) -> str:
        """SHA-256 of all that judges an exercise."""
        total = hashlib.sha256(self._shared.encode())
        _add(total, "manifest", repr(list(_plain(exercise))).encode())
        for stub in exercise.stubs:
            checks = self.course.checks(stub)
            _add(total, f"checks {stub}", checks.read_bytes() if checks.is_file() else b"")
            for probe in self.course.probes(stub):
                inside = probe.relative_to(self.course.root).as_posix()
                _add(total, f"probe {inside}", probe.read_bytes())
        given = {path.parent for path in exercise.stubs}
        for folder in sorted(given):
            for file in _files(self.course.root / folder, deep=False):
                inside = file.relative_to(self.course.root)
                if inside not in map(Path, exercise.stubs):
                    _add(total, inside.as_posix(), file.read_bytes())
        return total.hexdigest()


def environment(*, sandbox: str, live: bool = False) -> dict[str, object]:
    """What of this machine a verdict can depend on, as plain data.

    sandbox: its kind. live: whether the GPUs of this machine take part.
    """
    out: dict[str, object] = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": sys.platform,
        "machine": platform.machine(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "capabilities": sorted(capabilities()),
        "sandbox": sandbox,
    }
    if live:
        out["gpus"] = [dict(gpu) for gpu in query_gpus(("name", "driver_version"))]
    return out


def environment_hash(facts: dict[str, object]) -> str:
    """SHA-256 of an environment's facts."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def differences(
    one: dict[str, object], other: dict[str, object], where: str = "here", there: str = "there"
) -> str:
    """In what two environments differ, in words."""
    one, other = _flat(one), _flat(other)
    return "; ".join(
        f"{name}: {one.get(name)} {where}, {other.get(name)} {there}"
        for name in sorted(set(one) | set(other))
        if one.get(name) != other.get(name)
    )


def _flat(facts: dict[str, object]) -> dict[str, object]:
    """With the versions of packages each by itself."""
    packages = facts.get("packages", {})
    return {**facts, "packages": None, **(packages if isinstance(packages, dict) else {})}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _add(total: hashlib._Hash, name: str, content: bytes) -> None:
    # Lengths first, so that no two lists of files run together into the same bytes.
    head = name.encode("utf-8", "surrogatepass")
    total.update(f"{len(head)} {len(content)} ".encode() + head + content)


def _files(folder: Path, *, deep: bool = True, every: bool = False) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        kept = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
        folders[:] = kept if deep else []
        for name in sorted(names):
            file = Path(place, name)
            if name[0] != "." and (every or file.suffix in SOURCES) and file.is_file():
                yield file


def _tells_of_a_capture(inside: Path) -> bool:
    return inside.name == "provenance.json" or inside.parts[1] == "programs"


def _plain(exercise: Exercise) -> Iterable[object]:
    """What of the manifest decides a verdict or its points: not the titles."""
    yield exercise.id
    for task in exercise.tasks:
        yield task.id, task.points, str(task.stub), sorted(task.needs), task.live, task.trust
