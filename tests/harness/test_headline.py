"""The verdict in one sentence: what is wrong, how much it costs, what to do first."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from profiling_lab.diagnosis import headline
from profiling_lab.diagnosis.engine import Verdict
from profiling_lab.findings import CATEGORIES, Finding

WITH_HEADLINE = [name for name, row in CATEGORIES.items() if row.precedence < 100 and row.remedy]


def sentence(*findings: Finding, begin_with: str = "", seen: tuple = ()) -> str:
    return headline.of(
        cast(
            Verdict,
            SimpleNamespace(
                findings=list(findings), begin_with=begin_with, kernels=[], seen=list(seen)
            ),
        )
    )


def finding(category: str, ratio: float = 0.77, words: str = "", **evidence: float) -> Finding:
    return Finding(category, "device:0", {"recoverable_ratio": ratio, **evidence}, words or "x")


@pytest.mark.parametrize("category", WITH_HEADLINE)
def test_every_verdict_on_a_run_has_one(category: str) -> None:
    more = {"memory_growth": {"growth_bytes": 1e6}, "throttled": {"clock_ratio": 0.8}}
    text = sentence(finding(category, **more.get(category, {})))
    claim, _, first = text.partition(": ")
    assert claim[0].isupper() and first[0].islower() and "{" not in text and len(text) < 110
    assert any(figure in text for figure in ("77%", "1.00 MB", "80%")) or category == "healthy"


def test_what_to_do_first_is_what_costs_least_effort() -> None:
    main, second = finding("launch_bound", 0.6), finding("sync_bound", 0.4)
    assert sentence(main, second) == (
        "Issuing work costs 60% of the time: begin with fewer, larger launches: compile, or a CUDA graph"
    )
    assert sentence(main, second, begin_with="sync_bound") == (
        "Issuing work costs 60% of the time; an easier fix saves 40%: begin by reading results later, all at once"
    )


def test_it_fits_the_recording() -> None:
    assert sentence(finding("transfer_bound")).endswith(": begin with a stream of their own")
    assert sentence(finding("transfer_bound", pinned_ns=5)).endswith(": begin with pinned memory")
    blocking = finding("sync_bound", words="… as with CUDA_LAUNCH_BLOCKING=1: unset it")
    assert sentence(blocking).endswith(": unset CUDA_LAUNCH_BLOCKING")


def test_where_no_cause_brings_a_tenth_the_lost_time_is_said() -> None:
    small = finding("unexplained", 0.001, margin_ratio=-0.099)
    seen = (SimpleNamespace(lost_ns=90, judged_ns=100), SimpleNamespace(lost_ns=40, judged_ns=100))
    assert sentence(small, seen=seen) == (
        "40% of the time is idle or exposed, and no one cause explains a tenth: record more before you change "
        "anything"
    )


KERNELS = [name for name, row in CATEGORIES.items() if row.precedence >= 100]


@pytest.mark.parametrize("category", KERNELS)
def test_every_verdict_on_a_kernel_has_one(category: str) -> None:
    more = {"ceiling_ratio": 0.66}
    found = Finding(
        category, "kernel:void scale<float>(float *)", {"recoverable_ratio": 0.77} | more, "x"
    )
    text = sentence(found)
    claim, _, first = text.partition(": ")
    assert claim.startswith("scale ") and first[0].islower() and "{" not in text
    assert "77%" in text or "66%" in text
    assert sentence(replace(found, recommendation="none")).endswith(
        ": nothing to gain without doing less"
    )
