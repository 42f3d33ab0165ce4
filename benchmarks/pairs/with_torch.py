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


# -- the second look ------------------------------------------------------------------------------


def _graphed(run, fixed: bool):
    """What replays `run` as a CUDA graph, or `run` itself."""
    if not fixed or not has_gpu():
        return run
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def gates_unrolled_torch(fixed: bool) -> Loop:
    width = size(256, 8)
    weight = torch.randn(width, width, device=DEVICE) * 0.05
    start = torch.randn(16, width, device=DEVICE)

    @torch.no_grad()
    def sequence() -> torch.Tensor:
        state = start
        for _ in range(size(60, 2)):
            gate = torch.sigmoid(state @ weight)
            state = gate * torch.tanh(state) + (1 - gate) * state
        return state

    run = _graphed(sequence, fixed)

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


def lengths_compiled_torch(fixed: bool) -> Loop:
    width = size(1024, 16)
    weight = torch.randn(width, width, device=DEVICE)
    lengths = iter(range(33, 4000))
    inputs = torch.randn(4096, width, device=DEVICE)
    torch._dynamo.config.cache_size_limit = 1000
    torch._dynamo.config.recompile_limit = 1000

    @torch.compile(dynamic=False)
    def step(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ weight).sum(1)

    def loop(steps: int):
        for _ in range(steps):
            step(inputs if fixed else inputs[: next(lengths)])
            yield

    return loop


def results_written_torch(fixed: bool) -> Loop:
    import json

    width = size(8192, 64)
    weight = (torch.randn(width, width, device=DEVICE) * 0.01).bfloat16()
    state = torch.randn(4096, width, device=DEVICE).bfloat16()
    record = {f"metric_{i}": [i * 0.5] * 16 for i in range(size(400, 4))}

    @torch.no_grad()
    def loop(steps: int):
        kept = []
        for _ in range(steps):
            out = state
            for _ in range(4):
                out = torch.tanh(out @ weight)
            mean = out.float().mean().item()
            kept.append(mean if fixed else json.dumps({"mean": mean} | record))
            yield

    return loop


def products_of_size(fixed: bool) -> Loop:
    side = size(8192, 64)
    left = torch.randn(side, side, device=DEVICE).bfloat16()
    right = torch.randn(side, side, device=DEVICE).bfloat16()

    def loop(steps: int):
        for _ in range(steps):
            torch.mm(left, right)
            yield

    return loop


def sharded_fsdp(fixed: bool) -> Loop:
    import os

    from torch import distributed
    from torch.distributed.fsdp import fully_shard

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = "29521"
    distributed.init_process_group("nccl" if has_gpu() else "gloo", rank=0, world_size=1)
    width = size(4096, 32)
    layer = torch.nn.TransformerEncoderLayer(
        width, width // 16, 4 * width, 0.0, batch_first=True, device=DEVICE, dtype=torch.bfloat16
    )
    model = torch.nn.TransformerEncoder(layer, 2)
    for part in model.layers:
        fully_shard(part)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(size(16, 1), size(512, 8), width, device=DEVICE, dtype=torch.bfloat16)

    def loop(steps: int):
        for _ in range(steps):
            model(inputs).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop
