"""Runs `compare_on_gpu` on this machine's GPU, beside measurements of its own."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

WIDTH, ROWS, LAYERS, SEGMENTS = 4096, 8192, 12, 4


def compared(module: ModuleType, technique: str) -> dict[str, Any]:
    """compare_on_gpu of a step without and with "autocast", or without and with "checkpoints".

    Returns its "result", how often each step was called ("calls"), and medians of time ("own_ns") and
    peaks of memory ("own_bytes") of the same two steps, measured here before.
    """
    torch.manual_seed(5)
    layers = [
        torch.nn.Sequential(
            torch.nn.Linear(WIDTH // 4, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH // 4)
        ).cuda()
        for _ in range(LAYERS)
    ]
    x = torch.randn(ROWS, WIDTH // 4, device="cuda")

    def chain(value: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            value = layer(value)
        return value

    def checkpointed(value: torch.Tensor) -> torch.Tensor:
        return module.checkpoint_layers(layers, value, SEGMENTS)

    def step(run: Callable[[torch.Tensor], torch.Tensor], lower: bool) -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=lower):
            loss = run(x).float().square().mean()
        loss.backward()
        for layer in layers:
            layer.zero_grad(set_to_none=True)

    calls = [0, 0]

    def before() -> None:
        calls[0] += 1
        step(chain, False)

    def after() -> None:
        calls[1] += 1
        step(chain if technique == "autocast" else checkpointed, technique == "autocast")

    own_ns, own_bytes = [], []
    for one in (before, after):
        one()
        samples = []
        for _ in range(5):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            one()
            end.record()
            end.synchronize()
            samples.append(start.elapsed_time(end) * 1e6)
        own_ns.append(statistics.median(samples))
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        one()
        torch.cuda.synchronize()
        own_bytes.append(torch.cuda.max_memory_allocated() - held)
    calls[:] = [0, 0]
    result = module.compare_on_gpu(before, after, 9)
    return {"result": result, "calls": calls, "own_ns": own_ns, "own_bytes": own_bytes}
