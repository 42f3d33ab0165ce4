"""Runs units as jobs of a Slurm cluster, through submitit: same judge, same results as on one machine.

Units are cut into chunks, each a task of a job array. A job writes its results, a line each, into a file
of its own in a folder that all nodes share (below the output folder); this side reads these files while
the jobs run and keeps what comes. Nothing else crosses: no pickled result, no `sacct`. A job that ends
without all its results was killed: what it had begun is tried again alone, the rest together.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from grading.grader.batches import store
from grading.grader.batches.engines import JudgeSpec, Unit, not_judged
from grading.grader.batches.output_folder import StoreError, trouble
from grading.grader.batches.slurm_job import begun_by, run_chunk, tell_environment
from profiling_lab.errors import LabError

MINUTES = 120
CPUS = 2
MOST_UNITS = 400
POLL_S = 2.0
SETTLE_S = 20.0  # how long a dead job's last lines may take to show up on a shared file system
OWN_OPTIONS = ("cpus", "mem_gb", "minutes", "units")
CALL_TIMEOUT_S = 60.0


@dataclass
class _Chunk:
    """Units of one job. results: its file. attempt: how often its units were tried before."""

    units: list[Unit]
    spec: Path
    results: Path
    attempt: int
    job: Any = None
    offset: int = 0
    ended_at: float | None = None
    buried: bool = False
    missing: dict[tuple[str, str], Unit] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return not self.missing


class Slurm:
    """The engine of a Slurm cluster.

    spec: of the judge; `spec.parallel` jobs run at a time. folder: shared by all nodes. options: of the
    jobs, those of sbatch and `OWN_OPTIONS`. cluster: submitit's executor, "slurm" or "local" (processes
    of this machine). Raises LabError where there is no submitit or no Slurm.
    """

    def __init__(
        self,
        spec: JudgeSpec,
        folder: Path,
        *,
        retries: int = 2,
        options: dict[str, str] | None = None,
        cluster: str = "slurm",
        poll_s: float = POLL_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        options = dict(options or {})
        self.cpus = _number(options, "cpus", CPUS)
        self.minutes = _number(options, "minutes", MINUTES)
        self.mem_gb = _number(options, "mem_gb", 0)
        self.most_units = _number(options, "units", 0)
        self.sbatch = options
        self.jobs = spec.parallel
        self.spec = replace(spec, parallel=self.cpus)
        self.folder = folder
        self.retries = retries
        self.cluster = cluster
        self.poll_s = poll_s
        self.settle_s = settle_s
        self.cancel_s = 30.0
        # Never a folder of an earlier run: job numbers begin anew when Slurm's state is wiped.
        self.run_folder = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self._count = 0
        self._facts: dict[str, Any] = {}
        _must_have_slurm(cluster)

    # -- what other runs left -----------------------------------------------------------------------

    def harvest(self, kept: store.Store) -> None:
        """Keep the results of jobs whose grader was killed, and end those that still run."""
        for ids in self.folder.glob("*/jobs.txt"):
            with contextlib.suppress(OSError):
                self._cancel(ids.read_text(encoding="utf-8").split())
        for file in sorted(self.folder.glob("*/*.results.jsonl")):
            found, _ = store.read_lines(file)
            new = [
                r for r in found if not (r.infrastructure or kept.has(r.student, r.exercise, r.key))
            ]
            kept.add(*new)
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- running ------------------------------------------------------------------------------------

    def environment(self) -> dict[str, Any]:
        """A node's, asked by a job of its own; tells early whether the cluster can do its part."""
        self._make_folder()
        answer = self.run_folder / "environment.json"
        (job,) = self._submit([(tell_environment, (str(answer), asdict(self.spec)))])
        ended_at: float | None = None
        try:
            while True:
                with contextlib.suppress(OSError, ValueError):
                    self._facts = json.loads(answer.read_text(encoding="utf-8"))
                    break
                now = time.monotonic()
                if ended_at is None and self._ended([job]):
                    ended_at = now
                if ended_at is not None and now - ended_at > self.settle_s:
                    raise LabError(
                        f"a first job on the cluster ended without an answer{self._why(job)}; do all "
                        f"nodes see this course and {self.folder.parent.parent}? "
                        f"{_last_words(job)}"
                    )
                time.sleep(min(self.poll_s, 0.5))
        except BaseException:
            self._cancel([job])
            raise
        if problem := self._facts.pop("problem", ""):
            raise LabError(f"a node of the cluster cannot grade: {problem}")
        return self._facts

    def run(self, units: Iterable[Unit], reporter: Any, stop: threading.Event) -> None:
        """Submit all units as jobs, and report their results as they come."""
        self._make_folder()
        units = list(units)
        size = self.most_units or max(1, min(MOST_UNITS, -(-len(units) // (3 * self.jobs))))
        cut = [units[start : start + size] for start in range(0, len(units), size)]
        chunks = self._start([(chunk, 1) for chunk in cut])
        try:
            while chunks:
                for chunk in chunks:
                    self._collect(chunk, reporter)
                chunks = [chunk for chunk in chunks if not chunk.is_complete]
                again = self._bury(chunks, reporter)
                chunks = [chunk for chunk in chunks if not chunk.buried]
                if stop.is_set():
                    break
                if again:
                    chunks += self._start(again)
                if chunks:
                    stop.wait(self.poll_s)
        finally:
            if chunks:
                self._cancel([chunk.job for chunk in chunks])
                for chunk in chunks:
                    with contextlib.suppress(LabError):
                        self._collect(chunk, reporter)
            with contextlib.suppress(OSError):
                (self.run_folder / "jobs.txt").unlink()
        # Kept if it was stopped or failed: the logs say why, and the next run takes the results.
        if not stop.is_set():
            shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, wanted: list[tuple[list[Unit], int]]) -> list[_Chunk]:
        chunks = []
        for units, attempt in wanted:
            self._count += 1
            spec = self.run_folder / f"{self._count}.json"
            chunk = _Chunk(units, spec, spec.with_suffix(".results.jsonl"), attempt)
            chunk.missing = {(u.submission.student, u.exercise.id): u for u in units}
            store.write_whole(spec, [json.dumps(_pack(self, chunk))])
            chunks.append(chunk)
        for chunk, job in zip(
            chunks, self._submit([(run_chunk, (str(c.spec),)) for c in chunks]), strict=True
        ):
            chunk.job = job
        return chunks

    def _collect(self, chunk: _Chunk, reporter: Any) -> None:
        """Report what a job has written since the last look."""
        if begun := begun_by(chunk.results) & set(chunk.missing):
            for pair in begun:
                reporter.started(chunk.missing[pair])
        found, chunk.offset = store.read_lines(chunk.results, chunk.offset)
        for result in found:
            unit = chunk.missing.get((result.student, result.exercise))
            if unit is not None and unit.key == result.key:
                attempts = result.attempts + chunk.attempt - 1
                reporter.finished(unit, replace(result, attempts=attempts))
                del chunk.missing[result.student, result.exercise]

    def _bury(self, chunks: list[_Chunk], reporter: Any) -> list[tuple[list[Unit], int]]:
        """What must be submitted again of jobs that ended without all their results."""
        now = time.monotonic()
        again: list[tuple[list[Unit], int]] = []
        ended = self._ended([chunk.job for chunk in chunks])
        for chunk in chunks:
            if chunk.job.job_id not in ended:
                continue
            chunk.ended_at = chunk.ended_at or now
            if now - chunk.ended_at < self.settle_s:
                continue
            chunk.buried = True
            why = f"the job that judged it ended early{self._why(chunk.job)}"
            begun = begun_by(chunk.results)
            suspects = [unit for pair, unit in chunk.missing.items() if pair in begun]
            rest = [unit for pair, unit in chunk.missing.items() if pair not in begun]
            if suspects:
                if rest:
                    again.append((rest, chunk.attempt))
            else:
                suspects = rest
            if chunk.attempt > self.retries:
                for unit in suspects:
                    reporter.finished(unit, not_judged(unit, why, attempts=chunk.attempt))
            else:
                reporter.note(f"job {chunk.job.job_id}: {why}; {len(chunk.missing)} tried again")
                # What ran when the job died may have been the reason: alone it harms no other.
                alone = [[unit] for unit in suspects] if len(suspects) < len(chunk.units) else []
                again += [(part, chunk.attempt + 1) for part in alone or [suspects]]
        return again

    # -- Slurm --------------------------------------------------------------------------------------

    def _make_folder(self) -> None:
        try:
            self.run_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.run_folder}: cannot be made: {trouble(error)}") from None

    def _submit(self, calls: Sequence[tuple[Callable[..., Any], tuple]]) -> list[Any]:
        import submitit

        executor = submitit.AutoExecutor(folder=self.run_folder / "jobs", cluster=self.cluster)
        parameters: dict[str, Any] = {"timeout_min": self.minutes, "cpus_per_task": self.cpus}
        parameters |= {"name": "grade"} | ({"mem_gb": self.mem_gb} if self.mem_gb else {})
        if self.cluster == "slurm":
            parameters |= {
                "slurm_array_parallelism": self.jobs,
                # submitit asks for a signal 90 s before the end, which ends short jobs at once.
                "slurm_signal_delay_s": min(90, self.minutes * 60 // 4),
                "slurm_additional_parameters": self.sbatch,
            }
        try:
            executor.update_parameters(**parameters)
            with executor.batch():
                jobs = [executor.submit(function, *arguments) for function, arguments in calls]
        except (submitit.core.utils.FailedJobError, ValueError, OSError) as error:
            raise LabError(
                f"the cluster took no jobs: {' '.join(str(error).split())[-500:]}"
            ) from None
        with (self.run_folder / "jobs.txt").open("a", encoding="utf-8") as file:
            file.writelines(f"{job.job_id}\n" for job in jobs)
        return jobs

    def _ended(self, jobs: list[Any]) -> set[str]:
        """The ids of jobs that neither run nor wait. What Slurm does not tell is taken to run."""
        if self.cluster != "slurm":
            return {job.job_id for job in jobs if job.done()}
        # By user and not by job: Slurm calls a job that it has forgotten an error.
        done = _call(["squeue", "--noheader", "--array", f"--user={os.getuid()}", "--format=%i"])
        if done is None:
            return set()
        alive = set(done.split())
        return {job.job_id for job in jobs if job.job_id not in alive}

    def _why(self, job: Any) -> str:
        if self.cluster != "slurm":
            return ""
        text = _call(["scontrol", "--oneliner", "show", "job", job.job_id]) or ""
        fields = dict(word.split("=", 1) for word in text.split() if "=" in word)
        said = [fields.get("JobState", ""), fields.get("Reason", "")]
        said = [word.lower() for word in said if word and word != "None"]
        return f" ({', '.join(said)})" if said else ""

    def _cancel(self, jobs: list[Any]) -> None:
        """End jobs and wait, not for long, until they have ended."""
        if self.cluster != "slurm":
            for job in jobs:
                if not isinstance(job, str):
                    job.cancel()
            return
        ids = sorted({getattr(job, "job_id", job) for job in jobs})
        for start in range(0, len(ids), 500):
            _call(["scancel", *ids[start : start + 500]])


def _number(options: dict[str, str], name: str, default: int) -> int:
    text = options.pop(name, None)
    if text is None:
        return default
    if not text.isdigit() or not int(text):
        raise LabError(f"--slurm {name}={text}: should be a whole number above 0")
    return int(text)


def _must_have_slurm(cluster: str) -> None:
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise LabError("--engine slurm needs submitit: uv run --group graders grade …") from None
    if cluster == "slurm":
        missing = [p for p in ("sbatch", "squeue", "scancel", "srun") if shutil.which(p) is None]
        if missing:
            raise LabError(
                f"--engine slurm: {', '.join(missing)} not found; run grade on a machine from which "
                "you submit Slurm jobs, or leave --engine away"
            )


def _call(command: list[str]) -> str | None:
    """What a command of Slurm prints; None if it fails (a controller that restarts, say)."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _last_words(job: Any) -> str:
    try:
        return " ".join((job.stderr() or "").split())[-300:]
    except OSError:
        return ""


def _pack(engine: Slurm, chunk: _Chunk) -> dict[str, Any]:
    """A chunk as plain data. Each submission stands there once."""
    submissions: dict[str, dict] = {}
    for unit in chunk.units:
        row = asdict(unit.submission)
        submissions[unit.submission.student] = row | {"tree": str(unit.submission.tree)}
    return {
        "judge": asdict(engine.spec),
        "retries": engine.retries,
        "environment": engine._facts,
        "results": str(chunk.results),
        "submissions": submissions,
        "units": [[u.submission.student, u.exercise.id, asdict(u.key)] for u in chunk.units],
    }
