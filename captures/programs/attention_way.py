"""Time attention: every step of `attention_kernels.py`, PyTorch's backends, and calls that materialise.

Writes measurements.json, all samples in ns, taken in turns within a run, with the clock of the
multiprocessors before each round. bfloat16, random numbers.

    steps    full and causal at one shape (4 by 32 heads, 8,192 tokens, head 128): each step, each backend
             of scaled_dot_product_attention, its own choice ("default"), and "materialised": scores,
             softmax and product as calls of their own
    parts    two of the steps, whole and with one thing left out, in pairs: wrong results, telling times.
             A pair of the whole with itself ("without" is "") shows what two samples differ by
    sweep    512 to 16,384 tokens and heads of 64 and 128, of about as many rows each

A sample is the time between two events around a few calls, while the host is ahead of the device.
"""

from __future__ import annotations

import json
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import triton
from attention_kernels import PARTS, STEPS, attention
from torch.nn.attention import SDPBackend, sdpa_kernel

REPEATS = 5
SLEEP_CYCLES = 2_000_000  # about a millisecond: longer than issuing a sample's calls
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
SWEEP = ("materialised", "flash", "cudnn", "default", "first", "capped")
LENGTHS = [2**n for n in range(9, 15)]
SWEPT_ROWS = 2**19  # batch times heads times tokens, so that the device is filled at every length

Call = Callable[[], Any]
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def random(batch: int, heads: int, tokens: int, head: int) -> Inputs:
    def one() -> torch.Tensor:
        return torch.randn(batch, heads, tokens, head, device="cuda", dtype=torch.bfloat16)

    return one(), one(), one()


