"""What verdicts by hand are held against: measured on timelines drawn by hand, and by second opinions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grading.checks import case_evidence, oracles
from grading.checks.case_evidence import Case, open_case
from profiling_lab import captures


@pytest.fixture
def drawn(draw: Callable[[], Any]) -> Case:
    """Two devices; on device 0 two streams, copies, a collective, pauses of 100 and 50 ns."""
    timeline = draw()
    timeline.kernel(1_000, 1_100, stream=7)
    timeline.kernel(1_050, 1_200, stream=8)  # 50 ns beside the first
    timeline.copy(1_150, 1_300)  # alone for 100
    timeline.memset(1_290, 1_320)
    timeline.kernel(1_420, 1_500, name="ncclAllReduce", stream=9)  # after 100 ns of nothing
    timeline.kernel(1_480, 1_550, stream=7)  # 20 ns beside it
    timeline.kernel(1_000, 1_600, name="ncclAllReduce", stream=9, device=1)  # ends the window
    timeline.api("cudaLaunchKernel_v7000", 900, 930)
    timeline.api("cudaStreamSynchronize_v3020", 1_200, 1_240)
    timeline.api("cudaMalloc_v3020", 1_300, 1_307)
    timeline.api("cuMemcpyAsync", 1_310, 1_313)
    timeline.api("cudaFree_v3020", 1_320, 1_331)
    return case_evidence._timeline(timeline.save())


@pytest.mark.parametrize(
    ("key", "device", "value"),
    [
        ("idle_ns", 0, 100 + 50),
        ("idle_ns", 1, 0),
        ("longest_gap_ns", 0, 100),
        ("copy_alone_ns", 0, 100),
        ("one_stream_ns", 0, 50 + 100 + 60 + 50),
        ("collective_alone_ns", 0, 60),
        ("collective_alone_ns", 1, 600),
        ("collective_gap_ns", 0, 600 - 80),
        ("launching_ns", 0, 30),
        ("waiting_ns", 0, 40),
        ("allocating_ns", 0, 7 + 11),
        ("compiling_ns", 0, 0),
        ("growth_bytes", 0, None),
    ],
)
def test_a_drawn_timeline_has_the_numbers_it_was_drawn_with(
    drawn: Case, key: str, device: int, value: float | None
) -> None:
    assert drawn.window_ns == 600
    assert drawn.measure(key, device) == value


@pytest.mark.parametrize("name", ["case_vision_a", "case_residual_a", "case_decoder_b"])
def test_recordings_agree_with_plain_sql(name: str) -> None:
    case, file = open_case(name), captures.path(name)
    gaps = [end - start for _, start, end in oracles.idle_gaps(file)]
    assert case.measure("idle_ns") == sum(gaps)
    assert case.measure("longest_gap_ns") == max(gaps)
    start, end = oracles.span(file)
    assert case.window_ns == end - start


def test_a_page_is_read_in_base_units() -> None:
    case = open_case("case_scale_a")
    assert case.measure("used_pct") == 100
    assert case.measure("cache_pct") == case.metric(
        "lts__throughput.avg.pct_of_peak_sustained_elapsed"
    )
    assert all(case.measure(key) is not None for key in case.keys.values())


def test_a_trace_holds_its_compilations() -> None:
    case = open_case("case_speech_a")
    assert len(case.compilations_ns) == 2
    assert case.measure("compiling_ns") == sum(case.compilations_ns) < case.window_ns
