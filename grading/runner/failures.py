"""What a stub's failure is called: what the learner's side reports, checked, and put in words for the learner."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grading.runner import wire


class StubError(Exception):
    """The learner's code did not do what was asked; the message is written for the learner.

    headline: the first line. report: what the learner's side said of an exception, or None.
    cause: of `grading.runner.results.CAUSES`, where the code broke a rule instead of being wrong; else "".
    """

    def __init__(
        self, message: str, report: Mapping[str, Any] | None = None, cause: str = ""
    ) -> None:
        super().__init__(message)
        self.report = report
        self.cause = cause

    @property
    def headline(self) -> str:
        """The first line of the message."""
        return str(self).partition("\n")[0]


class StubImportError(StubError):
    """The learner's file cannot be imported. file, line: where, as far as known (line 0: not)."""

    def __init__(self, message: str, file: str, line: int, cause: str = "bad import") -> None:
        super().__init__(message, cause=cause)
        self.file = file
        self.line = line


class Blocked(Exception):
    """The call reached another function that is still to do. task: that task's id."""

    def __init__(self, task: str) -> None:
        super().__init__(f"blocked by {task}, which is still to do")
        self.task = task


def cause_of(report: Mapping[str, Any]) -> str:
    """Of `grading.runner.results.CAUSES`, if what a report tells is no wrong answer but a broken rule."""
    kinds = {"hang": "time-out", "too_large": "oversized output", "forbidden": "forbidden value"}
    if report["kind"] in kinds:
        return kinds[report["kind"]]
    names = {"builtins.MemoryError": "memory", "builtins.SystemExit": "exit"}
    return next((cause for name, cause in names.items() if name in report["names"]), "")


def cause_of_wire(error: wire.WireError) -> str:
    return "oversized output" if isinstance(error, wire.FrameTooLarge) else "protocol"


def failure_of_call(what: str, report: dict[str, Any]) -> StubError:
    """A report of a call that raised, in words."""
    message, frames = report["message"], report["frames"]
    if report["kind"] == "forbidden":
        return StubError(f"{what} cannot be graded: {message}", cause=cause_of(report))
    if report["kind"] == "too_large":
        text = f"{what} cannot be graded: its result has {message}"
        return StubError(text, cause=cause_of(report))
    if report["kind"] == "hang":
        text = message if message else f"{what} did not come back"
        return StubError(text, report, cause_of(report))
    if "builtins.SystemExit" in report["names"]:
        text = f"{what} ended the program (SystemExit: {message}) instead of returning"
    elif "builtins.KeyboardInterrupt" in report["names"]:
        text = f"{what} raised KeyboardInterrupt, as if someone had pressed Ctrl-C"
    else:
        text = f"{what} raised {report['type']}" + (f": {message}" if message else "")
    if "builtins.TypeError" in report["names"] and not frames:
        text += (
            "\n  The call never reached the function's body: keep the parameters that the "
            "file came with."
        )
    elif "builtins.NotImplementedError" in report["names"]:
        text += (
            "\n  It counts as still to do only while the body is nothing but "
            "raise NotImplementedError."
        )
    if message.startswith("cannot assign to field"):
        text += "\n  It cannot be changed: dataclasses.replace(operation, …) gives a changed copy."
    if "selecting columns by boolean mask" in message:
        text += "\n  df[mask] is pandas; in polars it is df.filter(mask)."
    return StubError(text + _frames_text(frames), report, cause_of(report))


def failure_of_import(report: dict[str, Any], source: Path) -> tuple[str, str, int]:
    """A report of an import that failed: the words, the file and the line."""
    frames, message = report["frames"], report["message"]
    own = [frame for frame in frames if frame[1] and frame[3]]
    file, line = (own[-1][0], own[-1][1]) if own else (str(source), 0)
    at = f"line {line}" if line else "it"
    names = report["names"]
    if report["kind"] == "syntax":
        file, line = report["file"], report["line"]
        text = f"syntax error in line {line}: {message}"
        frames = [[file, line, "", report["code"]]]
    elif report["kind"] == "hang":
        text = message
    elif "builtins.SystemExit" in names:
        text = (
            f"{at} ends the program (SystemExit: {message}); outside its functions the file "
            "may only import and define"
        )
    elif "builtins.KeyboardInterrupt" in names:
        text = f"{at} raises KeyboardInterrupt, as if someone had pressed Ctrl-C"
    elif "builtins.OSError" in names and not frames:
        text = f"the file cannot be read ({message})"
    else:
        text = f"{at} raises {report['type']}" + (f": {message}" if message else "")
    return text + _frames_text(frames), file, line


def checked(message: Any, kinds: dict[str, int]) -> list:
    if (
        type(message) is not list
        or not message
        or type(message[0]) is not str
        or kinds.get(message[0]) != len(message) - 1
    ):
        raise wire.MalformedFrame("a message of no known kind")
    return message


_REPORT_TYPES: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "type": (str,),
    "names": (list,),
    "message": (str,),
    "frames": (list,),
    "innermost": (list,),
    "token": (int, type(None)),
    "file": (str,),
    "line": (int,),
    "code": (str,),
}


def checked_report(report: Any) -> dict[str, Any]:
    good = (
        type(report) is dict
        and report.keys() == _REPORT_TYPES.keys()
        and all(type(report[key]) in kinds for key, kinds in _REPORT_TYPES.items())
        and all(type(name) is str for name in report["names"])
        and [type(part) for part in report["innermost"]] == [bool, str]
        and all(
            type(frame) is list and [type(part) for part in frame] == [str, int, str, str]
            for frame in report["frames"]
        )
    )
    if not good:
        raise wire.MalformedFrame("a report of no known shape")
    return report


def _frames_text(frames: list[list]) -> str:
    lines = []
    for file, line, function, code in frames:
        if not line and file == "…":
            lines.append("  …")
            continue
        where = f", in {function}" if function and function != "<module>" else ""
        lines.append(f"  {_shown_path(file)}, line {line}{where}")
        if code:
            lines.append(f"    {code}")
    return "".join(f"\n{line}" for line in lines)


def _shown_path(file: str) -> str:
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return file if relative.startswith("..") else relative


def lacking_words(match: str | tuple[str, ...], message: str) -> list[str]:
    """What a message lacks: of some words those that are not in it; of a regular expression, the expression."""
    if isinstance(match, str):
        return [] if re.search(match, message) else [match]
    return [word for word in match if word not in message]
