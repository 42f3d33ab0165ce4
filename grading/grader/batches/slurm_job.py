"""What a job of the cluster does: it judges the units of its chunk and writes their results into files of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from grading.grader.batches import keys, store
from grading.grader.batches.engines import JudgeSpec, Local, Unit, not_judged
from grading.grader.intake.submissions import Submission
from grading.runner.results import Key, Result
from profiling_lab.course import manifest


def unpacked(data: dict[str, Any]) -> list[Unit]:
    course = manifest.load(Path(data["judge"]["root"]))
    taken = {
        student: Submission(**(row | {"tree": Path(row["tree"]), "extra": tuple(row["extra"])}))
        for student, row in data["submissions"].items()
    }
    return [
        Unit(taken[student], course.exercise(exercise), Key(**key))
        for student, exercise, key in data["units"]
    ]


def tell_environment(answer: str, spec: dict[str, Any]) -> None:
    """A job: write what verdicts depend on here into a file, or why this node cannot grade."""
    try:
        facts = Local(JudgeSpec(**spec)).environment()
    except Exception as error:  # noqa: BLE001 - told to the instructor
        facts = {"problem": f"{type(error).__name__}: {error}"}
    store.write_whole(Path(answer), [json.dumps(facts)])


def run_chunk(spec: str) -> int:
    """A job: judge the units of a chunk; returns how many. Started again, it goes on where it was."""
    data = json.loads(Path(spec).read_text(encoding="utf-8"))
    results = Path(data["results"])
    done, end = store.read_lines(results)
    judged = {(result.student, result.exercise) for result in done}
    units = [
        unit for unit in unpacked(data) if (unit.submission.student, unit.exercise.id) not in judged
    ]
    stop = threading.Event()
    # Slurm's scancel sends it some seconds before SIGKILL; submitit would go on until then.
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    engine = Local(JudgeSpec(**data["judge"]), retries=data["retries"])
    with results.open("ab") as stream:
        os.ftruncate(stream.fileno(), end)  # a line that an earlier start left torn
        writer = _Writer(stream, results)
        if data["environment"] and (here := engine.environment()) != data["environment"]:
            other = keys.differences(data["environment"], here)
            why = f"nodes of the cluster differ ({other}): name nodes that are alike, say by partition"
            for unit in units:
                writer.finished(unit, not_judged(unit, why))
        elif units:
            try:
                engine.run(units, writer, stop)
            except Exception as error:  # noqa: BLE001 - said with every unit that it left
                why = f"the job that judged it failed: {type(error).__name__}: {error}"
                for unit in units:
                    if (unit.submission.student, unit.exercise.id) not in writer.done:
                        writer.finished(unit, not_judged(unit, why))
    return len(units)


class _Writer:
    """Writes results, and what has been begun, into the job's own files."""

    def __init__(self, stream: Any, results: Path) -> None:
        self._stream = stream
        self._begun = results.with_suffix(".begun")
        self.done: set[tuple[str, str]] = set()
        self._mutex = threading.Lock()

    def started(self, unit: Unit) -> None:
        line = json.dumps([unit.submission.student, unit.exercise.id]) + "\n"
        with self._mutex, self._begun.open("a", encoding="utf-8") as file:
            file.write(line)

    def finished(self, unit: Unit, result: Result) -> None:
        with self._mutex:
            store.append_line(self._stream, result)
            self.done.add((unit.submission.student, unit.exercise.id))

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def begun_by(results: Path) -> set[tuple[str, str]]:
    """Student and exercise of the units that a job began."""
    out: set[tuple[str, str]] = set()
    with contextlib.suppress(OSError):
        for line in results.with_suffix(".begun").read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                student, exercise = json.loads(line)
                out.add((student, exercise))
    return out
