"""Checks of `nsys_ex03`: recorded, generated and drawn copies, counted again interval by interval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import (
    judge,
    judge_finding,
    judge_recommendation,
    near,
    require,
    show,
)
from grading.checks.fixtures import recordings, repeat_hint
from grading.checks.generate import truth
from profiling_lab import captures
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding

Span = tuple[int, int]


# -- what the checks count with ------------------------------------------------------------------------


def rows(frame: Any) -> list[dict[str, Any]]:
    return frame.rows(named=True)


def host_copies(capture: str) -> list[dict[str, Any]]:
    """Copies between host and device, each with its `path`."""
    side = {"H2D": "source", "D2H": "destination"}
    return [
        {**copy, "path": f"{copy['kind']} {copy[side[copy['kind']]]}"}
        for copy in rows(captures.open(capture).copies)
        if copy["kind"] in side
    ]


def named(capture: str, shown: str) -> str:
    return f"{shown or repr(capture)}{repeat_hint(capture)}"


def judge_paths(
    call: str, got: Any, want: dict[str, dict], unit: str, why: dict[str, str], which: str = ""
) -> None:
    """Hold a dict by path against what is expected. which: more about which paths there are."""
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned the paths {show(sorted(got) if isinstance(got, dict) else got)}, expected "
        f"{sorted(want)}: the direction, and the kind of memory on the host's side. {which}",
    )
    for path, entry in want.items():
        judge(f"{call}[{path!r}]", got[path], entry, unit, why)


def mixed(draw: Any) -> str:
    """Copies of both directions and memories, of two devices, and between devices."""
    timeline = draw()
    timeline.copy(1_000, 2_000, bytes=7_000, call=(500, 900))
    timeline.copy(3_000, 9_000, bytes=600_000, call=(2_500, 2_900))
    timeline.copy(10_000, 30_000, bytes=90_000, pinned=False, call=(9_000, 28_000))
    timeline.copy(
        40_000, 50_000, "D2H", bytes=80_000, pinned=False, call=(31_000, 50_100), device=1
    )
    timeline.copy(60_000, 61_000, "D2H", bytes=9_000, call=(50_500, 60_400))
    timeline.copy(70_000, 90_000, "D2H", bytes=50_000, pinned=False, call=(69_000, 70_000))
    timeline.copy(91_000, 92_000, "D2D", bytes=1_000_000, call=(90_500, 92_000))
    timeline.copy(93_000, 94_000, bytes=1_000, api="cudaMemcpy_v3020", call=(92_500, 94_500))
    timeline.copy(94_600, 94_900, api="cudaMemcpy2DAsync_v3020", call=(94_550, 94_700))
    timeline.copy(95_000, 96_000, bytes=1_000)
    timeline.copy(97_000, 98_000, bytes=3_000, process=2, correlation=1, call=(96_500, 97_400))
    return timeline.save()


# -- copy_rates ----------------------------------------------------------------------------------------


def judge_rates(stub: Any, capture: str, shown: str = "") -> None:
    want: dict[str, dict[str, Any]] = {}
    copies = host_copies(capture)
    for path in {copy["path"] for copy in copies}:
        own = [copy for copy in copies if copy["path"] == path]
        size, time = sum(c["bytes"] for c in own), sum(c["duration_ns"] for c in own)
        want[path] = {
            "copies_count": len(own),
            "copied_bytes": size,
            "copy_ns": time,
            "bytes_per_ns": size / time,
        }
    judge_paths(
        f"copy_rates({named(capture, shown)})",
        stub.copy_rates(capture),
        want,
        "copies, bytes, ns, and bytes per ns",
        {
            "bytes_per_ns": "It is all bytes over all durations, so that a large copy counts for more."
        },
    )


@task("nsys_ex03.copy_rates")
@recordings("copy_sizes", "copy_overlapped", "torch_inference_baseline")
def test_recorded_rates(stub: Any, recording: str) -> None:
    judge_rates(stub, recording)


@task("nsys_ex03.copy_rates")
@pytest.mark.parametrize("scenario", ["transfer_bound", "copies_and_kernels"])
def test_generated_rates(stub: Any, generated: Any, scenario: str) -> None:
    judge_rates(stub, str(generated(scenario).path))


@task("nsys_ex03.copy_rates")
def test_rates_of_few_copies(stub: Any, draw: Any) -> None:
    judge_rates(stub, mixed(draw), "a drawn capture")
    timeline = draw()
    timeline.kernel(1_000, 2_000)
    judge_rates(stub, timeline.save(), "a capture without copies")


# -- link_peak -----------------------------------------------------------------------------------------


@task("nsys_ex03.link_peak")
def test_known_links(stub: Any) -> None:
    rates = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0}
    for generation, gigatransfers in rates.items():
        sent, data = (10, 8) if generation in (1, 2) else (130, 128)
        for width in (1, 2, 4, 8, 16):
            want = gigatransfers * width * data / sent / 8
            got = stub.link_peak(generation, width)
            require(
                near(got, want),
                f"link_peak({generation}, {width}) returned {show(got)}, expected {want:.6g} bytes per ns: in "
                "one direction, a bit a transfer and lane, less what the coding takes",
            )


@task("nsys_ex03.link_peak")
@pytest.mark.parametrize("link", [(0, 16), (6, 16), (5, 0), (4, 3), (3, 32), (-1, 8)])
def test_unknown_links(stub: Any, link: tuple[int, int]) -> None:
    with stub.raises(
        ValueError, "", "a figure for a link that nobody built would look like a fact"
    ):
        stub.link_peak(*link)


# -- transfer_model ------------------------------------------------------------------------------------


def fitted(points: Iterable[tuple[int, int]]) -> dict[str, float]:
    """The line of least squared relative errors, by the normal equations."""
    one = two = three = four = five = 0.0
    for size, time in points:
        a, b = 1.0 / time, size / time
        one, two, three = one + a * a, two + a * b, three + b * b
        four, five = four + a, five + b
    determinant = one * three - two * two
    latency = (four * three - five * two) / determinant
    per_byte = (one * five - two * four) / determinant
    return {
        "latency_ns": latency,
        "bytes_per_ns": 1 / per_byte,
        "half_rate_bytes": latency / per_byte,
    }


def judge_model(stub: Any, capture: str, path: str, shown: str = "") -> None:
    points = [(c["bytes"], c["duration_ns"]) for c in host_copies(capture) if c["path"] == path]
    want = fitted(points)
    call = f"transfer_model({named(capture, shown)}, {path!r})"
    got = stub.transfer_model(capture, path)
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(got)}, expected a dict of: {', '.join(want)}",
    )
    for key, value in want.items():
        require(
            near(got[key], value, 1e-6, 1e-6),
            f"{call}: {key} is {show(got[key])}, expected {show(value)}. Every copy is a point, and relative "
            "errors count: a µs is nothing for a copy of a ms, and half of one of two µs",
        )


@task("nsys_ex03.transfer_model")
@recordings("copy_sizes", "copy_sizes_thirds")
def test_recorded_model(stub: Any, recording: str) -> None:
    for path in sorted({c["path"] for c in host_copies(recording)}):
        if len({c["bytes"] for c in host_copies(recording) if c["path"] == path}) > 1:
            judge_model(stub, recording, path)


@task("nsys_ex03.transfer_model")
def test_model_of_a_known_line(stub: Any, draw: Any, seed: int) -> None:
    """Copies that lie on a line, then some that do not."""
    latency, per_byte = 700 + seed % 400, 1 + seed % 3
    timeline = draw()
    at = 10_000
    for i in range(6):
        size = 1_000 * 3**i
        for more in (0, (-1) ** i * 40 * i):
            for kind in ("H2D", "D2H"):
                length = latency + size * per_byte + (more if kind == "D2H" else 0)
                timeline.copy(at, at + length, kind, bytes=size)
                at += length + 500
    for start, end in ((at, at + 90_000), (at + 95_000, at + 99_000)):  # of one size
        timeline.copy(start, end, bytes=50, pinned=False)
    capture = timeline.save()
    got = stub.transfer_model(capture, "H2D pinned")
    require(
        isinstance(got, dict)
        and near(got.get("latency_ns"), latency, 1e-6)
        and near(got.get("bytes_per_ns"), 1 / per_byte, 1e-6)
        and near(got.get("half_rate_bytes"), latency / per_byte, 1e-6),
        f"transfer_model of copies that take {latency} ns + {per_byte} ns a byte returned {show(got)}",
    )
    judge_model(stub, capture, "D2H pinned", "a drawn capture")
    timeline.copy(at + 100_000, at + 102_000, "D2H", bytes=500, pinned=False)  # latency below 0
    timeline.copy(at + 110_000, at + 117_000, "D2H", bytes=900, pinned=False)
    judge_model(stub, timeline.save(), "D2H pageable", "a capture with two sizes")
    with stub.raises(EmptyCapture, "D2H managed", "no such copy was recorded"):
        stub.transfer_model(capture, "D2H managed")
    with stub.raises(ValueError, "", "through one point go all lines"):
        stub.transfer_model(capture, "H2D pageable")


@task("nsys_ex03.transfer_model")
def test_generated_model(stub: Any, generated: Any) -> None:
    capture = str(generated("copies_and_kernels").path)
    sizes: dict[str, set[int]] = {}
    for copy in host_copies(capture):
        sizes.setdefault(copy["path"], set()).add(copy["bytes"])
    for path, found in sizes.items():
        if len(found) > 1:
            judge_model(stub, capture, path)


# -- async_in_name_only --------------------------------------------------------------------------------


def judge_held(stub: Any, capture: str, shown: str = "") -> None:
    recording = captures.open(capture)
    calls = {(c["process"], c["correlation"]): c for c in reversed(rows(recording.api_calls))}
    want: dict[str, dict[str, int]] = {}
    for copy in host_copies(capture):
        call = calls.get((copy["process"], copy["correlation"]))
        if call is None or "Async" not in call["name"]:
            continue
        entry = want.setdefault(copy["path"], {"copies_count": 0, "copy_ns": 0, "held_ns": 0})
        window = copy["start_ns"], copy["end_ns"]
        entry["copies_count"] += 1
        entry["copy_ns"] += copy["duration_ns"]
        entry["held_ns"] += truth.covered_ns([(call["start_ns"], call["end_ns"])], window)
    judge_paths(
        f"async_in_name_only({named(capture, shown)})",
        stub.async_in_name_only(capture),
        want,
        "copies, and ns",
        {
            "copies_count": "Only those count that a call with Async in its name issued.",
            "held_ns": "It is the part of the copies in which the host was still inside the call: not all of "
            "the call, and not a matter of the memory alone.",
        },
        "Only copies whose call has Async in its name promised anything.",
    )


@task("nsys_ex03.async_in_name_only")
@recordings("copy_pageable", "copy_serial", "cuda_pipeline_baseline", "torch_inference_baseline")
def test_recorded_held(stub: Any, recording: str) -> None:
    judge_held(stub, recording)


@task("nsys_ex03.async_in_name_only")
@pytest.mark.parametrize("scenario", ["transfer_bound", "copies_and_kernels"])
def test_generated_held(stub: Any, generated: Any, scenario: str) -> None:
    judge_held(stub, str(generated(scenario).path))


@task("nsys_ex03.async_in_name_only")
def test_calls_and_copies(stub: Any, draw: Any) -> None:
    judge_held(stub, mixed(draw), "a drawn capture")


# -- hidden_copies -------------------------------------------------------------------------------------


def lanes(capture: str, device: int) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = {"H2D": [], "D2H": [], "kernels": []}
    for operation in rows(captures.open(capture).device_operations):
        if operation["device"] == device:
            kernel = operation["kind"] in ("kernel", "graph")
            name = "kernels" if kernel else operation["name"]
            if name in found:
                found[name].append((operation["start_ns"], operation["end_ns"]))
    return found


def hidden(capture: str, device: int) -> dict[str, dict[str, int]]:
    found: dict[str, Any] = dict(lanes(capture, device))
    whole = [span for spans in found.values() for span in spans] or [(0, 1)]
    window = min(a for a, _ in whole), max(b for _, b in whole)
    out: dict[str, dict[str, int]] = {}
    for direction, other in (("H2D", "D2H"), ("D2H", "H2D")):
        total = dict.fromkeys(
            ("copy_ns", "behind_kernels_ns", "beside_other_direction_ns", "exposed_ns"), 0
        )
        for start, end, running in truth.segments(found, window):
            if running[direction]:
                total["copy_ns"] += end - start
                total["behind_kernels_ns"] += (end - start) * bool(running["kernels"])
                total["beside_other_direction_ns"] += (end - start) * bool(running[other])
                alone = not running["kernels"] and not running[other]
                total["exposed_ns"] += (end - start) * alone
        out[direction] = total
    return out


def judge_hidden(stub: Any, capture: str, device: int = 0, shown: str = "") -> None:
    judge_paths(
        f"hidden_copies({named(capture, shown)}, {device})",
        stub.hidden_copies(capture, device),
        hidden(capture, device),
        "ns",
        {
            "copy_ns": "Copies of one direction that run at once count once.",
            "exposed_ns": "It is the time in which neither a kernel nor a copy of the other direction ran; "
            "where both did, that time is hidden once.",
        },
    )


@task("nsys_ex03.hidden_copies")
@recordings("copy_overlapped", "copy_directions", "copy_serial")
def test_recorded_hidden(stub: Any, recording: str) -> None:
    judge_hidden(stub, recording)


@task("nsys_ex03.hidden_copies")
@pytest.mark.parametrize("scenario", ["copies_and_kernels", "transfer_bound", "graphs_only"])
def test_generated_hidden(stub: Any, generated: Any, scenario: str) -> None:
    judge_hidden(stub, str(generated(scenario).path))


def three_lanes(draw: Any) -> str:
    timeline = draw()
    timeline.copy(10_000, 30_000)
    timeline.copy(20_000, 40_000, stream=8)  # the same direction, at once
    timeline.copy(35_000, 60_000, "D2H", stream=9)
    timeline.copy(55_000, 90_000, "D2D", stream=9)
    timeline.kernel(25_000, 37_000, stream=10)
    timeline.graph(58_000, 70_000, stream=10)
    timeline.memset(10_000, 90_000, stream=11)
    timeline.copy(80_000, 90_000, stream=8)
    timeline.copy(10_000, 99_000, "D2H", device=1)
    timeline.memset(10_000, 11_000, device=2)
    return timeline.save()


@task("nsys_ex03.hidden_copies")
def test_hidden_once(stub: Any, draw: Any) -> None:
    capture = three_lanes(draw)
    for device in (0, 1, 2):
        judge_hidden(stub, capture, device, "a drawn capture")
    want = hidden(capture, 0)
    require(
        stub.hidden_copies(capture) == want,
        f"hidden_copies(a drawn capture) returned {show(stub.hidden_copies(capture))}, expected {want}: "
        "device 0 unless another is given",
    )


# -- judge_copies --------------------------------------------------------------------------------------

FLOOR = 0.10


def verdict(capture: str, device: int) -> tuple[str, dict[str, Any]]:
    found = lanes(capture, device)
    whole = [span for spans in found.values() for span in spans]
    window = min(a for a, _ in whole), max(b for _, b in whole)
    busy = truth.covered_ns(whole, window)
    times = {name: truth.covered_ns(spans, window) for name, spans in found.items()}
    shortest = {name: min((b - a for a, b in s), default=0) for name, s in found.items()}
    longest = max(times, key=lambda name: times[name])
    least = times[longest] + sum(ns for name, ns in shortest.items() if name != longest)
    recoverable = max(0, busy - least)
    own = [c for c in host_copies(capture) if c["device"] == device]
    ratio = recoverable / (window[1] - window[0])
    both = hidden(capture, device)
    evidence = {
        "recoverable_ns": recoverable,
        "window_ns": window[1] - window[0],
        "recoverable_ratio": ratio,
        "exposed_ns": sum(entry["exposed_ns"] for entry in both.values()),
        "pageable_bytes": sum(c["bytes"] for c in own if c["path"].endswith("pageable")),
    }
    return ("transfer_bound" if ratio >= FLOOR and own else "healthy"), evidence


def judge_verdict(stub: Any, capture: str, device: int = 0, shown: str = "") -> None:
    category, evidence = verdict(capture, device)
    call = f"judge_copies({named(capture, shown)}, {device})"
    got = stub.judge_copies(capture, device)
    saved = (
        f"overlap could save {evidence['recoverable_ns']} of {evidence['window_ns']} ns, "
        f"{evidence['recoverable_ratio']:.1%}, and the floor is {FLOOR:.0%}"
    )
    judge_finding(
        *(call, got, category, f"device:{device}", evidence, saved),
        why="What full overlap needs is the longest of three lanes, and once the shortest of each other: copies "
        "in, kernels, copies out",
        rel=1e-9,
        others=True,
    )
    judge_recommendation(call, got, saved)


@task("nsys_ex03.judge_copies")
@recordings(
    "copy_pageable", "copy_overlapped", "cuda_pipeline_baseline", "host_preprocess", "decode_graph"
)
def test_recorded_verdict(stub: Any, recording: str) -> None:
    judge_verdict(stub, recording)


@task("nsys_ex03.judge_copies")
@pytest.mark.parametrize(
    "scenario", ["transfer_bound", "healthy", "copies_and_kernels", "graphs_only"]
)
def test_generated_verdict(stub: Any, generated: Any, scenario: str) -> None:
    judge_verdict(stub, str(generated(scenario).path))


@task("nsys_ex03.judge_copies")
def test_lanes_by_hand(stub: Any, draw: Any) -> None:
    capture = three_lanes(draw)
    for device in (0, 1):
        judge_verdict(stub, capture, device, "a drawn capture")
    unasked = stub.judge_copies(capture)
    require(
        isinstance(unasked, Finding) and unasked.subject == "device:0",
        f"judge_copies(a drawn capture) returned {show(unasked)}, expected a Finding on device 0",
    )
    with stub.raises(
        EmptyCapture, "2", "a device that only fills memory has none of the three lanes"
    ):
        stub.judge_copies(capture, 2)
    timeline = draw()
    for i in range(10):  # 10 000 of 100 000 ns, then a little less
        timeline.kernel(20_000 + 9_000 * i, 29_000 + 9_000 * i)
    timeline.copy(10_000, 15_000)
    timeline.copy(15_000, 20_000, stream=8)
    judge_verdict(stub, timeline.save(), 0, "a drawn capture")
    for size in (4_999, 5_000, 5_001):
        timeline = draw()
        timeline.kernel(20_000, 70_000)
        for i in range(3):
            timeline.copy(70_000 + i * size, 70_000 + (i + 1) * size, "D2H", pinned=i == 0)
        timeline.kernel(70_000 + 3 * size, 120_000 - 10_000 + 2 * size)
        judge_verdict(stub, timeline.save(), 0, "a drawn capture")
    timeline = draw()
    timeline.copy(2_000, 90_000, bytes=70_000, pinned=False)  # of device 0
    for at in range(0, 120_000, 30_000):
        timeline.copy(at + 1_000, at + 10_000, pinned=at > 0, device=1)
        timeline.kernel(at + 10_000, at + 20_000, device=1)
        timeline.copy(at + 20_000, at + 29_000, "D2H", device=1)
    judge_verdict(stub, timeline.save(), 1, "one thing at a time on device 1")
    timeline = draw()
    timeline.kernel(1_000, 2_000)
    timeline.kernel(1_500, 2_000, stream=8)
    judge_verdict(stub, timeline.save(), 0, "kernels alone")
