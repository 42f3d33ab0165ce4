"""Pairs on torchvision, models of random weights; one on DistributedDataParallel."""

from __future__ import annotations

import os

import numpy as np
import torch
import torchvision
from harness import Loop, has_gpu, size
from torch.utils.data import DataLoader, Dataset, RandomSampler

DEVICE = "cuda" if has_gpu() else "cpu"


class Pictures(Dataset):
    """A few pictures, cropped and turned anew each time."""

    def __init__(self, transform) -> None:
        from PIL import Image

        random = np.random.default_rng(0)
        self.pictures = [
            Image.fromarray(random.integers(0, 255, (256, 256, 3), dtype=np.uint8))
            for _ in range(16)
        ]
        self.transform = transform

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.pictures[index % 16].convert("RGB")), index % 10


def augmentation():
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.RandomResizedCrop(size(176, 32)),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)),
        ]
    )


def loader(dataset: Dataset, batch: int, workers: int) -> DataLoader:
    more = {"persistent_workers": True} if workers else {}
    return DataLoader(
        dataset,
        batch_size=batch,
        num_workers=workers,
        sampler=RandomSampler(dataset, True, 10_000_000),
        pin_memory=has_gpu(),
        **more,
    )


def _resnet(name: str = "resnet50") -> torch.nn.Module:
    model = getattr(torchvision.models, name)(num_classes=10)
    return model.to(DEVICE, torch.bfloat16, memory_format=torch.channels_last)


def _images(batch: int, side: int) -> torch.Tensor:
    images = torch.randn(size(batch, 2), 3, size(side, 32), size(side, 32))
    return images.to(memory_format=torch.channels_last)


def _sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)


def _train(model, optimizer, images, labels) -> torch.Tensor:
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def caching_off_resnet(fixed: bool) -> Loop:
    model = _resnet("resnet18")
    optimizer = _sgd(model)
    images = _images(64, 160).to(DEVICE, torch.bfloat16)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            _train(model, optimizer, images, labels)
            yield

    return loop


def accuracy_by_sample_resnet(fixed: bool) -> Loop:
    model = _resnet().eval()
    images = _images(128, 176).to(DEVICE, torch.bfloat16)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    @torch.no_grad()
    def loop(steps: int):
        right = 0
        for _ in range(steps):
            chosen = model(images).argmax(1)
            if fixed:
                right = right + (chosen == labels).sum()
            else:
                for i in range(len(images)):
                    if chosen[i].item() == labels[i].item():
                        right += 1
            yield

    return loop


def launch_blocking_resnet(fixed: bool) -> Loop:
    model = _resnet().eval()
    images = _images(32, 224).to(DEVICE, torch.bfloat16)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(images)
            yield

    return loop


