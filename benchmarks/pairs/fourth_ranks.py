"""The fourth look: pairs on two GPUs; models of random weights."""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torchvision
from harness import Loop, size
from third_ranks import DEVICE, RANK, _join, _language_step, _shared, _tokens
from with_transformers import _adamw, _gpt2


def parts_sent_mlp(fixed: bool) -> Loop:
    _join()
    width, parts = size(8192, 16), 4
    model = _shared(torchvision.ops.MLP(width, [width] * 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(size(256, 2), width, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            for part in range(parts):
                with model.no_sync() if fixed and part < parts - 1 else nullcontext():
                    model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def uneven_pictures_resnet(fixed: bool) -> Loop:
    _join()
    model = _shared(torchvision.models.resnet101(num_classes=10).to(torch.bfloat16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    count = 128 if fixed else (192, 64)[RANK]
    images = torch.randn(size(count, 2), 3, 224, 224, device=DEVICE, dtype=torch.bfloat16)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def evaluated_by_rank0_gpt2(fixed: bool) -> Loop:
    """In the fixed version both ranks evaluate half."""
    _join()
    model = _shared(_gpt2(8, 1024))
    optimizer, tokens = _adamw(model), _tokens(32, 512)
    kept = _tokens(32 if fixed else 64, 512)
    evaluates = fixed or RANK == 0

    def loop(steps: int):
        for _ in range(steps):
            _language_step(model, optimizer, tokens)
            if evaluates:
                with torch.no_grad():
                    model.module(input_ids=kept)
            yield

    return loop


def steady_ddp_vit(fixed: bool) -> Loop:
    _join()
    model = _shared(torchvision.models.vit_b_16(num_classes=10).to(torch.bfloat16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = torch.randn(size(192, 1), 3, 224, 224, device=DEVICE, dtype=torch.bfloat16)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop
