"""What the grader knows of one submission's exercise: the outcome of every check, and how it came about.

A result is plain data, written as one line of JSON (`grading.grader.batches.store`), read by everything that reports. Of an
outcome "error" the cause says what the submission's code did; "infrastructure" is never the submission's doing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1

# Of a check, the gravest first: a task has the gravest outcome of its checks.
OUTCOMES = ("infrastructure", "error", "failed", "blocked", "todo", "not run", "passed")

# Of the outcome "error": what the code under judgement did.
CAUSES = {
    "time-out": "did not come back in time",
    "memory": "took more memory than it may",
    "processes": "started more processes than it may",
    "crash": "crashed the interpreter",
    "exit": "ended its own process",
    "bad import": "cannot be imported",
    "oversized output": "returned or printed more than may cross",
    "forbidden value": "returned a value of a type that may not cross",
    "protocol": "spoke to the grader in a way that no honest code does",
    "refused file": "was handed in as something that cannot be taken",
}


@dataclass(frozen=True)
class Key:
    """What a result depends on; equal keys give equal results.

    submission, checks, environment: hashes (SHA-256, hex). seed: of what the checks draw.
    """

    submission: str
    checks: str
    environment: str
    seed: int


@dataclass
class Check:
    """One check as it ended. cause: of CAUSES if the outcome is "error", else ""."""

    name: str
    outcome: str
    message: str = ""
    cause: str = ""
    hidden: bool = False


@dataclass
class Task:
    """One task. trust: "checked", or "claim" if what was measured ran beside the submission's code."""

    outcome: str
    points: int
    earned: int
    live: bool = False
    trust: str = "checked"
    cause: str = ""
    checks: list[Check] = field(default_factory=list)


@dataclass
class Result:
    """One exercise of one student.

    files: for each of the exercise's stub files "submitted", "missing" or "refused: why".
    infrastructure: why the exercise could not be judged, after all attempts; "" if it was.
    seconds: wall time; attempts: how often it was tried. Both may differ between two gradings of the same.
    """

    student: str
    exercise: str
    key: Key
    tasks: dict[str, Task]
    files: dict[str, str] = field(default_factory=dict)
    infrastructure: str = ""
    seconds: float = 0.0
    attempts: int = 1

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Result:
        """From plain data. Raises ValueError for another format, KeyError and TypeError for less."""
        if data.get("format") != FORMAT:
            raise ValueError(f"a result of format {data.get('format')!r}, not {FORMAT}")
        data = {key: value for key, value in data.items() if key != "format"}
        data["key"] = Key(**data["key"])
        data["tasks"] = {name: _task(task) for name, task in data["tasks"].items()}
        return cls(**data)


def _task(data: dict[str, Any]) -> Task:
    checks = [Check(**check) for check in data["checks"]]
    return Task(**{key: value for key, value in data.items() if key != "checks"}, checks=checks)
