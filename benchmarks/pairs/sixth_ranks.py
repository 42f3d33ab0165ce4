"""The sixth look: pairs on two GPUs; models of random weights."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import torch
import torch.distributed as dist
import torchvision
from harness import Loop, size
from third_ranks import DEVICE, RANK, _join, _shared, _tokens
from with_transformers import _adamw

HALF = torch.bfloat16


def _wide(layers: int):
    width = size(8192, 16)
    return torchvision.ops.MLP(width, [width] * layers).to(HALF), width


def _roberta(layers: int, hidden: int) -> torch.nn.Module:
    import sixth_torch

    return sixth_torch._roberta(layers, hidden)


def accumulated_synced_mlp(fixed: bool) -> Loop:
    """Four batches make one step; gradients are reduced after each of them, or after the last."""
    _join()
    network, width = _wide(5)
    model = _shared(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(size(512, 2), width, device=DEVICE, dtype=HALF)

    def loop(steps: int):
        for _ in range(steps):
            for part in range(4):
                with model.no_sync() if fixed and part < 3 else nullcontext():
                    model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def weights_averaged_mlp(fixed: bool) -> Loop:
    """Each rank trains alone; the faulty version averages all weights after each step."""
    _join()
    network, width = _wide(4)
    model = network.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(size(2048, 2), width, device=DEVICE, dtype=HALF)

    def loop(steps: int):
        for _ in range(steps):
            model(inputs).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if not fixed:
                with torch.no_grad():
                    for parameter in model.parameters():
                        dist.all_reduce(parameter, op=dist.ReduceOp.AVG)
            yield

    return loop


def uneven_texts_roberta(fixed: bool) -> Loop:
    _join()
    model = _shared(_roberta(12, 768))
    optimizer = _adamw(model)
    tokens = _tokens(64 if fixed else (96, 32)[RANK], 256)
    labels = torch.zeros(len(tokens), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def scores_by_rank1_sklearn(fixed: bool) -> Loop:
    from sklearn.metrics import roc_auc_score

    _join()
    model = _shared(torchvision.models.resnet50(num_classes=10).to(HALF))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = torch.randn(size(96, 2), 3, 224, 224, device=DEVICE, dtype=HALF)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)
    random = np.random.default_rng(0)
    truth, guess = random.integers(0, 2, size(60_000, 60)), random.random(size(60_000, 60))

    def loop(steps: int):
        for _ in range(steps):
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if RANK == 1 and not fixed:
                for _ in range(2):
                    roc_auc_score(truth, guess)
            yield

    return loop


def steady_ddp_roberta(fixed: bool) -> Loop:
    _join()
    model = _shared(_roberta(12, 1024))
    optimizer, tokens = _adamw(model), _tokens(64, 256)
    labels = torch.zeros(len(tokens), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            model(input_ids=tokens, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def steady_ddp_r3d(fixed: bool) -> Loop:
    _join()
    model = _shared(torchvision.models.video.r3d_18(num_classes=10).to(HALF))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    clips = torch.randn(size(48, 1), 3, size(16, 4), 112, 112, device=DEVICE, dtype=HALF)
    labels = torch.zeros(len(clips), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            torch.nn.functional.cross_entropy(model(clips), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop
