"""Three techniques on one small model: lower precision, gradient checkpointing, memory layout.

`--model wide` has large matrix products, `--model narrow` small ones.

Writes techniques.json: times of a step (forward and backward, no optimizer) in each precision and for
each number of checkpointed segments, with the memory that it took; and times of `.contiguous()` on
tensors of different strides. The ways are timed in turns, round by round, and one of them twice under
two names: what differs between those two is noise.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from roofline_timing import Timer, elapsed_ns, write_table
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

MODELS = {
    "wide": {
        "precision": {"layers": 4, "rows": 4096, "width": 2048},
        "checkpoint": {"layers": 24, "rows": 8192, "width": 1024},
        "matrix": 8192,
        "images": (64, 256, 56, 56),
        "steps": 2,
    },
    "narrow": {
        "precision": {"layers": 12, "rows": 64, "width": 256},
        "checkpoint": {"layers": 24, "rows": 256, "width": 256},
        "matrix": 512,
        "images": (8, 64, 28, 28),
        "steps": 8,
    },
}
# name, dtype of weights and input, matrix products in float32 rounded to TF32, autocast to
PRECISIONS = [
    ("fp32", torch.float32, False, None),
    ("fp32 again", torch.float32, False, None),
    ("tf32", torch.float32, True, None),
    ("bf16 autocast", torch.float32, False, torch.bfloat16),
    ("bf16 weights", torch.bfloat16, False, None),
]
SEGMENTS = [
    ("1 segment", 1),
    ("1 segment again", 1),
    *((f"{n} segments", n) for n in (2, 3, 4, 6, 8, 12, 24)),
]
ROUNDS, WARM_UP = 9, 3
MLP = 4

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
Step = Callable[[], torch.Tensor]


class Block(nn.Module):
    """A layer norm and a fourfold MLP beside a residual connection; no biases in the products."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, MLP * width, bias=False)
        self.down = nn.Linear(MLP * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def operations(layers: int, rows: int, width: int) -> list[dict[str, Any]]:
    """What a step computes, on paper: operations, and elements read and written.

    Each product of the forward pass has two of the same size in the backward pass.
    """
    inner = MLP * width
    product = {
        "kind": "matmul",
        "flops": 2 * rows * width * inner,
        "elements": rows * width + width * inner + rows * inner,
        "count": layers,
    }

    def other(name: str, flops: int, elements: int) -> dict[str, Any]:
        return {
            "name": name,
            "kind": "other",
            "flops": flops,
            "elements": elements,
            "count": layers,
        }

    return [
        *(
            {"name": f"{name} {which}", **product}
            for name in ("up", "down")
            for which in ("forward", "gradient of the input", "gradient of the weight")
        ),
        other("norm forward", 7 * rows * width, 2 * rows * width),
        other("norm backward", 14 * rows * width, 3 * rows * width),
        other("gelu forward", 8 * rows * inner, 2 * rows * inner),
        other("gelu backward", 16 * rows * inner, 3 * rows * inner),
        other("residual forward", rows * width, 3 * rows * width),
        other("residual backward", rows * width, 3 * rows * width),
    ]


def model_of(layers: int, width: int, dtype: torch.dtype) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width) for _ in range(layers))).to(DEVICE, dtype)


def wait() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def sample(step: Step, steps: int) -> int:
    """The time of one step in ns, from a few in a row."""
    wait()
    if not ON_GPU:
        began = time.perf_counter_ns()
        for _ in range(steps):
            step()
        return round((time.perf_counter_ns() - began) / steps)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(steps):
        step()
    end.record()
    torch.cuda.synchronize()
    return round(elapsed_ns(start, end) / steps)