def gradients_finite_ddp(fixed: bool) -> Loop:
    from torch import distributed

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = "29511" if fixed else "29512"
    distributed.init_process_group("nccl" if has_gpu() else "gloo", rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(_resnet())
    optimizer = _sgd(model)
    images = _images(96, 176).to(DEVICE, torch.bfloat16)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        bad = 0
        for _ in range(steps):
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            for parameter in model.parameters():
                finite = torch.isfinite(parameter.grad).all()
                if fixed:
                    bad = bad + ~finite
                elif not finite:
                    bad += 1
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield

    return loop


def pageable_batches_resnet(fixed: bool) -> Loop:
    model = _resnet().eval()
    batches = [_images(96, 224) for _ in range(3)]
    if fixed and has_gpu():
        batches = [batch.pin_memory() for batch in batches]
    side = torch.cuda.Stream() if fixed and has_gpu() else None

    def ahead(number: int) -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            return batches[number % 3].to(DEVICE, non_blocking=True)

    @torch.no_grad()
    def loop(steps: int):
        following = ahead(0) if side else None
        for number in range(steps):
            if side:
                torch.cuda.current_stream().wait_stream(side)
                images = following
                images.record_stream(torch.cuda.current_stream())
                if number + 1 < steps:
                    following = ahead(number + 1)
            else:
                images = batches[number % 3].to(DEVICE)
            model(images.bfloat16())
            yield

    return loop


def boxes_in_python(fixed: bool) -> Loop:
    model = _resnet().eval()
    images = _images(32, 224).to(DEVICE, torch.bfloat16)
    count = size(20_000, 100)
    random = torch.Generator(device=DEVICE).manual_seed(0)
    offsets = torch.rand(count, 5, device=DEVICE, generator=random)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            shift = model(images).float().mean() * 0
            found = (offsets + shift).cpu().numpy()
            if fixed:
                large = (found[:, 2] > 0.1) & (found[:, 3] > 0.1) & (found[:, 4] > 0.5)
                _kept = found[large]
            else:
                _kept = []
                for x, y, width, height, score in found.tolist():
                    if width > 0.1 and height > 0.1 and score > 0.5:
                        _kept.append((x, y, width, height, score))
            yield

    return loop


def no_workers_resnet(fixed: bool) -> Loop:
    batches = iter(loader(Pictures(augmentation()), size(48, 2), size(14, 1) if fixed else 0))
    model = _resnet()
    optimizer = _sgd(model)

    def loop(steps: int):
        for _ in range(steps):
            images, labels = next(batches)
            images = images.to(DEVICE, torch.bfloat16, non_blocking=True)
            _train(model, optimizer, images, labels.to(DEVICE, non_blocking=True))
            yield

    return loop


# -- the second look ------------------------------------------------------------------------------


def blocks_timed_convnext(fixed: bool) -> Loop:
    model = torchvision.models.convnext_small(num_classes=10).to(DEVICE, torch.bfloat16).eval()
    images = _images(48, 224).to(DEVICE, torch.bfloat16)

    def timed(*_) -> None:
        if has_gpu():
            torch.cuda.synchronize()

    if not fixed:
        for stage in model.features:
            for block in stage.children():
                block.register_forward_hook(timed)

    @torch.no_grad()
    def loop(steps: int):
        for _ in range(steps):
            model(images)
            yield

    return loop


def jpegs_read_resnet(fixed: bool) -> Loop:
    import io

    from PIL import Image

    class Jpegs(Pictures):
        def __init__(self, transform) -> None:
            super().__init__(transform)
            self.packed = []
            for picture in self.pictures:
                made = io.BytesIO()
                picture.save(made, "JPEG")
                self.packed.append(made.getvalue())

        def __getitem__(self, index: int):
            picture = Image.open(io.BytesIO(self.packed[index % 16])).convert("RGB")
            return self.transform(picture), index % 10

    batches = iter(loader(Jpegs(augmentation()), size(48, 2), size(14, 1) if fixed else 1))
    model = _resnet()
    optimizer = _sgd(model)

    def loop(steps: int):
        for _ in range(steps):
            images, labels = next(batches)
            images = images.to(DEVICE, torch.bfloat16, non_blocking=True)
            _train(model, optimizer, images, labels.to(DEVICE, non_blocking=True))
            yield

    return loop


def graph_or_not_mobilenet(fixed: bool) -> Loop:
    from with_torch import _graphed

    model = torchvision.models.mobilenet_v3_large(num_classes=10).to(DEVICE).eval()
    images = torch.randn(1, 3, size(224, 32), size(224, 32), device=DEVICE)

    @torch.no_grad()
    def forward() -> torch.Tensor:
        return model(images)

    run = _graphed(forward, fixed)

    def loop(steps: int):
        for _ in range(steps):
            run()
            yield

    return loop


def large_batches_resnet(fixed: bool) -> Loop:
    model = _resnet()
    optimizer = _sgd(model)
    images = _images(512, 224).to(DEVICE, torch.bfloat16, memory_format=torch.channels_last)
    labels = torch.zeros(len(images), dtype=torch.long, device=DEVICE)

    def loop(steps: int):
        for _ in range(steps):
            _train(model, optimizer, images, labels)
            yield

    return loop


def losses_kept_resnet(fixed: bool) -> Loop:
    model = _resnet("resnet18")
    images = _images(16, 96).to(DEVICE, torch.bfloat16)

    def loop(steps: int):
        kept = []
        for _ in range(steps):
            kept.append(model(images).square().mean())  # with all that its gradient needs
            yield
        assert kept

    return loop