def materialised(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    scores = (q * q.shape[-1] ** -0.5) @ k.mT
    if causal:
        seen = torch.ones(scores.shape[-2:], device="cuda", dtype=torch.bool).tril()
        scores.masked_fill_(~seen, -float("inf"))
    return torch.softmax(scores, dim=-1) @ v


def calls(inputs: Inputs, causal: bool, names: tuple[str, ...]) -> dict[str, Call]:
    q, k, v = inputs
    out = torch.empty_like(q)

    def of(name: str) -> Call:
        if name in STEPS:
            return lambda: attention(q, k, v, causal, out=out, **STEPS[name])[0]
        if name == "materialised":
            return lambda: materialised(q, k, v, causal)
        if name == "default":
            return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        def pinned() -> torch.Tensor:
            with sdpa_kernel(BACKENDS[name]):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return pinned

    return {name: of(name) for name in names}


def check(inputs: Inputs, causal: bool, found: dict[str, Call]) -> None:
    """Raises SystemExit unless the last head is right, by a product in float64."""
    q, k, v = (x[-1:, -1:, :].double() for x in inputs)
    last = q[:, :, -64:] * q.shape[-1] ** -0.5 @ k.mT
    if causal:
        row = torch.arange(k.shape[2] - 64, k.shape[2], device="cuda")
        last.masked_fill_(
            torch.arange(k.shape[2], device="cuda")[None, :] > row[:, None], -float("inf")
        )
    want = torch.softmax(last, dim=-1) @ v
    for name, call in found.items():
        off = (call()[-1:, -1:, -64:].double() - want).abs().max() / want.abs().max()
        if not off < 0.02:
            raise SystemExit(f"{name} is wrong by {float(off):.2g}")


def in_turns(found: dict[str, Call], clocks: list[int]) -> dict[str, list[int]]:
    samples: dict[str, list[int]] = {name: [] for name in found}
    counts: dict[str, int] = {}
    for warm_up in (True, *[False] * REPEATS):
        clocks.append(torch.cuda.clock_rate())
        for name, call in found.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(SLEEP_CYCLES)
            start.record()
            for _ in range(counts.get(name, 1)):
                call()
            end.record()
            torch.cuda.synchronize()
            ns = round(start.elapsed_time(end) / counts.get(name, 1) * 1e6)
            if warm_up:
                counts[name] = max(1, min(20, 20_000_000 // ns))
            else:
                samples[name].append(ns)
    return samples


def rows_of(shape: tuple[int, int, int, int], causal: bool, names: tuple[str, ...]) -> Any:
    """A row for each name at this shape, and the clocks."""
    batch, heads, tokens, head = shape
    inputs = random(*shape)
    found = calls(inputs, causal, names)
    check(inputs, causal, found)
    clocks: list[int] = []
    samples = in_turns(found, clocks)
    rows = []
    for name, times in samples.items():
        row: dict[str, Any] = {"name": name, "causal": causal, "batch": batch, "heads": heads}
        row |= {"tokens": tokens, "head": head, "device_time": times}
        if name in STEPS:
            _, compiled = attention(*inputs, causal, **STEPS[name])
            row |= {"registers": compiled.n_regs, "spills": compiled.n_spills}
            row["shared_bytes"] = compiled.metadata.shared
        rows.append(row)
    torch.cuda.empty_cache()
    return rows, clocks


def parts_of(shape: tuple[int, int, int, int]) -> Any:
    inputs = random(*shape)
    out = torch.empty_like(inputs[0])

    def of(step: str, part: str) -> Call:
        chosen = STEPS[step] | {"without": part}
        return lambda: attention(*inputs, False, out=out, **chosen)

    # Each variant right after the whole step, so that a clock that moves moves both.
    found: dict[str, Call] = {}
    for step in ("tma", "capped"):
        for part in ("", *PARTS):
            found |= {f"{step}/{part}/whole": of(step, ""), f"{step}/{part}": of(step, part)}
    clocks: list[int] = []
    samples = in_turns(found, clocks)
    rows = []
    for name, times in samples.items():
        step, part, *whole = name.split("/")
        if not whole:
            row = {"name": step, "without": part, "whole_time": samples[f"{name}/whole"]}
            rows.append(row | {"device_time": times})
    return rows, clocks


def main() -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    shape = (4, 32, 8192, 128)
    names = (*BACKENDS, "default", "materialised", *STEPS)
    table: dict[str, Any] = {
        "format": 1,
        "unit": "ns",
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "dtype": "bfloat16",
    }
    parts: dict[str, list[Any]] = {"steps": [], "parts": [], "sweep": [], "clocks_mhz": []}
    with torch.no_grad():
        for causal in (False, True):
            rows, clocks = rows_of(shape, causal, names)
            parts["steps"] += rows
            parts["clocks_mhz"].append({"of": f"steps, causal {causal}", "sm": clocks})
        rows, clocks = parts_of(shape)
        parts["parts"] += rows
        parts["clocks_mhz"].append({"of": "parts", "sm": clocks})
        for head in (64, 128):
            for tokens in LENGTHS:
                pairs = SWEPT_ROWS // tokens
                heads = min(32, pairs)
                rows, clocks = rows_of((pairs // heads, heads, tokens, head), False, SWEEP)
                parts["sweep"] += rows
                parts["clocks_mhz"].append({"of": f"sweep, {tokens} by {head}", "sm": clocks})
    head_lines = [f'"{key}": {json.dumps(value)}' for key, value in table.items()]
    head_lines += [
        f'"{key}": [\n  ' + ",\n  ".join(json.dumps(row) for row in rows) + "\n ]"
        for key, rows in parts.items()
    ]
    text = "{" + ",\n ".join(head_lines) + "}\n"
    Path("measurements.json").write_text(text, encoding="utf-8")
    rates = {
        f"{row['name']}{' causal' if row['causal'] else ''}": round(
            4 * 4 * 32 * 8192**2 * 128 / (2 if row["causal"] else 1)
            / statistics.median(row["device_time"]) / 1e3, 1
        )
        for row in parts["steps"]
    }  # fmt: skip
    print("RESULT", json.dumps({"tflops": rates}))


if __name__ == "__main__":
    main()
