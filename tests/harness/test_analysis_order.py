"""The order in columns: played unchanged exact, changed the same as the references to the nanosecond."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from grading.checks.generate import SCENARIOS
from profiling_lab import captures
from profiling_lab.analysis import columns, order
from profiling_lab.analysis.nsys_columns import Export
from profiling_lab.analysis.order import Order
from profiling_lab.analysis.replay import Replay
from profiling_lab.captures import dependencies
from profiling_lab.course import manifest as course
from profiling_lab.mine.functions import load_file

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def ex_30() -> ModuleType:
    file = course.load(ROOT).solution(course.load(ROOT).exercise("ex_30").stub)
    return load_file(file, "reference_ex_30_columns")


def saved_by_engine(made: Order, limit_ns: int) -> dict[str, int]:
    """What the reference of Day 1 takes away, taken away from the columns."""
    replay, work = Replay(made), made.recording.operations
    device = made.kind == order.DEVICE
    assert (replay.ends() == made.end).all()
    assert (made.on < made.to).all()
    crossing = np.zeros(len(made), dtype=bool)
    rows = made.row[device]
    directions = [made.recording.code("H2D"), made.recording.code("D2H")]
    crossing[device] = (work.kind[rows] == columns.COPY) & np.isin(work.name[rows], directions)

    def waits(kind: int) -> np.ndarray:
        return (made.why == order.WAITED) & (made.waits_in[made.to] == kind)

    def without(links: np.ndarray) -> np.ndarray:
        return np.where(links, order.NEVER, made.lag)

    code = np.isin(made.kind, (order.HOST_CODE, order.SETUP_CALL))
    issuing = ((made.kind == order.LAUNCH) | (code & (made.own <= limit_ns))) & ~made.resumes
    changes = {
        "waits": {"lag": without(waits(order.SYNCHRONIZE))},
        "launch_cost": {
            "lead": np.where((made.lead <= limit_ns) & ~made.resumes, 0, made.lead),
            "own": np.where(issuing, 0, made.own),
        },
        "copies": {
            "own": np.where(crossing | (made.kind == order.COPY_CALL), 0, made.own),
            "delay": np.where(crossing, 0, made.delay),
            "lag": np.where(waits(order.COPY_CALL), np.minimum(made.lag, 0), made.lag),
        },
        "allocation": {
            "own": np.where(made.kind == order.ALLOCATION, 0, made.own),
            "lag": without(waits(order.ALLOCATION)),
        },
        "host_code": {
            "lead": np.where(made.lead > limit_ns, 0, made.lead),
            "own": np.where(
                (code & (made.own > limit_ns)) | (made.kind == order.HOST_FUNCTION), 0, made.own
            ),
        },
    }
    end = made.end[device].max()
    return {cause: int(end - replay.ends(**new)[device].max()) for cause, new in changes.items()}


def saved_by_reference(reference: ModuleType, path: str) -> dict[str, int]:
    operations = dependencies.read(captures.open(path))
    end = reference.replay_end(operations)
    changes = {
        "waits": reference._without_waits,
        "launch_cost": reference._without_launch_cost,
        **reference.GIVEN_CHANGES,
    }
    return {
        cause: end - reference.replay_end([change(operation) for operation in operations])
        for cause, change in changes.items()
    }


def compare(reference: ModuleType, path: str) -> dict[str, int]:
    made = order.read(Export(captures.open(path)).recording)
    found = saved_by_engine(made, reference.DISPATCH_LIMIT_NS)
    assert found == saved_by_reference(reference, path)
    return found


@pytest.mark.parametrize("name", captures.names())
def test_on_recordings_engine_and_reference_save_the_same(ex_30: ModuleType, name: str) -> None:
    compare(ex_30, name)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_on_generated_recordings_too(ex_30: ModuleType, name: str, tmp_path: Path) -> None:
    found = compare(ex_30, str(SCENARIOS[name](seed=11, folder=tmp_path).path))
    assert name in ("graphs_only", "nested_gaps", "with_overhead") or any(found.values())
