"""Pairs on Lightning's Fabric."""

from __future__ import annotations

import torch
import torchvision
from harness import Loop, has_gpu, size
from lightning.fabric import Fabric
from lightning.fabric.plugins.environments import LightningEnvironment


def _fabric() -> Fabric:
    fabric = Fabric(
        accelerator="cuda" if has_gpu() else "cpu",
        devices=1,
        precision="bf16-true",
        plugins=[LightningEnvironment()],  # else it looks for MPI, and starts it
    )
    fabric.launch()
    return fabric


def cache_emptied_fabric(fixed: bool) -> Loop:
    fabric = _fabric()
    model = fabric.setup_module(torchvision.models.convnext_tiny(num_classes=10).eval())
    side = size(224, 32)
    images = torch.randn(size(32, 2), 3, side, side, device=fabric.device, dtype=torch.bfloat16)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(images)
            if not fixed:
                torch.cuda.empty_cache()
            yield

    return loop


class Signals(torch.utils.data.Dataset):
    """Signals that are filtered when they are asked for."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        signal = torch.randn(16_384, generator=generator)
        spectrum = torch.stft(signal, 512, 128, window=torch.hann_window(512), return_complex=True)
        return spectrum.abs().log1p()[:256, :128].contiguous(), index % 10


def few_workers_fabric(fixed: bool) -> Loop:
    fabric = _fabric()
    signals = Signals()
    loader = torch.utils.data.DataLoader(
        signals,
        batch_size=size(64, 2),
        num_workers=size(12 if fixed else 1, 1),
        persistent_workers=True,
        pin_memory=has_gpu(),
        sampler=torch.utils.data.RandomSampler(signals, True, 10_000_000),
    )
    batches = iter(fabric.setup_dataloaders(loader, use_distributed_sampler=False))
    network = torchvision.models.resnet18(num_classes=10)
    network.conv1 = torch.nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-3))

    def loop(steps: int):
        for _ in range(steps):
            spectra, labels = next(batches)
            out = model(spectra.unsqueeze(1).to(torch.bfloat16))
            fabric.backward(torch.nn.functional.cross_entropy(out, labels))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


# -- the second look ------------------------------------------------------------------------------


def signals_in_line_fabric(fixed: bool) -> Loop:
    fabric = _fabric()
    signals = Signals()
    workers = {"num_workers": size(14, 1), "persistent_workers": True} if fixed else {}
    loader = torch.utils.data.DataLoader(
        signals,
        batch_size=size(32, 2),
        pin_memory=has_gpu(),
        sampler=torch.utils.data.RandomSampler(signals, True, 10_000_000),
        **workers,
    )
    batches = iter(fabric.setup_dataloaders(loader, use_distributed_sampler=False))
    network = torchvision.models.resnet34(num_classes=10)
    network.conv1 = torch.nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-3))

    def loop(steps: int):
        for _ in range(steps):
            spectra, labels = next(batches)
            out = model(spectra.unsqueeze(1).to(torch.bfloat16))
            fabric.backward(torch.nn.functional.cross_entropy(out, labels))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def large_batches_fabric(fixed: bool) -> Loop:
    fabric = _fabric()
    network = torchvision.models.convnext_base(num_classes=10)
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=1e-3))
    side = size(224, 32)
    images = torch.randn(size(192, 2), 3, side, side, device=fabric.device, dtype=torch.bfloat16)

    def loop(steps: int):
        for _ in range(steps):
            fabric.backward(model(images).float().square().mean())
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop
