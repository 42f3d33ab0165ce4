"""The fifth look: pairs on torch_geometric and Triton."""

from __future__ import annotations

import time

import torch
import triton
import triton.language as tl
from harness import Loop, size
from with_torch import DEVICE


def _graph(nodes: int, edges: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    nodes = size(nodes, 20)
    return torch.randn(nodes, size(width, 8)), torch.randint(nodes, (2, size(edges, 60)))


def graph_sent_sage_geometric(fixed: bool) -> Loop:
    from torch_geometric.nn import GraphSAGE

    features, edges = _graph(120_000, 600_000, 128)
    width = features.shape[1]
    model = GraphSAGE(width, width, 3, width).to(DEVICE).eval()
    there = features.to(DEVICE), edges.to(DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            own = there if fixed else (features.to(DEVICE), edges.to(DEVICE))
            model(*own)
            yield

    return loop


def cache_emptied_gat_geometric(fixed: bool) -> Loop:
    from torch_geometric.nn import GAT

    features, edges = (part.to(DEVICE) for part in _graph(40_000, 400_000, 64))
    width = features.shape[1]
    model = GAT(width, width, 3, width, heads=4).to(DEVICE).eval()

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(features, edges)
            if not fixed:
                torch.cuda.empty_cache()
            yield

    return loop


def steady_sage_geometric(fixed: bool) -> Loop:
    from torch_geometric.nn import GraphSAGE

    features, edges = (part.to(DEVICE) for part in _graph(200_000, 2_000_000, 256))
    width = features.shape[1]
    model = GraphSAGE(width, width, 3, width).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def loop(steps: int):
        for _ in range(steps):
            model(features, edges).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


@triton.jit
def scaled_by_constant(values, out, count, factor: tl.constexpr, block: tl.constexpr):
    place = tl.program_id(0) * block + tl.arange(0, block)
    inside = place < count
    tl.store(out + place, tl.load(values + place, inside) * factor, inside)


@triton.jit
def scaled_by_argument(values, out, count, factor, block: tl.constexpr):
    place = tl.program_id(0) * block + tl.arange(0, block)
    inside = place < count
    tl.store(out + place, tl.load(values + place, inside) * factor, inside)


# Another process finds on disk what one has compiled: each begins elsewhere.
_count = [time.time_ns() // 1_000_000 % 1_000_000]


def factors_compiled_triton(fixed: bool) -> Loop:
    """A factor that changes from step to step is part of the code, or an argument."""
    values = torch.randn(1 << 22, device=DEVICE)
    out = torch.empty_like(values)
    grid = (len(values) // 1024,)

    def loop(steps: int):
        for _ in range(steps):
            _count[0] += 1
            kernel = scaled_by_argument if fixed else scaled_by_constant
            kernel[grid](values, out, len(values), 1 + _count[0] / 1024, block=1024)
            yield

    return loop


@triton.jit
def sums_of_rows(values, out, width, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((block,), dtype=tl.float32)
    for first in range(0, width, block):
        total += tl.load(values + row * width + first + tl.arange(0, block))
    tl.store(out + row, tl.sum(total))


def steady_sums_triton(fixed: bool) -> Loop:
    rows, width = 32_768, 16_384
    values = torch.randn(rows, width, device=DEVICE)
    out = torch.empty(rows, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            sums_of_rows[(rows,)](values, out, width, block=2048)
            yield

    return loop
