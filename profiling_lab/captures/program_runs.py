"""What programs measured of themselves: the runs in a JSON file of a capture, such as its requests.json."""

from __future__ import annotations

import itertools
import json
import marshal
from typing import TYPE_CHECKING

from profiling_lab.captures import opening
from profiling_lab.errors import CaptureError

if TYPE_CHECKING:
    import numpy as np

SCHEMA = 1
UNIT = "ns"
# A file is parsed once as long as it does not change. Kept are the bytes of its runs: each caller gets lists of its own.
_KEEP_PARSED = 32
_parsed: dict[tuple[str, int, int], bytes] = {}


def read_runs(capture: str, file: str) -> dict[str, dict]:
    """The runs that a program wrote into one JSON file of a capture: name → run.

    file: "requests.json", "service.json", "tokens.json" or "evidence.json". A run's values that are lists
    are its columns, with one entry for each request (or repeat). The rest are facts about the run.
    Raises CaptureError if a file is cut off, has another schema or unit, or is inconsistent.
    """
    key = opening.version_of(opening.file(capture, file))
    if key not in _parsed:
        while len(_parsed) >= _KEEP_PARSED:
            _parsed.pop(next(iter(_parsed)))
        _parsed[key] = marshal.dumps(_read(capture, file))
    return marshal.loads(_parsed[key])


def _read(capture: str, file: str) -> dict[str, dict]:
    try:
        content = json.loads(opening.text(capture, file))
    except ValueError as error:
        raise CaptureError(f"{capture}, {file}: is not JSON, or cut off ({error})") from None
    if not isinstance(content, dict):
        raise CaptureError(f"{capture}, {file}: holds no object")
    for key, known in (("schema", SCHEMA), ("unit", UNIT)):
        found = content.get(key)
        if found != known or isinstance(found, bool):
            raise CaptureError(f"{capture}, {file}: {key} is {found!r}, known: {known!r}")
    listed = content.get("runs")
    if not isinstance(listed, list) or not listed:
        raise CaptureError(f"{capture}, {file}: holds no runs")
    runs = {}
    for run in listed:
        name = run.get("run") if isinstance(run, dict) else None
        if not isinstance(name, str) or name in runs:
            raise CaptureError(f"{capture}, {file}: a run without a name of its own: {name!r}")
        columns = {key: value for key, value in run.items() if isinstance(value, list)}
        if len({len(column) for column in columns.values()}) > 1:
            raise CaptureError(f"{capture}, {file}, run {name}: columns of different lengths")
        for key, value in run.items():
            if key.endswith("_ns") and not _all_times(value):
                raise CaptureError(
                    f"{capture}, {file}, run {name}: {key} must hold whole numbers of {UNIT}"
                )
        runs[name] = run
    return runs


def _all_times(value: object) -> bool:
    """Whether a value is a list of times, or of lists of times."""
    if not isinstance(value, list):
        return False
    for entry in value:
        for time in entry if isinstance(entry, list) else [entry]:
            if type(time) is not int or time < 0:
                return False
    return True


def run_of(capture: str, file: str, run: str) -> dict:
    """One run of a file. Raises CaptureError for an unknown run; the message lists the known ones."""
    runs = read_runs(capture, file)
    if run not in runs:
        raise CaptureError(f"{capture}, {file}: no run {run!r}; runs here: {', '.join(runs)}")
    return runs[run]


def moments_of(run: dict) -> list[np.ndarray]:
    """intended_ns, sent_ns, start_ns and end_ns of a run's requests, each int64 (requests,).

    Raises CaptureError if a column is missing, or if the times of a request are not in order.
    """
    import numpy as np  # late: who only reads runs, as `lab quiz` does, starts without it

    names = ("intended_ns", "sent_ns", "start_ns", "end_ns")
    missing = [name for name in names if name not in run]
    if missing:
        raise CaptureError(f"run {run['run']} has no column {', '.join(missing)}")
    moments = [np.array(run[name], dtype=np.int64) for name in names]
    for earlier, later in itertools.pairwise(moments):
        if (earlier > later).any():
            raise CaptureError(f"run {run['run']}: a request's moments are not in order")
    return moments
