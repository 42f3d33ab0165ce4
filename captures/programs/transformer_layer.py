"""One layer of a transformer, its parts timed inside the running layer and each of them alone.

`--set prefill`: many tokens at once. `--set few`: few tokens, in a wide layer and in a narrow one.

Writes layer.json: a case a shape and data type, with samples in ns of each part and of the whole. What
a part costs in operations and bytes is not in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from roofline_timing import SLEEP_CYCLES, Timer, captured, elapsed_ns, write_table

DEVICE = "cuda"
SAMPLES, HOST_SAMPLES, WINDOWS = 21, 11, 11
TYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
TOLERANCE = {"bfloat16": 2e-2, "float32": 1e-5}
SHAPES: dict[str, dict[str, dict[str, int]]] = {
    "prefill": {
        "prefill": {"batch": 2, "tokens": 2048, "hidden": 4096, "heads": 32, "ffn": 16384},
    },
    "few": {
        "wide": {"batch": 1, "tokens": 16, "hidden": 4096, "heads": 32, "ffn": 16384},
        "narrow": {"batch": 1, "tokens": 128, "hidden": 512, "heads": 8, "ffn": 2048},
    },
}

State = SimpleNamespace
Part = Callable[[State], None]


def make_layer(
    batch: int, tokens: int, hidden: int, heads: int, ffn: int, dtype: torch.dtype
) -> tuple[State, dict[str, Part]]:
    """Weights and an input, and the parts of the layer in order: each reads and adds to a state."""
    generator = torch.Generator(DEVICE).manual_seed(hidden + tokens)

    def random(*shape: int, scale: float = 1.0) -> torch.Tensor:
        values = torch.randn(*shape, device=DEVICE, generator=generator)
        return (values * scale).to(dtype)

    s = State(x=random(batch * tokens, hidden))
    s.weight_1, s.bias_1 = random(hidden), random(hidden)
    s.weight_2, s.bias_2 = random(hidden), random(hidden)
    s.w_qkv = random(hidden, 3 * hidden, scale=hidden**-0.5)
    s.w_out = random(hidden, hidden, scale=hidden**-0.5)
    s.w_up = random(hidden, ffn, scale=hidden**-0.5)
    s.w_down = random(ffn, hidden, scale=ffn**-0.5)

    def norm_1(s: State) -> None:
        s.h1 = F.layer_norm(s.x, (hidden,), s.weight_1, s.bias_1)

    def qkv(s: State) -> None:
        s.qkv = torch.mm(s.h1, s.w_qkv)

    def attention(s: State) -> None:
        q, k, v = s.qkv.view(batch, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        s.mixed = mixed.transpose(1, 2).reshape(batch * tokens, hidden)

    def out(s: State) -> None:
        s.attended = torch.mm(s.mixed, s.w_out)

    def residual_1(s: State) -> None:
        s.x1 = s.x + s.attended

    def norm_2(s: State) -> None:
        s.h2 = F.layer_norm(s.x1, (hidden,), s.weight_2, s.bias_2)

    def up(s: State) -> None:
        s.wide = torch.mm(s.h2, s.w_up)

    def gelu(s: State) -> None:
        s.active = F.gelu(s.wide)

    def down(s: State) -> None:
        s.fed = torch.mm(s.active, s.w_down)

    def residual_2(s: State) -> None:
        s.y = s.x1 + s.fed

    parts = [norm_1, qkv, attention, out, residual_1, norm_2, up, gelu, down, residual_2]
    return s, {part.__name__: part for part in parts}


def error_of(s: State, parts: dict[str, Part]) -> float:
    """Run the layer; the relative error of its result against float64."""
    for part in parts.values():
        part(s)
    names = ("x", "weight_1", "bias_1", "weight_2", "bias_2", "w_qkv", "w_out", "w_up", "w_down")
    exact = State(**{name: getattr(s, name).double() for name in names})
    for part in parts.values():
        part(exact)
    return float((s.y.double() - exact.y).norm() / exact.y.norm())


def inside_ns(
    timer: Timer, s: State, parts: dict[str, Part]
) -> tuple[dict[str, list[int]], list[int]]:
    """Samples of each part inside the layer, and of the layer from the first mark to the last.

    The cache holds nothing of the layer before it starts, as in a model of many layers; what a part
    left there, the next may find.
    """
    found: dict[str, list[int]] = {name: [] for name in parts}
    whole = []
    for _ in range(SAMPLES):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(parts) + 1)]
        _quiet(timer)
        marks[0].record()
        for mark, part in zip(marks[1:], parts.values(), strict=True):
            part(s)
            mark.record()
        torch.cuda.synchronize()
        for place, name in enumerate(parts):
            found[name].append(elapsed_ns(marks[place], marks[place + 1]))
        whole.append(elapsed_ns(marks[0], marks[-1]))
    return found, whole


def device_ns(timer: Timer, call: Callable[[], object]) -> list[int]:
    """Samples of the layer without marks, launching hidden, caches as in `inside_ns`."""
    found = []
    for _ in range(SAMPLES):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        _quiet(timer)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        found.append(elapsed_ns(start, end))
    return found


def _quiet(timer: Timer) -> None:
    """Empty the cache, then keep the device busy until the host has issued what follows."""
    torch.sum(timer.buffer, dim=0, out=timer.sink)
    torch.cuda._sleep(SLEEP_CYCLES)


def window_ns(call: Callable[[], object], calls: int) -> list[int]:
    """Samples of one call among calls in a row, nothing hidden: the longer of host and device."""
    found = []
    for _ in range(WINDOWS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(2):
            call()
        torch.cuda.synchronize()
        start.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        found.append(round(elapsed_ns(start, end) / calls))
    return found


def host_ns(s: State, parts: dict[str, Part]) -> tuple[dict[str, list[int]], list[int]]:
    """Samples of the time to issue each part, and the whole layer, while the device is kept waiting."""
    found: dict[str, list[int]] = {name: [] for name in parts}
    whole = []
    for _ in range(HOST_SAMPLES):
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP_CYCLES)
        before = time.perf_counter_ns()
        for name, part in parts.items():
            start = time.perf_counter_ns()
            part(s)
            found[name].append(time.perf_counter_ns() - start)
        whole.append(time.perf_counter_ns() - before)
    torch.cuda.synchronize()
    return found, whole


def measure(timer: Timer, name: str, shape: dict[str, int], dtype: str) -> dict[str, Any]:
    """One case, as it stands in the file."""
    s, parts = make_layer(**shape, dtype=TYPES[dtype])
    error = error_of(s, parts)
    if not error < TOLERANCE[dtype]:
        raise SystemExit(f"{name} {dtype}: relative error {error:.1e} of the result")

    def layer() -> None:
        for part in parts.values():
            part(s)

    for _ in range(3):
        layer()
    inside, marked = inside_ns(timer, s, parts)
    host, host_whole = host_ns(s, parts)
    calls = 20 if statistics.median(marked) < 5_000_000 else 3
    window = window_ns(layer, calls)
    device = device_ns(timer, layer)
    graph = captured(layer)
    graphed = window_ns(graph.replay, calls)
    graph.reset()
    rows = []
    for key, part in parts.items():
        rows.append(
            {
                "name": key,
                "inside": inside[key],
                "alone_cold": timer.device_ns(lambda part=part: part(s), "cold"),
                "alone_warm": timer.device_ns(lambda part=part: part(s), "warm"),
                "host": host[key],
            }
        )
    return {
        "name": f"{name} {dtype}",
        **shape,
        "dtype": dtype,
        "causal": True,
        "relative_error": error,
        "parts": rows,
        "whole": {
            "device": device,
            "marked": marked,
            "window": window,
            "window_in_graph": graphed,
            "host": host_whole,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=SHAPES, default="prefill")
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("highest")
    timer = Timer()
    cases = []
    with torch.inference_mode():
        for name, shape in SHAPES[arguments.set].items():
            for dtype in TYPES:
                cases.append(measure(timer, name, shape, dtype))
                torch.cuda.empty_cache()
    write_table(
        {"format": 1, "unit": "ns", "device": torch.cuda.get_device_name(), "cases": cases},
        "layer.json",
    )
    medians = {case["name"]: statistics.median(case["whole"]["window"]) for case in cases}
    print("RESULT", json.dumps({"cases": len(cases), "median_window_ns": medians}))


if __name__ == "__main__":
    main()
