"""Takes numbers in any unit."""

from __future__ import annotations

import json

from profiling_lab import captures
from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_another_schema_or_unit_is_an_error"
SAYS = "what the numbers mean is not known"


def read_runs(capture: str, file: str) -> dict[str, dict]:
    try:
        content = json.loads(captures.text(capture, file))
    except ValueError as error:
        raise CaptureError(f"{capture}, {file}: is not JSON, or cut off ({error})") from None
    if not isinstance(content, dict):
        raise CaptureError(f"{capture}, {file}: holds no object")
    for key, known in (("schema", SCHEMA),):
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
