"""The roofline plot: roofs are those of the device table, nothing is hidden, texts stay readable."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest

from grading.runner.scoring import installed
from profiling_lab import devices, roofline
from profiling_lab.roofline import Point, layout

SVG = "{http://www.w3.org/2000/svg}"
H200 = [roofline.roof("H200", kind) for kind in ("float32", "tfloat32", "bfloat16")]
FAMILY = [
    roofline.roof(name, "fp16") for name in ("T4", "V100", "A100 80GB SXM", "H100 SXM", "H200")
]
POINTS = [
    Point("chain", 0.125, 0.52e12),
    Point("copy", 0.25, 1.1e12),
    Point("softmax", 0.6, 2.2e12),
    Point("m = 1", 1.0, 3.2e12),
    Point("layer norm", 1.7, 5e12),
    Point("m = 64", 63.0, 200e12, "predicted"),
    Point("fp32 <4096>", 683.0, 51e12),
    Point("bf16 8192", 2730.0, 760e12),
]


def boxes(plan: layout.Plan) -> list[tuple[str, tuple[float, float, float, float]]]:
    """The level texts of a plan with the space that they take, in pixels."""
    scale = layout.Scale(plan.x_range, plan.y_range, layout.WIDTH, layout.HEIGHT)
    found = []
    for text in plan.texts:
        if not text.angle:
            x, y = scale.at(text.x, text.y)
            place = (x + text.dx, y + text.dy)
            found.append(
                (text.text, layout._text_box(*place, text.text, layout.SMALL, text.anchor))
            )
    return found


@pytest.mark.parametrize("name", devices.names())
def test_a_roof_rises_with_the_bandwidth_and_ends_at_the_peak(name: str) -> None:
    device = devices.get(name)
    for kind, peak in device.peak_flops_per_s.items():
        (line, _), *_ = roofline.plan([roofline.roof(name, kind)]).lines
        (low, low_rate), (corner, corner_rate), (high, high_rate) = line
        assert low < corner < high
        assert low_rate / low == pytest.approx(device.memory_bandwidth_bytes_per_s)
        assert corner_rate / corner == pytest.approx(device.memory_bandwidth_bytes_per_s)
        assert corner_rate == high_rate == peak


def test_device_dtype_ridge_and_points_are_named() -> None:
    for text in (roofline.svg(H200, POINTS), roofline.svg(FAMILY)):
        root = ElementTree.fromstring(text)
        shown = " ".join(node.text or "" for node in root.iter(f"{SVG}text"))
        assert "H200" in shown
        assert "FLOP/B" in shown and "ridge 206" in shown
        assert "operations per byte" in shown
    root = ElementTree.fromstring(roofline.svg(H200, POINTS))
    shown = [node.text for node in root.iter(f"{SVG}text")]
    for point in POINTS:
        assert point.name in shown
    assert {"measured", "predicted"} <= set(shown)
    assert "bfloat16: 989 TFLOP/s" in shown
    assert "4.80 TB/s (H200)" in shown
    # A title of one's own takes neither the device nor the data types away.
    own = [text.text for text in roofline.plan(H200, title="mine").texts]
    assert {"4.80 TB/s (H200)", "bfloat16: 989 TFLOP/s"} <= set(own)


def test_hovering_over_a_point_tells_its_figures() -> None:
    root = ElementTree.fromstring(roofline.svg(H200, POINTS))
    titles = [node.text for node in root.iter(f"{SVG}title")]
    assert "copy (measured): 0.25 operations per byte, 1.1 TFLOP/s" in titles


def test_points_stand_where_their_figures_are() -> None:
    plan = roofline.plan(H200, POINTS)
    scale = layout.Scale(plan.x_range, plan.y_range, layout.WIDTH, layout.HEIGHT)
    root = ElementTree.fromstring(roofline.svg(H200, POINTS))
    drawn = [
        (float(node.get("cx", 0)), float(node.get("cy", 0)))
        for node in root.iter(f"{SVG}circle")
        if float(node.get("r", 0)) == layout.DOT
    ]
    for point in POINTS:
        if point.kind == "measured":
            x, y = scale.at(point.intensity, point.flops_per_s)
            assert any(math.dist((x, y), place) < 0.1 for place in drawn), point.name
    # Ten times the intensity is the same step to the right everywhere.
    steps = [scale.at(10 * x, 1e12)[0] - scale.at(x, 1e12)[0] for x in (0.1, 1.0, 100.0)]
    assert steps == pytest.approx([steps[0]] * 3)


@pytest.mark.parametrize(("roofs", "points"), [(H200, POINTS), (FAMILY, ()), (H200[:1], POINTS)])
def test_texts_stay_apart_and_inside(roofs, points) -> None:
    found = boxes(roofline.plan(roofs, points))
    for index, (name, box) in enumerate(found):
        assert box[0] >= 0 and box[2] <= layout.WIDTH, name
        assert box[1] >= 0 and box[3] <= layout.HEIGHT, name
        for other, place in found[index + 1 :]:
            assert layout._overlap(box, [place]) < 12, f"{name} lies on {other}"


def test_devices_with_one_peak_share_its_text() -> None:
    texts = [text.text for text in roofline.plan(FAMILY).texts]
    assert "H100 SXM, H200: 989 TFLOP/s" in texts


@pytest.mark.parametrize(
    "point",
    [
        Point("tensor kernel", 0.0, 1e12),
        Point("idle", 1.0, 0.0),
        Point("broken", math.nan, 1e12),
        Point("endless", 1.0, math.inf),
        Point("unseen", None, 1e12),  # type: ignore[arg-type]
    ],
)
def test_a_point_without_a_place_is_refused_by_name(point: Point) -> None:
    with pytest.raises(ValueError, match=f"{point.name}: .* positive numbers only"):
        roofline.svg(H200, [point])


def test_a_plot_without_roofs_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one roof"):
        roofline.plan([])
    with pytest.raises(devices.DeviceError, match="T4: no peak for bfloat16"):
        roofline.roof("T4", "bf16")


def test_the_same_input_gives_the_same_text() -> None:
    assert roofline.svg(H200, POINTS) == roofline.svg(H200, POINTS)


def test_names_are_escaped() -> None:
    text = roofline.svg(H200, [Point("<script>", 1.0, 1e12)], title="a < b")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text and "a &lt; b" in text
    ElementTree.fromstring(text)


def test_no_text_hides_a_point_and_far_ones_are_led_to_theirs() -> None:
    roofs = [roofline.roof("H200", dtype) for dtype in ("bfloat16", "float32", "tfloat32")]
    points = [
        Point("matmul fp32 4096x4096x4096", 347, 5.12e13),
        Point("matmul tf32 4096x4096x4096", 394, 4e14),
        Point("matmul bf16 256x256x256", 121, 8.19e12),
        Point("matmul bf16 8192x8192x8192", 794, 7.83e14),
        Point("matmul bf16 1x8192x8192", 0.982, 3.79e12),
        Point("matmul bf16 64x8192x8192", 62.4, 2.38e14),
        Point("chain fp32 67108864 fused", 0.127, 5.52e11),
        Point("layer_norm bf16 16384x4096", 1.87, 4.57e12),
        Point("softmax fp32 16384x4096", 0.649, 1.59e12),
        Point("attention bf16 4x32x4096x4096x128 flash", 1.93e03, 3.58e14),
    ]
    plan = roofline.plan(roofs, points)
    scale = layout.Scale(plan.x_range, plan.y_range, layout.WIDTH, layout.HEIGHT)
    marks = [layout._around(*scale.at(p.intensity, p.flops_per_s), 3) for p in points]
    found = boxes(plan)
    for index, (name, box) in enumerate(found):
        assert layout._overlap(box, marks) == 0, name
        for other, place in found[index + 1 :]:
            # Two lines may touch: less than a pixel of eleven.
            assert layout._overlap(box, [place]) < place[2] - place[0], f"{name} lies on {other}"
    led = {text.text for text in plan.texts if text.led}
    assert led and led < {point.name for point in points}
    lines = ElementTree.fromstring(roofline.svg(roofs, points)).iter(f"{SVG}line")
    assert sum(node.get("stroke-width") == "0.8" for node in lines) == len(led)


def test_matplotlib_draws_the_same_plot() -> None:
    matplotlib = installed("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = roofline.figure(H200, POINTS)
    try:
        (axes,) = figure.axes
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert {text.get_text() for text in axes.texts} == {
            text.text for text in roofline.plan(H200, POINTS).texts
        }
        flats = [
            list(line.get_ydata())[-1] for line in axes.lines if len(list(line.get_xdata())) == 3
        ]
        assert flats == [r.flops_per_s for r in H200]
    finally:
        plt.close(figure)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (66.9e12, "66.9 TFLOP/s"),
        (1e15, "1 PFLOP/s"),
        (989e12, "989 TFLOP/s"),
        (5e3, "5 kFLOP/s"),
    ],
)
def test_rates_as_text(value: float, text: str) -> None:
    assert roofline.format_flops_per_s(value) == text
