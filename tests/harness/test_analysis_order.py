"""The order in columns: played unchanged exact, changed the same as the references to the nanosecond."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from grading.checks.generate import SCENARIOS
from grading.checks.generate.drawn_timeline import Timeline
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


def without_legacy(made: Order) -> Order:
    """The order without what the legacy default stream imposes, which the reference does not know."""
    kept = made.why != order.LEGACY
    links = {name: getattr(made, name)[kept] for name in ("on", "to", "lag", "why")}
    return replace(made, delay=made.held, **links)


def saved_by_engine(made: Order, limit_ns: int) -> dict[str, int]:
    """What the reference of Day 1 takes away, taken away from the columns."""
    assert (Replay(made).ends() == made.end).all()
    made = without_legacy(made)
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


# -- the legacy default stream --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["overlap_legacy", "overlap_legacy_three", "case_ensemble_a"])
def test_the_legacy_default_streams_order_explains_what_its_programs_wait_for(name: str) -> None:
    made = order.read(Export(captures.open(name)).recording)
    device = made.kind == order.DEVICE
    held, unexplained = int(made.held[device].sum()), int(made.delay[device].sum())
    assert (made.why == order.LEGACY).any() and held > 1_000_000
    assert unexplained < 0.03 * held, "that order explains all but the start of a kernel"


@pytest.mark.parametrize("name", ["overlap_per_thread", "overlap_streams", "two_streams"])
def test_streams_out_of_that_order_have_none_of_its_links(name: str) -> None:
    made = order.read(Export(captures.open(name)).recording)
    assert not (made.why == order.LEGACY).any() and (made.held == made.delay).all()


@pytest.mark.parametrize(
    ("flags", "overtakes", "links"),
    [((3, 1), False, 5), ((3, 2), False, 0), ((1, 1), False, 0), ((3, 1), True, 0)],
)
def test_both_ways_between_blocking_streams_and_the_default_one(
    flags: tuple[int, int], overtakes: bool, links: int, tmp_path: Path
) -> None:
    """Three kernels on each of two streams in turns, 100 µs each; the last begins early where it overtakes."""
    timeline = Timeline(tmp_path / "turns.sqlite")
    for number in range(6):
        start = 10_000 + 101_000 * number - (50_000 if overtakes and number == 5 else 0)
        call = (1_000 * number, 1_000 * number + 900)
        timeline.kernel(start, start + 100_000, stream=(7, 13)[number % 2], call=call)
    timeline.stream_type(7, flags[0])
    timeline.stream_type(13, flags[1])
    made = order.read(Export(captures.open(timeline.save())).recording)
    legacy = made.why == order.LEGACY
    assert legacy.sum() == links
    device = made.kind == order.DEVICE
    if links:
        assert not made.delay[device].any() and made.held[device].sum() > 400_000
        # Twice as fast, each kernel starts as much earlier as those before it in both streams end.
        ends = Replay(made).ends(own=np.where(device, made.own // 2, made.own))
        assert made.end[device].max() - ends[device].max() == 6 * 50_000
