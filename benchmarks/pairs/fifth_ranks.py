"""The fifth look: pairs on two GPUs; models of random weights."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torchvision
from harness import Loop, size
from third_ranks import DEVICE, RANK, _join, _shared


def reduced_by_hand_mlp(fixed: bool) -> Loop:
    """Gradients are averaged one by one behind the backward pass; DistributedDataParallel does it meanwhile."""
    _join()
    width = size(8192, 16)
    network = torchvision.ops.MLP(width, [width] * 5).to(torch.bfloat16)
    model = _shared(network) if fixed else network.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(size(4096, 2), width, device=DEVICE, dtype=torch.bfloat16)

    def loop(steps: int):
        for _ in range(steps):
            model(inputs).square().mean().backward()
            if not fixed:
                for gradient in (parameter.grad for parameter in model.parameters()):
                    if gradient is not None:
                        dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def curves_by_rank0_densenet(fixed: bool) -> Loop:
    _join()
    model = _shared(torchvision.models.densenet121(num_classes=10).to(torch.bfloat16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = torch.randn(size(64, 2), 3, 192, 192, device=DEVICE, dtype=torch.bfloat16)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)
    curve = [n / 7 for n in range(size(400_000, 40))]

    def loop(steps: int):
        for _ in range(steps):
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if RANK == 0 and not fixed:
                _points = [f"{value:.3f}" for value in curve[:: size(2, 1)]]
            yield

    return loop


def steady_ddp_densenet(fixed: bool) -> Loop:
    _join()
    model = _shared(torchvision.models.densenet161(num_classes=10).to(torch.bfloat16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = torch.randn(size(128, 1), 3, 224, 224, device=DEVICE, dtype=torch.bfloat16)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop
