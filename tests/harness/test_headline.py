"""What a view says first and by which names: the verdict in a sentence, equal findings as one, short names."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from click.testing import CliRunner

from profiling_lab.captures import inputs
from profiling_lab.cli import lab
from profiling_lab.diagnosis import contributors, engine, headline
from profiling_lab.diagnosis.engine import Verdict
from profiling_lab.findings import CATEGORIES, OVERLAP, Finding
from profiling_lab.reports import CaptureSection, from_verdict, render_report
from profiling_lab.reports.model import Table, grouped, short_subject
from profiling_lab.reports.tables import short_names
from tests.harness.drawn_run import US, Drawn, judge

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
    more = {
        "memory_growth": {"growth_bytes": 1e6},
        "throttled": {"clock_ratio": 0.8},
        "healthy": {"lost_ratio": 0.04},
    }
    text = sentence(finding(category, **more.get(category, {})))
    claim, _, first = text.partition(": ")
    assert claim[0].isupper() and first[0].islower() and "{" not in text and len(text) < 110
    assert any(figure in text for figure in ("77%", "1.00 MB", "80%", "96%"))


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
    more = {"judged_ns": 100, "setup_ns": 0, "spent": [SimpleNamespace(length_ns=100)]}
    seen = (SimpleNamespace(lost_ns=90, **more), SimpleNamespace(lost_ns=40, **more))
    assert sentence(small, seen=seen) == (
        "40% of the time is idle or exposed, and no one cause explains a tenth: record more before you change "
        "anything"
    )


def test_most_of_a_window_that_is_set_up_is_said_before_the_claim() -> None:
    for setup_ns, begins in (
        (499, "Waiting for results"),
        (980, "98% of the window is set-up. In the other 20 ns, waiting"),
    ):
        part = SimpleNamespace(length_ns=1000)
        seen = SimpleNamespace(
            setup_ns=setup_ns, spent=[part], lost_ns=500, judged_ns=1000 - setup_ns
        )
        assert sentence(finding("sync_bound"), seen=(seen,)).startswith(begins)


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


def test_equal_findings_are_one_with_their_number() -> None:
    (part,) = inputs.read(["ncu_memory"])
    verdict = engine.judge([part])
    groups = grouped(verdict.findings)
    alike = groups[0]
    assert len(alike) == 4 and sum(map(len, groups)) == len(verdict.findings)
    assert len({(f.category, f.recommendation) for f in alike}) == 1
    page = render_report(from_verdict.sections(verdict, [part]), title="A")
    assert page.count(">Uncoalesced access<") == 1 and ">4 kernels<" in page
    assert all(f">{short_subject(finding)}" in page for finding in alike)
    screen = " ".join(CliRunner().invoke(lab, ["diagnose", "ncu_memory"]).stdout.split())
    assert "+ the same of 3 kernels: drift_structs" in screen
    assert "then memory_bound, 4 kernels: shift_left" in screen
    assert "0 ns (0.0%)" not in screen and "could not be judged 0" not in screen


def test_names_of_kernels_are_short_and_tell_instances_apart() -> None:
    add, mul = (
        f"void at::native::elementwise_kernel<4, {of}Functor<int> >(int)" for of in ("Add", "Mul")
    )
    long = "void ns::tile<1>(float*)", "void ns::tile<2>(float*)"
    assert short_names([add, mul, *long, ""]) == [
        "Add (elementwise_kernel)", "Mul (elementwise_kernel)", "tile<1>(float*)", "tile<2>(float*)", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "overlaps"), [("cuda_pipeline_improved", True), ("torch_inference_baseline", False)]
)
def test_a_share_above_the_whole_is_explained(name: str, overlaps: bool) -> None:
    (part,) = inputs.read([name])
    verdict = engine.judge([part])
    shares = [row["window_ratio"] for row in contributors.of(verdict.seen[0])["ranges"]]
    assert (max(shares) > 1) is overlaps
    page = render_report(from_verdict.sections(verdict, [part]), title="A")
    screen = " ".join(CliRunner().invoke(lab, ["diagnose", name]).stdout.split())
    assert (OVERLAP in page) is (OVERLAP in screen) is overlaps


def test_shares_of_savings_are_of_what_was_judged(tmp_path: Path) -> None:
    """Finding and table say the same share, also beside set-up of 20 ms."""
    drawn = Drawn(tmp_path / "setup.sqlite")
    drawn.launch(10)
    drawn.launch(100, call_us=20_000)
    for _ in range(50):
        drawn.launch(100)
        drawn.wait()
        drawn.now += 300 * US
    path = drawn.save()
    screen = CliRunner().invoke(lab, ["diagnose", str(path)]).stdout
    (row,) = [line for line in screen.splitlines() if line.startswith("    other host code")]
    share = judge(path).findings[0].evidence["recoverable_ratio"]
    assert f"{100 * share:.1f}% of what was judged" in row
    page = render_report(from_verdict.sections(judge(path), inputs.read([str(path)])), title="A")
    assert "Shares are of the window without set-up." in page


def test_a_column_in_which_nothing_was_recorded_is_left_out() -> None:
    made = CaptureSection("a", window_ns=(0, 10))
    made.tables = [
        Table("T", "t", [("Name", ""), ("Empty", "ns"), ("Full", "ns")], [("x", None, 5)])
    ]
    page = render_report([made], title="A")
    assert "Full" in page and "Empty" not in page


@pytest.mark.parametrize(
    "command",
    [
        "diagnose torch_inference_baseline",
        "diagnose ncu_memory",
        "diagnose case_one_thread_a case_sum_a",
        "compare ncu_memory ncu_memory_basic",
        "compare torch_inference_baseline torch_inference_improved",
    ],
)
def test_what_is_printed_fits_80_columns_without_colour(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(lab, command.split()).stdout
    # What is to be copied whole may be longer.
    wide = [line for line in text.splitlines() if len(line) > 80 and "'regex:" not in line]
    assert len(text.splitlines()) > 10 and not wide and "\x1b" not in text


@pytest.mark.skipif(sys.platform == "win32", reason="asks for pipes as POSIX has them")
@pytest.mark.parametrize("command", ["watch ex_30.busy_time", "diagnose torch_inference_baseline"])
def test_a_closed_pipe_ends_a_command_quietly(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    asked = [sys.executable, "-m", "profiling_lab.cli", *command.split()]
    done = subprocess.run(asked, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert not done.stderr, done.stderr.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="asks for pipes as POSIX has them")
def test_watch_ends_when_its_reader_goes_and_not_at_its_next_line() -> None:
    asked = [sys.executable, "-m", "profiling_lab.cli", "watch", "ex_30.busy_time"]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
        assert watching.stdout is not None and watching.stderr is not None
        try:
            while b"save to check" not in watching.stdout.readline():
                assert watching.poll() is None
            watching.stdout.close()
            assert watching.wait(20) == 0
            assert not watching.stderr.read()
        finally:
            watching.kill()
