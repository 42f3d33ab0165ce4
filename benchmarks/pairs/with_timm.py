"""Pairs on timm, models of random weights."""

from __future__ import annotations

from contextlib import nullcontext

import timm
import torch
from harness import Loop, has_gpu, size

DEVICE = "cuda" if has_gpu() else "cpu"
MODEL = "vit_small_patch16_224" if has_gpu() else "test_vit"


def activations_offloaded_vit(fixed: bool) -> Loop:
    model = timm.create_model(MODEL, num_classes=10).to(DEVICE, torch.bfloat16)
    side = size(224, 160)
    images = torch.randn(size(32, 1), 3, side, side, device=DEVICE, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loop(steps: int):
        for _ in range(steps):
            with nullcontext() if fixed else torch.autograd.graph.save_on_cpu():
                loss = model(images).float().square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def single_image_vit(fixed: bool) -> Loop:
    model = timm.create_model(MODEL, num_classes=10).to(DEVICE, torch.bfloat16).eval()
    side = size(224, 160)
    image = torch.randn(1, 3, side, side, device=DEVICE, dtype=torch.bfloat16)

    @torch.no_grad()
    def forward() -> None:
        model(image)

    run = forward
    if fixed and has_gpu():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            forward()
            forward()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            forward()
        run = graph.replay

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


def one_worker_timm(fixed: bool) -> Loop:
    from timm.data import create_transform
    from with_torchvision import Pictures, loader

    transform = create_transform(size(224, 160), is_training=True, auto_augment="rand-m9-mstd0.5")
    workers = size(14 if fixed else 2, 1)
    batches = iter(loader(Pictures(transform), size(64, 1), workers))
    model = timm.create_model("vit_base_patch16_224" if has_gpu() else MODEL, num_classes=10).to(
        DEVICE, torch.bfloat16
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=has_gpu())

    def loop(steps: int):
        for _ in range(steps):
            images, labels = next(batches)
            images = images.to(DEVICE, torch.bfloat16, non_blocking=True)
            out = model(images)
            torch.nn.functional.cross_entropy(out, labels.to(DEVICE, non_blocking=True)).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


# -- the second look ------------------------------------------------------------------------------


def features_kept_vit(fixed: bool) -> Loop:
    model = timm.create_model(MODEL, num_classes=10).to(DEVICE, torch.bfloat16).eval()
    side = size(224, 160)
    images = torch.randn(size(256, 1), 3, side, side, device=DEVICE, dtype=torch.bfloat16)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            features = model.forward_features(images)
            _kept = features.mean(1).cpu() if fixed else features.cpu()
            yield

    return loop


def large_batches_vit(fixed: bool) -> Loop:
    name = "vit_base_patch16_224" if has_gpu() else MODEL
    model = timm.create_model(name, num_classes=10).to(DEVICE, torch.bfloat16).eval()
    side = size(224, 160)
    images = torch.randn(size(256, 1), 3, side, side, device=DEVICE, dtype=torch.bfloat16)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(images)
            yield

    return loop