def in_turns(ways: dict[str, Step], steps: int) -> dict[str, list[int]]:
    """A sample of each way in every round."""
    for step in ways.values():
        for _ in range(WARM_UP):
            step()
    found: dict[str, list[int]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, step in ways.items():
            found[name].append(sample(step, steps))
    return found


def memory_of(forward: Step, backward: Callable[[torch.Tensor], None]) -> dict[str, int]:
    """Bytes allocated before a step, more after its forward pass, and the most more within it."""
    if not ON_GPU:
        return {"resident_bytes": 0, "kept_bytes": 0, "peak_bytes": 0}
    for _ in range(2):
        backward(forward())
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = forward()
    torch.cuda.synchronize()
    kept = torch.cuda.memory_allocated() - before
    backward(result)
    torch.cuda.synchronize()
    return {
        "resident_bytes": before,
        "kept_bytes": kept,
        "peak_bytes": torch.cuda.max_memory_allocated() - before,
    }


def halves(
    model: nn.Module, rows: int, width: int, dtype: torch.dtype, run: Callable
) -> tuple[Step, Callable[[torch.Tensor], None]]:
    """The forward pass, and the backward pass of its result, which drops the gradients again."""
    generator = torch.Generator(DEVICE).manual_seed(1)
    x = torch.randn(rows, width, device=DEVICE, generator=generator).to(dtype)
    gradient = torch.randn(rows, width, device=DEVICE, generator=generator)

    def backward(result: torch.Tensor) -> None:
        result.backward(gradient.to(result.dtype))
        for parameter in model.parameters():
            parameter.grad = None

    return lambda: run(model, x), backward


def precision_rows(layers: int, rows: int, width: int, steps: int) -> list[dict[str, Any]]:
    def way(name: str, dtype: torch.dtype, tf32: bool, autocast: torch.dtype | None) -> Any:
        def run(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            torch.set_float32_matmul_precision("high" if tf32 else "highest")
            if autocast is None:
                return model(x)
            with torch.autocast(DEVICE, dtype=autocast):
                return model(x)

        return halves(model_of(layers, width, dtype), rows, width, dtype, run)

    memory = {}
    for name, *settings in PRECISIONS:  # one at a time, so that only its own model is there
        memory[name] = memory_of(*way(name, *settings))
        gc.collect()
    ways = {}
    for name, *settings in PRECISIONS:
        forward, backward = way(name, *settings)
        ways[name] = lambda forward=forward, backward=backward: backward(forward())
    times = in_turns(ways, steps)
    torch.set_float32_matmul_precision("highest")
    return [{"name": name, "step_time": times[name], **memory[name]} for name in times]


def checkpoint_rows(layers: int, rows: int, width: int, steps: int) -> list[dict[str, Any]]:
    dtype = torch.bfloat16
    model = model_of(layers, width, dtype)
    memory, ways = {}, {}
    for name, count in SEGMENTS:

        def run(model: nn.Module, x: torch.Tensor, count: int = count) -> torch.Tensor:
            x = x.requires_grad_()
            return checkpoint_sequential(model, count, x, use_reentrant=False)

        forward, backward = halves(model, rows, width, dtype, run)
        memory[name] = memory_of(forward, backward)
        ways[name] = lambda forward=forward, backward=backward: backward(forward())
    times = in_turns(ways, steps)
    counts = dict(SEGMENTS)
    return [
        {"name": name, "segment_count": counts[name], "step_time": times[name], **memory[name]}
        for name in times
    ]


def layout_rows(matrix: int, images: tuple[int, ...]) -> list[dict[str, Any]]:
    square = torch.randn(matrix, matrix, device=DEVICE)
    picture = torch.randn(images, device=DEVICE)
    last = torch.channels_last
    cases = [
        ("a matrix as it is", square, torch.contiguous_format),
        ("the transpose", square.t(), torch.contiguous_format),
        ("every second column", square[:, ::2], torch.contiguous_format),
        ("every second row", square[::2], torch.contiguous_format),
        ("the upper half", square[: matrix // 2], torch.contiguous_format),
        ("one row, expanded", square[:1].expand(matrix, -1), torch.contiguous_format),
        ("images as they are", picture, torch.contiguous_format),
        ("images to channels last", picture, last),
        ("channels last as it is", picture.contiguous(memory_format=last), last),
        (
            "channels last to contiguous",
            picture.contiguous(memory_format=last),
            torch.contiguous_format,
        ),
    ]
    timer = Timer() if ON_GPU else None
    rows = []
    for name, tensor, form in cases:

        def call(tensor: torch.Tensor = tensor, form: torch.memory_format = form) -> torch.Tensor:
            return tensor.contiguous(memory_format=form)

        made = call()
        same = made.data_ptr() == tensor.data_ptr()
        if not torch.equal(made, tensor):
            raise SystemExit(f"{name}: not the same elements")
        del made
        rows.append(
            {
                "name": name,
                "shape": list(tensor.shape),
                "strides": list(tensor.stride()),
                "element_bytes": tensor.element_size(),
                "memory_format": "channels_last" if form is last else "contiguous",
                "same_memory": same,
                "cache": "cold",
                "device_time": timer.device_ns(call, "cold") if timer else [1],
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="wide")
    parser.add_argument("--tiny", action="store_true", help="small shapes, to try it without a GPU")
    arguments = parser.parse_args()
    sizes: dict[str, Any] = dict(MODELS[arguments.model])
    if arguments.tiny:
        small = {"layers": 24, "rows": 8, "width": 16}
        sizes |= {"precision": small, "checkpoint": small, "matrix": 8, "images": (2, 4, 3, 3)}

    segmented = sizes["checkpoint"]
    elements = segmented["rows"] * segmented["width"]
    precision = precision_rows(**sizes["precision"], steps=sizes["steps"])
    gc.collect()
    checkpointed = checkpoint_rows(**segmented, steps=sizes["steps"])
    gc.collect()
    layouts = layout_rows(sizes["matrix"], sizes["images"])
    table = {
        "format": 1,
        "unit": "ns",
        "device": torch.cuda.get_device_name() if ON_GPU else "CPU",
        "torch": torch.__version__,
        "model": arguments.model,
        "precision_model": sizes["precision"],
        "checkpoint_model": {
            **segmented,
            "dtype": "bfloat16",
            # on paper: the input of a block, what it keeps beside it (the norm's result and two
            # statistics in float32, the input and the result of the gelu), operations of its products
            "layer_input_bytes": 2 * elements,
            "layer_inner_bytes": 2 * elements * (1 + 2 * MLP) + 8 * segmented["rows"],
            "layer_forward_flops": 4 * MLP * elements * segmented["width"],
        },
        "operations": operations(**sizes["precision"]),
        "precision": precision,
        "checkpoint": checkpointed,
        "layouts": layouts,
    }
    write_table(table, "techniques.json")
    first = precision[0]["step_time"]
    print(
        "RESULT "
        + json.dumps({"model": arguments.model, "fp32_step_ns": sorted(first)[len(first) // 2]})
    )


if __name__ == "__main__":
    main()
