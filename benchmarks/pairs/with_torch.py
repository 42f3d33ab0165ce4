"""Pairs on torch alone."""

from __future__ import annotations

import hashlib

import torch
from harness import Loop, has_gpu, size

DEVICE = "cuda" if has_gpu() else "cpu"


def products_one_by_one(fixed: bool) -> Loop:
    count, side = size(256, 8), size(192, 16)
    left = torch.randn(count, side, side, device=DEVICE)
    right = torch.randn(count, side, side, device=DEVICE)
    out = torch.empty_like(left)

    def loop(steps: int):
        for _ in range(steps):
            if fixed:
                torch.bmm(left, right, out=out)
            else:
                for i in range(count):
                    torch.mm(left[i], right[i], out=out[i])
            yield

    return loop


def cells_by_step_lstm(fixed: bool) -> Loop:
    hidden, length = size(512, 16), size(128, 4)
    cell = torch.nn.LSTMCell(hidden, hidden).to(DEVICE)
    inputs = torch.randn(length, 32, hidden, device=DEVICE)

    @torch.no_grad()
    def sequence() -> torch.Tensor:
        state = torch.zeros(32, hidden, device=DEVICE)
        memory = torch.zeros_like(state)
        for moment in inputs:
            state, memory = cell(moment, (state, memory))
        return state

    run = sequence
    if fixed and has_gpu():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            sequence()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            sequence()
        run = graph.replay

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


def checksum_of_weights(fixed: bool) -> Loop:
    width = size(6144, 64)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(4)])
    model = model.to(DEVICE, torch.bfloat16)
    inputs = torch.randn(1024, width)
    on_device = inputs.to(DEVICE, torch.bfloat16)
    kept = inputs.numpy()[: size(512, 8)]
    digest = hashlib.sha256(kept.tobytes()).hexdigest()

    @torch.no_grad()
    def loop(steps: int):
        log = []
        for _ in range(steps):
            out = on_device
            for _ in range(4):
                out = model(out)
            score = out.float().mean().item()
            found = digest if fixed else hashlib.sha256(kept.tobytes()).hexdigest()
            log.append((score, found))
            yield

    return loop


def blocking_streams_torch(fixed: bool) -> Loop:
    import cupy

    made = [cupy.cuda.Stream(non_blocking=fixed) for _ in range(4)]
    streams = [torch.cuda.ExternalStream(stream.ptr) for stream in made]
    vectors = [torch.randn(1 << 14, device=DEVICE) for _ in streams]
    total = torch.zeros(1, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            for i, stream in enumerate(streams):
                with torch.cuda.stream(stream):
                    torch.linalg.vector_norm(vectors[i].view(2, -1), dim=1)
                    torch.cumsum(vectors[i], 0)
                    torch.cuda._sleep(400_000)
                total.add_(1)
            yield
        assert made

    return loop


def scalar_compiled_torch(fixed: bool) -> Loop:
    width = size(2048, 32)
    weight = torch.randn(width, width, device=DEVICE)
    inputs = torch.randn(256, width, device=DEVICE)
    seen = [0]

    @torch.compile(dynamic=False)
    def step(x: torch.Tensor, number) -> torch.Tensor:
        return torch.tanh(x @ weight) * (1.0 + number * 0.01)

    torch._dynamo.config.cache_size_limit = 1000
    torch._dynamo.config.recompile_limit = 1000

    def loop(steps: int):
        for _ in range(steps):
            seen[0] += 1
            number = torch.tensor(float(seen[0])) if fixed else seen[0]
            step(inputs, number.to(DEVICE) if fixed else number)
            yield

    return loop
